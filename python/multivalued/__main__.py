"""`python -m multivalued`: the command line. Started by torchrun or mpirun, `train` is done by all processes together."""

import os
import signal
import sys

from ._native import main as run
from ._ranks import CHOICES, INTERRUPTED, Ranks, connected, kind_of

_RANKS = "--ranks"


def main() -> int:
    """Runs the command line with this process's arguments, and gives its exit code."""
    # Python would only note Ctrl-C and wait for a command to end. The program has handlers of its own where it needs
    # them.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        arguments, choice = _without_ranks(sys.argv[1:])
        transport = _transport(arguments, choice)
    except (RuntimeError, ValueError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    if transport is None:
        return run(["multivalued", *arguments])
    threads = transport.threads()
    if threads is not None:
        os.environ["RAYON_NUM_THREADS"] = str(threads)
    code = run(["multivalued", *arguments], transport)
    if transport.lost is None and code in (0, 1, INTERRUPTED):
        # Rank 0 may still save or evaluate.
        transport.close()
        return code
    # Neither torch.distributed nor MPI ends in order where a process fails.
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def _without_ranks(arguments: list[str]) -> tuple[list[str], str | None]:
    """The arguments without `--ranks CHOICE`, and the choice."""
    for at, argument in enumerate(arguments):
        if argument == _RANKS and at + 1 < len(arguments):
            return arguments[:at] + arguments[at + 2 :], arguments[at + 1]
        if argument == _RANKS:
            raise ValueError(f"{_RANKS} needs a value: {', '.join(CHOICES)}")
        if argument.startswith(_RANKS + "="):
            return arguments[:at] + arguments[at + 1 :], argument.partition("=")[2]
    return arguments, None


def _transport(arguments: list[str], choice: str | None) -> Ranks | None:
    if arguments[:1] == ["train"]:
        return connected(choice)
    if kind_of(os.environ, choice or "auto") != "none":
        raise ValueError(
            "only `train` is done by several processes together; start this command once, or see docs/cluster.md for "
            "predictions and evaluations on many machines"
        )
    return None


if __name__ == "__main__":
    sys.exit(main())

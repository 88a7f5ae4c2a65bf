"""`python -m multivalued`: the command line."""

import signal
import sys

from ._native import main as run


def main() -> int:
    """Runs the command line with this process's arguments, and gives its exit code."""
    # Python would only note Ctrl-C and wait for a command to end. The program has handlers of its own where it needs
    # them.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    return run(["multivalued", *sys.argv[1:]])


if __name__ == "__main__":
    sys.exit(main())

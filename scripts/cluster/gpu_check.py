"""Several processes on a GPU: what a training says and how long its steps take, alone and with a transport.

    python3 scripts/cluster/gpu_check.py [STEPS]

Needs a GPU, PyTorch with CUDA, NumPy, and the package `multivalued` (installed, or an unpacked wheel on PYTHONPATH);
no data and no network. Prints a short table and ends with 1 where something does not hold:

| what | must hold |
|---|---|
| NCCL with one rank | the sum over one rank changes nothing: its losses are those without a transport, to the bit |
| two processes on this GPU by gloo | their losses are those of one process within 1e-3 (f32) over 10 steps |
| the seam's share of a step | with NCCL and one rank a step takes at most 2 % longer than without a transport |
"""

from __future__ import annotations

import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

LONGEST = 200.0
"""Seconds that one training may take."""

# One step for each epoch, so that the log has the losses of every step.
FEW = [
    "data.size=64", "data.train_count=8", "data.validation_count=2", "data.test_count=2", "train.batch=8",
    "train.epochs=0", "train.steps=10", "train.warmup_steps=2", "train.validate_every=1000", "train.precision=f32",
]  # fmt: skip


def many(steps: int) -> list[str]:
    """The recipe `lidc`, as far as time goes: its network and batch on synthetic images of its size, and with half as
    many steps in an epoch, at whose end ranks compare their weights."""
    return [
        "data.task=raters", "data.size=128", "data.train_count=4096", "data.validation_count=2", "data.test_count=2",
        "train.epochs=0", f"train.steps={steps}", "train.warmup_steps=10", "train.validate_every=100000",
    ]  # fmt: skip


def trained(recipe: str, sets: list[str], out: pathlib.Path, processes: int, **variables: str) -> pathlib.Path:
    """Trains; `processes` is 0 for a training without a transport."""
    words = ["-m", "multivalued", "train", recipe, "--device", "cuda:0", "--out", str(out), "--save-every", "1000"]
    words += [word for change in sets for word in ("--set", change)]
    if processes:
        words = [
            "-m",
            "torch.distributed.run",
            "--standalone",
            "--nproc-per-node",
            str(processes),
            *words,
            "--ranks",
            "torch",
        ]
    environment = os.environ | {"OMP_NUM_THREADS": "1"} | variables
    done = subprocess.run([sys.executable, *words], env=environment, capture_output=True, text=True, timeout=LONGEST)
    # 1: a model of no use, which a few steps make.
    if done.returncode not in (0, 1):
        raise SystemExit(
            f"{' '.join(words)}\nended with {done.returncode}:\n{done.stdout[-2000:]}{done.stderr[-4000:]}"
        )
    return out


def records(out: pathlib.Path, kind: str) -> list[dict]:
    lines = (out / "log.jsonl").read_text().splitlines()
    return [one for one in map(json.loads, lines) if one["kind"] == kind]


def losses(out: pathlib.Path) -> list[float]:
    return [
        value for one in records(out, "epoch") for name, value in one["numbers"].items() if name.startswith("loss.")
    ]


def milliseconds(out: pathlib.Path) -> float:
    """The median time of a step, the first hundred left out.

    The log states the steps per second since the training began. Their time is that between two records: NCCL
    starts in the first step, which is no part of those that follow.
    """
    seconds = [(one["step"], one["step"] / one["steps_per_second"]) for one in records(out, "step")]
    seconds = [one for one in seconds if one[0] >= 100]
    return 1000 * statistics.median((b - a) / (to - at) for (at, a), (to, b) in zip(seconds, seconds[1:]))


def difference(a: list[float], b: list[float]) -> float:
    assert len(a) == len(b) > 0, (len(a), len(b))
    return max(abs(x - y) / max(abs(x), 1e-2) for x, y in zip(a, b))


def main() -> int:
    steps = int(sys.argv[1]) if len(sys.argv) > 1 else 600
    began = time.monotonic()
    rows: list[tuple[str, str, bool]] = []
    with tempfile.TemporaryDirectory() as folder:
        place = pathlib.Path(folder)
        one = losses(trained("shapes-tiny", FEW, place / "few", 0))
        nccl = losses(trained("shapes-tiny", FEW, place / "few-nccl", 1, MULTIVALUED_BACKEND="nccl"))
        rows.append(("NCCL, one rank: losses of 10 steps", f"differ by {difference(one, nccl):.1e}", one == nccl))
        two = losses(trained("shapes-tiny", FEW, place / "few-gloo", 2, MULTIVALUED_BACKEND="gloo"))
        apart = difference(one, two)
        rows.append(("gloo, two processes on one GPU: losses of 10 steps", f"differ by {apart:.1e}", apart < 1e-3))

        # In turns, so that a GPU that grows warm does so for both; single runs of one kind differ by up to 5 %.
        times: dict[str, list[float]] = {"alone": [], "nccl": []}
        for turn in range(5):
            times["alone"].append(milliseconds(trained("lidc", many(steps), place / f"alone-{turn}", 0)))
            out = trained("lidc", many(steps), place / f"nccl-{turn}", 1, MULTIVALUED_BACKEND="nccl")
            times["nccl"].append(milliseconds(out))
        alone, seam = statistics.median(times["alone"]), statistics.median(times["nccl"])
        share = seam / alone - 1

        def listed(name: str) -> str:
            return ", ".join(f"{one:.2f}" for one in times[name])

        rows.append(("step of the recipe lidc, no transport", f"{listed('alone')} ms", True))
        found = f"{listed('nccl')} ms: {100 * share:+.1f} % in the median"
        rows.append(("the same, NCCL with one rank", found, share <= 0.02))
        both = milliseconds(trained("lidc", many(steps), place / "gloo", 2, MULTIVALUED_BACKEND="gloo"))
        rows.append(("the same, two processes on one GPU by gloo", f"{both:.2f} ms", True))
    width = max(len(what) for what, _, _ in rows)
    for what, found, holds in rows:
        print(f"{what.ljust(width)}  {found.ljust(20)}  {'holds' if holds else 'FAILS'}")
    print(f"{time.monotonic() - began:.0f} s")
    return 0 if all(holds for _, _, holds in rows) else 1


if __name__ == "__main__":
    sys.exit(main())

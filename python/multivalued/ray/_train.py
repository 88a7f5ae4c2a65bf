"""One training by several Ray workers together (Ray Train)."""

from __future__ import annotations

import pathlib
from typing import Any

from .._options import Path
from .._ranks import TorchRanks
from .._train import Run, open_run
from .._train import resume as resume_here
from .._train import train as train_here
from ._engine import ray_with


def train(
    *,
    out: Path,
    workers: int = 2,
    threads: int = 1,
    gpus: float = 0.0,
    resume: bool = False,
    **options: Any,
) -> Run:
    """Trains one model by several workers, each on its part of every batch; what is computed is what one worker would
    compute with the whole batch. Options are those of `multivalued.train` that name things every node finds: `recipe`,
    `data`, `seed`, `minutes`. `out` is a folder that rank 0's node and this one see.
    """
    ray_with("train")
    from ray.train import ScalingConfig
    from ray.train.torch import TorchTrainer

    folder = pathlib.Path(out).absolute()
    settings = options | {"out": str(folder), "threads": threads, "resume": resume, "gpus": gpus}
    share = {"CPU": threads, **({"GPU": gpus} if gpus else {})}
    scaling = ScalingConfig(num_workers=workers, use_gpu=gpus > 0, resources_per_worker=share)
    TorchTrainer(_work, train_loop_config=settings, scaling_config=scaling).fit()
    return open_run(folder)


def _work(settings: dict[str, Any]) -> None:
    """What each worker does; Ray has connected them by torch.distributed."""
    options = dict(settings)
    out, resumed, gpus = options.pop("out"), options.pop("resume"), options.pop("gpus")
    ranks = TorchRanks()
    device = f"cuda:{ranks.local_rank}" if gpus >= 1 else "cuda:0" if gpus > 0 else "cpu"
    if resumed:
        resume_here(out, ranks=ranks, device=device, progress=False, threads=options["threads"])
    else:
        train_here(out=out, ranks=ranks, device=device, progress=False, **options)
    ranks.close()

"""Ray itself, and the clear word where it is missing."""

from __future__ import annotations

from typing import Any


def ray_with(part: str | None = None) -> Any:
    """The package `ray`, connected to a cluster, or to this machine alone where there is none."""
    try:
        import ray

        if part == "data":
            import ray.data
    except ImportError as error:
        wanted = "ray" if part is None else f"ray[{part}]"
        raise ImportError(f"multivalued.ray needs Ray: pip install '{wanted}' pyarrow ({error})") from error
    if not ray.is_initialized():
        # The address of a cluster comes from RAY_ADDRESS.
        ray.init(include_dashboard=False, log_to_driver=True)
    if part == "data":
        # What is told here is told by this package.
        ray.data.DataContext.get_current().enable_progress_bars = False
    return ray


def placed(threads: int, gpus: float) -> dict[str, Any]:
    """What Ray is asked for, for each worker."""
    if threads < 1:
        raise ValueError(f"threads is {threads}; at least one computes")
    return {"num_cpus": threads, **({"num_gpus": gpus} if gpus > 0 else {})}


def device_of(gpus: float) -> str:
    """A worker with a GPU, or a share of one, sees no other; one without computes on the processor."""
    return "cuda:0" if gpus > 0 else "cpu"

"""Several processes: what says so, what is refused, and a transport of one rank through the whole seam. More processes
are in scripts/test-cluster, which needs torch, MPI and Ray."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import multivalued as mv
from multivalued._ranks import CudaArray, Ranks, kind_of
from multivalued._rle import decode, encode

SMALL = {"train": {"steps": 4, "epochs": 0, "warmup_steps": 1, "batch": 2}, "model": {"channels": [4, 8]}}


class One(Ranks):
    """A transport of a single rank, which remembers what was added up."""

    rank = local_rank = 0
    size = local_size = 1

    def __init__(self, fails_at: str | None = None) -> None:
        super().__init__()
        self.sums: list[tuple[str, int]] = []
        self._fails_at = fails_at
        self._watcher.start()

    def all_reduce(self, what: str, address: int, count: int, device: int | None, stream: int | None) -> None:
        self.sums.append((what, count))
        super().all_reduce(what, address, count, device, stream)

    def _sum(self, values: npt.NDArray[np.float32]) -> None:
        assert values.dtype == np.float32 and values.flags.writeable and not values.flags.owndata
        if self.sums[-1][0] == self._fails_at:
            raise OSError("the cable was cut")

    def _beat(self, value: float) -> float:
        return value


@pytest.fixture(scope="module")
def shapes() -> mv.Dataset:
    return mv.generate("shapes", {"train": 8, "validation": 2, "test": 2}, size=32)


def trained(shapes: mv.Dataset, out: pathlib.Path, **options: Any) -> mv.Run:
    return mv.train(shapes, recipe=SMALL, out=out, progress=False, device="cpu", **options)


def test_one_rank_with_a_transport_trains_as_none(shapes: mv.Dataset, tmp_path: pathlib.Path) -> None:
    alone, ranks = trained(shapes, tmp_path / "alone"), One()
    among = trained(shapes, tmp_path / "among", ranks=ranks)
    assert (alone.path / "best/model.safetensors").read_bytes() == (among.path / "best/model.safetensors").read_bytes()
    steps = [count for what, count in ranks.sums if what == "the gradients"]
    # Terms of the loss that begin to count make it longer.
    assert len(steps) == 4 and min(steps) > among.model._facts["values"]
    ranks.close()


def test_a_transport_that_fails_leaves_a_checkpoint(shapes: mv.Dataset, tmp_path: pathlib.Path) -> None:
    ranks = One(fails_at="the gradients")
    with pytest.raises(ConnectionError, match=r"another rank has ended or cannot be reached \(the cable was cut\); saved"):
        trained(shapes, tmp_path / "run", ranks=ranks)
    ranks._leaves.set()
    run = mv.resume(tmp_path / "run", shapes, progress=False, device="cpu")
    assert run.finished and run.log[-1]["step"] == 4


def test_the_environment_says_what_connects() -> None:
    torchrun = {"RANK": "0", "WORLD_SIZE": "2", "LOCAL_RANK": "0"}
    assert kind_of(torchrun) == kind_of(torchrun | {"PMI_SIZE": "2"}) == "torch"
    assert kind_of({"OMPI_COMM_WORLD_SIZE": "3"}) == "mpi"
    assert kind_of(torchrun, "none") == kind_of({"PMI_SIZE": "1"}) == kind_of({"WORLD_SIZE": "many", "RANK": "0"}) == "none"
    with pytest.raises(ValueError, match="ranks is 'smoke'; choose one of auto, torch, mpi, none"):
        kind_of({}, "smoke")


def test_other_commands_are_not_done_by_several_processes(tmp_path: pathlib.Path) -> None:
    environment = os.environ | {"RANK": "0", "WORLD_SIZE": "2"}
    for words, said in ((["recipes"], "only `train` is done by several"), (["train", "--ranks"], "--ranks needs a value")):
        done = subprocess.run(
            [sys.executable, "-m", "multivalued", *words], env=environment, cwd=tmp_path, capture_output=True, text=True
        )
        assert done.returncode == 2 and said in done.stderr, done.stderr


def test_values_on_a_gpu_are_handed_over_by_their_address() -> None:
    interface = CudaArray(4096, 7).__cuda_array_interface__
    assert interface["data"] == (4096, False) and interface["shape"] == (7,) and interface["typestr"] == "<f4"


def test_run_lengths_are_those_of_coco_and_go_back() -> None:
    draw = np.random.default_rng(1)
    for size in ((1, 1), (5, 3), (16, 9)):
        for share in (0.0, 0.3, 1.0):
            mask = draw.random(size) < share
            counts = encode(mask)
            assert counts.sum() == mask.size and counts[1::2].sum() == mask.sum()
            assert np.array_equal(decode(counts, size), mask)
    with pytest.raises(ValueError, match="run lengths of 5 pixels for a mask of 2x2"):
        decode([5], (2, 2))


def test_without_ray_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(ImportError, match="multivalued.ray needs Ray: pip install"):
        mv.ray.sweep(["shapes-tiny"], out=tmp_path)

"""The processes that train one model together: torch.distributed or MPI connects them, as the environment says.

All that a training asks of a transport is the sum of one run of float32 values over all processes
(`Ranks.all_reduce`). The values are not copied: `all_reduce` is given their address, and makes a NumPy array over it,
or on a GPU a tensor by the CUDA array interface, on the stream that the training computes on.

Beside the sums every process takes part in a sum of its own each half second (`_watch`). Where one of those does not
come, a process has ended, hangs or cannot be reached. The next sum of the training then raises a `ConnectionError`; a
process that already waits in one ends by itself.
"""

from __future__ import annotations

import contextlib
import ctypes
import importlib.util
import os
import re
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from datetime import timedelta
from typing import Any

import numpy as np
import numpy.typing as npt

CHOICES = ("auto", "torch", "mpi", "none")
"""What may connect processes; "auto" asks the environment."""

INTERRUPTED = 75
"""The exit code where another process was lost: as for a training that was interrupted and can go on."""

_BEAT = 0.5
"""Seconds between two signs of life."""
_GRACE = 1.0
"""Seconds that a sum of the training may last after a process was lost."""
_LONGEST = timedelta(hours=24)
"""A sum of the training may wait for a rank that validates or evaluates."""


def _silence() -> float:
    """Seconds without a sign of life after which a process counts as lost."""
    return float(os.environ.get("MULTIVALUED_RANK_TIMEOUT", "6"))


class Ranks:
    """What connects the processes of a training."""

    rank: int
    """Which of them this one is; rank 0 alone writes files."""
    size: int
    """How many there are."""
    local_rank: int
    """Which of those on this machine this one is."""
    local_size: int
    """How many are on this machine."""

    def __init__(self) -> None:
        self._lost: str | None = None
        self._lost_at = 0.0
        self._in_sum = False
        self._leaves = threading.Event()
        # Of a test: what is named here is not added up.
        self._unreduced = os.environ.get("MULTIVALUED_TEST_UNREDUCED")
        self._watcher = threading.Thread(target=self._watch, name="multivalued-ranks", daemon=True)

    @property
    def lost(self) -> str | None:
        """Why another process cannot be reached; None as long as all can."""
        return self._lost

    def threads(self) -> int | None:
        """Engine threads for this process, so that all on this machine together have as many as there are cores."""
        if "RAYON_NUM_THREADS" in os.environ or self.local_size == 1:
            return None
        return max(1, len(os.sched_getaffinity(0)) // self.local_size)

    def all_reduce(self, what: str, address: int, count: int, device: int | None, stream: int | None) -> None:
        """Puts the sums over all processes in the place of `count` float32 values at an address."""
        if self._lost is not None:
            raise ConnectionError(self._lost)
        if what == self._unreduced:
            return
        self._in_sum = True
        try:
            if device is None or stream is None:
                self._sum(np.ctypeslib.as_array((ctypes.c_float * count).from_address(address)))
            else:
                self._sum_on_gpu(CudaArray(address, count), device, stream)
        except ConnectionError:
            raise
        except Exception as error:
            raise ConnectionError(self._lose(_reason(error))) from error
        finally:
            self._in_sum = False

    def close(self) -> None:
        """Leaves when all others leave, too."""
        self._leaves.set()
        if self._lost is None:
            self._watcher.join()

    def _lose(self, reason: str) -> str:
        if self._lost is None:
            self._lost_at = time.monotonic()
            self._lost = f"another rank has ended or cannot be reached ({reason})"
        return self._lost

    def _watch(self) -> None:
        """Exchanges signs of life until all leave."""
        while self._lost is None:
            try:
                leaving = self._beat(1.0 if self._leaves.is_set() else 0.0)
            except Exception as error:
                if self._leaves.is_set():
                    # It may have left a moment before this one heard that all leave.
                    return
                self._lose(_reason(error))
                break
            if leaving >= self.size - 0.5:
                return
            self._leaves.wait(_BEAT) if not self._leaves.is_set() else time.sleep(_BEAT / 5)
        # A sum that never ends cannot be told to: the process ends with it. What is on disk is complete.
        while not self._leaves.is_set():
            if self._in_sum and time.monotonic() - self._lost_at > _GRACE:
                where = f"rank {self.rank} of {self.size}"
                remedy = "the last checkpoint stays; go on with --resume, with any number of ranks"
                try:
                    print(f"interrupted: {where}: {self._lost}; {remedy}", file=sys.stderr, flush=True)
                finally:
                    os._exit(INTERRUPTED)
            time.sleep(0.05)

    def _sum(self, values: npt.NDArray[np.float32]) -> None:
        raise NotImplementedError

    def _sum_on_gpu(self, values: CudaArray, device: int, stream: int) -> None:
        raise NotImplementedError

    def _beat(self, value: float) -> float:
        """The sum of one value, within the time after which a process counts as lost."""
        raise NotImplementedError


def _reason(error: Exception) -> str:
    """What a transport says, without places in its source and advice.

    >>> _reason(RuntimeError("[/a/gloo/pair.cc:545] Read error [::1]:6: Connection reset by peer. This is typically ..."))
    'Read error [::1]:6: Connection reset by peer'
    """
    first = (str(error).strip().splitlines() or [type(error).__name__])[0]
    return re.sub(r"^\[[^\]]*\]\s*", "", first).partition(". ")[0]


class CudaArray:
    """float32 values on a GPU, as other packages take them without a copy."""

    def __init__(self, address: int, count: int) -> None:
        self.address, self.count = address, count
        self.__cuda_array_interface__ = {
            "shape": (count,),
            "typestr": "<f4",
            "data": (address, False),
            "strides": None,
            "version": 3,
        }


class TorchRanks(Ranks):
    """Processes that torch.distributed connects: gloo for this machine's memory and for GPUs that several processes
    share, NCCL for a GPU of its own. A process group that is there already is used as it is."""

    def __init__(self) -> None:
        super().__init__()
        import torch
        import torch.distributed as distributed

        self._torch, self._distributed = torch, distributed
        self._owns = not distributed.is_initialized()
        if self._owns:
            distributed.init_process_group("gloo", timeout=_LONGEST)
        self.rank, self.size = distributed.get_rank(), distributed.get_world_size()
        self.local_rank = int(os.environ.get("LOCAL_RANK", "0"))
        self.local_size = int(os.environ.get("LOCAL_WORLD_SIZE", "1"))
        self._group = distributed.new_group(backend="gloo", timeout=_LONGEST)
        self._beats = distributed.new_group(backend="gloo", timeout=timedelta(seconds=_silence()))
        self._gpu_group: Any = None
        self._gpu_stream: Any = None
        self._tensors: dict[tuple[int, int], Any] = {}
        self._watcher.start()

    def _sum(self, values: npt.NDArray[np.float32]) -> None:
        self._distributed.all_reduce(self._torch.from_numpy(values), group=self._group)

    def _sum_on_gpu(self, values: CudaArray, device: int, stream: int) -> None:
        torch = self._torch
        if self._gpu_group is None:
            with torch.cuda.device(device):
                self._gpu_group = self._group_of_gpus()
        # Another training of this process has a stream of its own.
        if self._gpu_stream is None or self._gpu_stream.cuda_stream != stream:
            self._gpu_stream = torch.cuda.ExternalStream(stream, device=device)
        # A training's values lie at one of few addresses in turns, and a tensor over them takes as long as their sum.
        if len(self._tensors) > 16:
            self._tensors.clear()
        place = (values.address, values.count)
        if place not in self._tensors:
            self._tensors[place] = torch.as_tensor(values, device=f"cuda:{device}")
        # On the training's own stream: what was computed before comes first, and what is computed next waits, both on
        # the GPU.
        with torch.cuda.stream(self._gpu_stream):
            self._distributed.all_reduce(self._tensors[place], group=self._gpu_group)

    def _group_of_gpus(self) -> Any:
        wanted = os.environ.get("MULTIVALUED_BACKEND")
        if wanted is None:
            # NCCL refuses two processes on one GPU.
            shared = self.local_size > self._torch.cuda.device_count()
            wanted = "nccl" if self._distributed.is_nccl_available() and not shared else "gloo"
        return self._group if wanted == "gloo" else self._distributed.new_group(backend=wanted, timeout=_LONGEST)

    def _beat(self, value: float) -> float:
        values = self._torch.tensor([value])
        self._distributed.all_reduce(values, group=self._beats)
        return float(values.item())

    def close(self) -> None:
        super().close()
        if self._owns and self._lost is None:
            self._distributed.destroy_process_group()


class MpiRanks(Ranks):
    """Processes that MPI connects, by mpi4py. Values on a GPU need an MPI that knows CUDA."""

    def __init__(self) -> None:
        super().__init__()
        from mpi4py import MPI

        self._mpi = MPI
        if MPI.Query_thread() < MPI.THREAD_SERIALIZED:
            raise RuntimeError("this MPI allows one thread only; build or load one with MPI_THREAD_SERIALIZED")
        # Of two threads one calls MPI at a time.
        self._lock = threading.Lock()
        world = MPI.COMM_WORLD
        self.rank, self.size = world.Get_rank(), world.Get_size()
        here = world.Split_type(MPI.COMM_TYPE_SHARED, self.rank)
        self.local_rank, self.local_size = here.Get_rank(), here.Get_size()
        self._group, self._beats = world.Dup(), world.Dup()
        self._watcher.start()

    def _finish(self, request: Any, seconds: float, pause: float) -> None:
        """Waits for a request, so that the other thread may call MPI meanwhile."""
        end, tries = time.monotonic() + seconds, 0
        while True:
            with self._lock:
                if request.Test():
                    return
            tries += 1
            if self._lost is not None:
                raise ConnectionError(self._lost)
            if time.monotonic() > end:
                raise TimeoutError(f"no sign of life for {seconds:.0f} s")
            # The first tries only let other threads run.
            time.sleep(0 if tries < 200 else pause)

    def _sum_any(self, values: Any) -> None:
        with self._lock:
            request = self._group.Iallreduce(self._mpi.IN_PLACE, values, op=self._mpi.SUM)
        self._finish(request, _LONGEST.total_seconds(), 0.0002)

    def _sum(self, values: npt.NDArray[np.float32]) -> None:
        self._sum_any(values)

    def _sum_on_gpu(self, values: CudaArray, device: int, stream: int) -> None:
        import torch

        with torch.cuda.device(device):
            torch.cuda.ExternalStream(stream, device=device).synchronize()
            self._sum_any(torch.as_tensor(values, device=f"cuda:{device}"))

    def _beat(self, value: float) -> float:
        values = np.array([value], np.float32)
        with self._lock:
            request = self._beats.Iallreduce(self._mpi.IN_PLACE, values, op=self._mpi.SUM)
        self._finish(request, _silence(), 0.02)
        return float(values[0])


_MPI_SIZES = ("OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "MV2_COMM_WORLD_SIZE")


def kind_of(environment: Mapping[str, str], choice: str = "auto") -> str:
    """What connects this process to others: "torch", "mpi" or "none".

    >>> kind_of({"RANK": "1", "WORLD_SIZE": "2", "MASTER_ADDR": "node-1"})
    'torch'
    >>> kind_of({"PMI_RANK": "0", "PMI_SIZE": "4"}), kind_of({"WORLD_SIZE": "1"}), kind_of({}, "mpi")
    ('mpi', 'none', 'mpi')
    """
    if choice not in CHOICES:
        raise ValueError(f"ranks is {choice!r}; choose one of {', '.join(CHOICES)}")
    if choice != "auto":
        return choice

    def number(name: str) -> int:
        value = environment.get(name, "")
        return int(value) if value.isdigit() else 0

    if "RANK" in environment and number("WORLD_SIZE") > 1:
        return "torch"
    if any(number(name) > 1 for name in _MPI_SIZES):
        return "mpi"
    return "none"


def connected(choice: str | None = None) -> Ranks | None:
    """What connects this process to others; None where it is alone. `choice`, or the variable MULTIVALUED_RANKS,
    says what to use: then it is used for a single process, too."""
    choice = choice or os.environ.get("MULTIVALUED_RANKS") or "auto"
    kind = kind_of(os.environ, choice)
    if kind == "none":
        return None
    package, how = ("torch", "pip install torch") if kind == "torch" else ("mpi4py", "pip install mpi4py")
    if importlib.util.find_spec(package) is None:
        raise RuntimeError(
            f"this process was started as one of several, which {package} connects, but {package} is not installed; "
            f"{how}, or train alone with --ranks none"
        )
    return TorchRanks() if kind == "torch" else MpiRanks()


@contextlib.contextmanager
def joined(ranks: str | Ranks | None) -> Iterator[Ranks | None]:
    """The transport for one training. One that was made here is left at the end, when all others leave."""
    if isinstance(ranks, Ranks):
        yield ranks
        return
    transport = connected(ranks)
    try:
        yield transport
    except BaseException:
        # The others hear of it when this process ends or lets its connections go.
        if transport is not None:
            transport._lose("this process failed")
            transport._leaves.set()
        raise
    if transport is not None:
        transport.close()

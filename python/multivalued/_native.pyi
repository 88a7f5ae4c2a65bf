from collections.abc import Callable, Sequence
from os import PathLike
from typing import Any

import numpy as np
import numpy.typing as npt

from ._arrays import Array, MaskSet
from ._options import Reading

Path = str | PathLike[str]
Listener = Callable[[str], None]
Floats = npt.NDArray[np.float64]

__version__: str
METRICS: list[str]

class DeviceError(RuntimeError): ...

def main(arguments: Sequence[str], transport: object = None) -> int: ...
def panic(message: str) -> None: ...

class Cases:
    notes: list[str]
    parts: list[str]
    def __len__(self) -> int: ...
    def hash(self) -> str: ...
    def select(self, numbers: Sequence[int]) -> Cases: ...
    def case(self, at: int) -> dict[str, Any]: ...
    def write(self, folder: Path) -> None: ...

def given(
    ids: Sequence[str],
    groups: Sequence[str],
    parts: Sequence[str],
    images: Sequence[Array],
    masks: Sequence[MaskSet],
    truths: Sequence[MaskSet | None],
) -> Cases: ...
def read_dataset(path: Path, how: Reading, listener: Listener) -> Cases: ...
def generate(
    task: str, size: int | None, seed: int, counts: Sequence[tuple[str, int]], films: Path | None
) -> Cases: ...
def task_names() -> list[str]: ...
def validate(path: Path, how: Reading) -> str: ...
def read_image(path: Path) -> list[npt.NDArray[np.float32]]: ...

class Model:
    def __init__(
        self, folder: Path, device: str, views: int | None, threads: int | None, listener: Listener
    ) -> None: ...
    def facts(self) -> str: ...
    def levels(self) -> str: ...
    def predict(
        self,
        images: Sequence[Array],
        top: int | None,
        coverage: float | None,
        list: int | None,
        merge: float | None,
    ) -> list[dict[str, Any]]: ...
    def evaluate(
        self,
        other: Cases | None,
        own: Cases | None,
        data: Path | None,
        split: str | None,
        how: Reading,
        html: Path | None,
        listener: Listener,
    ) -> tuple[str, str]: ...
    def calibrate(
        self,
        level: float,
        other: Cases | None,
        own: Cases | None,
        data: Path | None,
        split: str | None,
        how: Reading,
        listener: Listener,
    ) -> str: ...

def export(run: Path, out: Path, attribution: str | None) -> int: ...
def combine(runs: Sequence[Path], out: Path) -> int: ...
def strip(image: Array, outputs: MaskSet, labels: MaskSet | None) -> bytes: ...
def recipe(name: str | None, stated: str | None, sets: Sequence[str]) -> str: ...
def recipe_names() -> list[str]: ...
def recipe_toml(stated: str) -> str: ...
def plan(
    cases: Cases | None,
    data: Path | None,
    minutes: float | None,
    device_name: str,
    how: Reading,
    threads: int | None,
    listener: Listener,
) -> str: ...
def train(
    recipe: str | None,
    stated: str | None,
    cases: Cases | None,
    data: Path | None,
    out: Path | None,
    minutes: float | None,
    folds: int | None,
    from_model: Path | None,
    sets: Sequence[str],
    seed: int | None,
    device_name: str,
    resume: bool,
    save_every: float,
    how: Reading,
    threads: int | None,
    follow: Callable[[str, int, int | None, int, float, dict[str, float]], object],
    listener: Listener,
    transport: object,
) -> tuple[Any, bool]: ...
def metric(name: str, outputs: Sequence[MaskSet], labels: Sequence[MaskSet]) -> Floats: ...
def ged_sampled(outputs: Sequence[MaskSet], labels: Sequence[MaskSet], count: int, seed: int) -> Floats: ...
def overlaps(a: MaskSet, b: MaskSet, dice: bool) -> Floats: ...
def report(
    outputs: Sequence[MaskSet],
    labels: Sequence[MaskSet],
    truths: Sequence[MaskSet | None],
    groups: Sequence[str],
    spacing: tuple[float, float] | None,
    seed: int,
    resamples: int,
    details: bool,
) -> str: ...
def report_of_cases(
    cases: Cases, outputs: Sequence[MaskSet], part: str, data_hash: str, resamples: int
) -> tuple[str, str]: ...
def scores(
    outputs: Sequence[MaskSet],
    labels: Sequence[MaskSet],
    truths: Sequence[MaskSet | None],
    spacing: tuple[float, float] | None,
    seed: int,
) -> str: ...
def consensus(labels: MaskSet, staple: bool) -> npt.NDArray[Any]: ...
def listed(outputs: MaskSet, count: int) -> tuple[list[int], list[float], float]: ...
def agreement(labels: Sequence[MaskSet], groups: Sequence[str]) -> str: ...

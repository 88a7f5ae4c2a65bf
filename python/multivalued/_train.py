"""Plans, trainings and the runs they leave."""

from __future__ import annotations

import json
import os
import pathlib
import sys
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from . import _native
from ._arrays import Array
from ._data import Dataset
from ._log import hear
from ._model import Model, given
from ._options import Path, reading
from ._progress import Line, Progress
from ._ranks import Ranks, joined
from ._report import Report

Recipe = dict[str, Any]


Callback = Callable[[Progress], object]


@dataclass(frozen=True)
class Plan:
    """The recipe that suits some data."""

    recipe: Recipe
    reasons: dict[str, str]
    """Why a key has its value."""
    warnings: tuple[str, ...]
    seconds: float | None
    """How long the training will take here, about."""
    toml: str
    """The recipe as a file, each choice with its reason."""

    def __repr__(self) -> str:
        steps = self.recipe["train"]["steps"]
        time_needed = "" if self.seconds is None else f", about {self.seconds / 60:.1f} minutes"
        return f"Plan({steps} steps{time_needed}, {len(self.reasons)} reasons)"


def plan(
    images: Sequence[object] | Array | Dataset | None = None,
    masks: Sequence[object] | Array | None = None,
    *,
    data: Path | None = None,
    minutes: float | None = None,
    device: str = "auto",
    threads: int | None = None,
    **options: Any,
) -> Plan:
    """The recipe that `train` would follow for these data, with the reason for each choice.

    Options are those of `Dataset` for arrays and of `read_dataset` for a folder.
    """
    dataset = given(images, masks, data, options)
    if dataset is None and data is None:
        raise ValueError("nothing to plan for: give images and masks, or data=")
    how = reading(**(options if dataset is None else {}))
    cases = None if dataset is None else dataset._cases
    found = json.loads(_native.plan(cases, data, _minutes(minutes), device, how, threads, hear))
    return Plan(found["recipe"], dict(found["reasons"]), tuple(found["warnings"]), found["seconds"], found["toml"])


def train(
    images: Sequence[object] | Array | Dataset | None = None,
    masks: Sequence[object] | Array | None = None,
    *,
    data: Path | None = None,
    recipe: str | Recipe | None = None,
    out: Path | None = None,
    minutes: float | None = None,
    folds: int | None = None,
    start_from: Path | None = None,
    seed: int | None = None,
    device: str = "auto",
    threads: int | None = None,
    save_every: float = 30.0,
    callbacks: Sequence[Callback] = (),
    progress: bool = True,
    ranks: str | Ranks | None = None,
    **options: Any,
) -> Run:
    """Trains a model and scores it; `out` becomes the run's folder, as the command line makes it.

    Data are arrays (`masks[i]` is (readers, h, w), numbers of readers may differ), a `Dataset`, a folder (`data`), or
    those that the recipe names. Without a recipe one is planned, to take `minutes` where they are given. A recipe is a
    name, a .toml file or a dictionary. Options are those of `Dataset` for arrays and of `read_dataset` for a folder.

    Callbacks get a `Progress`; one that returns False ends the training, as Ctrl-C does: a checkpoint is saved and
    `resume` goes on from it.

    In a process that torchrun or mpirun has started beside others, all of them train one model together, each on its
    part of every batch; only rank 0 writes. `ranks` is "torch" or "mpi" to say what connects them, "none" to train
    alone; docs/cluster.md has more.

    >>> import multivalued as mv, tempfile
    >>> small = {"train": {"steps": 4, "epochs": 0, "warmup_steps": 1, "batch": 2}, "model": {"channels": [4, 8]}}
    >>> shapes = mv.generate("shapes", {"train": 8, "validation": 2, "test": 2}, size=32)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     run = mv.train(shapes, recipe=small, out=folder + "/run", progress=False, device="cpu")
    ...     run.finished, run.report.summary["cases"]
    (True, 2)
    """
    dataset = given(images, masks, data, options)
    if dataset is None and data is None and recipe is None:
        raise ValueError("nothing to train on: give images and masks, data=, or a recipe that names its data")
    how = reading(**(options if dataset is None else {}))
    asked = _Asked(
        dataset=dataset,
        data=data,
        recipe=recipe,
        out=out,
        minutes=_minutes(minutes),
        folds=folds,
        start_from=start_from,
        seed=seed,
        device=device,
        threads=threads,
        save_every=save_every,
        how=how,
    )
    return _trained(asked, callbacks, progress, ranks)


def resume(
    run: Path | Run,
    images: Sequence[object] | Array | Dataset | None = None,
    masks: Sequence[object] | Array | None = None,
    *,
    device: str = "auto",
    threads: int | None = None,
    save_every: float = 30.0,
    callbacks: Sequence[Callback] = (),
    progress: bool = True,
    ranks: str | Ranks | None = None,
    **options: Any,
) -> Run:
    """Goes on with a training from its last checkpoint. One that was given arrays needs the same arrays again.

    The number of processes (`ranks`, as for `train`) may be another one than before.
    """
    out = run.path if isinstance(run, Run) else pathlib.Path(run)
    dataset = given(images, masks, None, options)
    if dataset is None and isinstance(run, Run):
        dataset = run._own
    asked = _Asked(
        dataset=dataset, out=out, device=device, threads=threads, save_every=save_every, how=reading(), resumed=True
    )
    return _trained(asked, callbacks, progress, ranks)


@dataclass(frozen=True)
class _Asked:
    """What is to be trained, and how; not who hears of it."""

    dataset: Dataset | None
    out: Path | None
    device: str
    threads: int | None
    save_every: float
    how: Any
    """How data are read (`reading`)."""
    data: Path | None = None
    recipe: str | Recipe | None = None
    minutes: float | None = None
    folds: int | None = None
    start_from: Path | None = None
    seed: int | None = None
    resumed: bool = False


def _trained(asked: _Asked, callbacks: Sequence[Callback], progress: bool, ranks: str | Ranks | None) -> Run:
    with joined(ranks) as transport:
        leads = transport is None or transport.rank == 0
        if asked.resumed and leads and asked.out is not None:
            asked = replace(asked, out=open_run(asked.out).path)
        if transport is not None and asked.threads is None:
            asked = replace(asked, threads=transport.threads())
        line = Line(sys.stderr) if progress and leads else None
        listener = _ignore if not leads else hear if line is None else line.hear
        path, finished = _followed(asked, line, callbacks if leads else (), listener, transport)
    run = Run(path, own=asked.dataset, device=asked.device, threads=asked.threads, finished=finished)
    if finished and leads:
        _warn_of_no_use(run)
    return run


def _ignore(_: str) -> None:
    """What only rank 0 tells."""


def _followed(
    asked: _Asked,
    line: Line | None,
    callbacks: Sequence[Callback],
    listener: Callable[[str], None],
    transport: Ranks | None,
) -> tuple[Any, bool]:
    """A training with its progress line and its callbacks."""

    def follow(kind: str, step: int, total: int | None, epoch: int, share: float, numbers: dict[str, float]) -> bool:
        told = Progress(kind, step, total, epoch, share, numbers)
        if line is not None:
            line.show(told)
        # All hear of it, whatever one of them says.
        said = [callback(told) for callback in callbacks]
        return all(word is not False for word in said)

    try:
        return _native.train(
            asked.recipe if isinstance(asked.recipe, str) else None,
            json.dumps(asked.recipe) if isinstance(asked.recipe, dict) else None,
            None if asked.dataset is None else asked.dataset._cases,
            asked.data,
            asked.out,
            asked.minutes,
            asked.folds,
            asked.start_from,
            [],
            asked.seed,
            asked.device,
            asked.resumed,
            asked.save_every,
            asked.how,
            asked.threads,
            follow,
            listener,
            transport,
        )
    except KeyboardInterrupt as stopped:
        words = str(stopped)
        where = words.partition(": ")[0] if words else str(asked.out)
        raise KeyboardInterrupt(f"{words} (in Python: multivalued.resume({where!r}))") from None
    finally:
        if line is not None:
            line.end()


def _warn_of_no_use(run: Run) -> None:
    """Says what the command line says with its exit code 1."""
    if not (run.path / "verdict.json").is_file():
        reason = "nothing says how good the model is; give the data more groups"
    elif run.verdict["useful"]:
        return
    else:
        reason = next(iter(run.verdict["findings"]), "the model is of no use")
    warnings.warn(f"{run.path}: {reason}", stacklevel=4)


def _minutes(minutes: float | None) -> float | None:
    if minutes is not None and not 0 < minutes <= 100_000:
        raise ValueError(f"minutes is {minutes}; give a number above 0, such as 10")
    return minutes


class Run:
    """A training's folder: its model, its scores and its log."""

    def __init__(
        self,
        path: Path,
        *,
        own: Dataset | None = None,
        device: str = "auto",
        threads: int | None = None,
        finished: bool | None = None,
    ) -> None:
        self.path = pathlib.Path(path)
        self._own = own
        self._device, self._threads = device, threads
        self._finished = finished
        self._model: Model | None = None

    @property
    def finished(self) -> bool:
        """Whether the training came to its end."""
        if self._finished is None:
            last = self.log[-1] if self.log else {}
            self._finished = last.get("kind") == "end" and str(last.get("reason", "")).startswith("finished")
        return self._finished

    @property
    def model(self) -> Model:
        """The model of the best validation."""
        if self._model is None:
            self._model = Model(self.path, os.fspath(self.path), self._device, None, self._threads)
            self._model._own = self._own
        return self._model

    def predict(self, images: Any, **options: Any) -> Any:
        """As `Model.predict`."""
        return self.model.predict(images, **options)

    def evaluate(
        self,
        images: Sequence[object] | Array | Dataset | None = None,
        masks: Sequence[object] | Array | None = None,
        **options: Any,
    ) -> Report:
        """As `Model.evaluate`; without data on the run's own test part."""
        return self.model.evaluate(images, masks, **options)

    def calibrate(
        self,
        level: float = 0.9,
        images: Sequence[object] | Array | Dataset | None = None,
        masks: Sequence[object] | Array | None = None,
        **options: Any,
    ) -> dict[str, Any]:
        """As `Model.calibrate`; without data on the run's own validation part."""
        return self.model.calibrate(level, images, masks, **options)

    def export(self, out: Path, attribution: str | None = None) -> pathlib.Path:
        """As `Model.export`."""
        return self.model.export(out, attribution)

    @property
    def report(self) -> Report:
        """The scores at the end of the training."""
        return Report(self._text("report.json"))

    @property
    def verdict(self) -> dict[str, Any]:
        """How far to trust the model: `useful`, and `findings` as sentences."""
        verdict: dict[str, Any] = json.loads(self._text("verdict.json"))
        return verdict

    @property
    def fingerprint(self) -> dict[str, Any]:
        """What the training cases are like, in numbers."""
        fingerprint: dict[str, Any] = json.loads(self._text("fingerprint.json"))
        return fingerprint

    @property
    def recipe(self) -> Recipe:
        """The recipe that was followed."""
        recipe: Recipe = json.loads(_native.recipe(os.fspath(self.path / "recipe.toml"), None, []))
        return recipe

    @property
    def log(self) -> list[dict[str, Any]]:
        """What happened, one entry for each line of `log.jsonl`."""
        path = self.path / "log.jsonl"
        lines = path.read_text().splitlines() if path.is_file() else []
        return [json.loads(line) for line in lines if line]

    def _text(self, name: str) -> str:
        path = self.path / name
        if not path.is_file():
            raise FileNotFoundError(f"{path}: there is none; let the training come to its end with resume()")
        return path.read_text()

    def __repr__(self) -> str:
        return f"Run({os.fspath(self.path)!r}, {'finished' if self.finished else 'not finished'})"

    def __reduce__(self) -> tuple[Any, ...]:
        return open_run, (os.fspath(self.path),)


def open_run(path: Path) -> Run:
    """A run that is there already."""
    folder = pathlib.Path(path)
    if not (folder / "recipe.toml").is_file():
        reason = "is no run: it has no recipe.toml" if folder.exists() else "there is no such run; check the path"
        raise FileNotFoundError(f"{folder}: {reason}")
    return Run(folder)

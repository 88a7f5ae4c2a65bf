"""Trained models."""

from __future__ import annotations

import json
import os
import pathlib
import warnings
from collections.abc import Sequence
from typing import Any, cast, overload

from . import _native
from ._arrays import Array, image_list
from ._data import Dataset
from ._log import hear
from ._options import Path, reading
from ._prediction import Prediction
from ._report import Report

_MODELS = pathlib.Path(__file__).parent / "models"

SHIPPED: tuple[str, ...] = ("lidc", "shapes")
"""The models that come with the package."""


class UnlikeTrainingData(UserWarning):
    """An image is unlike those that a model was trained on."""


class Model:
    """A trained model; `load` makes it.

    >>> import multivalued as mv
    >>> mv.load("lidc")
    Model('lidc', 1 channel, ... values, ...)
    """

    def __init__(self, folder: Path, name: str, device: str, views: int | None, threads: int | None) -> None:
        if threads is not None and threads < 1:
            raise ValueError(f"threads is {threads}; at least one computes")
        self._settings = (os.fspath(folder), name, device, views, threads)
        self._native = _native.Model(folder, device, views, threads, hear)
        self._facts: dict[str, Any] = json.loads(self._native.facts())
        self._own: Dataset | None = None

    @property
    def path(self) -> pathlib.Path:
        """The folder it was loaded from."""
        return pathlib.Path(self._settings[0])

    @property
    def recipe(self) -> dict[str, Any]:
        """The recipe it was trained by."""
        return cast("dict[str, Any]", self._facts["recipe"])

    @property
    def channels(self) -> int:
        """Channels of the images that it takes."""
        return int(self.recipe["model"]["input_channels"])

    @property
    def classes(self) -> int:
        """Foreground classes of its masks."""
        return int(self.recipe["model"]["classes"])

    @property
    def device(self) -> str:
        """What computes."""
        return str(self._facts["device"])

    @property
    def expects(self) -> str | None:
        """What images it was trained on, in words."""
        return cast("str | None", self._facts["expects"])

    @property
    def card(self) -> str | None:
        """Its model card, where it has one."""
        path = self.path / "README.md"
        return path.read_text() if path.is_file() else None

    @property
    def levels(self) -> list[dict[str, float]]:
        """The conformal levels that it was calibrated for."""
        levels: list[dict[str, float]] = json.loads(self._native.levels())
        return levels

    @overload
    def predict(
        self,
        images: list[Any] | tuple[Any, ...],
        *,
        top: int | None = None,
        coverage: float | None = None,
        most: int | None = None,
        merge: float | None = None,
        warn: bool = True,
    ) -> list[Prediction]: ...
    @overload
    def predict(
        self,
        images: Array,
        *,
        top: int | None = None,
        coverage: float | None = None,
        most: int | None = None,
        merge: float | None = None,
        warn: bool = True,
    ) -> Any: ...
    def predict(
        self,
        images: object,
        *,
        top: int | None = None,
        coverage: float | None = None,
        most: int | None = None,
        merge: float | None = None,
        warn: bool = True,
    ) -> Prediction | list[Prediction]:
        """The plausible masks of an image, or a list of them for several images.

        One image is (h, w) or (h, w, c) of integers or floats, with the values that its file would have; several are
        a list, or (n, h, w) or (n, h, w, c). `top` keeps the most probable hypotheses, `coverage` the conformal set of
        a calibrated level, `most` at most so many that stand for all, `merge` those with at least this IoU as one.
        A `UnlikeTrainingData` warning tells where images are unlike the training data.

        >>> import multivalued as mv, numpy as np
        >>> mv.load("lidc", views=1).predict(np.zeros((4, 64, 64)), warn=False)[0].masks.dtype
        dtype('bool')
        """
        given = image_list(images, self.channels)
        for name, count in (("top", top), ("most", most)):
            if count is not None and count < 1:
                raise ValueError(f"{name} is {count}; a list has at least one hypothesis")
        if most is not None and (top is not None or coverage is not None or merge is not None):
            raise ValueError("most stands alone: leave top, coverage and merge away")
        if merge is not None and (top is not None or coverage is not None):
            raise ValueError("merge stands alone: leave top and coverage away")
        if merge is not None and not 0 < merge <= 1:
            raise ValueError(f"merge is {merge}; an IoU lies above 0 and is at most 1")
        rows = self._native.predict(given.arrays, top, coverage, most, merge)
        said = [_prediction(row, image) for row, image in zip(rows, given.arrays)]
        if warn:
            _warn(said)
        return said if given.several else said[0]

    def evaluate(
        self,
        images: Sequence[object] | Array | Dataset | None = None,
        masks: Sequence[object] | Array | None = None,
        *,
        data: Path | None = None,
        split: str | None = None,
        html: Path | None = None,
        **options: Any,
    ) -> Report:
        """Scores on arrays, on a `Dataset`, on a data set's folder, or on the run's own test part.

        `html` names a file for the report page. Further options are those of `Dataset` for arrays (`groups`,
        `weights`, `classes`) and of `read_dataset` for a folder.
        """
        other, how = _scored(images, masks, data, options)
        own = None if self._own is None else self._own._cases
        document, table = self._native.evaluate(other, own, data, split, how, html, hear)
        return Report(document, table)

    def calibrate(
        self,
        level: float = 0.9,
        images: Sequence[object] | Array | Dataset | None = None,
        masks: Sequence[object] | Array | None = None,
        *,
        data: Path | None = None,
        split: str | None = None,
        **options: Any,
    ) -> dict[str, Any]:
        """Calibrates conformal sets, so that `predict(coverage=level)` holds a reader's mask at that level.

        The level is written beside the model. Without data the run's own validation part is taken.
        """
        if not 0 < level < 1:
            raise ValueError(f"level is {level}; a level lies between 0 and 1, such as 0.9")
        other, how = _scored(images, masks, data, options)
        own = None if self._own is None else self._own._cases
        found: dict[str, Any] = json.loads(self._native.calibrate(level, other, own, data, split, how, hear))
        return found

    def export(self, out: Path, attribution: str | None = None) -> pathlib.Path:
        """Writes the model as a folder to hand on: weights in f16, recipe, checksums, scores and a card."""
        return export(self.path, out, attribution)

    def __reduce__(self) -> tuple[Any, ...]:
        return Model, self._settings

    def __repr__(self) -> str:
        facts = [f"{self.channels} channel{'s'[: self.channels != 1]}", f"{self._facts['values']:,} values"]
        if self._facts["members"] > 1:
            facts.append(f"{self._facts['members']} members")
        if self.recipe["predict"]["views"] > 1:
            facts.append(f"{self.recipe['predict']['views']} views")
        return f"Model({self._settings[1]!r}, {', '.join(facts)}, {self.device})"


def _prediction(row: dict[str, Any], image: Array) -> Prediction:
    return Prediction(
        masks=row["masks"],
        probabilities=row["probabilities"],
        codes=row["codes"],
        draws=row["draws"],
        classes=row["classes"],
        image=image,
        list_loss=row["loss"],
        warnings=tuple(row["warnings"]),
    )


def _warn(said: Sequence[Prediction]) -> None:
    unlike = [(at, one.warnings[0]) for at, one in enumerate(said) if one.warnings]
    if unlike:
        at, reason = unlike[0]
        which = "the image" if len(said) == 1 else f"{len(unlike)} of {len(said)} images; images[{at}]"
        words = reason.removeprefix("the image ")
        warnings.warn(f"unlike the training data: {which} {words}", UnlikeTrainingData, stacklevel=3)


def _scored(
    images: Sequence[object] | Array | Dataset | None,
    masks: Sequence[object] | Array | None,
    data: Path | None,
    options: dict[str, Any],
) -> tuple[_native.Cases | None, Any]:
    """The cases that were given, and how a data set's folder is read."""
    dataset = given(images, masks, data, options)
    return (None if dataset is None else dataset._cases), reading(**({} if dataset is not None else options))


def given(
    images: Sequence[object] | Array | Dataset | None,
    masks: Sequence[object] | Array | None,
    data: Path | None,
    options: dict[str, Any],
) -> Dataset | None:
    """The data set that arrays make; None where none are given."""
    if images is None:
        if masks is not None:
            raise ValueError("masks are given without images")
        return None
    if data is not None:
        raise ValueError("give images and masks, or data=, not both")
    if isinstance(images, Dataset):
        if masks is not None:
            raise ValueError("a Dataset has masks of its own; leave masks away")
        return images
    if masks is None:
        raise ValueError("images are given without masks")
    return Dataset(images, masks, **options)


def load(name: Path, *, device: str = "auto", views: int | None = None, threads: int | None = None) -> Model:
    """A model: one of `SHIPPED`, or the folder of a run or of a model ("./lidc" is a folder, "lidc" is shipped).

    `device` is "auto", "cpu" or "cuda:N". `views` is the number of flipped and turned views of each image that are
    averaged; 1 is fastest. With `threads` every Python thread that calls the model has so many engine threads of its
    own; without it all share one pool of as many as there are cores (`RAYON_NUM_THREADS`).

    >>> load("no/such/model")
    Traceback (most recent call last):
    ...
    FileNotFoundError: no/such/model: there is no such run; check the path
    """
    is_shipped = isinstance(name, str) and name in SHIPPED
    return Model(_MODELS / name if is_shipped else name, os.fspath(name), device, views, threads)


def export(run: Path, out: Path, attribution: str | None = None) -> pathlib.Path:
    """Writes a run's model as a folder to hand on; `attribution` says whose data it learned from, and under which
    licence.
    """
    _native.export(run, out, attribution)
    return pathlib.Path(out)


def combine(runs: Sequence[Path], out: Path) -> pathlib.Path:
    """Makes one model of several runs or models, which predict together."""
    if len(runs) < 2:
        raise ValueError(f"runs has {len(runs)} entries; a mixture has at least two members")
    _native.combine(list(runs), out)
    return pathlib.Path(out)

"""Data sets: arrays, files and synthetic tasks."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, overload

import numpy as np
import numpy.typing as npt

from . import _native
from ._arrays import Array, MaskSet, image_array, mask_set, same_length, shown
from ._log import hear
from ._options import Path, reading


@dataclass(frozen=True)
class Case:
    """One image and what its readers drew."""

    id: str
    group: str
    """What no split tears apart: the patient."""
    split: str
    """The part it is in; empty where none is stated."""
    image: npt.NDArray[np.float32]
    masks: npt.NDArray[Any]
    """(readers, h, w): bools, or label maps where there are several classes."""
    weights: list[float]
    raters: list[str | None]
    truth_masks: npt.NDArray[Any] | None = None
    """The true modes of a synthetic task."""
    truth_probabilities: list[float] | None = None


class Dataset(Sequence[Case]):
    """Images with any number of masks each.

    >>> import numpy as np
    >>> images = np.random.default_rng(0).random((3, 16, 16))
    >>> masks = [np.zeros((readers, 16, 16), bool) for readers in (1, 4, 2)]
    >>> data = Dataset(images, masks, groups=["a", "a", "b"])
    >>> data
    Dataset(3 cases of 2 groups)
    >>> data[1].masks.shape
    (4, 16, 16)
    """

    def __init__(
        self,
        images: Sequence[object] | Array,
        masks: Sequence[object] | Array,
        *,
        weights: Sequence[object] | None = None,
        groups: Sequence[object] | None = None,
        ids: Sequence[object] | None = None,
        split: Sequence[str] | None = None,
        classes: int | None = None,
    ) -> None:
        """From arrays: `masks[i]` is (readers, h, w) for `images[i]`; numbers of readers and sizes may differ.

        With `classes` masks are label maps of integers, or bools (readers, classes, h, w). `split` names the part of
        each image: "train", "validation" or "test".
        """
        count = len(images)
        if count == 0:
            raise ValueError("images is empty, of shape (0,); give at least one image")
        same_length("masks", masks, "images", count)
        for name, given in (("weights", weights), ("groups", groups), ("ids", ids), ("split", split)):
            if given is not None:
                same_length(name, given, "images", count)
        pictures = [image_array(image, f"images[{at}]") for at, image in enumerate(images)]
        channels = {picture.shape[2] if picture.ndim == 3 else 1 for picture in pictures}
        if len(channels) > 1:
            first = next(
                at
                for at, one in enumerate(pictures)
                if one.ndim != pictures[0].ndim or one.shape[2:] != pictures[0].shape[2:]
            )
            raise ValueError(
                f"images[0] has {shown(pictures[0])} and images[{first}] has {shown(pictures[first])}; all images of a "
                "data set have the same number of channels"
            )
        sets: list[MaskSet] = []
        for at, (image, own) in enumerate(zip(pictures, masks)):
            # Readers of equal weight, unless weights are given.
            relative = None if weights is None else weights[at]
            found = mask_set(own, f"masks[{at}]", weights=relative, classes=classes, size=image.shape[:2])
            if weights is None:
                found["weights"] = [1.0] * len(found["weights"])
            sets.append(found)
        names = [f"image-{at:05}" for at in range(count)] if ids is None else [str(one) for one in ids]
        if len(set(names)) < count:
            raise ValueError("ids holds a name twice; each image needs its own")
        owners = names if groups is None else [str(one) for one in groups]
        parts = [""] * count if split is None else list(split)
        self._cases = _native.given(names, owners, parts, pictures, sets, [None] * count)

    @classmethod
    def _of(cls, cases: _native.Cases) -> Dataset:
        dataset = cls.__new__(cls)
        dataset._cases = cases
        return dataset

    def __len__(self) -> int:
        return len(self._cases)

    @overload
    def __getitem__(self, at: int) -> Case: ...
    @overload
    def __getitem__(self, at: slice) -> Dataset: ...
    def __getitem__(self, at: int | slice) -> Case | Dataset:
        if isinstance(at, slice):
            return Dataset._of(self._cases.select(range(len(self))[at]))
        if not -len(self) <= at < len(self):
            raise IndexError(f"case {at} of {len(self)}")
        return Case(**self._cases.case(at % len(self)))

    def __iter__(self) -> Iterator[Case]:
        return (self[at] for at in range(len(self)))

    def part(self, name: str) -> Dataset:
        """The cases of one part."""
        parts = self._cases.parts
        if name not in parts:
            known = ", ".join(sorted({part for part in parts if part})) or "none"
            raise ValueError(f"there is no part {name!r}; there are {known}")
        return Dataset._of(self._cases.select([at for at, part in enumerate(parts) if part == name]))

    @property
    def images(self) -> list[npt.NDArray[np.float32]]:
        """All images."""
        return [case.image for case in self]

    @property
    def masks(self) -> list[npt.NDArray[Any]]:
        """All masks, (readers, h, w) for each image."""
        return [case.masks for case in self]

    @property
    def groups(self) -> list[str]:
        """The group of each image."""
        return [case.group for case in self]

    @property
    def notes(self) -> list[str]:
        """How the files were read, where that is not plain, and what was left out."""
        return self._cases.notes

    @property
    def hash(self) -> str:
        """BLAKE3 over ids and content."""
        return self._cases.hash()

    def write(self, folder: Path) -> None:
        """Writes a folder that the command line reads: images, masks and a manifest."""
        self._cases.write(folder)

    def __repr__(self) -> str:
        count, groups = len(self), len(set(self.groups))
        return f"Dataset({count} case{'s'[: count != 1]} of {groups} group{'s'[: groups != 1]})"


def read_dataset(
    path: Path,
    *,
    layout: str | None = None,
    mask_rule: str | None = None,
    group_by: str | None = None,
    skip_bad: bool = False,
    cache: Path | None = None,
) -> Dataset:
    """A data set on disk, in any of the layouts of docs/dataset-format.md."""
    how = reading(layout=layout, mask_rule=mask_rule, group_by=group_by, skip_bad=skip_bad, cache=cache)
    return Dataset._of(_native.read_dataset(path, how, hear))


def tasks() -> list[str]:
    """The names of the synthetic tasks."""
    return _native.task_names()


def generate(
    task: str,
    count: int | Mapping[str, int] = 100,
    *,
    size: int | None = None,
    seed: int = 1,
    films: Path | None = None,
) -> Dataset:
    """Cases of a synthetic task whose truth is known; `count` is a number or a number for each part.

    >>> generate("raters", {"train": 3, "test": 1}, size=32).part("test")[0].masks.shape
    (4, 32, 32)
    """
    counts = {"train": count} if isinstance(count, int) else dict(count)
    wrong = {part: number for part, number in counts.items() if not 1 <= number <= 100_000}
    if wrong or not counts:
        raise ValueError(f"count is {counts}; choose 1 to 100000 cases for each part")
    return Dataset._of(_native.generate(task, size, seed, list(counts.items()), films))


def validate(
    path: Path, *, layout: str | None = None, mask_rule: str | None = None, group_by: str | None = None
) -> dict[str, Any]:
    """What a data set on disk holds, how far its readers agree, and every fault (`problems`)."""
    found: dict[str, Any] = json.loads(
        _native.validate(path, reading(layout=layout, mask_rule=mask_rule, group_by=group_by))
    )
    return found


def read_image(path: Path) -> npt.NDArray[np.float32]:
    """An image file of any format that the command line reads: (h, w) or (h, w, c), of a volume (n, h, w)."""
    slices = _native.read_image(path)
    return slices[0] if len(slices) == 1 else np.stack(slices)

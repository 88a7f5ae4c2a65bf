"""What a model says of one image."""

from __future__ import annotations

import base64
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from . import _native
from ._arrays import Array, MaskSet, mask_set


@dataclass(frozen=True, eq=False, repr=False)
class Prediction:
    """The plausible masks of one image, the most probable first.

    >>> import numpy as np
    >>> masks = np.zeros((2, 4, 4), bool)
    >>> masks[0, 1:3, 1:3] = True
    >>> p = Prediction(masks, np.array([0.75, 0.25], np.float32))
    >>> p
    Prediction(2 masks of 4x4: 75 %, 25 % (empty))
    >>> float(p.mean[1, 1]), float(p.disagreement[1, 1]), float(p.disagreement[0, 0])
    (0.75, 0.375, 0.0)
    """

    masks: npt.NDArray[Any]
    """(k, h, w): bools, or label maps of uint8 where there are several classes."""
    probabilities: npt.NDArray[np.float32]
    """(k,), the largest first. They sum to 1 unless some hypotheses were left out."""
    codes: npt.NDArray[np.int64] | None = None
    """(k,): the code behind each mask, or the number of the first draw that shows it."""
    draws: int | None = None
    """How many draws the probabilities were counted from; None where the model states them."""
    classes: int = 1
    """Foreground classes."""
    image: Array | None = field(default=None)
    """The image, where it is kept."""
    list_loss: float | None = None
    """GED between all hypotheses and these, where these stand for all."""
    warnings: tuple[str, ...] = ()
    """In what the image is unlike the training data."""

    def __len__(self) -> int:
        return len(self.masks)

    @property
    def mean(self) -> npt.NDArray[np.float32]:
        """The probability of each pixel: (h, w), or (classes, h, w) where there are several classes."""
        weights = self.probabilities / self.probabilities.sum()
        maps = [np.tensordot(weights, self._inside(label), 1) for label in range(1, self.classes + 1)]
        mean: npt.NDArray[np.float32] = np.asarray(maps[0] if self.classes == 1 else maps, dtype=np.float32)
        return mean

    @property
    def disagreement(self) -> npt.NDArray[np.float32]:
        """(h, w): the probability that two independent draws differ at a pixel, 0 where all masks agree."""
        mean = self.mean.reshape(self.classes, *self.masks.shape[1:]).astype(np.float64)
        background = 1.0 - mean.sum(axis=0)
        same = (mean**2).sum(axis=0) + background**2
        disagreement: npt.NDArray[np.float32] = np.maximum(1.0 - same, 0.0).astype(np.float32)
        return disagreement

    def _inside(self, label: int) -> npt.NDArray[np.bool_]:
        inside: npt.NDArray[np.bool_] = self.masks if self.classes == 1 else self.masks == label
        return inside

    def top(self, count: int) -> Prediction:
        """The most probable ones; probabilities stay as they are."""
        codes = None if self.codes is None else self.codes[:count]
        return replace(self, masks=self.masks[:count], probabilities=self.probabilities[:count], codes=codes)

    def sample(self, count: int, seed: int = 0) -> npt.NDArray[Any]:
        """Masks drawn at random, each by its probability: (count, h, w)."""
        weights = self.probabilities.astype(np.float64)
        drawn = np.random.default_rng(seed).choice(len(self), size=count, p=weights / weights.sum())
        sample: npt.NDArray[Any] = self.masks[drawn]
        return sample

    def png(self, readers: object = None) -> bytes:
        """A picture of the image, what readers drew (blue) and the hypotheses (orange), each with its bar."""
        image = np.zeros(self.masks.shape[1:], np.uint8) if self.image is None else self.image
        classes = None if self.classes == 1 else self.classes
        drawn = None if readers is None else mask_set(readers, "readers", classes=classes)
        return _native.strip(image, self._set(), drawn)

    def _set(self) -> MaskSet:
        classes = None if self.classes == 1 else self.classes
        # float64 of a float32: the same number.
        weights = self.probabilities.astype(np.float64)
        return mask_set(self.masks, "masks", weights=weights, draws=self.draws, classes=classes)

    def __repr__(self) -> str:
        shown = 6
        words = [
            f"{100 * float(p):.0f} %" + ("" if mask.any() else " (empty)")
            for p, mask in zip(self.probabilities[:shown], self.masks[:shown])
        ]
        more = "" if len(self) <= shown else ", …"
        height, width = self.masks.shape[1:]
        return f"Prediction({len(self)} mask{'s'[: len(self) != 1]} of {width}x{height}: {', '.join(words)}{more})"

    def _repr_html_(self) -> str:
        picture = base64.b64encode(self.png()).decode()
        return f'<img alt="{self!r}" src="data:image/png;base64,{picture}">'

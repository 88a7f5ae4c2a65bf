"""Masks as run lengths, as COCO has them: column by column, the lengths of alternating runs, that of zeros first."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt


def encode(mask: npt.NDArray[Any]) -> npt.NDArray[np.int32]:
    """The run lengths of a mask of bools, (h, w).

    >>> encode(np.array([[0, 1], [0, 1], [1, 1]], bool)).tolist()
    [2, 4]
    >>> encode(np.ones((2, 2), bool)).tolist(), encode(np.zeros((2, 2), bool)).tolist()
    ([0, 4], [4])
    """
    flat = np.asarray(mask, bool).ravel(order="F")
    changes = np.flatnonzero(flat[1:] != flat[:-1]) + 1
    edges = np.concatenate([[0] if flat.size and flat[0] else [], [0], changes, [flat.size]])
    return np.diff(edges).astype(np.int32)


def decode(counts: npt.ArrayLike, size: tuple[int, int]) -> npt.NDArray[np.bool_]:
    """The mask, (h, w), of some run lengths.

    >>> decode([2, 4], (3, 2)).astype(int).tolist()
    [[0, 1], [0, 1], [1, 1]]
    """
    lengths = np.asarray(counts, np.int64)
    height, width = size
    if lengths.sum() != height * width:
        raise ValueError(f"run lengths of {lengths.sum()} pixels for a mask of {height}x{width}")
    values = np.arange(len(lengths)) % 2 == 1
    return np.repeat(values, lengths).reshape(size, order="F")

"""Arrays as the native part wants them, or a `ValueError` that names what is wrong and the shape it has."""

from __future__ import annotations

from collections.abc import Sized
from typing import Any, NamedTuple, TypedDict

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]


class MaskSet(TypedDict):
    """Masks of one image, each with its weight."""

    planes: npt.NDArray[np.uint8]
    weights: list[float]
    draws: int | None


def shown(array: Array) -> str:
    """Shape and type of an array, for messages."""
    return f"shape {array.shape} and dtype {array.dtype}"


def image_array(value: object, name: str, channels: int | None = None) -> Array:
    """An image as a contiguous array (h, w) or (h, w, c) of uint8, uint16, float32 or float64."""
    array = _numbers(value, name)
    if array.ndim not in (2, 3):
        raise ValueError(f"{name} has {shown(array)}; an image is (h, w) or (h, w, c)")
    if array.size == 0:
        raise ValueError(f"{name} has {shown(array)}: it has no pixels")
    has = 1 if array.ndim == 2 else array.shape[2]
    if array.ndim == 3 and not 1 <= has <= 4:
        raise ValueError(
            f"{name} has {shown(array)}: {has} channels, and an image has 1 to 4; "
            "give several images as a list or as (n, h, w)"
        )
    if channels is not None and has != channels:
        raise ValueError(
            f"{name} has {shown(array)}: {has} channel{'s'[: has != 1]}, and the model takes {channels}; convert it"
        )
    if array.dtype.kind == "f":
        finite = np.isfinite(array)
        if not finite.all():
            where = tuple(int(at) for at in np.argwhere(~finite)[0])
            count = int((~finite).sum())
            raise ValueError(
                f"{name} has {shown(array)}: {count} of {array.size} values are NaN or infinite, the first at {where}"
            )
    if array.dtype not in (np.uint8, np.uint16, np.float32, np.float64):
        array = array.astype(np.float32)
    return np.ascontiguousarray(array)


def _numbers(value: object, name: str) -> Array:
    try:
        array = np.asarray(value)
    except ValueError as error:
        raise ValueError(f"{name} is no array of numbers: {error}") from None
    if array.dtype.kind not in "uif":
        raise ValueError(f"{name} has {shown(array)}; its values must be integers or real numbers")
    return array


class Images(NamedTuple):
    """Images, and whether they were given as several."""

    arrays: list[Array]
    several: bool


def image_list(value: object, channels: int | None = None) -> Images:
    """One image, or several as a list or as (n, h, w) or (n, h, w, c).

    An array of three axes is one image where its last axis can be channels of the model, and else (n, h, w).
    """
    if isinstance(value, (list, tuple)):
        if len(value) == 0:
            raise ValueError("images is an empty list, of shape (0,); give at least one image")
        return Images([image_array(one, f"images[{at}]", channels) for at, one in enumerate(value)], True)
    array = _numbers(value, "image")
    if array.ndim == 4 or (array.ndim == 3 and not _is_one_image(array.shape, channels)):
        if array.shape[0] == 0:
            raise ValueError(f"images has {shown(array)}: it holds no image")
        return Images([image_array(one, f"images[{at}]", channels) for at, one in enumerate(array)], True)
    return Images([image_array(array, "image", channels)], False)


def _is_one_image(shape: tuple[int, ...], channels: int | None) -> bool:
    if channels is None or channels == 1:
        # (h, w, 1), or colours that are refused with a sentence about channels.
        return shape[2] == 1 or (shape[2] in (3, 4) and shape[0] > 4)
    return shape[2] == channels


def mask_set(
    value: object,
    name: str,
    *,
    weights: object = None,
    draws: int | None = None,
    classes: int | None = None,
    size: tuple[int, ...] | None = None,
) -> MaskSet:
    """Masks of one image as planes (masks, classes, h, w).

    Without `classes`: (masks, h, w), where what is not zero is inside. With `classes`: label maps (masks, h, w) of
    integers up to `classes`, or bools (masks, classes, h, w).
    """
    try:
        array = np.asarray(value)
    except ValueError as error:
        raise ValueError(f"{name} is no array of masks of one size: {error}") from None
    if array.dtype.kind not in "buif":
        raise ValueError(f"{name} has {shown(array)}; masks are of bools or numbers")
    planes = _planes(array, name, classes)
    if planes.shape[0] == 0:
        raise ValueError(f"{name} has {shown(array)}: it holds no mask; at least one is needed")
    if 0 in planes.shape:
        raise ValueError(f"{name} has {shown(array)}: its masks have no pixels")
    if size is not None and planes.shape[2:] != size:
        raise ValueError(f"{name} has {shown(array)}, but the image has {size[0]} rows and {size[1]} columns")
    return {"planes": planes, "weights": _weights(weights, name, planes.shape[0]), "draws": draws}


def _planes(array: Array, name: str, classes: int | None) -> npt.NDArray[np.uint8]:
    if classes is None:
        if array.ndim != 3:
            raise ValueError(f"{name} has {shown(array)}; masks of an image are (masks, h, w)")
        return _ones(array, name)[:, None]
    if array.dtype.kind == "b":
        if array.ndim != 4 or array.shape[1] != classes:
            raise ValueError(f"{name} has {shown(array)}; bool masks of {classes} classes are (masks, {classes}, h, w)")
        return _ones(array, name)
    if array.ndim != 3:
        raise ValueError(f"{name} has {shown(array)}; label maps of an image are (masks, h, w)")
    if array.size and (array.min() < 0 or array.max() > classes or np.any(array != np.floor(array))):
        raise ValueError(
            f"{name} has {shown(array)} and values from {array.min()} to {array.max()}; labels of {classes} classes "
            f"are whole numbers from 0 to {classes}"
        )
    labels = np.arange(1, classes + 1).reshape(1, classes, 1, 1)
    return np.ascontiguousarray(array[:, None] == labels).view(np.uint8)


def _ones(array: Array, name: str) -> npt.NDArray[np.uint8]:
    """Zeros and ones; an array of bools in its own memory."""
    if array.dtype.kind != "b":
        inside = np.unique(array[array != 0]) if array.size else array[:0]
        if array.dtype.kind == "f" and not np.isfinite(array).all():
            raise ValueError(f"{name} has {shown(array)}, and some of its values are NaN or infinite")
        if inside.size > 1:
            raise ValueError(
                f"{name} has {shown(array)} and {inside.size + 1} different values; a mask has two. Give "
                "bools, such as array > 0.5, or say classes=... where they are labels"
            )
        array = array != 0
    return np.ascontiguousarray(array).view(np.uint8)


def _weights(weights: object, name: str, count: int) -> list[float]:
    if weights is None:
        return [1.0 / count] * count
    array = np.asarray(weights, dtype=np.float64)
    if array.shape != (count,):
        raise ValueError(f"{name} holds {count} masks, but its weights have shape {array.shape}; give one for each")
    return [float(weight) for weight in array]


def same_length(name: str, has: Sized, other: str, count: int) -> None:
    """Refuses lists of different length."""
    if len(has) != count:
        raise ValueError(f"{name} has {len(has)} entries, but {other} has {count}; give one for each image")

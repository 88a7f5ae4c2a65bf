"""Images in the columns of a table."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from typing import Any

import numpy as np

from .._arrays import Array
from .._data import read_image

_ENDINGS = {b"\x89P": ".png", b"II": ".tif", b"MM": ".tif", b"\xff\xd8": ".jpg", b"\x93N": ".npy"}
"""Of files, by their first bytes."""


def image_of(value: object, size: tuple[Any, Any] | None = None) -> Array:
    """A cell as an image: an encoded file's bytes (also as `{"bytes": …}`), an array, nested lists of values, or flat
    values of an image of `size`, height and width.

    >>> image_of([[0, 1], [2, 3]]).tolist() == image_of([0, 1, 2, 3], (2, 2)).tolist() == [[0, 1], [2, 3]]
    True
    """
    if isinstance(value, Mapping):
        value = value.get("bytes")
    if value is None:
        raise ValueError("a row has no column 'image' of bytes or values; rename the column that holds the images")
    if isinstance(value, (bytes, bytearray, memoryview)):
        return _decoded(bytes(value))
    values = _numbers(value)
    if values.ndim != 1:
        return values
    if size is None or None in size:
        raise ValueError(f"an image is {values.size} values in a row; say its size in columns 'height' and 'width'")
    height, width = int(size[0]), int(size[1])
    if height < 1 or width < 1 or values.size % (height * width):
        raise ValueError(f"an image has {values.size} values, and height {height} and width {width}; correct one of them")
    values = values.reshape(height, width, -1)
    return values[..., 0] if values.shape[2] == 1 else values


def _numbers(value: object) -> Array:
    """Nested lists as an array; of those that were read by Arrow the outer ones hold arrays."""
    try:
        array = value if isinstance(value, np.ndarray) else np.asarray(value)
        while array.dtype == object:
            array = np.stack([np.asarray(row) for row in array])
    except ValueError as error:
        raise ValueError(f"an image is no list of rows of one length: {error}") from None
    return array


def _decoded(content: bytes) -> Array:
    ending = next((ending for start, ending in _ENDINGS.items() if content.startswith(start)), None)
    if ending is None:
        raise ValueError("an image's bytes are no PNG, TIFF, JPEG or NPY file; write one of these into the column")
    with tempfile.NamedTemporaryFile(suffix=ending) as file:
        file.write(content)
        file.flush()
        return read_image(file.name)

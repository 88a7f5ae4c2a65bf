"""Predictions as rows of a table, and back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from .._prediction import Prediction
from .._rle import decode, encode


def schema() -> Any:
    """The columns of a prediction. A mask is a list of run lengths for each class, as COCO writes them."""
    import pyarrow as pa

    return pa.schema(
        [
            ("height", pa.int32()),
            ("width", pa.int32()),
            ("classes", pa.int32()),
            ("probabilities", pa.list_(pa.float32())),
            ("codes", pa.list_(pa.int64())),
            ("draws", pa.int64()),
            ("masks", pa.list_(pa.list_(pa.list_(pa.int32())))),
            ("warnings", pa.list_(pa.string())),
        ]
    )


def table_of(others: Mapping[str, Sequence[Any]], said: Sequence[Prediction]) -> Any:
    """A table of predictions, with further columns before them."""
    import pyarrow as pa

    fields = schema()
    columns: dict[str, list[Any]] = {name: [] for name in fields.names}
    for one in said:
        for name, value in _row(one).items():
            columns[name].append(value)
    arrays = {name: pa.array(list(values)) for name, values in others.items()}
    arrays |= {name: pa.array(columns[name], fields.field(name).type) for name in fields.names}
    return pa.table(arrays)


def _row(said: Prediction) -> dict[str, Any]:
    height, width = said.masks.shape[1:]
    labels = range(1, said.classes + 1)
    return {
        "height": height,
        "width": width,
        "classes": said.classes,
        "probabilities": said.probabilities.tolist(),
        "codes": [] if said.codes is None else said.codes.tolist(),
        "draws": said.draws,
        "masks": [[encode(mask if said.classes == 1 else mask == label) for label in labels] for mask in said.masks],
        "warnings": list(said.warnings),
    }


def prediction_of(row: Mapping[str, Any]) -> Prediction:
    """A row of predictions as `Model.predict` gave it, without the image."""
    size = (int(row["height"]), int(row["width"]))
    classes = int(row["classes"])
    masks = np.zeros((len(row["masks"]), *size), bool if classes == 1 else np.uint8)
    for mask, by_class in zip(masks, row["masks"]):
        for label, counts in enumerate(by_class, 1):
            mask[decode(counts, size)] = label
    return Prediction(
        masks=masks,
        probabilities=np.asarray(row["probabilities"], np.float32),
        codes=np.asarray(row["codes"], np.int64),
        draws=None if row["draws"] is None or row["draws"] != row["draws"] else int(row["draws"]),
        classes=classes,
        warnings=tuple(row["warnings"]),
    )

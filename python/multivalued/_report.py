"""Scores of a model on some images."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import numpy.typing as npt


class Report:
    """Scores with their intervals; docs/metrics.md has every formula.

    >>> import numpy as np
    >>> from multivalued import metrics
    >>> masks = np.eye(4, dtype=bool)[None].repeat(3, axis=0)
    >>> report = metrics.evaluate([masks, masks], [masks, masks])
    >>> report.summary["ged_exact"], report.per_image["hm_iou"].tolist()
    (0.0, [1.0, 1.0])
    """

    def __init__(self, document: str, table: str | None = None) -> None:
        self.json: dict[str, Any] = json.loads(document)
        """The whole report, as `report.json` has it."""
        self._document = document
        self._table = table

    @property
    def summary(self) -> dict[str, float]:
        """Means over images and the scores that only all images together have, by name."""
        summary: dict[str, float] = self.json["summary"]
        return summary

    @property
    def intervals(self) -> dict[str, list[float] | None]:
        """95 % bootstrap intervals over groups where groups hold several images, else over images."""
        intervals: dict[str, list[float] | None] = self.json.get("intervals_by_group") or self.json["intervals"]
        return intervals

    @property
    def per_image(self) -> dict[str, npt.NDArray[Any]]:
        """Columns: `id`, `group` and every score, NaN where an image has none. `pandas.DataFrame` takes them."""
        rows: list[dict[str, Any]] = self.json["images"]
        names = list(dict.fromkeys(name for row in rows for name in row))
        return {name: np.array([row.get(name, np.nan) for row in rows]) for name in names}

    @property
    def reliability(self) -> dict[str, Any]:
        """The bins of the reliability diagrams."""
        reliability: dict[str, Any] = self.json["reliability"]
        return reliability

    def to_json(self) -> str:
        """The report as `evaluate --json` writes it."""
        return self._document

    def __str__(self) -> str:
        return self._table or repr(self)

    def __repr__(self) -> str:
        summary = self.summary
        return (
            f"Report({summary['cases']:.0f} images: GED {summary['ged_limit']:.4f}, "
            f"matched IoU {summary['hm_iou']:.4f}, calibration error {summary['mode_ece']:.4f})"
        )

    def _repr_html_(self) -> str:
        def row(name: str, value: float) -> str:
            interval = self.intervals.get(name)
            words = "" if interval is None else f"{interval[0]:.4f} to {interval[1]:.4f}"
            return f"<tr><td>{name}</td><td>{value:.4f}</td><td>{words}</td></tr>"

        shown = ("ged_limit", "ged_floor", "ged_16", "hm_iou", "soft_dice", "mode_ece", "empty_ece", "n_x_1pct")
        rows = "".join(row(name, self.summary[name]) for name in shown if name in self.summary)
        head = "<tr><th>score</th><th>mean</th><th>95 %</th></tr>"
        return f"<p>{self.summary['cases']:.0f} images</p><table>{head}{rows}</table>"

    def __reduce__(self) -> tuple[type[Report], tuple[str, str | None]]:
        return Report, (self._document, self._table)

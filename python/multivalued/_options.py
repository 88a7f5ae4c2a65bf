"""How a data set is read, as the native part wants it."""

from __future__ import annotations

import os
from typing import TypedDict

Path = str | os.PathLike[str]


class Reading(TypedDict):
    """The command line's --layout, --masks, --group-by, --skip-bad and --cache."""

    layout: str | None
    mask_rule: str | None
    group_by: str | None
    skip_bad: bool
    cache: Path | None


def reading(
    *,
    layout: str | None = None,
    mask_rule: str | None = None,
    group_by: str | None = None,
    skip_bad: bool = False,
    cache: Path | None = None,
) -> Reading:
    """All options, with their defaults."""
    return {"layout": layout, "mask_rule": mask_rule, "group_by": group_by, "skip_bad": skip_bad, "cache": cache}

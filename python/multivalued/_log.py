"""The logger of the package, and the native part's words as its messages."""

from __future__ import annotations

import logging

logger = logging.getLogger("multivalued")


def hear(line: str) -> None:
    """Logs one line: what warns as a warning, all else as information."""
    words = line.strip()
    if words:
        warns = words.startswith(("warning:", "skipped:", "note:"))
        logger.log(logging.WARNING if warns else logging.INFO, "%s", words)

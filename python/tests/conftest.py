"""What several tests share."""

from __future__ import annotations

import pathlib
import signal
import subprocess
import sys
import tempfile

import numpy as np
import numpy.typing as npt
import pytest

import multivalued as mv

ROOT = pathlib.Path(__file__).resolve().parents[2]
ELSEWHERE = tempfile.gettempdir()
"""`python -m` looks for packages in its working folder first: not for the installed one beside the sources."""

# In a shell's background Ctrl-C is ignored, and Python leaves it so; tests send it.
signal.signal(signal.SIGINT, signal.default_int_handler)

SMALL: dict[str, dict[str, object]] = {
    "train": {"steps": 30, "epochs": 0, "warmup_steps": 5, "batch": 4, "validate_every": 1},
    "model": {"channels": [4, 8], "code_count": 8, "code_dim": 8},
    "assignment": {"active_codes": 8},
}
"""A recipe of seconds."""


def command_line(*arguments: object, check: bool = True) -> subprocess.CompletedProcess[str]:
    """`python -m multivalued` with arguments."""
    words = [sys.executable, "-m", "multivalued", *map(str, arguments)]
    return subprocess.run(words, capture_output=True, text=True, check=check, timeout=300, cwd=ELSEWHERE)


@pytest.fixture(scope="session")
def shapes() -> mv.Dataset:
    """Synthetic cases with three parts."""
    return mv.generate("raters", {"train": 24, "validation": 12, "test": 12}, size=32)


@pytest.fixture(scope="session")
def slice_like() -> npt.NDArray[np.uint8]:
    """A picture with a nodule, 128 rows and 112 columns."""
    image = mv.generate("raters", {"test": 2}, size=128)[1].image
    return (255 * image).astype(np.uint8)[:, 8:-8]

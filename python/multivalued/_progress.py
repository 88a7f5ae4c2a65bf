"""How far a training is: told to callbacks, and shown as a line."""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass
from typing import TextIO


@dataclass(frozen=True)
class Progress:
    """How far a training is; callbacks get it."""

    kind: str
    """"begin", "step" (a few times a second) or "epoch"."""
    step: int
    total: int | None
    """All steps, where their number is known."""
    epoch: int
    share: float
    """The share of the training that is over."""
    numbers: dict[str, float]
    """Losses as `loss.total` and so on; of an epoch also `used_codes` and `validation.ged_limit`."""


class Line:
    """One line that is written anew in terminals and notebooks, and a line now and then elsewhere."""

    def __init__(self, out: TextIO) -> None:
        self.out = out
        self.live = out.isatty() or "ipykernel" in sys.modules
        self.began = time.monotonic()
        self.first = 0
        self.told = 0.0
        self.width = 0
        self.ged = ""

    def show(self, told: Progress) -> None:
        now = time.monotonic()
        if told.kind == "begin":
            self.began, self.first = now, told.step
            return
        ged = told.numbers.get("validation.ged_limit")
        if ged is not None:
            self.ged = f" · GED {ged:.4f}"
        if now - self.told < (0.25 if self.live else 10.0) and (self.live or ged is None):
            return
        self.told = now
        rate = (told.step - self.first) / max(now - self.began, 1e-9)
        filled = round(20 * told.share)
        of = "" if told.total is None else f"/{told.total}"
        left = "" if told.total is None or rate <= 0 else f" · {_clock((told.total - told.step) / rate)} left"
        loss = told.numbers.get("loss.total")
        end = "" if loss is None else f" · loss {loss:.3f}"
        bar = f"{100 * told.share:3.0f}% |{'█' * filled}{' ' * (20 - filled)}| "
        self._write(f"{bar}step {told.step}{of} · {rate:.1f} steps/s{left}{self.ged}{end}")

    def hear(self, line: str) -> None:
        """Words of the training stay above the line."""
        if line.strip():
            self._clear()
            print(line, file=self.out, flush=True)

    def end(self) -> None:
        self._clear()

    def _write(self, text: str) -> None:
        if self.live:
            print("\r" + text.ljust(self.width), end="", file=self.out, flush=True)
            self.width = len(text)
        else:
            print(text, file=self.out, flush=True)

    def _clear(self) -> None:
        if self.live and self.width:
            print("\r" + " " * self.width + "\r", end="", file=self.out, flush=True)
            self.width = 0


def _clock(seconds: float) -> str:
    whole = round(seconds)
    return f"{whole // 60}:{whole % 60:02} min" if whole < 3600 else f"{whole // 3600}:{whole // 60 % 60:02} h"

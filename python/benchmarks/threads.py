"""Two Python threads with one engine thread each against one: the interpreter is free while the engine works.

python benchmarks/threads.py   Exit code 1 where two are not 1.7 times as fast as one. Needs two cores with nothing
else to do.
"""

from __future__ import annotations

import sys
import threading
import time

import numpy as np

import multivalued as mv

IMAGES, ROUNDS = 8, 5


def seconds(model: mv.Model, workers: int) -> float:
    """The time of so many Python threads that each predict the images."""
    images = list(np.random.default_rng(1).random((IMAGES, 128, 128), np.float32))
    threads = [threading.Thread(target=lambda: model.predict(images, warn=False)) for _ in range(workers)]
    began = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return time.perf_counter() - began


def main() -> int:
    model = mv.load("lidc", device="cpu", threads=1)
    seconds(model, 2)
    one = min(seconds(model, 1) for _ in range(ROUNDS))
    two = min(seconds(model, 2) for _ in range(ROUNDS))
    ratio = 2 * one / two
    print(
        f"{IMAGES} images: one thread {one:.2f} s, two threads with as many each {two:.2f} s: {ratio:.2f} times as fast"
    )
    return int(ratio < 1.7)


if __name__ == "__main__":
    sys.exit(main())

"""GED of 1,000 images, 16 samples and 4 readers at 128x128, against a loop over pairs of arrays.

python benchmarks/ged.py [images]   Exit code 1 where it is not 50 times as fast, or not equal to 1e-9.
"""

from __future__ import annotations

import sys
import time

import numpy as np
import numpy.typing as npt

from multivalued import metrics

Bools = npt.NDArray[np.bool_]
SAMPLES, READERS, EDGE = 16, 4, 128


def discs(random: np.random.Generator, count: int, of_each: int) -> Bools:
    """Discs around the middle, some of them missing, as readers of nodules draw them."""
    y, x = np.mgrid[:EDGE, :EDGE]
    masks = np.zeros((count, of_each, EDGE, EDGE), bool)
    for image in masks:
        row, column = random.uniform(40, 88, 2)
        for mask in image:
            radius = random.uniform(5, 25) * (random.random() > 0.25)
            mask[:] = (x - column - random.normal()) ** 2 + (y - row - random.normal()) ** 2 < radius**2
    return masks


def distance(a: Bools, b: Bools) -> float:
    """1 - IoU, two empty masks being equal."""
    union = np.logical_or(a, b).sum()
    return 0.0 if union == 0 else 1.0 - np.logical_and(a, b).sum() / union


def ged_by_pairs(samples: Bools, readers: Bools) -> float:
    """Every pair once: distances are symmetric, and a mask is at distance 0 from itself."""
    between = sum(distance(a, b) for a in samples for b in readers) / (SAMPLES * READERS)
    of_samples = sum(distance(samples[i], samples[j]) for i in range(SAMPLES) for j in range(i))
    of_readers = sum(distance(readers[i], readers[j]) for i in range(READERS) for j in range(i))
    return 2 * between - 2 * of_samples / SAMPLES**2 - 2 * of_readers / READERS**2


def main() -> int:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
    random = np.random.default_rng(1)
    samples, readers = discs(random, count, SAMPLES), discs(random, count, READERS)
    metrics.ged(samples[:2], readers[:2])
    began = time.perf_counter()
    expected = np.array([ged_by_pairs(*pair) for pair in zip(samples, readers)])
    by_pairs = time.perf_counter() - began
    ours = []
    for _ in range(10):
        began = time.perf_counter()
        found = metrics.ged(samples, readers)
        ours.append(time.perf_counter() - began)
    error, ratio = float(np.abs(found - expected).max()), by_pairs / min(ours)
    print(f"{count} images: loop over pairs {by_pairs:.2f} s, metrics.ged {min(ours):.4f} s: {ratio:.0f} times as fast")
    print(f"largest difference {error:.1e}")
    return int(ratio < 50 or error > 1e-9)


if __name__ == "__main__":
    sys.exit(main())

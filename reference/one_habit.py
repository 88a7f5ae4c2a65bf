"""Which chest films have lung masks of one habit: a copy of a folder of films with a `split.csv` that leaves the others out.

    python one_habit.py FILMS OUT

FILMS has `images/`, `masks/` and `split.csv` (`file,split`). The masks of the Montgomery films (`MCUCXR_…`) were drawn by one
rule: the heart and what lies below the diaphragm stay out. The masks of the Shenzhen films (`CHNCXR_…`) were drawn by many
people. A Shenzhen film stays where each of six measures of its mask lies between the 2.5th and the 97.5th percentile of the
Montgomery masks; the others get the split `unused`. Only masks are looked at, no image and no result of a model.
Needs numpy, scipy and pillow.
"""

import csv
import shutil
import sys
from pathlib import Path

import numpy as np
from PIL import Image
from scipy import ndimage

# Heights as shares of the lungs' height, from their top: above the heart, and at the heart.
ABOVE, AT_HEART = (0.25, 0.40), (0.60, 0.75)


def measures(mask):
    """Six numbers of a mask, or None where it is not two lungs."""
    components, count = ndimage.label(mask)
    if count < 2:
        return None
    areas = ndimage.sum(mask, components, range(1, count + 1))
    lungs = [components == 1 + k for k in np.argsort(-areas)[:2]]
    # Films show the patient's right lung at the left.
    right, left = sorted(lungs, key=lambda lung: ndimage.center_of_mass(lung)[1])
    rows, columns = np.where(mask)
    top, height, width = rows.min(), np.ptp(rows) + 1, np.ptp(columns) + 1

    def inner_edges(share):
        """Of both lungs, the border towards the middle at the rows of a range of heights."""
        edges = []
        for y in range(top + int(share[0] * height), top + int(share[1] * height)):
            of_right, of_left = np.where(right[y])[0], np.where(left[y])[0]
            if len(of_right) and len(of_left):
                edges.append((of_right[-1] + 1, of_left[0]))
        return np.median(edges, axis=0) if edges else None

    above, at_heart = inner_edges(ABOVE), inner_edges(AT_HEART)
    if above is None or at_heart is None:
        return None
    sizes = sorted((right.sum(), left.sum()))
    (right_top, left_top), (right_end, left_end) = (
        [np.where(lung.any(1))[0][end] for lung in (right, left)] for end in (0, -1)
    )
    return [
        (above[1] - above[0]) / width,  # the gap between the lungs above the heart
        ((at_heart[1] - at_heart[0]) - (above[1] - above[0])) / width,  # how much wider it is at the heart
        (at_heart[1] - above[1]) / width,  # how far the heart moves the left lung's edge outwards
        sizes[0] / sizes[1],  # the smaller lung's share of the larger one
        (left_end - right_end) / height,  # how much lower the left lung ends
        (left_top - right_top) / height,  # how much lower it begins
    ]


def main(films, out):
    with open(films / "split.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    found = {row["file"]: measures(np.array(Image.open(films / "masks" / row["file"])) > 0) for row in rows}
    of_montgomery = [found[name] for name in found if name.startswith("MCUCXR") and found[name]]
    low, high = np.percentile(of_montgomery, [2.5, 97.5], axis=0)

    def stays(name):
        if name.startswith("MCUCXR"):
            return True
        values = found[name]
        return values is not None and bool(np.all((low <= values) & (values <= high)))

    shutil.copytree(films / "images", out / "images")
    shutil.copytree(films / "masks", out / "masks")
    counts = {}
    with open(out / "split.csv", "w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["file", "split"])
        for row in rows:
            split = row["split"] if stays(row["file"]) else "unused"
            writer.writerow([row["file"], split])
            key = (split, row["file"][:3])
            counts[key] = counts.get(key, 0) + 1
    print("ranges", [f"{a:.3f} to {b:.3f}" for a, b in zip(low, high)])
    for (split, source), count in sorted(counts.items()):
        print(split, source, count)


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    main(Path(sys.argv[1]), Path(sys.argv[2]))

"""Draws scan slices with the outlines of a DICOM segmentation, as highdicom reads them back.

usage: picture.py SERIES_FOLDER SEGMENTATION OUT.png [SEGMENTS]
"""

import glob
import sys

import highdicom
import matplotlib
import numpy as np
import pydicom

matplotlib.use("Agg")
import matplotlib.pyplot as plt

folder, segmentation, out = sys.argv[1:4]
most = int(sys.argv[4]) if len(sys.argv) > 4 else 4
slices = [pydicom.dcmread(name) for name in glob.glob(f"{folder}/*")]
slices.sort(key=lambda one: float(one.ImagePositionPatient[2]))
seg = highdicom.seg.segread(segmentation)
numbers = list(seg.segment_numbers)[:most]
uids = [one.SOPInstanceUID for one in slices]
masks = seg.get_pixels_by_source_instance(
    uids, segment_numbers=numbers, assert_missing_frames_are_empty=True, combine_segments=False
)
columns = min(len(slices), 5)
shown = np.linspace(0, len(slices) - 1, columns).round().astype(int)
figure, axes = plt.subplots(1, columns, figsize=(2.6 * columns, 3.4), squeeze=False)
colours = ["#e69f00", "#56b4e9", "#009e73", "#cc79a7", "#f0e442", "#d55e00"]
for axis, at in zip(axes[0], shown):
    values = slices[at].pixel_array * float(slices[at].RescaleSlope) + float(slices[at].RescaleIntercept)
    axis.imshow(values, cmap="gray")
    for index, number in enumerate(numbers):
        if masks[at, ..., index].any():
            axis.contour(masks[at, ..., index], [0.5], colors=[colours[index % 6]], linewidths=1.2)
    axis.set_title(f"z = {float(slices[at].ImagePositionPatient[2]):.1f} mm", fontsize=8)
    axis.axis("off")
labels = [seg.get_segment_description(number).segment_label for number in numbers]
lines = [plt.Line2D([], [], color=colours[index % 6], label=label) for index, label in enumerate(labels)]
figure.legend(handles=lines, loc="lower center", ncols=2, fontsize=8, frameon=False)
figure.tight_layout(rect=(0, 0.14, 1, 0.97))
figure.savefig(out, dpi=80, pil_kwargs={"optimize": True})

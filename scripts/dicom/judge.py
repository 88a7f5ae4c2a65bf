"""Judges what `multivalued` reads from and writes to DICOM: highdicom, SimpleITK, nibabel and pydicom must agree.

usage: judge.py PROGRAM MODEL FOLDER
"""

import copy
import json
import os
import re
import shutil
import subprocess
import sys

import highdicom
import nibabel
import numpy as np
import SimpleITK
from pydicom.encaps import encapsulate
from pydicom.uid import JPEG2000Lossless, JPEGLSLossless, RLELossless

import lidc
import series

program, model, folder = sys.argv[1:4]
said = []


def run(*arguments, code=0):
    """Runs the program and gives all it says; its end must have that code."""
    done = subprocess.run([program, *map(str, arguments)], capture_output=True, text=True, cwd=folder)
    words = done.stdout + done.stderr
    said.append(words)
    assert done.returncode == code, f"{arguments} ended with {done.returncode}: {words}"
    return words


def predict(source, out, *options, code=0):
    return run("predict", model, source, "--out", out, "--views", "1", *options, code=code)


def document(out, name):
    with open(os.path.join(folder, out, name, "prediction.json")) as file:
        return json.load(file)


def passed(what):
    print(f"ok: {what}", flush=True)


values = series.volume()
sound = series.make(values)
series.save(f"{folder}/ct", sound)

# Reading: SimpleITK's volume, saved as NIfTI, has the same values at the same place.
reader = SimpleITK.ImageSeriesReader()
reader.SetFileNames(reader.GetGDCMSeriesFileNames(f"{folder}/ct"))
scan = reader.Execute()
assert np.array_equal(SimpleITK.GetArrayFromImage(scan), values), "SimpleITK reads what was made"
SimpleITK.WriteImage(scan, f"{folder}/itk.nii.gz")
predict("ct", "from-dicom")
predict("itk.nii.gz", "from-nifti")
ours, theirs = document("from-dicom", "ct"), document("from-nifti", "itk")
assert ours["pixels_blake3"] == theirs["pixels_blake3"], "values and order of slices"
assert np.allclose(ours["spacing"], theirs["spacing"], atol=1e-4)
mask = nibabel.load(f"{folder}/from-dicom/ct/hypothesis-1.nii.gz")
like = nibabel.load(f"{folder}/itk.nii.gz")
assert np.allclose(mask.affine, like.affine, atol=1e-3), f"{mask.affine} against {like.affine}"
passed("a series is read as SimpleITK reads it, and masks lie where nibabel finds the scan")

# Writing: highdicom reads one segment for each hypothesis, at the right place.
predict("ct", "seg", "--format", "dicom")
seg_file = f"{folder}/seg/ct/segmentation.dcm"
seg = highdicom.seg.segread(seg_file)
told = document("seg", "ct")
count = len(told["volume"]["hypotheses"])
assert seg.number_of_segments == count, f"{seg.number_of_segments} segments of {count}"
assert seg.PatientName == sound[0].PatientName and seg.PatientID == sound[0].PatientID
assert seg.StudyInstanceUID == sound[0].StudyInstanceUID
assert seg.FrameOfReferenceUID == sound[0].FrameOfReferenceUID
assert "InstitutionName" not in seg and "StudyDescription" not in seg, "no more of the patient than is due"
marked = 0
for number in seg.segment_numbers:
    described = seg.get_segment_description(number)
    chance = told["volume"]["hypotheses"][number - 1]["probability"]
    assert abs(float(re.search(r"\d\.\d{4}", described.SegmentDescription)[0]) - chance) < 1e-4
    assert described.segment_label.startswith(f"hypothesis {number}, p = ")
    wanted = np.asarray(nibabel.load(f"{folder}/from-dicom/ct/hypothesis-{number}.nii.gz").dataobj)
    marked += wanted.sum()
    uids = [one.SOPInstanceUID for one in sound]
    found = seg.get_pixels_by_source_instance(
        uids, segment_numbers=[number], assert_missing_frames_are_empty=True, combine_segments=False
    )
    assert np.array_equal(found[..., 0].transpose(2, 1, 0), wanted), f"segment {number} by source instance"
    placed = seg.get_volume(segment_numbers=[number], combine_segments=False, allow_missing_positions=True)
    # highdicom's indices are slice, row, column, in DICOM's coordinates.
    places = np.argwhere(placed.array[..., 0])
    world = (placed.affine @ np.c_[places, np.ones(len(places))].T)[:3].T * [-1, -1, 1]
    other = np.argwhere(wanted)
    ours = (like.affine @ np.c_[other, np.ones(len(other))].T)[:3].T
    assert len(world) == len(ours)
    if len(world):
        order = lambda points: points[np.lexsort(np.round(points, 2).T)]
        assert np.allclose(order(world), order(ours), atol=1e-2), f"segment {number} in the world"
assert marked > 0, "something was segmented"
passed(f"highdicom reads {count} segments with {marked} voxels where the masks lie")

if shutil.which("dciodvfy"):
    done = subprocess.run(["dciodvfy", seg_file], capture_output=True, text=True)
    errors = [line for line in (done.stdout + done.stderr).splitlines() if line.startswith("Error")]
    assert not errors, errors
    passed("dciodvfy finds no error")
else:
    print("skipped: dciodvfy is not installed (Debian: dicom3tools)")

# Other ways to store the same pixels.


def same(name, datasets, what):
    series.save(f"{folder}/{name}", datasets)
    predict(name, f"out-{name}")
    assert document(f"out-{name}", name)["pixels_blake3"] == theirs["pixels_blake3"], name
    passed(what)


packed = copy.deepcopy(sound)
for one in packed:
    one.compress(RLELossless, generate_instance_uid=False)
same("rle", packed, "run lengths are read")
packed = copy.deepcopy(sound)
for one in packed:
    one.compress(JPEG2000Lossless, generate_instance_uid=False)
same("jpeg2000", packed, "lossless JPEG 2000 is read")
implicit = copy.deepcopy(sound)
for one in implicit:
    one.file_meta.TransferSyntaxUID = "1.2.840.10008.1.2"
same("implicit", implicit, "implicit types are read")
scaled = copy.deepcopy(sound)
for at, one in enumerate(scaled):
    one.RescaleSlope, one.RescaleIntercept = 0.5, -1024 + at
    stored = (values[at].astype(np.int32) + 1024 - at) * 2
    one.PixelData = stored.astype("<i2").tobytes()
same("pet", scaled, "slices with scales of their own are read")
if shutil.which("dcmcjpeg"):
    os.makedirs(f"{folder}/lossless", exist_ok=True)
    for name in os.listdir(f"{folder}/ct"):
        subprocess.run(["dcmcjpeg", "+e1", f"{folder}/ct/{name}", f"{folder}/lossless/{name}"], check=True)
    predict("lossless", "out-lossless")
    assert document("out-lossless", "lossless")["pixels_blake3"] == theirs["pixels_blake3"]
    passed("lossless JPEG is read")
else:
    print("skipped: lossless JPEG needs dcmcjpeg (Debian: dcmtk)")

# One file with all frames, made of the series by highdicom.
frames = highdicom.legacy.LegacyConvertedEnhancedCTImage(
    copy.deepcopy(sound), highdicom.UID(), 5, highdicom.UID(), 1
)
frames.save_as(f"{folder}/frames.dcm")
predict("frames.dcm", "out-frames", "--format", "dicom")
assert document("out-frames", "frames")["pixels_blake3"] == theirs["pixels_blake3"]
of_frames = highdicom.seg.segread(f"{folder}/out-frames/frames/segmentation.dcm")
numbers = list(range(1, len(sound) + 1))
found = of_frames.get_pixels_by_source_frame(
    frames.SOPInstanceUID, numbers, segment_numbers=[1], assert_missing_frames_are_empty=True, combine_segments=False
)
wanted = np.asarray(nibabel.load(f"{folder}/from-dicom/ct/hypothesis-1.nii.gz").dataobj)
places = [
    [float(v) for v in one.PlanePositionSequence[0].ImagePositionPatient]
    for one in frames.PerFrameFunctionalGroupsSequence
]
order = np.argsort([np.dot(place, series.directions()[2]) for place in places])
assert np.array_equal(found[order][..., 0].transpose(2, 1, 0), wanted), "segments of frames"
passed("a multi-frame file is read, and its frames are referred to")

# Colour, as secondary captures have it, and lossy JPEG.
picture = np.random.default_rng(3).integers(0, 255, (32, 32, 3), dtype=np.uint8)
SimpleITK.WriteImage(SimpleITK.GetImageFromArray(picture, isVector=True), f"{folder}/rgb.dcm")
words = predict("rgb.dcm", "out-rgb", code=2)
assert "channel" in words, words
passed("a colour image is refused by a model of one channel")

# Several series in a folder.
other = series.make(values[:4])
for one in other:
    one.SeriesNumber = 9
series.save(f"{folder}/two", sound + other)
words = predict("two", "out-two", code=2)
assert "holds 2 series" in words and "series-2 (CT, number 9, 4 slice(s) of 128x128)" in words, words
predict("two/series-1", "out-two")
assert document("out-two", "two-series-1")["pixels_blake3"] == theirs["pixels_blake3"]
passed("one of two series is chosen")

# What is no volume is told in a sentence.


def refused(name, datasets, *phrases):
    series.save(f"{folder}/{name}", datasets)
    words = predict(name, f"out-{name}", code=2)
    for phrase in phrases:
        assert phrase in words, f"{name}: '{phrase}' is not in: {words}"
    assert len(words.strip().splitlines()) <= 2, words
    passed(f"{name}: {words.strip().splitlines()[-1][:150]}")


def changed(change):
    datasets = copy.deepcopy(sound)
    return change(datasets) or datasets


refused("missing", changed(lambda all: all[:2] + all[3:]), "slices between them are missing")
twice = copy.deepcopy(sound)
twice.append(copy.deepcopy(twice[2]))
twice[-1].SOPInstanceUID += ".1"
refused("duplicate", twice, "lies at the same place as")
mixed = copy.deepcopy(sound)
mixed[4].ImageOrientationPatient = [1, 0, 0, 0, 1, 0]
refused("orientations", mixed, "lies in another direction than")
tilted = copy.deepcopy(sound)
for at, one in enumerate(tilted):
    _, column, _ = series.directions()
    one.ImagePositionPatient = list(np.array([float(v) for v in one.ImagePositionPatient]) + at * 0.5 * column)
refused("tilt", tilted, "gantry tilt", "11.3 degrees")
sizes = copy.deepcopy(sound)
sizes[1].Rows, sizes[1].PixelData = 64, sizes[1].PixelData[: 64 * 128 * 2]
refused("sizes", sizes, "128x64")
short = copy.deepcopy(sound)
for one in short:
    one.ImagesInAcquisition = 9
refused("ended", short, "holds 6 of the 9 slices")
for name, syntax, words in [
    ("damaged-jpeg2000", JPEG2000Lossless, "JPEG 2000 frame cannot be decoded"),
    ("jpeg-ls", JPEGLSLossless, "JPEG-LS"),
]:
    foreign = copy.deepcopy(sound)
    for one in foreign:
        one.file_meta.TransferSyntaxUID = syntax
        one.PixelData = encapsulate([b"\xff\x4f\xff\x51 no picture"])
        one["PixelData"].is_undefined_length = True
        one["PixelData"].VR = "OB"
    refused(name, foreign, words, "gdcmconv --raw")
series.save(f"{folder}/cut", sound)
victim = f"{folder}/cut/IM0003"
with open(victim, "r+b") as file:
    file.truncate(os.path.getsize(victim) - 1000)
words = predict("cut", "out-cut", code=2)
assert "IM0003" in words and "truncated" in words, words
passed("a truncated file is named")

# LIDC from its source: masks are what was drawn inside of the outlines, in crops and in volumes.
drawn = lidc.make(f"{folder}/tcia")
words = run("import", "lidc", "tcia", "--out", "out-crops")
assert "10 slices of 2 nodules in 2 patients" in words, words
for number, masks in enumerate(drawn, 1):
    place = f"{folder}/out-crops/LIDC-IDRI-{number:04}/nodule-0"
    columns, rows = np.nonzero(np.any(masks, (0, 1)).T)
    left, top = [min(max((ends.min() + ends.max() + 1) // 2 - 64, 0), 160 - 128) for ends in (columns, rows)]
    for reader, mask in enumerate(masks):
        for at, z in enumerate(range(2, 7)):
            found = SimpleITK.GetArrayFromImage(SimpleITK.ReadImage(f"{place}/mask-{reader}/slice-{at}.png"))
            assert np.array_equal(found > 0, mask[z, top : top + 128, left : left + 128]), (number, reader, z)
run("validate", "out-crops")
run("import", "lidc", "tcia", "--out", "out-volumes", "--volumes")
for number, masks in enumerate(drawn, 1):
    place = f"{folder}/out-volumes/LIDC-IDRI-{number:04}/scan-1"
    scan = SimpleITK.ReadImage(f"{place}/image.nii.gz")
    assert np.array_equal(SimpleITK.GetArrayFromImage(scan), series.volume(slices=8, size=160))
    for reader, mask in enumerate(masks, 1):
        found = SimpleITK.ReadImage(f"{place}/reader-{reader}.nii.gz")
        assert np.array_equal(SimpleITK.GetArrayFromImage(found) > 0, mask), (number, reader)
        assert np.allclose(found.GetOrigin(), scan.GetOrigin(), atol=1e-3)
run("validate", "out-volumes")
passed("LIDC's crops and volumes hold what readers drew")

# Nothing of the patient appears but in the segmentation.
secrets = [str(value) for value in series.PATIENT.values()]
for words in said:
    for secret in secrets:
        assert secret.lower() not in words.lower(), f"'{secret}' was printed: {words}"
for place, _, names in os.walk(folder):
    if "out-" not in place and "from-" not in place and "seg" not in place:
        continue
    for name in names:
        with open(os.path.join(place, name), "rb") as file:
            content = file.read().lower()
        for secret in secrets:
            assert name == "segmentation.dcm" or secret.lower().encode() not in content, f"{place}/{name}: {secret}"
passed("nothing of the patient is told")

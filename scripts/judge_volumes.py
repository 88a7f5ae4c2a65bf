"""Judges what `multivalued predict` writes for volumes: PROGRAM MODEL FOLDER. Called by scripts/test-volumes."""

import itertools
import json
import pathlib
import subprocess
import sys

import nibabel
import numpy
import SimpleITK

program, model, place = sys.argv[1], sys.argv[2], pathlib.Path(sys.argv[3])
SIZE, SLICES = 64, 9
SPACING = (0.68359375, 0.7421875, 2.5)


def rotation(x, y, z):
    """A direction matrix of no axis in particular."""
    turns = []
    for angle, (i, j) in zip((x, y, z), ((1, 2), (0, 2), (0, 1))):
        turn = numpy.eye(3)
        turn[i, i] = turn[j, j] = numpy.cos(angle)
        turn[i, j], turn[j, i] = -numpy.sin(angle), numpy.sin(angle)
        turns.append(turn)
    return turns[0] @ turns[1] @ turns[2]


def nodule():
    """A bright ball in noise, columns first, whose rim is uncertain."""
    random = numpy.random.default_rng(1)
    grid = numpy.meshgrid(*(numpy.arange(n) for n in (SIZE, SIZE, SLICES)), indexing="ij")
    far = numpy.sqrt((grid[0] - 32) ** 2 + (grid[1] - 30) ** 2 + (3.4 * (grid[2] - 4)) ** 2)
    return (60 + 140 / (1 + numpy.exp((far - 9) / 1.5)) + random.normal(0, 6, far.shape)).astype(numpy.int16)


def predict(name, *options):
    out = place / ("said-" + name.replace(".", "-"))
    command = [program, "predict", model, str(place / name), "--out", str(out), "--views", "1", *options]
    said = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    (folder,) = out.iterdir()
    return folder, json.loads((folder / "prediction.json").read_text()), said


def iou(a, b):
    union = numpy.logical_or(a, b).sum()
    return 1.0 if union == 0 else numpy.logical_and(a, b).sum() / union


def coherence(volume):
    """Mean IoU of neighbouring slices."""
    return numpy.mean([iou(a, b) for a, b in itertools.pairwise(numpy.moveaxis(volume, 2, 0))])


voxels, direction = nodule(), rotation(0.2, -0.13, 0.31)
affine = numpy.eye(4)
affine[:3, :3] = direction @ numpy.diag(SPACING)
affine[:3, 3] = (-31.5, 84.25, -217.125)

# NIfTI, by nibabel: sform and qform to the bit, and the header's geometry byte by byte.
image = nibabel.Nifti1Image(voxels, affine)
image.header.set_xyzt_units("mm")
image.set_qform(affine, 1)
image.set_sform(affine, 2)
nibabel.save(image, place / "scan.nii.gz")
source = nibabel.load(place / "scan.nii.gz")
folder, document, said = predict("scan.nii.gz", "--samples", "50", "--seed", "3")
for name in [one["file"] for one in document["volume"]["hypotheses"]] + document["samples"]:
    written = nibabel.load(folder / name)
    assert written.shape == source.shape, name
    assert numpy.array_equal(written.affine, source.affine), name
    assert numpy.array_equal(written.get_qform(), source.get_qform()), name
    # pixdim, and from qform_code to srow_z.
    for fields in (slice(76, 108), slice(252, 328)):
        assert written.header.binaryblock[fields] == source.header.binaryblock[fields], name

# Probabilities, and what they are of.
hypotheses = document["volume"]["hypotheses"]
total = sum(one["probability"] for one in hypotheses) + document["volume"]["remaining_probability"]
assert abs(total - 1) < 1e-6, total
load = lambda name: numpy.asarray(nibabel.load(folder / name).dataobj) > 0
for one in hypotheses:
    mask = load(one["file"])
    assert mask.sum() == one["voxels"][0]
    assert abs(mask.sum() * numpy.prod(SPACING) / 1000 - one["ml"][0]) < 1e-4
for a, b in itertools.combinations([load(one["file"]) for one in hypotheses], 2):
    assert not numpy.array_equal(a, b), "a volume is listed twice"

# Samples are coherent: neighbouring slices overlap more than those of slices that are drawn each by itself.
samples = [load(name) for name in document["samples"]]
random = numpy.random.default_rng(2)
apart = []
for _ in samples:
    chosen = random.integers(len(samples), size=SLICES)
    apart.append(numpy.stack([samples[one][:, :, z] for z, one in enumerate(chosen)], 2))
together, alone = numpy.mean([*map(coherence, samples)]), numpy.mean([*map(coherence, apart)])
assert together >= alone - 1e-9, (together, alone)
# And each slice is as often there as it was in the mean of all: marginals stay.
sizes = document["sizes"][0]["pixels"]
mean = numpy.mean([sample.sum() for sample in samples])
spread = numpy.std([sample.sum() for sample in samples]) / numpy.sqrt(len(samples))
assert abs(mean - sizes["mean"]) < 5 * spread + 1, (mean, sizes)
assert "ml, 90 %:" in said, said

# NRRD and MetaImage, by SimpleITK: origin, spacing and direction to the bit.
lps = SimpleITK.GetImageFromArray(numpy.transpose(voxels, (2, 1, 0)))
lps.SetSpacing(SPACING)
lps.SetOrigin((31.5, -84.25, -217.125))
lps.SetDirection(direction.ravel().tolist())
for name in ("scan.nrrd", "scan.mha"):
    SimpleITK.WriteImage(lps, str(place / name))
    source = SimpleITK.ReadImage(str(place / name))
    folder, other, _ = predict(name)
    for one in other["volume"]["hypotheses"]:
        written = SimpleITK.ReadImage(str(folder / one["file"]))
        assert written.GetSize() == source.GetSize(), name
        assert written.GetSpacing() == source.GetSpacing(), name
        assert written.GetOrigin() == source.GetOrigin(), name
        assert written.GetDirection() == source.GetDirection(), name
        assert (SimpleITK.GetArrayFromImage(written) > 0).sum() == one["voxels"][0], name
    # The same voxels in another format are the same volumes.
    first = other["volume"]["hypotheses"][0]["voxels"]
    assert first == hypotheses[0]["voxels"], (name, first)

# Another grid: a model's answer comes back at the place that the file says.
turned = nibabel.Nifti1Image(voxels[:, ::-1], affine @ numpy.array([[1, 0, 0, 0], [0, -1, 0, SIZE - 1], [0, 0, 1, 0], [0, 0, 0, 1]]))
nibabel.save(turned, place / "turned.nii")
folder, document, _ = predict("turned.nii")
assert numpy.array_equal(nibabel.load(folder / "hypothesis-1.nii").affine, nibabel.load(place / "turned.nii").affine)
print(f"volumes hold: neighbours of samples overlap {together:.3f}, of slices drawn apart {alone:.3f}; {said.strip().splitlines()[-1]}")

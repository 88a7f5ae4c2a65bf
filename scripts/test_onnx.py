"""What `scripts/test-onnx` checks: PROGRAM exports, onnxruntime computes, and docs/onnx.md makes masks of it.

Usage: test_onnx.py PROGRAM FOLDER    (FOLDER/lidc-test holds real slices, where there are any)
"""

import contextlib
import io
import json
import os
import pathlib
import re
import subprocess
import sys
import time

import numpy as np
import onnx
import onnxruntime
from PIL import Image

ROOT = pathlib.Path(__file__).resolve().parent.parent
PROGRAM, PLACE = sys.argv[1], pathlib.Path(sys.argv[2])
SLICES = 200
# How near answers must be: probabilities, and the logits of pixels that differ.
PROBABILITY, LOGIT = 1e-5, 1e-4

TINY = """
[model]
channels = [8, 12, 16]
head_width = 8
code_count = 4
code_dim = 4
classifier_hidden = 8
[assignment]
active_codes = 0
min_usage = 0
[train]
batch = 8
epochs = 0
steps = 120
learning_rate = 0.01
warmup_steps = 5
validate_every = 10
[predict]
merge_iou = 1.0
"""

RANGE = "data.normalise={ range = { low = 20, high = 200 } }"
# Name, changes of the recipe, and whether it learns from three channels and classes.
FORMS = [
    ("head", ["augment.flip_horizontal=0.5", "predict.views=2"], False),
    ("bottleneck", ["model.code_entry=bottleneck", "model.norm_group=0"], False),
    ("empty-head", ["model.empty_head=true", "predict.spread=1.0", "predict.calibrate=false"], False),
    ("range", [RANGE, "predict.temperature=1.5", "predict.calibrate=false"], False),
    ("resize", ["data.resize=[24, 20]", "data.normalise=z-score"], False),
    ("colour", ["model.input_channels=3", "model.classes=3", "data.normalise=z-score"], True),
    ("colour-resize", ["model.input_channels=3", "model.classes=3", "data.resize=[12, 20]", RANGE], True),
    ("unet", ["method.kind=unet"], False),
]


def run(*arguments, codes=(0,)):
    done = subprocess.run([PROGRAM, *map(str, arguments)], cwd=PLACE, capture_output=True, text=True, timeout=200)
    assert done.returncode in codes, f"{arguments}: {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done.stdout + done.stderr


def page():
    """The functions of docs/onnx.md, after every line of it ran."""
    text = (ROOT / "docs/onnx.md").read_text()
    blocks = re.findall(r"```python\n(.*?)```", text, re.S)
    assert len(blocks) == 2, len(blocks)
    names, seen, wanted = {}, set(), set()

    def lines(code):
        yield from ((code.co_filename, line) for _, _, line in code.co_lines() if line)
        for inner in code.co_consts:
            if hasattr(inner, "co_lines"):
                yield from lines(inner)

    def trace(frame, event, _):
        if frame.f_code.co_filename.startswith("docs/onnx.md"):
            seen.add((frame.f_code.co_filename, frame.f_lineno))
            return trace
        return None

    os.chdir(PLACE)
    for number, block in enumerate(blocks):
        code = compile(block, f"docs/onnx.md, block {number + 1}", "exec")
        wanted |= set(lines(code))
        sys.settrace(trace)
        with contextlib.redirect_stdout(io.StringIO()):
            exec(code, names)
        sys.settrace(None)
    return names, seen, wanted, trace


def read(path, channels):
    image = np.asarray(Image.open(path), np.float32)
    return image[None] if channels == 1 else np.moveaxis(image, 2, 0)


class Exported:
    """A model as a file, and as onnxruntime runs it."""

    def __init__(self, model, name):
        self.model, self.path = model, PLACE / f"{name}.onnx"
        run("export", model, "--onnx", self.path)
        onnx.checker.check_model(onnx.load(self.path), full_check=True)
        self.session = onnxruntime.InferenceSession(self.path, providers=["CPUExecutionProvider"])
        told = self.session.get_modelmeta().custom_metadata_map
        self.facts = {key: json.loads(value) for key, value in told.items()}

    def __call__(self, images, **more):
        return self.session.run(["probabilities", "logits"], {"image": images, **more})


def compare(exported, hypotheses, images, out):
    """Pixels that differ from `predict`'s masks, all pixels, and the largest difference of a probability."""
    differ = pixels = 0
    apart = 0.0
    for name, path in images.items():
        image = read(path, exported.facts["channels"])
        probabilities, logits = (values[0] for values in exported(image[None]))
        found = hypotheses(probabilities, logits, exported.facts, image.shape[1:])
        said = PLACE / out / name
        stated = json.loads((said / "prediction.json").read_text())["slices"][0]["hypotheses"]
        assert len(found) == len(stated), f"{name}: {len(found)} and {len(stated)} hypotheses"
        codes = [code for member in exported.facts["members"] for code in member["codes"]]
        outlines = [shift for member in exported.facts["members"] for shift in member["outlines"]]
        for one in stated:
            labels = np.asarray(Image.open(said / one["file"]))
            classes = exported.facts["classes"]
            mask = labels[None] > 0 if classes == 1 else labels == np.arange(1, classes + 1)[:, None, None]
            # Equal probabilities may come in either order.
            alike = [other for other in found if other[1] == one["code"]]
            assert alike, f"{name}: nothing of code {one['code']}"
            nearest = min(alike, key=lambda other: (other[2] != mask).sum() + abs(other[0] - one["probability"]))
            apart = max(apart, abs(nearest[0] - one["probability"]))
            where = (nearest[2] != mask).any(0)
            differ, pixels = differ + where.sum(), pixels + where.size
            if where.any():
                assert not exported.facts["resize"], f"{name}: a resampled mask differs"
                own = logits[codes.index(one["code"])]
                scores = own if len(own) == 1 else own[1:] - own[0]
                best = scores.max(0)
                near = [np.abs(best + shift)[where] for shift in (*outlines, 1 - best.max())]
                if len(own) > 1:
                    near.append((best - np.sort(scores, 0)[-2])[where])
                assert np.min(near, 0).max() < LOGIT, f"{name}: {np.min(near, 0)} decide"
    return differ, pixels, apart


def judged(name, differ, pixels, apart):
    print(f"| {name} | {differ} of {pixels:,} | {apart:.1e} |", flush=True)
    assert differ <= pixels / 1e6 or differ <= 1 and pixels < 1e6, f"{name}: {differ} of {pixels} pixels differ"
    assert apart <= PROBABILITY, f"{name}: probabilities differ by {apart}"


def colour_set():
    """Images of three channels with labels of three classes by two readers."""
    draw = np.random.default_rng(1)
    for at in range(24):
        y, x = np.mgrid[:24, :18]
        place = draw.uniform(5, 13, 2)
        image = draw.integers(0, 60, (24, 18, 3))
        labels = np.zeros((24, 18), np.uint8)
        for label in (1, 2, 3):
            inside = np.hypot(y - place[0] - 2 * label, x - place[1]) < 6 - label
            image[inside, label - 1] += 150
            labels[inside] = label
        for folder, content in [
            ("images", image.astype(np.uint8)),
            ("rater1", labels),
            ("rater2", np.where(x > place[1], labels, 0).astype(np.uint8)),
        ]:
            (PLACE / "colours" / folder).mkdir(parents=True, exist_ok=True)
            Image.fromarray(content).save(PLACE / "colours" / folder / f"c{at:02}.png")


def check_form(name, changes, in_colour, hypotheses):
    settings = [word for change in changes for word in ("--set", change)]
    data = ["--data", "colours", "--masks", "labels:3"] if in_colour else ["--data", "shapes"]
    if not (PLACE / name).is_dir():
        run("train", "tiny.toml", "--out", name, "--device", "cpu", *data, *settings, codes=(0, 1))
    exported = Exported(name, name)
    paths = sorted((PLACE / ("colours" if in_colour else "shapes") / "images").glob("*.png"))[:6]
    draw = np.random.default_rng(2)
    sizes = [(16, 16), (23, 37)]
    folder = PLACE / f"{name}-images"
    folder.mkdir(exist_ok=True)
    for size in sizes:
        shape = (*size, 3) if in_colour else size
        paths.append(folder / f"noise-{size[0]}.png")
        Image.fromarray(draw.integers(0, 256, shape, np.uint8)).save(paths[-1])
    run("predict", name, *paths, "--views", "1", "--out", f"{name}-said", "--device", "cpu")
    images = {path.stem: path for path in paths}
    differ, pixels, apart = compare(exported, hypotheses, images, f"{name}-said")
    judged(name, differ, pixels, apart)
    one_each = sum(read(path, exported.facts["channels"])[0].size for path in paths)
    assert name == "unet" or pixels > 1.5 * one_each, f"{name}: too few hypotheses to say anything"
    # Three images at once are what each is alone.
    channels = exported.facts["channels"]
    for height, width in sizes:
        three = draw.uniform(0, 255, (3, channels, height, width)).astype(np.float32)
        together = exported(three)
        for at in range(3):
            for all_three, alone in zip(together, exported(three[at : at + 1])):
                np.testing.assert_allclose(all_three[at], alone[0], rtol=1e-4, atol=1e-5)


def check_samples(hypotheses):
    """The Probabilistic U-Net draws with the caller's noise: its samples' mean is near `predict`'s."""
    run("train", "tiny.toml", "--data", "shapes", "--out", "samples", "--device", "cpu", "--set", "method.kind=probabilistic-unet",
        "--set", "predict.samples=200", codes=(0, 1))
    exported = Exported("samples", "samples")
    path = sorted((PLACE / "shapes/images").glob("*.png"))[0]
    run("predict", "samples", path, "--maps", "--out", "samples-said", "--device", "cpu")
    noise = exported.facts["noise"]
    draw = np.random.default_rng(3).standard_normal((1, noise["samples"], noise["latent_dim"])).astype(np.float32)
    image = read(path, 1)
    probabilities, logits = exported(image[None], noise=draw)
    found = hypotheses(probabilities[0], logits[0], exported.facts, image.shape[1:])
    mean = sum(p * mask[0] for p, _, mask in found)
    stated = np.asarray(Image.open(PLACE / "samples-said" / path.stem / "mean-1.png"), np.float64) / 65535
    # Two means of 200 samples each: four standard deviations of their difference.
    assert np.abs(mean - stated).max() < 0.2, np.abs(mean - stated).max()
    assert abs(sum(p for p, _, _ in found) - 1) < 1e-9


def check_lidc(exported, hypotheses):
    """Real slices: the files of some patients."""
    folder = PLACE / "lidc-test"
    if not folder.is_dir():
        return
    chosen, images = PLACE / "slices", {}
    chosen.mkdir()
    for at, path in enumerate(sorted(folder.glob("*/*/images/*.png"))[:SLICES]):
        images[f"{at:03}"] = chosen / f"{at:03}.png"
        images[f"{at:03}"].write_bytes(path.read_bytes())
    run("predict", exported.model, chosen, "--views", "1", "--out", "slices-said", "--device", "cpu")
    judged(f"lidc, {len(images)} slices", *compare(exported, hypotheses, images, "slices-said"))


def compare_speed(exported):
    """The same network on 16 images of 128x128 by both, all sixteen outputs of each."""
    images = np.random.default_rng(4).uniform(0, 255, (16, 1, 128, 128)).astype(np.float32)
    took = []
    for _ in range(5):
        began = time.perf_counter()
        exported(images)
        took.append((time.perf_counter() - began) / 16 * 1e3)
    settings = ["data.path=", "data.task=raters", "data.size=128", "data.train_count=16", "train.batch=16", "train.warmup_steps=1"]
    settings = [word for setting in settings for word in ("--set", setting)]
    told = run("bench", "lidc", "--steps", "1", "--device", "cpu", *settings)
    ours, theirs = float(re.search(r"prediction\s+([\d.]+) ms", told)[1]), sorted(took)[2]
    print(f"128x128, network of models/lidc: onnxruntime {theirs:.1f} ms an image, multivalued {ours:.1f} ms with "
          f"its masks: {theirs / ours:.2f} times")


def main():
    began = time.perf_counter()
    (PLACE / "tiny.toml").write_text(TINY)
    run("generate", "shapes", "--size", "16", "--count", "train=32,test=6", "--out", "shapes")
    run("generate", "shapes", "--size", "160", "--count", "test=4", "--out", "large")
    run("generate", "raters", "--size", "128", "--count", "test=1", "--out", "one")
    colour_set()
    lidc = Exported(ROOT / "models/lidc", "lidc")
    (PLACE / "slice.png").write_bytes(next((PLACE / "one/images").glob("*.png")).read_bytes())
    names, seen, wanted, trace = page()
    hypotheses = names["hypotheses"]
    print("| model | pixels that differ | probabilities differ by |\n|---|---|---|")
    sys.settrace(trace)
    for name, changes, in_colour in FORMS:
        check_form(name, changes, in_colour, hypotheses)
    sys.settrace(None)
    missed = sorted(line for line in wanted - seen)
    assert not missed, f"lines of docs/onnx.md that nothing ran: {missed}"
    run("combine", "head", "empty-head", "--out", "both")
    check_form("both", [], False, hypotheses)
    check_samples(hypotheses)
    shapes = Exported(ROOT / "models/shapes", "shapes-model")
    images = {path.stem: path for path in (PLACE / "large/images").glob("*.png")}
    run("predict", shapes.model, *images.values(), "--out", "large-said", "--device", "cpu")
    judged("shapes", *compare(shapes, hypotheses, images, "large-said"))
    check_lidc(lidc, hypotheses)
    compare_speed(lidc)
    print(f"{time.perf_counter() - began:.0f} s")


main()

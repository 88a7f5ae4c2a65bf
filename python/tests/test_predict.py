"""Prediction: what goes in, what comes out, and that it is what the command line says."""

from __future__ import annotations

import json
import multiprocessing
import os
import pathlib
import pickle
import signal
import threading
import time
import warnings

import numpy as np
import numpy.typing as npt
import pytest

import multivalued as mv
from conftest import command_line

Picture = npt.NDArray[np.uint8]


@pytest.fixture(scope="module")
def model() -> mv.Model:
    return mv.load("lidc", device="cpu", views=1)


@pytest.fixture(autouse=True)
def _silent() -> None:
    warnings.simplefilter("ignore", mv.UnlikeTrainingData)


@pytest.mark.parametrize("name", ["lidc", "shapes"])
@pytest.mark.parametrize("dtype", ["uint8", "uint16", "float32"])
def test_predictions_are_the_command_lines_to_the_bit(
    name: str, dtype: str, slice_like: Picture, tmp_path: pathlib.Path
) -> None:
    image = slice_like.astype(dtype) * (200 if dtype == "uint16" else 1)
    np.save(tmp_path / "slice.npy", image)
    out = tmp_path / "out"
    command_line("predict", mv.load(name).path, tmp_path / "slice.npy", "--out", out, "--device", "cpu", "--views", 2)
    document = json.loads((out / "slice" / "prediction.json").read_text())
    hypotheses = document["slices"][0]["hypotheses"]
    said = mv.load(name, device="cpu", views=2).predict(image)
    assert len(said) == len(hypotheses) > 0
    stated = np.array([one["probability"] for one in hypotheses], np.float32)
    assert stated.tobytes() == said.probabilities.tobytes()
    assert [one["code"] for one in hypotheses] == said.codes.tolist()
    for one, mask in zip(hypotheses, said.masks):
        written = np.load(out / "slice" / one["file"])
        assert np.array_equal(written.reshape(mask.shape) != 0, mask)
    assert document["warnings"] == list(said.warnings)
    assert np.array_equal(mv.read_image(tmp_path / "slice.npy"), image.astype(np.float32))


def test_one_image_and_several_say_the_same(model: mv.Model, slice_like: Picture) -> None:
    alone = model.predict(slice_like)
    other = slice_like[::-1]
    forms = [
        model.predict([slice_like, other]),
        model.predict(np.stack([slice_like, other])),
        model.predict([slice_like[:, :, None], other[:, :, None]]),
        model.predict(np.stack([slice_like, other]).astype(np.float64)[..., None]),
        model.predict([slice_like.astype(np.int32), np.asfortranarray(other)]),
    ]
    for said in forms:
        assert len(said) == 2 and np.array_equal(said[0].masks, alone.masks)
        assert said[0].probabilities.tobytes() == alone.probabilities.tobytes()
    assert isinstance(model.predict(slice_like[:, :, None]), mv.Prediction)
    sizes = model.predict([slice_like, slice_like[:64, :48]])
    assert [one.masks.shape[1:] for one in sizes] == [(128, 112), (64, 48)]


def test_a_prediction_has_its_shapes(model: mv.Model, slice_like: Picture) -> None:
    said = model.predict(slice_like)
    count = len(said)
    assert said.masks.shape == (count, 128, 112) and said.masks.dtype == np.bool_
    assert said.probabilities.shape == (count,) and abs(float(said.probabilities.sum()) - 1) < 1e-5
    assert np.all(np.diff(said.probabilities) <= 0)
    mean = sum(p * mask for p, mask in zip(said.probabilities, said.masks))
    assert np.allclose(said.mean, mean, atol=1e-6)
    assert np.allclose(said.disagreement, 2 * mean * (1 - mean), atol=1e-6)
    assert said.sample(5, seed=1).shape == (5, 128, 112)
    assert np.array_equal(said.sample(5, seed=1), said.sample(5, seed=1))


def test_fewer_hypotheses_by_four_rules(model: mv.Model, slice_like: Picture) -> None:
    all_of_them = model.predict(slice_like)
    two = model.predict(slice_like, top=2)
    assert np.array_equal(two.masks, all_of_them.masks[:2]) and two.probabilities.sum() < 1
    listed = model.predict(slice_like, most=2)
    assert len(listed) == 2 and abs(float(listed.probabilities.sum()) - 1) < 1e-5 and listed.list_loss > 0
    merged = model.predict(slice_like, merge=0.7)
    assert len(merged) <= len(all_of_them) and merged.list_loss is not None
    with pytest.raises(ValueError, match="not calibrated for a coverage of 0.9"):
        model.predict(slice_like, coverage=0.9)
    for wrong in ({"top": 0}, {"most": 0}, {"merge": 0.0}, {"most": 1, "top": 1}, {"merge": 0.5, "top": 1}):
        with pytest.raises(ValueError):
            model.predict(slice_like, **wrong)


def test_unlike_images_are_told(slice_like: Picture) -> None:
    with pytest.warns(mv.UnlikeTrainingData, match="has 40x30 pixels; the training images have 128x128"):
        said = mv.load("lidc", views=1).predict(slice_like[:30, :40])
    assert said.warnings[0].startswith("the image has 40x30 pixels")
    with pytest.warns(mv.UnlikeTrainingData, match=r"2 of 2 images; images\[0\] has 40x30"):
        mv.load("lidc", views=1).predict([slice_like[:30, :40]] * 2)


@pytest.mark.parametrize(
    ("image", "words"),
    [
        (np.zeros((8, 8), complex), r"\(8, 8\).*complex"),
        (np.zeros((8, 8), bool), r"\(8, 8\).*bool"),
        (np.full((8, 8), "a"), r"\(8, 8\)"),
        (np.zeros(8), r"\(8,\)"),
        (np.zeros((2, 3, 4, 5, 6)), r"\(2, 3, 4, 5, 6\)"),
        (np.zeros((0, 8)), r"\(0, 8\)"),
        (np.zeros((0, 8, 8)), r"\(0, 8, 8\)"),
        (np.zeros((9, 8, 3), np.uint8), r"\(9, 8, 3\).*3 channels.*takes 1"),
        (np.array([[0.0, np.nan], [1.0, 2.0]]), r"\(2, 2\).*1 of 4 values are NaN or infinite.*\(0, 1\)"),
        (np.array([[0.0, np.inf]]), r"\(1, 2\).*NaN or infinite"),
        ([], r"\(0,\)"),
        ([np.zeros((8, 8)), np.zeros((8, 8, 9))], r"images\[1\].*\(8, 8, 9\)"),
        ([[1.0, 2.0], [3.0]], r"images\[0\].*\(2,\)"),
    ],
)
def test_wrong_images_are_refused_with_their_shape(model: mv.Model, image: object, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        model.predict(image)  # type: ignore[call-overload]


def test_models_that_are_not_there(tmp_path: pathlib.Path) -> None:
    with pytest.raises(FileNotFoundError, match="there is no such run"):
        mv.load(tmp_path / "none")
    with pytest.raises(ValueError, match="is no run: it has no recipe.toml"):
        mv.load(tmp_path)
    with pytest.raises(ValueError, match="choose auto, cpu or cuda:N"):
        mv.load("lidc", device="tpu")
    with pytest.raises(ValueError, match="predict.views"):
        mv.load("lidc", views=0)
    with pytest.raises(ValueError, match="threads is 0"):
        mv.load("lidc", threads=0)
    with pytest.raises(mv.DeviceError, match="--device cuda:77"):
        mv.load("lidc", device="cuda:77")
    assert issubclass(mv.DeviceError, RuntimeError)


def test_memory_is_claimed_before_it_is_taken(tmp_path: pathlib.Path) -> None:
    huge = {"data": {"task": "shapes", "size": 1024, "train_count": 100000}}
    with pytest.raises(MemoryError, match="needs .* of memory, and .* are free"):
        mv.train(recipe=huge, out=tmp_path / "run", progress=False)


def test_a_panic_is_a_runtime_error_with_a_sentence(capfd: pytest.CaptureFixture[str]) -> None:
    from multivalued import _native

    with pytest.raises(RuntimeError, match=r"internal error: out of cheese .*lib.rs.*; please report it"):
        _native.panic("out of cheese")
    assert capfd.readouterr().err == ""


def test_models_and_predictions_are_pickled(model: mv.Model, slice_like: Picture) -> None:
    said = model.predict(slice_like)
    copy = pickle.loads(pickle.dumps(said))
    assert np.array_equal(copy.masks, said.masks) and repr(copy) == repr(said)
    again = pickle.loads(pickle.dumps(model))
    assert np.array_equal(again.predict(slice_like).masks, said.masks)
    assert repr(again) == repr(model)


def test_notebooks_see_a_strip(model: mv.Model, slice_like: Picture) -> None:
    said = model.predict(slice_like)
    assert said._repr_html_().startswith('<img alt="Prediction(') and "data:image/png;base64," in said._repr_html_()
    assert said.png().startswith(b"\x89PNG")
    assert len(said.png(readers=said.masks[:3])) > len(said.png())


def test_other_python_threads_run_during_a_prediction(model: mv.Model) -> None:
    counted, over = 0, threading.Event()

    def count() -> None:
        nonlocal counted
        while not over.is_set():
            counted += 1
            time.sleep(0.001)

    thread = threading.Thread(target=count)
    thread.start()
    began = time.monotonic()
    model.predict(np.random.default_rng(1).random((24, 128, 128)))
    elapsed = time.monotonic() - began
    over.set()
    thread.join()
    assert elapsed > 0.1 and counted > 20 * elapsed, (counted, elapsed)


@pytest.mark.parametrize("threads", [None, 1])
def test_ctrl_c_ends_a_long_prediction(threads: int | None) -> None:
    model = mv.load("lidc", device="cpu", views=1, threads=threads)
    timer = threading.Timer(0.5, lambda: os.kill(os.getpid(), signal.SIGINT))
    timer.start()
    began = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        model.predict(np.zeros((5000, 64, 64)), warn=False)
    assert time.monotonic() - began < 30


def test_a_forked_process_is_told_and_does_not_wait_for_ever(model: mv.Model) -> None:
    context = multiprocessing.get_context("fork")
    read, write = context.Pipe(duplex=False)

    def child() -> None:
        try:
            mv.metrics.iou(np.ones((2, 2)), np.ones((2, 2)))
            write.send("no exception")
        except RuntimeError as error:
            write.send(str(error))

    mv.metrics.iou(np.ones((2, 2)), np.ones((2, 2)))
    process = context.Process(target=child)
    process.start()
    assert read.poll(30) and "forked" in read.recv()
    process.join(30)


def test_contiguous_arrays_are_not_copied(slice_like: Picture) -> None:
    from multivalued import _arrays

    for image in (slice_like.copy(), slice_like.astype(np.float32), np.zeros((8, 8, 3), np.uint16)):
        assert np.shares_memory(_arrays.image_array(image, "image"), image)
    masks = np.zeros((4, 8, 8), bool)
    assert np.shares_memory(_arrays.mask_set(masks, "masks")["planes"], masks)


def test_threads_of_a_model_do_not_change_what_it_says(slice_like: Picture) -> None:
    said = mv.load("lidc", device="cpu").predict(slice_like)
    one = mv.load("lidc", device="cpu", threads=1)
    found: list[mv.Prediction] = []
    workers = [threading.Thread(target=lambda: found.append(one.predict(slice_like))) for _ in range(2)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    for other in found:
        assert np.array_equal(other.masks, said.masks)
        assert other.probabilities.tobytes() == said.probabilities.tobytes()
    assert len(found) == 2


def test_torch_takes_every_output(model: mv.Model, slice_like: Picture) -> None:
    torch = pytest.importorskip("torch")
    said = model.predict(slice_like)
    for array in (said.masks, said.probabilities, said.codes, said.mean, said.disagreement, said.sample(3)):
        assert tuple(torch.from_numpy(array).shape) == array.shape
    assert torch.from_numpy(said.masks).dtype == torch.bool
    values = mv.metrics.ged([said, said], [said.masks, said.masks])
    assert torch.from_numpy(values).dtype == torch.float64

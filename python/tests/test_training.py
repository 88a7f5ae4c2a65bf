"""Training on arrays: followed, stopped, resumed, scored and handed on."""

from __future__ import annotations

import json
import os
import pathlib
import pickle
import signal
import threading
import warnings
from typing import Any

import numpy as np
import pytest

import multivalued as mv
from conftest import SMALL, command_line


@pytest.fixture(scope="module")
def run(shapes: mv.Dataset, tmp_path_factory: pytest.TempPathFactory) -> mv.Run:
    out = tmp_path_factory.mktemp("runs") / "a"
    return mv.train(shapes.images, shapes.masks, recipe=SMALL, out=out, progress=False, device="cpu")


def test_a_run_on_arrays_has_model_report_and_verdict(run: mv.Run, shapes: mv.Dataset) -> None:
    assert run.finished and run.log[-1]["reason"] == "finished"
    assert run.report.summary["cases"] > 0 and isinstance(run.verdict["useful"], bool)
    assert run.recipe["train"]["steps"] == 30 and run.recipe["data"]["path"] == ""
    said = run.predict(shapes[0].image)
    assert said.masks.shape[1:] == (32, 32)
    own = run.evaluate()
    assert own.summary == run.report.summary
    test = shapes.part("test")
    report = run.evaluate(test.images, test.masks)
    assert report.summary["cases"] == 12 and report.json["split"] == "all"
    assert set(report.per_image) >= {"id", "group", "ged_exact", "hm_iou"}
    assert "ged" in str(report).lower() and "<table>" in report._repr_html_()
    # A data set of a task knows its truth, too.
    of_task = run.evaluate(test).summary
    assert "mode_recall" in of_task and "mode_recall" not in report.summary
    assert (of_task["ged_exact"], of_task["hm_iou"]) == (report.summary["ged_exact"], report.summary["hm_iou"])
    again = pickle.loads(pickle.dumps(report))
    assert again.summary == report.summary


def test_the_command_line_reads_such_a_run(run: mv.Run, shapes: mv.Dataset, tmp_path: pathlib.Path) -> None:
    shapes.part("test").write(tmp_path / "data")
    out = tmp_path / "report.json"
    command_line("evaluate", run.path, "--data", tmp_path / "data", "--split", "test", "--json", out, "--device", "cpu")
    theirs = json.loads(out.read_text())["summary"]
    ours = run.evaluate(data=tmp_path / "data", split="test").summary
    assert theirs == ours
    refused = command_line("evaluate", run.path, check=False)
    assert refused.returncode == 2 and "carries no data with it" in refused.stderr
    with pytest.raises(ValueError, match="carries no data with it"):
        mv.open_run(run.path).evaluate()


def test_a_training_is_the_command_lines_to_the_bit(tmp_path: pathlib.Path) -> None:
    task = {"task": "shapes", "size": 32, "train_count": 12, "validation_count": 4, "test_count": 4}
    recipe = mv.recipe({**SMALL, "data": task})
    (tmp_path / "r.toml").write_text(mv.recipe_toml(recipe))
    theirs = tmp_path / "theirs"
    command_line("train", tmp_path / "r.toml", "--out", theirs, "--device", "cpu", check=False)
    ours = mv.train(recipe=recipe, out=tmp_path / "ours", device="cpu", progress=False)
    assert (theirs / "recipe.toml").read_text() == (ours.path / "recipe.toml").read_text()
    for name in os.listdir(theirs / "best"):
        if name.endswith(".safetensors"):
            assert (theirs / "best" / name).read_bytes() == (ours.path / "best" / name).read_bytes()
    assert (theirs / "report.json").read_text() == (ours.path / "report.json").read_text()


def test_a_callback_follows_stops_and_resume_ends_as_without_it(
    run: mv.Run, shapes: mv.Dataset, tmp_path: pathlib.Path
) -> None:
    told: list[mv.Progress] = []

    def stop_in_the_middle(progress: mv.Progress) -> bool:
        told.append(progress)
        return progress.step < 12

    data = mv.Dataset(shapes.images, shapes.masks)
    stopped = mv.train(
        data, recipe=SMALL, out=tmp_path / "b", callbacks=[stop_in_the_middle], progress=False, device="cpu"
    )
    assert not stopped.finished and stopped.log[-1]["reason"] == "interrupted"
    assert {one.kind for one in told} >= {"begin", "epoch"} and told[-1].total == 30
    assert told[-1].numbers["loss.total"] > 0 and 0 < told[-1].share < 1
    with pytest.raises(FileNotFoundError, match="resume"):
        _ = stopped.report
    ended = mv.resume(stopped, progress=False, device="cpu")
    assert ended.finished
    best = "model.safetensors"
    [ours] = list((ended.path / "best").glob("*.safetensors")) or [ended.path / "best" / best]
    [whole] = list((run.path / "best").glob("*.safetensors")) or [run.path / "best" / best]
    assert ours.read_bytes() == whole.read_bytes()
    with pytest.raises(ValueError, match="names no data|carries no data|hash"):
        mv.resume(mv.open_run(ended.path).path, progress=False, device="cpu")


def test_a_model_of_no_use_says_so(tmp_path: pathlib.Path) -> None:
    from multivalued._train import _warn_of_no_use

    with pytest.warns(UserWarning, match="nothing says how good the model is"):
        _warn_of_no_use(mv.Run(tmp_path))
    verdict = {"useful": False, "findings": ["GED 0.5 is not lower than that of an empty mask"]}
    (tmp_path / "verdict.json").write_text(json.dumps(verdict))
    with pytest.warns(UserWarning, match="not lower than that of an empty mask"):
        _warn_of_no_use(mv.Run(tmp_path))
    (tmp_path / "verdict.json").write_text(json.dumps({"useful": True, "findings": []}))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        _warn_of_no_use(mv.Run(tmp_path))


def test_an_exception_of_a_callback_stops_and_is_raised(shapes: mv.Dataset, tmp_path: pathlib.Path) -> None:
    def fail(progress: mv.Progress) -> None:
        if progress.kind == "epoch":
            raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        mv.train(shapes, recipe=SMALL, out=tmp_path / "c", callbacks=[fail], progress=False, device="cpu")
    assert (tmp_path / "c" / "last").exists()


@pytest.mark.parametrize("threads", [None, 1])
def test_ctrl_c_saves(shapes: mv.Dataset, tmp_path: pathlib.Path, threads: int | None) -> None:
    long = {**SMALL, "train": {**SMALL["train"], "steps": 100000}}
    timer: threading.Timer | None = None

    def press(progress: mv.Progress) -> None:
        nonlocal timer
        if timer is None and progress.kind == "epoch":
            timer = threading.Timer(0.2, lambda: os.kill(os.getpid(), signal.SIGINT))
            timer.start()

    out = tmp_path / "d"
    with pytest.raises(KeyboardInterrupt, match=r"saved at step .*multivalued\.resume\("):
        mv.train(shapes, recipe=long, out=out, callbacks=[press], progress=False, device="cpu", threads=threads)
    assert (out / "last").exists() and not mv.open_run(out).finished


def test_plans_have_reasons_and_keep_to_the_minutes(shapes: mv.Dataset) -> None:
    plan = mv.plan(shapes, minutes=0.5, device="cpu")
    assert plan.recipe["train"]["steps"] > 0 and "model.channels" in plan.reasons
    assert plan.seconds is not None and plan.seconds < 60 and "#" in plan.toml
    assert "minutes" in repr(plan)
    with pytest.raises(ValueError, match="minutes is 0"):
        mv.plan(shapes, minutes=0)
    with pytest.raises(ValueError, match="nothing to plan for"):
        mv.plan()


def test_conformal_sets_and_export(run: mv.Run, shapes: mv.Dataset, tmp_path: pathlib.Path) -> None:
    calibration = shapes.part("validation")
    level = run.calibrate(0.8, calibration.images, calibration.masks)
    assert level["level"] == 0.8 and 0 < level["mass"] <= 1 and level["cases"] == 12
    kept, all_of_them = run.predict(shapes[0].image, coverage=0.8), run.predict(shapes[0].image)
    assert 1 <= len(kept) <= len(all_of_them)
    with pytest.raises(ValueError, match="needs at least 99 calibration cases, not 12"):
        run.calibrate(0.99, calibration)
    with pytest.raises(ValueError, match="level is 1.5"):
        run.calibrate(1.5)
    with pytest.raises(ValueError, match="--attribution"):
        run.export(tmp_path / "none")
    out = run.export(tmp_path / "model", attribution="nobody's data")
    handed_on = mv.load(out, device="cpu")
    assert handed_on.levels == run.model.levels and "nobody's data" in str(handed_on.card)
    with pytest.raises(ValueError, match="same weights"):
        mv.combine([out, run.path], tmp_path / "twice")
    both = mv.combine([out, pathlib.Path(__file__).parents[2] / "models/shapes"], tmp_path / "both")
    assert "2 members" in repr(mv.load(both, device="cpu"))


def test_folds_train_and_score_every_case(shapes: mv.Dataset, tmp_path: pathlib.Path) -> None:
    brief = {**SMALL, "train": {**SMALL["train"], "steps": 6}}
    data = mv.Dataset(shapes.images[:12], shapes.masks[:12])
    run = mv.train(data, recipe=brief, folds=3, out=tmp_path / "folds", progress=False, device="cpu")
    assert run.report.summary["cases"] == 12 and "3 members" in repr(run.model)


def test_ragged_readers_weights_groups_and_parts(tmp_path: pathlib.Path) -> None:
    random = np.random.default_rng(2)
    images: list[Any] = [random.random((24, 20)), random.random((16, 32)), random.random((24, 24))]
    masks: list[Any] = [random.random((readers, *image.shape)) < 0.4 for readers, image in zip((1, 3, 2), images)]
    data = mv.Dataset(
        images, masks, weights=[[1], [1, 2, 3], [1, 1]], groups=[7, 7, 8], split=["train", "train", "test"]
    )
    assert [case.masks.shape[0] for case in data] == [1, 3, 2] and data[1].weights == [1, 2, 3]
    assert data.groups == ["7", "7", "8"] and len(data.part("test")) == 1 and len(data[1:]) == 2
    assert np.array_equal(data[1].masks, masks[1]) and np.allclose(data[1].image, images[1])
    data.write(tmp_path / "data")
    back = mv.read_dataset(tmp_path / "data")
    assert sorted(case.id for case in back) == ["image-00000", "image-00001", "image-00002"]
    assert mv.validate(tmp_path / "data")["problems"] == []
    with pytest.raises(ValueError, match="there is no part 'val'"):
        data.part("val")
    labels = mv.Dataset([images[0]], [np.full((2, 24, 20), 2)], classes=3)
    assert labels[0].masks.dtype == np.uint8 and labels[0].masks.max() == 2


X, Y = np.zeros((3, 8, 8)), [np.zeros((2, 8, 8), bool)] * 3


@pytest.mark.parametrize(
    ("images", "masks", "options", "words"),
    [
        (X, Y[:2], {}, "masks has 2 entries, but images has 3"),
        (X, [*Y[:2], np.zeros((0, 8, 8), bool)], {}, r"masks\[2\] has shape \(0, 8, 8\).*no mask"),
        (X, [*Y[:2], np.zeros((2, 8, 9), bool)], {}, r"masks\[2\] has shape \(2, 8, 9\).*8 rows and 8 columns"),
        (X, [*Y[:2], np.zeros((8, 8), bool)], {}, r"masks\[2\] has shape \(8, 8\)"),
        (
            X,
            [np.ones((2, 8, 8), int)] * 2 + [np.full((2, 8, 8), 3.5)],
            {"classes": 4},
            r"masks\[2\].*\(2, 8, 8\).*whole numbers from 0 to 4",
        ),
        (X, [*Y[:2], [np.zeros((8, 8)), np.zeros((8, 4))]], {}, r"masks\[2\].*one size"),
        (np.full((3, 8, 8), np.nan), Y, {}, r"images\[0\] has shape \(8, 8\).*64 of 64 values are NaN"),
        (X[:0], [], {}, r"images is empty, of shape \(0,\)"),
        ([X[0], np.zeros((8, 8, 3)), X[2]], Y, {}, r"images\[1\] has shape \(8, 8, 3\)"),
        (X, Y, {"groups": ["a"]}, "groups has 1 entries, but images has 3"),
        (X, Y, {"ids": ["a", "a", "b"]}, "a name twice"),
        (X, None, {}, "images are given without masks"),
        (None, Y, {}, "masks are given without images"),
        (None, None, {}, "nothing to train on"),
        (X, Y, {"data": "folder"}, "not both"),
        (X, Y, {"minutes": -1}, "minutes is -1"),
        (X, Y, {"recipe": {"train": {"stepz": 1}}}, "stepz"),
        (X, Y, {"recipe": "no-such-recipe"}, "no such recipe"),
        (X, Y, {"device": "gpu"}, "choose auto, cpu or cuda:N"),
    ],
)
def test_wrong_data_are_refused(
    images: Any, masks: Any, options: dict[str, Any], words: str, tmp_path: pathlib.Path
) -> None:
    with pytest.raises(ValueError, match=words):
        mv.train(images, masks, out=tmp_path / "run", progress=False, **options)
    assert not (tmp_path / "run").exists()


def test_data_that_are_not_there(tmp_path: pathlib.Path) -> None:
    with pytest.raises(FileNotFoundError, match="no such file or folder"):
        mv.train(data=tmp_path / "none", out=tmp_path / "run", progress=False)
    with pytest.raises(FileNotFoundError, match="no such"):
        mv.read_dataset(tmp_path / "none")
    with pytest.raises(FileNotFoundError, match="there is no such run"):
        mv.resume(tmp_path / "none")
    with pytest.raises(ValueError, match="unknown; choose one of shapes"):
        mv.generate("circles")
    with pytest.raises(ValueError, match="count is"):
        mv.generate("shapes", 0)


def test_recipes_are_dictionaries() -> None:
    lidc = mv.recipe("lidc")
    assert mv.recipe(lidc) == lidc and lidc["train"]["epochs"] > 0
    assert "[train]" in mv.recipe_toml(lidc)
    assert mv.recipe(train__seed=7)["train"]["seed"] == 7
    assert set(mv.recipes()) >= {"lidc", "shapes", "raters"} and "raters" in mv.tasks()
    with pytest.raises(ValueError, match="train.learning_rate"):
        mv.recipe(train__learning_rate=1000.0)


def test_progress_is_a_line(shapes: mv.Dataset, tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    mv.train(shapes, recipe=SMALL, out=tmp_path / "e", device="cpu")
    err = capsys.readouterr().err
    assert "step " in err and "GED" in err

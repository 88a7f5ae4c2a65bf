"""The metrics: the golden values of the Rust tests, their edge conventions, and wrong arrays."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import multivalued as mv
from conftest import ROOT
from multivalued import metrics

Bools = npt.NDArray[np.bool_]
TOLERANCE = 1e-9


def golden() -> dict[str, Any]:
    found: dict[str, Any] = json.loads((ROOT / "reference" / "golden" / "metrics.json").read_text())
    return found


def members(case: dict[str, Any], key: str, weight: str) -> tuple[Bools, npt.NDArray[np.float32]]:
    height, width = case["height"], case["width"]
    planes = [
        [np.frombuffer(plane.encode(), np.uint8).reshape(height, width) == ord("1") for plane in one["mask"]]
        for one in case[key]
    ]
    return np.array(planes), np.array([one[weight] for one in case[key]], np.float32)


CASES = golden()["cases"]


@pytest.mark.parametrize("case", CASES, ids=[case["id"] for case in CASES])
def test_every_metric_has_the_golden_value(case: dict[str, Any]) -> None:
    readers, said = members(case, "annotations", "weight"), members(case, "outputs", "probability")
    classes = readers[0].shape[1]
    if classes == 1:
        readers, said = (readers[0][:, 0], readers[1]), (said[0][:, 0], said[1])
    of = {} if classes == 1 else {"classes": classes}
    truth = members(case, "truth", "probability") if case["truth"] else None
    if truth is not None and classes == 1:
        truth = (truth[0][:, 0], truth[1])
    found = metrics.scores(said, readers, truth=truth, **of)
    direct = {
        "ged_exact": metrics.ged(said, readers, **of),
        "ged_unbiased": metrics.ged(said, readers, kind="unbiased", **of),
        "hm_iou": metrics.hm_iou(said, readers, **of),
        "hm_iou_assignment": metrics.hm_iou(said, readers, by="assignment", **of),
        "soft_dice": metrics.soft_dice(said, readers, **of),
        "dice_max_labels": metrics.dice_max(said, readers, **of),
        "dice_max_outputs": metrics.dice_max(said, readers, of="outputs", **of),
        "iou_max_labels": metrics.iou_max(said, readers, **of),
        "dice_match": metrics.dice_match(said, readers, **of),
        "dice_mean": metrics.dice_mean(said, readers, **of),
        "diversity_outputs": metrics.diversity(said, **of),
        "mode_brier": metrics.mode_brier(said, readers, **of),
        "mode_nll": metrics.mode_nll(said, readers, **of),
        "n_x": metrics.count(said, **of),
        "n_x_effective": metrics.count(said, effective=True, **of),
        "ged_emptiness": metrics.ged_parts(said, readers, **of)["emptiness"],
        "ged_shape": metrics.ged_parts(said, readers, **of)["shape"],
        "ged_floor": metrics.ged_parts(said, readers, **of)["floor"],
        **metrics.boundary(said, readers, **of),
        **metrics.lesions(said, readers, **of),
    }
    compared = 0
    for name, expected in case["expected"].items():
        for values in (found, direct):
            if name in values:
                assert abs(values[name] - expected) <= TOLERANCE, (name, values[name], expected)
                compared += 1
    assert compared > 50 and set(case["expected"]) - set(found) - set(direct) <= {"ged_draws"}


def test_the_summary_has_the_golden_values() -> None:
    document = golden()
    of_one_class = [case for case in document["cases"] if len(case["annotations"][0]["mask"]) == 1]
    # Images of several classes are of another number of classes, which a list of arrays does not mix.
    assert len(of_one_class) == len(document["cases"]) - 2
    readers = [members(case, "annotations", "weight") for case in of_one_class]
    said = [members(case, "outputs", "probability") for case in of_one_class]
    report = metrics.evaluate(
        [(masks[:, 0], weights) for masks, weights in said],
        [(masks[:, 0], weights) for masks, weights in readers],
        groups=[case["group"] for case in of_one_class],
    )
    for name in ("ged_exact", "hm_iou", "mode_brier", "staple_iou"):
        mean = np.mean([case["expected"][name] for case in of_one_class if name in case["expected"]])
        assert abs(report.summary[name] - mean) <= TOLERANCE, name
        assert len(report.per_image[name]) == len(of_one_class)


def by_pairs(samples: Bools, readers: Bools) -> float:
    """GED by a loop over pairs, two empty masks being equal."""

    def distance(a: Bools, b: Bools) -> float:
        union = np.logical_or(a, b).sum()
        return 0.0 if union == 0 else float(1 - np.logical_and(a, b).sum() / union)

    def mean(a: Bools, b: Bools) -> float:
        return float(np.mean([distance(x, y) for x in a for y in b]))

    return 2 * mean(samples, readers) - mean(samples, samples) - mean(readers, readers)


@pytest.mark.parametrize("size", [(1, 1), (3, 5), (8, 8), (7, 64), (13, 65), (33, 31)])
def test_ged_is_that_of_a_loop_over_pairs(size: tuple[int, int]) -> None:
    random = np.random.default_rng(sum(size))
    samples = random.random((6, 7, *size)) < random.random((6, 7, 1, 1))
    readers = random.random((6, 4, *size)) < random.random((6, 4, 1, 1))
    expected = [by_pairs(a, b) for a, b in zip(samples, readers)]
    assert np.allclose(metrics.ged(samples, readers), expected, atol=1e-12)
    # Strided arrays, numbers in place of bools, lists in place of arrays.
    wide = np.repeat(samples, 2, axis=3)[..., ::2]
    assert np.allclose(metrics.ged(wide, 255 * readers.astype(np.uint8)), expected, atol=1e-12)
    assert np.allclose(metrics.ged(list(samples), list(readers)), expected, atol=1e-12)
    assert [metrics.ged(a, b) for a, b in zip(samples, readers)] == pytest.approx(expected, abs=1e-12)


def bits(*rows: str) -> Bools:
    return np.array([[[character == "1" for character in row]] for row in rows])


def test_edge_conventions_are_those_of_the_rust_tests() -> None:
    nothing, silent, loud = bits("0000", "0000", "0000", "0000"), bits("0000"), bits("1111")
    assert metrics.ged(silent, nothing) == 0 and metrics.hm_iou(silent, nothing) == 1
    assert metrics.ged(loud, nothing) == 2 and metrics.soft_dice(loud, nothing) == 0
    half = bits("0000", "0000", "1111", "1111")
    assert metrics.ged(silent, half) == 0.5 and metrics.diversity(half) == 0.5
    assert metrics.iou(silent[0], silent[0]) == 1 and metrics.dice(silent[0], loud[0]) == 0
    # An output of probability zero is no output.
    label, said = bits("1100"), bits("1100", "1000", "0011")
    assert metrics.dice_max((said, [0, 0.5, 0.5]), label) == pytest.approx(2 / 3)
    # Of samples the limit leaves their pairs with themselves out.
    draws = bits("1100", "0011")
    assert metrics.ged(draws, draws) == 0 and metrics.ged(draws, draws, kind="limit") == pytest.approx(-0.5)
    assert metrics.ged((draws, [0.5, 0.5]), draws, kind="limit") == 0
    sampled = metrics.ged((draws, [0.5, 0.5]), draws, samples=10000)
    assert 0 <= sampled < 0.01 and sampled == metrics.ged((draws, [0.5, 0.5]), draws, samples=10000)
    # A class absent on both sides agrees.
    one, none = np.zeros((1, 1, 4), int), np.zeros((1, 1, 4), int)
    one[0, 0, 0] = 1
    assert metrics.ged(none, one, classes=2) == 1 and metrics.iou(one[0], none[0], classes=2) == 0.5
    # The majority, and who agrees.
    three = bits("1100", "1000", "0110")
    assert metrics.consensus(three).tolist() == [[True, True, False, False]]
    assert metrics.consensus(three, by="staple").shape == (1, 4)
    assert metrics.agreement([three, half])["cases"] == 2
    places, shares, loss = metrics.short_list((bits("1111", "1110", "0000"), [0.5, 0.3, 0.2]), 2)
    assert places == [0, 2] and shares == pytest.approx([0.8, 0.2]) and 0 < loss < 0.1


def test_calibration_of_many_images() -> None:
    random = np.random.default_rng(5)
    masks = bits("1100", "0011")
    said = [(masks, [0.75, 0.25])] * 400
    readers = [masks[random.choice(2, size=4, p=[0.75, 0.25])] for _ in said]
    found = metrics.calibration(said, readers)
    assert found["mode_ece"] < 0.03 and found["pixel_ece"] < 0.03 and found["empty_ece"] == 0
    assert [round(one["probability"], 2) for one in found["reliability"]["modes"]] == [0.25, 0.75]
    wrong = metrics.calibration([(masks, [0.25, 0.75])] * 400, readers)
    assert wrong["mode_ece"] > 0.4
    chance = wrong["chance"]["mode_ece"]
    assert 0 < chance["low"] <= chance["mean"] <= chance["high"] < 0.2


M = np.zeros((2, 8, 8), bool)


@pytest.mark.parametrize(
    ("outputs", "readers", "words"),
    [
        (M[0], M, r"outputs has shape \(8, 8\)"),
        (M[:0], M, r"outputs has shape \(0, 8, 8\).*holds no mask"),
        (M, M[:0], r"readers has shape \(0, 8, 8\).*holds no mask"),
        (M[:, :0], M, r"outputs has shape \(2, 0, 8\).*no pixels"),
        (M, M[:, :4], r"outputs are masks of shape \(8, 8\), readers of \(4, 8\)"),
        (M.astype(complex), M, r"shape \(2, 8, 8\) and dtype complex"),
        (np.full((2, 8, 8), np.nan), M, r"shape \(2, 8, 8\).*NaN"),
        (np.arange(128).reshape(2, 8, 8), M, r"shape \(2, 8, 8\).*128 different values"),
        ([M, M], [M], r"outputs are of 2 images, readers of 1"),
        (M, [M], r"give a list of both, or one of each"),
        ([], [], r"outputs is empty, of shape \(0,\)"),
        ((M, [0.5]), M, r"2 masks, but its weights have shape \(1,\)"),
        ((M, [0.5, 0.4]), M, r"sum to 0.9, not to 1"),
        ((M, [1.5, -0.5]), M, r"output 1 has probability -0.5"),
        ((M, [np.nan, 1.0]), M, r"output 0 has probability NaN"),
        (M, (M, [0.0, 0.0]), r"none has a positive weight"),
        ([[M[0], M[0, :4]]], [M], r"outputs\[0\].*no array of masks of one size"),
    ],
)
def test_wrong_sets_are_refused_with_their_shape(outputs: object, readers: object, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        metrics.ged(outputs, readers)


def test_predictions_are_scored_as_their_arrays() -> None:
    case = mv.generate("shapes", {"test": 1}, size=64)[0]
    said = mv.load("shapes", device="cpu", views=1).predict(case.image, warn=False)
    with_arrays = metrics.ged((said.masks, said.probabilities), case.masks)
    assert metrics.ged(said, case.masks) == with_arrays
    assert metrics.ged([said] * 3, [case.masks] * 3).tolist() == [with_arrays] * 3

"""Weighted or sampled sets of masks of any method, compared with what readers drew. No model is needed.

What a method says of an image (`outputs`) is

- an array (k, h, w): k samples, each counting 1/k;
- a tuple (masks, probabilities): a weighted set, whose probabilities sum to 1;
- a `Prediction`.

What readers drew (`readers`) is an array (readers, h, w), or a tuple (masks, weights) with relative weights.

Several images are a list of these, or arrays with one axis more; they are scored in parallel, and the result is an
array with a number for each image. Of one image it is a float. With `classes=c` masks are label maps of integers from
0 to c, or bools (k, c, h, w); scores are means over classes.

Conventions: IoU and Dice of two empty masks are 1, of one empty and one not 0; d = 1 - IoU; GED is squared, over all
pairs including a mask with itself; outputs with equal masks count as one whose probability is their sum; an output of
probability 0 is none. docs/metrics.md has every formula.

>>> import numpy as np
>>> readers = np.zeros((4, 8, 8), bool)
>>> readers[:2, 2:6, 2:6] = True
>>> samples = readers[[0, 2]]
>>> ged(samples, readers), hm_iou(samples, readers)
(0.0, 1.0)
>>> ged((readers[[0, 2]], [0.75, 0.25]), readers)
0.125
>>> ged([samples, samples[:1]], [readers, readers]).tolist()
[0.0, 0.5]
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from . import _native
from ._arrays import MaskSet, mask_set, shown
from ._prediction import Prediction
from ._report import Report

__all__ = [
    "agreement",
    "boundary",
    "calibration",
    "consensus",
    "count",
    "dice",
    "dice_match",
    "dice_max",
    "dice_mean",
    "diversity",
    "evaluate",
    "ged",
    "ged_parts",
    "hm_iou",
    "iou",
    "iou_max",
    "lesions",
    "mode_brier",
    "mode_nll",
    "scores",
    "short_list",
    "soft_dice",
]


def ged(
    outputs: object,
    readers: object,
    *,
    kind: Literal["exact", "limit", "unbiased"] = "exact",
    samples: int | None = None,
    seed: int = 0,
    classes: int | None = None,
) -> Any:
    """Squared generalized energy distance: 0 at best.

    "exact" takes the probabilities, or all samples, as they are. Of n samples that is too high by their diversity / n;
    "limit" is free of it, so that samplers and explicit models can be compared. "unbiased" leaves the pairs of a mask
    with itself out on both sides and may be negative. `samples=n` draws n of the outputs first.
    """
    if samples is None:
        return _each(f"ged_{kind}", outputs, readers, classes)
    if samples < 1:
        raise ValueError(f"samples is {samples}; draw at least one")
    said, drawn, several = _pairs(outputs, readers, classes)
    return _result(_native.ged_sampled(said, drawn, samples, seed), several)


def ged_parts(outputs: object, readers: object, *, classes: int | None = None) -> dict[str, Any]:
    """The GED in the limit of many draws, in its parts: `limit` = `emptiness` + `shape`; `floor` is what a model that
    knew the readers' distribution would have, NaN with one reader.

    >>> import numpy as np
    >>> readers = np.array([[[0, 0, 0]], [[1, 1, 0]]], bool)
    >>> parts = ged_parts((readers[::-1], [0.75, 0.25]), readers)
    >>> parts["emptiness"], round(parts["shape"], 12)
    (0.125, 0.0)
    """
    names = {"limit": "ged_limit", "emptiness": "ged_emptiness", "shape": "ged_shape", "floor": "ged_floor"}
    return {part: _each(name, outputs, readers, classes) for part, name in names.items()}


def hm_iou(
    outputs: object,
    readers: object,
    *,
    by: Literal["transport", "assignment"] = "transport",
    classes: int | None = None,
) -> Any:
    """Matched IoU: readers and outputs matched by optimal transport, or copied and assigned one to one."""
    return _each("hm_iou" if by == "transport" else "hm_iou_assignment", outputs, readers, classes)


def soft_dice(outputs: object, readers: object, *, classes: int | None = None) -> Any:
    """Dice of the two marginal maps, the mean over the thresholds 0.1, 0.3, 0.5, 0.7 and 0.9."""
    return _each("soft_dice", outputs, readers, classes)


def dice_max(
    outputs: object, readers: object, *, of: Literal["readers", "outputs"] = "readers", classes: int | None = None
) -> Any:
    """Mean over readers of the best output's Dice (D_max), or over outputs of the best reader's."""
    return _each("dice_max_labels" if of == "readers" else "dice_max_outputs", outputs, readers, classes)


def iou_max(outputs: object, readers: object, *, classes: int | None = None) -> Any:
    """Mean over readers of the best output's IoU."""
    return _each("iou_max_labels", outputs, readers, classes)


def dice_match(outputs: object, readers: object, *, classes: int | None = None) -> Any:
    """Mean Dice of readers and outputs paired one to one."""
    return _each("dice_match", outputs, readers, classes)


def dice_mean(outputs: object, readers: object, *, classes: int | None = None) -> Any:
    """Mean Dice over all pairs."""
    return _each("dice_mean", outputs, readers, classes)


def diversity(masks: object, *, classes: int | None = None) -> Any:
    """How far the members of one set lie apart: the mean distance of two independent draws."""
    return _each("diversity_outputs", masks, masks, classes)


def mode_brier(outputs: object, readers: object, *, classes: int | None = None) -> Any:
    """Brier score of the output that each reader's mask is nearest to: 0 at best, 2 at worst."""
    return _each("mode_brier", outputs, readers, classes)


def mode_nll(outputs: object, readers: object, *, classes: int | None = None) -> Any:
    """Negative log-likelihood of the output that each reader's mask is nearest to."""
    return _each("mode_nll", outputs, readers, classes)


def count(outputs: object, *, effective: bool = False, classes: int | None = None) -> Any:
    """How many different outputs have a probability of 1e-5 and more; `effective` is exp(entropy)."""
    return _each("n_x_effective" if effective else "n_x", outputs, outputs, classes)


def boundary(
    outputs: object,
    readers: object,
    *,
    spacing: tuple[float, float] | None = None,
    classes: int | None = None,
) -> dict[str, Any]:
    """HD95 and normalised surface distance (tolerance 2), of the most probable output and in expectation.

    `spacing` is the distance of two rows and of two columns in millimetres; without it distances are in pixels.
    """
    found = scores(outputs, readers, spacing=spacing, classes=classes)
    return {name: found[name] for name in ("hd95_top", "hd95_expected", "nsd_top", "nsd_expected") if name in found}


def lesions(outputs: object, readers: object, *, classes: int | None = None) -> dict[str, Any]:
    """Connected components of a reader's mask: how many there are, found and invented."""
    found = scores(outputs, readers, classes=classes)
    return {name: value for name, value in found.items() if name.startswith("lesions")}


def scores(
    outputs: object,
    readers: object,
    *,
    truth: object = None,
    spacing: tuple[float, float] | None = None,
    seed: int = 0,
    classes: int | None = None,
) -> dict[str, Any]:
    """Every score of an image under the names of docs/metrics.md; of several images an array for each, NaN where an
    image has none. `truth` are the true modes with their probabilities, where they are known.
    """
    said, drawn, several = _pairs(outputs, readers, classes)
    modes = _truths(truth, several, len(said), classes)
    rows: list[dict[str, Any]] = json.loads(_native.scores(said, drawn, modes, _columns_first(spacing), seed))
    names = [name for name in dict.fromkeys(name for row in rows for name in row) if name not in ("id", "group")]
    columns = {name: np.array([row.get(name, np.nan) for row in rows], dtype=np.float64) for name in names}
    return {name: _result(column, several) for name, column in columns.items()}


def evaluate(
    outputs: object,
    readers: object,
    *,
    truth: object = None,
    groups: Sequence[object] | None = None,
    spacing: tuple[float, float] | None = None,
    seed: int = 0,
    resamples: int = 1000,
    details: bool = True,
    classes: int | None = None,
) -> Report:
    """All scores of several images with their means, bootstrap intervals and calibration, as `multivalued evaluate`
    reports them. `groups` names the patient of each image; without `details` boundaries, lesions, sizes and noise
    floors are left out.
    """
    said, drawn, several = _pairs(outputs, readers, classes)
    if groups is not None and len(groups) != len(said):
        raise ValueError(f"groups has {len(groups)} entries for {len(said)} images; give one for each")
    if resamples < 1:
        raise ValueError(f"resamples is {resamples}; an interval needs at least one")
    owners = [str(at) for at in range(len(said))] if groups is None else [str(one) for one in groups]
    modes = _truths(truth, several, len(said), classes)
    return Report(_native.report(said, drawn, modes, owners, _columns_first(spacing), seed, resamples, details))


def calibration(
    outputs: object, readers: object, *, groups: Sequence[object] | None = None, classes: int | None = None
) -> dict[str, Any]:
    """Are the probabilities honest? Over several images: the calibration errors of hypotheses (`mode_ece`), of
    "nothing there" (`empty_ece`) and of pixels (`pixel_ece`, and with the pixels of probability 0 as a bin, and over
    the union), the bins of their reliability diagrams (`reliability`), and `chance`: what a perfectly calibrated model
    would show of each error (`mean`, and 5 to 95 % from `low` to `high`), by the dependence that `groups` have.
    """
    report = evaluate(outputs, readers, groups=groups, resamples=1, classes=classes)
    names = ("mode_ece", "empty_ece", "pixel_ece", "pixel_ece_zero_bin", "pixel_ece_union", "mode_brier", "mode_nll")
    found: dict[str, Any] = {name: report.summary[name] for name in names}
    found["reliability"] = {name: report.reliability[name] for name in ("modes", "empty", "pixels")}
    found["chance"] = {name: floor for name, floor in report.json["noise"]["groups"].items() if name in names}
    return found


def iou(a: object, b: object, *, classes: int | None = None) -> Any:
    """IoU of two masks (h, w), or of every mask of one set with every mask of another: (k, m).

    >>> import numpy as np
    >>> iou(np.array([[1, 1, 0]]), np.array([[0, 1, 1]]))
    0.3333333333333333
    """
    return _overlaps(a, b, classes, dice=False)


def dice(a: object, b: object, *, classes: int | None = None) -> Any:
    """Dice of two masks (h, w), or of every mask of one set with every mask of another: (k, m)."""
    return _overlaps(a, b, classes, dice=True)


def consensus(
    readers: object, *, by: Literal["majority", "staple"] = "majority", classes: int | None = None
) -> npt.NDArray[Any]:
    """One mask of several readers: by the majority of their weight, or STAPLE's (Warfield, Zou and Wells, 2004)."""
    return _native.consensus(_set(readers, "readers", classes, sampled=False), by == "staple")


def short_list(outputs: object, most: int, *, classes: int | None = None) -> tuple[list[int], list[float], float]:
    """At most so many outputs that stand for all: their places, their probabilities with those of all they stand for,
    and the GED that is lost.
    """
    if most < 1:
        raise ValueError(f"most is {most}; a list has at least one hypothesis")
    return _native.listed(_set(outputs, "outputs", classes, sampled=True), most)


def agreement(readers: object, *, groups: Sequence[object] | None = None, classes: int | None = None) -> dict[str, Any]:
    """How far readers agree over several images: mean IoU of pairs, Fleiss' kappa, empty masks, disputed images."""
    sets, _ = _sets(readers, "readers", classes, sampled=False)
    owners = [str(at) for at in range(len(sets))] if groups is None else [str(one) for one in groups]
    if len(owners) != len(sets):
        raise ValueError(f"groups has {len(owners)} entries for {len(sets)} images; give one for each")
    found = json.loads(_native.agreement(sets, owners))
    if found is None:
        raise ValueError("no image has two readers; agreement needs at least two masks of an image")
    agreed: dict[str, Any] = found
    return agreed


def _each(name: str, outputs: object, readers: object, classes: int | None) -> Any:
    said, drawn, several = _pairs(outputs, readers, classes)
    return _result(_native.metric(name, said, drawn), several)


def _result(values: npt.NDArray[np.float64], several: bool) -> Any:
    return values if several else float(values[0])


def _pairs(outputs: object, readers: object, classes: int | None) -> tuple[list[MaskSet], list[MaskSet], bool]:
    said, several = _sets(outputs, "outputs", classes, sampled=True)
    drawn, of_several = _sets(readers, "readers", classes, sampled=False)
    if len(said) != len(drawn) or several != of_several:
        raise ValueError(
            f"outputs are of {len(said)} image{'s'[: len(said) != 1]}, readers of {len(drawn)}; "
            "give a list of both, or one of each"
        )
    for at, (one, other) in enumerate(zip(said, drawn)):
        if one["planes"].shape[1:] != other["planes"].shape[1:]:
            place = f"[{at}]" if several else ""
            raise ValueError(
                f"outputs{place} are masks of shape {_mask_shape(one)}, readers{place} of {_mask_shape(other)}; "
                "masks of an image have one size"
            )
    return said, drawn, several


def _mask_shape(one: MaskSet) -> tuple[int, ...]:
    shape = one["planes"].shape[1:]
    return shape[1:] if shape[0] == 1 else shape


def _truths(truth: object, several: bool, count: int, classes: int | None) -> list[MaskSet | None]:
    if truth is None:
        return [None] * count
    values: list[object] = list(truth) if several and isinstance(truth, list) else [truth]
    if len(values) != count:
        raise ValueError(f"truth has {len(values)} entries for {count} images; give one, or None, for each")
    return [None if one is None else _set(one, f"truth[{at}]", classes, sampled=True) for at, one in enumerate(values)]


def _sets(value: object, name: str, classes: int | None, *, sampled: bool) -> tuple[list[MaskSet], bool]:
    """The sets of some images, and whether they are of several."""
    if isinstance(value, (tuple, Prediction)):
        return [_set(value, name, classes, sampled=sampled)], False
    if not isinstance(value, list):
        array = np.asarray(value)
        # Bools of several classes have an axis for these.
        of_one = 4 if classes is not None and array.dtype.kind == "b" else 3
        if array.ndim == of_one:
            return [_set(array, name, classes, sampled=sampled)], False
        if array.ndim != of_one + 1:
            raise ValueError(
                f"{name} has {shown(array)}; masks of an image have {of_one} axes, those of several images one more"
            )
        return _batch(array, name, classes, sampled=sampled), True
    if len(value) == 0:
        raise ValueError(f"{name} is empty, of shape (0,); give the masks of at least one image")
    return [_set(one, f"{name}[{at}]", classes, sampled=sampled) for at, one in enumerate(value)], True


def _batch(array: npt.NDArray[Any], name: str, classes: int | None, *, sampled: bool) -> list[MaskSet]:
    """The sets of an array of several images, which is looked at as a whole: all have the same shape."""
    if array.shape[0] == 0:
        raise ValueError(f"{name} has {shown(array)}; give the masks of at least one image")
    images, count = array.shape[:2]
    if count == 0:
        raise ValueError(f"{name} has {shown(array)}: it holds no mask; at least one is needed")
    planes = mask_set(array.reshape(images * count, *array.shape[2:]), name, classes=classes)["planes"]
    weights, draws = [1.0 / count] * count, count if sampled else None
    each = planes.reshape(images, count, *planes.shape[1:])
    return [{"planes": one, "weights": weights, "draws": draws} for one in each]


def _set(value: object, name: str, classes: int | None, *, sampled: bool) -> MaskSet:
    if isinstance(value, Prediction):
        return value._set()
    if isinstance(value, tuple):
        if len(value) != 2:
            raise ValueError(f"{name} is a tuple of {len(value)}; a weighted set is (masks, weights)")
        return mask_set(value[0], name, weights=value[1], classes=classes)
    found = mask_set(value, name, classes=classes)
    return {**found, "draws": len(found["weights"])} if sampled else found


def _overlaps(a: object, b: object, classes: int | None, *, dice: bool) -> Any:
    arrays = [np.asarray(one) for one in (a, b)]
    flat = 3 if classes is not None and arrays[0].dtype.kind == "b" else 2
    alone = [one.ndim == flat for one in arrays]
    sets = [
        mask_set(one[None] if single else one, name, classes=classes)
        for one, single, name in zip(arrays, alone, ("a", "b"))
    ]
    if sets[0]["planes"].shape[1:] != sets[1]["planes"].shape[1:]:
        raise ValueError(f"a has {shown(arrays[0])} and b {shown(arrays[1])}; masks must have one size")
    found = _native.overlaps(sets[0], sets[1], dice)
    return float(found[0, 0]) if all(alone) else found


def _columns_first(spacing: tuple[float, float] | None) -> tuple[float, float] | None:
    if spacing is None:
        return None
    rows, columns = spacing
    if not (0 < rows < np.inf and 0 < columns < np.inf):
        raise ValueError(f"spacing is {spacing}; the distances of rows and of columns are above 0")
    return columns, rows

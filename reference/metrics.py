"""Golden values of every metric, read independently of the Rust code.

Run from the repository's root with any Python that has numpy and scipy:

    python reference/metrics.py

It writes reference/golden/metrics.json, which crates/data/tests/metric_golden.rs compares with the crate.
The definitions are those of docs/metrics.md, written here over dense boolean arrays, with scipy's
linear_sum_assignment and linprog where the crate has solvers of its own.
"""

import json
import math
from pathlib import Path

import numpy as np
from scipy.ndimage import binary_erosion, distance_transform_edt, label
from scipy.optimize import linear_sum_assignment, linprog

NOISE = 1e-6  # f32 weights: differences below this are rounding
FLOOR = 1e-5


def iou(a, b):
    """Masks are boolean [class, row, column]; the mean over classes, two empty planes agree."""
    values = []
    for plane_a, plane_b in zip(a, b):
        union = np.logical_or(plane_a, plane_b).sum()
        values.append(1.0 if union == 0 else np.logical_and(plane_a, plane_b).sum() / union)
    return float(np.mean(values))


def dice(a, b):
    values = []
    for plane_a, plane_b in zip(a, b):
        total = plane_a.sum() + plane_b.sum()
        values.append(1.0 if total == 0 else 2 * np.logical_and(plane_a, plane_b).sum() / total)
    return float(np.mean(values))


def table(of, rows, columns):
    return np.array([[of(a, b) for b in columns] for a in rows])


def ged(y, q, s, p):
    distance = lambda a, b: 1.0 - table(iou, a, b)
    return float(2 * q @ distance(y, s) @ p - q @ distance(y, y) @ q - p @ distance(s, s) @ p)


def ged_unbiased(y, q, s, p):
    def spread(masks, w):
        if len(masks) < 2:
            return 0.0
        total = sum(
            w[i] * w[j] * (1 - iou(masks[i], masks[j]))
            for i in range(len(masks)) for j in range(len(masks)) if i != j
        )
        return total / sum(w[i] * w[j] for i in range(len(masks)) for j in range(len(masks)) if i != j)

    return float(2 * q @ (1 - table(iou, y, s)) @ p - spread(y, q) - spread(s, p))


def transport(gain, q, p):
    """max sum P*gain with row sums q and column sums p, as a linear programme."""
    rows, columns = gain.shape
    constraints, bounds = [], []
    for i in range(rows):
        line = np.zeros((rows, columns))
        line[i] = 1
        constraints.append(line.ravel())
        bounds.append(q[i])
    for j in range(columns):
        line = np.zeros((rows, columns))
        line[:, j] = 1
        constraints.append(line.ravel())
        bounds.append(p[j])
    tight = {"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10, "presolve": False}
    found = linprog(
        -gain.ravel(), A_eq=np.array(constraints), b_eq=np.array(bounds), method="highs-ds", options=tight
    )
    assert found.status == 0, found.message
    return float(-found.fun)


def hm_iou_assignment(y, s):
    multiple = math.lcm(len(y), len(s))
    gain = table(iou, y, s)
    gain = np.repeat(np.repeat(gain, multiple // len(y), 0), multiple // len(s), 1)
    return float(gain[linear_sum_assignment(1 - gain)].mean())


def marginal(masks, w):
    return sum(weight * mask.astype(float) for mask, weight in zip(masks, w))


def soft_dice(y, q, s, p):
    label, output = marginal(y, q), marginal(s, p)
    return float(np.mean([dice(label > t + NOISE, output > t + NOISE) for t in (0.1, 0.3, 0.5, 0.7, 0.9)]))


def nearest(mask, others):
    values = np.array([iou(mask, other) for other in others])
    return int(np.flatnonzero(values >= values.max() - 1e-12)[0])


def merge(masks, w):
    """Equal masks become one, in the order of first appearance."""
    kept, weights = [], []
    for mask, weight in zip(masks, w):
        for at, other in enumerate(kept):
            if np.array_equal(mask, other):
                weights[at] += weight
                break
        else:
            kept.append(mask)
            weights.append(weight)
    return kept, np.array(weights)


def equal_count_ece(points):
    """points: (probability, frequency). Ten bins by rank, those that only rounding separates made one."""
    points = sorted(points)
    n = len(points)
    edges = []
    for k in range(1, 10):
        edge = points[math.ceil(k * n / 10) - 1][0]
        if not edges or edge > edges[-1] + NOISE:
            edges.append(edge)
    error, low = 0.0, -math.inf
    for high in edges + [math.inf]:
        inside = [(p, f) for p, f in points if low + NOISE < p <= high + NOISE]
        low = high
        if inside:
            error += len(inside) / n * abs(np.mean([p for p, _ in inside]) - np.mean([f for _, f in inside]))
    return float(error)


def pixel_eces(pairs):
    """pairs: (marginal of outputs, marginal of labels) per image; pooled over all pixels and classes."""
    p = np.concatenate([a.ravel() for a, _ in pairs])
    q = np.concatenate([b.ravel() for _, b in pairs])
    positive = 0.0
    for k in range(10):
        inside = (p > 0) & (p > k / 10 + (NOISE if k else 0)) & (p <= (k + 1) / 10 + NOISE)
        if inside.any():
            positive += inside.mean() * abs(p[inside].mean() - q[inside].mean())
    zero = p == 0
    with_zero = positive + (zero.mean() * q[zero].mean() if zero.any() else 0.0)
    union = (p > 0) | (q > 0)
    return float(positive), float(with_zero), float(with_zero / union.mean()) if union.any() else 0.0


def boundary_scores(a, b, tolerance=2.0):
    """HD95 and normalised surface distance of two masks: per class, then the mean."""
    distances, shares = [], []
    for plane_a, plane_b in zip(a, b):
        if not plane_a.any() or not plane_b.any():
            shares.append(float(plane_a.any() == plane_b.any()))
            continue
        edge = lambda plane: plane & ~binary_erosion(plane)
        to_a, to_b = (distance_transform_edt(~edge(plane)) for plane in (plane_a, plane_b))
        from_a, from_b = to_b[edge(plane_a)], to_a[edge(plane_b)]
        distances.append(max(np.percentile(from_a, 95), np.percentile(from_b, 95)))
        both = np.concatenate([from_a, from_b])
        shares.append(float((both <= tolerance + 1e-9).mean()))
    return (float(np.mean(distances)) if distances else None), float(np.mean(shares))


def lesion_counts(a, b):
    """Components of the label, those found, and those of the output that are too many, over all classes."""
    counts = np.zeros(3)
    for plane_a, plane_b in zip(a, b):
        (of_a, n_a), (of_b, n_b) = (label(plane, np.ones((3, 3))) for plane in (plane_a, plane_b))
        pairs = []
        for i in range(1, n_a + 1):
            for j in range(1, n_b + 1):
                both, either = ((of_a == i) & (of_b == j)).sum(), ((of_a == i) | (of_b == j)).sum()
                if both / either >= 0.1:
                    pairs.append((-both / either, i, j))
        used_a, used_b = set(), set()
        for _, i, j in sorted(pairs):
            if i not in used_a and j not in used_b:
                used_a.add(i)
                used_b.add(j)
        counts += n_a, len(used_a), n_b - len(used_a)
    return counts


def majority(masks, weights):
    return sum(w * m for w, m in zip(weights, masks)) > (0.5 + NOISE) * sum(weights)


def staple(masks):
    """Per class, over all pixels: the plain EM of Warfield, Zou and Wells."""
    if len(masks) == 1:
        return masks[0]
    planes = []
    for votes in np.moveaxis(np.array(masks, float), 0, 1):
        votes = votes.reshape(len(masks), -1)
        prior = votes.mean()
        w = votes.mean(0)
        p = q = np.zeros(len(masks))
        share = lambda part, whole: np.ones(len(masks)) if whole == 0 else part / whole
        for _ in range(1000):
            new_p, new_q = share(votes @ w, w.sum()), share((1 - votes) @ (1 - w), (1 - w).sum())
            done = max(abs(new_p - p).max(), abs(new_q - q).max()) <= 1e-10
            p, q = new_p, new_q
            yes = prior * np.prod(np.where(votes == 1, p[:, None], 1 - p[:, None]), 0)
            no = (1 - prior) * np.prod(np.where(votes == 1, 1 - q[:, None], q[:, None]), 0)
            w = np.where(yes + no > 0, yes / np.where(yes + no > 0, yes + no, 1), prior)
            if done:
                break
        planes.append((w > 0.5 + NOISE).reshape(masks[0].shape[1:]))
    return np.array(planes)


def details(y, q, s, p):
    """The parts of the GED, single answers, boundaries and lesions; only what is known."""
    absent = lambda masks, w: np.array([sum(x for m, x in zip(masks, w) if not m[c].any()) for c in range(len(y[0]))])
    empty_q, empty_p = absent(y, q), absent(s, p)
    spread = float(q @ (1 - table(iou, y, y)) @ q)
    found = {"ged_emptiness": float((2 * (empty_p - empty_q) ** 2).mean())}
    found["ged_shape"] = ged(y, q, s, p) - found["ged_emptiness"]
    nearness = lambda mask: float(sum(w * iou(m, mask) for m, w in zip(y, q)))
    answer = lambda name, value: found.update({f"{name}_iou": value, f"{name}_ged": 2 * (1 - value) - spread})
    answer("top", nearness(s[0]))
    inner = table(iou, s, s) @ p
    answer("medoid", nearness(s[int(np.argmax(inner >= inner.max() - 1e-12))]))
    found["expected_iou"] = float(q @ table(iou, y, s) @ p)
    if len(y) > 1:
        squares = (q**2).sum()
        share = squares / (1 - squares)
        floor, floor_empty = share * spread, float(share * (2 * empty_q * (1 - empty_q)).mean())
        found |= {"ged_floor": floor, "ged_floor_emptiness": floor_empty, "ged_floor_shape": floor - floor_empty}
        found["ged_excess"] = ged(y, q, s, p) - floor
        found["ged_excess_emptiness"] = found["ged_emptiness"] - floor_empty
        found["ged_excess_shape"] = found["ged_shape"] - (floor - floor_empty)
        for name, consensus in (("majority", majority), ("staple", lambda masks, _: staple(masks))):
            others = lambda k: consensus([m for i, m in enumerate(y) if i != k], np.delete(q, k))
            answer(name, float(sum(w * iou(m, others(k)) for k, (m, w) in enumerate(zip(y, q)))))
            answer(f"{name}_all", nearness(consensus(y, q)))
    kept = min(int(np.argmax(np.cumsum(p) >= 0.99 - NOISE)) + 1, 64)
    for name, weights in (("top", np.ones(1)), ("expected", p[:kept])):
        pairs = [(a, b, v * w) for a, v in zip(y, q) for b, w in zip(s, weights)]
        total = sum(w for *_, w in pairs)
        measured = [(*boundary_scores(a, b), w) for a, b, w in pairs]
        known = [(d, w) for d, _, w in measured if d is not None]
        if known:
            found[f"hd95_{name}"] = sum(d * w for d, w in known) / sum(w for _, w in known)
        found[f"nsd_{name}"] = sum(n * w for _, n, w in measured) / total
        lesions, hits, false = sum(lesion_counts(a, b) * w for a, b, w in pairs) / total
        found |= {"lesions": float(lesions), f"lesions_found_{name}": float(hits), f"lesions_false_{name}": float(false)}
    return found


def shown_variation(s, p, modes, truth):
    predicted, nowhere = np.zeros(len(modes)), 0.0
    for mask, weight in zip(s, p):
        mode = nearest(mask, modes)
        if iou(mask, modes[mode]) >= 0.9:
            predicted[mode] += weight
        else:
            nowhere += weight
    return float((np.abs(predicted - truth).sum() + nowhere) / 2)


def evaluate(case):
    y = [a["mask"] for a in case["annotations"] if a["weight"] > 0]
    q = np.array([a["weight"] for a in case["annotations"] if a["weight"] > 0], float)
    q = q / q.sum()
    listed = [o["mask"] for o in case["outputs"] if o["probability"] > 0]
    raw = np.array([o["probability"] for o in case["outputs"] if o["probability"] > 0], float)
    raw = raw / raw.sum()
    s, p = merge(listed, raw)
    order = np.argsort(-p, kind="stable")
    s, p = [s[k] for k in order], p[order]
    cross_dice = table(dice, y, s)
    listed_dice = table(dice, y, listed)
    assigned = [nearest(mask, s) for mask in y]
    one_hot = np.eye(len(s))
    expected = {
        "ged_exact": ged(y, q, listed, raw),
        "ged_unbiased": ged_unbiased(y, q, listed, raw),
        "ged_draws": ged(y, q, [s[k % len(s)] for k in DRAWS], np.full(len(DRAWS), 1 / len(DRAWS))),
        "hm_iou": transport(table(iou, y, s), q, p),
        "hm_iou_assignment": hm_iou_assignment(y, listed),
        "soft_dice": soft_dice(y, q, listed, raw),
        "dice_max_labels": float(q @ cross_dice.max(1)),
        "iou_max_labels": float(q @ table(iou, y, s).max(1)),
        "dice_max_outputs": float(p @ cross_dice.max(0)),
        "dice_match": float(listed_dice[linear_sum_assignment(1 - listed_dice)].mean()),
        "dice_mean": float(q @ cross_dice @ p),
        "diversity_outputs": float(raw @ (1 - table(iou, listed, listed)) @ raw),
        "diversity_labels": float(q @ (1 - table(iou, y, y)) @ q),
        "mode_brier": float(sum(w * ((p - one_hot[k]) ** 2).sum() for w, k in zip(q, assigned))),
        "mode_nll": float(sum(-w * math.log(max(p[k], FLOOR)) for w, k in zip(q, assigned))),
        "empty_probability": float(sum(w for m, w in zip(s, p) if not m.any())),
        "empty_label_share": float(sum(w for m, w in zip(y, q) if not m.any())),
        "n_x": int((p >= 1e-5).sum()),
        "n_x_01pct": int((p >= 1e-3).sum()),
        "n_x_1pct": int((p >= 1e-2).sum()),
        "n_x_99mass": int(np.argmax(np.cumsum(p) >= 0.99 - NOISE)) + 1,
        "n_x_effective": float(np.exp(-(p * np.log(p)).sum())),
        "n_x_listed": len(listed),
    }
    expected |= details(y, q, s, p)
    points = [(pj, sum(w for w, k in zip(q, assigned) if k == j)) for j, pj in enumerate(p)]
    pooled = {
        "points": points,
        "empty": (expected["empty_probability"], expected["empty_label_share"]),
        "pixels": (marginal(s, p), marginal(y, q)),
        "errors": [],
        "modes": [],
    }
    if case["truth"]:
        modes, truth = merge([m["mask"] for m in case["truth"]], [m["probability"] for m in case["truth"]])
        truth = truth / truth.sum()
        overlap = table(iou, modes, s)
        predicted = np.zeros(len(modes))
        for mask, weight in zip(s, p):
            predicted[nearest(mask, modes)] += weight
        found = [((overlap[m] >= 0.9) & (p >= 0.5 * truth[m])).any() for m in range(len(modes))]
        expected |= {
            "oracle_ged": ged(y, q, modes, truth),
            "mode_recall": float(np.mean(found)),
            "mode_precision": float(p[(overlap >= 0.9).any(0)].sum()),
            "mode_probability_mae": float(np.abs(predicted - truth).mean()),
            "total_variation": float(np.abs(predicted - truth).sum() / 2),
            "total_variation_shown": shown_variation(s, p, modes, truth),
            "n_x_error": abs(expected["n_x"] - len(modes)),
            "n_x_1pct_error": abs(expected["n_x_1pct"] - len(modes)),
        }
        pooled["errors"] = list(predicted - truth)
        pooled["modes"] = list(zip(predicted, truth))
    return expected, pooled


DRAWS = [0, 1, 0, 2, 5, 1, 3]  # indices of outputs, taken modulo their number

random = np.random.default_rng(20240607)


def blob(height, width, classes=1, jitter=2.0, at=None):
    """An ellipse per class, moved and scaled a little."""
    rows, columns = np.mgrid[0:height, 0:width]
    planes = []
    for k in range(classes):
        centre = at if at is not None else (height / 2 + 2 * k, width / 2 - 3 * k)
        cy, cx = centre + random.normal(0, jitter, 2)
        ry, rx = np.maximum(random.normal(height / 4, jitter, 2), 1.2)
        planes.append(((rows - cy) / ry) ** 2 + ((columns - cx) / rx) ** 2 <= 1)
    return np.array(planes)


def f32(values):
    return [float(np.float32(v)) for v in values]


def case(identity, annotations, outputs, weights=None, probabilities=None, truth=None, group=None):
    weights = f32(weights if weights is not None else np.ones(len(annotations)))
    given = probabilities if probabilities is not None else np.full(len(outputs), 1 / len(outputs))
    return {
        "id": identity,
        "group": group or identity,
        "annotations": [{"mask": m, "weight": w} for m, w in zip(annotations, weights)],
        "outputs": [{"mask": m, "probability": w} for m, w in zip(outputs, f32(given))],
        "truth": [{"mask": m, "probability": w} for m, w in zip(truth[0], f32(truth[1]))] if truth else None,
    }


def cases():
    empty = np.zeros((1, 12, 14), bool)
    new = lambda: blob(12, 14)
    labels = [new() for _ in range(4)]
    yield case("uniform", labels, [new() for _ in range(16)], group="patient")
    yield case("weighted", labels, [new() for _ in range(5)], [1, 2, 0.5, 1], random.dirichlet(np.ones(5)), group="patient")
    yield case("equal sets in another order", labels, [labels[2], labels[0], labels[3], labels[1]])
    yield case("all empty", [empty] * 4, [empty] * 2)
    yield case("half the labels empty, outputs empty", [empty, empty, labels[0], labels[0]], [empty])
    yield case("labels empty, outputs not", [empty] * 3, [new(), new()], None, [0.7, 0.3])
    yield case("some of both empty", [empty, labels[0], labels[1], empty], [new(), empty, new()], None, [0.2, 0.5, 0.3])
    yield case("one output, four labels", labels, [new()])
    yield case("seven outputs, four labels", labels, [new() for _ in range(7)])
    yield case("one label", labels[:1], [new() for _ in range(3)], None, [0.5, 0.25, 0.25])
    yield case("a zero probability and a zero weight", labels, [labels[0], new(), new()], [1, 0, 1, 1], [0.0, 0.6, 0.4])
    twice = new()
    yield case("an output listed twice", labels, [twice, new(), twice, empty], None, [0.1, 0.35, 0.3, 0.25])
    yield case("a long tail", labels, [new() for _ in range(9)], None, [0.9, 0.06, 0.02, 0.015, 0.004, 0.0009, 0.00009, 0.000008, 0.000002])
    yield case("ten readers", [new() for _ in range(10)], [new() for _ in range(6)], None, random.dirichlet(np.ones(6)))
    modes = [blob(12, 14, jitter=0.4, at=(3 + 2 * k, 3 + 2.5 * k)) for k in range(4)]
    close = modes[1].copy()
    close[0, 11, 13] = True
    yield case("truth, well found", modes, [modes[0], close, modes[2], modes[3]], None, [0.27, 0.22, 0.26, 0.25], (modes, [0.25] * 4))
    yield case("truth, a mode missed", [modes[k] for k in (0, 1, 1, 3)], [modes[0], modes[1], new()], None, [0.02, 0.5, 0.48], (modes, [0.1, 0.4, 0.1, 0.4]))
    yield case("truth with an empty mode", [empty, modes[0], empty], [empty, modes[0]], None, [0.625, 0.375], ([empty, modes[0], empty], [0.25, 0.5, 0.25]))
    many = lambda: blob(9, 11, 3, 1.5)
    absent = lambda m: np.stack([m[0], np.zeros_like(m[1]), m[2]])
    yield case("three classes", [many() for _ in range(4)], [many() for _ in range(6)], [1, 1, 2, 1], random.dirichlet(np.ones(6)))
    yield case("a class absent on both sides", [absent(many()) for _ in range(3)], [absent(many()) for _ in range(4)])
    spots = lambda: np.array([random.random((16, 20)) < 0.12]) | blob(16, 20)
    yield case("several lesions", [spots() for _ in range(3)], [spots() for _ in range(5)], None, random.dirichlet(np.ones(5)))


def written(mask):
    return ["".join("1" if pixel else "0" for pixel in plane.ravel()) for plane in mask]


def main():
    document = {"about": "written by reference/metrics.py; do not edit", "draws": DRAWS, "cases": []}
    points, empties, pixels, errors, rows, modes = [], [], [], [], [], {}
    for one in cases():
        expected, pooled = evaluate(one)
        points += pooled["points"]
        empties.append(pooled["empty"])
        pixels.append(pooled["pixels"])
        errors.append(pooled["errors"])
        rows.append(expected)
        if len(pooled["modes"]) == 4:
            modes[one["id"]] = pooled["modes"]
        height, width = one["annotations"][0]["mask"].shape[1:]
        strip = lambda items: [{**item, "mask": written(item["mask"])} for item in items]
        document["cases"].append({
            "id": one["id"], "group": one["group"], "width": width, "height": height,
            "annotations": strip(one["annotations"]), "outputs": strip(one["outputs"]),
            "truth": strip(one["truth"]) if one["truth"] else None,
            "expected": expected,
        })
    positive, with_zero, union = pixel_eces(pixels)
    known = [row for row in errors if row]
    deviation = deviations = 0.0
    for mode in range(max(map(len, known))):
        column = np.array([row[mode] for row in known if len(row) > mode])
        deviation += column.var() * len(column)
        deviations += len(column)
    document["summary"] = {
        "mode_ece": equal_count_ece(points),
        "empty_ece": equal_count_ece(empties),
        "pixel_ece": positive,
        "pixel_ece_zero_bin": with_zero,
        "pixel_ece_union": union,
        "mode_probability_std": float(np.sqrt(deviation / deviations)),
    }
    mean = lambda key: float(np.mean([row[key] for row in rows if key in row]))
    for name in ("top", "expected"):
        hits, false = mean(f"lesions_found_{name}"), mean(f"lesions_false_{name}")
        document["summary"][f"lesion_sensitivity_{name}"] = hits / mean("lesions")
        document["summary"][f"lesion_f1_{name}"] = 2 * hits / (mean("lesions") + hits + false)
    keys = {key for row in rows for key in row} - {"ged_draws", "hm_iou_assignment"}
    for key in sorted(keys):
        document["summary"][key] = mean(key)
    document["std_over_images"] = {
        key: float(np.std([row[key] for row in rows if key in row])) for key in sorted(keys)
    }
    predicted, truth = np.moveaxis(np.array(list(modes.values())), 2, 0)
    document["mode_probabilities"] = {
        "cases": list(modes),
        "modes": [
            {"mean": float(predicted[:, k].mean()), "std": float(predicted[:, k].std()), "truth": float(truth[:, k].mean())}
            for k in range(4)
        ],
    }
    path = Path(__file__).parent / "golden" / "metrics.json"
    path.write_text(json.dumps(document, indent=1) + "\n")
    print(f"{path.name}: {len(document['cases'])} cases")


if __name__ == "__main__":
    main()

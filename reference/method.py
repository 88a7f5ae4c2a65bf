"""Golden values of the method: an independent reading of the paper's formulas in float64.

Writes golden/method.json. Inputs are not stored: both sides make them by `wave`. Needs torch. `load` reads the weights
of a model that was exported, so that PyTorch predicts with it.
"""

import itertools
import json
import math
import struct
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F

torch.set_default_dtype(torch.float64)
FLOOR = 1e-3
SOFTNESS = 1.0


def wave(shape, phase, scale=1.0, shift=0.0):
    """Values that need no file: shift + scale · sin(0.7 i + phase), rounded to float32."""
    i = torch.arange(math.prod(shape))
    return (shift + scale * torch.sin(0.7 * i + phase)).float().double().reshape(shape)


def flat(tensor):
    return tensor.detach().flatten().tolist()


# Parts of the loss and the codebook.


def covariance(codes, threshold):
    unit = codes / codes.norm(dim=1, keepdim=True)
    gram = unit @ unit.T - torch.eye(len(codes))
    kept = torch.where(gram.abs() > threshold, gram, torch.zeros_like(gram))
    kept = kept * (1 - torch.eye(len(codes)))
    count = (kept != 0).sum()
    return (kept**2).sum() / count, int(count)


def golden_covariance():
    codes = wave((5, 4), 0.3).requires_grad_()
    loss, count = covariance(codes, 1 / (2 * math.sqrt(4)))
    loss.backward()
    return {"loss": loss.item(), "violating": count, "gradient": flat(codes.grad)}


def golden_average():
    """The paper's two buffers: c = m / n, started with n = 1 and m = c."""
    codes, z, kappa = wave((4, 3), 0.1), wave((5, 3), 0.9), 0.9
    assigned = [0, 2, 2, 3, 0]
    n, m = torch.ones(4), codes.clone()
    hits = torch.zeros(4, 5)
    for row, code in enumerate(assigned):
        hits[code, row] = 1
    for _ in range(3):
        n = kappa * n + (1 - kappa) * hits.sum(1)
        m = kappa * m + (1 - kappa) * hits @ z
    moved = m / n[:, None]
    moved[1] = codes[1]  # without a hit a code stays
    return {"assigned": assigned, "codes": flat(moved), "usage": flat(n)}


def golden_frame():
    n, m = 5, 7
    u = torch.linalg.qr(torch.randn(m, n, generator=torch.Generator().manual_seed(1)))[0]
    frame = math.sqrt(n / (n - 1)) * u @ (torch.eye(n) - torch.ones(n, n) / n)
    return {"gram": flat(frame.T @ frame)}


def jaccard_distance(a, b, epsilon):
    common = (a * b).sum()
    return 1 - (common + epsilon) / (a.sum() + b.sum() - common + epsilon)


def mask_distance(a, b):
    """The distance of the masks, with the gradient of the soft distance."""
    soft = jaccard_distance(a, b, SOFTNESS)
    hard = jaccard_distance((a > 0.5).double(), (b > 0.5).double(), FLOOR)
    return soft + (hard - soft).detach()


def energy(outputs, p, annotations, weights):
    """One image: outputs [J, size], p [J], annotations [K, size], weights [K]."""
    fit = sum(w * p[j] * mask_distance(y, outputs[j]) for y, w in zip(annotations, weights) for j in range(len(p)))
    pairs = [(i, j) for i in range(len(p)) for j in range(len(p)) if i != j]
    return fit - 0.5 * sum(p[i] * p[j] * mask_distance(outputs[i], outputs[j]) for i, j in pairs)


def masks(rows, size):
    i, row = torch.arange(size)[None], torch.arange(rows)[:, None]
    return ((7 * i + 5 * row) % 11 < 4).double()


def golden_energy():
    outputs = wave((2 * 3, 6), 0.2, 0.4, 0.5).requires_grad_()
    p = wave((2, 3), 1.1, 0.2, 0.4).requires_grad_()
    y, weights = masks(4, 6), [0.25, 0.75, 1.0, 0.0]
    scores = [energy(outputs[3 * b : 3 * b + 3], p[b], y[2 * b : 2 * b + 2], weights[2 * b : 2 * b + 2]) for b in (0, 1)]
    sum(scores).backward()
    return {"scores": [s.item() for s in scores], "outputs": flat(outputs.grad), "probabilities": flat(p.grad)}


def golden_responsibilities():
    distances = wave((3, 4), 0.4, 0.5, 1.0)
    return {"soft": flat(torch.softmax(-distances / 0.2, dim=1))}


# The whole step.


class Net:
    """The networks by named tensors; weights lie as [kernel, kernel, in, out]."""

    def __init__(self, tensors, norm_group=4):
        self.p, self.norm_group = tensors, norm_group

    @classmethod
    def of_waves(cls, shapes):
        """Networks whose weights need no file."""
        tensors = {}
        for phase, (name, shape) in enumerate(sorted(shapes.items())):
            if name.endswith(".scale"):
                value = wave(shape, phase, 0.2, 1.0)
            elif len(shape) == 1:
                value = wave(shape, phase, 0.1)
            else:
                value = wave(shape, phase, 1.5 / math.sqrt(math.prod(shape[:-1])))
            tensors[name] = value.requires_grad_(name not in ("classifier.frame", "codebook.codes"))
        return cls(tensors)

    def conv(self, name, x):
        w = self.p[name + ".weight"].permute(3, 2, 0, 1)
        return F.conv2d(x, w, self.p[name + ".bias"], padding=w.shape[2] // 2)

    def linear(self, name, x):
        return x @ self.p[name + ".weight"] + self.p[name + ".bias"]

    def norm(self, name, x):
        groups = max(1, x.shape[1] // self.norm_group)
        return F.group_norm(x, groups, self.p[name + ".scale"], self.p[name + ".shift"], 1e-5)

    def block(self, name, x):
        skip = self.conv(name + ".skip", x) if name + ".skip.weight" in self.p else x
        for i in (1, 2, 3):
            x = self.norm(f"{name}.norm{i}", self.conv(f"{name}.conv{i}", x))
            x = torch.relu(x + skip if i == 3 else x)
        return x

    def encoder(self, name, x):
        """Every level, the finest first."""
        levels = [self.block(name + ".block0", x)]
        while f"{name}.block{len(levels)}.conv1.weight" in self.p:
            half = [max(1, side // 2) for side in levels[-1].shape[2:]]
            smaller = F.interpolate(levels[-1], half, mode="bilinear", align_corners=False)
            levels.append(self.block(f"{name}.block{len(levels)}", smaller))
        return levels

    def image(self, x):
        """What the image alone determines: features that every code is decoded from, and the logits of the codes."""
        *finer, deep = self.encoder("image_encoder", x)
        h = self.linear("classifier.projection", torch.relu(self.linear("classifier.hidden", deep.mean((2, 3)))))
        features = deep
        for level in range(len(finer) - 1, -1, -1):
            up = F.interpolate(features, finer[level].shape[2:], mode="bilinear", align_corners=False)
            features = self.block(f"generator.block{level}", torch.cat([up, finer[level]], 1))
        return self.conv("generator.entry", features), h @ self.p["classifier.frame"].T

    def predict(self, x):
        """The codes that take part, their probabilities [images, codes] and the logits [images, codes, h, w]."""
        codes = torch.nonzero(self.p["codebook.active"] > 0.5).flatten()
        features, logits = self.image(x)
        outputs = [self.generate(one.expand(len(codes), -1, -1, -1), self.p["codebook.codes"][codes]) for one in features[:, None]]
        maps = torch.stack(outputs).reshape(len(x), len(codes), *x.shape[2:])
        return codes, torch.softmax(logits[:, codes], 1), maps

    def generate(self, features, codes):
        x = torch.relu(features + (codes @ self.p["generator.code.weight"])[:, :, None, None])
        x = torch.relu(self.conv("generator.hidden0", x))
        return self.conv("generator.output", x).flatten(1)

    def embed(self, x, y):
        deep = self.encoder("pair_encoder", torch.cat([x, y], 1))[-1]
        z = self.linear("pair_encoder.projection", deep.mean((2, 3)))
        z = (z - z.mean(0)) / torch.sqrt(z.var(0, unbiased=False) + 1e-5)
        return z / z.norm(dim=1, keepdim=True)


def load(folder, norm_group):
    """The networks of an exported model of one class without an empty head; `model.norm_group` of its recipe."""
    content = (Path(folder) / "model.safetensors").read_bytes()
    (length,) = struct.unpack("<Q", content[:8])
    kinds = {"F16": np.float16, "F32": np.float32}
    tensors = {}
    for name, entry in json.loads(content[8 : 8 + length]).items():
        if name != "__metadata__":
            first, end = (8 + length + at for at in entry["data_offsets"])
            values = np.frombuffer(content[first:end], kinds[entry["dtype"]]).astype(np.float64)
            tensors[name] = torch.from_numpy(values.reshape(entry["shape"]))
    return Net(tensors, norm_group)


def shapes(embedding):
    out = {}

    def conv(name, k, i, o):
        out[name + ".weight"], out[name + ".bias"] = (k, k, i, o), (o,)

    def linear(name, i, o):
        out[name + ".weight"], out[name + ".bias"] = (i, o), (o,)

    def block(name, i, o):
        for n, inputs in ((1, i), (2, o), (3, o)):
            conv(f"{name}.conv{n}", 3, inputs, o)
            out[f"{name}.norm{n}.scale"] = out[f"{name}.norm{n}.shift"] = (o,)
        if i != o:
            conv(name + ".skip", 1, i, o)

    for encoder, inputs in [("image_encoder", 1)] + [("pair_encoder", 2)] * embedding:
        block(encoder + ".block0", inputs, 4)
        block(encoder + ".block1", 4, 8)
    if embedding:
        linear("pair_encoder.projection", 8, 4)
    linear("classifier.hidden", 8, 4)
    linear("classifier.projection", 4, 4)
    block("generator.block0", 12, 4)
    conv("generator.entry", 1, 4, 4)
    out["generator.code.weight"] = (4, 4)
    conv("generator.hidden0", 1, 4, 4)
    conv("generator.output", 1, 4, 1)
    out["classifier.frame"] = out["codebook.codes"] = (4, 4)
    return out


HEIGHT, WIDTH = 9, 7
WEIGHTS = torch.tensor([[0.25, 0.75], [1.0, 0.0]])


def golden_step(space, progress):
    net = Net.of_waves(shapes(space == "embedding"))
    size = HEIGHT * WIDTH
    x = wave((2, 1, HEIGHT, WIDTH), 0.5)
    y = masks(4, size)
    y[3] = 0
    areas = (WEIGHTS * y.sum(1).reshape(2, 2)).sum(1)
    units = torch.clamp(areas, min=0.02 * size)
    features, logits = net.image(x)
    codes = net.p["codebook.codes"]
    log_p = torch.log_softmax(logits, 1)
    targets, commitment, recon, overlap = torch.zeros(2, 4), None, 0.0, 0.0

    def jaccard(o, t):
        return jaccard_distance(torch.sigmoid(o), t, SOFTNESS)

    def bce(o, t):
        return F.binary_cross_entropy_with_logits(o, t, reduction="sum")

    outputs = torch.stack([net.generate(features[b : b + 1].expand(4, -1, -1, -1), codes) for b in (0, 1)])
    if space == "output":
        for b in (0, 1):
            rows = [k for k in (0, 1) if WEIGHTS[b, k] > 0]
            d = torch.stack([torch.stack([bce(outputs[b, j], y[2 * b + k]) for j in range(4)]) for k in rows]) / units[b]
            if progress < 0.45:
                r = torch.softmax(-d / (0.5 * (0.03 / 0.5) ** (progress / 0.45)), 1)
            else:
                cost = d - 0.1 * log_p[b]
                best = min(itertools.permutations(range(4), len(rows)), key=lambda s: sum(cost[i, j] for i, j in enumerate(s)))
                r = torch.zeros_like(d)
                for i, j in enumerate(best):
                    r[i, j] = 1
            share = WEIGHTS[b, rows][:, None] * r.detach()
            targets[b] = share.sum(0)
            recon = recon + (share * d).sum() / 2
            overlap = overlap + sum(
                share[i, j] * jaccard(outputs[b, j], y[2 * b + k]) / 2 for i, k in enumerate(rows) for j in range(4)
            )
    else:
        # The fourth row only pads: it stays out of the batch statistics.
        z = net.embed(x[[0, 0, 1]], y[:3].reshape(3, 1, HEIGHT, WIDTH))[[0, 1, 2, 2]]
        nearest = torch.cdist(z, codes).argmin(1)
        c = codes[nearest]
        o = net.generate(features[[0, 0, 1, 1]], z + (c - z).detach())
        share = WEIGHTS.flatten() / 2
        recon = sum(share[i] * bce(o[i], y[i]) / units[i // 2] for i in range(4))
        overlap = sum(share[i] * jaccard(o[i], y[i]) for i in range(4))
        commitment = (share * ((z - c) ** 2).mean(1)).sum()
        for i in range(4):
            targets[i // 2, nearest[i]] += WEIGHTS.flatten()[i]
    cross_entropy = -(targets * log_p).sum(1).mean()
    total = recon + cross_entropy
    if commitment is not None:
        total = total + 0.25 * commitment
    if progress < 0.45:
        overlap = None
    else:
        total = total + 0.5 * overlap
    score = None
    if progress >= 0.7:
        # Where annotations take different codes, the probabilities are the cross-entropy's alone.
        p = log_p.exp().detach() if space == "output" else log_p.exp()
        score = sum(energy(torch.sigmoid(outputs[b]), p[b], y[2 * b : 2 * b + 2], WEIGHTS[b]) for b in (0, 1)) / 2
        total = total + score
    total.backward()
    gradients = {}
    for name, tensor in net.p.items():
        if tensor.grad is not None:
            g = tensor.grad.flatten()
            gradients[name] = [g.norm().item(), (g * torch.sin(1.0 + torch.arange(len(g)))).sum().item()]
    return {
        "space": space,
        "progress": progress,
        "total": total.item(),
        "reconstruction": recon.item(),
        "cross_entropy": cross_entropy.item(),
        "commitment": 0.0 if commitment is None else commitment.item(),
        "overlap": 0.0 if overlap is None else overlap.item(),
        "energy": 0.0 if score is None else score.item(),
        "targets": flat(targets),
        "gradients": gradients,
    }


def main():
    golden = {
        "covariance": golden_covariance(),
        "average": golden_average(),
        "frame": golden_frame(),
        "energy": golden_energy(),
        "responsibilities": golden_responsibilities(),
        "steps": [golden_step(*case) for case in [("output", 0.1), ("output", 0.9), ("embedding", 0.1), ("embedding", 0.9)]],
    }
    path = Path(__file__).parent / "golden" / "method.json"
    path.write_text(json.dumps(golden, indent=1) + "\n")


if __name__ == "__main__":
    main()

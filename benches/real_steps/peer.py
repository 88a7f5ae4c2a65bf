"""PyTorch's side of `real_steps`: the method's step on a fixed batch, timed on request.

python peer.py SETTINGS, a JSON object: part (soft or last), layout (channels-last or nchw), channels, batch, size, codes,
head_width, norm_group, empty_head, and device: cpu, or cuda:bf16 (weights and activations in bf16), cuda:autocast
(weights in f32) or cuda:tf32.

Each line on standard input asks for that many timed runs; the answer is their times in seconds. The formulas are those
of reference/method.py, on whole tensors. On a GPU a step is one CUDA graph. Needs torch 2.11.
"""
import itertools
import json
import os
import sys
import time

import torch
import torch.nn as nn
import torch.nn.functional as F

settings = json.loads(sys.argv[1])
part, layout, channels = settings["part"], settings["layout"], settings["channels"]
batch, size, codes, head_width = (settings[key] for key in ("batch", "size", "codes", "head_width"))
device, _, precision = settings["device"].partition(":")
NORM_GROUP, EMPTY_HEAD = settings["norm_group"], settings["empty_head"]
CODE_COUNT, CODE_DIM, CLASSIFIER, READERS = 16, 16, 64, 4
SOFTNESS, FLOOR = 1.0, 1e-3
torch.manual_seed(1)
torch.set_num_threads(len(os.sched_getaffinity(0)))
torch.set_default_device(device)
torch.backends.cudnn.benchmark = True
torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = precision == "tf32"
memory_format = torch.channels_last if layout == "channels-last" else torch.contiguous_format
element = torch.bfloat16 if precision == "bf16" else torch.float32


class Residual(nn.Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        self.convs = nn.ModuleList(nn.Conv2d(i, outputs, 3, padding=1) for i in (inputs, outputs, outputs))
        self.norms = nn.ModuleList(nn.GroupNorm(outputs // NORM_GROUP, outputs) for _ in range(3))
        self.skip = nn.Conv2d(inputs, outputs, 1) if inputs != outputs else nn.Identity()

    def forward(self, x):
        inner = F.relu(self.norms[0](self.convs[0](x)))
        inner = F.relu(self.norms[1](self.convs[1](inner)))
        return F.relu(self.norms[2](self.convs[2](inner)) + self.skip(x))


class Network(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.ModuleList(Residual(i, o) for i, o in zip([1] + channels, channels))
        self.classifier = nn.Sequential(nn.Linear(channels[-1], CLASSIFIER), nn.ReLU(), nn.Linear(CLASSIFIER, CODE_DIM))
        self.decoder = nn.ModuleList(Residual(low + high, high) for low, high in zip(channels[:0:-1], channels[-2::-1]))
        self.entry = nn.Conv2d(channels[0], head_width, 1)
        self.code = nn.Linear(CODE_DIM, head_width, bias=False)
        self.head = nn.Sequential(nn.Conv2d(head_width, head_width, 1), nn.ReLU(), nn.Conv2d(head_width, 1, 1))
        if EMPTY_HEAD:
            self.attention = nn.ModuleList(nn.Conv2d(c, 1, 1) for c in (channels[0], channels[-1]))
            self.empty = nn.ModuleList(nn.Linear(c, CLASSIFIER) for c in (channels[0], channels[-1], channels[-1]))
            self.empty_output = nn.Linear(CLASSIFIER, 1)
        self.register_buffer("frame", torch.randn(CODE_COUNT, CODE_DIM))
        self.register_buffer("codes", F.normalize(torch.randn(CODE_COUNT, CODE_DIM)))

    def forward(self, x):
        """Logits of the codes' outputs [batch, codes, pixels], of the classifier, and of the empty mask."""
        levels = []
        for block in self.encoder:
            if levels:
                x = F.interpolate(levels[-1], scale_factor=0.5, mode="bilinear", align_corners=False)
            levels.append(block(x))
        logits = self.classifier(levels[-1].mean((2, 3))) @ self.frame.T
        x = levels[-1]
        for block, skip in zip(self.decoder, levels[-2::-1]):
            enlarged = F.interpolate(x, size=skip.shape[-2:], mode="bilinear", align_corners=False)
            x = block(torch.cat([enlarged, skip], 1))
        empty = self.emptiness(x, levels[-1]) if EMPTY_HEAD else None
        features = self.entry(x)
        bias = self.code(self.codes[:codes])
        # Every code is a bias on the features of every image.
        x = F.relu(features[:, None] + bias[None, :, :, None, None]).flatten(0, 1)
        outputs = self.head(x.contiguous(memory_format=memory_format)).reshape(batch, codes, -1)
        return outputs.float(), logits.float(), empty

    def emptiness(self, finest, deepest):
        pooled = []
        for attention, features in zip(self.attention, (finest, deepest)):
            weights = torch.softmax(attention(features).flatten(1).float(), 1).to(features.dtype)
            pooled.append((features.flatten(2) @ weights[:, :, None])[:, :, 0])
        pooled.append(deepest.mean((2, 3)))
        hidden = F.relu(sum(layer(values) for layer, values in zip(self.empty, pooled)))
        return self.empty_output(hidden)[:, 0].float()


def jaccard(left, right, epsilon):
    """Distances of rows [batch, K, size] and [batch, J, size]."""
    common = left @ right.transpose(1, 2)
    areas = left.sum(2)[:, :, None] + right.sum(2)[:, None, :]
    return 1 - (common + epsilon) / (areas - common + epsilon)


# All ways to give the annotations of an image different codes.
ways = None if EMPTY_HEAD else torch.tensor(list(itertools.permutations(range(codes), READERS)))


def responsibilities(distances, log_p):
    if part == "soft":
        return torch.softmax(-distances / 0.5, 2)
    cost = distances - 0.1 * log_p[:, None, :]
    if EMPTY_HEAD:  # Annotations may share a code.
        nearest = cost.argmin(2)
    else:
        totals = sum(cost[:, reader].index_select(1, ways[:, reader]) for reader in range(READERS))
        nearest = ways[totals.argmin(1)]
    return torch.zeros_like(distances).scatter_(2, nearest[:, :, None], 1.0)


def loss(network, x, y):
    with torch.autocast(device, torch.bfloat16, enabled=precision == "autocast"):
        outputs, logits, empty = network(x)
    log_p = torch.log_softmax(logits[:, :codes], 1)
    units = y.sum(2).mean(1).clamp(min=0.02 * y.shape[2])
    drawn = (y.sum(2) > 0).float() if EMPTY_HEAD else torch.ones(batch, READERS)
    with torch.no_grad():
        distances = (F.softplus(outputs).sum(2)[:, None, :] - y @ outputs.transpose(1, 2)) / units[:, None, None]
        share = responsibilities(distances, log_p) * drawn[:, :, None] / READERS
        masses = share.sum(1)
        means = (share.transpose(1, 2) / masses.clamp(min=1e-12)[:, :, None]) @ y
    bce = F.binary_cross_entropy_with_logits(outputs, means, reduction="none").sum(2) / units[:, None]
    recon = (bce * masses).sum() / batch
    targets = F.pad(masses, (0, CODE_COUNT - codes))
    total = -(targets * torch.log_softmax(logits, 1)).sum(1).mean()
    if EMPTY_HEAD:
        total = 0.1 * total + F.binary_cross_entropy_with_logits(empty, 1 - drawn.mean(1))
    if part == "soft":
        return recon + total
    soft = torch.sigmoid(outputs)
    masks = (outputs > 0).float()
    to_annotations = jaccard(y, soft, SOFTNESS)
    if not EMPTY_HEAD:
        total = total + 4 * (to_annotations * share).sum() / batch
    through = lambda soft, hard: soft + (hard - soft).detach()
    p = log_p.exp() if EMPTY_HEAD else log_p.exp().detach()
    fit = (through(to_annotations, jaccard(y, masks, FLOOR)) * p[:, None, :]).sum((1, 2)) / READERS
    among = through(jaccard(soft, soft, SOFTNESS), jaccard(masks, masks, FLOOR)) * (1 - torch.eye(codes))
    spread = (among * p[:, :, None] * p[:, None, :]).sum((1, 2))
    if EMPTY_HEAD:
        p_empty = torch.sigmoid(empty)
        nothing = lambda rows, epsilon: rows.sum(2) / (rows.sum(2) + epsilon)
        shown = (through(nothing(soft, SOFTNESS), nothing(masks, FLOOR)) * p).sum(1)
        fit = p_empty * nothing(y, FLOOR).mean(1) + (1 - p_empty) * fit
        spread = (1 - p_empty) ** 2 * spread + 2 * p_empty * (1 - p_empty) * shown
    return 0.3 * recon + total + (fit - 0.5 * spread).mean()


network = Network().to(element).to(memory_format=memory_format)
x = torch.rand(batch, 1, size, size).to(element).contiguous(memory_format=memory_format)
y = (torch.rand(batch, READERS, size * size) > 0.7).float()
parameters = list(network.parameters())
average = [p.detach().clone() for p in parameters]
on_gpu = {"fused": True, "capturable": True} if device == "cuda" else {}
optimiser = torch.optim.Adam(parameters, lr=1e-4, betas=(0.9, 0.99), **on_gpu)


def compute():
    optimiser.zero_grad(set_to_none=True)
    total = loss(network, x, y)
    total.backward()
    optimiser.step()
    with torch.no_grad():
        torch._foreach_lerp_(average, parameters, 1 - 0.998)
    return total


if device == "cuda":
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        for _ in range(3):
            compute()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        recorded = compute()


def step():
    if device == "cuda":
        graph.replay()
        recorded.item()
    else:
        compute().item()


for line in sys.stdin:
    times = []
    for _ in range(int(line)):
        start = time.perf_counter()
        step()
        times.append(time.perf_counter() - start)
    print(json.dumps(times), flush=True)

"""PyTorch's side of `real_steps`: the method's step on a fixed batch, timed on request.

python peer.py soft|last channels-last|nchw CHANNELS BATCH SIZE CODES HEAD_WIDTH

Each line on standard input asks for that many timed runs; the answer is their times in seconds. The formulas are those
of reference/method.py, on whole tensors. Needs torch 2.11.
"""
import itertools
import json
import os
import sys
import time

import torch
import torch.nn as nn
import torch.nn.functional as F

part, layout, channels, *sizes = sys.argv[1:]
channels = [int(c) for c in channels.split(",")]
batch, size, codes, head_width = [int(s) for s in sizes]
CODE_COUNT, CODE_DIM, CLASSIFIER, READERS, NORM_GROUP = 16, 16, 64, 4, 4
SOFTNESS, FLOOR = 1.0, 1e-3
torch.manual_seed(1)
torch.set_num_threads(len(os.sched_getaffinity(0)))
memory_format = torch.channels_last if layout == "channels-last" else torch.contiguous_format


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
        self.register_buffer("frame", torch.randn(CODE_COUNT, CODE_DIM))
        self.register_buffer("codes", F.normalize(torch.randn(CODE_COUNT, CODE_DIM)))

    def forward(self, x):
        """Logits of the codes' outputs [batch, codes, pixels] and of the classifier."""
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
        features = self.entry(x)
        bias = self.code(self.codes[:codes])
        # Every code is a bias on the features of every image.
        x = F.relu(features[:, None] + bias[None, :, :, None, None]).flatten(0, 1)
        return self.head(x.contiguous(memory_format=memory_format)).reshape(batch, codes, -1), logits


def jaccard(left, right, epsilon):
    """Distances of rows [batch, K, size] and [batch, J, size]."""
    common = left @ right.transpose(1, 2)
    areas = left.sum(2)[:, :, None] + right.sum(2)[:, None, :]
    return 1 - (common + epsilon) / (areas - common + epsilon)


# All ways to give the annotations of an image different codes.
ways = torch.tensor(list(itertools.permutations(range(codes), READERS)))


def responsibilities(distances, log_p):
    if part == "soft":
        return torch.softmax(-distances / 0.5, 2)
    cost = distances - 0.1 * log_p[:, None, :]
    totals = sum(cost[:, reader].index_select(1, ways[:, reader]) for reader in range(READERS))
    return F.one_hot(ways[totals.argmin(1)], codes).float()


def loss(network, x, y):
    outputs, logits = network(x)
    log_p = torch.log_softmax(logits[:, :codes], 1)
    units = y.sum(2).mean(1).clamp(min=0.02 * y.shape[2])
    with torch.no_grad():
        distances = (F.softplus(outputs).sum(2)[:, None, :] - y @ outputs.transpose(1, 2)) / units[:, None, None]
        share = responsibilities(distances, log_p) / READERS
        masses = share.sum(1)
        means = (share.transpose(1, 2) / masses.clamp(min=1e-12)[:, :, None]) @ y
    bce = F.binary_cross_entropy_with_logits(outputs, means, reduction="none").sum(2) / units[:, None]
    recon = (bce * masses).sum() / batch
    targets = F.pad(masses, (0, CODE_COUNT - codes))
    cross_entropy = -(targets * torch.log_softmax(logits, 1)).sum(1).mean()
    if part == "soft":
        return recon + cross_entropy
    soft = torch.sigmoid(outputs)
    masks = (outputs > 0).float()
    to_annotations = jaccard(y, soft, SOFTNESS)
    overlap = (to_annotations * share).sum() / batch
    through = lambda soft, hard: soft + (hard - soft).detach()
    p = log_p.exp().detach()
    fit = (through(to_annotations, jaccard(y, masks, FLOOR)) * p[:, None, :]).sum((1, 2)) / READERS
    among = through(jaccard(soft, soft, SOFTNESS), jaccard(masks, masks, FLOOR)) * (1 - torch.eye(codes))
    spread = (among * p[:, :, None] * p[:, None, :]).sum((1, 2))
    return 0.3 * recon + cross_entropy + 4 * overlap + (fit - 0.5 * spread).mean()


network = Network().to(memory_format=memory_format)
x = torch.rand(batch, 1, size, size).contiguous(memory_format=memory_format)
y = (torch.rand(batch, READERS, size * size) > 0.7).float()
parameters = list(network.parameters())
average = [p.detach().clone() for p in parameters]
optimiser = torch.optim.Adam(parameters, lr=1e-4, betas=(0.9, 0.99))


def step():
    optimiser.zero_grad(set_to_none=True)
    total = loss(network, x, y)
    total.backward()
    optimiser.step()
    with torch.no_grad():
        torch._foreach_lerp_(average, parameters, 1 - 0.998)
    total.item()


for line in sys.stdin:
    times = []
    for _ in range(int(line)):
        start = time.perf_counter()
        step()
        times.append(time.perf_counter() - start)
    print(json.dumps(times), flush=True)

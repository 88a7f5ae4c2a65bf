"""PyTorch's side of `against_torch`: the same network, timed on request.

python peer.py train|predict CHANNELS BATCH SIZE group-norm|no-norm channels-last|nchw

Each line on standard input asks for that many timed runs; the answer is their times in seconds.
Needs torch 2.11.
"""
import json
import os
import sys
import time

import torch
import torch.nn as nn
import torch.nn.functional as F

CODES, HIDDEN, GROUPS = 256, 32, 8
kind, channels, batch, size, norm, layout = sys.argv[1:]
channels, batch, size = [int(c) for c in channels.split(",")], int(batch), int(size)
torch.set_num_threads(len(os.sched_getaffinity(0)))
memory_format = torch.channels_last if layout == "channels-last" else torch.contiguous_format


class Residual(nn.Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        self.convs = nn.ModuleList(nn.Conv2d(i, outputs, 3, padding=1) for i in (inputs, outputs, outputs))
        make_norm = (lambda: nn.GroupNorm(GROUPS, outputs)) if norm == "group-norm" else nn.Identity
        self.norms = nn.ModuleList(make_norm() for _ in range(3))
        self.skip = nn.Conv2d(inputs, outputs, 1) if inputs != outputs else nn.Identity()

    def forward(self, x):
        inner = F.relu(self.norms[0](self.convs[0](x)))
        inner = F.relu(self.norms[1](self.convs[1](inner)))
        return F.relu(self.norms[2](self.convs[2](inner)) + self.skip(x))


class Network(nn.Module):
    def __init__(self):
        super().__init__()
        encoder = lambda inputs: nn.ModuleList(Residual(i, o) for i, o in zip([inputs] + channels, channels))
        self.image_encoder, self.pair_encoder = encoder(1), encoder(2)
        self.embedding = nn.Conv2d(channels[-1], CODES, 1)
        self.classifier = nn.Linear(channels[-1], CODES)
        self.decoder = nn.ModuleList(Residual(low + high, high) for low, high in zip(channels[:0:-1], channels[-2::-1]))
        self.head_features = nn.Conv2d(channels[0], HIDDEN, 1)
        self.head_code = nn.Linear(CODES, HIDDEN, bias=False)
        self.head = nn.Sequential(nn.ReLU(), nn.Conv2d(HIDDEN, HIDDEN, 1), nn.ReLU(), nn.Conv2d(HIDDEN, 1, 1))
        self.codes = nn.Parameter(torch.randn(CODES, CODES) * 0.1)

    @staticmethod
    def encode(blocks, x):
        features = []
        for block in blocks:
            if features:
                x = F.interpolate(features[-1], scale_factor=0.5, mode="bilinear", align_corners=False)
            features.append(block(x))
        return features

    def embed(self, x):
        features = self.encode(self.image_encoder, x)
        decoded = features[-1]
        for block, skip in zip(self.decoder, features[-2::-1]):
            enlarged = F.interpolate(decoded, size=skip.shape[-2:], mode="bilinear", align_corners=False)
            decoded = block(torch.cat([enlarged, skip], 1))
        return decoded, self.classifier(features[-1].mean((2, 3)))

    def decode(self, features, codes):
        # The code enters as a bias here too; features of one image are broadcast to all its codes.
        return self.head(self.head_features(features) + self.head_code(codes)[:, :, None, None])

    def loss(self, x, y):
        code = self.embedding(self.encode(self.pair_encoder, torch.cat([x, y], 1))[-1]).mean((2, 3))
        return F.binary_cross_entropy_with_logits(self.decode(self.embed(x)[0], code), y)


network = Network().to(memory_format=memory_format)
x = torch.rand(batch, 1, size, size).contiguous(memory_format=memory_format)
y = (x > 0.5).float()
optimiser = torch.optim.Adam([p for name, p in network.named_parameters() if name != "codes"], lr=1e-4)


def train():
    optimiser.zero_grad(set_to_none=True)
    network.loss(x, y).backward()
    optimiser.step()


@torch.no_grad()
def predict():
    network.decode(network.embed(x)[0], network.codes[:16])


run = train if kind == "train" else predict
for line in sys.stdin:
    times = []
    for _ in range(int(line)):
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    print(json.dumps(times), flush=True)

"""Golden values for the engine's operations, made with PyTorch in float64.

    python reference/engine.py        writes reference/golden/engine.safetensors

A case is a call of one operation: the tensors `CASE/0`, `CASE/1`, ... are its operands in the order
of the Rust method, `CASE/seed` is the gradient of its output, `CASE/out` what it gives and
`CASE/d0`, `CASE/d1`, ... the gradients of the operands that have one. The file's metadata holds under
CASE a JSON object: `op` and the arguments that are not tensors. Layouts are the engine's: images
[batch, height, width, channels], convolution weights [k, k, in, out], linear weights [in, out].

Operands are rounded to float32 before anything is computed, so both sides start from the same numbers.
"""

import json
import pathlib
import struct

import torch
import torch.nn.functional as F

torch.set_default_dtype(torch.float64)
torch.manual_seed(20)

tensors: dict[str, torch.Tensor] = {}
metadata: dict[str, str] = {}


def rand(*shape, low=None, high=None):
    """Normal numbers, or uniform ones between two bounds; exact in float32."""
    x = torch.randn(shape) if low is None else torch.rand(shape) * (high - low) + low
    return x.float().double()


def case(name, op, operands, function, constant=(), kinks=lambda *operands: None, **arguments):
    """Records one call. `constant` lists operands without a gradient; `kinks` gives what a relu sees,
    whose sign must not hang on rounding."""
    assert name not in metadata, name
    at_kink = kinks(*operands)
    assert at_kink is None or at_kink.abs().min() > 2e-6, f"{name}: too close to a kink, change the seed"
    operands = [x.clone().requires_grad_(i not in constant) for i, x in enumerate(operands)]
    out = function(*operands)
    seed = rand(*out.shape)
    if out.requires_grad:
        (out * seed).sum().backward()
    for i, x in enumerate(operands):
        tensors[f"{name}/{i}"] = x
        if x.grad is not None:
            tensors[f"{name}/d{i}"] = x.grad
    tensors[f"{name}/seed"] = seed
    tensors[f"{name}/out"] = out
    metadata[name] = json.dumps({"op": op, **arguments})


def nchw(x):
    return x.permute(0, 3, 1, 2)


def nhwc(x):
    return x.permute(0, 2, 3, 1)


def conv(x, w, b=None):
    return nhwc(F.conv2d(nchw(x), w.permute(3, 2, 0, 1).contiguous(), b, padding=w.shape[0] // 2))


def convolutions():
    # Channel counts that fill no vector, one, several; that go by Winograd (whole vectors, product at
    # least 128; for the weight gradient 1024) and directly; sizes odd, even, one.
    for k, inputs, outputs, batch, h, w in [
        (1, 1, 1, 1, 3, 5),
        (1, 3, 17, 2, 5, 3),
        (1, 33, 8, 1, 3, 7),
        (1, 256, 3, 1, 2, 2),
        (3, 1, 8, 2, 5, 7),
        (3, 3, 17, 1, 6, 5),
        (3, 17, 3, 1, 1, 9),
        (3, 33, 1, 1, 4, 3),
        (3, 8, 8, 1, 7, 7),
        (3, 8, 16, 1, 7, 5),
        (3, 16, 16, 2, 5, 9),
        (3, 24, 40, 1, 6, 3),
        (3, 32, 32, 2, 5, 7),
        (3, 16, 16, 1, 1, 1),
        (3, 16, 16, 1, 2, 1),
    ]:
        x, weight, bias = rand(batch, h, w, inputs), rand(k, k, inputs, outputs), rand(outputs)
        residual = rand(batch, h, w, outputs)
        size = f"{k}x{k}.{inputs}to{outputs}.{batch}x{h}x{w}"
        case(f"conv2d.{size}", "conv2d", [x, weight, bias], conv)
        if inputs * outputs in (17 * 3, 8 * 8, 8 * 16, 16 * 16):
            case(f"conv2d.plain.{size}", "conv2d", [x, weight], conv)
            case(f"conv2d_relu.{size}", "conv2d_relu", [x, weight, bias],
                 lambda *a: conv(*a).relu(), kinks=conv)
            added = lambda x, w, b, r: conv(x, w, b) + r
            case(f"conv2d_add_relu.{size}", "conv2d_add_relu", [x, weight, bias, residual],
                 lambda *a: added(*a).relu(), kinks=added)
    x, weight, residual = rand(1, 3, 3, 3), rand(1, 1, 3, 5), rand(1, 3, 3, 5)
    case("conv2d_relu.plain", "conv2d_relu", [x, weight], lambda *a: conv(*a).relu(), kinks=conv)
    added = lambda x, w, r: conv(x, w) + r
    case("conv2d_add_relu.plain", "conv2d_add_relu", [x, weight, residual],
         lambda *a: added(*a).relu(), kinks=added, bias=False)


def normalisation():
    epsilon = 1e-5
    for groups, channels, batch, h, w, mean in [
        (1, 3, 2, 5, 3, 0), (4, 8, 3, 3, 5, 0), (17, 17, 1, 7, 2, 0), (3, 6, 1, 25, 25, 0), (2, 16, 2, 5, 5, 50),
    ]:
        x = (rand(batch, h, w, channels) + mean).float().double()
        scale, shift, residual = rand(channels), rand(channels), rand(batch, h, w, channels)
        norm = lambda x, s, t: nhwc(F.group_norm(nchw(x), groups, s, t, epsilon))
        name = f"{groups}of{channels}.{batch}x{h}x{w}"
        case(f"group_norm.{name}", "group_norm", [x, scale, shift], norm, groups=groups, epsilon=epsilon)
        if h < 25:
            case(f"group_norm_relu.{name}", "group_norm_relu", [x, scale, shift],
                 lambda *a: norm(*a).relu(), kinks=norm, groups=groups, epsilon=epsilon)
            added = lambda x, s, t, r: norm(x, s, t) + r
            case(f"group_norm_add_relu.{name}", "group_norm_add_relu", [x, scale, shift, residual],
                 lambda *a: added(*a).relu(), kinks=added, groups=groups, epsilon=epsilon)
    for batch, features in [(3, 1), (5, 17), (2, 8), (32, 33)]:
        x = rand(batch, features) * 2 + 1
        x = x.float().double()
        case(f"batch_norm.{batch}x{features}", "batch_norm", [x],
             lambda x: F.batch_norm(x, None, None, training=True, eps=epsilon), epsilon=epsilon)
        mean, variance = rand(features), rand(features, low=0.5, high=2)
        case(f"batch_norm_by.{batch}x{features}", "batch_norm_by", [x, mean, variance],
             lambda x, m, v: F.batch_norm(x, m, v, training=False, eps=epsilon), constant=(1, 2),
             epsilon=epsilon)
    for rows, features in [(1, 1), (3, 8), (5, 33)]:
        case(f"l2_normalise.{rows}x{features}", "l2_normalise", [rand(rows, features)],
             lambda x: F.normalize(x, dim=1, eps=1e-12))


def resizing():
    for h, w, height, width in [(5, 3, 9, 7), (45, 5, 23, 3), (8, 8, 4, 4), (4, 4, 8, 8), (3, 5, 1, 1),
                                (1, 1, 5, 3), (5, 7, 5, 3), (2, 3, 11, 1)]:
        for corners in ["aligned", "half_pixel"]:
            resize = lambda x: nhwc(F.interpolate(nchw(x), (height, width), mode="bilinear",
                                                  align_corners=corners == "aligned"))
            case(f"resize_bilinear.{corners}.{h}x{w}to{height}x{width}", "resize_bilinear",
                 [rand(2, h, w, 3)], resize, height=height, width=width, corners=corners)
    case("resize_bilinear.wide", "resize_bilinear", [rand(1, 3, 4, 17)],
         lambda x: nhwc(F.interpolate(nchw(x), (6, 8), mode="bilinear")),
         height=6, width=8, corners="half_pixel")


def joining():
    case("concat_channels.three", "concat_channels", [rand(2, 3, 5, c) for c in (1, 8, 3)],
         lambda *a: torch.cat(a, 3))
    case("concat_channels.one", "concat_channels", [rand(1, 2, 3, 5)], lambda *a: torch.cat(a, 3))
    indices = [3, 0, 3, 3, 1]
    case("gather_rows.matrix", "gather_rows", [rand(5, 7)], lambda x: x[indices], indices=indices)
    case("gather_rows.images", "gather_rows", [rand(4, 3, 2, 5)], lambda x: x[indices], indices=indices)
    case("reshape", "reshape", [rand(2, 3, 5, 2)], lambda x: x.reshape(6, 10), shape=[6, 10])


def products():
    for m, k, n in [(1, 1, 1), (3, 5, 17), (33, 8, 3), (45, 17, 33), (7, 256, 2)]:
        case(f"linear.{m}x{k}x{n}", "linear", [rand(m, k), rand(k, n), rand(n)], lambda x, w, b: x @ w + b)
        case(f"matmul.{m}x{k}x{n}", "matmul", [rand(m, k), rand(k, n)], lambda x, w: x @ w)
    case("transpose", "transpose", [rand(17, 5)], lambda x: x.T)
    for batch, m, k, n in [(3, 1, 17, 1), (2, 3, 45, 5)]:
        parts = lambda x: x.reshape(batch, -1, x.shape[1])
        case(f"batched_matmul.{batch}", "batched_matmul", [rand(batch * m, k), rand(batch * k, n)],
             lambda x, y: (parts(x) @ parts(y)).reshape(batch * m, n), batch=batch)
        case(f"batched_inner_products.{batch}", "batched_inner_products", [rand(batch * m, k), rand(batch * n, k)],
             lambda x, y: (parts(x) @ parts(y).transpose(1, 2)).reshape(batch * m, n), batch=batch)


def biases():
    for repeats in (1, 3):
        for channels in (1, 17, 32):
            operands = [rand(2, 3, 5, channels), rand(2 * repeats, channels)]
            add = lambda x, b: x.repeat_interleave(repeats, 0) + b[:, None, None, :]
            case(f"add_sample_bias.{repeats}.{channels}", "add_sample_bias", operands, add)
            case(f"add_sample_bias_relu.{repeats}.{channels}", "add_sample_bias_relu", operands,
                 lambda *a: add(*a).relu(), kinks=add)


def losses():
    for rows, classes in [(1, 1), (3, 5), (8, 33)]:
        logits = (rand(rows, classes) * 4).float().double()
        chosen = torch.randint(classes, (rows,))
        case(f"softmax.{rows}x{classes}", "softmax", [logits], lambda x: x.softmax(1))
        case(f"cross_entropy.{rows}x{classes}", "cross_entropy", [logits],
             lambda x: F.cross_entropy(x, chosen, reduction="none"), classes=chosen.tolist())
        targets = rand(rows, classes).softmax(1).float().double()
        case(f"cross_entropy_soft.{rows}x{classes}", "cross_entropy_soft", [logits, targets],
             lambda x, t: F.cross_entropy(x, t, reduction="none"), constant=(1,))
    for repeats in (1, 3):
        targets = rand(2, 5, 7, 1, low=0, high=1).round()
        case(f"bce_with_logits.{repeats}", "bce_with_logits", [rand(2 * repeats, 5, 7, 1) * 4, targets],
             lambda x, t: F.binary_cross_entropy_with_logits(
                 x, t.repeat_interleave(repeats, 0), reduction="none").mean((1, 2, 3)), constant=(1,))
    soft = rand(3, 45, low=0, high=1)
    case("bce_with_logits.soft", "bce_with_logits", [rand(3, 45), soft],
         lambda x, t: F.binary_cross_entropy_with_logits(x, t, reduction="none").mean(1), constant=(1,))
    case("squared_error.images", "squared_error", [rand(3, 5, 3, 2), rand(3, 5, 3, 2)],
         lambda x, y: F.mse_loss(x, y, reduction="none").mean((1, 2, 3)))
    case("squared_error.vector", "squared_error", [rand(3), rand(3)],
         lambda x, y: F.mse_loss(x, y, reduction="none"))


def reductions():
    for shape in [(1,), (3, 17), (2, 5, 7, 3)]:
        name = "x".join(map(str, shape))
        x = rand(*shape)
        case(f"sum.{name}", "sum", [x], torch.sum)
        case(f"mean.{name}", "mean", [x], torch.mean)
        case(f"sum_rows.{name}", "sum_rows", [x], lambda x: x.reshape(x.shape[0], -1).sum(1))
    case("global_average_pool", "global_average_pool", [rand(3, 5, 7, 17)], lambda x: x.mean((1, 2)))


def elementwise():
    x, y = rand(3, 5, 7), rand(3, 5, 7)
    away = rand(3, 5, 7, low=0.5, high=3)
    case("add", "add", [x, y], torch.add)
    case("sub", "sub", [x, y], torch.sub)
    case("mul", "mul", [x, y], torch.mul)
    case("div", "div", [x, away], torch.div)
    case("scale", "scale", [x], lambda x: x * -1.5, factor=-1.5)
    case("add_scalar", "add_scalar", [x], lambda x: x + 0.25, value=0.25)
    case("exp", "exp", [x], torch.exp)
    case("ln", "ln", [away], torch.log)
    case("sigmoid", "sigmoid", [(x * 5).float().double()], torch.sigmoid)
    case("relu", "relu", [x], torch.relu, kinks=lambda x: x)
    case("straight_through", "straight_through", [x, y], lambda x, y: x + (y - x).detach())
    case("stop_gradient", "stop_gradient", [x], torch.detach)


def adam():
    """Ten steps of AdamW in two groups (the second decays and is slower), the norm of all gradients clipped
    to 1.5. Gradients shrink on the way, so that clipping acts in some steps and not in others."""
    steps, rate, clip = 10, 0.05, 1.5
    groups = [rand(5, 3), rand(17)]
    for i, p in enumerate(groups):
        tensors[f"adam/{i}"] = p.clone()
        p.requires_grad_()
    optimiser = torch.optim.AdamW([
        {"params": [groups[0]], "lr": rate, "weight_decay": 0.0},
        {"params": [groups[1]], "lr": rate * 0.5, "weight_decay": 0.1},
    ], betas=(0.9, 0.999), eps=1e-8)
    norms = []
    for step in range(steps):
        for i, p in enumerate(groups):
            p.grad = (rand(*p.shape) * 0.7**step).float().double()
            tensors[f"adam/gradient{step}.{i}"] = p.grad.clone()
        norms.append(torch.nn.utils.clip_grad_norm_(groups, clip))
        optimiser.step()
        for i, p in enumerate(groups):
            tensors[f"adam/after{step}.{i}"] = p.detach().clone()
    tensors["adam/norms"] = torch.stack(norms)
    metadata["adam"] = json.dumps({"steps": steps, "rate": rate, "clip": clip, "group_rate": 0.5, "decay": 0.1})


def unet():
    """Four training steps of a small residual U-Net with a code-conditioned head: see `golden.rs`."""
    batch, h, w, codes = 2, 13, 11, 3
    shapes = {
        "in.weight": (3, 3, 3, 8), "in.bias": (8,),
        "block.weight": (3, 3, 8, 8), "block.scale": (8,), "block.shift": (8,),
        "down.weight": (3, 3, 8, 16), "down.bias": (16,),
        "deep.weight": (3, 3, 16, 16), "deep.scale": (16,), "deep.shift": (16,),
        "up.weight": (3, 3, 24, 8), "up.bias": (8,),
        "code.weight": (5, 8), "code.bias": (8,),
        "out.weight": (1, 1, 8, 1), "out.bias": (1,),
    }
    p = {}
    for name, shape in shapes.items():
        fan_in = max(1, torch.tensor(shape[:-1]).prod().item())
        value = rand(*shape) * (2 / fan_in) ** 0.5 if len(shape) > 1 else rand(*shape) * 0.1
        value = value + 1 if name.endswith("scale") else value
        p[name] = value.float().double()
        tensors[f"unet/{name}"] = p[name].clone()
        p[name].requires_grad_()
    image, code = rand(batch, h, w, 3), rand(batch * codes, 5)
    target = rand(batch, h, w, 1, low=0, high=1).round()
    tensors.update({"unet/image": image, "unet/code": code, "unet/target": target})

    def norm(x, groups, name):
        return nhwc(F.group_norm(nchw(x), groups, p[f"{name}.scale"], p[f"{name}.shift"], 1e-5))

    def resize(x, height, width):
        return nhwc(F.interpolate(nchw(x), (height, width), mode="bilinear"))

    def loss():
        a = conv(image, p["in.weight"], p["in.bias"]).relu()
        a = (norm(conv(a, p["block.weight"]), 4, "block") + a).relu()
        b = resize(a, (h + 1) // 2, (w + 1) // 2)
        b = conv(b, p["down.weight"], p["down.bias"]).relu()
        b = (norm(conv(b, p["deep.weight"]), 4, "deep") + b).relu()
        c = torch.cat([resize(b, h, w), a], 3)
        c = conv(c, p["up.weight"], p["up.bias"])
        bias = code @ p["code.weight"] + p["code.bias"]
        c = (c.repeat_interleave(codes, 0) + bias[:, None, None, :]).relu()
        logits = conv(c, p["out.weight"], p["out.bias"])
        repeated = target.repeat_interleave(codes, 0)
        return F.binary_cross_entropy_with_logits(logits, repeated, reduction="none").mean((1, 2, 3)).mean()

    optimiser, losses = torch.optim.Adam(p.values(), lr=0.01), []
    for step in range(4):
        optimiser.zero_grad()
        value = loss()
        value.backward()
        losses.append(value.detach())
        if step == 0:
            for name in p:
                tensors[f"unet/d.{name}"] = p[name].grad.clone()
        optimiser.step()
    tensors["unet/losses"] = torch.stack(losses)
    for name in p:
        tensors[f"unet/after.{name}"] = p[name].detach().clone()
    metadata["unet"] = json.dumps({"steps": 4, "rate": 0.01, "parameters": list(shapes)})


def broadcasting():
    for shape in [(3, 17), (2, 5, 7, 3), (4, 1)]:
        name = "x".join(map(str, shape))
        case(f"broadcast_rows.{name}", "broadcast_rows", [rand(shape[0])],
             lambda x: x.reshape(-1, *[1] * (len(shape) - 1)).expand(shape), shape=shape)
    case("broadcast_pixels", "broadcast_pixels", [rand(3, 17)], lambda x: x[:, None, None, :].expand(3, 5, 7, 17),
         height=5, width=7)


def write(path):
    """A safetensors file by hand: eight bytes of header length, a JSON header, the values."""
    header, body = {"__metadata__": metadata}, bytearray()
    for name, tensor in sorted(tensors.items()):
        values = tensor.detach().float().contiguous().numpy().tobytes()
        header[name] = {"dtype": "F32", "shape": list(tensor.shape),
                        "data_offsets": [len(body), len(body) + len(values)]}
        body += values
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(struct.pack("<Q", len(text)) + text + bytes(body))
    print(f"{path}: {len(metadata)} cases, {path.stat().st_size} bytes, torch {torch.__version__}")


if __name__ == "__main__":
    for make in [convolutions, normalisation, resizing, joining, products, biases, losses, reductions,
                 elementwise, adam, unet, broadcasting]:
        make()
    write(pathlib.Path(__file__).parent / "golden" / "engine.safetensors")

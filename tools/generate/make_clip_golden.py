#!/usr/bin/env python3
"""Writes tests/fixtures/clip/*.txt: small encoders for images and texts computed by open_clip in float64, for
tests/nn/golden_clip.c.

    python3 tools/generate/make_clip_golden.py [OUTPUT FOLDER] [CASE ...]

Needs torch, torchvision, numpy and open_clip. Lines and streams are those of make_resnet_golden.py, but every weight is drawn
from the stream of its name (32 bit FNV-1a), and lines are in the order of names: open_clip's order of tensors is not ours. Image
encoders have "visual." in front of their names, as in a whole model.
"""
import math
import os
import sys

import numpy as np
import torch
from open_clip.modified_resnet import ModifiedResNet
from open_clip.transformer import QuickGELU, TextTransformer, VisionTransformer

import make_resnet_golden as base

TOWER, TOKENS = 6, 7                                    # "epoch" of the streams beside those of make_resnet_golden.py
# name: arch, batch, and the fields of gf_net_spec
CASES = {
    "text_gelu": dict(arch="text", batch=5, embed_dim=24, width=32, layers=2, heads=2, context=12, vocab=50),
    "text_quick": dict(arch="text", batch=3, embed_dim=16, width=128, layers=1, heads=2, context=37, vocab=200, quick_gelu=1),
    "vit_gelu": dict(arch="vit", batch=3, size=32, embed_dim=20, width=48, layers=2, heads=3, patch=8),
    "vit_quick": dict(arch="vit", batch=2, size=32, embed_dim=16, width=64, layers=2, heads=1, patch=4, quick_gelu=1),
    "clip_resnet": dict(arch="clip_resnet50", batch=8, size=64, embed_dim=24, width=8),
}
FIELDS = ["batch", "size", "embed_dim", "width", "layers", "heads", "patch", "context", "vocab", "quick_gelu"]


def fnv(name):
    h = 0x811C9DC5
    for b in name.encode():
        h = ((h ^ b) * 0x01000193) & 0xFFFFFFFF
    return h


def make_tower(c):
    act = QuickGELU if c.get("quick_gelu") else torch.nn.GELU
    if c["arch"] == "text":
        net = TextTransformer(context_length=c["context"], vocab_size=c["vocab"], width=c["width"], heads=c["heads"],
                              layers=c["layers"], output_dim=c["embed_dim"], act_layer=act)
    elif c["arch"] == "vit":
        net = VisionTransformer(image_size=c["size"], patch_size=c["patch"], width=c["width"], layers=c["layers"],
                                heads=c["heads"], mlp_ratio=4.0, output_dim=c["embed_dim"], act_layer=act)
    else:
        net = ModifiedResNet(layers=[3, 4, 6, 3], output_dim=c["embed_dim"], heads=c["width"] // 2, image_size=c["size"],
                             width=c["width"])
    return net.double()


def initial(name, p):
    """Wide enough that no part of the net is idle; the last weight of a residual block of convolutions is small."""
    if "embedding" in name:
        lo, hi = -0.5, 0.5
    elif p.dim() > 1:
        hi = math.sqrt(3.0 / np.prod(p.shape[1:]))
        lo = -hi
    elif name.endswith("bias"):
        lo, hi = -0.5, 0.5
    elif ".layer" in name and name.endswith(".bn3.weight"):
        lo, hi = 0.1, 0.3
    else:
        lo, hi = 0.5, 1.5
    v = base.between(lo, hi, p.numel(), TOWER, 0, fnv(name))
    return torch.from_numpy(v.astype(np.float32).astype(np.float64)).reshape(p.shape)


def tokens(c):
    """Text i: random tokens, the end token vocab - 1 at place 2 + i, then zeros, as a tokenizer would pad."""
    n, length, vocab = c["batch"], c["context"], c["vocab"]
    t = (base.uniform(n * length, TOKENS) * (vocab - 1)).astype(np.int64).reshape(n, length)
    for i in range(n):
        end = 2 + 3 * i % (length - 2)
        t[i, end] = vocab - 1
        t[i, end + 1:] = 0
    return torch.from_numpy(t)


def images(c):
    size, batch = c["size"], c["batch"]
    fine = base.between(-0.5, 0.5, batch * size * size * 3, base.IMAGES).reshape(batch, size, size, 3)
    coarse = base.between(-2.0, 2.0, batch * 4 * 4 * 3, base.COARSE).reshape(batch, 4, 4, 3)
    x = (fine + coarse.repeat(size // 4, axis=1).repeat(size // 4, axis=2)).astype(np.float32).astype(np.float64)
    return torch.from_numpy(x.transpose(0, 3, 1, 2).copy())


# ----- away from the kink of ReLU: a batch norm's ReLU is act1, act2, act3 of its block -----

def nudge(net, x, prefix):
    nudged = []

    def hook_for(name, norm):
        def before(module, inputs):
            v = inputs[0].clone()
            rows = v.transpose(0, 1).reshape(v.shape[1], -1)
            for c in torch.nonzero(rows.abs().min(1).values < base.MARGIN).reshape(-1).tolist():
                v[:, c] += base.nudge_channel(rows[c], norm.bias.data, c)
                nudged.append(f"nudge {prefix}{name}.bias {c} {norm.bias.data[c].item():.9g}\n")
            return (v,)
        return before

    hooks = []
    for name, module in net.named_modules():
        if isinstance(module, torch.nn.ReLU):
            norm = name.replace("act", "bn")
            hooks.append(module.register_forward_pre_hook(hook_for(norm, net.get_submodule(norm))))
    with torch.no_grad():
        net.train()(x)
    for h in hooks:
        h.remove()
    for m in net.modules():
        if isinstance(m, torch.nn.modules.batchnorm._BatchNorm):
            m.reset_running_stats()
    return nudged


def run(case):
    c = CASES[case]
    net = make_tower(c)
    prefix = "" if c["arch"] == "text" else "visual."
    header = " ".join(str(c.get(f, 0)) for f in FIELDS)
    lines = [f"encoder {c['arch']} {header} {base.SEED}\n"]
    params = sorted((prefix + name, p) for name, p in net.named_parameters())
    with torch.no_grad():
        for name, p in params:
            p.copy_(initial(name, p))
    x = tokens(c) if c["arch"] == "text" else images(c)
    lines += nudge(net, x, prefix)
    lines += [base.line("weight:" + name, p) for name, p in params]
    z = net.train()(x)
    count = z.numel()
    w = torch.from_numpy(base.normal(count, base.LOSS).astype(np.float32).astype(np.float64)).reshape(z.shape)
    loss = (w * z).sum()
    loss.backward()
    lines += [base.line("projection", z), base.line("loss", loss)]
    lines += [base.line("grad:" + name, p.grad) for name, p in params]
    buffers = sorted((prefix + name, b) for name, b in net.named_buffers())
    lines += [base.line("buffer:" + name, b) for name, b in buffers if name.endswith(("running_mean", "running_var"))]
    return lines + [base.line("eval:projection", net.eval()(x))]


def main():
    here = os.path.dirname(os.path.abspath(__file__))
    folder = sys.argv[1] if len(sys.argv) > 1 else os.path.join(here, "..", "..", "tests", "fixtures", "clip")
    os.makedirs(folder, exist_ok=True)
    for case in sys.argv[2:] or CASES:
        path = os.path.join(folder, case + ".txt")
        with open(path, "w", encoding="ascii") as f:
            f.writelines(run(case))
        print(path)


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Writes tests/fixtures/resnet/*.txt: whole nets computed by PyTorch in float64, for tests/nn/golden_resnet.c.

    python3 tools/generate/make_resnet_golden.py [OUTPUT FOLDER] [CASE ...]

Needs torch, torchvision and numpy. Nothing random comes from torch: initial weights, the perturbed batch norms, the images, the
loss and the directions of the projections are all drawn from keyed Philox streams, as lib/util/rng.c and train/nn/init.c draw them,
so that both sides start from the same numbers. One line per tensor:

    name shape norm sum p0 p1 p2 p3

norm is Euclidean, p0..p3 are dot products with vectors of random signs. Lines, in order: the nudges (below), the weights, the
features and the projection of a forward in training mode, the loss (dot product of the projection with a fixed random array), the
gradient of every parameter, the running statistics after that forward, then features and projection in eval mode.

A number that arrives at a ReLU within rounding error of 0 may pass in float64 and not in float32; then whole gradients differ by
up to a percent, and no tolerance is right. So biases of batch norms are nudged until no number comes closer than MARGIN to 0:
"nudge NAME INDEX VALUE" lists what the C side must copy.
"""
import os
import sys

import numpy as np
import torch
import torchvision
from torchvision.models.resnet import BasicBlock

SIZE, SEED = 32, 20260801
MARGIN = 1e-4
INIT = 3                                                # GF_RNG_INIT
NORMS, IMAGES, COARSE, LOSS, SIGNS = 1, 2, 3, 4, 5      # "epoch" of the streams; 0 is the initial weights
# name: (arch, cifar stem, hidden, out, batch). With the ImageNet stem 32 px end as one position, and batch norms over few numbers
# magnify rounding errors beyond use, so there are more images.
CASES = {
    "resnet8_cifar": ("resnet8", 1, 48, 32, 8),
    "resnet8_imagenet": ("resnet8", 0, 48, 32, 16),
    "resnet18_cifar": ("resnet18", 1, 2048, 128, 8),
    "resnet18_imagenet": ("resnet18", 0, 128, 128, 16),
    "resnet34_cifar": ("resnet34", 1, 128, 64, 8),
    "resnet34_imagenet": ("resnet34", 0, 128, 64, 16),
    "resnet50_cifar": ("resnet50", 1, 128, 128, 8),
    "resnet50_imagenet": ("resnet50", 0, 2048, 128, 16),
}
MASK = (1 << 64) - 1


# ----- lib/util/rng.c -----

def philox(counter, key):
    """counter: four uint32 arrays or scalars, key: 64 bits; gives the array [blocks, 4]."""
    c = [np.asarray(x, dtype=np.uint64) for x in np.broadcast_arrays(*counter)]
    k0, k1 = key & 0xFFFFFFFF, key >> 32
    low = np.uint64(0xFFFFFFFF)
    for _ in range(10):
        p0, p1 = np.uint64(0xD2511F53) * c[0], np.uint64(0xCD9E8D57) * c[2]
        shift = np.uint64(32)
        c = [(p1 >> shift) ^ c[1] ^ np.uint64(k0), p1 & low, (p0 >> shift) ^ c[3] ^ np.uint64(k1), p0 & low]
        k0, k1 = (k0 + 0x9E3779B9) & 0xFFFFFFFF, (k1 + 0xBB67AE85) & 0xFFFFFFFF
    return np.stack(c, axis=-1)


def stream_u32(count, epoch, sample, lane):
    x = (SEED + INIT * 0x9E3779B97F4A7C15) & MASK
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & MASK
    key = x ^ (x >> 31)
    blocks = np.arange((count + 3) // 4, dtype=np.uint64)
    return philox([np.uint64(sample), np.uint64(epoch), np.uint64(lane), blocks], key).reshape(-1)[:count]


def uniform(count, epoch, sample=0, lane=0):
    u = stream_u32(2 * count, epoch, sample, lane).reshape(count, 2)
    return ((u[:, 0] << np.uint64(32) | u[:, 1]) >> np.uint64(11)).astype(np.float64) * 2.0 ** -53


def normal(count, epoch, sample=0, lane=0):
    u = uniform(2 * count, epoch, sample, lane).reshape(count, 2)
    return np.sqrt(-2 * np.log(1 - u[:, 0])) * np.cos(6.283185307179586476925 * u[:, 1])


def between(lo, hi, *args):
    return lo + (hi - lo) * uniform(*args)


# ----- the nets -----

class ResNet8(torch.nn.Module):
    def __init__(self, cifar):
        super().__init__()
        self.conv1 = torch.nn.Conv2d(3, 16, 3, 1, 1, bias=False) if cifar else torch.nn.Conv2d(3, 16, 7, 2, 3, bias=False)
        self.bn1 = torch.nn.BatchNorm2d(16)
        self.relu = torch.nn.ReLU()
        self.maxpool = torch.nn.Identity() if cifar else torch.nn.MaxPool2d(3, 2, 1)
        self.layer1 = torch.nn.Sequential(BasicBlock(16, 16))
        self.layer2 = torch.nn.Sequential(BasicBlock(16, 32, 2, self.shortcut(16, 32)))
        self.layer3 = torch.nn.Sequential(BasicBlock(32, 64, 2, self.shortcut(32, 64)))

    @staticmethod
    def shortcut(wide_in, wide_out):
        return torch.nn.Sequential(torch.nn.Conv2d(wide_in, wide_out, 1, 2, bias=False), torch.nn.BatchNorm2d(wide_out))

    def forward(self, x):
        x = self.maxpool(self.relu(self.bn1(self.conv1(x))))
        return self.layer3(self.layer2(self.layer1(x))).mean((2, 3))


def make_net(arch, cifar, hidden, out):
    if arch == "resnet8":
        net, features = ResNet8(cifar), 64
    else:
        net = getattr(torchvision.models, arch)()
        features = net.fc.in_features
        net.fc = torch.nn.Identity()
        if cifar:
            net.conv1 = torch.nn.Conv2d(3, 64, 3, 1, 1, bias=False)
            net.maxpool = torch.nn.Identity()
    net.head = torch.nn.Sequential(
        torch.nn.Linear(features, hidden, bias=False), torch.nn.BatchNorm1d(hidden), torch.nn.ReLU(),
        torch.nn.Linear(hidden, out, bias=False), torch.nn.BatchNorm1d(out, affine=False))
    return net.double()


def closes_block(arch, name):
    return name.startswith("layer") and name.endswith(".bn3.weight" if arch == "resnet50" else ".bn2.weight")


def initial(arch, t, name, p):
    """train/nn/init.c for parameter t, then the batch norms moved away from 1 and 0. The last weight of a block is small, as after
    zero_init: else a deep untrained net multiplies rounding errors until float32 and float64 have nothing in common."""
    n = p.numel()
    if p.dim() == 4:
        v = np.sqrt(2.0 / (p.shape[0] * p.shape[2] * p.shape[3])) * normal(n, 0, 0, t)
    elif p.dim() == 2:
        v = between(-1 / np.sqrt(p.shape[1]), 1 / np.sqrt(p.shape[1]), n, 0, 0, t)
    elif name.endswith(".bias"):
        v = between(-0.5, 0.5, n, NORMS, 0, t)
    elif closes_block(arch, name):
        v = between(0.1, 0.3, n, NORMS, 0, t)
    else:
        v = between(0.5, 1.5, n, NORMS, 0, t)
    return torch.from_numpy(v.astype(np.float32).astype(np.float64)).reshape(p.shape)


def images(batch):
    """Coarse patterns of 8 px squares, so that images differ, plus noise; NHWC as the C side, then NCHW for torch."""
    fine = between(-0.5, 0.5, batch * SIZE * SIZE * 3, IMAGES).reshape(batch, SIZE, SIZE, 3)
    coarse = between(-2.0, 2.0, batch * 4 * 4 * 3, COARSE).reshape(batch, 4, 4, 3)
    x = (fine + coarse.repeat(8, axis=1).repeat(8, axis=2)).astype(np.float32).astype(np.float64)
    return torch.from_numpy(x.transpose(0, 3, 1, 2).copy())


# ----- away from the kink of ReLU -----

def norms_before_relus(net):
    """For every ReLU module the batch norms whose outputs it sees, in the order of calls."""
    found = {}
    for name, module in list(net.named_modules()):
        if isinstance(module, torch.nn.ReLU):
            prefix = name.rpartition(".")[0]
            parts = ["1"] if prefix == "head" else ["bn1"] if prefix == "" else ["bn1", "bn2", "bn3"]
            names = [prefix + "." + p if prefix else p for p in parts]
            found[module] = [(n, net.get_submodule(n)) for n in names if n in dict(net.named_modules())]
    return found


def nudge_channel(values, bias, c):
    """Moves bias[c] in steps of 0.01 until no value of channel c is within MARGIN of 0."""
    old = bias[c].item()
    for step in range(1, 200):
        new = float(np.float32(old + 0.01 * ((step + 1) // 2) * (1 if step % 2 else -1)))
        if (values + (new - old)).abs().min() >= MARGIN:
            bias[c] = new
            return new - old
    raise RuntimeError("no place for a bias")


def nudge(net, x):
    nudged, calls = [], {}

    def before(module, inputs):
        v = inputs[0].clone()
        name, norm = norms[module][calls.setdefault(module, 0) % len(norms[module])]
        calls[module] += 1
        rows = v.transpose(0, 1).reshape(v.shape[1], -1)
        for c in torch.nonzero(rows.abs().min(1).values < MARGIN).reshape(-1).tolist():
            v[:, c] += nudge_channel(rows[c], norm.bias.data, c)
            nudged.append(f"nudge {name}.bias {c} {norm.bias.data[c].item():.9g}\n")
        return (v,)

    norms = norms_before_relus(net)
    hooks = [m.register_forward_pre_hook(before) for m in norms]
    with torch.no_grad():
        forward(net.train(), x)
    for h in hooks:
        h.remove()
    for m in net.modules():
        if isinstance(m, torch.nn.modules.batchnorm._BatchNorm):
            m.reset_running_stats()
    return nudged


# ----- the lines -----

def sign_vector(count, k):
    words = stream_u32((count + 31) // 32, SIGNS, k, 0)
    bits = (words[:, None] >> np.arange(32, dtype=np.uint64)) & np.uint64(1)
    return 1.0 - 2.0 * bits.reshape(-1)[:count].astype(np.float64)


def line(name, tensor):
    x = tensor.detach().numpy().astype(np.float64).reshape(-1)
    numbers = [np.sqrt(np.sum(x * x)), np.sum(x)] + [np.dot(x, sign_vector(x.size, k)) for k in range(4)]
    shape = "x".join(str(s) for s in tensor.shape) or "1"
    return f"{name} {shape} " + " ".join(f"{v:.12g}" for v in numbers) + "\n"


def forward(net, x):
    kept = []
    hook = net.head[0].register_forward_pre_hook(lambda module, inputs: kept.append(inputs[0]))
    z = net.head(torch.flatten(net(x), 1))
    hook.remove()
    return kept[0], z




def run(case):
    arch, cifar, hidden, out, batch = CASES[case]
    net = make_net(arch, cifar, hidden, out)
    lines = [f"case {arch} {cifar} {batch} {SIZE} {hidden} {out} {SEED}\n"]
    with torch.no_grad():
        for t, (name, p) in enumerate(net.named_parameters()):
            p.copy_(initial(arch, t, name, p))
    x = images(batch)
    lines += nudge(net, x)
    lines += [line("weight:" + name, p) for name, p in net.named_parameters()]
    net.train()
    features, z = forward(net, x)
    w = torch.from_numpy(normal(batch * out, LOSS).astype(np.float32).astype(np.float64)).reshape(batch, out)
    loss = (w * z).sum()
    loss.backward()
    lines += [line("features", features), line("projection", z), line("loss", loss)]
    lines += [line("grad:" + name, p.grad) for name, p in net.named_parameters()]
    lines += [line("buffer:" + name, b) for name, b in net.named_buffers() if b.dtype == torch.float64]
    net.eval()
    features, z = forward(net, x)
    return lines + [line("eval:features", features), line("eval:projection", z)]


def main():
    here = os.path.dirname(os.path.abspath(__file__))
    folder = sys.argv[1] if len(sys.argv) > 1 else os.path.join(here, "..", "..", "tests", "fixtures", "resnet")
    for case in sys.argv[2:] or CASES:
        path = os.path.join(folder, case + ".txt")
        with open(path, "w", encoding="ascii") as f:
            f.writelines(run(case))
        print(path)


if __name__ == "__main__":
    main()

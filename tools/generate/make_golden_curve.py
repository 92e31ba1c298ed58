#!/usr/bin/env python3
"""Writes tests/fixtures/curve/*.txt: twelve training steps computed by PyTorch in float64, for tests/train/golden_curve.c.

    python3 tools/generate/make_golden_curve.py [OUTPUT FOLDER] [CASE ...]

Needs torch, torchvision and numpy. Weights and images are drawn from keyed Philox streams, as the C side draws them (see
make_resnet_golden.py). The losses, the learner of the thresholds and the optimizers are written down here from docs/method.md,
not taken from the C code; gradients are autograd's.

The objective has kinks: ReLU at 0, and a threshold where it meets a similarity. A number within rounding error of a kink may
pass on one machine and not on another, and from then on two correct trainings drift apart. So the data stays away from them:
images and batches are small, and seeds are tried until no input of a ReLU in any step is closer to 0 than RELU_MARGIN of its
channel's deviation, and no similarity closer than SIM_MARGIN to a threshold (about a thousand seeds). Weights start as a run's do
with zero_init = 0: a scale of 0 puts half of a channel on the kink. Lines:

    case ARCH STEM SIZE HIDDEN OUT SEED      set KEY VALUE ...      what the C side is to be configured with
    step K LR LOSS KEPT                      objective and share of kept negatives at step K
    moved:NAME SHAPE norm sum p0 p1 p2 p3    final minus initial parameter; buffer:NAME the same of running statistics
    anchor ID CLOCK LAMBDA LOG_U             state of an anchor at the end

Comments give the distances to the kinks, and how far the same twelve steps in PyTorch's float32 end from these numbers.
"""
import math
import os
import sys

import numpy as np
import torch

import make_resnet_golden as streams
from make_resnet_golden import between, line, make_net, normal

N, BATCH, EPOCHS, WARMUP, UPDATE, MASK = 32, 8, 3, 1, 0, 1
CLASSES = 8
FIRST_SEED = streams.SEED
CLASS, SAMPLE, VIEW = 6, 7, 16                  # "epoch" of the streams; views of epoch e come from VIEW + e
RELU_MARGIN, SIM_MARGIN = 1e-5, 2e-5            # float32 errs by 2e-6 and 1e-6
TAU, GAMMA, ALPHA = 0.1, 0.9, 0.1
MOMENTUM, TRUST = 0.9, 0.001
BETA1, BETA2, EPS = 0.9, 0.98, 1e-8             # of the thresholds' Adam

# name: arch, size, head, then the keys of the configuration that differ from a run's defaults
CASES = {
    "resnet8_sogclr_lars": ("resnet8", 8, 64, 32, dict(
        loss="sogclr", optimizer="lars", lr=0.3, weight_decay=0.01, learner="adam", lambda_lr=0.05)),
    "resnet8_sogclr_sgd": ("resnet8", 8, 64, 32, dict(
        loss="sogclr", optimizer="sgd", lr=0.005, weight_decay=0.05, detector="none")),
    "resnet8_simclr_adamw": ("resnet8", 8, 64, 32, dict(
        loss="simclr", optimizer="adamw", lr=0.0006, weight_decay=0.1, learner="adam", lambda_lr=0.05)),
}


class Unsuitable(Exception):
    """This seed meets a kink, or flags all negatives of an anchor."""


def first_suitable(run):
    streams.SEED = FIRST_SEED
    while True:
        try:
            return run()
        except Unsuitable:
            streams.SEED += 1


# ----- data: the same on both sides -----

def coarse(stream, sample):
    return between(-1.0, 1.0, 4 * 4 * 3, stream, sample).reshape(4, 4, 3)


def view(size, epoch, sample, v):
    """A pattern of the class, one of the sample, noise of the view; HWC."""
    pattern = 1.2 * coarse(CLASS, sample % CLASSES) + 0.8 * coarse(SAMPLE, sample)
    noise = between(-0.75, 0.75, size * size * 3, VIEW + epoch, sample, v).reshape(size, size, 3)
    return (noise + pattern.repeat(size // 4, axis=0).repeat(size // 4, axis=1)).astype(np.float32)


def batch_ids(epoch, step):
    return [(7 * (step * BATCH + j) + 3 * epoch) % N for j in range(BATCH)]


def batch_images(size, epoch, ids):
    x = np.stack([view(size, epoch, i, v) for v in (0, 1) for i in ids])
    return torch.from_numpy(x.transpose(0, 3, 1, 2).astype(np.float64).copy())


# ----- the method -----

class Anchors:
    def __init__(self):
        self.lam, self.m, self.v = np.ones(N), np.zeros(N), np.zeros(N)
        self.clock, self.log_u = np.zeros(N, dtype=np.int64), np.full(N, -np.inf)


def quantile(row):
    place = (1 - ALPHA) * (row.size - 1)
    low = int(math.floor(place))
    s = np.sort(row)
    return s[low] + (place - low) * (s[low + 1] - s[low])


def move(a, i, rows, keys):
    """One visit of anchor i, with its two rows of similarities to negatives."""
    if a.clock[i] == 0:                         # lambda_init = quantile
        a.lam[i] = min(1.0, max(-1.0, np.mean([quantile(r) for r in rows])))
        a.clock[i] = 1
        return
    g = ALPHA - np.mean([np.mean(r > a.lam[i]) for r in rows])
    if keys["learner"] == "sgd":
        a.lam[i] -= keys["lambda_lr"] * g
    else:
        a.m[i] = BETA1 * a.m[i] + (1 - BETA1) * g
        a.v[i] = BETA2 * a.v[i] + (1 - BETA2) * g * g
        t = a.clock[i]                          # visits but the first, which was no step of Adam
        a.lam[i] -= keys["lambda_lr"] * (a.m[i] / (1 - BETA1 ** t)) / (math.sqrt(a.v[i] / (1 - BETA2 ** t)) + EPS)
    a.lam[i] = min(1.0, max(-1.0, a.lam[i]))
    a.clock[i] += 1


def contrast(a, z, ids, epoch, keys):
    """z [2 BATCH][dim], first view then second: the number to differentiate, the objective, share kept, least distance."""
    z = torch.nn.functional.normalize(z, dim=1, eps=1e-12)
    s = z @ z.T
    sim = s.detach().double().numpy()
    sample = np.array(ids * 2)
    negative = sample[:, None] != sample[None, :]
    rows = range(2 * BATCH)
    near = np.inf
    finds = keys.get("detector") != "none"
    if finds and epoch >= UPDATE:
        for j, i in enumerate(ids):
            pair = [sim[r][negative[r]] for r in (j, j + BATCH)]
            before = a.lam[i]
            started = a.clock[i] > 0
            move(a, i, pair, keys)
            near = min([near] + [np.abs(p - t).min() for p in pair for t in ([before] if started else []) + [a.lam[i]]])
    keep = negative.copy()
    if finds and epoch >= MASK:
        keep &= sim <= a.lam[sample][:, None]
    if not keep.any(axis=1).all():
        raise Unsuitable
    c = keep.sum(axis=1)
    kept = torch.from_numpy(keep)
    positive = s[range(2 * BATCH), [(r + BATCH) % (2 * BATCH) for r in rows]]
    lse = torch.logsumexp(torch.where(kept, s / TAU, torch.full_like(s, -math.inf)), dim=1)
    if keys["loss"] == "simclr":
        scale = torch.from_numpy(np.log(2.0 * (BATCH - 1) / c)).to(s.dtype)
        loss = (torch.logaddexp(scale + lse, positive / TAU) - positive / TAU).sum() / BATCH
        return loss, loss.item(), c.mean() / (2 * BATCH - 2), near
    log_g = lse.detach().double().numpy() - np.log(c)
    old = a.log_u[sample]
    log_u = np.where(np.isinf(old), log_g, np.logaddexp(math.log(1 - GAMMA) + old, math.log(GAMMA) + log_g))
    weight = torch.from_numpy(np.exp(-np.log(BATCH) - np.log(c) - log_u)).to(s.dtype)
    pull = torch.where(kept, torch.exp(s.detach() / TAU) * weight[:, None], torch.zeros_like(s))
    surrogate = (pull * s).sum() - positive.sum() / BATCH
    value = (-positive.detach().double().numpy() + TAU * (np.log(c) + log_u)).sum() / BATCH
    for j, i in enumerate(ids):
        a.log_u[i] = np.logaddexp(log_u[j], log_u[j + BATCH]) - math.log(2.0)
    return surrogate, value, c.mean() / (2 * BATCH - 2), near


# ----- the optimizers -----

def rate(keys, epoch):
    if epoch < WARMUP:
        return keys["lr"] * epoch / WARMUP
    return keys["lr"] / 2 * (1 + math.cos(math.pi * (epoch - WARMUP) / (EPOCHS - WARMUP)))


def decays(name, p):
    return p.dim() > 1 and not any(part in name for part in ("bn", "ln", "bias"))


def optimize(net, state, keys, lr, t):
    for name, p in net.named_parameters():
        wd = keys["weight_decay"] if decays(name, p) else 0.0
        mu, nu = state.setdefault(name, (torch.zeros_like(p), torch.zeros_like(p)))
        if keys["optimizer"] == "adamw":
            p.mul_(1 - lr * wd)
            mu.mul_(0.9).add_(p.grad, alpha=0.1)
            nu.mul_(0.999).addcmul_(p.grad, p.grad, value=0.001)
            p.sub_(lr * (mu / (1 - 0.9 ** t)) / ((nu / (1 - 0.999 ** t)).sqrt() + 1e-8))
            continue
        g = p.grad + wd * p
        if keys["optimizer"] == "lars" and p.dim() > 1 and p.norm() > 0 and g.norm() > 0:
            g = g * (TRUST * p.norm() / g.norm())
        mu.mul_(MOMENTUM).add_(g)
        p.sub_(lr * mu)


# ----- training -----

def initial(t, name, p):
    """train/nn/init.c for parameter t, zero_init off."""
    n = p.numel()
    if p.dim() == 4:
        v = np.sqrt(2.0 / (p.shape[0] * p.shape[2] * p.shape[3])) * normal(n, 0, 0, t)
    elif p.dim() == 2:
        v = between(-1 / np.sqrt(p.shape[1]), 1 / np.sqrt(p.shape[1]), n, 0, 0, t)
    else:
        v = np.zeros(n) if name.endswith(".bias") else np.ones(n)
    return torch.from_numpy(v.astype(np.float32).astype(np.float64)).reshape(p.shape)


class Kinks:
    """Least |input| of any ReLU, in deviations of its channel."""
    def __init__(self, net):
        self.least = np.inf
        for module in net.modules():
            if isinstance(module, torch.nn.ReLU):
                module.register_forward_pre_hook(self.see)

    def see(self, _, inputs):
        x = inputs[0].detach().transpose(0, 1).flatten(1)
        self.least = min(self.least, (x.abs().amin(1) / x.std(1)).min().item())


def train(case, dtype):
    arch, size, hidden, out, keys = CASES[case]
    net = make_net(arch, 1, hidden, out)
    with torch.no_grad():
        for t, (name, p) in enumerate(net.named_parameters()):
            p.copy_(initial(t, name, p))
    net = net.to(dtype).train()
    start = {name: p.detach().clone() for name, p in net.named_parameters()}
    a, state, steps, near, kinks = Anchors(), {}, [], np.inf, Kinks(net)
    for step in range(EPOCHS * N // BATCH):
        epoch, k = step // (N // BATCH), step % (N // BATCH)
        ids = batch_ids(epoch, k)
        z = net.head(torch.flatten(net(batch_images(size, epoch, ids).to(dtype)), 1))
        number, value, kept, distance = contrast(a, z, ids, epoch, keys)
        net.zero_grad()
        number.backward()
        lr = rate(keys, step / (N // BATCH))
        with torch.no_grad():
            optimize(net, state, keys, lr, step + 1)
        steps.append((lr, value, kept))
        near = min(near, distance)
        if dtype == torch.float64 and (kinks.least < RELU_MARGIN or near < SIM_MARGIN):
            raise Unsuitable
    moved = {name: (p.detach() - start[name]).double() for name, p in net.named_parameters()}
    buffers = {name: b.double() for name, b in net.named_buffers() if b.is_floating_point()}
    return steps, moved, buffers, a, near, kinks.least


def deviation(exact, single):
    """Largest relative difference: losses, moves, anchors' lambda and log u."""
    top = max(abs(s[1]) for s in exact[0])
    losses = max(abs(x[1] - y[1]) for x, y in zip(exact[0], single[0])) / top
    moves = {k: ((exact[1][k] - single[1][k]).norm() / exact[1][k].norm()).item() for k in exact[1]}
    worst = max(moves, key=moves.get)
    lam = np.abs(exact[3].lam - single[3].lam).max()
    return f"losses {losses:.1e} of the largest, moves {moves[worst]:.1e} of their norms ({worst}), lambda {lam:.1e}"


def run(case):
    arch, size, hidden, out, keys = CASES[case]
    exact = first_suitable(lambda: train(case, torch.float64))
    steps, moved, buffers, a, near, kink = exact
    lines = [f"case {arch} 1 {size} {hidden} {out} {streams.SEED}\n"]
    settings = dict(keys, data=f"shapes:n={N},classes={CLASSES},size={size}", zero_init=0, lr_scaling="none", batch=BATCH,
                    epochs=EPOCHS, warmup_epochs=WARMUP, update_epoch=UPDATE, mask_epoch=MASK, tau=TAU, gamma=GAMMA,
                    alpha=ALPHA, lambda_init="quantile", momentum=MOMENTUM, lambda_beta1=BETA1, lambda_beta2=BETA2)
    lines += [f"set {key} {value}\n" for key, value in settings.items()]
    lines += [f"# PyTorch's float32: {deviation(exact, train(case, torch.float32))}\n",
              f"# least distance of a similarity to a threshold: {near:.1e}; of a ReLU's input to 0: {kink:.1e} deviations\n"]
    lines += [f"step {k} {lr:.12g} {value:.12g} {kept:.12g}\n" for k, (lr, value, kept) in enumerate(steps)]
    lines += [line("moved:" + name, x) for name, x in moved.items()]
    lines += [line("buffer:" + name, x) for name, x in buffers.items()]
    log_u = np.where(np.isinf(a.log_u), 0.0, a.log_u)       # simclr has none
    return lines + [f"anchor {i} {a.clock[i]} {a.lam[i]:.12g} {log_u[i]:.12g}\n" for i in range(N)]


def main():
    here = os.path.dirname(os.path.abspath(__file__))
    folder = sys.argv[1] if len(sys.argv) > 1 else os.path.join(here, "..", "..", "tests", "fixtures", "curve")
    for case in sys.argv[2:] or CASES:
        path = os.path.join(folder, case + ".txt")
        lines = run(case)
        with open(path, "w", encoding="ascii") as f:
            f.writelines(lines)
        print(path, "".join(x for x in lines if x.startswith("#")), sep="\n")


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""The step of build/bench/loss in PyTorch, eager, on the CPU: what one would write without this library.

    bench_torch.py [--sizes 128,1024] [--dim 128] [--threads N] [--detectors none,glofnd,fnc] [--quick]

Prints one JSON object per row. Needs torch >= 1.13. Exit status: 0, 1 failed, 2 usage, 3 this Python has no torch.
"""
import argparse
import json
import math
import statistics
import sys
import time

try:
    import torch
    import torch.nn.functional as F
except ImportError:
    print(f"bench_torch.py: no torch in {sys.executable}", file=sys.stderr)
    sys.exit(3)

DETECTORS = ("none", "glofnd", "single", "fnc", "oracle")


class SogCLR(torch.nn.Module):
    """Global contrastive loss of two views, with false negatives left out.

    State per anchor: u, and for the learned thresholds lambda with its Adam moments and its number of visits.
    """

    def __init__(self, anchors, detector, alpha=0.01, tau=0.1, gamma=0.9, lr=0.05, betas=(0.9, 0.98), eps=1e-8):
        super().__init__()
        self.detector, self.alpha, self.tau, self.gamma = detector, alpha, tau, gamma
        self.lr, self.betas, self.eps = lr, betas, eps
        thresholds = 1 if detector == "single" else anchors
        self.register_buffer("u", torch.zeros(anchors))
        self.register_buffer("threshold", torch.ones(thresholds))
        self.register_buffer("m", torch.zeros(thresholds))
        self.register_buffer("v", torch.zeros(thresholds))
        self.register_buffer("visits", torch.zeros(thresholds))

    def forward(self, h1, h2, ids, labels):
        z1, z2 = F.normalize(h1, dim=1), F.normalize(h2, dim=1)
        s1 = torch.cat([z1 @ z2.T, z1 @ z1.T], dim=1)
        s2 = torch.cat([z2 @ z1.T, z2 @ z2.T], dim=1)
        with torch.no_grad():
            eye = torch.eye(len(ids), dtype=torch.bool, device=ids.device)
            negative = ~torch.cat([eye, eye], dim=1)
            keep1, keep2 = self.kept(s1, s2, negative, ids, labels)
            w1, w2 = self.weights(s1, s2, keep1, keep2, ids)
        positive = (z1 * z2).sum(dim=1)
        return (-2 * positive + (w1 * s1).sum(dim=1) + (w2 * s2).sum(dim=1)).mean()

    def kept(self, s1, s2, negative, ids, labels):
        """Which pairs stay in the denominator."""
        if self.detector in ("glofnd", "single"):
            threshold = self.moved_threshold(s1, s2, negative, ids)[:, None]
            return (s1 <= threshold) & negative, (s2 <= threshold) & negative
        if self.detector == "fnc":
            return tuple((s <= self.quantile(s, negative)) & negative for s in (s1, s2))
        if self.detector == "oracle":
            differ = labels[:, None] != labels[None, :]
            keep = torch.cat([differ, differ], dim=1) & negative
            return keep, keep
        return negative, negative

    def quantile(self, s, negative):
        """The (1 - alpha) quantile of each row's negatives, interpolated; by topk, which is faster than a sort."""
        n = s.shape[1] - 2
        place = (1 - self.alpha) * (n - 1)
        best = n - math.floor(place)
        top = s.masked_fill(~negative, -2).topk(best, dim=1).values[:, -2:]
        return torch.lerp(top[:, -1:], top[:, :1], place - math.floor(place))

    def moved_threshold(self, s1, s2, negative, ids):
        """One Adam step of the anchors' thresholds: the share above should be alpha."""
        at = torch.zeros_like(ids) if self.detector == "single" else ids
        threshold = self.threshold[at]
        above = ((s1 > threshold[:, None]) & negative).sum(dim=1) + ((s2 > threshold[:, None]) & negative).sum(dim=1)
        g = self.alpha - above / (2 * (s1.shape[1] - 2))
        if self.detector == "single":
            at, g = at[:1], g.mean()[None]
        b1, b2 = self.betas
        visits = self.visits[at] + 1
        m, v = b1 * self.m[at] + (1 - b1) * g, b2 * self.v[at] + (1 - b2) * g * g
        step = (m / (1 - b1**visits)) / ((v / (1 - b2**visits)).sqrt() + self.eps)
        moved = (self.threshold[at] - self.lr * step).clamp(-1, 1)
        self.threshold[at], self.m[at], self.v[at], self.visits[at] = moved, m, v, visits
        return moved.expand(len(ids))

    def weights(self, s1, s2, keep1, keep2, ids):
        """exp(s / tau) / (c u), a constant for the gradient; u moves on."""
        old, views = self.u[ids], []
        for s, keep in ((s1, keep1), (s2, keep2)):
            e, count = torch.exp(s / self.tau) * keep, keep.sum(dim=1)
            mean = e.sum(dim=1) / count
            u = torch.where(old == 0, mean, (1 - self.gamma) * old + self.gamma * mean)
            views.append((u, e / (u * count)[:, None]))
        self.u[ids] = (views[0][0] + views[1][0]) / 2
        return views[0][1], views[1][1]


def clustered(batch, dim, clusters=100):
    """Two noisy views of samples in clusters, as bench/support/sample.c makes them."""
    rng = torch.Generator().manual_seed(1)
    centre = torch.randn(clusters, dim, generator=rng)
    labels = torch.randint(clusters, (batch,), generator=rng)
    x = 0.5 * centre[labels] + torch.randn(batch, dim, generator=rng)
    views = [(x + 0.5 * torch.randn(batch, dim, generator=rng)).requires_grad_() for _ in range(2)]
    return views[0], views[1], labels


def blas():
    """Which library multiplies: a Debian without libopenblas0 has only the reference one, which is several times slower."""
    try:
        with open("/proc/self/maps", encoding="utf-8") as maps:
            files = {line.split()[-1] for line in maps}
    except OSError:
        return "unknown"
    names = sorted("/".join(f.split("/")[-2:]) for f in files if "blas" in f or "mkl" in f)
    return names[0] if names else "built in"


def step_ms(loss, h1, h2, ids, labels):
    h1.grad = h2.grad = None
    start = time.perf_counter()
    value = loss(h1, h2, ids, labels)
    value.backward()
    ms = 1e3 * (time.perf_counter() - start)
    if not (math.isfinite(value.item()) and torch.isfinite(h1.grad).all() and torch.isfinite(h2.grad).all()):
        raise ArithmeticError(f"B = {len(ids)}, {loss.detector}: loss or gradient is not finite")
    return ms, value.item()


def measure(batch, dim, detector, quick):
    h1, h2, labels = clustered(batch, dim)
    ids = torch.arange(batch)
    loss = SogCLR(batch, detector)
    loss.threshold.fill_(0.3)  # about where it will be; the time does not depend on it
    if batch < 4096:
        step_ms(loss, h1, h2, ids, labels)
    times, start = [], time.perf_counter()
    budget, least = (0.3, 1) if quick else (2.0, 2)
    while len(times) < least or (time.perf_counter() - start < budget and len(times) < 200):
        ms, value = step_ms(loss, h1, h2, ids, labels)
        times.append(ms)
    return statistics.median(times), len(times), value


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sizes", default="128,512,1024,4096,8192", help="batch sizes, separated by commas")
    parser.add_argument("--dim", type=int, default=128, help="length of an embedding")
    parser.add_argument("--threads", type=int, default=0, help="threads; 0: as torch would")
    parser.add_argument("--detectors", default="none,glofnd,fnc", help="of " + ",".join(DETECTORS))
    parser.add_argument("--quick", action="store_true", help="fewer repetitions")
    args = parser.parse_args()
    detectors = args.detectors.split(",")
    if not set(detectors) <= set(DETECTORS):
        parser.error(f"--detectors takes {','.join(DETECTORS)}")
    try:
        sizes = [int(x) for x in args.sizes.split(",")]
    except ValueError:
        parser.error("--sizes takes integers, separated by commas")
    if min(sizes) < 2 or args.dim < 1 or args.threads < 0:
        parser.error("sizes start at 2, dim at 1, threads at 0")
    if args.threads:
        torch.set_num_threads(args.threads)
    torch.manual_seed(0)
    for batch in sizes:
        for detector in detectors:
            if detector == "fnc" and batch > 1024 and "--detectors" not in sys.argv:
                continue  # by default: its time at large sizes adds minutes and says nothing new
            ms, reps, value = measure(batch, args.dim, detector, args.quick)
            row = {"bench": "torch", "B": batch, "d": args.dim, "detector": detector, "threads": torch.get_num_threads(),
                   "ms": round(ms, 3), "repetitions": reps, "loss": value, "torch": torch.__version__,
                   "blas": blas()}
            print(json.dumps(row), flush=True)


if __name__ == "__main__":
    try:
        main()
    except (ArithmeticError, MemoryError, RuntimeError) as problem:
        print(f"bench_torch.py: {problem}", file=sys.stderr)
        sys.exit(1)

#!/usr/bin/env python3
"""bench_torch_kmeans.py [ITERATIONS] [NxDxK ...] - k-means by cosine in PyTorch, as bench/kmeans.c times ours.

A product of a block of embeddings with all centroids, its argmax, sums of the members by index_add_. float32 products; with
`--tf32` those of the tensor cores. The device is cuda where there is one.
"""
import sys
import time

import torch


def kmeans(x, groups, iterations, block=65536):
    n = len(x)
    centre = x[torch.randperm(n, device=x.device)[:groups]].clone()
    of = torch.empty(n, dtype=torch.long, device=x.device)
    for _ in range(iterations + 1):
        unit = torch.nn.functional.normalize(centre)
        for i in range(0, n, block):
            of[i:i + block] = (x[i:i + block] @ unit.T).argmax(1)
        centre = torch.zeros_like(centre).index_add_(0, of, x)
    return of


def main():
    words = [w for w in sys.argv[1:] if w != "--tf32"]
    torch.backends.cuda.matmul.allow_tf32 = "--tf32" in sys.argv
    device = "cuda" if torch.cuda.is_available() else "cpu"
    iterations = int(words[0]) if words else 20
    sizes = words[1:] or ["50000x128x100", "50000x128x1000", "1281167x128x1000", "1281167x128x25000"]
    for size in sizes:
        n, dim, groups = map(int, size.split("x"))
        host = torch.nn.functional.normalize(torch.randn(n, dim))
        best = float("inf")
        for _ in range(3):
            begin = time.perf_counter()
            of = kmeans(host.to(device), groups, iterations, block=65536 if groups <= 4096 else 8192)
            of.cpu()
            best = min(best, time.perf_counter() - begin)
        print(f"n {n}, d {dim}, K {groups}, {iterations} iterations, {device}: {best:.3f} s")


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""bench_topk.py - exact top-k of embeddings against themselves on a GPU by other libraries, for bench/discover_gpu.

usage: bench_topk.py X.npy OUT.npy --k K --repeat N [--queries Q] [--only NAME,...]

X is float32 [n][dim], unit vectors. Searches X for the k + 1 most similar of each row, which has the row itself among them: by
torch, a tile of rows at a time (matmul, then topk), in bfloat16, float16, float32 with TF32 products and float32; by FAISS's flat
index on the GPU and by cuVS's brute force where they can be imported. With --queries only the first Q rows are searched for, and
the seconds are those of Q rows times n / Q. Prints one JSON object per search: peer, version, seconds, queries. Writes the
neighbours that torch finds in float32, int32 [Q][k + 1], to OUT. Exits with 3 where torch or a GPU is missing.
"""
import argparse
import json
import sys
import time

try:
    import numpy
    import torch
except ImportError:
    sys.exit(3)
if not torch.cuda.is_available():
    sys.exit(3)

TILE_BYTES = 4 << 30


def torch_search(x, queries, k, dtype, tf32):
    torch.backends.cuda.matmul.allow_tf32 = tf32
    z = x.to(dtype)
    rows = max(1, min(queries, TILE_BYTES // (len(z) * z.element_size())))
    found = torch.empty((queries, k + 1), dtype=torch.int32, device=x.device)
    for first in range(0, queries, rows):
        q = z[first : min(first + rows, queries)]
        found[first : first + len(q)] = (q @ z.T).topk(k + 1, dim=1).indices
    return found


def torch_peer(dtype, tf32=False):
    return torch.__version__, lambda x, queries, k: torch_search(x, queries, k, dtype, tf32)


def faiss_peer():
    import faiss

    resources = faiss.StandardGpuResources()

    def search(x, queries, k):
        return faiss.knn_gpu(resources, x[:queries], x, k + 1, metric=faiss.METRIC_INNER_PRODUCT)[1]

    return faiss.__version__, search


def cuvs_peer():
    import cuvs
    from cuvs.neighbors import brute_force

    def search(x, queries, k):
        index = brute_force.build(x, metric="inner_product")
        return brute_force.search(index, x[:queries], k + 1)[1]

    return cuvs.__version__, search


PEERS = {
    "torch bf16": lambda: torch_peer(torch.bfloat16),
    "torch fp16": lambda: torch_peer(torch.float16),
    "torch tf32": lambda: torch_peer(torch.float32, True),
    "torch fp32": lambda: torch_peer(torch.float32),
    "faiss gpu flat": faiss_peer,
    "cuvs brute force": cuvs_peer,
}


def measure(search, x, queries, k):
    torch.cuda.synchronize()
    start = time.perf_counter()
    found = search(x, queries, k)
    torch.cuda.synchronize()
    return time.perf_counter() - start, found


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("x")
    parser.add_argument("out")
    parser.add_argument("--k", type=int, required=True)
    parser.add_argument("--repeat", type=int, default=2)
    parser.add_argument("--queries", type=int, default=0)
    parser.add_argument("--only", default="")
    args = parser.parse_args()
    x = torch.from_numpy(numpy.load(args.x)).cuda()
    queries = min(args.queries or len(x), len(x))
    for name, make in PEERS.items():
        if args.only and name not in args.only.split(","):
            continue
        try:
            version, search = make()
        except ImportError:
            continue
        measure(search, x, min(queries, 8192), args.k)  # warm
        for _ in range(args.repeat):
            seconds, found = measure(search, x, queries, args.k)
            row = {"peer": name, "version": version, "seconds": seconds * len(x) / queries, "queries": queries}
            print(json.dumps(row), flush=True)
        if name == "torch fp32":
            numpy.save(args.out, found.cpu().numpy().astype(numpy.int32))


if __name__ == "__main__":
    main()

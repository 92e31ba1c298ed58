#!/usr/bin/env python3
"""bench_topk.py - exact top-k of embeddings against themselves on a GPU by other libraries, for bench/discover_gpu.

usage: bench_topk.py X.npy OUT.npy --k K --repeat N [--queries Q] [--only NAME,...]

X is float32 [n][dim], unit vectors. Searches X for the k + 1 most similar of each row, which has the row itself among them: by
torch, a tile of rows at a time (matmul, then topk), in float32, float32 with TF32 products, float16 and bfloat16; by FAISS's flat
search on the GPU and by cuVS's brute force, in float32 and float16, where they can be imported. With --queries only the first Q
rows are searched for, and the seconds of their search are multiplied by n / Q; those of the conversion or the index are not.
Prints one JSON object per search: peer, version, seconds, queries and, once torch has searched in float32, same: the share of the
first rows' neighbours that are its neighbours, place by place. Writes the neighbours that torch finds in float32, int32
[Q][k + 1], to OUT. A library that fails, as with more neighbours than it can select, is named on stderr and skipped. Exits with 3
where torch or a GPU is missing.
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
COMPARED = 4096  # rows, at most


def tiles(queries, row_bytes):
    rows = max(1, min(queries, TILE_BYTES // row_bytes))
    return [slice(first, min(first + rows, queries)) for first in range(0, queries, rows)]


# ----- peers: version, prepare(x) -> state, search(state, queries, k) -> int32 [queries][k + 1] -------------------------------


def torch_peer(dtype, tf32=False):
    def search(z, queries, k):
        torch.backends.cuda.matmul.allow_tf32 = tf32
        found = torch.empty((queries, k + 1), dtype=torch.int32, device=z.device)
        for tile in tiles(queries, len(z) * z.element_size()):
            found[tile] = (z[tile] @ z.T).topk(k + 1, dim=1).indices
        return found

    return torch.__version__, lambda x: x.to(dtype), search


def faiss_peer(dtype):
    import faiss
    import faiss.contrib.torch_utils  # noqa: F401  lets knn_gpu take tensors

    resources = faiss.StandardGpuResources()

    def search(z, queries, k):
        found = torch.empty((queries, k + 1), dtype=torch.int32, device=z.device)
        for tile in tiles(queries, 8 * (k + 1)):
            faiss.knn_gpu(resources, z[tile], z, k + 1, I=found[tile], metric=faiss.METRIC_INNER_PRODUCT)
        return found

    return faiss.__version__, lambda x: x.to(dtype), search


def cuvs_peer(dtype):
    import cuvs
    from cuvs.neighbors import brute_force

    def prepare(x):
        z = x.to(dtype)
        return z, brute_force.build(z, metric="inner_product")

    def search(state, queries, k):
        z, index = state
        found = torch.empty((queries, k + 1), dtype=torch.int32, device=z.device)
        for tile in tiles(queries, 12 * (k + 1)):
            wide = torch.empty_like(found[tile], dtype=torch.int64)
            similar = torch.empty_like(wide, dtype=torch.float32)
            brute_force.search(index, z[tile], k + 1, neighbors=wide, distances=similar)
            found[tile] = wide
        return found

    return cuvs.__version__, prepare, search


PEERS = {
    "torch fp32": lambda: torch_peer(torch.float32),
    "torch tf32": lambda: torch_peer(torch.float32, True),
    "torch fp16": lambda: torch_peer(torch.float16),
    "torch bf16": lambda: torch_peer(torch.bfloat16),
    "faiss gpu flat": lambda: faiss_peer(torch.float32),
    "faiss gpu flat fp16": lambda: faiss_peer(torch.float16),
    "cuvs brute force": lambda: cuvs_peer(torch.float32),
    "cuvs brute force fp16": lambda: cuvs_peer(torch.float16),
}


# ----- measuring --------------------------------------------------------------------------------------------------------------


def timed(function, *args):
    torch.cuda.synchronize()
    start = time.perf_counter()
    result = function(*args)
    torch.cuda.synchronize()
    return time.perf_counter() - start, result


def run_peer(name, make, x, queries, args, exact):
    """Prints a row per search. exact: neighbours of torch in float32, or None. Returns the neighbours found."""
    version, prepare, search = make()
    search(prepare(x), min(queries, 8192), args.k)  # warm
    for _ in range(args.repeat):
        before, state = timed(prepare, x)
        seconds, found = timed(search, state, queries, args.k)
        row = {"peer": name, "version": version, "seconds": before + seconds * len(x) / queries, "queries": queries}
        if exact is not None:
            row["same"] = (found[: len(exact)] == exact).float().mean().item()
        print(json.dumps(row), flush=True)
    return found


def run_all(args, x, queries):
    exact = None
    for name, make in PEERS.items():
        if args.only and name not in args.only.split(","):
            continue
        try:
            found = run_peer(name, make, x, queries, args, exact)
        except ImportError:
            continue
        except Exception as failure:  # noqa: BLE001  one library must not end the others
            print(f"{name}: skipped: {(str(failure).strip().splitlines() or [type(failure).__name__])[0][:200]}", file=sys.stderr)
            continue
        if name == "torch fp32":
            numpy.save(args.out, found.cpu().numpy())
            exact = found[:COMPARED].clone()
        del found
        torch.cuda.empty_cache()  # what torch keeps, others cannot have


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
    run_all(args, x, queries)


if __name__ == "__main__":
    main()

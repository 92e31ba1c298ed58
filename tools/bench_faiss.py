#!/usr/bin/env python3
"""bench_faiss.py - exact top-k of embeddings against themselves with FAISS (IndexFlatIP), for bench/discover.

usage: bench_faiss.py X.npy OUT.npy --k K --threads T --repeat N

X is float32 [n][dim], unit vectors. Searches X for the k + 1 most similar of each row, which has the row itself among them.
Writes the neighbours int32 [n][k + 1] to OUT and prints one JSON object per search: seconds. Exits with 3 where FAISS is missing.
"""
import argparse
import json
import sys
import time

try:
    import faiss
    import numpy
except ImportError:
    sys.exit(3)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("x")
    parser.add_argument("out")
    parser.add_argument("--k", type=int, required=True)
    parser.add_argument("--threads", type=int, required=True)
    parser.add_argument("--repeat", type=int, default=3)
    args = parser.parse_args()
    faiss.omp_set_num_threads(args.threads)
    x = numpy.load(args.x)
    index = faiss.IndexFlatIP(x.shape[1])
    index.add(x)
    for _ in range(args.repeat):
        start = time.perf_counter()
        _, found = index.search(x, args.k + 1)
        seconds = time.perf_counter() - start
        print(json.dumps({"faiss": faiss.__version__, "k": args.k, "seconds": seconds}), flush=True)
    numpy.save(args.out, found.astype(numpy.int32))


if __name__ == "__main__":
    main()

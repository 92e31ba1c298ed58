#!/usr/bin/env python3
"""bench_faiss.py - exact top-k of embeddings against themselves with FAISS (IndexFlatIP), for bench/discover.

usage: bench_faiss.py X.npy OUT.npy --k K [--rank R] [--queries Q] --threads T

X is float32 [n][dim], unit vectors. For every line of stdin: searches X for the max(K, R) + 1 most similar of each row, which has
the row itself among them, and prints one JSON object: seconds by the clock and of the processors. The first search writes the
neighbours, int32 [n][K + 1], to OUT, and with R the thresholds, the R-th largest similarity to another row, to OUT.lambda.npy.
With --queries only the first Q rows are searched for, and the seconds are those of Q rows times n / Q.
Exits with 3 where FAISS is missing.
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
    parser.add_argument("--rank", type=int, default=0)
    parser.add_argument("--queries", type=int, default=0)
    parser.add_argument("--threads", type=int, required=True)
    args = parser.parse_args()
    faiss.omp_set_num_threads(args.threads)
    x = numpy.load(args.x)
    index = faiss.IndexFlatIP(x.shape[1])
    index.add(x)
    queries = min(args.queries or len(x), len(x))
    first = True
    for _ in sys.stdin:
        start, spent = time.perf_counter(), time.process_time()
        similarity, found = index.search(x[:queries], max(args.k, args.rank) + 1)
        seconds, spent = time.perf_counter() - start, time.process_time() - spent
        if first:
            numpy.save(args.out, found[:, :args.k + 1].astype(numpy.int32))
            if args.rank:       # the row itself is the most similar
                numpy.save(args.out + ".lambda.npy", similarity[:, args.rank].astype(numpy.float32))
        first = False
        print(json.dumps({"faiss": faiss.__version__, "k": args.k, "seconds": seconds * len(x) / queries,
                          "cpu_seconds": spent * len(x) / queries}), flush=True)


if __name__ == "__main__":
    main()

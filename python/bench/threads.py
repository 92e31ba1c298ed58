"""A step on the CPU with two builds of the library in turns: OpenMP's threads and the library's own (as in wheels).

    python threads.py BUILD/libglofnd.so WHEEL/libglofnd.so [--batch 8 64 512 4096] [--dim 128] [--threads 0] [--turns 8]

Microseconds of a SimCLR step with thresholds, the smallest of all steps of some turns of each build.
"""

import argparse
import json
import os
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.realpath(__file__))


def one(batches, dim, threads):
    """In a process of its own: microseconds by batch."""
    import numpy as np
    from glofnd.numpy import GloFND
    rng, out = np.random.default_rng(0), {}
    for batch in batches:
        a = rng.normal(size=(batch, dim)).astype(np.float32)
        b = (a + 0.5 * rng.normal(size=a.shape)).astype(np.float32)
        criterion, index = GloFND(batch, loss="simclr", alpha=0.05, threads=threads), np.arange(batch)
        times, until = [], time.perf_counter() + 0.4
        while len(times) < 5 or time.perf_counter() < until:
            begin = time.perf_counter()
            criterion.step(a, b, index)
            times.append(time.perf_counter() - begin)
        out[batch] = 1e6 * min(times)  # some are undisturbed on a busy machine, too
    return out


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("libraries", nargs="*")
    parser.add_argument("--batch", type=int, nargs="+", default=[8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192])
    parser.add_argument("--dim", type=int, default=128)
    parser.add_argument("--threads", type=int, default=0, help="0: all")
    parser.add_argument("--turns", type=int, default=3)
    options = parser.parse_args()
    if not options.libraries:
        print(json.dumps(one(options.batch, options.dim, options.threads)))
        return
    best = {}
    arguments = ["--dim", str(options.dim), "--threads", str(options.threads), "--batch", *map(str, options.batch)]
    for _ in range(options.turns):
        for library in options.libraries:
            environment = {**os.environ, "GLOFND_LIBRARY": library, "PYTHONPATH": os.path.join(HERE, "..")}
            done = subprocess.run([sys.executable, __file__, *arguments], env=environment, capture_output=True, text=True, check=True)
            for batch, us in json.loads(done.stdout).items():
                best[batch, library] = min(us, best.get((batch, library), us))
    print("| B | " + " | ".join(options.libraries) + " |\n|---|" + "---|" * len(options.libraries))
    for batch in map(str, options.batch):
        print(f"| {batch} | " + " | ".join(f"{best[batch, library]:.0f}" for library in options.libraries) + " |")


if __name__ == "__main__":
    main()

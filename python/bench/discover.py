"""Times glofnd.discover() on the CPU and on a GPU beside the program on the same file, and compares all results.

    python discover.py [--rows 100000] [--dim 128] [--k 20] [--devices cpu cuda] [--program BUILD/glofnd] [--repeat 2]

Embeddings are unit rows around 1,000 centres, with some exact copies and some near ones, in a temporary .npy file. The time of
Python is that of the call, with the file mapped; that of the program is of the whole process, with reading and writing its tables.
Runs take turns, the smallest time counts. Equal means: the same bits in every array of the result, and the same bytes in every table
that save() and the program write. Ends with 1 if anything differs.
"""

from __future__ import annotations

import argparse
import filecmp
import os
import re
import subprocess
import sys
import tempfile
import time

import glofnd
import numpy as np

ARRAYS = ("threshold", "above", "mutual", "neighbours", "similarities", "component", "duplicate_group", "first", "other", "similarity")


def make(rows, dim, path):
    rng = np.random.default_rng(0)
    centres = rng.standard_normal((1000, dim), np.float32)
    x = centres[rng.integers(0, 1000, rows)] + rng.standard_normal((rows, dim), np.float32)
    x[rows // 2:rows // 2 + rows // 100] = x[:rows // 100]
    x[-(rows // 100):] = x[:rows // 100] + 0.01 * rng.standard_normal((rows // 100, dim), np.float32)
    np.save(path, x / np.linalg.norm(x, axis=1, keepdims=True))


def by_python(path, k, device):
    begin = time.perf_counter()
    result = glofnd.discover(np.load(path, mmap_mode="r"), k=k, device=device)
    return time.perf_counter() - begin, result


def by_program(program, path, k, device, folder):
    """(the whole process, what it says of the search alone)."""
    begin = time.perf_counter()
    command = [program, "discover", path, "--k", str(k), "--device", device, "--out", folder, "--force"]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return time.perf_counter() - begin, float(re.search(r"search ([0-9.]+) s", done.stderr).group(1))


def same_arrays(one, two):
    return [name for name in ARRAYS if getattr(one, name).tobytes() != getattr(two, name).tobytes()]


def same_tables(one, two):
    """Tables that are not in both folders, or differ; summary.json holds times."""
    names = {name for folder in (one, two) for name in os.listdir(folder)} - {"summary.json", "summary.txt"}
    return sorted(name for name in names if not all(os.path.exists(os.path.join(folder, name)) for folder in (one, two)) or
                  not filecmp.cmp(os.path.join(one, name), os.path.join(two, name), shallow=False))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=100000)
    parser.add_argument("--dim", type=int, default=128)
    parser.add_argument("--k", type=int, default=20)
    parser.add_argument("--devices", nargs="+", default=["cpu", "cuda"])
    parser.add_argument("--program")
    parser.add_argument("--repeat", type=int, default=2)
    options = parser.parse_args()
    devices = [device for device in options.devices if not glofnd.device_status(device)]
    for device in options.devices:
        if device not in devices:
            print(f"{device}: {glofnd.device_status(device)}")
    print(glofnd.build_info())
    print(f"{options.rows} x {options.dim}, k {options.k}")
    wrong, times, results = [], {}, {}
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "x.npy")
        make(options.rows, options.dim, path)
        for _ in range(options.repeat):
            for device in devices:
                seconds, results[device] = by_python(path, options.k, device)
                times.setdefault(f"Python, {device}", []).append(seconds)
                if options.program:
                    out = os.path.join(folder, "program-" + device)
                    whole, search = by_program(options.program, path, options.k, device, out)
                    times.setdefault(f"program, {device}", []).append(whole)
                    times.setdefault(f"  its search, {device}", []).append(search)
        for device in devices:
            wrong += [f"{name}: {device} differs from {devices[0]}" for name in same_arrays(results[devices[0]], results[device])]
            saved = os.path.join(folder, "python-" + device)
            results[device].save(saved, source=path)
            for other in (saved, os.path.join(folder, "program-" + device)):
                first = os.path.join(folder, "python-" + devices[0])
                if os.path.isdir(other):
                    wrong += [f"{name}: {os.path.basename(other)} differs" for name in same_tables(first, other)]
    for name, seconds in times.items():
        print(f"{name:18} {min(seconds):8.2f} s   ({', '.join(f'{s:.2f}' for s in seconds)})")
    print("\n".join(wrong) if wrong else "all arrays and tables are equal")
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()

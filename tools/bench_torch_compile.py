#!/usr/bin/env python3
"""PyTorch's training steps compiled, all four nets of docs/benchmarks.md: torch.compile by default and with max-autotune.

    bench_torch_compile.py [--warm SECONDS] [--limit SECONDS] [--only TEXT]...

With --warm all nets of a mode are compiled at once, and nothing is measured: the results stay in TORCHINDUCTOR_CACHE_DIR.
Without, all programs compile from that cache at once, on the processors alone, and then measure one after the other, so that
each has the GPU to itself from its first kernel on. Prints a table. Programs that are not compiled after three fifths of the
limit are ended before the first one measures, since they would tune kernels on the GPU beside it; they are named, as are others
that miss the limit.
Needs torch >= 2.4, torchvision and a GPU. Exit status: 0, 1 something is missing in the table.
"""
import argparse
import json
import os
import pathlib
import select
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
VIEWS = "--precision bf16 --device cuda"
NETS = (("ResNet-50, 224 px, B = 128", "bench_torch_train.py", "--arch resnet50 --size 224 --batch 128 " + VIEWS),
        ("CLIP RN50, 256 pairs", "bench_torch_clip.py", "--image rn50 --batch 256"),
        ("ViT-B/32, 256 pairs", "bench_torch_clip.py", "--image vitb32 --batch 256"),
        ("ResNet-18, 32 px, B = 256", "bench_torch_train.py", "--arch resnet18 --size 32 --batch 256 " + VIEWS))

MODES = ("default", "max-autotune")


def compiled(net, mode, before_first_run):
    """torch.compile(net, mode=mode) that calls before_first_run when all code is there and no kernel of the net has run."""
    import torch
    from torch._inductor.compile_fx import compile_fx

    def backend(graph, inputs):
        patches = torch._inductor.list_mode_options(mode) if mode != "default" else None
        result = compile_fx(graph, inputs, config_patches=patches)
        before_first_run()
        return result

    return torch.compile(net, backend=backend)


class Turn:
    """A line of input, waited for once; the other side is told by a line of output."""

    def __init__(self):
        self.waited = False

    def wait(self):
        if not self.waited:
            self.waited = True
            print("compiled", flush=True)
            sys.stdin.readline()


class Program:
    def __init__(self, net, mode, turns):
        self.name, self.mode = net[0], mode
        more = ["--turn"] if turns else ["--steps", "1"]
        self.errors = open(os.path.join(os.environ.get("OUT", "."), f"peer-{NETS.index(net)}-{mode}.txt"), "w", encoding="utf-8")
        self.process = subprocess.Popen([sys.executable, str(HERE / net[1]), *net[2].split(), "--compile", mode, *more],
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.errors, text=True)

    def line(self, end):
        """The next line of output, "" if there is none by then."""
        ready, _, _ = select.select([self.process.stdout], [], [], max(0, end - time.monotonic()))
        return self.process.stdout.readline() if ready else ""

    def figure(self, end):
        """The line with the result, or None."""
        while (text := self.line(end)):
            if text.startswith("{"):
                return json.loads(text)
        return None

    def stop(self):
        self.process.kill()
        self.process.wait()
        self.errors.close()


def warm(chosen, end):
    """Compiles, one mode after the other, since all eight at once would not fit into the GPU's memory."""
    missing = 0
    for mode in MODES:
        programs = [Program(net, m, False) for net, m in chosen if m == mode]
        try:
            for p in programs:
                begin, result = time.monotonic(), p.figure(end)
                missing += result is None
                what = "not compiled in time" if result is None else "compiled"
                print(f"{p.name:28s} {p.mode:13s} {what}, waited {time.monotonic() - begin:.0f} s", flush=True)
        finally:
            for p in programs:
                p.stop()
    return missing


def measure(chosen, begin, end):
    """Compiles all from the cache, then gives the GPU to one after the other."""
    programs, missing = [Program(net, mode, True) for net, mode in chosen], 0
    try:
        compiled_ones = [p for p in programs if p.line(begin + 0.6 * (end - begin)).startswith("compiled")]
        for p in programs:
            if p not in compiled_ones:
                p.stop()
        print(f"{len(compiled_ones)} of {len(programs)} compiled after {time.monotonic() - begin:.0f} s", flush=True)
        for p in programs:
            result = None
            if p in compiled_ones:
                p.process.stdin.write("go\n")
                p.process.stdin.flush()
                result = p.figure(end)
                p.stop()
            missing += result is None
            rate = "none in time"
            if result:
                rate = f"{result.get('views/s') or result.get('pairs/s'):,}/s  {result['ms']} ms"
            print(f"{p.name:28s} {p.mode:13s} {rate}", flush=True)
    finally:
        for p in programs:
            p.stop()
    return missing


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--warm", type=float, default=0, help="fill the cache, for as many seconds at most")
    parser.add_argument("--limit", type=float, default=85, help="seconds for everything else")
    parser.add_argument("--only", action="append", default=[], help="nets or modes whose name has this")
    args = parser.parse_args()
    begin = time.monotonic()
    end = begin + (args.warm or args.limit)
    chosen = [(net, mode) for mode in MODES for net in NETS if all(o in net[0] + " " + mode for o in args.only)]
    missing = warm(chosen, end) if args.warm else measure(chosen, begin, end)
    print(f"{missing} missing, {time.monotonic() - begin:.0f} s")
    sys.exit(missing > 0)


if __name__ == "__main__":
    main()

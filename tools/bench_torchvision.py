#!/usr/bin/env python3
"""The data path of build/bench/data with torchvision and PIL: one process, one thread.

    bench_torchvision.py --images DIR [--count N] [--size 224] [--quick]

Decodes the JPEGs of a folder and makes two views of each with SogCLR's transforms; then views of images of 32 pixels, as CIFAR's
are. Prints one JSON object per row, ms per image. Exit status: 0, 1 failed, 2 usage, 3 this Python has no torchvision or PIL.
"""
import argparse
import json
import pathlib
import random
import statistics
import sys
import time

try:
    import numpy
    import PIL
    import torch
    import torchvision
    from PIL import Image, ImageFilter
    from torchvision import transforms
except ImportError as problem:
    print(f"bench_torchvision.py: {problem} in {sys.executable}", file=sys.stderr)
    sys.exit(3)


class GaussianBlur:
    """PIL's blur with a random sigma, as the recipe has it."""

    def __init__(self, low, high):
        self.low, self.high = low, high

    def __call__(self, image):
        return image.filter(ImageFilter.GaussianBlur(radius=random.uniform(self.low, self.high)))


def recipe(size):
    blur = [] if size <= 64 else [transforms.RandomApply([GaussianBlur(0.1, 2.0)], p=0.5)]
    return transforms.Compose([
        transforms.RandomResizedCrop(size, scale=(0.08, 1.0)),
        transforms.RandomApply([transforms.ColorJitter(0.4, 0.4, 0.2, 0.1)], p=0.8),
        transforms.RandomGrayscale(p=0.2),
        *blur,
        transforms.RandomHorizontalFlip(),
        transforms.ToTensor(),
        transforms.Normalize(mean=[0.485, 0.456, 0.406], std=[0.229, 0.224, 0.225]),
    ])


def decode(path):
    """As torchvision's ImageFolder does."""
    with open(path, "rb") as file:
        return Image.open(file).convert("RGB")


def measure(items, load, views, budget):
    """Medians over passes of ms per image: loading, and all."""
    loads, totals, start = [], [], time.perf_counter()
    while len(totals) < 3 or time.perf_counter() - start < budget:
        load_s = 0.0
        begin = time.perf_counter()
        for item in items:
            at = time.perf_counter()
            image = load(item)
            load_s += time.perf_counter() - at
            views(image), views(image)
        totals.append(1e3 * (time.perf_counter() - begin) / len(items))
        loads.append(1e3 * load_s / len(items))
    return statistics.median(loads), statistics.median(totals), len(totals)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--images", required=True, help="a folder of JPEGs")
    parser.add_argument("--count", type=int, default=48, help="at most so many of them")
    parser.add_argument("--size", type=int, default=224, help="of a view")
    parser.add_argument("--quick", action="store_true", help="fewer repetitions")
    args = parser.parse_args()
    torch.set_num_threads(1)
    random.seed(1)
    torch.manual_seed(1)
    paths = sorted(p for p in pathlib.Path(args.images).iterdir() if p.suffix.lower() in (".jpg", ".jpeg"))[:args.count]
    if not paths:
        parser.error(f"no JPEGs in {args.images}")
    budget = 1.0 if args.quick else 8.0
    versions = f"torch {torch.__version__}, torchvision {torchvision.__version__}, Pillow {PIL.__version__}"
    load_ms, ms, passes = measure(paths, decode, recipe(args.size), budget)
    print(json.dumps({"bench": "files", "ms": round(ms, 4), "decode_ms": round(load_ms, 4), "passes": passes,
                      "versions": versions}), flush=True)
    rng = numpy.random.default_rng(1)
    small = [Image.fromarray(rng.integers(0, 256, (4, 4, 3), dtype=numpy.uint8)).resize((32, 32)) for _ in range(256)]
    arrays = [numpy.asarray(image) for image in small]
    load_ms, ms, passes = measure(arrays, Image.fromarray, recipe(32), budget / 2)
    print(json.dumps({"bench": "small", "ms": round(ms, 4), "decode_ms": round(load_ms, 4), "passes": passes,
                      "versions": versions}), flush=True)


if __name__ == "__main__":
    try:
        main()
    except (OSError, MemoryError, RuntimeError) as problem:
        print(f"bench_torchvision.py: {problem}", file=sys.stderr)
        sys.exit(1)

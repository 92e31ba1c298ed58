#!/usr/bin/env python3
"""make_augment_golden.py > tests/fixtures/augment/golden.h - what torchvision and PIL make of known images.

Needs torch, torchvision and Pillow (up to 12: 13 changed the order of the passes of a resize). The images are made by a
formula that tests/image/unit_augment.c repeats, so that only hashes of the results have to be kept, and the bytes of one small
view.
"""
import math
import sys

import numpy as np
import PIL
import torch
import torchvision
from PIL import Image, ImageFilter
from torchvision import transforms
from torchvision.transforms import functional as F

U64 = np.uint64
MODES = transforms.InterpolationMode
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


def mix(x):
    """splitmix64 of an array of uint64, wrapping."""
    x = x * U64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> U64(30))) * U64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> U64(27))) * U64(0x94D049BB133111EB)
    return x ^ (x >> U64(31))


def digest(data):
    """Sum over bytes of (byte + 1) * mix(position + 1), modulo 2^64."""
    data = np.frombuffer(data, np.uint8)
    total = 0
    for at in range(0, len(data), 1 << 20):
        part = data[at:at + (1 << 20)].astype(U64) + U64(1)
        place = np.arange(at + 1, at + 1 + len(part), dtype=U64)
        total = (total + int((part * mix(place)).sum(dtype=U64))) % (1 << 64)
    return "0x%016xu" % total


def picture(width, height, seed):
    """Slopes with wrap-around edges, and noise."""
    y, x, c = np.meshgrid(np.arange(height), np.arange(width), np.arange(3), indexing="ij")
    noise = mix((((y * width + x) * 3 + c) + seed * 1000003 + 1).astype(U64)) % U64(48)
    level = (x * (seed % 5 + 1) + y * (seed % 3 + 1) + c * 60 + seed * 31 + noise.astype(np.int64)) % 256
    return Image.fromarray(level.astype(np.uint8))


def all_colours():
    levels = np.stack(np.meshgrid(*[np.arange(256)] * 3, indexing="ij"), -1)
    return Image.fromarray(levels.reshape(4096, 4096, 3).astype(np.uint8))


def number(x):
    return float(x).hex()


def row(*fields):
    print("    {" + ", ".join(str(f) for f in fields).replace(", \n", ",\n") + "},")


def table(kind, name):
    print("\nstatic const %s %s[] = {" % (kind, name))


def end():
    print("};")


def resizes():
    cases = [(500, 375, 60, 40, 320, 300, 224, 224), (500, 375, 0, 0, 500, 375, 224, 224), (64, 48, 5, 7, 33, 21, 96, 96),
             (32, 32, 3, 4, 20, 25, 32, 32), (32, 32, 0, 0, 32, 32, 32, 32), (40, 30, 8, 2, 1, 1, 16, 16),
             (300, 7, 0, 0, 300, 7, 5, 20), (9, 400, 1, 3, 8, 390, 40, 3), (1000, 800, 1, 1, 997, 798, 8, 8),
             (17, 13, 0, 0, 17, 13, 16, 12), (50, 50, 49, 49, 1, 1, 1, 1)]
    for name, filter in [("resize_cases", MODES.BILINEAR), ("cubic_cases", MODES.BICUBIC)]:
        table("resize_case", name)
        for seed, (w, h, left, top, bw, bh, ow, oh) in enumerate(cases, 1):
            out = F.resized_crop(picture(w, h, seed), top, left, bh, bw, (oh, ow), filter)
            row(w, h, seed, left, top, bw, bh, ow, oh, digest(np.asarray(out).tobytes()))
        end()


OPERATIONS = [F.adjust_brightness, F.adjust_contrast, F.adjust_saturation, F.adjust_hue, lambda m, f: F.rgb_to_grayscale(m, 3)]


def colours():
    cases = [(0, 0.6), (0, 1.37), (0, 0.0), (0, 1.0), (1, 0.62), (1, 1.4), (1, 0.0), (2, 0.81), (2, 1.19), (2, 0.0), (2, 3.0),
             (3, 0.1), (3, -0.1), (3, 0.0), (3, 0.5), (3, -0.5), (3, 0.0039), (4, 0.0)]
    table("colour_case", "colour_cases")
    for seed, (op, factor) in enumerate(cases, 1):
        out = OPERATIONS[op](picture(61, 47, seed), factor)
        row(61, 47, seed, op, number(factor), digest(np.asarray(out).tobytes()))
    end()
    table("colour_case", "all_colours_cases")
    for op, factor in [(0, 1.25), (1, 0.7), (2, 0.85), (3, 0.0), (3, 0.07), (3, -0.33), (4, 0.0)]:
        row(4096, 4096, 0, op, number(factor), digest(np.asarray(OPERATIONS[op](all_colours(), factor)).tobytes()))
    end()


def blurs():
    table("blur_case", "blur_cases")
    sizes = [(64, 48), (224, 224), (5, 3), (1, 1), (2, 90)]
    for seed, sigma in enumerate([0.1, 0.35, 0.8, 1.2, 1.41, 1.42, 1.73, 2.0, 3.7, 25.0, 99.0], 1):
        w, h = sizes[seed % len(sizes)]
        out = picture(w, h, seed).filter(ImageFilter.GaussianBlur(radius=sigma))
        row(w, h, seed, number(sigma), digest(np.asarray(out).tobytes()))
    end()


def finish(image):
    tensor = F.normalize(transforms.ToTensor()(image), MEAN, STD)
    return np.ascontiguousarray(tensor.permute(1, 2, 0).numpy())


def view(image, size, box, order, factors, gray, sigma, flip):
    left, top, width, height = box
    image = F.resized_crop(image, top, left, height, width, (size, size), MODES.BILINEAR)
    for op in order:
        image = OPERATIONS[op](image, factors[op])
    if gray:
        image = F.rgb_to_grayscale(image, 3)
    if sigma > 0:
        image = image.filter(ImageFilter.GaussianBlur(radius=sigma))
    return F.hflip(image) if flip else image


def views():
    f = (1.31, 0.66, 1.13, -0.083)
    cases = [(500, 375, 224, (120, 30, 251, 301), (3, 0, 2, 1), f, 0, 1.7, 1),
             (500, 375, 224, (0, 0, 500, 375), (), f, 0, 0.0, 0),
             (500, 375, 224, (10, 10, 130, 150), (0, 1, 2, 3), f, 0, 0.4, 0),
             (500, 375, 96, (10, 10, 130, 150), (2, 3, 1, 0), f, 1, 0.9, 1),
             (32, 32, 32, (4, 1, 25, 27), (1, 3, 0, 2), f, 0, 0.0, 1),
             (32, 32, 32, (4, 1, 9, 12), (2, 1, 3, 0), (0.61, 1.4, 0.8, 0.1), 1, 0.0, 0)]
    table("view_case", "view_cases")
    for seed, (w, h, size, box, order, factors, gray, sigma, flip) in enumerate(cases, 20):
        out = view(picture(w, h, seed), size, box, order, factors, gray, sigma, flip)
        places = list(order) + [-1] * (4 - len(order))
        drawn = "\n       {.left = %d, .top = %d, .width = %d, .height = %d, .jitter = %d" % (*box, len(order) > 0)
        drawn += ", .order = {%s},\n        .factor = {%s}" % (", ".join(map(str, places)), ", ".join(map(number, factors)))
        drawn += ",\n        .gray = %d, .flip = %d, .sigma = %s}" % (gray, flip, number(sigma))
        row(w, h, seed, size, drawn, digest(np.asarray(out).tobytes()), digest(finish(out).tobytes()))
    end()
    small = view(picture(20, 14, 77), 6, (2, 1, 13, 12), (0, 2, 3, 1), f, 0, 1.5, 1)
    print("\n/* picture(20, 14, 77), box 13 x 12 at 2, 1, size 6; brightness, saturation, hue, contrast; sigma 1.5; mirrored. */")
    print("static const uint8_t small_view[6 * 6 * 3] = {")
    for line in np.asarray(small).reshape(6, 18):
        print("    " + ", ".join("%d" % b for b in line) + ",")
    end()


def centres():
    cases = [(500, 375, 256, 224), (375, 500, 256, 224), (301, 257, 256, 224), (224, 224, 0, 224), (33, 32, 0, 32),
             (97, 60, 64, 57), (20, 50, 0, 32), (31, 17, 0, 32), (10, 11, 12, 16), (400, 3, 5, 8), (500, 375, 224, 224),
             (30, 45, 96, 96)]
    for name, filter in [("centre_cases", MODES.BILINEAR), ("cubic_centre_cases", MODES.BICUBIC)]:
        table("centre_case", name)
        for seed, (w, h, resize, size) in enumerate(cases, 40):
            steps = ([transforms.Resize(resize, filter)] if resize else []) + [transforms.CenterCrop(size)]
            row(w, h, seed, resize, size, digest(finish(transforms.Compose(steps)(picture(w, h, seed))).tobytes()))
        end()


def moments(draws):
    draws = np.asarray(draws, float)
    return "{%s}, {%s}" % (", ".join("%.6g" % x for x in draws.mean(0)), ", ".join("%.6g" % x for x in draws.std(0)))


def boxes():
    torch.manual_seed(1)
    table("box_case", "box_cases")
    for w, h in [(500, 375), (32, 32), (120, 1000), (37, 5), (64, 60)]:
        image, draws = Image.new("RGB", (w, h)), []
        for _ in range(20000):
            top, left, height, width = transforms.RandomResizedCrop.get_params(image, (0.08, 1.0), (3 / 4, 4 / 3))
            draws.append((left, top, width, height, width * height, math.log(width / height)))
        row(w, h, moments(draws))
    end()


def main():
    if int(PIL.__version__.split(".")[0]) > 12:
        sys.exit("Pillow %s resizes differently: take 12 or older" % PIL.__version__)
    print("/* golden.h - made by tools/generate/make_augment_golden.py with torchvision %s, torch %s, "
          "Pillow %s. */"
          % (torchvision.__version__, torch.__version__, PIL.__version__))
    resizes()
    colours()
    blurs()
    views()
    centres()
    boxes()


if __name__ == "__main__":
    main()

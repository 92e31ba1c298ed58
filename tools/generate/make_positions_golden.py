#!/usr/bin/env python3
"""make_positions_golden.py > tests/fixtures/clip/positions.h - positions of images and texts as PyTorch resizes them.

As open_clip's resize_pos_embed (bicubic, antialias, align_corners=False; the first position kept) and resize_text_pos_embed
(linear). The positions come from a formula that tests/train/unit_positions.c repeats.
"""
import torch
import torch.nn.functional as F


def positions(rows, width):
    i = torch.arange(rows * width, dtype=torch.int64)
    return ((i * 7919 + 13) % 1009).to(torch.float32).reshape(rows, width) / 1024 - 0.5


def grid(old, side, wanted):
    whole, patches = old[:1], old[1:].reshape(1, side, side, -1).permute(0, 3, 1, 2)
    patches = F.interpolate(patches, size=(wanted, wanted), mode="bicubic", antialias=True, align_corners=False)
    return torch.cat([whole, patches.permute(0, 2, 3, 1).reshape(wanted * wanted, -1)])


def line(old, wanted):
    return F.interpolate(old.T[None], size=wanted, mode="linear", align_corners=False)[0].T


def show(name, numbers):
    words = ["%.9gf" % x if "." in "%.9g" % x or "e" in "%.9g" % x else "%.9g.0f" % x for x in numbers.flatten().tolist()]
    print("static const float %s[] = {" % name)
    for at in range(0, len(words), 8):
        print("    " + ", ".join(words[at:at + 8]) + ",")
    print("};")


def main():
    print("/* positions.h - made by tools/generate/make_positions_golden.py with torch %s. Not to be edited. */"
          % torch.__version__)
    cases = []
    for side, wanted, width in [(7, 10, 2), (7, 4, 2), (2, 5, 3), (5, 1, 2), (1, 3, 2)]:
        cases.append("GF_POSITIONS_GRID, %d, %d, %d, grid_%d_%d" % (1 + side * side, 1 + wanted * wanted, width, side, wanted))
        show("grid_%d_%d" % (side, wanted), grid(positions(1 + side * side, width), side, wanted))
    for rows, wanted, width in [(11, 7, 2), (7, 12, 3), (1, 4, 2)]:
        cases.append("GF_POSITIONS_LINE, %d, %d, %d, line_%d_%d" % (rows, wanted, width, rows, wanted))
        show("line_%d_%d" % (rows, wanted), line(positions(rows, width), wanted))
    print("static const positions_case cases[] = {")
    for case in cases:
        print("    {%s}," % case)
    print("};")


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""A picture of CIFAR-100's duplicates that have two labels: docs/img/cifar100-duplicates.png.

    glofnd discover --split test='cifar100:cifar?split=test' --split train=cifar100:cifar --k 10 --dup exact --out found
    tools/duplicates_picture.py found cifar docs/img/cifar100-duplicates.png

Shows the first eight pairs of found/duplicates.tsv whose labels differ, those of equal bytes first. Needs NumPy and Pillow.
"""

import csv
import os
import re
import sys

import numpy as np
from PIL import Image, ImageDraw, ImageFont

ACROSS, DOWN, ZOOM = 4, 2, 3
SIDE, GAP, EDGE, TEXT = 32 * ZOOM, 8, 22, 44
INK, QUIET, WARM, PAPER, CARD, LINE = "#1c1e21", "#5c6066", "#a04a22", "#fbfaf8", "#ffffff", "#dddad4"


def read_images(folder, split):
    """Records of the binary version of CIFAR-100: two labels, then 3072 bytes, a plane per color."""
    records = np.fromfile(os.path.join(folder, split + ".bin"), np.uint8).reshape(-1, 3074)
    return records[:, 2:].reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1)


def pairs_with_two_labels(found):
    with open(os.path.join(found, "duplicates.tsv"), encoding="utf-8") as lines:
        rows = [row for row in csv.DictReader(lines, delimiter="\t", quoting=csv.QUOTE_NONE) if row["anchor_label"] != row["other_label"]]
    return sorted(rows, key=lambda row: row["exact"] != "1")


def main():
    if len(sys.argv) != 4:
        sys.exit("usage: duplicates_picture.py FOUND CIFAR OUT.png")
    found, cifar, out = sys.argv[1:]
    with open(os.path.join(found, "classes.txt"), encoding="utf-8") as lines:
        classes = lines.read().splitlines()
    images = {split: read_images(cifar, split) for split in ("train", "test")}
    shown = pairs_with_two_labels(found)[:ACROSS * DOWN]
    width, height = 2 * SIDE + GAP + 2 * EDGE, SIDE + TEXT + EDGE
    picture = Image.new("RGB", (ACROSS * width + EDGE, DOWN * height + EDGE), PAPER)
    draw, large, small = ImageDraw.Draw(picture), ImageFont.load_default(15), ImageFont.load_default(11)
    for k, row in enumerate(shown):
        x, y = EDGE // 2 + k % ACROSS * width, EDGE // 2 + k // ACROSS * height
        draw.rounded_rectangle((x + 5, y + 5, x + width - 6, y + height - 6), 7, CARD, LINE)
        for side, which in enumerate(("anchor", "other")):
            split, number = re.search(r"(train|test) #(\d+)$", row[which + "_name"]).groups()
            left, top = x + EDGE + side * (SIDE + GAP), y + 16
            thumbnail = Image.fromarray(images[split][int(number)]).resize((SIDE, SIDE), Image.Resampling.NEAREST)
            picture.paste(thumbnail, (left, top))
            label = classes[int(row[which + "_label"])].replace("_", " ")
            draw.text((left + SIDE // 2, top + SIDE + 4), label, WARM if side else INK, large, anchor="ma")
            draw.text((left + SIDE // 2, top + SIDE + 23), split, QUIET, small, anchor="ma")
    picture.quantize(128, dither=Image.Dither.NONE).save(out, optimize=True)
    print(f"{out}: {len(shown)} pairs, {os.path.getsize(out)} bytes")


if __name__ == "__main__":
    main()

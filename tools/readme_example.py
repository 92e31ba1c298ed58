#!/usr/bin/env python3
"""Runs the training code of README.md on Fashion-MNIST with a small network, and prints what README.md shows behind it.

usage: GLOFND_LIBRARY=build/libglofnd.so PYTHONPATH=python tools/readme_example.py [FOLDER]

FOLDER has the IDX files; default: that of Debian's package dataset-fashion-mnist. Needs PyTorch; a minute of CPU time.
"""
import gzip
import os
import re
import sys

import numpy as np
import torch
from torch import nn
from torch.nn import functional

FOLDER = sys.argv[1] if len(sys.argv) > 1 else "/usr/share/datasets/fashion-mnist"
README = os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", "README.md")
IMAGES = 12000


class TwoCrops(torch.utils.data.Dataset):
    """Two random crops, mirrored by chance, of each of the first IMAGES images."""

    def __init__(self):
        with gzip.open(os.path.join(FOLDER, "train-images-idx3-ubyte.gz")) as file:
            pixels = np.frombuffer(file.read(), np.uint8, offset=16)
        self.images = torch.from_numpy(pixels.reshape(-1, 1, 28, 28)[:IMAGES].astype(np.float32) / 255 - 0.29)

    def __len__(self):
        return len(self.images)

    def __getitem__(self, index):
        return tuple(self.crop(self.images[index]) for _ in range(2))

    @staticmethod
    def crop(image):
        side = int(torch.randint(18, 29, ()))
        top, left = torch.randint(0, 29 - side, (2,)).tolist()
        view = functional.interpolate(image[None, :, top:top + side, left:left + side], 28, mode="bilinear")[0]
        return view.flip(2) if torch.rand(()) < 0.5 else view


def block(channels, out):
    return nn.Sequential(nn.Conv2d(channels, out, 3, stride=2, padding=1, bias=False), nn.BatchNorm2d(out), nn.ReLU())


def main():
    with open(README, encoding="utf-8") as file:
        code = next(code for code in re.findall(r"^```python\n([\s\S]*?)^```", file.read(), re.MULTILINE) if "GloFNDLoss" in code)
    torch.manual_seed(1)
    model = nn.Sequential(block(1, 32), block(32, 64), block(64, 128), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(128, 128),
                          nn.ReLU(), nn.Linear(128, 64))
    exec(compile(code, "README.md", "exec"), {"torch": torch, "dataset": TwoCrops(), "model": model, "epochs": 4,
                                              "optimizer": torch.optim.AdamW(model.parameters(), 2e-3)})


if __name__ == "__main__":
    main()

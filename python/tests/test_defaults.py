"""The default of every option: that of tests/fixtures/defaults.tsv, which the tests of the library and of the program read, too."""

import importlib
import inspect
import os
import unittest

from glofnd import _engine, _lib

TABLE = os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", "..", "tests", "fixtures", "defaults.tsv")
NAMES = {theirs: ours for ours, theirs in _lib.OPTION_NAMES.items()}


@unittest.skipUnless(os.path.exists(TABLE), "the table is in the repository, not in the source distribution")
class Defaults(unittest.TestCase):
    def setUp(self):
        with open(TABLE, encoding="ascii") as file:
            rows = [line.split() for line in file][1:]
        self.table = {NAMES.get(row[0], row[0]): row[1] for row in rows}

    def compare(self, options):
        self.assertEqual(_engine.option_values(options), self.table)

    def test_library(self):
        self.compare(_lib.Options())
        for key, allowed, _ in _lib.option_table():
            self.assertTrue(allowed.endswith("default " + self.table[key]), f"{key}: {allowed}")

    def losses(self):
        """(module, class) of every layer that can be imported here."""
        for layer, name in (("numpy", "GloFND"), ("torch", "GloFNDLoss"), ("jax", "GloFNDLoss")):
            try:
                importlib.import_module(layer)
            except ImportError:
                continue
            module = importlib.import_module("glofnd." + layer)
            yield module, getattr(module, name)

    def test_losses(self):
        for module, kind in self.losses():
            with self.subTest(module.__name__):
                loss = kind(8)
                self.compare((loss._core.engine if hasattr(loss, "_core") else loss._engine).options)

    def test_signatures_repeat_no_default(self):
        """An argument that is an option is None unless it is given; functions of their own may say what the library says."""
        for module, kind in self.losses():
            for call in (kind, getattr(module, "thresholds", kind)):
                for name, parameter in inspect.signature(call).parameters.items():
                    if name in self.table and parameter.default not in (None, inspect.Parameter.empty):
                        with self.subTest(f"{module.__name__}.{call.__name__}: {name}"):
                            self.assertIsNot(call, kind)
                            self.assertEqual(_engine.option_text(parameter.default), self.table[name])


if __name__ == "__main__":
    unittest.main()

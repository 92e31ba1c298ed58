"""The Python code of README.md, docs/python.md and two other pages runs, and prints what stands behind it. Numbers may differ by rounding."""

import contextlib
import importlib.util
import io
import os
import re
import tempfile
import unittest

import numpy as np

import glofnd

ROOT = os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", "..")
NUMBER = re.compile(r"-?\d+\.\d+")


def document(name):
    path = os.path.join(ROOT, name)
    if not os.path.exists(path):
        raise unittest.SkipTest(f"{name} is not here")
    with open(path, encoding="utf-8") as file:
        return file.read()


def blocks(name):
    """(code, the indented lines behind it) of every block of Python."""
    return [(code, "\n".join(line[4:] for line in output.split("\n")).strip("\n"))
            for code, output in re.findall(r"^```python\n([\s\S]*?)^```\n((?:\n|    .*\n)*)", document(name), re.MULTILINE)]


class Documents(unittest.TestCase):
    def run_block(self, name, word, names, output=False):
        """Runs the one block with this word in it, and compares its output."""
        found = [block for block in blocks(name) if word in block[0]]
        self.assertEqual(len(found), 1, f"{word} in {name}")
        code, expected = found[0]
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            exec(compile(code, name, "exec"), names)
        if output:
            self.assertTrue(expected)
            got = printed.getvalue().strip("\n")
            self.assertEqual(NUMBER.sub("#", got), NUMBER.sub("#", expected))
            np.testing.assert_allclose([float(x) for x in NUMBER.findall(got)], [float(x) for x in NUMBER.findall(expected)], atol=2e-3)
        return names

    @unittest.skipUnless(importlib.util.find_spec("torch"), "PyTorch is not installed")
    def test_training_loops(self):
        import torch
        torch.manual_seed(0)
        for name in ("README.md", os.path.join("docs", "python.md")):
            x = torch.randn(512, 16)
            model = torch.nn.Linear(16, 16)
            names = {"torch": torch, "dataset": torch.utils.data.TensorDataset(x, x + 0.1), "model": model, "epochs": 3,
                     "optimizer": torch.optim.SGD(model.parameters(), 0.1)}
            self.run_block(name, "GloFNDLoss(len(dataset)", names)
            self.assertTrue((names["criterion"].thresholds() < 1).all())
            self.assertEqual(names["criterion"].epoch, 2)

    @unittest.skipUnless(importlib.util.find_spec("torch"), "PyTorch is not installed")
    def test_neighbours(self):
        import torch
        from glofnd.torch import GloFNDLoss
        torch.manual_seed(0)
        criterion = self.run_block(os.path.join("docs", "concepts", "losses.md"), "neighbours=5", {"GloFNDLoss": GloFNDLoss})["criterion"]
        x = torch.randn(64, 128)
        for epoch in (69, 70):
            criterion.set_epoch(epoch)
            criterion(x, x + 0.1, torch.arange(64))
            self.assertEqual(criterion.stats()["neighbours"] > 0, epoch == 70)

    @unittest.skipUnless(importlib.util.find_spec("torch"), "PyTorch is not installed")
    def test_keys(self):
        import torch
        from glofnd.torch import GloFNDLoss
        stream = [{"__key__": [f"shard/{i}" for i in range(8)], "a": torch.randn(8, 4), "b": torch.randn(8, 4)}] * 3
        names = {"GloFNDLoss": GloFNDLoss, "glofnd": glofnd, "torch": torch, "model": lambda x: x, "stream": stream}
        self.assertEqual(self.run_block(os.path.join("docs", "howto", "stream.md"), "GloFNDLoss(None", names)["criterion"].keys().numel(), 8)

    def test_numpy(self):
        self.run_block(os.path.join("docs", "python.md"), "from glofnd.numpy", {}, output=True)

    def test_discovery(self):
        found = self.run_block(os.path.join("docs", "python.md"), "glofnd.discover(x", {"np": np, "glofnd": glofnd}, output=True)["found"]
        self.assertEqual(found.remove.tolist(), [4321])

    @unittest.skipUnless(importlib.util.find_spec("pyarrow"), "pyarrow is not installed")
    def test_discovery_of_files(self):
        import pyarrow
        import pyarrow.parquet
        x = np.random.default_rng(0).normal(size=(60, 8)).astype(np.float32)
        x[50] = x[3]
        before = os.getcwd()
        with tempfile.TemporaryDirectory() as folder:
            os.chdir(folder)
            self.addCleanup(os.chdir, before)
            os.mkdir("embeddings")
            for part in range(2):
                rows = slice(30 * part, 30 * part + 30)
                pyarrow.parquet.write_table(pyarrow.table({"key": [f"k{i}" for i in range(60)[rows]], "emb": list(x[rows])}), f"embeddings/{part}.parquet")
            kept = self.run_block("README.md", "glofnd.discover(", {"glofnd": glofnd})["keep"]
            os.chdir(before)
        self.assertEqual(kept, [f"k{i}" for i in range(60) if i != 50])

    @unittest.skipUnless(importlib.util.find_spec("jax"), "JAX is not installed")
    def test_jax(self):
        import jax
        x = np.random.default_rng(0).normal(size=(2, 16, 6)).astype(np.float32)
        names = self.run_block(os.path.join("docs", "python.md"), "jax.jit", {
            "jax": jax, "glofnd": glofnd, "num_samples": 64, "model": lambda weights, rows: rows @ weights})
        loss, state, grads = names["step"](np.eye(6, 4, dtype=np.float32), x[0], x[1], np.arange(16), names["state"], 0)
        self.assertTrue(np.isfinite(float(loss)) and np.isfinite(grads).all())
        self.assertTrue((names["criterion"].thresholds(state)[0, :16] < 1).any())


if __name__ == "__main__":
    unittest.main()

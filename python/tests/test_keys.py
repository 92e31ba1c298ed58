"""Keys in place of positions: glofnd.keys(), and the losses of NumPy and PyTorch with num_samples=None."""

import copy
import os
import pickle
import tempfile
import unittest

import numpy as np

import glofnd
import glofnd.numpy

try:
    import torch

    from glofnd.torch import GloFNDLoss
except ImportError:
    torch = None

SAMPLES, BATCH, DIM = 40, 12, 6
CORNERS = [0, -1, -2**63, 2**63 - 1]


def keys_of_samples():
    keys = glofnd.keys([f"text {i}" for i in range(SAMPLES)])
    keys[:4] = CORNERS
    return keys


def batches(steps=5):
    random = np.random.default_rng(0)
    for epoch in range(steps):
        a = random.standard_normal((BATCH, DIM)).astype(np.float32)
        b = (a + 0.5 * random.standard_normal((BATCH, DIM))).astype(np.float32)
        yield epoch, a, b, random.permutation(SAMPLES)[:BATCH]


class Hash(unittest.TestCase):
    def test_keys_stay_as_they_are(self):
        """Written down: a change would make every saved state foreign."""
        self.assertEqual(glofnd.keys(["", "a", "photos/1.jpg", "\u00e4"]).tolist(),
                         [-5426141060434712860, 3405396810240292928, -2053080558722623742, 4152366542966443504])
        self.assertEqual(glofnd.keys([b"a"]).tolist(), glofnd.keys(["a"]).tolist())
        self.assertEqual(glofnd.keys(f"{i}" for i in range(3)).dtype, np.int64)
        self.assertEqual(glofnd.keys([]).shape, (0,))
        self.assertEqual(np.unique(glofnd.keys(map(str, range(20000)))).size, 20000)
        self.assertEqual(glofnd.keys(["\ud800"]).size, 1)

    def test_what_is_no_name_is_refused(self):
        for names, text in (("one text", "names is one text"), ([1], r"names\[0\] is of type int"), (["a", None], r"names\[1\]")):
            with self.subTest(text), self.assertRaisesRegex(glofnd.ArgumentError, text):
                glofnd.keys(names)


class NumPy(unittest.TestCase):
    def check(self, **options):
        keys = keys_of_samples()
        position, key = glofnd.numpy.GloFND(SAMPLES, alpha=0.2, **options), glofnd.numpy.GloFND(None, alpha=0.2, **options)
        for epoch, a, b, index in batches():
            x, y = position.step(a, b, index, epoch=epoch), key.step(a, b, keys[index], epoch=epoch)
            self.assertEqual(x.loss, y.loss)
            np.testing.assert_array_equal(x.grad_a, y.grad_a)
            np.testing.assert_array_equal(position.mask(a, b, index, epoch=epoch), key.mask(a, b, keys[index], epoch=epoch))
            if epoch == 2:
                key = pickle.loads(pickle.dumps(key))
        for side in range(position.sides):
            np.testing.assert_array_equal(position.rows(side=side), key.rows(keys, side))
        seen = np.flatnonzero(position.rows()["log_u"] > -np.inf) if options.get("loss") != "simclr" else None
        if seen is not None:
            np.testing.assert_array_equal(key.keys(), np.sort(keys[seen]))
        return key

    def test_numbers_of_positions(self):
        for options in ({}, {"loss": "isogclr"}, {"loss": "sogclr", "pairing": "image-text"}, {"learner": "ring", "dim": DIM},
                        {"similarity": "bank", "dim": DIM}, {"detector": "single"}):
            with self.subTest(**options):
                self.check(**options)

    def test_store_files(self):
        key = self.check()
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "state")
            key.save_store(path)
            again = glofnd.numpy.GloFND.load(path, alpha=0.2)
            self.assertIsNone(again.num_samples)
            np.testing.assert_array_equal(again.rows(), key.rows())
            with self.assertRaisesRegex(glofnd.StateError, "num_samples=None"):
                glofnd.numpy.GloFND(SAMPLES, alpha=0.2).load_store(path)
            glofnd.numpy.GloFND(SAMPLES, alpha=0.2).save_store(path)
            with self.assertRaisesRegex(glofnd.StateError, f"num_samples={SAMPLES}"):
                key.load_store(path)

    def test_wrong_use(self):
        keyed, random = glofnd.numpy.GloFND(None), np.random.default_rng(0)
        a = random.standard_normal((4, DIM)).astype(np.float32)
        for kind, text, call in (
                (glofnd.AnchorIndexError, "must differ", lambda: keyed.step(a, a, [7, -7, 7, 1])),
                (glofnd.ArgumentError, "float64", lambda: keyed.step(a, a, [0.5, 1, 2, 3])),
                (glofnd.ArgumentError, "do not fit int64", lambda: keyed.step(a, a, np.array([2**63, 1, 2, 3], np.uint64))),
                (glofnd.ArgumentError, "grows with the keys", lambda: keyed.resize(10)),
                (glofnd.ArgumentError, "no keys", lambda: glofnd.numpy.GloFND(5).keys()),
                (glofnd.ArgumentError, "keyed", lambda: glofnd.numpy.GloFND(5).reserve(10)),
                (glofnd.UnsupportedError, "neighbours", lambda: glofnd.numpy.GloFND(None, similarity="bank", dim=DIM, neighbours=2).step(
                    a, a, [1, 2, 3, 4]))):
            with self.subTest(text), self.assertRaisesRegex(kind, text):
                call()
        self.assertEqual(keyed.keys().size, 0)
        keyed.reserve(5000)
        keyed.step(a, a, [3, -1, 5, 0])
        self.assertEqual(keyed.keys().tolist(), [-1, 0, 3, 5])


@unittest.skipIf(torch is None, "PyTorch is not installed")
class Torch(unittest.TestCase):
    def train(self, criterion, ids, steps=5):
        losses = []
        for epoch, a, b, index in batches(steps):
            criterion.set_epoch(epoch)
            z = torch.from_numpy(a).requires_grad_()
            loss = criterion(z, torch.from_numpy(b), ids[index])
            loss.backward()
            losses.append((loss.item(), z.grad))
        return losses

    def test_numbers_of_positions(self):
        keys = torch.from_numpy(keys_of_samples())
        for options in ({}, {"loss": "clip"}, {"learner": "ring", "dim": DIM}, {"similarity": "bank", "dim": DIM}, {"detector": "single"}):
            with self.subTest(**options):
                position, key = GloFNDLoss(SAMPLES, alpha=0.2, **options), GloFNDLoss(None, alpha=0.2, **options)
                for x, y in zip(self.train(position, torch.arange(SAMPLES)), self.train(key, keys)):
                    self.assertEqual(x[0], y[0])
                    self.assertTrue(torch.equal(x[1], y[1]))
                self.assertTrue(torch.equal(position.thresholds(), key.thresholds(keys)))
                loaded = GloFNDLoss(None, alpha=0.2, **options)
                loaded.load_state_dict(key.state_dict())
                for again in (loaded, pickle.loads(pickle.dumps(key)), copy.deepcopy(key)):
                    self.assertTrue(torch.equal(again.keys(), key.keys()))
                    self.assertTrue(torch.equal(again.thresholds(), key.thresholds()))
                    self.assertEqual(self.train(copy.deepcopy(again), keys, 2)[1][0], self.train(copy.deepcopy(key), keys, 2)[1][0])

    def test_states_that_do_not_fit(self):
        key, position = GloFNDLoss(None, alpha=0.2), GloFNDLoss(SAMPLES, alpha=0.2)
        self.train(key, torch.from_numpy(keys_of_samples()))
        state = key.state_dict()
        before = key.thresholds()
        twice, short = copy.deepcopy(state), copy.deepcopy(state)
        twice["keys"][1] = twice["keys"][0]
        short["lambda"] = short["lambda"][:, 1:]
        for criterion, foreign, text in ((position, state, "num_samples=None"), (key, position.state_dict(), "this loss has keys"),
                                         (key, twice, "one is there twice"), (key, short, "one for every key")):
            with self.subTest(text), self.assertWarns(UserWarning), self.assertRaisesRegex(glofnd.StateError, text):
                criterion.load_state_dict(foreign)
        self.assertTrue(torch.equal(key.thresholds(), before))

    def test_calls(self):
        key = GloFNDLoss(None)
        self.assertIn("num_samples=None", str(key))
        self.assertEqual(key.keys().tolist(), [])
        self.assertEqual(key.thresholds(torch.tensor([5])).tolist(), [1.0])
        key.reserve(1000)
        for text, call in (("no keys", lambda: GloFNDLoss(5).keys()), ("num_samples=None", lambda: GloFNDLoss(5).reserve(9)),
                           ("grows with the keys", lambda: key.resize(10))):
            with self.subTest(text), self.assertRaisesRegex(glofnd.ArgumentError, text):
                call()


if __name__ == "__main__":
    unittest.main()

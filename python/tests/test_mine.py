"""Level 1: glofnd.mine() against all pairs sorted in float64, and against the library's exact thresholds."""

import json
import os
import sys
import tempfile
import unittest
from unittest import mock

try:
    import numpy as np
except ImportError:
    raise unittest.SkipTest("NumPy is not installed") from None

import glofnd
from glofnd import _mine
from glofnd.numpy import thresholds


def data(queries=40, documents=300, dim=16, seed=0):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(queries, dim)).astype(np.float32), rng.normal(size=(documents, dim)).astype(np.float32)


def reference(q, d, positives, k, alpha):
    """Thresholds, documents above them, and negatives, from sorted lists."""
    q, d = (x / np.linalg.norm(x.astype(np.float64), axis=1, keepdims=True) for x in (q, d))
    result = []
    for i, own in enumerate(positives):
        others = [j for j in np.argsort(-(d @ q[i]), kind="stable").tolist() if j not in own]
        rank = max(1, int(np.ceil(alpha * len(others) * (1 - 1e-14))))
        result.append((float(d[others[rank - 1]] @ q[i]), others[:rank - 1], others[rank - 1:rank - 1 + k]))
    return result


class Search(unittest.TestCase):
    def compare(self, alpha, k, positives, q, d):
        found = glofnd.mine(q, d, positives, k, alpha=alpha, top=len(d))
        listed = found.false_negatives()
        for i, (limit, above, below) in enumerate(reference(q, d, positives, k, alpha)):
            self.assertAlmostEqual(float(found.threshold[i]), limit, 5)
            self.assertEqual(listed.document[listed.query == i].tolist(), above)
            self.assertEqual(found.above[i], len(above))
            self.assertEqual([j for j in found.negatives[i].tolist() if j >= 0], below)
        self.assertTrue((listed.similarity > listed.threshold).all())
        self.assertTrue((found.similarity[found.negatives >= 0] <= found.threshold[:, None].repeat(k, 1)[found.negatives >= 0]).all())

    def both_engines(self, *arguments):
        self.compare(*arguments)
        with mock.patch.object(_mine, "_BLOCK", 700):  # many blocks
            self.compare(*arguments)
            with mock.patch.object(_mine, "_engine", lambda documents, device: _mine._NumPy(documents)):
                self.compare(*arguments)

    def test_against_all_pairs(self):
        q, d = data()
        rng = np.random.default_rng(1)
        positives = [rng.choice(len(d), size=i % 4, replace=False).tolist() for i in range(len(q))]
        for alpha in (0.001, 0.01, 0.1, 0.5):
            with self.subTest(alpha):
                self.both_engines(alpha, 5, positives, q, d)

    def test_few_documents(self):
        q, d = data(5, 6)
        self.both_engines(0.3, 10, [[0], [1, 2, 3, 4, 5], [0, 1, 2, 3, 4, 5][:4], [], [5]], q, d)
        found = glofnd.mine(q, d, [list(range(6))] * 5, 2)
        self.assertTrue(np.isnan(found.threshold).all() and (found.negatives == -1).all() and not found.above.any())

    def test_thresholds_are_the_librarys(self):
        q, d = data(30, 500)
        positive = np.arange(30)
        for alpha in (0.004, 0.02, 0.1):
            want = thresholds(q, d, alpha, skip=positive)
            np.testing.assert_allclose(glofnd.mine(q, d, positive, alpha=alpha).threshold, want, atol=2e-6)

    def test_copies_of_a_positive_are_no_negatives(self):
        q, d = data(4, 50)
        d[30] = d[0]
        d[31] = 2 * d[0]
        q[0] = d[0] + 0.01
        found = glofnd.mine(q, d, [0, 1, 2, 3], 49, alpha=0.01)
        self.assertFalse({0, 30} & set(found.negatives[0].tolist() + found.false_negatives().document[:1].tolist()))
        self.assertIn([0, 30], found.positives.tolist())
        texts = [f"text {i % 45}" for i in range(50)]
        found = glofnd.mine(["a", "b"], texts, [0, 7], 49, embed=lambda x: np.eye(50, dtype=np.float32)[[sum(map(ord, t)) % 50 for t in x]])
        self.assertNotIn(45, found.negatives[0].tolist())
        self.assertIn(45, found.negatives[1].tolist() + found.false_negatives().document.tolist())

    def test_kinds_of_positives(self):
        q, d = data(6, 40)
        want = glofnd.mine(q, d, [[0], [1], [2], [3], [4], [5]]).negatives
        kinds = [np.arange(6), list(range(6)), {i: [i] for i in range(6)}, [(i, -1) for i in range(6)]]
        if "scipy" in sys.modules or __import__("importlib.util").util.find_spec("scipy"):
            from scipy.sparse import eye
            kinds.append(eye(6, 40))
        for positives in kinds:
            self.assertTrue(np.array_equal(glofnd.mine(q, d, positives).negatives, want))
        self.assertFalse(np.array_equal(glofnd.mine(q, d, [[]] * 6).negatives, want))


class Output(unittest.TestCase):
    def setUp(self):
        self.embed = lambda texts: np.stack([np.random.default_rng(len(t) * 7 + ord(t[-1])).normal(size=8) for t in texts])
        self.queries, self.documents = [f"q{i}" for i in range(5)], [f"doc {'x' * i}" for i in range(30)]

    def mined(self, **options):
        return glofnd.mine(self.queries, self.documents, [[i, i + 5] for i in range(5)], 3, alpha=0.1, embed=self.embed, **options)

    def test_rows(self):
        found = self.mined()
        rows = list(found.rows())
        self.assertEqual(len(rows), 5 * 2 * 3)
        self.assertEqual(rows[0], {"anchor": "q0", "positive": "doc ", "negative": self.documents[found.negatives[0, 0]]})
        rows = list(found.rows(format="n-tuple"))
        self.assertEqual(len(rows), 10)
        self.assertEqual(list(rows[0]), ["anchor", "positive", "negative_1", "negative_2", "negative_3"])
        self.assertIn("5 queries, 15 hard negatives", repr(found))

    def test_dataset(self):
        try:
            import datasets  # noqa: F401
        except ImportError:
            self.skipTest("datasets is not installed")
        table = self.mined().to_dataset()
        self.assertEqual(table.column_names, ["anchor", "positive", "negative"])
        self.assertEqual(len(table), 30)

    def test_files(self):
        found, told = self.mined(), []
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "mined")
            found.save(path)
            self.assertEqual(sorted(os.listdir(path)), ["false_negatives.tsv", "negatives.npy", "threshold.npy", "train.jsonl"])
            with open(os.path.join(path, "train.jsonl"), encoding="utf-8") as file:
                self.assertEqual([json.loads(line) for line in file], list(found.rows()))
            with open(os.path.join(path, "false_negatives.tsv")) as file:
                self.assertEqual(len(file.readlines()), 1 + len(found.false_negatives().query))
            self.assertTrue(np.array_equal(np.load(os.path.join(path, "negatives.npy")), found.negatives))
            with self.assertRaisesRegex(glofnd.FileError, "exists"):
                found.save(path)
        self.mined(progress=told.append)
        self.assertEqual(told, [1.0])

    def test_wrong_use(self):
        q, d = data(4, 10)
        bad = d.copy()
        bad[3, 0] = np.nan
        for kind, text, call in (
                (glofnd.ArgumentError, "queries are texts; give embed=", lambda: glofnd.mine(["a"], d, [0])),
                (glofnd.ArgumentError, "queries have 16 dimensions, documents 8", lambda: glofnd.mine(q, d[:, :8], [0] * 4)),
                (glofnd.ArgumentError, "positives are of 3 queries; there are 4", lambda: glofnd.mine(q, d, [0] * 3)),
                (glofnd.ArgumentError, "document 10; there are 0 .. 9", lambda: glofnd.mine(q, d, [10] * 4)),
                (glofnd.ArgumentError, "expected for each query the row", lambda: glofnd.mine(q, d, ["a"] * 4)),
                (glofnd.ArgumentError, "k is 0", lambda: glofnd.mine(q, d, [0] * 4, 0)),
                (glofnd.ArgumentError, r"alpha is 1; expected a number in \(0, 1\)", lambda: glofnd.mine(q, d, [0] * 4, alpha=1)),
                (glofnd.NumericError, r"documents\[3\] is not finite", lambda: glofnd.mine(q, bad, [0] * 4)),
                (glofnd.ArgumentError, "embed made 2 embeddings of 4 queries", lambda: glofnd.mine(list("abcd"), d, [0] * 4, embed=lambda x: q[:2])),
                (glofnd.ArgumentError, "give the texts", lambda: glofnd.mine(q, d, [0] * 4).to_dataset()),
                (glofnd.ArgumentError, "format is 'pairs'", lambda: list(self.mined().rows(format="pairs")))):
            with self.subTest(text), self.assertRaisesRegex(kind, text):
                call()


if __name__ == "__main__":
    unittest.main()

"""Level 1: glofnd.discover() against all pairs in plain NumPy, every kind of input, and the files of the program."""

import gc
import importlib.util
import json
import os
import pathlib
import pickle
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest

import numpy as np

import glofnd

N, DIM, BAD, ZERO, COPY, OF = 300, 24, 11, 50, 200, 20
ROOT = os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", "..")


def draw(seed=0, n=N):
    rng = np.random.default_rng(seed)
    centers = rng.normal(size=(12, DIM))
    labels = np.arange(n) % 12
    x = (centers[labels] + 0.5 * rng.normal(size=(n, DIM))).astype(np.float32)
    return x, labels


def damaged():
    x, labels = draw()
    x[BAD, 3] = np.nan
    x[ZERO] = 0
    x[COPY] = x[OF]
    return x, labels


def program():
    """The program beside the library that is tested, or None."""
    places = [os.path.join(os.path.dirname(glofnd._lib.library_path()), "glofnd"), os.path.join(ROOT, "build", "glofnd"),
              os.environ.get("GLOFND_PROGRAM", "")]
    return next((place for place in places if place and os.access(place, os.X_OK) and not os.path.isdir(place)), None)


def brute(x, rank, usable):
    """Similarities in float64 (-inf: no pair), thresholds."""
    unit = np.zeros(x.shape)
    unit[usable] = x[usable] / np.linalg.norm(x[usable].astype(np.float64), axis=1, keepdims=True)
    s = unit @ unit.T
    s[:, ~usable] = s[~usable, :] = -np.inf
    np.fill_diagonal(s, -np.inf)
    return s, -np.sort(-s, axis=1)[:, rank - 1]


def roots(edges, n):
    """Smallest member of the component of every node."""
    root = list(range(n))

    def find(i):
        while root[i] != i:
            i = root[i]
        return i
    for a, b in edges:
        a, b = find(a), find(b)
        root[max(a, b)] = min(a, b)
    return np.array([find(i) for i in range(n)])


class Numbers(unittest.TestCase):
    def test_all_pairs_in_numpy(self):
        x, labels = damaged()
        usable = np.ones(N, bool)
        usable[[BAD, ZERO]] = False
        for options, rank in (({"alpha": 0.05}, int(np.ceil(0.05 * (N - 3)))), ({"k": 7}, 8), ({"alpha": 0.05, "threads": 1}, 15)):
            with self.subTest(**options):
                found = glofnd.discover(x, labels=labels, top=20, **options)
                s, threshold = brute(x, rank, usable)
                self.assertEqual((found.rank, found.usable, found.n, found.top), (rank, N - 2, N, 20))
                np.testing.assert_array_equal(found.bad_rows, [BAD, ZERO])
                self.assertTrue(np.isnan(found.threshold[[BAD, ZERO]]).all())
                np.testing.assert_allclose(found.threshold[usable], threshold[usable], atol=2e-6)
                pairs = found.pairs()
                above = s > found.threshold[:, None].astype(np.float64) + 1e-6
                np.testing.assert_array_equal(np.stack([pairs.anchor, pairs.other], 1)[np.lexsort((pairs.other, pairs.anchor))],
                                              np.argwhere(above))
                np.testing.assert_allclose(pairs.similarity, s[pairs.anchor, pairs.other], atol=2e-6)
                np.testing.assert_array_equal(pairs.mutual, pairs.similarity > found.threshold[pairs.other])
                np.testing.assert_array_equal(found.above, above.sum(1))
                np.testing.assert_array_equal(found.mutual, (above & above.T).sum(1))
                np.testing.assert_array_equal(found.same_label, (above & (labels[:, None] == labels)).sum(1))
                order = np.argsort(-s[usable], axis=1, kind="stable")[:, :20]
                np.testing.assert_allclose(found.similarities[usable], np.take_along_axis(s[usable], order, 1), atol=2e-6)
                self.check_components(found, above & above.T)
                self.check_precision(found, above, labels, usable)

    def check_components(self, found, mutual):
        root = roots(np.argwhere(np.triu(mutual)), N)
        connected = mutual.any(1)
        np.testing.assert_array_equal(found.component >= 0, connected)
        table = found.components()
        np.testing.assert_array_equal(table.first[found.component[connected]], root[connected])
        for number in range(len(table.rows)):
            members = found.members(number)
            self.assertEqual((len(members), mutual[np.ix_(members, members)].sum() // 2),
                             (table.rows[number], table.pairs[number]))

    def check_precision(self, found, above, labels, usable):
        same = (labels[:, None] == labels) & usable & usable[:, None] & ~np.eye(N, dtype=bool)
        hits = (above & same).sum(1)[usable]
        precision = np.where(above.sum(1)[usable] > 0, hits / np.maximum(above.sum(1)[usable], 1), 1).mean()
        recall = (hits / np.maximum(same.sum(1)[usable], 1)).mean()
        self.assertAlmostEqual(found.precision, precision, places=12)
        self.assertAlmostEqual(found.recall, recall, places=12)

    def test_duplicates(self):
        x, _ = damaged()
        near = glofnd.discover(x, alpha=0.05, duplicates=0.999).duplicates()
        self.assertIn((OF, COPY, True), list(zip(near.a, near.b, near.exact)))
        exact = glofnd.discover(x, alpha=0.05, duplicates="exact")
        self.assertEqual(exact.duplicates().a.tolist(), [OF])
        self.assertEqual(exact.members(0, duplicates=True).tolist(), [OF, COPY])
        self.assertEqual(exact.components(duplicates=True).rows.tolist(), [2])

    def test_limits_of_lists(self):
        x, _ = draw()
        every, few = glofnd.discover(x, alpha=0.05), glofnd.discover(x, alpha=0.05, max_pairs=100)
        self.assertEqual((len(few.other), few.pairs_above), (100, every.pairs_above))
        self.assertGreaterEqual(few.similarity.min(), np.sort(every.similarity)[-100])
        self.assertEqual(glofnd.discover(x, alpha=0.05, top=0).neighbours.shape, (N, 0))

    def test_memory_of_a_result_outlives_it(self):
        x, _ = draw()
        threshold = glofnd.discover(x, alpha=0.05).threshold
        gc.collect()
        np.testing.assert_array_equal(threshold, glofnd.discover(x, alpha=0.05).threshold)

    def test_pickle(self):
        found = pickle.loads(pickle.dumps(glofnd.discover(draw()[0], k=3)))
        np.testing.assert_array_equal(found.pairs().other, glofnd.discover(draw()[0], k=3).pairs().other)
        with self.assertRaisesRegex(glofnd.ArgumentError, "pickled"):
            found.save("nowhere")


class Inputs(unittest.TestCase):
    def setUp(self):
        self.x, _ = draw()
        self.expected = glofnd.discover(self.x, alpha=0.05)

    def same(self, embeddings, expected=None):
        got = glofnd.discover(embeddings, alpha=0.05)
        for name in ("threshold", "neighbours", "similarities", "other", "component"):
            np.testing.assert_array_equal(getattr(got, name), getattr(expected or self.expected, name))

    def test_numpy(self):
        wide = np.zeros((N, DIM + 5), np.float32)
        wide[:, :DIM] = self.x
        for array in (self.x, np.asfortranarray(self.x), wide[:, :DIM], self.x.astype(np.float64), self.x.astype(">f4"),
                      self.x[::-1][::-1], self.x.tolist()):
            self.same(array)
        half = self.x.astype(np.float16)
        self.same(half, glofnd.discover(half.astype(np.float32), alpha=0.05))

    def test_file_and_memory_map(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "x.npy")
            np.save(path, self.x)
            self.same(path)
            self.same(np.load(path, mmap_mode="r"))

    def test_shards(self):
        self.same([self.x[:100], self.x[100:]])
        self.same(self.x[i:i + 64] for i in range(0, N, 64))
        with self.assertRaisesRegex(glofnd.ArgumentError, "shard 1 has 3 dimensions"):
            glofnd.discover([self.x, self.x[:, :3]])
        with self.assertRaisesRegex(glofnd.ArgumentError, "empty"):
            glofnd.discover(iter([]))

    def test_dlpack(self):
        class Foreign:
            def __init__(self, array):
                self.array = array

            def __dlpack__(self, **options):
                return self.array.__dlpack__(**options)

            def __dlpack_device__(self):
                return self.array.__dlpack_device__()
        if not hasattr(np, "from_dlpack"):
            self.skipTest("this NumPy has no from_dlpack")
        self.same(Foreign(self.x))

    @unittest.skipUnless(importlib.util.find_spec("torch"), "PyTorch is not installed")
    def test_torch(self):
        import torch
        tensor = torch.tensor(self.x)
        for x in (tensor, tensor.double(), tensor.t().contiguous().t(), tensor.requires_grad_(), list(tensor.split(64))):
            self.same(x)
        for dtype in (torch.bfloat16, torch.float16):
            rounded = torch.tensor(self.x).to(dtype)
            self.same(rounded, glofnd.discover(rounded.float().numpy(), alpha=0.05))

    @unittest.skipUnless(importlib.util.find_spec("pandas"), "pandas is not installed")
    def test_names_from_the_index_of_pandas(self):
        import pandas
        texts = [f"image {i}.jpg" for i in range(N)]
        table, numbers = pandas.DataFrame(self.x), pandas.RangeIndex(100, 100 + N)
        pairs = pandas.MultiIndex.from_tuples([("train", text) for text in texts])
        for index, names in ((texts, texts), (pandas.Index(texts, dtype="category"), texts), (pandas.Index(texts, name="file"), texts),
                             (numbers.rename("id"), [str(i) for i in numbers]), (pairs, ["train/" + text for text in texts]),
                             ([None, *texts[1:]], ["", *texts[1:]]), (numbers, None), (pandas.Index(list(numbers)[::-1]), None),
                             (pandas.Index([i / 2 for i in range(N)]), None)):
            with self.subTest(index=str(index)[:60]):
                self.assertEqual(glofnd.discover(table.set_axis(index), alpha=0.05).names, names)
                self.assertEqual(glofnd.discover(pandas.Series(list(self.x), index=index), alpha=0.05).names, names)
        self.assertIsNone(glofnd.discover(table, alpha=0.05).names)
        named = table.set_axis(texts)
        self.same(named)
        self.assertEqual(glofnd.discover(named, alpha=0.05, names=texts[::-1]).names, texts[::-1])
        found = glofnd.discover(named, alpha=0.05).to_pandas()
        self.assertEqual(found.anchor_name[0], texts[found.anchor[0]])
        with self.assertRaisesRegex(glofnd.ArgumentError, "name 0 has a zero byte"):
            glofnd.discover(table.set_axis(["a\0", *texts[1:]]), alpha=0.05)

    @unittest.skipUnless(importlib.util.find_spec("pandas"), "pandas is not installed")
    def test_pandas(self):
        import pandas
        self.same(pandas.DataFrame(self.x))
        self.same(pandas.Series(list(self.x)))
        ragged = pandas.Series([*self.x[:5], self.x[5][:2]])
        for wrong, text in ((ragged, "^row 5 of the column"), (pandas.DataFrame({"emb": ragged, "class": "a"}), "'emb', 'class'.*df.'emb'.")):
            with self.assertRaisesRegex(glofnd.ArgumentError, text):
                glofnd.discover(wrong)
        rows = [row.tolist() for row in self.x]
        self.null_rows(rows, pandas.Series)
        with self.assertRaisesRegex(glofnd.ArgumentError, "^row 3 .*no number"):
            glofnd.discover(pandas.Series([*rows[:3], ["a", "b"]]))
        labelled = glofnd.discover(self.x, alpha=0.05, labels=["even", "odd"] * (N // 2)).to_pandas()
        self.assertEqual({*labelled.anchor_label, *labelled.other_label}, {"even", "odd"})
        table = self.expected.to_pandas()
        self.assertEqual(list(table.columns), ["anchor", "other", "similarity", "threshold", "mutual"])
        self.assertEqual(len(table), len(self.expected.other))
        for name in ("anchors", "duplicates", "components", "duplicate_groups"):
            self.expected.to_pandas(name)

    @unittest.skipUnless(importlib.util.find_spec("pyarrow"), "pyarrow is not installed")
    def test_pyarrow(self):
        import pyarrow
        flat = pyarrow.array(self.x.reshape(-1))
        fixed = pyarrow.FixedSizeListArray.from_arrays(flat, DIM)
        self.same(fixed)
        self.same(pyarrow.array(list(self.x)))
        self.same(pyarrow.chunked_array([fixed[:100], fixed[100:]]))
        with self.assertRaisesRegex(glofnd.ArgumentError, "^row 2 of the column has 1 numbers, row 0 2"):
            glofnd.discover(pyarrow.array([[1.0, 2.0], None, [1.0]]))
        with self.assertRaisesRegex(glofnd.ArgumentError, "table.'emb'."):
            glofnd.discover(pyarrow.table({"id": [1, 2], "emb": [[1.0, 2.0], [1.0, 2.0]]}))
        self.same(pyarrow.table({str(i): self.x[:, i] for i in range(DIM)}))
        rows = [row.tolist() for row in self.x]
        self.null_rows(rows, lambda x: pyarrow.array(x, pyarrow.list_(pyarrow.float32())))
        self.null_rows(rows, lambda x: pyarrow.array(x, pyarrow.list_(pyarrow.float32(), DIM)))

    def null_rows(self, rows, make):
        """Null rows, and rows with a null number, are bad rows as in the program; others have the numbers of an array with NaN."""
        rows, same = list(rows), self.x.copy()
        rows[0] = rows[7] = None
        rows[9] = [*rows[9][:-1], None]
        same[[0, 7, 9]] = np.nan
        expected = glofnd.discover(same, alpha=0.05)
        found = glofnd.discover(make(rows), alpha=0.05)
        self.assertEqual(found.bad_rows.tolist(), [0, 7, 9])
        self.assertEqual(found.threshold.tobytes(), expected.threshold.tobytes())
        with self.assertRaisesRegex(glofnd.ArgumentError, "all 3 rows are null"):
            glofnd.discover(make([None] * 3))

    def test_null_rows_of_lists(self):
        self.null_rows([row.tolist() for row in self.x], list)
        found = glofnd.discover([None, *self.x], k=2)
        self.assertEqual(found.bad_rows.tolist(), [0])
        self.assertEqual(found.threshold[1:].tobytes(), glofnd.discover(self.x, k=2).threshold.tobytes())

    def test_wrong_use(self):
        for text, call in (
                ("exclude each other", lambda: glofnd.discover(self.x, alpha=0.1, k=3)),
                ("expected a number in \\(0, 1\\)", lambda: glofnd.discover(self.x, alpha=1.5)),
                ("can be at most", lambda: glofnd.discover(self.x, k=N)),
                ("expected \\[samples\\]", lambda: glofnd.discover(self.x[0])),
                ("expected numbers", lambda: glofnd.discover(np.array([["a", "b"]]))),
                ("one per embedding", lambda: glofnd.discover(self.x, labels=[1, 2])),
                ("2 names for", lambda: glofnd.discover(self.x, names=["a", "b"])),
                ("'cpu' or 'cuda'", lambda: glofnd.discover(self.x, device="tpu")),
                ("need at least two usable rows", lambda: glofnd.discover(self.x[:1])),
                ("are of type int", lambda: glofnd.discover(7))):
            with self.subTest(text), self.assertRaisesRegex(ValueError, text):
                call()

    def test_text_labels(self):
        one = glofnd.discover(self.x, alpha=0.05, labels=np.arange(N) % 12)
        two = glofnd.discover(self.x, alpha=0.05, labels=[f"class {i % 12:02}" for i in range(N)])
        self.assertEqual((one.precision, one.f1), (two.precision, two.f1))
        self.assertEqual((one.classes, two.classes), (None, [f"class {i:02}" for i in range(12)]))
        self.assertEqual(one.labels.tolist(), two.labels.tolist())
        for given, labels, classes in ((["7", "", "-3", "12"], [7, -1, -1, 12], None), (["b", None, "é", "b"], [0, -1, 1, 0], ["b", "é"]),
                                       ([2.0, float("nan"), 0.0, 2.0], [2, -1, 0, 2], None),
                                       ([True, False, True, True], [1, 0, 1, 1], ["False", "True"])):
            found = glofnd.discover(self.x[:4], k=1, labels=given)
            self.assertEqual((found.labels.tolist(), found.classes), (labels, classes))

    def test_rows_to_keep_and_the_hint_of_a_small_alpha(self):
        x, _ = damaged()
        found = glofnd.discover(x, alpha=0.05)
        self.assertEqual(found.remove.tolist(), [BAD, ZERO, COPY])
        self.assertEqual(sorted([*found.keep, *found.remove]), list(range(N)))
        self.assertNotIn("larger alpha", str(found))
        self.assertIn("1 pair in 1 group\n", str(found) + "\n")
        self.assertIn(f"keep        {N - 3} of {N} rows", str(found))
        self.assertIn("use a larger alpha, or k", str(glofnd.discover(x[:9], alpha=0.01)))


class Decisions(unittest.TestCase):
    """Rows to keep, outliers, labels, leaks: by definition, and as the program writes them."""

    def setUp(self):
        self.x, self.labels = damaged()
        self.unit = self.x / np.maximum(np.linalg.norm(self.x, axis=1, keepdims=True), 1e-9)

    def test_a_row_is_removed_for_a_kept_one_alone(self):
        score = np.random.default_rng(1).normal(size=N)
        for rule in ("first", "central", "label", score):
            found = glofnd.discover(self.x, k=5, labels=self.labels, duplicates=0.9, keep=rule)
            gone = found.removed()
            real = gone.kept >= 0
            self.assertEqual(gone.row[~real].tolist(), [BAD, ZERO])
            self.assertTrue(np.isin(gone.kept[real], found.keep).all())
            exact = (self.unit[gone.row[real]] * self.unit[gone.kept[real]]).sum(1)
            self.assertGreater(exact.min(), 0.9 - 1e-5)
            np.testing.assert_allclose(gone.similarity[real], exact, atol=2e-6)
            kept = self.unit[found.keep] @ self.unit[found.keep].T - 2 * np.eye(len(found.keep))
            self.assertLess(kept.max(), 0.9 + 1e-5)  # no two kept rows are duplicates
            if rule is score:
                self.assertTrue((score[gone.kept[real]] >= score[gone.row[real]]).all())

    def test_duplicates_of_dense_rows(self):
        """Natural neighbours of a dense cloud are no duplicates, and rows= keeps as many as asked."""
        random = np.random.default_rng(2)
        x = (3 + 0.6 * random.normal(size=(600, 6))).astype(np.float32)
        x[580:] = x[:20] * (1 + 0.005 * random.normal(size=(20, 6)))
        found = glofnd.discover(x, k=5)
        self.assertGreater(found.duplicate_limit, 0.99)
        self.assertTrue(np.isin(np.arange(580, 600), found.remove).all())
        self.assertLess(len(found.remove), 150)  # 589 at 0.98
        self.assertEqual(glofnd.discover(x, k=5, duplicates=0.98).duplicate_limit, 0.98)
        for rows in (599, 400):
            found.decide(rows=rows)
            self.assertEqual(len(found.keep), rows)
            self.assertGreaterEqual(found.removed().similarity.min(), np.float32(found.keep_limit))
            self.assertTrue(np.isin(found.removed().kept, found.keep).all())
        np.testing.assert_array_equal(glofnd.discover(x, k=5, rows=400).keep, found.keep)
        with self.assertRaisesRegex(glofnd.ArgumentError, "raise top"):
            found.decide(rows=2)

    def test_new_rows_against_a_stored_result(self):
        random = np.random.default_rng(8)
        x = random.normal(size=(300, 16)).astype(np.float32)
        new = np.concatenate([x[40:60], random.normal(size=(30, 16))]).astype(np.float32)
        new[3] = np.nan
        stored = glofnd.discover(x, k=5)
        found = glofnd.discover(x, query=new, stored=stored, names=[f"old {i}" for i in range(300)])
        unit = lambda a: a / np.linalg.norm(a, axis=1, keepdims=True)  # noqa: E731
        s = unit(new) @ unit(x).T
        self.assertEqual((found.n, found.dim, list(found.bad_rows)), (50, 16, [3]))
        for i in (0, 10, 49):
            best = np.argsort(-s[i], kind="stable")
            np.testing.assert_array_equal(found.neighbours[i], best[:20])
            self.assertAlmostEqual(float(found.threshold[i]), float(s[i, best[5]]), places=5)
        pairs = found.pairs()
        np.testing.assert_array_equal(pairs.mutual, pairs.similarity > stored.threshold[pairs.other])
        copies = found.duplicates()
        np.testing.assert_array_equal(copies.a, np.delete(np.arange(20), 3))
        np.testing.assert_array_equal(copies.b, copies.a + 40)
        self.assertTrue(copies.exact.all())
        self.assertEqual(found.to_pandas("duplicates").b_name[0] if importlib.util.find_spec("pandas") else "old 40", "old 40")
        with tempfile.TemporaryDirectory() as folder:
            stored.save(os.path.join(folder, "stored"))
            again = glofnd.discover(x, query=new, stored=os.path.join(folder, "stored"), out=os.path.join(folder, "out"))
            self.assertIn("against     300 of memory", pathlib.Path(folder, "out", "summary.txt").read_text())
            with self.assertRaisesRegex(glofnd.ArgumentError, "different embeddings"):
                glofnd.discover(x[:200], query=new, stored=os.path.join(folder, "stored"))
        np.testing.assert_array_equal(again.neighbours, found.neighbours)
        for wrong, text in ((dict(query=new), "go together"), (dict(query=new[:, :3], stored=stored), "dimensions")):
            with self.assertRaisesRegex(glofnd.ArgumentError, text):
                glofnd.discover(x, **wrong)
        with self.assertRaisesRegex(glofnd.ArgumentError, "nothing to decide"):
            found.decide()

    def test_an_outlier_that_exists_twice_is_found(self):
        x = np.concatenate([self.x, -self.x[:2], -self.x[:2]])
        found = glofnd.discover(x, k=5)
        self.assertEqual(sorted(found.outliers().row[:4].tolist()), [N, N + 1, N + 2, N + 3])

    def test_planted_labels_come_first(self):
        labels = self.labels.copy()
        wrong = [30, 77, 150, 263]
        labels[wrong] = (labels[wrong] + 5) % 12
        doubts = glofnd.discover(self.x, k=5, labels=labels).label_issues()
        self.assertEqual(sorted(doubts.row[:4].tolist()), wrong)
        self.assertEqual(doubts.suggested[:4].tolist(), self.labels[doubts.row[:4]].tolist())
        # Rows 30 and 150 are of one class, and have one label: that may be usual.
        self.assertEqual((doubts.probability[:4] > 0.5).tolist(), [row in (77, 263) for row in doubts.row[:4]])

    def test_a_probe_is_evidence_about_labels(self):
        labels = self.labels.copy()
        wrong = [30, 77, 150, 263]
        labels[wrong] = (labels[wrong] + 5) % 12
        found = glofnd.discover(self.x, k=5, labels=labels, probe=True)
        doubts = found.label_issues()
        self.assertEqual(sorted(doubts.row[:4].tolist()), wrong)
        self.assertTrue((doubts.probability[:4] > 0.9).all())
        self.assertFalse(np.array_equal(doubts.score, found.decide().label_issues().score))
        self.assertTrue(np.array_equal(doubts.score, found.decide(probe=True).label_issues().score))
        with self.assertRaises(glofnd.OptionError) as caught:
            glofnd.discover(self.x, k=5, probe=True)
        self.assertIn("needs labels", str(caught.exception))

    def test_center_subtracts_the_mean(self):
        x = self.x + 50
        at = glofnd.discover(x, k=5, center=True)
        here = glofnd.discover(x - x[np.isfinite(x).all(1)].mean(0), k=5)
        self.assertTrue(np.allclose(at.threshold, here.threshold, atol=1e-4, equal_nan=True))
        self.assertTrue((at.neighbours[:, 0] == here.neighbours[:, 0]).mean() > 0.99)
        new = x[:7] * np.float32(1.001)
        with tempfile.TemporaryDirectory() as folder:
            at.save(folder + "/a")
            again = glofnd.discover(x, query=new, stored=folder + "/a", center=True)
        self.assertEqual(again.neighbours[:, 0].tolist(), list(range(7)))

    def test_probabilities_decide_on_labels(self):
        labels = self.labels.copy()
        labels[[30, 77]] = (labels[[30, 77]] + 5) % 12
        shares = np.full((N, 12), 0.02)
        shares[np.arange(N), self.labels] = 0.78
        found = glofnd.discover(self.x, k=5, labels=labels).decide(pred_probs=shares)
        doubts = found.label_issues()
        self.assertEqual((doubts.row.tolist(), doubts.suggested.tolist()), ([30, 77], self.labels[[30, 77]].tolist()))
        with self.assertRaises(glofnd.ArgumentError) as caught:
            found.decide(pred_probs=shares[:5])
        self.assertIn("expected (300, classes)", str(caught.exception))

    def test_leaks_between_splits(self):
        parts = self.x[:150], self.x[150:]
        found = glofnd.leaks(*parts, duplicates="exact")
        self.assertEqual((found.splits, found.split_leaks.tolist()), (["train", "test"], [[0, 1], [1, 0]]))
        self.assertEqual([list(column) for column in found.leaks()[:2]], [[OF], [COPY]])
        self.assertIn(OF, found.keep)
        with tempfile.TemporaryDirectory() as folder:
            for name, part in zip("ab", parts):
                np.save(os.path.join(folder, name + ".npy"), part)
            again = glofnd.leaks(*(os.path.join(folder, name) for name in ("a.npy", "b.npy")), duplicates="exact", names=("a", "b"))
            self.assertEqual(again.split_leaks.tolist(), found.split_leaks.tolist())
            self.assertEqual(again.splits, ["a", "b"])
            for rows, code in (("a.npy b.npy", 1), ("a.npy c.npy", 0)):
                np.save(os.path.join(folder, "c.npy"), parts[1][60:])
                call = [sys.executable, "-m", "glofnd", "leaks", *(os.path.join(folder, name) for name in rows.split()), "--duplicates", "exact"]
                self.assertEqual(subprocess.run(call, capture_output=True).returncode, code)

    def test_negatives_and_a_subset(self):
        found = glofnd.discover(self.x, k=5, negatives=3, sample=10)
        below = found.negatives[0]
        self.assertTrue((self.unit[0] @ self.unit[below].T <= found.threshold[0] + 1e-6).all())
        self.assertEqual(len(set(found.sample.tolist())), 10)

    def test_wrong_decisions_are_refused(self):
        found = glofnd.discover(self.x, k=5)
        for options, words in (({"keep": "best"}, "expected 'first'"), ({"keep": [1.0, 2.0]}, "a number of each of the 300 rows"),
                               ({"splits": {"a": (0, 10), "b": (5, 20)}}, "share rows"), ({"splits": {"a": 3}}, "expected (first, end)"),
                               ({"splits": {"a": (0, 301)}}, "there are 300"), ({"sample": -1}, "sample")):
            with self.assertRaises(glofnd.ArgumentError) as caught:
                found.decide(**options)
            self.assertIn(words, str(caught.exception))

    def test_tables_are_frames(self):
        if not importlib.util.find_spec("pandas"):
            self.skipTest("pandas is not installed")
        found = glofnd.discover(self.x, k=5, labels=self.labels, splits={"a": (0, 150), "b": (150, 300)}, duplicates=0.9)
        for table, columns in (("remove", "row kept similarity"), ("outliers", "row nearest score outlier"),
                               ("label_issues", "row suggested score probability"), ("leaks", "a b similarity")):
            self.assertEqual(list(found.to_pandas(table).columns)[:len(columns.split())], columns.split())


class InFiles(unittest.TestCase):
    """Paths are read by the library, as the program reads them."""

    def setUp(self):
        self.x, self.labels = damaged()
        self.names = [f"näme {i}\t" for i in range(N)]
        self.expected = glofnd.discover(self.x, k=5)
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def at(self, name):
        return os.path.join(self.folder.name, name)

    def same(self, embeddings, **options):
        found = glofnd.discover(embeddings, k=5, **options)
        for name in ("threshold", "neighbours", "similarities", "other", "component", "kind"):
            np.testing.assert_array_equal(getattr(found, name), getattr(self.expected, name))
        return found

    def tensors(self, path, **arrays):
        header, at = {"__metadata__": {"made \"by\"": "\u00e9\ud83d\ude00"}}, 0
        for name, array in arrays.items():
            header[name] = {"dtype": {"f": "F32", "i": "I32"}[array.dtype.kind], "shape": list(array.shape),
                            "data_offsets": [at, at + array.nbytes]}
            at += array.nbytes
        text = json.dumps(header).encode()
        with open(path, "wb") as file:
            file.write(len(text).to_bytes(8, "little") + text + b"".join(array.tobytes() for array in arrays.values()))

    def test_shards_of_arrays(self):
        for i, rows in enumerate(np.array_split(self.x, 12)):
            np.save(self.at(f"emb_{i}.npy"), rows if i % 2 else np.asfortranarray(rows.astype(">f8")))
        shards = [self.at(f"emb_{i}.npy") for i in range(12)]
        for paths in (shards, tuple(map(pathlib.Path, shards)), self.folder.name, pathlib.Path(self.folder.name),
                      self.at("emb_{0..11}.npy"), self.at("emb_*.npy"), [self.at("emb_{0..4}.npy"), *shards[5:]]):
            self.same(paths)
        self.same(path for path in shards)
        self.same([self.x[:25], *shards[1:]])

    def test_tensors(self):
        path = self.at("x.safetensors")
        self.tensors(path, ids=np.arange(N, dtype=np.int32), emb=self.x)
        self.same(path)
        self.tensors(path, emb=self.x, other=self.x[:3])
        self.same(path, tensor="emb")
        with self.assertRaisesRegex(glofnd.ArgumentError, "choose one with tensor=NAME: emb, other"):
            glofnd.discover(path, k=5)

    def test_archives(self):
        np.savez(self.at("x.npz"), emb=self.x, labels=self.labels)
        self.same(self.at("x.npz"))
        np.savez_compressed(self.at("y.npz"), a=self.x, b=self.x)
        with self.assertRaisesRegex(glofnd.ArgumentError, "holds 2 matrices: a, b"):
            glofnd.discover(self.at("y.npz"), k=5)
        with open(self.at("z.npz"), "wb") as file:
            file.write(b"PK\3\4 nothing")
        with self.assertRaisesRegex(glofnd.FormatError, "cannot be read"):
            glofnd.discover(self.at("z.npz"), k=5)

    @unittest.skipUnless(importlib.util.find_spec("torch"), "PyTorch is not installed")
    def test_torch_files(self):
        import torch
        for saved in (torch.tensor(self.x), {"emb": torch.tensor(self.x), "label": torch.tensor(self.labels)}):
            torch.save(saved, self.at("x.pt"))
            self.same(self.at("x.pt"))

    def test_tables(self):
        with open(self.at("x.csv"), "w", encoding="utf-8") as file:
            print("id", *[f"e{k}" for k in range(DIM)], "class", sep=",", file=file)
            for i, row in enumerate(self.x):
                cells = [repr(float(v)) if v == v else "" for v in row]
                print(i + 100, *cells, f"kind {self.labels[i]}" if i else "", sep=",", file=file)
        found = self.same(self.at("x.csv"), id="id", label_column="class")
        self.assertEqual(found.names[:2], ["100", "101"])
        self.assertEqual(found.labels[0], -1)
        self.assertEqual([found.classes[y] for y in found.labels[1:4]], ["kind 1", "kind 2", "kind 3"])

    @unittest.skipUnless(importlib.util.find_spec("pyarrow"), "pyarrow is not installed")
    def test_parquet(self):
        import pyarrow
        import pyarrow.parquet
        emb = pyarrow.array([None if not np.isfinite(row).all() else row for row in self.x], pyarrow.list_(pyarrow.float32()))
        table = pyarrow.table({"key": self.names, "emb": emb, "class": [f"kind {y}" for y in self.labels], "other": emb})
        for compression in ("none", "snappy", "gzip", "zstd", "lz4"):
            with self.subTest(compression):
                shutil.rmtree(self.at("parts"), ignore_errors=True)
                os.mkdir(self.at("parts"))
                for part in range(3):
                    pyarrow.parquet.write_table(table.slice(part * 100, 100), self.at(f"parts/part-{part}.parquet"),
                                                compression=compression, write_page_checksum=True)
                found = self.same(self.at("parts"), column="emb", id="key", label_column="class")
                self.assertEqual(found.names, self.names)
                self.assertEqual(found.classes, sorted({f"kind {y}" for y in self.labels}))
        with self.assertRaisesRegex(glofnd.Error, "column"):
            glofnd.discover(self.at("parts"), k=5)
        given = self.same(self.at("parts"), column="emb", id="key", names=list(map(str, range(N))), labels=self.labels)
        self.assertEqual((given.names[7], given.classes), ("7", None))

    @unittest.skipUnless(program(), "there is no program beside the library")
    def test_the_files_of_the_program(self):
        with open(self.at("x.tsv"), "w", encoding="utf-8") as file:
            print("name", *range(DIM), "label", sep="\t", file=file)
            for i, row in enumerate(self.x):
                print(f"row {i}", *[repr(float(v)) if v == v else "" for v in row], i % 7, sep="\t", file=file)
        glofnd.discover(self.at("x.tsv"), k=5, label_column="label").save(self.at("ours"))
        subprocess.run([program(), "discover", self.at("x.tsv"), "--k", "5", "--label-column", "label", "--quiet", "--out", self.at("theirs")],
                       check=True, capture_output=True)
        self.assertEqual(sorted(os.listdir(self.at("ours"))), sorted(os.listdir(self.at("theirs"))))
        for name in os.listdir(self.at("ours")):
            self.assertEqual(content(self.at(f"ours/{name}")), content(self.at(f"theirs/{name}")), name)

    def test_wrong_use(self):
        np.save(self.at("x.npy"), self.x)
        np.save(self.at("flat.npy"), self.x[0])
        np.save(self.at("objects.npy"), np.array([{}], object), allow_pickle=True)
        with open(self.at("empty.npy"), "wb"), open(self.at("cut.npy"), "wb") as file, open(self.at("x.npy"), "rb") as whole:
            file.write(whole.read()[:-5])
        with open(self.at("cut.parquet"), "wb") as file:
            file.write(b"PAR1")
        os.mkdir(self.at("nothing"))
        for kind, text, call in (
                (glofnd.FileError, "cannot be opened", lambda: glofnd.discover(self.at("missing.npy"), k=5)),
                (glofnd.FileError, "no such file", lambda: glofnd.discover(self.at("missing.npz"), k=5)),
                (glofnd.FileError, "no file matches", lambda: glofnd.discover(self.at("*.safetensors"), k=5)),
                (glofnd.FormatError, "not a Parquet file", lambda: glofnd.discover(self.at("cut.parquet"), k=5)),
                (glofnd.FileError, "has no .npy", lambda: glofnd.discover(self.at("nothing"), k=5)),
                (glofnd.FormatError, "one axis|an array with 1 axis", lambda: glofnd.discover(self.at("flat.npy"), k=5)),
                (glofnd.FormatError, "empty", lambda: glofnd.discover(self.at("empty.npy"), k=5)),
                (glofnd.Error, "cut.npy", lambda: glofnd.discover(self.at("cut.npy"), k=5)),
                (glofnd.FormatError, "objects.npy", lambda: glofnd.discover(self.at("objects.npy"), k=5)),
                (glofnd.OptionError, "^column names a column", lambda: glofnd.discover(self.at("x.npy"), k=5, column="emb")),
                (glofnd.OptionError, "^tensor names one", lambda: glofnd.discover(self.at("x.npy"), k=5, tensor="emb")),
                (glofnd.ArgumentError, "^id is 5; expected a name", lambda: glofnd.discover(self.at("x.npy"), k=5, id=5)),
                (glofnd.ArgumentError, "zero byte", lambda: glofnd.discover(self.at("x\0.npy"), k=5)),
                (glofnd.Error, "label_column", lambda: glofnd.discover(self.at("x.npy"), k=5, label_column="class")),
                (glofnd.ArgumentError, "exclude each other", lambda: glofnd.discover(self.at("x.npy"), labels=[1], label_column="class")),
                (glofnd.ArgumentError, "for files and tables with columns", lambda: glofnd.discover(self.x, column="emb")),
                (glofnd.ArgumentError, "empty", lambda: glofnd.discover("", k=5))):
            with self.subTest(text), self.assertRaisesRegex(kind, text):
                call()


class Progress(unittest.TestCase):
    def test_callback_and_stop(self):
        x, _ = draw(n=3000)
        shares = []
        glofnd.discover(x, progress=shares.append)
        self.assertTrue(shares and shares == sorted(shares) and shares[0] == 0.0 and shares[-1] <= 1.0)
        with self.assertRaisesRegex(glofnd.CancelledError, "cancelled"):
            glofnd.discover(x, progress=lambda share: False)

        def fails(share):
            raise RuntimeError("of the caller")
        with self.assertRaisesRegex(RuntimeError, "of the caller"):
            glofnd.discover(x, progress=fails)
        glofnd.discover(x, progress=True)

    def test_control_c(self):
        """Ctrl-C, sent by the search itself: the process ends by KeyboardInterrupt, not at the end of the search."""
        code = ("import os, signal, numpy, glofnd\n"
                "signal.signal(signal.SIGINT, signal.default_int_handler)  # a job in the background ignores it\n"
                "x = numpy.random.default_rng(0).normal(size=(4000, 8)).astype('float32')\n"
                "try:\n"
                "    glofnd.discover(x, progress=lambda share: os.kill(os.getpid(), signal.SIGINT))\n"
                "except KeyboardInterrupt:\n"
                "    print('stopped')\n")
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        self.assertEqual(done.stdout, "stopped\n")

    def test_control_c_from_outside(self):
        code = ("import signal, sys, time, numpy, glofnd\n"
                "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
                "x = numpy.random.default_rng(0).normal(size=(6000, 8)).astype('float32')\n"
                "calls = []\n"
                "def progress(share):\n"
                "    calls or (calls.append(1), print('begun', flush=True))\n"
                "    time.sleep(0.02)\n"
                "try:\n"
                "    for _ in range(1000):\n"
                "        glofnd.discover(x, progress=progress)\n"
                "except KeyboardInterrupt:\n"
                "    print('stopped', signal.getsignal(signal.SIGINT) is signal.default_int_handler)\n")
        with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
            self.assertEqual(process.stdout.readline(), "begun\n")
            process.send_signal(signal.SIGINT)
            out, errors = process.communicate()
        self.assertEqual((out, errors), ("stopped True\n", ""))

    def test_inputs_that_cannot_be_meant(self):
        x = np.eye(20, dtype=np.float32)
        for options in ({"alpha": 0.0}, {"alpha": 1.5}, {"k": 0}, {"top": -5}, {"max_pairs": 0}, {"memory": -1}, {"duplicates": 0},
                        {"duplicates": False}, {"alpha": "x"}, {"k": 2.5}, {"k": "3"}, {"k": True}, {"k": float("inf")}, {"top": 1 << 64},
                        {"names": "names.txt"}):
            with self.subTest(**options), self.assertRaises(glofnd.ArgumentError):
                glofnd.discover(x, **options)
        for wrong, text in (({"a": x}, "pass one of its arrays"), ([[1.0], [1.0, 2.0]], "different lengths")):
            with self.assertRaisesRegex(glofnd.ArgumentError, text):
                glofnd.discover(wrong)

    def test_files_and_vectors_as_lists(self):
        x = np.random.default_rng(0).normal(size=(40, 8)).astype(np.float32)
        whole = glofnd.discover(x, k=3)
        with tempfile.TemporaryDirectory() as folder:
            paths = [os.path.join(folder, name) for name in ("a.npy", "b.npy", "c.npz")]
            np.save(paths[0], x[:25])
            np.save(paths[1], x[25:])
            np.savez(paths[2], a=x)
            for given in (paths[:2], list(x), [list(map(float, row)) for row in x]):
                self.assertEqual(glofnd.discover(given, k=3).neighbours.tobytes(), whole.neighbours.tobytes())
            with self.assertRaisesRegex(glofnd.ArgumentError, "one of"):
                glofnd.discover(np.load(paths[2]))


class Files(unittest.TestCase):
    def test_files_of_the_program(self):
        glofnd_program = program()
        if not glofnd_program:
            self.skipTest("the program is not built beside the library")
        x, labels = damaged()
        names = [f"image {i}\tof {N}.jpg" for i in range(N)]
        with tempfile.TemporaryDirectory() as folder:
            paths = [os.path.join(folder, name) for name in ("x.npy", "y.npy", "names.txt", "by_program", "by_package")]
            np.save(paths[0], x)
            np.save(paths[1], labels)
            with open(paths[2], "w", encoding="utf-8") as file:
                file.write("".join(name + "\n" for name in names))
            for flags, options in ((["--alpha", "0.05"], {"alpha": 0.05}), (["--k", "4", "--top", "3"], {"k": 4, "top": 3}),
                                   (["--dup", "exact", "--max-pairs", "50"], {"duplicates": "exact", "max_pairs": 50})):
                with self.subTest(flags=flags):
                    subprocess.run([glofnd_program, "discover", paths[0], "--labels", paths[1], "--names", paths[2], "--out",
                                    paths[3], "--quiet", *flags], check=True, stdout=subprocess.DEVNULL)
                    glofnd.discover(x, labels=labels, names=names, **options).save(paths[4], source=paths[0])
                    self.assertEqual(sorted(os.listdir(paths[3])), sorted(os.listdir(paths[4])))
                    for name in os.listdir(paths[3]):
                        self.assertEqual(*(content(os.path.join(path, name)) for path in paths[3:]), name)
                    shutil.rmtree(paths[3])
                    shutil.rmtree(paths[4])

    def test_files_of_the_program_with_class_names(self):
        glofnd_program = program()
        if not glofnd_program:
            self.skipTest("the program is not built beside the library")
        x, labels = damaged()
        classes = [f"kind {i // 2 if row % 9 else 5}" for row, i in enumerate(labels)]
        with tempfile.TemporaryDirectory() as folder:
            paths = [os.path.join(folder, name) for name in ("x.csv", "by_program", "by_package")]
            with open(paths[0], "w", encoding="utf-8") as file:
                file.write("class," + ",".join(f"e{i}" for i in range(DIM)) + "\n")
                file.writelines(f"{name}," + ",".join(repr(float(number)) for number in row) + "\n" for name, row in zip(classes, x))
            for form in ("tsv", "parquet"):
                subprocess.run([glofnd_program, "discover", paths[0], "--label-column", "class", "--alpha", "0.05", "--out", paths[1],
                                "--quiet", "--format", form], check=True, stdout=subprocess.DEVNULL)
                found = glofnd.discover(x, labels=classes, alpha=0.05)
                found.save(paths[2], source=paths[0], format=form)
                self.assertEqual(sorted(os.listdir(paths[1])), sorted(os.listdir(paths[2])))
                for name in os.listdir(paths[1]):
                    self.assertEqual(*(content(os.path.join(path, name)) for path in paths[1:]), name)
                self.assertEqual(content(os.path.join(paths[2], "classes.txt")).decode().split("\n")[:-1], found.classes)
                for name, rows in (("keep.txt", found.keep), ("remove.txt", found.remove)):
                    self.assertEqual(content(os.path.join(paths[2], name)).split(), [str(row).encode() for row in rows])
                shutil.rmtree(paths[1])
                shutil.rmtree(paths[2])
            with self.assertRaisesRegex(glofnd.ArgumentError, "'tsv' or 'parquet'"):
                found.save(paths[2], format="json")

    def test_save_and_pages(self):
        x, labels = damaged()
        found = glofnd.discover(x, alpha=0.05, labels=labels, names=[f"<{i}>" for i in range(N)])
        with tempfile.TemporaryDirectory() as folder:
            place = os.path.join(folder, "out")
            found.save(place)
            with self.assertRaisesRegex(glofnd.FileError, "exists; .* replace=1"):
                found.save(place)
            found.save(place, replace=True)
            self.assertEqual(np.load(os.path.join(place, "anchors.npy")).shape[0], N)
            page = os.path.join(folder, "page.html")
            found.to_html(page)
            with open(page, encoding="utf-8") as file:
                text = file.read()
        self.assertIn("&lt;20&gt;", text)
        self.assertNotIn("<20>", text)
        self.assertIn("precision", found._repr_html_())
        self.assertIn("components", repr(found))

    def test_no_growth(self):
        x, _ = draw()
        for _ in range(20):
            glofnd.discover(x)
        gc.collect()
        before = resident()
        for _ in range(300):
            glofnd.discover(x)
        gc.collect()
        self.assertLess(resident() - before, 4 << 20)


def content(path):
    with open(path, "rb") as file:
        return file.read()


def resident():
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGESIZE")


if __name__ == "__main__":
    unittest.main()

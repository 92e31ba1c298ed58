"""Level 1: inputs of glofnd.discover() as they come from other tools, and arguments that cannot be meant."""

import importlib.util
import io
import os
import sys
import tempfile
import unittest
from unittest import mock

import numpy as np

import glofnd

from .test_discover import DIM, N, draw


def has(package):
    return unittest.skipUnless(importlib.util.find_spec(package), f"{package} is not installed")


class Accepted(unittest.TestCase):
    def setUp(self):
        self.x, _ = draw()
        self.expected = glofnd.discover(self.x, k=4)

    def same(self, embeddings, expected=None):
        found = glofnd.discover(embeddings, k=4)
        for name in ("threshold", "neighbours", "similarities", "kind"):
            np.testing.assert_array_equal(getattr(found, name), getattr(expected or self.expected, name))

    def test_vectors_one_by_one(self):
        objects = np.empty(N, object)
        objects[:] = list(self.x)
        for rows in ((row for row in self.x), (row.tolist() for row in self.x), map(np.asarray, self.x), objects, self.x.astype(object),
                     iter([self.x[0].tolist(), *self.x[1:]])):
            self.same(rows)
        objects[7] = None
        with_null = self.x.copy()
        with_null[7] = np.nan
        self.same(objects, glofnd.discover(with_null, k=4))
        self.same((None if i == 7 else row for i, row in enumerate(self.x)), glofnd.discover(with_null, k=4))

    def test_masked_numbers_are_missing(self):
        mask = np.zeros((N, DIM), bool)
        mask[7, 2] = True
        missing = self.x.copy()
        missing[7] = np.nan
        self.same(np.ma.masked_array(self.x, mask), glofnd.discover(missing, k=4))
        self.same(np.ma.masked_array(self.x), self.expected)

    def test_shards_without_rows(self):
        self.same([self.x[:0], self.x[:100], self.x[100:100], self.x[100:]])
        self.same(iter([self.x[:0], self.x]))

    def test_shards_of_objects(self):
        objects = np.empty(N, object)
        objects[:] = list(self.x)
        self.same([objects[:100], objects[100:]])
        self.same(iter([objects[:100], self.x[100:]]))
        for package in ("pandas", "pyarrow"):
            if importlib.util.find_spec(package):
                make = getattr(importlib.import_module(package), {"pandas": "Series", "pyarrow": "array"}[package])
                self.same([make(list(self.x[:100])), make(list(self.x[100:]))])

    @has("datasets")
    def test_columns_of_hugging_face(self):
        import datasets
        data = datasets.Dataset.from_dict({"emb": self.x.tolist(), "id": [f"row {i}" for i in range(N)]})
        for form in (None, "numpy", "torch", "arrow") if importlib.util.find_spec("torch") else (None, "numpy"):
            self.same(data.with_format(form)["emb"])
        self.assertEqual(glofnd.discover(self.x, k=4, names=data["id"]).names[3], "row 3")

    @has("pyarrow")
    def test_tensors_of_arrow(self):
        import pyarrow
        if not hasattr(pyarrow, "fixed_shape_tensor"):
            self.skipTest("this pyarrow has no fixed_shape_tensor")
        storage = pyarrow.FixedSizeListArray.from_arrays(pyarrow.array(self.x.reshape(-1)), DIM)
        tensors = pyarrow.ExtensionArray.from_storage(pyarrow.fixed_shape_tensor(pyarrow.float32(), [DIM]), storage)
        self.same(tensors)
        self.same(pyarrow.chunked_array([tensors[:100], tensors[100:]]))

    def test_labels_that_are_missing(self):
        few, nan = self.x[:6], float("nan")
        for labels in ([3, -1, None, 0, nan, 1], [3.0, -1.0, nan, 0.0, nan, 1.0], ["3.0", "-1.0", "", "0.0", "nan", "1"],
                       np.array(["3", "-1", "None", "0", "NaN", "1"])):
            found = glofnd.discover(few, k=1, labels=labels)
            self.assertEqual((found.labels.tolist(), found.classes), ([3, -1, -1, 0, -1, 1], None), labels)
        for labels in (["b", nan, None, "a", "", "b"], ["b", "nan", "NaN", "a", "", "b"]):
            found = glofnd.discover(few, k=1, labels=labels)
            self.assertEqual((found.labels.tolist(), found.classes), ([1, -1, -1, 0, -1, 1], ["a", "b"]), labels)
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "x.csv")
            with open(path, "w") as file:
                file.write("e0, e1, label\n" + "".join(f"{i}.5, {i * i}, {label}\n" for i, label in enumerate("3.0 -1.0 nan 0.0".split())))
            found = glofnd.discover(path, k=1, label_column="label")
            self.assertEqual((found.dim, found.labels.tolist(), found.classes), (2, [3, -1, -1, 0], None))

    def test_names_and_labels_of_other_tools(self):
        few = self.x[:4]
        for names, want in (([b"a", "b", None, 7], ["a", "b", "", "7"]), (np.array([b"a", b"b", b"c", b"d"]), list("abcd"))):
            self.assertEqual(glofnd.discover(few, k=1, names=names).names, want)
        found = glofnd.discover(few, k=1, labels=np.array([b"b", b"a", b"", b"b"]))
        self.assertEqual((found.labels.tolist(), found.classes), ([1, 0, -1, 1], ["a", "b"]))
        self.assertEqual(glofnd.discover(few, k=1, labels=(i for i in range(4))).labels.tolist(), [0, 1, 2, 3])
        with tempfile.TemporaryDirectory() as folder:
            found = glofnd.discover(few, k=1, names=["\ud800", "\udcff", "c", "d"], labels=["\ud800", "é", "\ud800", "é"])
            found.save(os.path.join(folder, "out"))
            found.to_html(os.path.join(folder, "page.html"))
            with open(os.path.join(folder, "out", "names.txt"), "rb") as file:
                self.assertEqual(file.read(), b"?\n\\xff\nc\nd\n")
        if importlib.util.find_spec("torch"):
            import torch
            self.assertEqual(glofnd.discover(few, k=1, names=torch.arange(4)).names, list("0123"))

    def test_numbers_of_other_tools(self):
        self.same(self.x, glofnd.discover(self.x, k=np.array(4)))
        one = glofnd.discover(self.x, alpha=np.array(0.05), duplicates=np.float32(0.75), top=np.int64(3), threads=np.int32(1))
        two = glofnd.discover(self.x, alpha=0.05, duplicates=0.75, top=3)
        self.assertEqual((one.threshold.tobytes(), one.duplicate_pairs), (two.threshold.tobytes(), two.duplicate_pairs))


class Refused(unittest.TestCase):
    def refused(self, *cases):
        x, _ = draw()
        for text, embeddings, options in cases:
            with self.subTest(text, **options), self.assertRaisesRegex(glofnd.ArgumentError, text):
                glofnd.discover(x if embeddings is None else embeddings, **options)

    def test_options(self):
        self.refused(*(("duplicates is .*\"exact\"", None, {"duplicates": wrong}) for wrong in ("Exact", None, [0.9], "", 2, float("nan"))),
                     *(("top is .*number", None, {"top": wrong}) for wrong in (None, "x", [3])),
                     *(("threads is", None, {"threads": wrong}) for wrong in (None, 1.5, "a", -1, 2**40, True)),
                     *(("max_pairs is", None, {"max_pairs": wrong}) for wrong in (None, 2.5)),
                     *(("progress is .*True.*function", None, {"progress": wrong}) for wrong in (3, "tqdm")),
                     *(("memory is .*bytes, 1000000 or more.*GB", None, {"memory": wrong}) for wrong in (8, 0, 0.5)),
                     ("'cpu' or 'cuda'", None, {"device": "cuda:7"}), ("'cpu' or 'cuda'", None, {"device": None}))
        self.assertEqual(glofnd.discover(draw()[0], memory=1_000_000).n, N)
        for name, here in (("dup", "duplicates"), ("html", "to_html"), ("force", "replace"), ("dupp", "duplicates, memory")):
            with self.assertRaisesRegex(glofnd.OptionError, f'unknown option "{name}".*{here}'):
                glofnd.discover(draw()[0], **{name: 0.9})
        if importlib.util.find_spec("torch"):
            import torch
            glofnd.discover(draw()[0], device=torch.device("cpu"))

    def test_names_and_labels(self):
        self.refused(("name 1 has a zero byte", None, {"names": ["a", "a\0b"] * (N // 2)}),
                     ("label 0 has a zero byte", None, {"labels": ["a\0b", "a"] * (N // 2)}),
                     ("labels are 'labels.npy'.*label_column", None, {"labels": "labels.npy"}),
                     ("labels are 5", None, {"labels": 5}), ("names are 5", None, {"names": 5}),
                     ("labels do not fit", None, {"labels": np.full(N, 2**63, np.uint64)}))

    @has("pandas")
    def test_tables_whose_rows_or_columns_are_others(self):
        import pandas as pd
        x, _ = draw()
        df = pd.DataFrame(x, columns=[f"e{i}" for i in range(DIM)])
        mixed = df.sample(frac=1, random_state=1)
        labels = pd.Series(np.arange(N) % 3)
        names = pd.Series([f"n{i}" for i in range(N)])
        self.refused(("labels is that of the embeddings in another order.*labels.loc", mixed, {"labels": labels}),
                     ("names is that of the embeddings in another order", mixed, {"names": names}),
                     (r"column 'Label' is an id or labels.*df.drop\(columns=\['Label'\]\)", df.assign(Label=1), {}),
                     ("some are no numbers", df.assign(t=pd.Timestamp("2020-01-01")), {}), ("some are no numbers", df.assign(seen=True), {}),
                     ("column 'id' is an id", df.assign(id=range(N), label=1), {}), ("column 'y' is an id", df.assign(y=1), {}))
        for one, two in ((mixed, labels.loc[mixed.index]), (df, labels), (df, labels.set_axis(labels.index + N)), (mixed, labels.to_numpy())):
            self.assertEqual(glofnd.discover(one, k=4, labels=two).labels.tolist(), np.asarray(two).tolist())
        self.assertEqual(glofnd.discover(df.assign(y=1, x=2), k=4).dim, DIM + 2)
        self.assertEqual(glofnd.discover(df.rename(columns={"e0": "label"}), k=4).dim, DIM)  # no integers
        if importlib.util.find_spec("pyarrow"):
            import pyarrow as pa
            self.refused((r"column 'label' is an id.*table.drop_columns\(\['label'\]\)", pa.Table.from_pandas(df.assign(label=1)), {}))

    @has("polars")
    def test_polars(self):
        import polars as pl
        x, _ = draw()
        df = pl.DataFrame(x)
        ids = pl.Series("id", range(N))
        self.refused((r"column 'id' is an id.*df.drop\(\['id'\]\)", df.with_columns(ids), {}),
                     (r"'name', 'emb'.*df\['emb'\]", pl.DataFrame({"name": ["a"] * N, "emb": x.tolist()}), {}))
        expected = glofnd.discover(x, k=4).threshold.tobytes()
        for table in (df, pl.DataFrame({"emb": x.tolist()})["emb"]):
            self.assertEqual(glofnd.discover(table, k=4).threshold.tobytes(), expected)

    def test_embeddings(self):
        x, _ = draw()
        self.refused(("of type bytes", b"x.npy", {}), ("of type set", {1, 2}, {}), ("its path", io.BytesIO(b"12\n34\n"), {}),
                     ("^row 0 .*no number", np.array(["a"] * 4, object), {}),
                     ("no number", np.array([["a", "b"], ["c", "d"]], object), {}))
        if importlib.util.find_spec("scipy"):
            import scipy.sparse
            self.refused(("sparse.*toarray", scipy.sparse.csr_matrix(x), {}), ("sparse.*toarray", [scipy.sparse.csr_matrix(x)], {}))
        if importlib.util.find_spec("torch"):
            import torch
            for wrong in (torch.tensor(x) > 0, torch.tensor(x) + 0j):
                self.refused(("expected numbers", wrong, {}))
            self.refused(("on the device meta", torch.tensor(x).to("meta"), {}), ("layout.*to_dense", torch.tensor(x).to_sparse(), {}),
                         ("expected .samples, dimensions", torch.tensor(x[0]), {}))

    @has("pandas")
    def test_pandas(self):
        import pandas
        x, _ = draw()
        self.refused(("numbers, not vectors|no vectors", pandas.Series([1.0, 2.0, 3.0]), {}),
                     ("no number|expected lists of numbers", pandas.Series(["a", "b", "c"]), {}),
                     ("'emb', 'id'.*df\\['emb'\\]", pandas.DataFrame({"id": range(N), "emb": list(x)})[["emb", "id"]], {}))

    @has("pyarrow")
    def test_pyarrow(self):
        import pyarrow
        self.refused(("a column of string; expected lists of numbers", pyarrow.array(["a", "b"]), {}),
                     ("a column of double; expected lists of numbers", pyarrow.array([1.0, 2.0]), {}),
                     ("list<.*string>; expected lists of numbers", pyarrow.array([["a", "b"], ["c", "d"]]), {}),
                     ("expected lists of numbers", pyarrow.array([[[1.0, 2.0]], [[2.0, 3.0]]]), {}))

    def test_places(self):
        found = glofnd.discover(draw()[0], k=3)
        with tempfile.TemporaryDirectory() as folder:
            for call in (lambda: found.save(os.path.join(folder, "a\0b")), lambda: found.save(os.path.join(folder, "c"), source="a\0b")):
                with self.assertRaisesRegex(ValueError, "zero byte|null byte"):
                    call()
            self.assertEqual(os.listdir(folder), [])

    def test_names_of_columns_and_tables(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "x.csv")
            np.savetxt(path, draw()[0], delimiter=",", header=",".join(f"e{i}" for i in range(DIM)), comments="")
            for key in ("column", "id", "label_column"):
                self.refused((f"{key} is .*zero byte", path, {key: "e0\0"}))
        if importlib.util.find_spec("pandas"):
            with self.assertRaisesRegex(glofnd.ArgumentError, "table is 'pair'; expected one of pairs"):
                glofnd.discover(draw()[0], k=3).to_pandas("pair")

    def test_files_of_pytorch_without_it(self):
        with tempfile.TemporaryDirectory() as folder, mock.patch.dict(sys.modules, {"torch": None}):
            path = os.path.join(folder, "x.pt")
            with open(path, "wb") as file:
                file.write(b"x")
            with self.assertRaisesRegex(glofnd.UnsupportedError, "PyTorch, which is not installed"):
                glofnd.discover(path)

    @has("torch")
    def test_files_of_more_than_tensors(self):
        import torch
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "m.pt")
            torch.save(torch.nn.Linear(3, 3), path)
            with self.assertRaisesRegex(glofnd.FormatError, "more than tensors.*torch.save.x") as caught:
                glofnd.discover(path)
            self.assertNotIn("\33", str(caught.exception))


if __name__ == "__main__":
    unittest.main()

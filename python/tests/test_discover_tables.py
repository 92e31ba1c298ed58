"""Level 1: glofnd.discover() of tables, whose columns are named, and help() without the frameworks."""

import importlib.util
import os
import subprocess
import sys
import unittest

import numpy as np

import glofnd

HAVE = {name: importlib.util.find_spec(name) is not None for name in ("pandas", "pyarrow", "datasets", "polars")}


def draw():
    rng = np.random.default_rng(4)
    x = rng.normal(size=(60, 8)).astype(np.float32)
    x[50] = x[3]
    return x, [f"row {i}" for i in range(60)], [f"class {i % 3}" for i in range(60)]


def tables(x, names, labels):
    """The same rows as every kind of table that can be made here."""
    yield {"vector": x, "file": names, "kind": labels, "position": list(range(60))}
    if HAVE["pandas"]:
        import pandas
        yield pandas.DataFrame({"vector": list(x), "file": names, "kind": labels, "position": range(60)})
    if HAVE["pyarrow"]:
        import pyarrow
        yield pyarrow.table({"vector": pyarrow.array(list(x)), "file": names, "kind": labels, "position": list(range(60))})
    if HAVE["polars"]:
        import polars
        yield polars.DataFrame({"vector": x, "file": names, "kind": labels, "position": range(60)})
    if HAVE["datasets"]:
        import datasets
        yield datasets.Dataset.from_dict({"vector": x, "file": names, "kind": labels, "position": list(range(60))})


class Tables(unittest.TestCase):
    def setUp(self):
        self.x, self.names, self.labels = draw()

    def test_columns_are_the_arrays_in_them(self):
        expected = glofnd.discover(self.x, k=3, names=self.names, labels=self.labels)
        for table in tables(self.x, self.names, self.labels):
            for column in ("vector", None):
                with self.subTest(kind=type(table), column=column):
                    found = glofnd.discover(table, k=3, column=column, id="file", label_column="kind")
                    np.testing.assert_array_equal(found.neighbours, expected.neighbours)
                    np.testing.assert_array_equal(found.labels, expected.labels)
                    self.assertEqual((found.names, found.classes), (self.names, expected.classes))

    def test_columns_that_are_not_there(self):
        for table in tables(self.x, self.names, self.labels):
            for options, message in (({"column": "vectors"}, "column is 'vectors'"), ({"id": "name"}, "id is 'name'"),
                                     ({"label_column": "y"}, "label_column is 'y'"), ({"tensor": "x"}, ".safetensors")):
                with self.subTest(kind=type(table), options=options):
                    with self.assertRaisesRegex(glofnd.ArgumentError, message):
                        glofnd.discover(table, k=3, **options)

    def test_two_columns_of_vectors_need_a_choice(self):
        with self.assertRaisesRegex(glofnd.ArgumentError, "2 columns of vectors: 'a', 'b'"):
            glofnd.discover({"a": self.x, "b": self.x, "file": self.names}, k=3, id="file")

    @unittest.skipUnless(HAVE["pandas"], "needs pandas")
    def test_a_column_per_dimension(self):
        import pandas
        table = pandas.DataFrame(self.x).assign(file=self.names, kind=self.labels)
        found = glofnd.discover(table, k=3, id="file", label_column="kind")
        np.testing.assert_array_equal(found.neighbours, glofnd.discover(self.x, k=3).neighbours)
        self.assertEqual(found.names, self.names)

    @unittest.skipUnless(HAVE["datasets"], "needs datasets")
    def test_a_dataset_in_its_order_with_its_classes(self):
        import datasets
        features = datasets.Features({"vector": datasets.Sequence(datasets.Value("float32")), "y": datasets.ClassLabel(names=["cat", "dog", "owl"])})
        whole = datasets.Dataset.from_dict({"vector": self.x, "y": [i % 3 for i in range(60)]}, features=features)
        part = whole.shuffle(seed=1).select(range(40))
        found = glofnd.discover(part, k=3, label_column="y")
        self.assertEqual(found.classes, ["cat", "dog", "owl"])
        np.testing.assert_array_equal(found.neighbours, glofnd.discover(np.array(part["vector"], np.float32), k=3).neighbours)
        np.testing.assert_array_equal(found.labels, part["y"])

    def test_leaks_between_tables(self):
        one, two = {"v": self.x[:40], "file": self.names[:40]}, {"v": self.x[40:], "file": self.names[40:]}
        found = glofnd.leaks(one, two, column="v", id="file")
        self.assertEqual((found.leaks().a.tolist(), found.leaks().b.tolist(), found.names), ([3], [50], self.names))


class Help(unittest.TestCase):
    def test_help_works_without_frameworks(self):
        code = ("import sys, importlib.abc\n"
                "class Without(importlib.abc.MetaPathFinder):\n"
                "    def find_spec(self, name, path=None, target=None):\n"
                "        if name.split('.')[0] in ('torch', 'jax', 'pandas'): raise ModuleNotFoundError(name, name=name.split('.')[0])\n"
                "sys.meta_path.insert(0, Without())\n"
                "import glofnd, pydoc\n"
                "text = pydoc.render_doc(glofnd) + pydoc.render_doc(glofnd.discover) + pydoc.render_doc('glofnd.discover')\n"
                "assert 'only_duplicates' in text and 'leaks' in text, text\n"
                "assert not hasattr(glofnd, 'torch')\n")
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=dict(os.environ))
        self.assertEqual(done.returncode, 0, done.stderr)


if __name__ == "__main__":
    unittest.main()

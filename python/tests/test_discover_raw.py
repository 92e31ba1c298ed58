"""Level 1: glofnd.discover() of images and texts with a function that embeds; the graph of a result, also for cleanlab."""

import importlib.util
import os
import tempfile
import unittest
import warnings

import numpy as np

import glofnd

HAVE = {name: importlib.util.find_spec(name) is not None for name in ("PIL", "datasets", "torch", "scipy", "cleanlab")}


def letters(texts):
    """Counts of letters."""
    return np.array([[text.count(letter) + 0.1 for letter in "abcdefghij"] for text in texts], np.float32)


def pixels(images):
    return np.stack([np.asarray(image, np.float32).ravel() for image in images])


def draw_texts(n=70):
    rng = np.random.default_rng(3)
    texts = ["".join(rng.choice(list("abcdefghij"), 30)) for _ in range(n)]
    texts[60] = texts[2]
    return texts


class Raw(unittest.TestCase):
    def same(self, found, x, **options):
        np.testing.assert_array_equal(found.neighbours, glofnd.discover(x, k=4, **options).neighbours)

    def test_texts_in_batches(self):
        texts, sizes, shares = draw_texts(), [], []

        def embed(part):
            sizes.append(len(part))
            return letters(part)

        found = glofnd.discover(texts, k=4, embed=embed, batch=32, progress=shares.append)
        self.assertEqual(sizes, [32, 32, 6])
        self.assertEqual(shares[2], 1.0)
        self.same(found, letters(texts))
        self.assertEqual(found.kept[60], 2)
        self.same(glofnd.discover((text for text in texts), k=4, embed=letters), letters(texts))

    def test_a_function_that_is_wrong(self):
        texts = draw_texts()
        for embed, message in ((lambda part: letters(part[1:]), "69 x 10 numbers for 70"), (3, "embed is 3")):
            with self.subTest(message), self.assertRaisesRegex(glofnd.ArgumentError, message):
                glofnd.discover(texts, k=4, embed=embed)
        for raw, message in (([], "no samples"), ("text", "pass a list"), ({"t": texts}, "name the column")):
            with self.subTest(message), self.assertRaisesRegex(glofnd.ArgumentError, message):
                glofnd.discover(raw, k=4, embed=letters)
        with self.assertRaises(glofnd.CancelledError):
            glofnd.discover(texts, k=4, embed=letters, batch=10, progress=lambda share: False)

    @unittest.skipUnless(HAVE["torch"], "needs torch")
    def test_tensors_with_gradients(self):
        import torch
        texts = draw_texts()
        self.same(glofnd.discover(texts, k=4, embed=lambda part: torch.from_numpy(letters(part)).requires_grad_()), letters(texts))

    @unittest.skipUnless(HAVE["PIL"], "needs Pillow")
    def test_images_and_their_paths(self):
        from PIL import Image
        rng = np.random.default_rng(5)
        images = [Image.fromarray(rng.integers(0, 256, (4, 4, 3), np.uint8)) for _ in range(40)]
        self.same(glofnd.discover(images, k=4, embed=pixels), pixels(images))
        with tempfile.TemporaryDirectory() as folder:
            paths = [os.path.join(folder, f"{i}.png") for i in range(40)]
            for image, path in zip(images, paths):
                image.save(path)
            with open(paths[7], "wb") as file:
                file.write(b"no image")
            with warnings.catch_warnings(record=True) as said:
                warnings.simplefilter("always")
                found = glofnd.discover(paths, k=4, embed=pixels, batch=8)
        self.assertEqual((found.bad_rows.tolist(), found.names), ([7], paths))
        self.assertIn("sample 7 is left out", str(said[0].message))
        x = pixels(images)
        x[7] = np.nan
        self.same(found, x)

    @unittest.skipUnless(HAVE["PIL"], "needs Pillow")
    def test_pixels_need_no_network(self):
        from PIL import Image
        random = np.random.default_rng(4)
        images = [Image.fromarray(random.integers(0, 255, (6, 6, 3)).astype(np.uint8)).resize((48, 48), Image.Resampling.BICUBIC)
                  for _ in range(30)]
        images[20] = images[3].resize((80, 80))
        images[21] = Image.fromarray((np.asarray(images[4]) * 0.8).astype(np.uint8))
        found = glofnd.discover(images, embed="pixels", k=3)
        copies = found.duplicates()
        self.assertEqual(sorted(zip(copies.a.tolist(), copies.b.tolist())), [(3, 20), (4, 21)])
        self.assertEqual(found.dim, 192)
        with self.assertRaisesRegex(glofnd.ArgumentError, "expected a function"):
            glofnd.discover(images, embed="clip", k=3)

    @unittest.skipUnless(HAVE["datasets"] and HAVE["PIL"], "needs datasets and Pillow")
    def test_columns_of_a_dataset(self):
        import datasets
        from PIL import Image
        rng = np.random.default_rng(6)
        images, texts = [Image.fromarray(rng.integers(0, 256, (4, 4, 3), np.uint8)) for _ in range(70)], draw_texts()
        features = datasets.Features({"image": datasets.Image(), "text": datasets.Value("string"), "name": datasets.Value("string"),
                                      "y": datasets.ClassLabel(names=["cat", "dog"])})
        data = datasets.Dataset.from_dict({"image": images, "text": texts, "name": [f"n{i}" for i in range(70)], "y": [i % 2 for i in range(70)]},
                                          features=features)
        found = glofnd.discover(data, k=4, embed=letters, column="text", id="name", label_column="y")
        self.same(found, letters(texts))
        self.assertEqual((found.names[3], found.classes, found.labels.tolist()), ("n3", ["cat", "dog"], [i % 2 for i in range(70)]))
        self.same(glofnd.discover(data, k=4, embed=pixels, column="image"), pixels(images))


@unittest.skipUnless(HAVE["scipy"], "needs SciPy")
class Graph(unittest.TestCase):
    def test_graph_has_the_listed_neighbours(self):
        x = letters(draw_texts())
        x[9] = 0
        found = glofnd.discover(x, k=4, top=5)
        graph = found.graph()
        self.assertEqual((graph.shape, graph.nnz, graph[9].nnz), ((70, 70), 69 * 5, 0))
        self.assertEqual(graph[60, 2], found.similarities[60, 0])
        self.assertGreaterEqual(found.graph(distances=True).data.min(), 0)

    @unittest.skipUnless(HAVE["cleanlab"], "needs cleanlab")
    def test_cleanlab_takes_it(self):
        try:
            from cleanlab import Datalab
        except ImportError as missing:
            self.skipTest(str(missing))
        x = letters(draw_texts())
        labels = np.arange(70) % 2
        found = glofnd.discover(x, k=10, top=10)
        lab = Datalab({"label": labels}, label_name="label", verbosity=0)
        lab.find_issues(knn_graph=found.graph(distances=True), issue_types={"outlier": {}, "near_duplicate": {}})
        twins = lab.get_issues("near_duplicate")
        self.assertTrue(twins["is_near_duplicate_issue"][60] and twins["is_near_duplicate_issue"][2])


if __name__ == "__main__":
    unittest.main()

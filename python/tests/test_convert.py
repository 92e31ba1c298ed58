"""Level 0: python -m glofnd convert. The parts that need NumPy or PyTorch are skipped where these are missing."""

import importlib.util
import io
import json
import os
import pickle
import struct
import tarfile
import tempfile
import unittest
from contextlib import redirect_stderr, redirect_stdout

from glofnd import _convert

has_numpy = importlib.util.find_spec("numpy") is not None
has_scipy = importlib.util.find_spec("scipy") is not None
has_torch = importlib.util.find_spec("torch") is not None and has_numpy


def read_safetensors(path):
    with open(path, "rb") as file:
        data = file.read()
    size, = struct.unpack("<Q", data[:8])
    header = json.loads(data[8:8 + size])
    header.pop("__metadata__", None)
    end = max((x["data_offsets"][1] for x in header.values()), default=0)
    assert size % 8 == 0 and len(data) == 8 + size + end
    return {k: (x["dtype"], x["shape"], data[8 + size + x["data_offsets"][0]:8 + size + x["data_offsets"][1]])
            for k, x in header.items()}


class InFolder(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def path(self, name):
        return os.path.join(self.folder.name, name)

    def convert(self, *arguments, rc=0):
        with redirect_stdout(io.StringIO()) as out, redirect_stderr(io.StringIO()) as err:
            self.assertEqual(_convert.main(list(arguments)), rc, err.getvalue())
        return out.getvalue() + err.getvalue()


@unittest.skipUnless(has_torch, "PyTorch is not installed")
class Checkpoints(InFolder):
    def setUp(self):
        super().setUp()
        import torch
        self.torch = torch

    def converted(self, content, *arguments):
        self.torch.save(content, self.path("x.pth"))
        self.convert(self.path("x.pth"), self.path("x.safetensors"), *arguments)
        return read_safetensors(self.path("x.safetensors"))

    def test_types_and_shapes(self):
        torch = self.torch
        types = {"float32": ("F32", 4), "float16": ("F16", 2), "bfloat16": ("BF16", 2), "float64": ("F64", 8), "int64": ("I64", 8),
                 "int32": ("I32", 4), "int8": ("I8", 1), "uint8": ("U8", 1), "bool": ("BOOL", 1)}
        tensors = {name: torch.ones(2, 3).to(getattr(torch, name)) for name in types}
        tensors.update({"scalar": torch.tensor(7.0), "none": torch.zeros(0, 3), "short": torch.tensor([1, -2], dtype=torch.int16)})
        found = self.converted(tensors)
        for name, (kind, width) in types.items():
            self.assertEqual((found[name][0], found[name][1], len(found[name][2])), (kind, [2, 3], 6 * width))
        self.assertEqual(found["bfloat16"][2], struct.pack("<H", 0x3f80) * 6)
        self.assertEqual(found["scalar"], ("F32", [], struct.pack("<f", 7)))
        self.assertEqual(found["none"], ("F32", [0, 3], b""))
        self.assertEqual(found["short"], ("I32", [2], struct.pack("<2i", 1, -2)))

    def test_strides_and_views_become_rows(self):
        x = self.torch.arange(6, dtype=self.torch.float32).reshape(2, 3)
        found = self.converted({"t": x.t(), "view": x[1, 1:], "parameter": self.torch.nn.Parameter(x)})
        self.assertEqual(found["t"], ("F32", [3, 2], struct.pack("<6f", 0, 3, 1, 4, 2, 5)))
        self.assertEqual(found["view"], ("F32", [2], struct.pack("<2f", 4, 5)))
        self.assertEqual(found["parameter"][1], [2, 3])

    def test_dicts_and_wrappers(self):
        x = self.torch.zeros(1)
        for key in ("state_dict", "model_state_dict", "model"):
            found = self.converted({"epoch": 3, "args": ["a", None], key: {"module._orig_mod.conv1.weight": x, "note": "text"}})
            self.assertEqual(list(found), ["conv1.weight"])
        self.assertEqual(set(self.converted({"module.a": x, "b": x})), {"module.a", "b"})
        queries = {"module.encoder_q.a": x, "module.encoder_k.a": x, "module.queue": x}
        self.assertEqual(list(self.converted({"state_dict": queries}, "--prefix", "encoder_q.")), ["a"])

    def test_what_is_refused(self):
        self.torch.save(self.torch.nn.Linear(1, 1), self.path("module.pt"))
        self.assertIn("model.state_dict()", self.convert(self.path("module.pt"), self.path("x"), rc=1))
        self.torch.save({"epoch": 1}, self.path("none.pt"))
        self.assertIn("no dict of tensors", self.convert(self.path("none.pt"), self.path("x"), rc=1))
        self.torch.save({"conv": self.torch.zeros(1)}, self.path("a.pt"))
        self.assertIn("the first one is 'conv'", self.convert(self.path("a.pt"), self.path("x"), "--prefix", "b.", rc=1))
        self.torch.save({"c": self.torch.zeros(1, dtype=self.torch.complex64)}, self.path("c.pt"))
        self.assertIn("'c' is a tensor of type complex64", self.convert(self.path("c.pt"), self.path("x"), rc=1))
        self.assertFalse(os.path.exists(self.path("x")))

    def test_a_missing_file(self):
        self.assertIn("nowhere.pth", self.convert(self.path("nowhere.pth"), self.path("x"), rc=1))


@unittest.skipUnless(has_numpy, "NumPy is not installed")
class CifarVersions(InFolder):
    def write(self, name, content, protocol=2):
        os.makedirs(os.path.dirname(self.path(name)), exist_ok=True)
        with open(self.path(name), "wb") as file:
            pickle.dump(content, file, protocol=protocol)

    def bytes_of(self, name):
        with open(self.path(name), "rb") as file:
            return file.read()

    def pixels(self, rows, first):
        import numpy
        return (numpy.arange(rows * 3072).reshape(rows, 3072) + first).astype(numpy.uint8)

    def write_cifar10(self):
        for k in range(1, 6):
            self.write(f"cifar-10-batches-py/data_batch_{k}", {"labels": [k, 9], "data": self.pixels(2, k), "batch_label": "x"})
        self.write("cifar-10-batches-py/test_batch", {"labels": [3], "data": self.pixels(1, 0)})
        self.write("cifar-10-batches-py/batches.meta", {"label_names": [f"class {k}" for k in range(10)]})

    def check_cifar10(self):
        for k in range(1, 6):
            x = self.pixels(2, k)
            want = bytes([k]) + x[0].tobytes() + bytes([9]) + x[1].tobytes()
            self.assertEqual(self.bytes_of(f"bin/data_batch_{k}.bin"), want)
        self.assertEqual(self.bytes_of("bin/test_batch.bin"), bytes([3]) + self.pixels(1, 0).tobytes())
        self.assertEqual(self.bytes_of("bin/batches.meta.txt").split(b"\n")[7], b"class 7")

    def test_cifar10_from_its_folder_and_from_above(self):
        self.write_cifar10()
        self.assertIn("11 images", self.convert(self.path("cifar-10-batches-py"), self.path("bin")))
        self.check_cifar10()
        self.convert(self.folder.name, self.path("bin"))
        self.check_cifar10()

    def test_cifar10_from_the_archive(self):
        self.write_cifar10()
        with tarfile.open(self.path("c.tar.gz"), "w:gz") as archive:
            archive.add(self.path("cifar-10-batches-py"), "cifar-10-batches-py")
        self.convert(self.path("c.tar.gz"), self.path("bin"))
        self.check_cifar10()

    def test_cifar100_has_coarse_labels_first(self):
        self.write("p/train", {"fine_labels": [99, 5], "coarse_labels": [19, 1], "data": self.pixels(2, 0)}, protocol=4)
        self.write("p/meta", {"fine_label_names": ["apple"], "coarse_label_names": ["fruit"]})
        self.convert(self.path("p"), self.path("bin"))
        data = self.bytes_of("bin/train.bin")
        self.assertEqual((len(data), data[:2], data[3074:3076]), (2 * 3074, bytes([19, 99]), bytes([1, 5])))
        self.assertEqual(self.bytes_of("bin/coarse_label_names.txt"), b"fruit\n")
        self.assertFalse(os.path.exists(self.path("bin/test.bin")))

    def test_what_is_refused(self):
        class Call:
            def __reduce__(self):
                return os.system, ("touch " + marker,)
        marker = self.path("marker")
        self.write("p/train", {"data": Call()})
        self.assertIn("it would call", self.convert(self.path("p"), self.path("x"), rc=1))
        self.assertFalse(os.path.exists(marker))
        self.write("p/train", {"fine_labels": [300], "coarse_labels": [1], "data": self.pixels(1, 0)})
        self.assertIn("'fine_labels' is not a list of 1 labels", self.convert(self.path("p"), self.path("x"), rc=1))
        self.write("p/train", {"data": [1, 2]})
        self.assertIn("no array 'data'", self.convert(self.path("p"), self.path("x"), rc=1))
        os.makedirs(self.path("empty"))
        self.assertIn("neither data_batch_1", self.convert(self.path("empty"), self.path("x"), rc=1))


@unittest.skipUnless(has_scipy, "SciPy is not installed")
class Lists(InFolder):
    def save(self, name, content):
        import scipy.io
        os.makedirs(os.path.dirname(self.path(name)), exist_ok=True)
        scipy.io.savemat(self.path(name), content)

    def lines(self, name):
        with open(self.path(name)) as file:
            return file.read().splitlines()

    @staticmethod
    def structs(*rows):
        import numpy
        out = numpy.zeros((1, len(rows)), dtype=[(key, object) for key in rows[0]])
        for k, row in enumerate(rows):
            out[0, k] = tuple(row.values())
        return out

    def test_flowers(self):
        self.save("f/imagelabels.mat", {"labels": [[77, 1, 3, 3, 1]]})
        self.save("f/setid.mat", {"trnid": [[3, 2]], "valid": [[4]], "tstid": [[1, 5]]})
        self.convert(self.path("f"), self.path("f"))
        self.assertEqual(self.lines("f/train.tsv"), ["jpg/image_00003.jpg\t2", "jpg/image_00002.jpg\t0"])
        self.assertEqual(self.lines("f/val.tsv"), ["jpg/image_00004.jpg\t2"])
        self.assertEqual(self.lines("f/test.tsv"), ["jpg/image_00001.jpg\t76", "jpg/image_00005.jpg\t0"])
        self.assertEqual(self.lines("f/trainval.tsv"), self.lines("f/train.tsv") + self.lines("f/val.tsv"))
        self.save("f/setid.mat", {"trnid": [[6]], "valid": [[4]], "tstid": [[1]]})
        self.assertIn("not those of the dataset", self.convert(self.path("f"), self.path("f"), rc=1))
        with open(self.path("f/setid.mat"), "wb") as file:
            file.write(b"not MATLAB" * 30)
        self.assertIn("setid.mat", self.convert(self.path("f"), self.path("f"), rc=1))

    def test_cars_in_two_files(self):
        rows = [{"class": 2, "fname": "1.jpg"}, {"class": 196, "fname": "2.jpg"}]
        self.save("c/devkit/cars_train_annos.mat", {"annotations": self.structs(*rows)})
        self.save("c/cars_test_annos_withlabels.mat", {"annotations": self.structs({"class": 1, "fname": "1.jpg"})})
        self.save("c/devkit/cars_meta.mat", {"class_names": [["AM General Hummer", "Acura RL"]]})
        self.assertIn("none of cars_train", self.convert(self.path("c"), self.path("c"), rc=1))
        os.makedirs(self.path("c/cars_train/cars_train"))
        os.makedirs(self.path("c/cars_test"))
        self.convert(self.path("c"), self.path("c"))
        self.assertEqual(self.lines("c/train.tsv"), ["cars_train/cars_train/1.jpg\t1", "cars_train/cars_train/2.jpg\t195"])
        self.assertEqual(self.lines("c/test.tsv"), ["cars_test/1.jpg\t0"])

    def test_cars_in_one_file(self):
        import numpy
        names = numpy.array([["AM General Hummer", "Acura RL"]], dtype=object)
        rows = [{"relative_im_path": f"car_ims/{k}.jpg", "class": k, "test": k - 1} for k in (1, 2)]
        self.save("c/cars_annos.mat", {"annotations": self.structs(*rows), "class_names": names})
        self.assertIn("train.tsv 1, test.tsv 1", self.convert(self.path("c"), self.path("c")))
        self.assertEqual(self.lines("c/train.tsv"), ["car_ims/1.jpg\t0"])
        self.assertEqual(self.lines("c/test.tsv"), ["car_ims/2.jpg\t1"])
        self.assertEqual(self.lines("c/classes.txt"), ["AM General Hummer", "Acura RL"])


if __name__ == "__main__":
    unittest.main()

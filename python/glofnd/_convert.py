"""python -m glofnd convert SOURCE TARGET: files that only Python should open, as files that the program glofnd reads.

A file of torch.save (.pth, .pt, .bin) becomes a safetensors file, for --init and --weights of the program. The Python version of
CIFAR-10 or CIFAR-100, its folder or its .tar.gz, becomes the folder of the official binary version. Both are pickles: they are
loaded by readers that make tensors and arrays and refuse everything else. The MATLAB files of Oxford 102 Flowers or Stanford Cars
become lists of their splits (with SciPy).
"""

import argparse
import io
import json
import os
import pickle
import struct
import sys
import tarfile

from typing import Any, Callable, Dict, Iterable, List, Optional, Tuple


class ConvertError(Exception):
    pass


# ----- files of torch.save -----

TYPES = {"float32": "F32", "float16": "F16", "bfloat16": "BF16", "float64": "F64", "int64": "I64", "int32": "I32", "int8": "I8",
         "uint8": "U8", "bool": "BOOL"}


def load_checkpoint(path: str) -> Any:
    import torch

    try:
        return torch.load(path, map_location="cpu", weights_only=True)
    except (pickle.UnpicklingError, RuntimeError, EOFError) as error:
        raise ConvertError(f"{path}: PyTorch does not load it with weights_only=True; save the tensors alone: "
                           f"torch.save(model.state_dict(), ...), or of TorchScript torch.save(torch.jit.load(...).state_dict(), "
                           f"...)\n{error}") from error


def find_tensors(checkpoint: Any) -> Dict[str, Any]:
    """The dict of tensors: under a usual key of a training checkpoint, or the whole content. Other values are left out."""
    import torch

    inside = [checkpoint.get(key) for key in ("state_dict", "model_state_dict", "model")] if isinstance(checkpoint, dict) else []
    for found in [*inside, checkpoint]:
        if isinstance(found, dict):
            tensors = {k: v for k, v in found.items() if isinstance(k, str) and isinstance(v, torch.Tensor)}
            if tensors:
                return tensors
    return {}


def strip_names(tensors: Dict[str, Any], prefix: str) -> Dict[str, Any]:
    """Leaves out what DistributedDataParallel and torch.compile put in front of all names; then keeps what begins with prefix."""
    wrapper = next((w for w in ("module.", "_orig_mod.") if tensors and all(name.startswith(w) for name in tensors)), None)
    if wrapper:
        return strip_names({name[len(wrapper):]: x for name, x in tensors.items()}, prefix)
    return {name[len(prefix):]: x for name, x in tensors.items() if name.startswith(prefix)}


def array_of(tensor: Any) -> Tuple[str, List[int], Any]:
    """Type in the file, shape, and the elements in row-major order as something with bytes."""
    import torch

    shape = list(tensor.shape)
    flat = tensor.detach().cpu().contiguous().reshape(-1)
    if flat.dtype == torch.int16:  # not a type of the program's reader
        flat = flat.to(torch.int32)
    name = str(flat.dtype).replace("torch.", "")
    if name not in TYPES:
        raise ConvertError(f"a tensor of type {name}; known are {' '.join(TYPES)}")
    if flat.dtype == torch.bfloat16:  # unknown to NumPy
        flat = flat.view(torch.int16)
    return TYPES[name], shape, flat.numpy()


def write_safetensors(path: str, arrays: Dict[str, Tuple[str, List[int], Any]]) -> None:
    """{name: (type, shape, array)}. Wide types come first, so that every tensor is aligned."""
    names = sorted(arrays, key=lambda name: -arrays[name][2].itemsize)
    header: Dict[str, Any] = {"__metadata__": {"format": "pt"}}
    end = 0
    for name in names:
        kind, shape, array = arrays[name]
        header[name] = {"dtype": kind, "shape": shape, "data_offsets": [end, end + array.nbytes]}
        end += array.nbytes
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    data = [arrays[name][2].data for name in names if arrays[name][2].size]
    replace_file(path, struct.pack("<Q", len(text)) + text, *data)


def convert_checkpoint(source: str, target: str, prefix: str = "") -> str:
    tensors = find_tensors(load_checkpoint(source))
    if not tensors:
        raise ConvertError(f"{source}: no dict of tensors in it; in PyTorch: torch.save(model.state_dict(), ...)")
    kept = strip_names(tensors, prefix)
    if not kept:
        raise ConvertError(f"{source}: no tensor begins with '{prefix}'; the first one is '{next(iter(strip_names(tensors, '')))}'")
    arrays = {}
    for name, tensor in kept.items():
        try:
            arrays[name] = array_of(tensor)
        except ConvertError as error:
            raise ConvertError(f"{source}: '{name}' is {error}") from None
    write_safetensors(target, arrays)
    return f"{target}: {len(arrays)} tensors"


# ----- CIFAR's Python version -----

class Cifar:
    def __init__(self, files: Iterable[str], labels: List[str], names: Dict[str, str], meta: str) -> None:
        self.files = {file: file + ".bin" for file in files}
        self.labels = labels  # keys of the label lists, in the order of a record
        self.names = names  # file of class names: key in the file meta
        self.meta = meta


CIFAR10 = Cifar([f"data_batch_{k}" for k in range(1, 6)] + ["test_batch"], ["labels"], {"batches.meta.txt": "label_names"},
                "batches.meta")
CIFAR100 = Cifar(["train", "test"], ["coarse_labels", "fine_labels"],
                 {"coarse_label_names.txt": "coarse_label_names", "fine_label_names.txt": "fine_label_names"}, "meta")


class ArrayUnpickler(pickle.Unpickler):
    """Calls what makes NumPy arrays, nothing else."""

    ALLOWED = {("numpy.core.multiarray", "_reconstruct"), ("numpy._core.multiarray", "_reconstruct"), ("numpy", "ndarray"),
               ("numpy", "dtype"), ("_codecs", "encode")}

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in self.ALLOWED:
            raise pickle.UnpicklingError(f"it would call {module}.{name}")
        return super().find_class(module.replace("numpy.core", "numpy._core") if has_new_numpy() else module, name)


def has_new_numpy() -> bool:
    import numpy

    return int(numpy.__version__.split(".")[0]) >= 2


Reader = Callable[[str], Optional[bytes]]  # the bytes of a file by its name, None if it is not there


def open_cifar(source: str) -> Reader:
    """A folder, what is one folder below it, or a .tar.gz."""
    if os.path.isdir(source):
        below = [source] + [os.path.join(source, name) for name in ("cifar-10-batches-py", "cifar-100-python")]

        def read_file(name: str) -> Optional[bytes]:
            for folder in below:
                if os.path.isfile(os.path.join(folder, name)):
                    with open(os.path.join(folder, name), "rb") as file:
                        return file.read()
            return None
        return read_file
    members = {}
    with tarfile.open(source) as archive:
        for member in archive:
            if member.isfile() and member.size < 1 << 30:
                content = archive.extractfile(member)
                members[os.path.basename(member.name)] = content.read() if content else b""
    return members.get


def unpickle(name: str, data: bytes) -> Dict[str, Any]:
    try:
        content = ArrayUnpickler(io.BytesIO(data), encoding="latin1").load()
    except Exception as error:
        raise ConvertError(f"{name}: not a file of CIFAR's Python version: {error}") from error
    if not isinstance(content, dict):
        raise ConvertError(f"{name}: not a file of CIFAR's Python version: it holds no dict")
    return content


def records(name: str, content: Dict[str, Any], cifar: Cifar) -> bytes:
    import numpy

    data = content.get("data")
    columns = [content.get(key) for key in cifar.labels]
    if not isinstance(data, numpy.ndarray) or data.dtype != numpy.uint8 or data.ndim != 2 or data.shape[1] != 3072:
        raise ConvertError(f"{name}: no array 'data' of bytes, 3072 in a row")
    for key, column in zip(cifar.labels, columns):
        if not isinstance(column, list) or len(column) != len(data) or not all(type(x) is int and 0 <= x < 256 for x in column):
            raise ConvertError(f"{name}: '{key}' is not a list of {len(data)} labels")
    return numpy.column_stack([numpy.array(columns, dtype=numpy.uint8).T, data]).tobytes()


def convert_cifar(source: str, target: str) -> str:
    read = open_cifar(source)
    cifar = next((c for c in (CIFAR10, CIFAR100) if any(read(name) for name in c.files)), None)
    if cifar is None:
        raise ConvertError(f"{source}: neither data_batch_1 to data_batch_5 and test_batch of CIFAR-10, nor train and test of "
                           f"CIFAR-100")
    os.makedirs(target, exist_ok=True)
    images = 0
    for name, binary in cifar.files.items():
        pickled = read(name)
        if pickled is not None:
            written = records(name, unpickle(name, pickled), cifar)
            images += len(written) // (3072 + len(cifar.labels))
            replace_file(os.path.join(target, binary), written)
    pickled = read(cifar.meta)
    meta = unpickle(cifar.meta, pickled) if pickled else {}
    for text_file, key in cifar.names.items():
        if isinstance(meta.get(key), list):
            replace_file(os.path.join(target, text_file), "".join(f"{name}\n" for name in meta[key]).encode())
    return f"{target}: {images} images"


# ----- labels in MATLAB files: Oxford 102 Flowers, Stanford Cars -----

Lists = Dict[str, List[Tuple[str, int]]]  # by split: an image of the folder, and its class from 0


def load_matlab(path: str) -> Dict[str, Any]:
    import scipy.io

    try:
        return dict(scipy.io.loadmat(path, squeeze_me=True))
    except (ValueError, TypeError, NotImplementedError, struct.error) as error:
        raise ConvertError(f"{path}: {error}") from error


def flowers(folder: str) -> Tuple[Lists, List[str]]:
    import numpy

    labels = load_matlab(os.path.join(folder, "imagelabels.mat"))["labels"]
    sets = load_matlab(os.path.join(folder, "setid.mat"))
    lists = {split: [(f"jpg/image_{k:05d}.jpg", int(labels[int(k) - 1]) - 1) for k in numpy.atleast_1d(sets[key])]
             for split, key in (("train", "trnid"), ("val", "valid"), ("test", "tstid"))}
    return {**lists, "trainval": lists["train"] + lists["val"]}, []


def cars(folder: str) -> Tuple[Lists, List[str]]:
    import numpy

    def there(*names: str) -> str:
        found = [name for name in names if os.path.exists(os.path.join(folder, name))]
        if not found:
            raise ConvertError(f"{folder}: none of {', '.join(names)}")
        return found[0]

    def load(name: str) -> Dict[str, Any]:
        return load_matlab(os.path.join(folder, name))

    lists: Lists = {"train": [], "test": []}
    if os.path.exists(os.path.join(folder, "cars_annos.mat")):
        meta = load("cars_annos.mat")
        for row in numpy.atleast_1d(meta["annotations"]):
            lists["test" if row["test"] else "train"].append((str(row["relative_im_path"]), int(row["class"]) - 1))
    else:
        annotations = {"train": ("devkit/cars_train_annos.mat", "car_devkit/devkit/cars_train_annos.mat", "cars_train_annos.mat"),
                       "test": ("cars_test_annos_withlabels.mat", "devkit/cars_test_annos_withlabels.mat",
                                "car_devkit/devkit/cars_test_annos_withlabels.mat")}
        meta = load(there("devkit/cars_meta.mat", "car_devkit/devkit/cars_meta.mat", "cars_meta.mat"))
        for split, names in annotations.items():
            images = there(f"cars_{split}/cars_{split}", f"cars_{split}")
            for row in numpy.atleast_1d(load(there(*names))["annotations"]):
                lists[split].append((f"{images}/{row['fname']}", int(row["class"]) - 1))
    return lists, [str(name) for name in numpy.atleast_1d(meta["class_names"])]


def convert_lists(source: str, target: str) -> str:
    try:
        lists, classes = (flowers if os.path.exists(os.path.join(source, "imagelabels.mat")) else cars)(source)
    except (KeyError, IndexError, ValueError) as error:
        raise ConvertError(f"{source}: its MATLAB files are not those of the dataset: {error!r}") from error
    os.makedirs(target, exist_ok=True)
    for split, rows in lists.items():
        replace_file(os.path.join(target, f"{split}.tsv"), "".join(f"{image}\t{label}\n" for image, label in rows).encode())
    if classes:
        replace_file(os.path.join(target, "classes.txt"), "".join(f"{name}\n" for name in classes).encode())
    return f"{target}: " + ", ".join(f"{split}.tsv {len(rows)}" for split, rows in lists.items())


def has_labels_in_matlab(folder: str) -> bool:
    marks = ("imagelabels.mat", "cars_annos.mat", "devkit", "car_devkit", "cars_train_annos.mat")
    return os.path.isdir(folder) and any(os.path.exists(os.path.join(folder, name)) for name in marks)


# ----- all of them -----

def replace_file(path: str, *parts: Any) -> None:
    """The parts, one behind the other, replace the file only when complete."""
    temporary = f"{path}.tmp-{os.getpid()}"
    try:
        with open(temporary, "wb") as file:
            for part in parts:
                file.write(part)
        os.replace(temporary, path)
    finally:
        if os.path.exists(temporary):
            os.unlink(temporary)


def main(arguments: List[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m glofnd convert", formatter_class=argparse.RawDescriptionHelpFormatter,
                                     description="PyTorch checkpoints to safetensors, CIFAR's Python version to the binary one, "
                                                 "labels in MATLAB files (Flowers, Cars) to lists",
                                     epilog="  python -m glofnd convert resnet50.pth resnet50.safetensors\n"
                                            "  python -m glofnd convert cifar-10-python.tar.gz cifar-10-batches-bin\n"
                                            "  python -m glofnd convert flowers-102 flowers-102")
    parser.add_argument("source", help="file of torch.save; folder or .tar.gz of CIFAR's Python version; folder of Flowers or Cars")
    parser.add_argument("target", help="safetensors file, or folder, to write")
    parser.add_argument("--prefix", default="", metavar="NAME.",
                        help="take only tensors whose names begin with this, and leave it out: 'encoder_q.'")
    given = parser.parse_args(arguments)
    try:
        if has_labels_in_matlab(given.source):
            done = convert_lists(given.source, given.target)
        elif os.path.isdir(given.source) or tarfile.is_tarfile(given.source):
            done = convert_cifar(given.source, given.target)
        else:
            done = convert_checkpoint(given.source, given.target, given.prefix)
    except (ConvertError, OSError, ImportError, tarfile.TarError) as error:
        print(f"python -m glofnd convert: {error}", file=sys.stderr)
        return 1
    print(done)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

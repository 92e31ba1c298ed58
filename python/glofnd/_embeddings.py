"""What glofnd.discover() reads: embeddings of NumPy, PyTorch, pandas, pyarrow, DLPack, files and lists; labels and their names."""

from __future__ import annotations

import ctypes
import itertools
import os
import re
import sys
import weakref
from typing import Any, Iterable, NamedTuple, Optional

import numpy as np

from . import _lib
from ._lib import ArgumentError, FileError, FormatError, UnsupportedError, c_text

_DTYPES = {"float32": _lib.F32, "bfloat16": _lib.BF16, "float16": _lib.F16}
_INTEGER = re.compile(r"([+-]?[0-9]+)(?:\.0*)?\Z")


class Rows(NamedTuple):
    """A matrix as the library reads it; `alive` holds its memory."""

    pointer: int
    n: int
    dim: int
    stride: int
    dtype: int
    alive: Any


def _of_array(array: np.ndarray) -> Rows:
    if isinstance(array, np.ma.MaskedArray):
        array = _without_mask(array)
    if array.dtype.kind == "O" and array.ndim in (1, 2):
        array = _of_vectors(array)
    if array.ndim != 2:
        raise ArgumentError(f"embeddings have shape {array.shape}; expected [samples][dimensions]")
    if array.dtype.name not in _DTYPES or not array.dtype.isnative:
        if array.dtype.kind not in "fiu":
            raise ArgumentError(f"embeddings are {array.dtype}; expected numbers")
        array = array.astype(np.float32)
    size = array.itemsize
    if array.shape[1] > 1 and array.strides[1] != size or array.strides[0] % size or array.strides[0] < array.shape[1] * size:
        array = np.ascontiguousarray(array)
    return Rows(array.ctypes.data, array.shape[0], array.shape[1], array.strides[0] // size, _DTYPES[array.dtype.name], array)


def _without_mask(array: np.ma.MaskedArray) -> np.ndarray:
    """Masked numbers are missing ones."""
    if not np.ma.is_masked(array) or array.dtype.kind not in "fiu":
        return np.ma.getdata(array)
    return np.ma.filled(array.astype(array.dtype if array.dtype.kind == "f" else np.float32), np.nan)


def _of_torch(tensor: Any) -> Rows:
    """Without NumPy, which has no bfloat16."""
    import torch
    kinds = {torch.float32: _lib.F32, torch.bfloat16: _lib.BF16, torch.float16: _lib.F16}
    if tensor.layout != torch.strided:
        raise ArgumentError(f"embeddings are a tensor of layout {tensor.layout}; expected a dense one: .to_dense()")
    if tensor.dim() != 2:
        raise ArgumentError(f"embeddings have shape {list(tensor.shape)}; expected [samples, dimensions]")
    if tensor.dtype == torch.bool or tensor.is_complex():
        raise ArgumentError(f"embeddings are {tensor.dtype}; expected numbers")
    if tensor.is_meta:
        raise ArgumentError("embeddings are on the device meta, which holds no numbers")
    tensor = tensor.detach().to("cpu")
    if tensor.dtype not in kinds:
        tensor = tensor.to(torch.float32)
    if tensor.stride(1) != 1 or tensor.stride(0) < tensor.shape[1]:
        tensor = tensor.contiguous()
    return Rows(tensor.data_ptr(), tensor.shape[0], tensor.shape[1], tensor.stride(0), kinds[tensor.dtype], tensor)


def _is_of(x: Any, package: str) -> bool:
    return type(x).__module__.split(".")[0] == package


def _is_tensor(x: Any) -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(x, torch.Tensor)


# ----- files ------------------------------------------------------------------------------------------------------------------

_TORCH = (".pt", ".pth")


class Files:
    """Embedding files, opened by the library: what the program reads, with its names and labels."""

    def __init__(self, paths: list[str], **columns: Optional[str]):
        for key, text in columns.items():
            if text is not None and not isinstance(text, str):
                raise ArgumentError(f"{'label_column' if key == 'label' else key} is {text!r}; expected a name")
            if text is not None and "\0" in text:
                raise ArgumentError(f"{'label_column' if key == 'label' else key} is {text!r}: it has a zero byte")
        self.source = paths[0] + (f" and {len(paths) - 1} more" if len(paths) > 1 else "")
        texts = (ctypes.c_char_p * len(paths))(*map(os.fsencode, paths))
        spec = _lib.EmbeddingFiles(path=ctypes.cast(texts, ctypes.c_void_p), paths=len(paths),
                                   **{key: None if text is None else c_text(text) for key, text in columns.items()})
        handle = ctypes.c_void_p()
        _lib.checked(_lib.library.glofnd_embeddings_open, ctypes.byref(spec), ctypes.byref(handle))
        self.handle = handle.value
        self.close = weakref.finalize(self, _lib.library.glofnd_embeddings_close, self.handle)
        info = _lib.EmbeddingsInfo()
        _lib.library.glofnd_embeddings_describe(self.handle, ctypes.byref(info))
        self.n, self.dim = info.n, info.dim
        self.names, self.labels = self._texts(info.name), self._texts(info.label)

    def _texts(self, address: Optional[int]) -> Optional[list[str]]:
        if not address:
            return None
        return [text.decode(errors="surrogateescape") for text in (ctypes.c_char_p * self.n).from_address(address)]

    def read(self) -> np.ndarray:
        x = np.empty((self.n, self.dim), np.float32)
        _lib.checked(_lib.library.glofnd_embeddings_read, self.handle, 0, self.n, x.ctypes.data)
        return x


def _is_path(x: Any) -> bool:
    return isinstance(x, (str, os.PathLike))


def paths_of(x: Any) -> Optional[list[str]]:
    """The paths that the library is to read; None: something else. Archives of NumPy and PyTorch are read by these."""
    paths = [x] if _is_path(x) else list(x) if isinstance(x, (list, tuple)) and x and all(map(_is_path, x)) else []
    texts = [os.fsdecode(path) for path in paths]
    if any("\0" in text for text in texts):
        raise ArgumentError("a path has a zero byte")
    return texts if texts and not any(text.lower().endswith((".npz", *_TORCH)) for text in texts) else None


def _of_archive(path: str) -> Any:
    """The only matrix of a .npz or of a file of torch.save()."""
    if not os.path.exists(path):
        raise FileError(f"{path!r}: there is no such file")
    try:
        if path.lower().endswith(".npz"):
            with open(path, "rb") as file, np.load(file) as archive:
                arrays: Any = dict(archive)
        else:
            import torch
            arrays = torch.load(path, map_location="cpu", weights_only=True)
    except ImportError:
        raise UnsupportedError(f"{path!r} is a file of PyTorch, which is not installed; save x.numpy() as .npy") from None
    except Exception as failure:  # noqa: BLE001  a damaged zip, a pickle of something else: each has its own exception
        if "Weights only load failed" in str(failure):  # and then advice to run what is in the file
            raise FormatError(f"{path!r} holds more than tensors; save the matrix alone: torch.save(x, path)") from None
        raise FormatError(f"{path!r} cannot be read: {(str(failure).strip().splitlines() or ['damaged'])[0][:200]}") from None
    if not isinstance(arrays, dict):
        return arrays
    matrices = {key: x for key, x in arrays.items() if len(getattr(x, "shape", ())) == 2}
    if len(matrices) != 1:
        raise ArgumentError(f"{path!r} holds {len(matrices) or 'no'} matrices{': ' if matrices else ''}{', '.join(map(str, list(matrices)[:5]))}; "
                            "pass one of them as an array")
    return next(iter(matrices.values()))


# ----- arrays, columns, lists -------------------------------------------------------------------------------------------------


def _of_lists(x: Any) -> np.ndarray:
    try:
        return np.asarray(x, np.float32)
    except (TypeError, ValueError):
        return _of_vectors(x)


def _is_null(row: Any) -> bool:
    """None, NaN or pandas.NA in place of a vector."""
    return row is None or type(row).__name__ == "NAType" or (isinstance(row, float) and row != row)


def _of_vectors(rows: Iterable[Any]) -> np.ndarray:
    """A vector per row (a number of a matrix of objects counts as one of its row); those of null rows are NaN, which the search
    leaves out."""
    every = list(rows)
    first: Optional[int] = None
    vectors: dict[int, np.ndarray] = {}
    for i, row in enumerate(every):
        if _is_null(row):
            continue
        try:
            vector = row.detach().cpu().float().numpy() if _is_tensor(row) else np.asarray(row)
            vector = vector if vector.dtype.kind in "fiuV" else np.asarray(row, np.float32)
        except (TypeError, ValueError):
            raise ArgumentError(f"row {i} of the embeddings holds something that is no number: leave it out, or make it null") from None
        if vector.ndim != 1:
            raise ArgumentError(f"row {i} of the embeddings has shape {vector.shape}; expected a vector: there are no vectors in this column")
        first = i if first is None else first
        if vector.shape != vectors.get(first, vector).shape:
            raise ArgumentError(f"row {i} of the column has shape {vector.shape}, row {first} {vectors.get(first, vector).shape}; expected "
                                "vectors of one length, not rows of different lengths: leave such rows out, or make them null")
        vectors[i] = vector
    if first is None:
        raise ArgumentError(f"no embeddings: all {len(every)} rows are null")
    return _with_nulls(np.stack(list(vectors.values())), np.fromiter(vectors, np.int64), len(every))


def _with_nulls(rows: np.ndarray, at: np.ndarray, n: int) -> np.ndarray:
    """[n] rows: the given ones at `at`, others NaN."""
    if len(rows) == n:
        return rows
    every = np.full((n, rows.shape[1]), np.nan, rows.dtype if rows.dtype.kind == "f" else np.float32)
    every[at] = rows
    return every


def _of_arrow(column: Any) -> np.ndarray:
    """A column of lists of equal length: the numbers of all rows side by side. Null lists become NaN."""
    if hasattr(column, "columns"):  # a table: numbers, a column per dimension
        lists = [name for name, x in zip(column.column_names, column.columns) if hasattr(x.type, "value_type")]
        if lists or not all(_is_number(x.type) for x in column.columns):
            raise ArgumentError(_of_table(column.column_names, f"table[{(lists or ['name'])[0]!r}]"))
        _refuse_roles([(name, x.type) for name, x in zip(column.column_names, column.columns)], "table.drop_columns(")
        return np.stack([np.asarray(x) for x in column.columns], 1)
    if hasattr(column, "combine_chunks"):
        column = column.combine_chunks()
    if hasattr(column, "chunks"):
        column = column.chunk(0)
    kind = column.type
    if hasattr(column, "storage") and len(getattr(kind, "shape", ())) == 1:  # tensors of one axis
        column = column.storage
    if not hasattr(column, "flatten") or not _is_number(getattr(column.type, "value_type", "")):
        raise ArgumentError(f"embeddings are a column of {kind}; expected lists of numbers")
    at = np.flatnonzero(np.asarray(column.is_valid()))
    n, column = len(column), column.drop_null()
    if not len(column):
        raise ArgumentError(f"no embeddings: all {n} rows are null")
    values = np.asarray(column.flatten())
    lengths = np.diff(np.asarray(column.offsets)) if hasattr(column, "offsets") else np.full(len(column), len(values) // len(column))
    wrong = np.flatnonzero(lengths != lengths[0])
    if len(wrong):
        raise ArgumentError(f"row {at[wrong[0]]} of the column has {lengths[wrong[0]]} numbers, row {at[0]} {lengths[0]}; expected lists of "
                            f"equal length: leave such rows out ({len(wrong)} in all), or make them null")
    return _with_nulls(values.reshape(len(column), -1), at, n)


def _is_number(kind: Any) -> bool:
    return str(kind).startswith(("int", "uint", "float", "double", "half"))


def _of_table(columns: Iterable[Any], choice: str) -> str:
    return f"a table with columns {', '.join(map(repr, list(columns)[:5]))}, of which some are no numbers; pass the column of embeddings: {choice}"


def _refuse_roles(columns: list[tuple[Any, Any]], drop: str) -> None:
    """Integers called id or label, which the program leaves out of a file, are no dimensions of a table either."""
    titles = [str(name).lower() for name, _ in columns]
    roles = {"id", "idx", "index", "sample", "unnamed: 0", "__index_level_0__", "label", "labels", "class", "target"}
    roles |= set() if "x" in titles else {"y"}
    odd = [name for (name, kind), title in zip(columns, titles) if title in roles and str(kind).lower().startswith(("int", "uint"))]
    if odd:
        raise ArgumentError(f"a table whose column {odd[0]!r} is an id or labels by its title, no dimension; leave it out: {drop}{odd!r})")


def refuse_another_order(what: str, embeddings: Any, values: Any) -> None:
    """Rows go by their position. Columns of pandas with one index in two orders are rows of different samples."""
    if not (_is_of(embeddings, "pandas") and _is_of(values, "pandas") and hasattr(embeddings, "index") and hasattr(values, "index")):
        return
    one, two = embeddings.index, values.index
    if len(one) == len(two) and not one.equals(two) and one.is_unique and two.is_unique and two.isin(one).all():
        raise ArgumentError(f"the index of the {what} is that of the embeddings in another order; pass {what}.loc[embeddings.index]")


def index_of(x: Any) -> Optional[list[str]]:
    """Names of the rows of a table or column of pandas: its index, unless that is one of numbers without a title."""
    index = getattr(x, "index", None) if _is_of(x, "pandas") else None
    if not hasattr(index, "inferred_type"):
        return None
    if all(title is None for title in index.names) and index.inferred_type in ("integer", "floating", "boolean", "empty"):
        return None
    return ["/".join(map(text_of, row)) if isinstance(row, tuple) else text_of(row) for row in index]


def _of_pandas(x: Any) -> np.ndarray:
    if hasattr(x, "columns"):
        try:
            if any(getattr(kind, "kind", "") in "bmM" for kind in x.dtypes):  # they would become 0, 1 or nanoseconds
                raise TypeError
            numbers = x.to_numpy(dtype=np.float32)
        except (TypeError, ValueError):
            vectors = [name for name in x.columns if len(x) and np.ndim(x[name].iloc[0]) == 1]
            raise ArgumentError(_of_table(x.columns, f"df[{vectors[0]!r}]" if vectors else "df[name]")) from None
        _refuse_roles(list(x.dtypes.items()), "df.drop(columns=")
        return np.ascontiguousarray(numbers)
    arrow = getattr(x.array, "_pa_array", None)
    return _of_arrow(arrow) if arrow is not None else _of_vectors(x)


def _of_polars(x: Any) -> np.ndarray:
    """A table: numbers, a column per dimension. (A column is an iterable of vectors.)"""
    if not all(_is_number(str(kind).lower()) for kind in x.dtypes):
        vectors = [name for name, kind in x.schema.items() if str(kind).startswith(("List", "Array"))]
        raise ArgumentError(_of_table(x.columns, f"df[{(vectors or ['name'])[0]!r}]"))
    _refuse_roles(list(x.schema.items()), "df.drop(")
    return np.asarray(x)


# ----- tables -----------------------------------------------------------------------------------------------------------------


class Table(NamedTuple):
    """What a table has of its rows: embeddings, and names, labels and the names of classes where they were asked for."""

    embeddings: Any
    names: Any
    labels: Any
    classes: Optional[list[str]]


def is_dataset(x: Any) -> bool:
    """A dataset of Hugging Face in memory or on disk, not one that is streamed and not a dictionary of splits."""
    return _is_of(x, "datasets") and hasattr(x, "select_columns") and hasattr(x, "__len__") and isinstance(x.column_names, list)


def titles_of(x: Any) -> Optional[list[Any]]:
    """The titles of the columns of a table; None: it is no table."""
    if is_dataset(x):
        return x.column_names
    if _is_of(x, "pandas") and hasattr(x, "columns") or _is_of(x, "polars") and hasattr(x, "get_columns"):
        return list(x.columns)
    if _is_of(x, "pyarrow") and hasattr(x, "column_names"):
        return list(x.column_names)
    return list(x) if isinstance(x, dict) else None


def _has_vectors(values: Any) -> bool:
    """A column of lists of numbers, by its type or by its first value."""
    kind = getattr(values, "type", None)
    if kind is not None:  # pyarrow
        storage = getattr(kind, "storage_type", kind)
        return _is_number(getattr(storage, "value_type", ""))
    if getattr(values, "ndim", 1) == 2:
        return True
    for value in values:
        if not _is_null(value):
            return np.ndim(value) == 1 and np.asarray(value[:1]).dtype.kind in "fiu"
    return False


def table_of(x: Any, column: Optional[str], id: Optional[str], label: Optional[str]) -> Table:  # noqa: A002
    """The columns of a table by their titles. Without `column`: the only one of vectors; else all that remain are numbers."""
    titles = titles_of(x) or []
    for what, title in (("column", column), ("id", id), ("label_column", label)):
        if title is not None and titles.count(title) != 1:
            raise ArgumentError(f"{what} is {title!r}; the table has {titles.count(title) or 'no'} such column{'s' * (titles.count(title) > 1)}, but "
                                f"{', '.join(map(repr, titles[:8]))}{', ...' * (len(titles) > 8)}")
    classes = getattr(x.features[label], "names", None) if label is not None and is_dataset(x) else None
    if is_dataset(x):  # in the order of its rows, whatever was selected or shuffled
        if column is None:
            features = {title: getattr(kind, "feature", None) for title, kind in x.features.items()}
            column = _only([title for title, inner in features.items() if _is_number(getattr(inner, "dtype", ""))], titles)
        x = x.select_columns([title for title in dict.fromkeys((column, id, label)) if title is not None]).with_format("arrow")[:]
    elif column is None:
        rest = [title for title in titles if title not in (id, label)]
        vectors = [title for title in rest if _has_vectors(x[title])]
        if vectors or isinstance(x, dict):
            column = _only(vectors, titles)
        elif len(rest) < len(titles):
            rows = x.select(rest) if hasattr(x, "select") else x[rest]
            return Table(rows, None if id is None else x[id], None if label is None else x[label], classes)
    return Table(x if column is None else x[column], None if id is None else x[id], None if label is None else x[label], classes)


def _only(vectors: list[Any], titles: list[Any]) -> Any:
    if len(vectors) == 1:
        return vectors[0]
    found = f"{len(vectors)} columns of vectors: {', '.join(map(repr, vectors[:5]))}" if vectors else (
        f"no column of vectors, but {', '.join(map(repr, titles[:5]))}")
    raise ArgumentError(f"the table has {found}; name the column of embeddings: column=NAME")


def _is_vector(x: Any) -> bool:
    """One embedding, or a missing one; else a shard."""
    if isinstance(x, (list, tuple)):
        return bool(x) and isinstance(x[0], (int, float, np.number))
    holds_objects = getattr(getattr(x, "dtype", None), "kind", "f") == "O"  # a column of vectors
    return _is_null(x) or (len(getattr(x, "shape", ())) == 1 and not holds_objects)


def _of_iterable(x: Iterable[Any]) -> Rows:
    """Shards, or a vector per sample."""
    rest = iter(x)
    first = list(itertools.islice(rest, 1))
    every = itertools.chain(first, rest)
    return _of_array(_of_vectors(every)) if first and _is_vector(first[0]) else _of_shards(every)


def _of_shards(shards: Iterable[Any]) -> Rows:
    parts: list[np.ndarray] = []
    for shard in shards:
        rows = rows_of(shard)
        part = _as_float32(rows)
        if parts and part.shape[1] != parts[0].shape[1]:
            raise ArgumentError(f"shard {len(parts)} has {part.shape[1]} dimensions, the first {parts[0].shape[1]}")
        parts.append(part)
    if not parts:
        raise ArgumentError("no embeddings: the iterable is empty")
    return _of_array(np.concatenate(parts))


def _as_float32(rows: Rows) -> np.ndarray:
    if isinstance(rows.alive, np.ndarray):
        return np.asarray(rows.alive, np.float32)
    return rows.alive.float().numpy()


def rows_of(x: Any) -> Rows:
    if isinstance(x, np.ndarray):
        return _of_array(x)
    if _is_path(x):
        paths = paths_of(x)
        return rows_of(_of_archive(os.fsdecode(x))) if paths is None else _of_array(Files(paths).read())
    if isinstance(x, dict) or hasattr(x, "files"):
        raise ArgumentError(f"embeddings are a {type(x).__name__} with names; pass one of its arrays: {', '.join(map(str, list(x)[:5]))}")
    if _is_tensor(x):
        return _of_torch(x)
    if _is_of(x, "pandas"):
        return _of_array(_of_pandas(x))
    if _is_of(x, "polars") and hasattr(x, "get_columns"):
        return _of_array(_of_polars(x))
    if _is_of(x, "pyarrow"):
        return _of_array(_of_arrow(x))
    if hasattr(x, "toarray"):
        raise ArgumentError(f"embeddings are a sparse {type(x).__name__}; expected a dense array: x.toarray()")
    if hasattr(x, "read") and not hasattr(x, "shape"):
        raise ArgumentError("embeddings are an open file; pass its path, or the array in it")
    if hasattr(x, "__dlpack__"):
        try:
            return _of_array(np.from_dlpack(x))
        except (BufferError, RuntimeError, TypeError, ValueError):
            return _of_array(np.asarray(x))
    if hasattr(x, "__array__"):
        return _of_array(np.asarray(x))
    if isinstance(x, (list, tuple)) and any(map(_is_null, x)):  # vectors, and null rows
        return _of_array(_of_vectors(x))
    if isinstance(x, (list, tuple)) and x and isinstance(x[0], (int, float, list, tuple, np.number)):
        return _of_array(_of_lists(x))
    if hasattr(x, "__iter__") and not isinstance(x, (bytes, bytearray, set, frozenset)):
        return _of_iterable(x)
    raise ArgumentError(f"embeddings are of type {type(x).__name__}; expected an array, a tensor, a file, a column or shards of these")


def matrix_of(x: Any) -> np.ndarray:
    """The same as float32 [samples][dimensions]."""
    return _as_float32(rows_of(x))


def text_of(x: Any) -> str:
    """A name or a label; "" of a missing one."""
    x = x.as_py() if hasattr(x, "as_py") else x
    return "" if _is_null(x) else os.fsdecode(x) if isinstance(x, bytes) else str(x)


def refuse_zero_bytes(what: str, texts: list[str]) -> None:
    for i, text in enumerate(texts):
        if "\0" in text:
            raise ArgumentError(f"{what} {i} has a zero byte")


def names_of(names: Any, n: int) -> Optional[list[str]]:
    if names is None:
        return None
    if _is_path(names) or not hasattr(names, "__iter__"):
        raise ArgumentError(f"names are {names!r}; expected a list, one per embedding")
    texts = [text_of(name) for name in (names.tolist() if _is_tensor(names) else names)]
    if len(texts) != n:
        raise ArgumentError(f"{len(texts)} names for {n} embeddings; expected one per embedding")
    refuse_zero_bytes("name", texts)
    return texts


def labels_of(labels: Any, n: int) -> tuple[Optional[np.ndarray], Optional[list[str]]]:
    """int32 labels (-1: unknown), and the names of classes, as the program reads them: integers as they are, also as texts; if one is
    not an integer, all are names, numbered in the order of their bytes. "", None and nan: unknown."""
    if labels is None:
        return None, None
    if _is_path(labels) or not hasattr(labels, "__iter__"):
        raise ArgumentError(f"labels are {labels!r}; expected a list or an array, one per embedding (label_column is the column of a file)")
    if not hasattr(labels, "__len__"):
        labels = list(labels)
    values = labels.detach().cpu().numpy() if _is_tensor(labels) else np.asarray(labels)
    if values.shape != (n,):
        raise ArgumentError(f"labels have shape {values.shape}; expected ({n},): one per embedding")
    classes = None
    if values.dtype.kind not in "iu":
        mixed = values.dtype.kind in "US" and isinstance(labels, (list, tuple))  # where NumPy makes texts of None and nan
        texts = [text_of(x) for x in (labels if mixed else _whole(values).tolist())]
        numbers = [_integer(text) for text in texts]
        if None not in numbers:
            values = np.array(numbers)
        else:
            refuse_zero_bytes("label", texts)
            classes = sorted(set(texts) - {"", "nan", "NaN"}, key=c_text)
            number = {text: i for i, text in enumerate(classes)}
            values = np.array([number.get(text, -1) for text in texts])
    if values.size and values.max() > np.iinfo(np.int32).max:
        raise ArgumentError("labels do not fit into 31 bits")
    return np.ascontiguousarray(np.maximum(values, -1), np.int32), classes


def _integer(text: str) -> Optional[int]:
    """Also 3.0, as data frames write integers in columns with missing ones; -1: missing, None: no integer."""
    found = _INTEGER.match(text)
    return int(found.group(1)) if found else -1 if text.lower() in ("", "nan", "none", "null") else None


def _whole(values: np.ndarray) -> np.ndarray:
    """Floats that are whole numbers, as pandas makes of integers in columns with missing ones, are integers."""
    if values.dtype.kind != "f":
        return values
    known = np.isfinite(values)
    return np.where(known, values, -1).astype(np.int64) if (values[known] % 1 == 0).all() else values

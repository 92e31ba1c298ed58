"""libglofnd by ctypes: one table of structs, one of functions, and errors as exceptions.

The tables repeat include/glofnd.h; python/tests/test_layout.py compiles a C program against the header and compares every size,
offset and constant. Nothing else in the package knows how the C side is laid out.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import re
import weakref
from ctypes import POINTER, Structure, c_char_p, c_double, c_float, c_int, c_int32, c_int64, c_size_t, c_uint32, c_uint64, c_void_p
from typing import Any, Optional

VERSION = (1, 0)  # of the header that the tables below follow: major, minor

# ----- structs ----------------------------------------------------------------------------------------------------------------

STRUCTS: dict[str, list[tuple[str, Any]]] = {
    "glofnd_store_spec": [("size", c_size_t), ("n", c_int64), ("dim", c_int64), ("path", c_char_p), ("keyed", c_int32), ("reserved", c_int32)],
    "glofnd_store_info": [
        ("size", c_size_t), ("n", c_int64), ("modalities", c_int32), ("temperatures", c_int32), ("ring_rows", c_int64),
        ("ring_dim", c_int64), ("ring_count", c_int64), ("touched_rows", c_int64), ("row_bytes", c_size_t), ("bytes", c_size_t),
        ("keys", c_int64), ("keyed", c_int32), ("reserved", c_int32),
    ],
    "glofnd_anchor": [
        ("lambda", c_float), ("m", c_float), ("v", c_float), ("log_u", c_float), ("clock", c_uint32), ("tau", c_float),
        ("tau_m", c_float), ("tau_v", c_float), ("tau_clock", c_uint32),
    ],
    "glofnd_sims": [
        ("size", c_size_t), ("rows", c_int64), ("cols", c_int64), ("sim", c_void_p), ("negative", c_void_p), ("id", c_void_p),
        ("row_group", c_void_p), ("col_group", c_void_p), ("views", c_int32), ("side", c_int32), ("epoch", c_int32),
        ("reserved", c_int32),
    ],
    "glofnd_query": [
        ("size", c_size_t), ("rows", c_int64), ("cols", c_int64), ("dim", c_int64), ("q", c_void_p), ("k", c_void_p),
        ("skip", c_void_p), ("q_stride", c_int64), ("k_stride", c_int64), ("alpha", c_double), ("dtype", c_int32),
        ("reserved", c_int32),
    ],
    "glofnd_batch": [
        ("size", c_size_t), ("n", c_int64), ("dim", c_int64), ("a", c_void_p), ("b", c_void_p), ("id", c_void_p),
        ("label", c_void_p), ("group", c_void_p), ("a_stride", c_int64), ("b_stride", c_int64), ("grad_a_stride", c_int64),
        ("grad_b_stride", c_int64), ("dtype", c_int32), ("grad_dtype", c_int32), ("epoch", c_int32), ("want", c_uint32),
        ("tau", c_double), ("gamma", c_double), ("extra", c_void_p), ("negatives_a", c_void_p), ("negatives_b", c_void_p),
        ("negatives_a_n", c_int64), ("negatives_b_n", c_int64), ("negatives_a_stride", c_int64), ("negatives_b_stride", c_int64),
        ("negatives_a_id", c_void_p), ("negatives_b_id", c_void_p), ("grad_negatives_a", c_void_p), ("grad_negatives_b", c_void_p),
        ("bias", c_double), ("positives", c_void_p), ("guide", c_void_p), ("guide_threshold", c_void_p),
        ("guide_dim", c_int64),
    ],
    "glofnd_batch_extra": [
        ("size", c_size_t), ("support_a", c_void_p), ("support_b", c_void_p), ("bank_a", c_void_p), ("bank_b", c_void_p),
    ],
    "glofnd_own_rows": [("size", c_size_t), ("first", c_int64), ("rows", c_int64), ("slot", c_void_p)],
    "glofnd_counters": [("size", c_size_t), ("repeats", c_int64), ("neighbours", c_double)],
    "glofnd_stats": [
        ("size", c_size_t),
        *[(name, c_double) for name in (
            "loss", "grad_tau", "grad_scale", "kept_share", "detector_share", "lambda_mean", "quantile_mean", "log_u_mean",
            "tau_mean", "precision", "recall")],
        *[(name, c_int64) for name in ("pairs", "flagged", "same", "hits", "rescued")],
        ("f1", c_double), ("precision_per_anchor", c_double), ("recall_per_anchor", c_double),
        ("grad_bias", c_double),
    ],
}

REDUCE = ctypes.CFUNCTYPE(c_int, c_void_p, POINTER(c_double), c_int)
QUEUE_SUM = ctypes.CFUNCTYPE(c_int, c_void_p, c_void_p, c_int)
PROGRESS = ctypes.CFUNCTYPE(c_int, c_void_p, c_double)

STRUCTS["glofnd_embedding_files"] = [
    ("size", c_size_t), ("path", c_void_p), ("paths", c_int64), ("tensor", c_char_p), ("column", c_char_p), ("id", c_char_p),
    ("label", c_char_p),
]
STRUCTS["glofnd_embeddings_info"] = [
    ("size", c_size_t), ("n", c_int64), ("dim", c_int64), ("files", c_int64), ("columns", c_char_p), ("name", c_void_p),
    ("label", c_void_p),
]
STRUCTS["glofnd_discover_spec"] = [
    ("size", c_size_t), ("n", c_int64), ("dim", c_int64), ("x", c_void_p), ("label", c_void_p), ("stride", c_int64),
    ("dtype", c_int32), ("device", c_int32), ("alpha", c_double), ("k", c_int64), ("top", c_int64), ("max_pairs", c_int64),
    ("dup", c_double), ("memory", c_size_t), ("threads", c_int32), ("duplicates", c_int32), ("progress", PROGRESS),
    ("user", c_void_p), ("files", c_void_p), ("negatives", c_int64), ("approx", c_int64), ("only_duplicates", c_int32),
    ("worker", c_int32), ("parts", c_char_p), ("patience", c_double), ("stored", c_char_p), ("query", c_void_p), ("query_n", c_int64),
    ("query_stride", c_int64), ("query_dtype", c_int32), ("center", c_int32),
]
STRUCTS["glofnd_discovery_arrays"] = [
    ("size", c_size_t), ("n", c_int64), ("top", c_int64), ("usable", c_int64), ("rank", c_int64),
    *[(name, c_void_p) for name in (
        "kind", "threshold", "above", "mutual", "hits", "copies", "neighbour", "similarity", "component", "group")],
    ("pairs", c_int64), *[(name, c_void_p) for name in ("first", "other", "pair_similarity", "pair_mutual")],
    ("duplicates", c_int64), *[(name, c_void_p) for name in ("dup_a", "dup_b", "dup_similarity", "dup_exact")],
    ("components", c_int64), ("groups", c_int64),
    *[(name, c_void_p) for name in (
        "component_rows", "component_pairs", "component_first", "group_rows", "group_pairs", "group_first")],
    ("pairs_above", c_int64), ("mutual_pairs", c_int64), ("duplicate_pairs", c_int64),
    ("precision", c_double), ("recall", c_double), ("f1", c_double),
    ("negatives", c_int64), ("negative", c_void_p), ("negative_similarity", c_void_p), ("dup", c_double),
]
STRUCTS["glofnd_row_split"] = [("name", c_char_p), ("first", c_int64), ("rows", c_int64)]
STRUCTS["glofnd_decide_spec"] = [
    ("size", c_size_t), ("keep", c_int32), ("probe", c_int32), ("score", c_void_p), ("split", c_void_p), ("splits", c_int64), ("outliers", c_int64),
    ("sample", c_int64), ("pred_probs", c_void_p), ("pred_classes", c_int64), ("rows", c_int64),
]
STRUCTS["glofnd_decisions"] = [
    ("size", c_size_t), *[(name, c_int64) for name in ("n", "keep", "duplicates", "bad")], ("kept", c_void_p),
    ("kept_similarity", c_void_p), ("other_label", c_int64), ("unchecked", c_int64), ("outliers", c_int64), ("outliers_found", c_int64),
    ("outlier_limit", c_double), *[(name, c_void_p) for name in ("outlier", "outlier_nearest", "outlier_score")], ("issues", c_int64),
    *[(name, c_void_p) for name in (
        "issue", "issue_label", "issue_score", "issue_probability", "votes", "votes_for", "votes_own")],
    ("splits", c_int64), ("leak", c_void_p), ("leak_exact", c_void_p), ("leaks", c_int64),
    *[(name, c_void_p) for name in ("leak_a", "leak_b", "leak_similarity")], ("samples", c_int64), ("sample", c_void_p),
    ("sample_reach", c_double), ("limit", c_double),
]
STRUCTS["glofnd_discovery_files"] = [
    ("size", c_size_t), ("source", c_char_p), ("names", c_void_p), ("classes", c_void_p), ("class_count", c_int64),
    ("replace", c_int32), ("parquet", c_int32), ("graph", c_int32), ("reserved", c_int32), ("other_names", c_void_p),
    ("query_source", c_char_p),
]

CONSTANTS = {
    "GLOFND_DEVICE_CPU": 0, "GLOFND_DEVICE_CUDA": 1,
    "GLOFND_F32": 0, "GLOFND_BF16": 1, "GLOFND_F16": 2,
    "GLOFND_WANT_QUALITY": 1, "GLOFND_WANT_QUANTILE": 2, "GLOFND_WANT_NO_UPDATE": 4,
    "GLOFND_DUPLICATES_DEFAULT": 0, "GLOFND_DUPLICATES_ABOVE": 1, "GLOFND_DUPLICATES_EXACT": 2,
    "GLOFND_KEEP_FIRST": 0, "GLOFND_KEEP_CENTRAL": 1, "GLOFND_KEEP_SCORE": 2, "GLOFND_KEEP_LABEL": 3,
    "GLOFND_SHARED": -1, "GLOFND_LINK_BYTES": 64,
}


def _struct(name: str) -> Any:
    """The ctypes class of a table entry. Its `size` field, if it has one, is filled by the constructor."""
    fields = STRUCTS[name]

    def init(self: Any, **values: Any) -> None:
        Structure.__init__(self, **values)
        if fields[0][0] == "size":
            self.size = ctypes.sizeof(self)

    return type(name, (Structure,), {"_fields_": fields, "__init__": init})


StoreSpec = _struct("glofnd_store_spec")
StoreInfo = _struct("glofnd_store_info")
Row = _struct("glofnd_anchor")
Sims = _struct("glofnd_sims")
Query = _struct("glofnd_query")
Batch = _struct("glofnd_batch")
BatchExtra = _struct("glofnd_batch_extra")
OwnRows = _struct("glofnd_own_rows")
Counters = _struct("glofnd_counters")
Stats = _struct("glofnd_stats")
EmbeddingFiles = _struct("glofnd_embedding_files")
EmbeddingsInfo = _struct("glofnd_embeddings_info")
DiscoverSpec = _struct("glofnd_discover_spec")
DiscoveryArrays = _struct("glofnd_discovery_arrays")
DiscoveryFiles = _struct("glofnd_discovery_files")
RowSplit = _struct("glofnd_row_split")
DecideSpec = _struct("glofnd_decide_spec")
Decisions = _struct("glofnd_decisions")

F32, BF16, F16 = CONSTANTS["GLOFND_F32"], CONSTANTS["GLOFND_BF16"], CONSTANTS["GLOFND_F16"]
WANT_QUALITY, WANT_QUANTILE = CONSTANTS["GLOFND_WANT_QUALITY"], CONSTANTS["GLOFND_WANT_QUANTILE"]
WANT_NO_UPDATE = CONSTANTS["GLOFND_WANT_NO_UPDATE"]
SHARED, LINK_BYTES = CONSTANTS["GLOFND_SHARED"], CONSTANTS["GLOFND_LINK_BYTES"]

# ----- errors -----------------------------------------------------------------------------------------------------------------


class Error(Exception):
    """A call of libglofnd failed. `status` is the number of its status, the text says what happened and what to do."""

    status = 0


class ArgumentError(Error, ValueError):
    """GLOFND_E_ARGUMENT: shapes, pointers or values that no call accepts."""


class OptionError(Error, ValueError):
    """GLOFND_E_OPTION: an unknown option, or a value out of its range."""


class AnchorIndexError(Error, IndexError):
    """GLOFND_E_INDEX: an anchor id out of range, or twice in one batch."""


class NumericError(Error, ArithmeticError):
    """GLOFND_E_NUMERIC: a value that is not finite."""


class OutOfMemoryError(Error, MemoryError):
    """GLOFND_E_MEMORY."""


class DeviceError(Error, RuntimeError):
    """GLOFND_E_DEVICE: no usable GPU, or one of its calls failed."""


class UnsupportedError(Error, NotImplementedError):
    """GLOFND_E_UNSUPPORTED: a combination that this build or device does not have."""


class StateError(ArgumentError, RuntimeError):
    """A state_dict or a store file of another loss. PyTorch raises RuntimeError here, which this is, too."""


class FileError(Error, OSError):
    """GLOFND_E_IO: a file cannot be read or written."""


class FormatError(Error, ValueError):
    """GLOFND_E_FORMAT: a corrupt or foreign file."""


class CancelledError(Error, RuntimeError):
    """GLOFND_E_CANCELLED: the caller stopped the work."""


ERRORS: dict[int, type[Error]] = {
    10: ArgumentError, 11: OptionError, 12: AnchorIndexError, 20: NumericError, 30: OutOfMemoryError, 31: DeviceError,
    32: UnsupportedError, 40: FileError, 41: FormatError, 50: CancelledError,
}

for _kind in (Error, StateError, *ERRORS.values()):
    _kind.__module__ = "glofnd"


OPTION_NAMES = {"start_epoch": "mask_epoch"}  # options whose name here is not the library's

# Messages are the library's. Only fields of a batch (batch.id) and the options above are renamed: the arguments of the losses have
# other names, which belong to their users, and a message about one may come long after the call (CUDA, JAX), where only its text is known.
_ARGUMENTS = {"id": "index", "label": "labels", "group": "groups"}


def error_of(status: int, text: str, embeddings: tuple[str, str] = ("z1", "z2")) -> Error:
    """The exception of a failed status, not raised yet. `embeddings`: the names of the two arguments."""
    names = {**_ARGUMENTS, **dict(zip("ab", embeddings))}
    text = re.sub(r"\bbatch\.(\w+)( is NULL)?", lambda x: names.get(x[1], x[1]) + (" is None" if x[2] else ""), text)
    for ours, theirs in OPTION_NAMES.items():
        text = text.replace(theirs, ours)
    error = ERRORS.get(status, Error)(text or status_text(status))
    error.status = status
    return error


# ----- functions --------------------------------------------------------------------------------------------------------------

_text = [c_char_p, c_size_t]
_FUNCTIONS: dict[str, tuple[Any, list[Any]]] = {
    "version_number": (c_int, []),
    "build_info": (c_char_p, []),
    "status_text": (c_char_p, [c_int]),
    "status_name": (c_char_p, [c_int]),
    "options_create": (c_int, [POINTER(c_void_p)]),
    "options_free": (None, [c_void_p]),
    "options_set": (c_int, [c_void_p, c_char_p, c_char_p, *_text]),
    "options_get": (c_int, [c_void_p, c_char_p, c_char_p, c_size_t, *_text]),
    "options_check": (c_int, [c_void_p, *_text]),
    "options_describe": (c_int, [c_int, POINTER(c_char_p), POINTER(c_char_p), *_text]),
    "device_check": (c_int, [c_int32, *_text]),
    "ctx_create": (c_int, [c_void_p, POINTER(c_void_p), *_text]),
    "ctx_free": (None, [c_void_p]),
    "ctx_configure": (c_int, [c_void_p, c_void_p]),
    "ctx_reserve": (c_int, [c_void_p, c_int64, c_int64, c_int64, POINTER(c_size_t)]),
    "ctx_stream": (c_int, [c_void_p, c_void_p]),
    "ctx_error": (c_char_p, [c_void_p]),
    "ctx_stats": (c_int, [c_void_p, POINTER(Stats)]),
    "ctx_counters": (c_int, [c_void_p, POINTER(Counters)]),
    "ctx_loss": (c_int, [c_void_p, c_void_p, c_void_p]),
    "ctx_tau": (c_int, [c_void_p, c_void_p]),
    "ctx_bias": (c_int, [c_void_p, c_void_p]),
    "ctx_grad_bias": (c_int, [c_void_p, c_void_p]),
    "ctx_state": (c_int, [c_void_p, c_void_p, c_int64]),
    "ctx_phase": (c_int, [c_void_p, POINTER(Batch), POINTER(c_uint64)]),
    "ctx_workspace_bytes": (c_int, [c_void_p, c_int64, c_int64, c_int64, POINTER(c_size_t)]),
    "ctx_workspace": (c_int, [c_void_p, c_void_p, c_size_t]),
    "ctx_reduce": (c_int, [c_void_p, REDUCE, c_void_p]),
    "ctx_reduce_queued": (c_int, [c_void_p, QUEUE_SUM, c_void_p]),
    "records_get": (c_int, [c_void_p, c_void_p, c_void_p, c_int64, c_void_p]),
    "records_put": (c_int, [c_void_p, c_void_p, c_void_p, c_int64, c_void_p]),
    "store_create": (c_int, [c_void_p, POINTER(StoreSpec), POINTER(c_void_p)]),
    "store_free": (None, [c_void_p]),
    "store_save": (c_int, [c_void_p, c_void_p, c_char_p]),
    "store_load": (c_int, [c_void_p, c_char_p, c_char_p, POINTER(c_void_p)]),
    "store_describe": (c_int, [c_void_p, POINTER(StoreInfo)]),
    "store_reserve": (c_int, [c_void_p, c_void_p, c_int64]),
    "store_keys": (c_int, [c_void_p, c_void_p, c_void_p, c_int64, POINTER(c_int64)]),
    "anchors_get": (c_int, [c_void_p, c_void_p, c_int, c_void_p, c_int64, c_void_p]),
    "anchors_put": (c_int, [c_void_p, c_void_p, c_int, c_void_p, c_int64, c_void_p]),
    "ring_get": (c_int, [c_void_p, c_void_p, c_void_p, c_void_p, c_void_p]),
    "ring_put": (c_int, [c_void_p, c_void_p, c_int64, c_void_p, c_void_p, c_void_p]),
    "bank_dim": (c_int64, [c_void_p]),
    "bank_get": (c_int, [c_void_p, c_void_p, c_int, c_void_p, c_int64, c_void_p]),
    "bank_put": (c_int, [c_void_p, c_void_p, c_int, c_void_p, c_int64, c_void_p]),
    "detect_update": (c_int, [c_void_p, c_void_p, POINTER(Sims)]),
    "detect_mask": (c_int, [c_void_p, c_void_p, POINTER(Sims), c_void_p, c_void_p]),
    "exact_thresholds": (c_int, [c_void_p, POINTER(Query), c_void_p]),
    "embeddings_open": (c_int, [POINTER(EmbeddingFiles), POINTER(c_void_p), *_text]),
    "embeddings_close": (None, [c_void_p]),
    "embeddings_describe": (c_int, [c_void_p, POINTER(EmbeddingsInfo)]),
    "embeddings_read": (c_int, [c_void_p, c_int64, c_int64, c_void_p, *_text]),
    "discover": (c_int, [POINTER(DiscoverSpec), POINTER(c_void_p), *_text]),
    "discovery_free": (None, [c_void_p]),
    "discovery_view": (c_int, [c_void_p, POINTER(DiscoveryArrays)]),
    "discovery_decide": (c_int, [c_void_p, POINTER(DecideSpec), POINTER(Decisions), *_text]),
    "discovery_save": (c_int, [c_void_p, c_char_p, POINTER(DiscoveryFiles), *_text]),
    "step": (c_int, [c_void_p, c_void_p, POINTER(Batch), c_void_p, c_void_p, POINTER(Stats)]),
    "step_rows": (c_int, [c_void_p, c_void_p, POINTER(Batch), POINTER(OwnRows), c_void_p, POINTER(Stats)]),
    "step_grad": (c_int, [c_void_p, POINTER(Batch), POINTER(OwnRows), c_void_p, c_void_p, c_void_p, POINTER(Stats)]),
    "step_mask": (c_int, [c_void_p, POINTER(Batch), POINTER(OwnRows), c_void_p, c_void_p]),
}


def _cuda_of_driver() -> int:
    """The newest CUDA that the NVIDIA driver of this machine can run, as 12 or 13; 0: no driver."""
    number = c_int(0)
    try:
        found = ctypes.CDLL("libcuda.so.1").cuDriverGetVersion(ctypes.byref(number)) == 0
    except (OSError, AttributeError):
        return 0
    return number.value // 1000 if found else 0


def library_path() -> str:
    """The library that is loaded. The environment variable GLOFND_LIBRARY names it; else it is inside of this package: one with CUDA
    if there is one for this machine's driver, else lib/libglofnd.so. The package of a distribution has none inside and takes the
    system's of the same version."""
    chosen = os.environ.get("GLOFND_LIBRARY")
    if chosen:
        return chosen
    folder = os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib")
    with_cuda = [(major, os.path.join(folder, f"libglofnd_cuda{major}.so")) for major in (13, 12)]
    with_cuda = [(major, path) for major, path in with_cuda if os.path.exists(path)]
    newest = _cuda_of_driver() if with_cuda else 0
    inside = [path for major, path in with_cuda if major <= newest]
    plain = os.path.join(folder, "libglofnd.so")
    inside += [plain] if os.path.exists(plain) else []
    return inside[0] if inside else "libglofnd.so.%d" % VERSION[0]


def _load() -> ctypes.CDLL:
    path = library_path()
    try:
        library = ctypes.CDLL(path)
    except OSError as failure:
        raise ImportError(
            f"libglofnd cannot be loaded: {failure}. Install the package (pip install .), or name the library of a build by "
            "GLOFND_LIBRARY=BUILD/libglofnd.so") from None
    for name, (result, arguments) in _FUNCTIONS.items():
        function = getattr(library, "glofnd_" + name)
        function.restype, function.argtypes = result, arguments
    number = library.glofnd_version_number()
    if (number // 10000, number // 100 % 100) != VERSION:
        raise ImportError(f"{path} has version {number // 10000}.{number // 100 % 100}; this package needs "
                          f"{VERSION[0]}.{VERSION[1]}: install both from the same sources")
    return library


library = _load()


def _pretty_version() -> str:
    number = library.glofnd_version_number()
    return f"{number // 10000}.{number // 100 % 100}.{number % 100}"


version = _pretty_version()


def c_text(text: str) -> bytes:
    """A text for C, which has no zero bytes. Bytes of file names that are no UTF-8 stay as they are; other lone surrogates are "?"."""
    try:
        return text.encode(errors="surrogateescape")
    except UnicodeEncodeError:
        return text.encode(errors="replace")


def status_text(status: int) -> str:
    return library.glofnd_status_text(status).decode()


def build_info() -> str:
    """One line: version, commit, compiler, backends compiled in, the instruction set chosen on this CPU."""
    return library.glofnd_build_info().decode()


WHY_BYTES = 1024


def checked(call: Any, *arguments: Any) -> None:
    """Calls a function that ends with (char *why, size_t why_bytes), and raises its text if it fails."""
    why = ctypes.create_string_buffer(WHY_BYTES)
    status = call(*arguments, why, WHY_BYTES)
    if status:
        raise error_of(status, why.value.decode(errors="replace"))


def device_status(device: str) -> Optional[str]:
    """None if steps can run on `device` ("cpu" or "cuda") here, else the reason why not."""
    code = CONSTANTS["GLOFND_DEVICE_" + device.upper()]
    why = ctypes.create_string_buffer(WHY_BYTES)
    return why.value.decode(errors="replace") if library.glofnd_device_check(code, why, WHY_BYTES) else None


class Options:
    """Options of the method: all at their defaults at first. They are attributes: numbers, or names."""

    def __init__(self) -> None:
        self._as_parameter_ = c_void_p()
        status = library.glofnd_options_create(ctypes.byref(self._as_parameter_))
        if status:
            raise error_of(status, "")
        weakref.finalize(self, library.glofnd_options_free, self._as_parameter_)

    def __getattr__(self, key: str) -> Any:
        text = ctypes.create_string_buffer(64)
        if key.startswith("_") or library.glofnd_options_get(self, key.encode(), text, len(text), None, 0):
            raise AttributeError(key)
        for kind in (int, float):
            with contextlib.suppress(ValueError):
                return kind(text.value)
        return text.value.decode()



def option_table() -> list[tuple[str, str, str]]:
    """(name, range and default, meaning) of every option of the library, by its name in Python."""
    names = {theirs: ours for ours, theirs in OPTION_NAMES.items()}
    rows: list[tuple[str, str, str]] = []
    key, text, values = c_char_p(), c_char_p(), ctypes.create_string_buffer(WHY_BYTES)
    while library.glofnd_options_describe(len(rows), ctypes.byref(key), ctypes.byref(text), values, WHY_BYTES):
        name = key.value.decode()  # type: ignore[union-attr]
        rows.append((names.get(name, name), values.value.decode(), text.value.decode()))  # type: ignore[union-attr]
    return rows

"""Global false-negative discovery for contrastive learning.

    glofnd.torch   GloFNDLoss, an nn.Module: one line changed in a PyTorch training loop
    glofnd.numpy   the same step, thresholds and masks on NumPy arrays
    glofnd.jax     the same loss for JAX, with functional state
    glofnd.discover(embeddings)   false negatives and duplicates among finished embeddings
    glofnd.keys(texts)            64-bit keys in place of positions, for samples without numbers
    glofnd.leaks(train, test)     rows of one split that have a duplicate in another
    glofnd.sum_stats(stats)       counts of several steps or ranks, with precision and recall of all
    glofnd.mine(queries, documents, positives)   hard negatives below each query's own threshold
    glofnd.transformers, glofnd.sentence_transformers, glofnd.open_clip   the losses and callbacks of these trainers

All are thin layers over libglofnd (C), which is part of this package. They are imported on first use, so that a program that
uses one of them does not need the others' frameworks.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from ._lib import (
    AnchorIndexError, ArgumentError, CancelledError, DeviceError, Error, FileError, FormatError, NumericError, OptionError, OutOfMemoryError,
    StateError, UnsupportedError, build_info, device_status, option_table,
)
from ._lib import version as __version__

if TYPE_CHECKING:
    from ._counts import sum_stats
    from ._discover import Discovery, discover, leaks
    from ._keys import keys
    from ._mine import Mined, mine

__all__ = [
    "AnchorIndexError", "ArgumentError", "CancelledError", "DeviceError", "Discovery", "Error", "FileError", "FormatError", "Mined", "NumericError", "OptionError",
    "OutOfMemoryError", "StateError", "UnsupportedError", "__version__", "build_info", "device_status", "discover", "keys", "leaks", "mine", "option_table", "sum_stats",
]

_LAYERS = {"numpy": "numpy", "torch": "torch", "jax": "jax", "transformers": "transformers", "sentence_transformers": "sentence-transformers",
           "open_clip": "open_clip_torch"}  # and the packages that they need


def __getattr__(name: str) -> Any:
    if name in ("discover", "leaks", "Discovery"):
        return getattr(importlib.import_module("._discover", __name__), name)
    if name in ("mine", "Mined"):
        return getattr(importlib.import_module("._mine", __name__), name)
    if name == "keys":
        return importlib.import_module("._keys", __name__).keys
    if name == "sum_stats":
        return importlib.import_module("._counts", __name__).sum_stats
    if name in _LAYERS:
        try:
            return importlib.import_module("." + name, __name__)
        except ModuleNotFoundError as missing:  # hasattr(), help() and inspect ask for every name
            part = (missing.name or "").split(".")[0]
            if part not in (name, "torch", "transformers"):
                raise
            package = _LAYERS[name if part == name else part]
            raise AttributeError(f"glofnd.{name} needs {part}, which is not installed: pip install {package}") from missing
    raise AttributeError(f"module 'glofnd' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*__all__, "jax", "numpy", "torch"])

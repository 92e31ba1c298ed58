"""Global false-negative discovery for contrastive learning.

    glofnd.torch   GloFNDLoss, an nn.Module: one line changed in a PyTorch training loop
    glofnd.numpy   the same step, thresholds and masks on NumPy arrays
    glofnd.jax     the same loss for JAX, with functional state
    glofnd.discover(embeddings)   false negatives and duplicates among finished embeddings
    glofnd.leaks(train, test)     rows of one split that have a duplicate in another

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
    from ._discover import Discovery, discover, leaks

__all__ = [
    "AnchorIndexError", "ArgumentError", "CancelledError", "DeviceError", "Discovery", "Error", "FileError", "FormatError", "NumericError", "OptionError",
    "OutOfMemoryError", "StateError", "UnsupportedError", "__version__", "build_info", "device_status", "discover", "leaks", "option_table",
]

_LAYERS = ("numpy", "torch", "jax")


def __getattr__(name: str) -> Any:
    if name in ("discover", "leaks", "Discovery"):
        return getattr(importlib.import_module("._discover", __name__), name)
    if name in _LAYERS:
        try:
            return importlib.import_module("." + name, __name__)
        except ModuleNotFoundError as missing:  # hasattr(), help() and inspect ask for every name
            if missing.name is None or missing.name.split(".")[0] != name:
                raise
            raise AttributeError(f"glofnd.{name} needs {name}, which is not installed: pip install {name}") from missing
    raise AttributeError(f"module 'glofnd' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*__all__, *_LAYERS])

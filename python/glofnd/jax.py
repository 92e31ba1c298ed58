"""GloFND in JAX: the step as a call of XLA's foreign function interface, on the CPU or on one NVIDIA GPU, with functional state.

    criterion = glofnd.jax.GloFNDLoss(num_samples, loss="sogclr", alpha=0.01)
    state = criterion.init()
    loss, state = criterion(z1, z2, index, state, epoch=epoch)          # under jit and grad (has_aux=True)

The call is a small C file of this package, compiled once against the header of the installed jaxlib; that needs a C compiler.

Failures are exceptions of GloFND where a step is called directly. Under jit JAX raises its own, with the same text, when a result is
read; `with glofnd.jax.errors():` around the program and the reading makes them GloFND's.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import hashlib
import os
import re
import shutil
import subprocess
import tempfile
from typing import Any, Iterator, Optional

import jax
import jax.numpy as jnp
import numpy as np

from . import _lib
from ._engine import LEARNED_TAU, Engine, checked_count, checked_epoch, checked_tau, first_threshold, math_of_type, needs_dim, own_names
from ._lib import AnchorIndexError, ArgumentError, OptionError, UnsupportedError

__all__ = ["GloFNDLoss", "errors", "loss_and_state"]

ROW_WORDS = 9
_here = os.path.dirname(os.path.abspath(__file__))


class _XlaEngine(ctypes.Structure):
    _fields_ = [("ctx", ctypes.c_void_p * 3), ("store", ctypes.c_void_p * 3), ("n", ctypes.c_int64), ("sides", ctypes.c_int64),
                ("device", ctypes.c_int64),
                *[(name, ctypes.c_void_p) for name in ("step", "rows_get", "rows_put", "stream", "error", "status_name")]]


# ----- the C file -------------------------------------------------------------------------------------------------------------


def _header_folder() -> str:
    for folder in (os.path.join(_here, "include"), os.path.join(_here, "..", "..", "include"), "/usr/include", "/usr/local/include"):
        if os.path.exists(os.path.join(folder, "glofnd.h")):
            return folder
    raise ImportError("glofnd.h is missing beside the package: install it again, or the header of the system's libglofnd")


@functools.lru_cache(maxsize=None)
def _calls() -> ctypes.CDLL:
    """The compiled xla_step.c, from the cache or made now; registers the call with JAX."""
    source, headers = os.path.join(_here, "xla_step.c"), _header_folder()
    key = hashlib.sha256()
    for path in (source, os.path.join(headers, "glofnd.h"), os.path.join(headers, "glofnd_experimental.h"),
                 os.path.join(jax.ffi.include_dir(), "xla", "ffi", "api", "c_api.h")):
        with open(path, "rb") as file:
            key.update(file.read())
    cache = os.path.join(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "glofnd")
    target = os.path.join(cache, f"xla_step-{key.hexdigest()[:16]}.so")
    if not os.path.exists(target):
        _compile(source, [headers, jax.ffi.include_dir()], cache, target)
    calls = ctypes.CDLL(target)
    calls.glofnd_xla_set.argtypes = [ctypes.c_int64, ctypes.POINTER(_XlaEngine)]
    jax.ffi.register_ffi_target("glofnd_step", jax.ffi.pycapsule(calls.glofnd_xla_step), platform="cpu")
    if _sees_gpu():
        jax.ffi.register_ffi_target("glofnd_step", jax.ffi.pycapsule(calls.glofnd_xla_step_cuda), platform="CUDA")
    return calls


@functools.lru_cache(maxsize=None)
def _sees_gpu() -> bool:
    return any(device.platform == "gpu" for device in jax.devices())


@functools.lru_cache(maxsize=None)
def _has_gpu() -> bool:
    """JAX has an NVIDIA GPU, and the library can use it."""
    return _sees_gpu() and _lib.device_status("cuda") is None


def _compile(source: str, folders: list[str], cache: str, target: str) -> None:
    compiler = shutil.which(os.environ.get("CC", "cc"))
    if not compiler:
        raise ImportError("glofnd.jax needs a C compiler once, to build its call for the installed jaxlib: install cc, or set CC")
    os.makedirs(cache, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=cache) as folder:
        made = os.path.join(folder, "xla_step.so")
        flags = ["-std=c17", "-O2", "-fPIC", "-shared", "-pthread", *(f"-I{path}" for path in folders)]
        command = [compiler, *flags, source, "-o", made, "-ldl"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise ImportError(f"xla_step.c does not compile against jaxlib's header:\n{done.stderr}")
        os.replace(made, target)


# ----- failures ---------------------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def errors() -> Iterator[None]:
    """Failures of steps inside become exceptions of GloFND (glofnd.Error). Results must be read inside: JAX computes in the background.
    Where a compiled program runs again, JAX raises the same failure as a ValueError."""
    try:
        yield
    except _lib.Error:
        raise
    except (jax.errors.JaxRuntimeError, ValueError) as failure:
        found = re.search(r"(GLOFND_E_\w+): (.*?)( \[executable_name=.*|; current .*)?$", str(failure), re.MULTILINE)
        codes = {_lib.library.glofnd_status_name(code).decode(): code for code in _lib.ERRORS}
        if not found or found[1] not in codes:
            raise
        raise _lib.error_of(codes[found[1]], found[2]) from failure


# ----- the loss ---------------------------------------------------------------------------------------------------------------

_alive: list[Any] = []  # (engine, its table) by handle; compiled programs may call them as long as the process lives


def _maths(values: dict[str, Any]) -> list[str]:
    """`math` on a GPU for float32 embeddings and for shorter ones; a list of one: for all."""
    return [values["math"]] if "math" in values else [math_of_type(True), math_of_type(False)]


def _state_shape(engine: Engine) -> tuple[int, int, int]:
    return engine.sides, engine.n + 1, ROW_WORDS


class GloFNDLoss:
    """Loss of a batch, and new state. Options as of glofnd.torch.GloFNDLoss; learner "ring" and similarity "bank" are not available here."""

    def __init__(self, num_samples: int, loss: str = "sogclr", *, detector: str = "glofnd", action: str = "drop",
                 alpha: float = 0.01, tau: float = 0.1, start_epoch: int = 0, **options: Any):
        num_samples = checked_count("num_samples", num_samples)
        if "device" in options:
            raise OptionError("device: a step runs where its arrays are")
        if needs_dim(options):
            raise OptionError(f"{needs_dim(options)} keeps embeddings outside of the state of samples: not available in glofnd.jax")
        values = {"loss": loss, "detector": detector, "action": action, "alpha": alpha, "tau": checked_tau(tau, False),
                  "start_epoch": start_epoch, "lambda_init": first_threshold(options), **own_names(options)}
        self._made_of = num_samples, values
        self._engine = Engine(num_samples, 0, values)
        on_gpu = [Engine(num_samples, 0, {**values, "device": "cuda", "math": math}) for math in _maths(values)] if _has_gpu() else []
        self._learned_tau = loss in LEARNED_TAU
        calls, self.handle = _calls(), len(_alive)
        functions = (ctypes.cast(getattr(_lib.library, "glofnd_" + name), ctypes.c_void_p)
                     for name in ("step", "rows_get", "rows_put", "ctx_stream", "ctx_error", "status_name"))
        engines, three = [self._engine, *on_gpu, *on_gpu][:3], ctypes.c_void_p * 3
        table = _XlaEngine(three(*(engine._context.value for engine in engines)), three(*(engine._store.value for engine in engines)),
                           self._engine.n, self._engine.sides, -1, *functions)
        if calls.glofnd_xla_set(self.handle, ctypes.byref(table)):
            raise ArgumentError("too many losses in one process: make one per configuration, not one per step")
        _alive.append((self._engine, table, on_gpu))

    def __reduce__(self) -> Any:
        return _make, self._made_of

    def init(self) -> jax.Array:
        """State of samples that were never seen: uint32 [sides][num_samples + 1][9]; the last row is the shared threshold."""
        rows = np.zeros(_state_shape(self._engine), np.uint32)
        rows[..., 0] = np.float32(1.0).view(np.uint32)
        rows[..., 3] = np.float32(-np.inf).view(np.uint32)
        return jnp.asarray(rows)

    def thresholds(self, state: jax.Array) -> jax.Array:
        """[sides][num_samples] learned thresholds. 1: not visited yet, nothing is flagged."""
        value = jax.lax.bitcast_convert_type(state[..., 0], jnp.float32)
        shared, visits = value[:, -1:], state[..., 4]
        return jnp.where((visits[:, :-1] == 0) & (visits[:, -1:] > 0), shared, value[:, :-1])

    def __call__(self, z1: jax.Array, z2: jax.Array, index: jax.Array, state: jax.Array, *, epoch: Any = 0,
                 labels: Optional[jax.Array] = None, tau: Any = 0.0) -> tuple[jax.Array, jax.Array]:
        """(loss, new state). `tau` 0: as in the options; it has a gradient for "clip" and "fastclip", that of other losses is 0."""
        for name, x in (("z1", z1), ("z2", z2), ("index", index), ("labels", labels), ("state", state)):
            if not hasattr(x, "shape") and (x is not None or name != "labels"):
                raise ArgumentError(f"{name} is of type {type(x).__name__}; expected an array" + (", as init() makes it" if name == "state" else ""))
        if z1.ndim != 2 or z1.shape != z2.shape or z1.dtype != z2.dtype:
            raise ArgumentError(f"z1 is {z1.dtype}{list(z1.shape)}, z2 is {z2.dtype}{list(z2.shape)}; expected one [batch, dim]")
        if z1.dtype not in (jnp.float32, jnp.bfloat16, jnp.float16):
            raise ArgumentError(f"z1 is {z1.dtype}; expected float32, bfloat16 or float16")
        for name, x in (("index", index), ("labels", labels)):
            if x is not None and (x.shape != z1.shape[:1] or not jnp.issubdtype(x.dtype, jnp.integer)):
                raise ArgumentError(f"{name} is {x.dtype}{list(x.shape)}; expected integers [{z1.shape[0]}]")
        want = _state_shape(self._engine)
        if state.shape != want or state.dtype != jnp.uint32:
            raise ArgumentError(f"state is {state.dtype}{list(state.shape)}; expected uint32{list(want)}, as init() makes it")
        if not hasattr(epoch, "shape"):
            epoch = checked_epoch(epoch)
        labels = jnp.zeros(0, jnp.int32) if labels is None else _labels_that_fit(labels)
        try:
            return _loss(self.handle, z1, z2, jnp.asarray(tau, jnp.float32), _index_that_fits(index, self._engine.n), labels,
                         jnp.asarray(epoch, jnp.int32), state)
        except NotImplementedError as failure:
            if "vmap" not in str(failure):
                raise
            raise UnsupportedError("vmap: a step moves the state of its samples, so steps run one after the other: use "
                                   "jax.lax.scan, which hands the state on") from failure


def _is_wide(x: Any) -> bool:
    """Integers that int32 may not hold."""
    return x.dtype.itemsize > 4 or x.dtype == np.uint32


def _index_that_fits(index: Any, n: int) -> Any:
    """int32. Numbers that are known are checked here, others become -1, which the step refuses."""
    if not _is_wide(index):
        return index.astype(jnp.int32)
    if not isinstance(index, jax.core.Tracer) and index.size and not (-1 << 31 <= int(index.min()) and int(index.max()) < 1 << 31):
        raise AnchorIndexError(f"index holds {int(index.min())} to {int(index.max())}; there are samples 0 .. {n - 1}")
    fits = (index >= (-1 << 31 if index.dtype.kind == "i" else 0)) & (index <= 0x7FFFFFFF)
    return jnp.where(fits, index, -1).astype(jnp.int32)


def _labels_that_fit(labels: Any) -> Any:
    """int32; all negative numbers mean none."""
    if not _is_wide(labels):
        return labels.astype(jnp.int32)
    if not isinstance(labels, jax.core.Tracer) and labels.size and int(labels.max()) >= 1 << 31:
        raise ArgumentError(f"labels hold {int(labels.max())}; expected numbers below 2^31: numpy.unique(x, return_inverse=True) makes some")
    module = np if isinstance(labels, np.ndarray) else jnp  # JAX may have no 64-bit integers
    return module.maximum(labels, -1).astype(np.int32) if labels.dtype.kind == "i" else labels.astype(jnp.int32)


def _make(num_samples: int, values: dict[str, Any]) -> GloFNDLoss:
    """A loss of the options that another one keeps (pickle, copy)."""
    return GloFNDLoss(num_samples, **values)


def loss_and_state(criterion: GloFNDLoss, *arguments: Any, **options: Any) -> tuple[jax.Array, jax.Array]:
    """criterion(...) as a function: for functools.partial and jax.value_and_grad(..., has_aux=True)."""
    return criterion(*arguments, **options)


def _call(handle: int, z1: Any, z2: Any, tau: Any, index: Any, labels: Any, epoch: Any, state: Any) -> Any:
    """The rows of the batch, and the shared one, go through the call; state is changed here, where XLA can do it in place."""
    scalar, grad = jax.ShapeDtypeStruct((), jnp.float32), jax.ShapeDtypeStruct(z1.shape, jnp.float32)
    rows = jnp.concatenate([jnp.take(state, index, axis=1, mode="clip"), state[:, -1:]], axis=1)
    ids = jnp.stack([index, jnp.where(index < 0, -1, 0)], axis=1)  # int64, low words first
    here = not any(isinstance(x, jax.core.Tracer) for x in (z1, z2, tau, index, labels, epoch, state))
    call = jax.ffi.ffi_call("glofnd_step", (scalar, grad, grad, scalar, jax.ShapeDtypeStruct(rows.shape, rows.dtype)))
    with errors() if here else contextlib.nullcontext():
        results = call(z1, z2, ids, labels, epoch, tau, rows, handle=np.int64(handle))
        loss, grad_a, grad_b, grad_tau, rows = jax.block_until_ready(results) if here else results
    state = state.at[:, index].set(rows[:, :-1]).at[:, -1].set(rows[:, -1])
    return loss, grad_a, grad_b, grad_tau, state


@functools.partial(jax.custom_vjp, nondiff_argnums=(0,))
def _loss(handle: int, z1: Any, z2: Any, tau: Any, index: Any, labels: Any, epoch: Any, state: Any) -> Any:
    loss, _, _, _, new_state = _call(handle, z1, z2, tau, index, labels, epoch, state)
    return loss, new_state


def _forward(handle: int, z1: Any, z2: Any, tau: Any, index: Any, labels: Any, epoch: Any, state: Any) -> Any:
    loss, grad_a, grad_b, grad_tau, new_state = _call(handle, z1, z2, tau, index, labels, epoch, state)
    return (loss, new_state), (grad_a, grad_b, grad_tau, jnp.zeros(0, z1.dtype), index, labels)


def _backward(handle: int, saved: Any, cotangents: Any) -> Any:
    grad_a, grad_b, grad_tau, like, index, labels = saved
    g = cotangents[0]
    none = [np.zeros(shape, jax.dtypes.float0) for shape in (index.shape, labels.shape, (), _state_shape(_alive[handle][0]))]
    return ((g * grad_a).astype(like.dtype), (g * grad_b).astype(like.dtype), g * grad_tau, *none)


_loss.defvjp(_forward, _backward)

"""GloFND in JAX: the step as a call of XLA's foreign function interface, on the CPU or on one NVIDIA GPU, with functional state.

    criterion = glofnd.jax.GloFNDLoss(num_samples, loss="sogclr", alpha=0.01)
    state = criterion.init()
    loss, state = criterion(z1, z2, index, state, epoch=epoch)          # under jit and grad (has_aux=True)

The call is a small C file of this package, compiled once against the header of the installed jaxlib; that needs a C compiler.

Failures are exceptions of GloFND where a step is called directly. Under jit JAX raises its own, with the same text, when a result is
read; `with glofnd.jax.errors():` around the program and the reading makes them GloFND's. On a GPU nothing waits for the step, so the
loss is NaN where it failed, and one of the next steps raises, or errors() at its end, or `criterion.check()`; the last two wait.
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
from typing import Any, Iterator, NamedTuple, Optional

import jax
import jax.numpy as jnp
import numpy as np

from . import _lib
from ._engine import Engine, checked_count, checked_epoch, checked_tau, needs_dim, own_names, warn_of_scale
from ._lib import AnchorIndexError, ArgumentError, OptionError, UnsupportedError

__all__ = ["GloFNDLoss", "errors", "loss_and_state"]

ROW_WORDS = 9
_here = os.path.dirname(os.path.abspath(__file__))


_CALLS = ("step", "ctx_state", "ctx_tau", "ctx_loss", "ctx_stats", "ctx_reserve", "ctx_stream", "ctx_error", "status_name")
READ_EPOCH, READ_TAU, READ_TAU_ON_HOST = 1, 2, 4  # as in xla_step.c


class _XlaEngine(ctypes.Structure):
    """glofnd_xla_engine of xla_step.c; the rest of its fields is filled there."""

    _fields_ = [("ctx", ctypes.c_void_p * 2), ("n", ctypes.c_int64), ("sides", ctypes.c_int64), *[(name, ctypes.c_void_p) for name in _CALLS],
                ("device", ctypes.c_int64), ("cuda", ctypes.c_void_p), ("queue", ctypes.c_void_p), ("unknown", ctypes.c_int64)]


# ----- the C file -------------------------------------------------------------------------------------------------------------


def _header_folder() -> str:
    for folder in (os.path.join(_here, "include"), os.path.join(_here, "..", "..", "include"), "/usr/include", "/usr/local/include"):
        if os.path.exists(os.path.join(folder, "glofnd.h")):
            return folder
    raise ImportError("glofnd.h is missing next to the package: install it again, or the header of the system's libglofnd")


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
    calls.glofnd_xla_check.argtypes = [ctypes.c_int64, ctypes.c_char_p, ctypes.c_size_t]
    for name in ("glofnd_step", "glofnd_step_graph"):
        jax.ffi.register_ffi_target(name, jax.ffi.pycapsule(calls.glofnd_xla_step), platform="cpu")
    if _sees_gpu():
        graph = {"initialize": jax.ffi.pycapsule(calls.glofnd_xla_begin_graph), "execute": jax.ffi.pycapsule(calls.glofnd_xla_step_graph)}
        jax.ffi.register_ffi_target("glofnd_step", jax.ffi.pycapsule(calls.glofnd_xla_step_cuda), platform="CUDA")
        jax.ffi.register_ffi_target("glofnd_step_graph", graph, platform="CUDA")
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


def _check(handle: int) -> None:
    """Waits for the steps of a loss on a GPU since the last check, and raises the failure of one."""
    text = ctypes.create_string_buffer(_lib.WHY_BYTES)
    status = _calls().glofnd_xla_check(handle, text, len(text))
    if status:
        raise _lib.error_of(status, text.value.decode(errors="replace"))


@contextlib.contextmanager
def errors() -> Iterator[None]:
    """Failures of steps inside become exceptions of GloFND (glofnd.Error). Results must be read inside: JAX computes in the background.
    At the end steps on a GPU are waited for. If a compiled program runs again, JAX raises the same failure as a ValueError."""
    try:
        yield
        for handle in range(len(_alive)):
            _check(handle)
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


def _state_shape(engine: Engine) -> tuple[int, int, int]:
    return engine.sides, engine.n + 1, ROW_WORDS


class GloFNDLoss:
    """Loss of a batch, and new state. Options as of glofnd.torch.GloFNDLoss; learner "ring" and similarity "bank" are not available here.

    command_buffer  (experimental) on a GPU XLA may make a step part of a CUDA graph, with the work around it. The epoch, where it matters
                    (start_epoch, update_epoch ...), must then be a number when the program is compiled
    """

    def __init__(self, num_samples: int, loss: Optional[str] = None, *, detector: Optional[str] = None, action: Optional[str] = None,
                 alpha: Optional[float] = None, tau: Optional[float] = None, start_epoch: Optional[int] = None,
                 command_buffer: bool = False, **options: Any):
        if num_samples is None:
            raise OptionError("num_samples is None: the state of JAX is an array of a fixed size; give len(dataset). glofnd.torch and "
                              "glofnd.numpy take keys")
        num_samples = checked_count("num_samples", num_samples)
        if "device" in options:
            raise OptionError("device: a step runs where its arrays are")
        if needs_dim(options):
            raise OptionError(f"{needs_dim(options)} keeps embeddings outside of the state of samples: not available in glofnd.jax")
        values = own_names({"loss": loss, "detector": detector, "action": action, "alpha": alpha,
                            "tau": None if tau is None else checked_tau(tau, False), "start_epoch": start_epoch, **options})
        self._made_of = num_samples, {**values, "command_buffer": command_buffer}
        self._engine = Engine(num_samples, 0, values)  # its store is not used, nor are those of a GPU: the state comes with each call
        warn_of_scale(self._engine.options)
        on_gpu = Engine(1, 0, {**values, "device": "cuda"}) if _has_gpu() else None
        self._target = "glofnd_step_graph" if command_buffer else "glofnd_step"
        self._phases = _Phases(self._engine)
        calls, self.handle = _calls(), len(_alive)
        functions = (ctypes.cast(getattr(_lib.library, "glofnd_" + name), ctypes.c_void_p) for name in _CALLS)
        contexts = (ctypes.c_void_p * 2)(*(engine._context.value if engine else None for engine in (self._engine, on_gpu)))
        table = _XlaEngine(contexts, self._engine.n, self._engine.sides, *functions)
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
                 labels: Optional[jax.Array] = None, tau: Any = 0.0, negatives: Any = None) -> tuple[jax.Array, jax.Array]:
        """(loss, new state). `tau` 0: as in the options; it has a gradient for "clip" and "fastclip", that of other losses is 0."""
        if negatives is not None:
            raise UnsupportedError("negatives: candidates beyond the batch are in glofnd.torch and glofnd.numpy, not in glofnd.jax")
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
        how, epoch, tau = self._how(epoch, tau)
        labels = jnp.zeros(0, jnp.int32) if labels is None else _classes_of(labels)
        try:
            return _loss(how, z1, z2, tau, _index_that_fits(index, self._engine.n), labels, epoch, state)
        except NotImplementedError as failure:
            if "vmap" not in str(failure):
                raise
            raise UnsupportedError("vmap: a step moves the state of its samples, so steps run one after the other: use "
                                   "jax.lax.scan, which hands the state on") from failure


    def _how(self, epoch: Any, tau: Any) -> tuple["_How", jax.Array, jax.Array]:
        """(constants of the call, operands epoch and tau). A number that is known now becomes a constant, so that the step need not
        read it; so does an epoch that changes nothing."""
        read, known_epoch, known_tau = 0, 0, 0.0
        if isinstance(epoch, jax.core.Tracer):
            read |= READ_EPOCH if self._phases.differ else 0
        else:
            known_epoch = self._phases.first(checked_epoch(epoch))
            epoch = known_epoch
        if not hasattr(tau, "shape"):
            tau = known_tau = checked_tau(tau, False)
        elif self._engine.temperatures:
            read |= READ_TAU_ON_HOST
        else:
            read |= READ_TAU
            tau = jnp.where(tau == 0, self._engine.options.tau, tau)
        how = _How(self._target, self.handle, known_epoch, known_tau, read)
        return how, jnp.asarray(epoch, jnp.int32), jnp.asarray(tau, jnp.float32)

    def check(self) -> None:
        """Waits for the steps that JAX has begun on a GPU, and raises the failure of one since the last check, if no later step has done
        so. JAX begins a step in the background: wait for a result of the last one before (jax.block_until_ready)."""
        _check(self.handle)


class _How(NamedTuple):
    """Constants of a call: its target and its attributes, as xla_step.c has them."""

    target: str
    handle: int
    epoch: int
    tau: float
    read: int


class _Phases:
    """Epochs whose steps do the same work. It changes at these options, or from epoch to epoch."""

    def __init__(self, engine: Engine):
        o = engine.options
        starts = {0, o.update_epoch, o.mask_epoch, o.update_epoch + o.lambda_warmup}
        self._of = engine.phase
        self._firsts = sorted(starts | {x + 1 for x in starts})
        last = 0x7FFFFFFF
        self.differ = len({self._of(epoch) for epoch in (*self._firsts, last - 1, last)}) > 1

    def first(self, epoch: int) -> int:
        """An epoch of the same work, the same one for as many as possible."""
        phase = self._of(epoch)
        return next((x for x in self._firsts if self._of(x) == phase), epoch)


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


def _classes_of(labels: Any) -> Any:
    """int32 labels that are equal where these are; all negative numbers mean none."""
    if not _is_wide(labels):
        return labels.astype(jnp.int32)
    traced, module = isinstance(labels, jax.core.Tracer), np if isinstance(labels, np.ndarray) else jnp  # JAX may have no 64-bit integers
    if not traced and labels.size and int(labels.max()) < 1 << 31:
        return (module.maximum(labels, -1) if labels.dtype.kind == "i" else labels).astype(np.int32)
    first = module.searchsorted(module.sort(labels), labels)  # among the sorted ones: a number of their own for equal labels
    return module.where(labels < 0, -1, first).astype(np.int32)


def _make(num_samples: int, values: dict[str, Any]) -> GloFNDLoss:
    """A loss of the options that another one keeps (pickle, copy)."""
    return GloFNDLoss(num_samples, **values)


def loss_and_state(criterion: GloFNDLoss, *arguments: Any, **options: Any) -> tuple[jax.Array, jax.Array]:
    """criterion(...) as a function: for functools.partial and jax.value_and_grad(..., has_aux=True)."""
    return criterion(*arguments, **options)


def _grad_type(dtype: Any) -> Any:
    """As in PyTorch: gradients of bfloat16 are bfloat16, those of float16 stay float32 until they are scaled."""
    return jnp.bfloat16 if dtype == jnp.bfloat16 else jnp.float32


def _call(how: _How, z1: Any, z2: Any, tau: Any, index: Any, labels: Any, epoch: Any, state: Any) -> Any:
    """The step changes the rows of its samples in the buffer of `state`, of which XLA makes a copy only if it is needed later."""
    scalar, grad = jax.ShapeDtypeStruct((), jnp.float32), jax.ShapeDtypeStruct(z1.shape, _grad_type(z1.dtype))
    ids = jnp.stack([index, jnp.where(index < 0, -1, 0)], axis=1)  # int64, low words first
    here = not any(isinstance(x, jax.core.Tracer) for x in (z1, z2, tau, index, labels, epoch, state))
    call = jax.ffi.ffi_call(how.target, (scalar, grad, grad, scalar, jax.ShapeDtypeStruct(state.shape, state.dtype)),
                            input_output_aliases={6: 4})
    with errors() if here else contextlib.nullcontext():
        results = call(z1, z2, ids, labels, epoch, tau, state, handle=np.int64(how.handle), epoch=np.int64(how.epoch),
                       tau=np.float64(how.tau), read=np.int64(how.read))
        return jax.block_until_ready(results) if here else results


@functools.partial(jax.custom_vjp, nondiff_argnums=(0,))
def _loss(how: _How, z1: Any, z2: Any, tau: Any, index: Any, labels: Any, epoch: Any, state: Any) -> Any:
    loss, _, _, _, new_state = _call(how, z1, z2, tau, index, labels, epoch, state)
    return loss, new_state


def _forward(how: _How, z1: Any, z2: Any, tau: Any, index: Any, labels: Any, epoch: Any, state: Any) -> Any:
    loss, grad_a, grad_b, grad_tau, new_state = _call(how, z1, z2, tau, index, labels, epoch, state)
    return (loss, new_state), (grad_a, grad_b, grad_tau, jnp.zeros(0, z1.dtype), index, labels)


def _backward(how: _How, saved: Any, cotangents: Any) -> Any:
    grad_a, grad_b, grad_tau, like, index, labels = saved
    g = cotangents[0]
    none = [np.zeros(shape, jax.dtypes.float0) for shape in (index.shape, labels.shape, (), _state_shape(_alive[how.handle][0]))]
    return ((g * grad_a).astype(like.dtype), (g * grad_b).astype(like.dtype), g * grad_tau, *none)


_loss.defvjp(_forward, _backward)

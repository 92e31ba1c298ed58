"""A context and its store behind raw pointers: what the NumPy, PyTorch and JAX layers share.

Pointers are plain integers (0: NULL). Every call takes the engine's lock, because the library allows one thread at a time per
context; ctypes releases the interpreter's lock meanwhile, so different engines run side by side.
"""

from __future__ import annotations

import contextlib
import ctypes
import operator
import os
import threading
import warnings
import weakref
from typing import Any, Callable, Iterator, Optional

from . import _lib
from ._lib import library

# The two calls of every step, with addresses as plain integers: no struct is converted on the way.
_step = ctypes.CFUNCTYPE(ctypes.c_int, *[ctypes.c_void_p] * 6)(("glofnd_step", library))
_stats = ctypes.CFUNCTYPE(ctypes.c_int, *[ctypes.c_void_p] * 2)(("glofnd_ctx_stats", library))
_loss = ctypes.CFUNCTYPE(ctypes.c_int, *[ctypes.c_void_p] * 3)(("glofnd_ctx_loss", library))
_grad_bias = ctypes.CFUNCTYPE(ctypes.c_int, *[ctypes.c_void_p] * 2)(("glofnd_ctx_grad_bias", library))

LEAST_TAU = 0.01  # of a learned temperature; the largest is 1


def has_tau_gradient(options: Any) -> bool:
    """Of losses whose stats hold d loss / d tau: CLIP's, FastCLIP's and SigLIP's."""
    return options.loss in ("fastclip", "sigmoid") or (options.loss == "simclr" and options.pairing == "image-text")


def make_options(values: dict[str, Any]) -> Any:
    """Options: the library's defaults, then `values` by name, all checked by the library."""
    options = _lib.Options()
    for key, value in values.items():
        name, text = _lib.OPTION_NAMES.get(key, key), option_text(value)
        if "\0" in text:
            raise _lib.OptionError(f"{key}: {text!r} has a zero byte")
        _lib.checked(library.glofnd_options_set, options, name.encode(), text.encode())
    _lib.checked(library.glofnd_options_check, options)
    return options


def option_text(value: Any) -> str:
    """A value as the library's option parser reads it: True is 1, numbers keep all their bits, names stay as they are. Numbers of
    NumPy and tensors of one number are numbers."""
    if isinstance(value, str):
        return value
    if hasattr(value, "item"):
        value = value.item()
    return str(int(value)) if isinstance(value, bool) else repr(value)


def option_values(options: Any) -> dict[str, str]:
    """Every option as text; make_options() makes the same options of it."""
    values = {}
    text = ctypes.create_string_buffer(64)
    for key, _, _ in _lib.option_table():
        name = _lib.OPTION_NAMES.get(key, key)
        _lib.checked(library.glofnd_options_get, options, name.encode(), text, len(text))
        values[key] = text.value.decode()
    return values


_ELSEWHERE = {  # names of other packages, or of the paper
    **dict.fromkeys(("temperature", "temp", "t", "init_tau"), "tau"), "learnable_tau": "learn_tau", "learn_temperature": "learn_tau",
    **dict.fromkeys(("lr", "learning_rate", "lambda_learning_rate", "lr_lambda"), "lambda_lr (the optimizer of the model has its own)"),
    **dict.fromkeys(("n", "N", "dataset_size", "data_size", "num_data"), "num_samples, the first argument"),
    **dict.fromkeys(("embedding_dim", "feature_dim"), "dim"), "num_threads": "threads", "init_lambda": "lambda_init",
    **dict.fromkeys(("beta1", "beta2"), "lambda_beta1 or lambda_beta2"), "gather_distributed": "process_group (all ranks by default)"}


def own_names(options: dict[str, Any]) -> dict[str, Any]:
    """Options by their names in Python; those of the library are understood, too. None, as of an argument that was not given: the
    library's default, which is not repeated here."""
    named, options = {}, {key: value for key, value in options.items() if value is not None}
    for theirs, here in _ELSEWHERE.items():
        if theirs in options:
            raise _lib.OptionError(f'unknown option "{theirs}"; here its name is {here}')
    for ours, theirs in _lib.OPTION_NAMES.items():
        if ours in options and theirs in options:
            raise _lib.OptionError(f"{theirs} is the library's name of {ours}: give one of them")
        named[theirs] = ours
    return {named.get(key, key): value for key, value in options.items()}


def c_path(path: Any) -> bytes:
    """A path for C."""
    text = os.fsencode(path)
    if b"\0" in text:
        raise _lib.ArgumentError("a path has a zero byte")
    return text


def checked_epoch(epoch: Any) -> int:
    try:
        number = operator.index(epoch)
    except TypeError:
        raise _lib.ArgumentError(f"epoch is {epoch!r}; expected an integer, 0 for the first epoch") from None
    if not 0 <= number < 2**31:
        raise _lib.ArgumentError(f"epoch is {number}; expected one below 2^31, and epochs count from 0")
    return number


def checked_count(name: str, value: Any) -> int:
    """An integer as an argument; its range is checked by the library."""
    try:
        if isinstance(value, bool):
            raise TypeError
        number = operator.index(value)
    except TypeError:
        what = repr(value) if value is None or name == "side" or isinstance(value, (bool, float, str)) else f"of type {type(value).__name__}"
        hint = ": len(dataset)" if name == "num_samples" else ""
        raise _lib.ArgumentError(f"{name} is {what}; expected an integer{hint}") from None
    if abs(number) >= 1 << 62:
        raise _lib.ArgumentError(f"{name} is {number}; allowed: 1 .. 2^40")
    return number


def checked_tau(tau: Any, learned: bool) -> float:
    """A temperature as an option; a learned one must lie where it stays."""
    try:
        value = float(tau)
    except (TypeError, ValueError, RuntimeError):
        raise _lib.OptionError(f"tau is {tau!r}; expected a number, for example 0.1") from None
    if learned and value > 0.0 and not LEAST_TAU <= value <= 1.0:
        raise _lib.OptionError(f"tau is {value:g}; a learned one stays within [{LEAST_TAU:g}, 1]: begin there, or use learn_tau=False")
    return value


def scale_warning(tau: float) -> str:
    """What to say of a temperature that looks like a logit scale; "" if it does not."""
    if not tau > 1.0:
        return ""
    return (f"tau is {tau:g}. Temperatures of contrastive losses lie between 0.01 and 1, and larger ones make all pairs count the same. If this "
            f"is a logit scale, pass its inverse: tau={1.0 / tau:.3g}")


def warn_of_scale(options: Any) -> None:
    text = scale_warning(float(options.tau))
    if text:
        warnings.warn(text, stacklevel=3)


def checked_growth(num_samples: Any, n: Optional[int]) -> int:
    """A new number of samples, not below that of the loss."""
    if n is None:
        raise _lib.ArgumentError("resize: a loss of keys (num_samples=None) grows with the keys that come")
    number = checked_count("num_samples", num_samples)
    if number < n:
        raise _lib.ArgumentError(f"num_samples is {number}; this loss has {n}, and can only grow: positions of samples would change")
    return number


def needs_dim(values: dict[str, Any]) -> str:
    """The option that keeps embeddings in the state, and so needs their length; "" if there is none."""
    for name, kept in (("learner", "ring"), ("similarity", "bank")):
        if values.get(name) == kept:
            return f"{name} {kept!r}"
    return ""


def _release(context: Any, store: Any) -> None:
    library.glofnd_store_free(store)
    library.glofnd_ctx_free(context)


class Engine:
    """A context, a store of `n` anchors (None: of keys, any number of them), and a lock. `values` are options by name; messages call the two arrays of a step `embeddings`."""

    def __init__(self, n: Optional[int], dim: int, values: dict[str, Any], load: Any = None, embeddings: tuple[str, str] = ("z1", "z2")):
        self.lock = threading.RLock()
        self.embeddings = embeddings
        self.values = dict(values)
        self.options = make_options(self.values)
        self.n: Any = None if n is None else checked_count("num_samples", n)
        self.dim, self.epoch = checked_count("dim", dim), 0
        self.want = 0
        self._reduce: Any = None
        self._stream, self._tau, self._bias = 0, 0, 0
        self._context, self._store = ctypes.c_void_p(), ctypes.c_void_p()
        _lib.checked(library.glofnd_ctx_create, self.options, ctypes.byref(self._context))
        try:
            self._open_store(load)
        except BaseException:
            library.glofnd_ctx_free(self._context)
            raise
        self._finalizer = weakref.finalize(self, _release, self._context, self._store)
        info = self.describe()
        self.keyed = bool(info.keyed)
        self.n, self.sides, self.temperatures = None if self.keyed else info.n, info.modalities, bool(info.temperatures)
        self.bank_dim = library.glofnd_bank_dim(self._store)  # length of the averages of similarity "bank"; 0: none are kept
        self.dim = self.dim or self.bank_dim or info.ring_dim
        self.record_bytes = info.row_bytes

    def _open_store(self, load: Any) -> None:
        if load is not None:
            self._call(library.glofnd_store_load, c_path(load), None, ctypes.byref(self._store))
            return
        if needs_dim(self.values) and self.dim <= 0:
            raise _lib.OptionError(f"dim: {needs_dim(self.values)} remembers embeddings; give their length as dim=")
        if self.n is not None and not 1 <= self.n <= 1 << 40:
            raise _lib.ArgumentError(f"num_samples is {self.n}; allowed: 1 .. 2^40, or None for keys")
        spec = _lib.StoreSpec(n=self.n or 0, dim=self.dim, keyed=self.n is None)
        self._call(library.glofnd_store_create, ctypes.byref(spec), ctypes.byref(self._store))

    def loaded(self, path: Any) -> "Engine":
        """An engine like this one, with the state of a store file; refuses a file of another dataset or of other options."""
        other = Engine(0, 0, self.values, path, self.embeddings)
        if other.keyed != self.keyed:
            raise _lib.StateError(f"{path} holds {'keys' if other.keyed else 'positions'}, this loss {'keys' if self.keyed else 'positions'}: make it "
                                  f"with num_samples={'None' if other.keyed else other.n}")
        have, want = ({name: getattr(e.describe(), name) for name in ("n", "modalities", "temperatures", "ring_dim")} |
                      {"bank_dim": e.bank_dim} for e in (other, self))
        for name, meaning in (("n", "samples (num_samples)"), ("modalities", "sides (loss)"), ("temperatures", "temperatures (loss)"),
                              ("ring_dim", "numbers per embedding of the ring (learner, dim)"),
                              ("bank_dim", "numbers per average (similarity, dim)")):
            if have[name] != want[name] and not (name == "n" and self.keyed):
                grown = name == "n" and have["n"] < want["n"]
                raise _lib.StateError(f"{path} was saved with {have[name]} {meaning}, this loss has {want[name]}: "
                                      "make it with the options of the file, or load the file that belongs to it" +
                                      (f"; if the dataset grew, make it with {have['n']} samples, load, then resize({want['n']})" if grown else ""))
        return other

    def close(self) -> None:
        """Frees store and context now. The engine cannot be used afterwards."""
        self._finalizer()

    def _check(self, status: int) -> None:
        if status:
            raise _lib.error_of(status, library.glofnd_ctx_error(self._context).decode(errors="replace"), self.embeddings)

    def _call(self, function: Any, *arguments: Any) -> None:
        with self.lock:
            self._check(function(self._context, *arguments))

    def _call_store(self, function: Any, *arguments: Any) -> None:
        self._call(function, self._store, *arguments)

    # ----- steps -----

    def step(self, batch: Any, grad_a: int, grad_b: int, stats: Any = None) -> None:
        """glofnd_step(). `stats` may be None: on CUDA the call then waits for nothing."""
        self._call_store(library.glofnd_step, ctypes.byref(batch), grad_a, grad_b, _reference(stats))
        self._add_counters(stats)

    def queue_step(self, batch: int, grad_a: int, grad_b: int, loss: int, grad_tau: int, grad_bias: int = 0) -> None:
        """A step without stats; `batch` is the address of its struct. Loss and grad_tau go to memory of the device: on CUDA
        nothing waits, and the failure of an earlier step may be raised."""
        with self.lock:
            context = self._context
            status = _step(context, self._store, batch, grad_a, grad_b, 0) or _loss(context, loss, grad_tau)
            if grad_bias and not status:
                status = _grad_bias(context, grad_bias)
            if status:
                self._check(status)

    def results(self, loss: int, grad_tau: int, grad_bias: int = 0) -> None:
        """The loss and gradients of the last step to memory of the device, one float32 each; CUDA: queued. 0: not wanted."""
        with self.lock:
            self._check(_loss(self._context, loss, grad_tau) or (_grad_bias(self._context, grad_bias) if grad_bias else 0))

    def step_rows(self, batch: Any, links: int, stats: Any = None, own: Any = None) -> None:
        """own: the part of this rank; None: all rows."""
        self._call_store(library.glofnd_step_rows, ctypes.byref(batch), _reference(own), links, _reference(stats))
        self._add_counters(stats)

    def step_grad(self, batch: Any, links: int, grad_a: int, grad_b: int, stats: Any = None, own: Any = None) -> None:
        self._call(library.glofnd_step_grad, ctypes.byref(batch), _reference(own), links, grad_a, grad_b, _reference(stats))

    def step_mask(self, batch: Any, links: int, keep: int, own: Any = None) -> None:
        self._call(library.glofnd_step_mask, ctypes.byref(batch), _reference(own), links, keep)

    def _add_counters(self, stats: Any) -> None:
        if stats is not None:
            stats.counters = _lib.Counters()
            self._call(library.glofnd_ctx_counters, ctypes.byref(stats.counters))

    def fetch_stats(self) -> Any:
        """The stats of the last step, or the failure of one since the last call. CUDA: waits."""
        stats = _lib.Stats()
        self._call(library.glofnd_ctx_stats, ctypes.byref(stats))
        self._add_counters(stats)
        return stats

    def read_stats(self, stats: Any) -> None:
        """The stats of the last step without counters, into a struct of the caller. CUDA: waits."""
        with self.lock:
            self._check(_stats(self._context, ctypes.byref(stats)))

    # ----- detection from similarities, exact thresholds -----

    def update(self, sims: Any) -> None:
        self._call_store(library.glofnd_detect_update, ctypes.byref(sims))

    def mask(self, sims: Any, keep: int, kept: int) -> None:
        self._call_store(library.glofnd_detect_mask, ctypes.byref(sims), keep, kept)

    def thresholds(self, query: Any, out: int) -> None:
        self._call(library.glofnd_exact_thresholds, ctypes.byref(query), out)

    # ----- context -----

    def configure(self, **changes: Any) -> None:
        """New values of options, from the next step on."""
        values = {**self.values, **changes}
        options = make_options(values)
        self._call(library.glofnd_ctx_configure, options)
        self.values, self.options = values, options

    @contextlib.contextmanager
    def without_neighbours(self) -> Iterator[None]:
        """Flags do not depend on the option `neighbours`, whose search takes time."""
        before = self.options.neighbours
        if before:
            self.configure(neighbours=0)
        try:
            yield
        finally:
            if before:
                self.configure(neighbours=before)

    def reserve(self, rows: int, cols: int, dim: int) -> int:
        size = ctypes.c_size_t()
        self._call(library.glofnd_ctx_reserve, rows, cols, dim, ctypes.byref(size))
        return size.value

    def stream(self, stream: int) -> None:
        if stream != self._stream:
            self._call(library.glofnd_ctx_stream, stream)
            self._stream = stream

    def tau(self, pointer: int) -> None:
        """The address from which the next steps read their temperature, a float32 on the device; 0: from batch and options."""
        if pointer != self._tau:
            self._call(library.glofnd_ctx_tau, pointer)
            self._tau = pointer

    def bias(self, pointer: int) -> None:
        """The same for the bias of loss "sigmoid"."""
        if pointer != self._bias:
            self._call(library.glofnd_ctx_bias, pointer)
            self._bias = pointer

    def phase(self, epoch: int) -> int:
        """Equal for epochs whose steps do the same work."""
        batch, phase = _lib.Batch(n=2, dim=1, epoch=epoch), ctypes.c_uint64()
        self._call(library.glofnd_ctx_phase, ctypes.byref(batch), ctypes.byref(phase))
        return phase.value

    def workspace_bytes(self, rows: int, cols: int, dim: int) -> int:
        size = ctypes.c_size_t()
        self._call(library.glofnd_ctx_workspace_bytes, rows, cols, dim, ctypes.byref(size))
        return size.value

    def workspace(self, memory: int, size: int) -> None:
        """Memory of the caller for the workspace; it must live until the next call or the end of the engine."""
        self._call(library.glofnd_ctx_workspace, memory, size)

    def reduce(self, add: Optional[Callable[[list[float]], list[float]]], queue: Optional[Callable[[int, int], None]] = None) -> None:
        """Sets the sum over ranks: `add` takes this rank's numbers and returns those of all ranks. `queue` is given the address of n
        doubles on the device, and queues their sum in their place: where it is enough, the step does not wait."""
        def call(_user: Any, x: Any, n: int) -> int:
            try:
                for i, value in enumerate(add(x[:n])):  # type: ignore[misc]
                    x[i] = value
                return 0
            except Exception:  # noqa: BLE001  an exception cannot cross C: the library reports the failed sum
                return 1

        def call_queue(_user: Any, x: int, n: int) -> int:
            try:
                queue(x, n)  # type: ignore[misc]
                return 0
            except Exception:  # noqa: BLE001
                return 1

        callbacks = _lib.REDUCE(call) if add else _lib.REDUCE(), _lib.QUEUE_SUM(call_queue) if queue else _lib.QUEUE_SUM()
        self._call(library.glofnd_ctx_reduce, callbacks[0], None)
        self._call(library.glofnd_ctx_reduce_queued, callbacks[1], None)
        self._reduce = callbacks

    # ----- state -----

    def describe(self) -> Any:
        info = _lib.StoreInfo()
        with self.lock:
            status = library.glofnd_store_describe(self._store, ctypes.byref(info))
        if status:
            raise _lib.error_of(status, "")
        return info

    def save(self, path: Any) -> None:
        self._call_store(library.glofnd_store_save, c_path(path))

    def rows_get(self, side: int, ids: int, n: int, rows: int) -> None:
        self._call_store(library.glofnd_anchors_get, side, ids, n, rows)

    def rows_put(self, side: int, ids: int, n: int, rows: int) -> None:
        self._call_store(library.glofnd_anchors_put, side, ids, n, rows)

    def records_get(self, ids: int, n: int, records: int) -> None:
        """uint8 [n][record_bytes], all state of anchors; ids and records in memory of the device. CUDA: queued."""
        self._call_store(library.glofnd_records_get, ids, n, records)

    def records_put(self, ids: int, n: int, records: int) -> None:
        self._call_store(library.glofnd_records_put, ids, n, records)

    def shared_get(self, side: int) -> Any:
        """The row of the single lambda that all anchors share."""
        row, shared = _lib.Row(), ctypes.c_int64(_lib.SHARED)
        self.rows_get(side, 0 if self.keyed else ctypes.addressof(shared), 1, ctypes.addressof(row))
        return row

    def shared_put(self, side: int, row: Any) -> None:
        shared = ctypes.c_int64(_lib.SHARED)
        self.rows_put(side, 0 if self.keyed else ctypes.addressof(shared), 1, ctypes.addressof(row))

    def count_keys(self) -> int:
        """Keys that have state."""
        return self.keys(0, 0)

    def keys(self, keys: int, capacity: int) -> int:
        """Writes them, ascending, to int64 [capacity]; returns their number."""
        count = ctypes.c_int64()
        self._call_store(library.glofnd_store_keys, keys, capacity, ctypes.byref(count))
        return count.value

    def make_room(self, keys: Any) -> None:
        """Room for this number of keys in all."""
        number = checked_count("keys", keys)
        self._call_store(library.glofnd_store_reserve, number)

    def ring_get(self, ids: int, a: int, b: int) -> None:
        self._call_store(library.glofnd_ring_get, ids, a, b)

    def ring_put(self, n: int, ids: int, a: int, b: int) -> None:
        self._call_store(library.glofnd_ring_put, n, ids, a, b)

    def bank_get(self, side: int, ids: int, n: int, rows: int) -> None:
        """float16 [n][bank_dim] averages of anchors, in host memory; zeros: never seen."""
        self._call_store(library.glofnd_bank_get, side, ids, n, rows)

    def bank_put(self, side: int, ids: int, n: int, rows: int) -> None:
        self._call_store(library.glofnd_bank_put, side, ids, n, rows)


def _reference(struct: Any) -> Any:
    return None if struct is None else ctypes.byref(struct)


def stats_dict(stats: Any) -> dict[str, Any]:
    """Statistics by name, those of the experimental counters too."""
    structs = ((stats, "glofnd_stats"), (stats.counters, "glofnd_counters"))
    return {name: getattr(struct, name) for struct, kind in structs for name, _ in _lib.STRUCTS[kind][1:]}

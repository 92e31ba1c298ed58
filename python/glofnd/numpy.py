"""The step, thresholds and masks on NumPy arrays, on the CPU.

    criterion = glofnd.numpy.GloFND(num_samples, loss="sogclr", alpha=0.01)
    result = criterion.step(a, b, index, epoch=epoch)     # result.loss, result.grad_a, result.grad_b, result.stats

Embeddings are float32, float16 or bfloat16 (ml_dtypes) arrays [batch][dim]; rows may be any distance apart and are not copied.
"""

from __future__ import annotations

import ctypes
import os
from typing import Any, NamedTuple, Optional, Union

import numpy as np

from . import _lib
from ._engine import Engine, checked_count, checked_epoch, checked_growth, needs_dim, own_names, stats_dict, warn_of_scale
from ._lib import AnchorIndexError, ArgumentError, OptionError

__all__ = ["GloFND", "ROW", "StepResult", "thresholds"]

_DTYPES = {"float32": _lib.F32, "bfloat16": _lib.BF16, "float16": _lib.F16}
ROW = np.dtype([(name, np.dtype(kind)) for name, kind in _lib.STRUCTS["glofnd_anchor"]])
"""State of one anchor on one side: threshold `lambda`, moments, `log_u`, visits `clock`, individual temperature."""


class _StepResult(NamedTuple):
    loss: float
    grad_a: np.ndarray
    grad_b: np.ndarray
    stats: dict[str, Any]


class StepResult(_StepResult):
    """Loss and gradients of one step. `stats` holds all numbers of glofnd_stats by name. `grad_negatives`: gradient of the candidates
    beyond the batch, shaped as they were given; None: there were none."""

    grad_negatives: Any = None


def _pointer(array: Optional[np.ndarray]) -> int:
    return 0 if array is None else array.ctypes.data


def _embeddings(array: Any, name: str) -> np.ndarray:
    """`array` as the library reads it: [rows][dim], numbers of a row side by side. Copies only what is not so."""
    if isinstance(array, np.ma.MaskedArray):
        raise ArgumentError(f"{name} is a masked array; a step has no missing numbers: leave such rows out, or pass {name}.data")
    array = np.asarray(array)
    if array.ndim != 2:
        raise ArgumentError(f"{name} has shape {array.shape}; expected [batch][dim]")
    if array.dtype.name not in _DTYPES:
        raise ArgumentError(f"{name} is {array.dtype}; expected float32, float16 or bfloat16: convert it, "
                            "for example by .astype(numpy.float32)")
    if not array.dtype.isnative:
        array = array.astype(array.dtype.newbyteorder("="))
    width = array.dtype.itemsize
    close = array.strides[1] == width or array.shape[1] <= 1
    rows_apart = array.strides[0] >= array.shape[1] * width and array.strides[0] % width == 0
    return array if close and rows_apart else np.ascontiguousarray(array)


def _stride(array: np.ndarray) -> int:
    return max(array.strides[0] // array.dtype.itemsize, array.shape[1])


def _integers(array: Any, name: str, shape: tuple[int, ...], kind: Any) -> Optional[np.ndarray]:
    if array is None:
        return None
    array = np.asarray(array)
    if array.dtype.kind not in "iu":
        raise ArgumentError(f"{name} is {array.dtype}; expected integers")
    if array.shape != shape:
        raise ArgumentError(f"{name} has shape {array.shape}; expected {shape}: one number per sample")
    if array.size and (int(array.min()) < np.iinfo(kind).min or int(array.max()) > np.iinfo(kind).max):
        raise ArgumentError(f"{name} has values that do not fit {np.dtype(kind).name}")
    return np.ascontiguousarray(array, dtype=kind)


def _real(name: str, value: Any) -> float:
    try:
        return float(value)
    except (TypeError, ValueError):
        raise ArgumentError(f"{name} is {value!r}; expected a number") from None


def _pair(a: Any, b: Any) -> tuple[np.ndarray, np.ndarray]:
    a, b = _embeddings(a, "a"), _embeddings(b, "b")
    if a.shape != b.shape or a.dtype != b.dtype:
        raise ArgumentError(f"a is {a.dtype} {a.shape}, b is {b.dtype} {b.shape}; expected two views of one shape and type")
    return a, b


def _values(options: dict[str, Any]) -> dict[str, Any]:
    options = own_names(options)
    if "device" in options:
        raise OptionError("device: arrays of NumPy are on the CPU; glofnd.torch and glofnd.jax work on a GPU")
    return options


def _engine(n: int, dim: int, values: dict[str, Any], load: Any = None) -> Engine:
    return Engine(n, dim, values, load, ("a", "b"))


class GloFND:
    """Loss, gradients and the thresholds of `num_samples` anchors.

    Options are those of `python -m glofnd --options`: loss, detector, action, learner, alpha, tau, gamma, start_epoch, threads ...
    `num_samples` None: `index` holds keys, any int64, such as those of glofnd.keys(), and the state grows with the keys that come.
    `dim`, the length of an embedding, is needed by learner="ring" and similarity="bank" only. `lambda_init` is "quantile" as in
    glofnd.torch: a threshold starts at the quantile of its sample's first batch ("one" where the authors' way is chosen).
    """

    def __init__(self, num_samples: Optional[int], *, dim: int = 0, **options: Any):
        self._engine = _engine(num_samples, dim, _values(options))
        warn_of_scale(self._engine.options)

    @classmethod
    def load(cls, path: Union[str, os.PathLike], **options: Any) -> "GloFND":
        """The state of a file that save(), the program or the C library wrote."""
        self = cls.__new__(cls)
        self._engine = _engine(0, 0, _values(options), path)
        return self

    def save_store(self, path: Union[str, os.PathLike]) -> None:
        """Writes all state to a store file, which load_store(), load(), glofnd.torch, the program and the C library read."""
        self._engine.save(path)

    def load_store(self, path: Union[str, os.PathLike]) -> None:
        """Replaces all state by that of a store file of as many samples."""
        self._engine = self._engine.loaded(path)

    save = save_store

    def __repr__(self) -> str:
        return f"GloFND(num_samples={self._engine.n}" + "".join(f", {name}={value!r}" for name, value in self._engine.values.items()) + ")"

    @property
    def num_samples(self) -> Optional[int]:
        return self._engine.n

    def keys(self) -> np.ndarray:
        """The keys of all samples that have state, ascending: int64 [n]. For num_samples=None."""
        if not self._engine.keyed:
            raise ArgumentError(f"this loss has no keys: its samples are 0 .. {self._engine.n - 1}")
        with self._engine.lock:
            keys = np.empty(self._engine.count_keys(), np.int64)
            self._engine.keys(_pointer(keys), keys.size)
        return keys

    def reserve(self, keys: int) -> None:
        """Room for this number of keys in all: until then no step allocates."""
        self._engine.make_room(keys)

    def _ids(self) -> np.ndarray:
        return self.keys() if self._engine.keyed else np.arange(self._engine.n)

    @property
    def sides(self) -> int:
        """1 for two views, 2 for image and text."""
        return self._engine.sides

    # ----- step -----

    def _batch(self, a: np.ndarray, b: np.ndarray, index: Any, labels: Any, groups: Any, support: tuple[Any, Any], epoch: int,
               tau: float, gamma: float, want: int, positives: Any = None,
               guide: Any = None) -> tuple[Any, list[Any]]:
        """The batch struct, and the arrays that must live as long as it."""
        shape = (a.shape[0],)
        if index is None:
            raise ArgumentError("index is missing: the positions of the samples in the dataset")
        keep = [a, b, _integers(index, "index", shape, np.int64), _integers(labels, "labels", shape, np.int32),
                _integers(groups, "groups", shape, np.int32)]
        for name, extra in zip(("support_a", "support_b"), support):
            if extra is not None:
                extra = np.ascontiguousarray(_embeddings(extra, name))
                if extra.shape != a.shape or extra.dtype != a.dtype:
                    raise ArgumentError(f"{name} is {extra.dtype} {extra.shape}; expected {a.dtype} {a.shape} as a")
            keep.append(extra)
        keep.append(_integers(positives, "positives", shape, np.int32))
        if guide is not None:
            rows, thresholds = (np.ascontiguousarray(x, dtype=np.float32) for x in guide)
            if rows.ndim != 2 or len(rows) != shape[0] or thresholds.shape != shape:
                raise ArgumentError(f"guide: embeddings {rows.shape}, thresholds {thresholds.shape}; expected {(*shape, 'any width')} and {shape}")
            keep += [rows, thresholds]
        pointers = [_pointer(array) for array in keep]
        batch = _lib.Batch(
            n=a.shape[0], dim=a.shape[1], a=pointers[0], b=pointers[1], id=pointers[2], label=pointers[3], group=pointers[4],
            a_stride=_stride(a), b_stride=_stride(b), dtype=_DTYPES[a.dtype.name], grad_dtype=_lib.F32,
            epoch=checked_epoch(epoch), want=want, tau=_real("tau", tau), gamma=_real("gamma", gamma), positives=pointers[7])
        if guide is not None:
            batch.guide, batch.guide_threshold, batch.guide_dim = *pointers[8:10], keep[8].shape[1]
        extra = _lib.BatchExtra(support_a=pointers[5], support_b=pointers[6])
        batch.extra = ctypes.addressof(extra)
        return batch, [*keep, extra]

    def step(self, a: Any, b: Any, index: Any, *, epoch: int = 0, labels: Any = None, groups: Any = None, support_a: Any = None,
             support_b: Any = None, tau: float = 0.0, gamma: float = 0.0, update: bool = True, quality: bool = False,
             quantile: bool = False, negatives: Any = None, negatives_index: Any = None, positives: Any = None,
             guide: Any = None) -> StepResult:
        """Loss and gradients of one batch; moves the state of its anchors unless `update` is False.

        a, b      [batch][dim] two views, or image and text
        index     [batch] positions of the samples in the dataset, all different
        labels    [batch] for detector="oracle" and for `quality`: precision and recall of the flags in the stats
        groups    [batch] for detector="groups", or pairs to flag in addition; negative: in no group
        tau, gamma  of this step; 0: as in the options
        negatives  [m][dim] embeddings beyond the batch that are negatives only. Two views: of all rows; image-text: further texts, negatives
                  of a. A pair (n1, n2), either may be None: also further images, negatives of b. result.grad_negatives: their gradient
        negatives_index  [m], or a pair: the sample that each is an embedding of, -1 if unknown. No negative of that sample
        positives  [batch] samples of one number are positives of each other (SupCon), and no negatives; negative: of none
        guide     detector="fixed": (embeddings [batch][any width], thresholds [batch]) of a guide
        """
        a, b = _pair(a, b)
        want = _lib.WANT_QUALITY * quality | _lib.WANT_QUANTILE * quantile | _lib.WANT_NO_UPDATE * (not update)
        batch, _alive = self._batch(a, b, index, labels, groups, (support_a, support_b), epoch, tau, gamma, want, positives, guide)
        grads = [np.empty(a.shape, np.float32), np.empty(a.shape, np.float32)]
        stats = _lib.Stats()
        of_negatives, _negatives = self._candidates(batch, a, negatives, negatives_index)
        self._engine.step(batch, _pointer(grads[0]), _pointer(grads[1]), stats)
        result = StepResult(stats.loss, grads[0], grads[1], stats_dict(stats))
        result.grad_negatives = of_negatives
        return result

    def _candidates(self, batch: Any, a: np.ndarray, negatives: Any, index: Any) -> tuple[Any, Any]:
        """Gives the batch its candidates: their gradients, and the arrays that must live as long as it."""
        if negatives is None:
            if index is not None:
                raise ArgumentError("negatives_index is given without negatives")
            return None, None
        pair = isinstance(negatives, (tuple, list)) and len(negatives) == 2
        if pair and self.sides == 1:
            raise ArgumentError("negatives is a pair; with pairing 'views' it is one array, [m][dim]")
        rows = list(negatives) if pair else [None, negatives] if self.sides == 2 else [negatives, None]
        ids = list(index) if pair and index is not None else [None, index] if self.sides == 2 else [index, None]
        grads: list[Any] = [None, None]
        for i, side in enumerate("ab"):
            if rows[i] is None:
                if ids[i] is not None:
                    raise ArgumentError("negatives_index has indices of a side without negatives")
                continue
            rows[i] = _embeddings(rows[i], "negatives")
            if rows[i].shape[1] != a.shape[1] or rows[i].dtype != a.dtype:
                raise ArgumentError(f"negatives is {rows[i].dtype} {rows[i].shape}; expected {a.dtype} [m][{a.shape[1]}], as a")
            ids[i] = _integers(ids[i], "negatives_index", rows[i].shape[:1], np.int64)
            grads[i] = np.empty(rows[i].shape, np.float32)
            if not len(rows[i]):
                continue
            for name, value in (("", _pointer(rows[i])), ("_n", len(rows[i])), ("_stride", _stride(rows[i])), ("_id", _pointer(ids[i]))):
                setattr(batch, f"negatives_{side}{name}", value)
            setattr(batch, f"grad_negatives_{side}", _pointer(grads[i]))
        return tuple(grads) if pair else grads[self.sides - 1], (rows, ids)

    def mask(self, a: Any, b: Any, index: Any, *, epoch: int = 0, labels: Any = None, groups: Any = None, support_a: Any = None,
             support_b: Any = None, tau: float = 0.0, gamma: float = 0.0, positives: Any = None,
             guide: Any = None) -> np.ndarray:
        """The negatives that a step on this batch would keep; state stays as it is.

        Two views: bool [batch][2][2][batch], by own view and the other's view. Image and text: bool [batch][2][batch], by side.
        """
        a, b = _pair(a, b)
        batch, _alive = self._batch(a, b, index, labels, groups, (support_a, support_b), epoch, tau, gamma, _lib.WANT_NO_UPDATE, positives, guide)
        n = a.shape[0]
        banks = self._banks(_alive[2])
        _alive[-1].bank_a, _alive[-1].bank_b = (_pointer(x) for x in banks)
        links = np.empty((n, _lib.LINK_BYTES), np.uint8)
        keep = np.empty((n, 2, 2, n) if self.sides == 1 else (n, 2, n), np.uint8)
        with self._engine.lock, self._engine.without_neighbours():
            self._engine.step_rows(batch, _pointer(links))
            self._engine.step_mask(batch, _pointer(links), _pointer(keep))
        return keep.view(np.bool_)

    # ----- detection from similarities -----

    def _sims(self, sim: Any, index: Any, negative: Any, row_groups: Any, col_groups: Any, side: int,
              epoch: int) -> tuple[Any, list[Any]]:
        sim = np.asarray(sim)
        if sim.dtype != np.float32 or sim.ndim not in (2, 3):
            raise ArgumentError(f"similarities are {sim.dtype} {sim.shape}; expected float32 [rows][cols] or [views][rows][cols]")
        if index is None:
            raise ArgumentError("index is missing: the positions of the anchors in the dataset")
        sim = np.ascontiguousarray(sim)
        rows, cols = sim.shape[-2:]
        if negative is not None:
            negative = np.ascontiguousarray(negative, dtype=np.uint8)
            if negative.shape != (rows, cols):
                raise ArgumentError(f"negative has shape {negative.shape}; expected {(rows, cols)}")
        keep = [sim, negative, _integers(index, "index", (rows,), np.int64),
                _integers(row_groups, "row_groups", (rows,), np.int32), _integers(col_groups, "col_groups", (cols,), np.int32)]
        pointers = [_pointer(array) for array in keep]
        return _lib.Sims(rows=rows, cols=cols, sim=pointers[0], negative=pointers[1], id=pointers[2], row_group=pointers[3],
                         col_group=pointers[4], views=1 if sim.ndim == 2 else sim.shape[0], side=side,
                         epoch=checked_epoch(epoch)), keep

    def update(self, sim: Any, index: Any, *, negative: Any = None, row_groups: Any = None, col_groups: Any = None, side: int = 0,
               epoch: int = 0) -> None:
        """Moves the thresholds of the anchors `index` by similarities [rows][cols] or [views][rows][cols] of your own."""
        sims, _alive = self._sims(sim, index, negative, row_groups, col_groups, side, epoch)
        self._engine.update(sims)

    def keep(self, sim: Any, index: Any, *, negative: Any = None, row_groups: Any = None, col_groups: Any = None, side: int = 0,
             epoch: int = 0) -> np.ndarray:
        """The negatives to keep among pairs with these similarities: a bool array of their shape."""
        sims, alive = self._sims(sim, index, negative, row_groups, col_groups, side, epoch)
        keep = np.empty(alive[0].shape, np.uint8)
        self._engine.mask(sims, _pointer(keep), 0)
        return keep.view(np.bool_)

    # ----- state -----

    def rows(self, index: Any = None, side: int = 0) -> np.ndarray:
        """State of the anchors `index` (None: all) as an array of ROW."""
        index = self._ids() if index is None else np.asarray(index)
        index = _integers(index if index.size else index.astype(np.int64), "index", index.shape, np.int64)
        if not self._engine.keyed and index.size and index.min() < 0:
            raise AnchorIndexError(f"index holds {index.min()}; there are samples 0 .. {self.num_samples - 1}")
        side = checked_count("side", side)
        rows = np.empty(index.shape, ROW)
        self._engine.rows_get(side, _pointer(index), index.size, _pointer(rows))
        return rows

    def put_rows(self, index: Any, rows: np.ndarray, side: int = 0) -> None:
        """Replaces the state of the anchors `index`."""
        rows = np.ascontiguousarray(rows, dtype=ROW)
        index = _integers(index, "index", rows.shape, np.int64)
        self._engine.rows_put(side, _pointer(index), index.size, _pointer(rows))

    def thresholds(self, index: Any = None, side: int = 0) -> np.ndarray:
        """The learned thresholds lambda of the anchors `index` (None: all). 1: not visited yet, nothing is flagged."""
        rows = self.rows(index, side)
        shared = self.shared(side)
        return np.where((rows["clock"] == 0) & (shared["clock"] > 0), shared["lambda"], rows["lambda"])

    def shared(self, side: int = 0) -> np.ndarray:
        """The row of the single threshold that all anchors share (detector="single", lambda_warmup)."""
        return np.frombuffer(bytes(self._engine.shared_get(side)), ROW)[0]

    def put_shared(self, row: Any, side: int = 0) -> None:
        self._engine.shared_put(side, _lib.Row.from_buffer_copy(np.asarray(row, ROW).tobytes()))

    def ring(self) -> tuple[np.ndarray, np.ndarray, Optional[np.ndarray]]:
        """Ids and embeddings that learner="ring" remembers, oldest first: ids [n], a [n][dim], b [n][dim] or None."""
        info = self._engine.describe()
        ids = np.empty(info.ring_count, np.int64)
        a = np.empty((info.ring_count, info.ring_dim), np.float32)
        b = np.empty_like(a) if self.sides == 2 else None
        self._engine.ring_get(_pointer(ids), _pointer(a), _pointer(b))
        return ids, a, b

    def put_ring(self, ids: Any, a: Any, b: Any = None) -> None:
        """Replaces the whole ring."""
        a = np.ascontiguousarray(a, np.float32)
        b = None if b is None else np.ascontiguousarray(b, np.float32)
        ids = _integers(ids, "ids", a.shape[:1], np.int64)
        info = self._engine.describe()
        if a.ndim != 2 or a.shape[1] != info.ring_dim or (b is not None and b.shape != a.shape):
            raise ArgumentError(f"embeddings of the ring have shape {a.shape}; expected [n][{info.ring_dim}]")
        self._engine.ring_put(a.shape[0], _pointer(ids), _pointer(a), _pointer(b))

    def bank(self, index: Any = None, side: int = 0) -> np.ndarray:
        """Averages that similarity="bank" compares: float16 [n][dim] of the anchors `index` (None: all); zeros: never seen."""
        index = self._ids() if index is None else np.asarray(index)
        index = _integers(index, "index", index.shape[:1], np.int64)
        rows = np.zeros((index.size, self._engine.bank_dim), np.float16)
        self._engine.bank_get(side, _pointer(index), index.size, _pointer(rows))
        return rows

    def put_bank(self, index: Any, rows: Any, side: int = 0) -> None:
        """Replaces the averages of the anchors `index`."""
        rows = np.ascontiguousarray(rows, np.float16)
        if rows.ndim != 2 or rows.shape[1] != self._engine.bank_dim:
            raise ArgumentError(f"averages have shape {rows.shape}; expected [n][{self._engine.bank_dim}]")
        index = _integers(index, "index", rows.shape[:1], np.int64)
        self._engine.bank_put(side, _pointer(index), index.size, _pointer(rows))

    def _banks(self, index: Any) -> tuple[Optional[np.ndarray], Optional[np.ndarray]]:
        """The averages of a batch, as the calls in two steps need them."""
        if not self._engine.bank_dim:
            return None, None
        return self.bank(index), self.bank(index, 1) if self.sides == 2 else None

    def configure(self, **options: Any) -> None:
        """New values of options, from the next step on; the state stays."""
        self._engine.configure(**own_names(options))

    def resize(self, num_samples: int) -> None:
        """For a dataset that grew at its end: samples keep their state, new ones begin with none."""
        self.__setstate__({**self.__getstate__(), "n": checked_growth(num_samples, self.num_samples)})

    def __getstate__(self) -> dict[str, Any]:
        sides, ids = range(self.sides), self._ids()
        seen = [ids[_seen(self.rows(ids, side))] for side in sides]
        return {"values": self._engine.values, "n": self._engine.n, "dim": self._engine.dim, "seen": seen,
                "rows": [self.rows(ids, side) for side, ids in zip(sides, seen)],
                "shared": [self.shared(side) for side in sides],
                "ring": self.ring() if self._engine.describe().ring_rows else None,
                "bank": [self._seen_bank(side) for side in sides] if needs_dim(self._engine.values) and self._engine.bank_dim else None}

    def _seen_bank(self, side: int) -> tuple[np.ndarray, np.ndarray]:
        rows, ids = self.bank(side=side), self._ids()
        seen = rows.any(axis=1)
        return ids[seen], rows[seen]

    def __setstate__(self, state: dict[str, Any]) -> None:
        self._engine = _engine(state["n"], state["dim"], state["values"])
        for side in range(self.sides):
            self.put_rows(state["seen"][side], state["rows"][side], side)
            if state["shared"][side]["clock"]:
                self.put_shared(state["shared"][side], side)
        if state["ring"] is not None:
            self.put_ring(*state["ring"])
        for side, (seen, rows) in enumerate(state.get("bank") or ()):
            self.put_bank(seen, rows, side)


def _seen(rows: np.ndarray) -> np.ndarray:
    return (rows["clock"] > 0) | (rows["log_u"] > -np.inf) | (rows["tau_clock"] > 0)


def thresholds(q: Any, k: Any, alpha: float, *, skip: Any = None, normalize: bool = True, threads: int = 0) -> np.ndarray:
    """Exact thresholds of the rows of q [rows][dim] against the rows of k [cols][dim].

    out[i] is the ceil(alpha m)-th largest similarity of q[i] to the m rows of k other than skip[i] (-1: all count).
    """
    q, k = _embeddings(q, "q"), _embeddings(k, "k")
    if q.shape[1] != k.shape[1] or q.dtype != k.dtype:
        raise ArgumentError(f"q is {q.dtype} {q.shape}, k is {k.dtype} {k.shape}; expected rows of one length and type")
    skip = _integers(skip, "skip", q.shape[:1], np.int64)
    out = np.empty(q.shape[0], np.float32)
    query = _lib.Query(rows=q.shape[0], cols=k.shape[0], dim=q.shape[1], q=_pointer(q), k=_pointer(k), skip=_pointer(skip),
                       q_stride=_stride(q), k_stride=_stride(k), alpha=_real("alpha", alpha), dtype=_DTYPES[q.dtype.name])
    Engine(1, 0, {"normalize": normalize, "threads": threads}).thresholds(query, _pointer(out))
    return out

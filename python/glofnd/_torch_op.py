"""The operator glofnd::step: loss and gradients of a batch, and the state that moves with it.

It reads tensors by pointer on the caller's current stream. The state lies behind an integer handle, with everything that changes
between steps (epoch, options), so that a compiled graph holds constants only. `clock` is a tensor that the operator claims to
write: without it a compiler would drop a call whose results are not used, or move it.

With several ranks the operator gathers embeddings, ids, links and state by itself, by the process group's own backend: a compiled graph
sees one call, and on a GPU nothing goes by way of the host.
"""

from __future__ import annotations

import contextlib
import ctypes
import itertools
import math
import struct
import threading
import weakref
import zlib
from collections import deque
from typing import Any, Iterator, Optional

import torch
import torch.distributed as dist

from . import _lib
from ._counts import Counts
from ._engine import Engine, option_text
from ._watch import Watch

DTYPES = {torch.float32: _lib.F32, torch.bfloat16: _lib.BF16, torch.float16: _lib.F16}
UPDATE, REMEMBER, GRAD_A, GRAD_B = 1, 2, 4, 8  # bits of the operator's `flags`; the last two: gradients of candidates are wanted
INPUTS = ("a", "b", "index", "labels", "groups", "positives", "guide", "guide_thresholds")
CANDIDATES = ("negatives_a", "negatives_b", "negatives_a_id", "negatives_b_id")
ROW_BYTES = 36
REMEMBERED_STEPS = 8  # losses in checkpointed parts whose backward has not begun

_handles = itertools.count(1)
_cores: "dict[int, weakref.ref[Core]]" = {}


class Remembered:
    """A step that activation checkpointing may run a second time. `silent`: autograd was off."""

    def __init__(self, index: torch.Tensor, fingerprint: torch.Tensor, results: tuple[torch.Tensor, ...], silent: bool):
        self.index, self.fingerprint, self.results, self.silent, self.recalled = index, fingerprint, results, silent, False


class Core:
    """The engine of one module, and what belongs to its next step. `device` is where state and steps are."""

    def __init__(self, n: Optional[int], dim: int, values: dict[str, Any], device: torch.device, group: Any):
        self.n, self.dim, self.values, self.group = n, dim, values, group
        self.epoch, self.want = 0, 0
        self.unannounced: Optional[int] = 0  # samples of training steps since the epoch stands still; None: it moved, or was missed aloud
        self.announced = False  # set_epoch() was called
        self.watch = Watch()
        self.counts = Counts()  # of training steps on the CPU since the epoch was announced
        self._counted = _lib.Stats()
        self.lock = threading.RLock()
        self.engine: Engine
        self.remembered: deque = deque(maxlen=REMEMBERED_STEPS)
        self.open(device)
        self.handle = next(_handles)
        handle = self.handle
        _cores[handle] = weakref.ref(self, lambda _: _cores.pop(handle, None))

    def open(self, device: torch.device, store: Any = None) -> None:
        """A new engine on `device`, with no state, or in place of the previous one, with that of a store file."""
        with _current(device):
            self.engine = self.engine.loaded(store) if store else Engine(self.n, self.dim, {**self.values, "device": device.type})
        self.last_begin = self._last_begin()
        self.device = device
        self.is_cuda = device.type == "cuda"
        self.nothing = torch.empty(0, dtype=torch.float32, device=device)
        self.last: Any = None  # None: no step yet; True: the engine knows; else glofnd_stats of the last step
        self.batch = _lib.Batch()
        self.batch_at = ctypes.addressof(self.batch)
        self.workspace: Optional[torch.Tensor] = None
        self.retired: list[torch.Tensor] = []  # workspaces that captured graphs still use
        self.captured = False
        self._fits: set[tuple[int, int, int]] = set()
        self._most = (0, 0)  # bytes, columns
        self.code = options_code(self)
        self.kind: tuple[Any, ...] = ()  # of the last step of several ranks, and that as a tensor
        self.kind_tensor: Optional[torch.Tensor] = None
        self.sums_shared = False  # the engine has its sums over ranks
        self.numbers: dict[tuple[int, int], torch.Tensor] = {}  # of the library on the device, by address and length
        self.totals: Optional[torch.Tensor] = None  # loss, grad_tau, grad_bias of all ranks; None: the last step was of one

    @contextlib.contextmanager
    def unless_it_fails(self) -> Iterator[None]:
        """Keeps engine and state as they were if something inside raises."""
        before = dict(self.__dict__)
        try:
            yield
        except BaseException:
            self.__dict__.update(before)
            raise

    def configure(self, **options: Any) -> None:
        with self.lock:
            self.engine.configure(**options)
            self.values.update(options)
            self.last_begin = self._last_begin()
            self._fits.clear()
            self.code = options_code(self)

    def announce(self, epoch: int) -> None:
        """The epoch of the next steps. Samples are counted as long as every call has the same one."""
        if epoch != self.epoch or not self.announced:
            self.unannounced = None
        elif self.unannounced is None and "epoch" not in self.watch.said:
            self.unannounced = 0
        self.epoch, self.announced, self.counts = epoch, True, Counts()

    def _last_begin(self) -> tuple[str, int]:
        """The option whose epoch comes last, and that epoch."""
        counted = {name: int(self.values.get(name, 0)) for name in ("start_epoch", "update_epoch", "lambda_warmup")}
        counted["lambda_warmup"] += counted["update_epoch"] if counted["lambda_warmup"] else 0
        name = max(counted, key=lambda x: counted[x])
        return name, counted[name]

    def count_samples(self, rows: int) -> None:
        """Training steps of one epoch: warns once if an option counts epochs that never come."""
        name, first = self.last_begin
        if first <= self.epoch or self.n is None:
            return
        self.unannounced = (self.unannounced or 0) + rows * self.ranks()[1]
        if self.unannounced >= (first + 1) * self.n:
            self.unannounced = None
            calls = "set_epoch() always had the same epoch" if self.announced else "set_epoch() was never called"
            never = f"lambda_warmup={self.values[name]} never ends" if name == "lambda_warmup" else f"{name}={first} is never reached"
            self.watch.warn("epoch", f"{first + 1} epochs of samples went by and {calls}: the epoch is still {self.epoch}, and {never}. Call "
                            "criterion.set_epoch(epoch) at the start of every epoch")

    def ranks(self) -> tuple[int, int]:
        """(this rank, number of ranks)."""
        if self.group is False or not _is_distributed():
            return 0, 1
        rank, world = dist.get_rank(self.group), dist.get_world_size(self.group)
        if world < 1:
            raise _lib.ArgumentError("this rank is not in process_group: make the loss on the ranks of the group only, or with process_group=False")
        return rank, world

    def shares(self) -> bool:
        """True if ranks share a batch."""
        return self.ranks()[1] > 1

    def own_group(self) -> Any:
        return self.group or None

    def synchronize(self) -> None:
        """Lets the engine work on the caller's current stream."""
        if self.is_cuda:
            self.engine.stream(torch._C._cuda_getCurrentRawStream(self.device.index))

    def settle(self) -> None:
        """Before state is read or written: replays of a graph run on streams that the library does not know."""
        if self.captured:
            torch.cuda.synchronize(self.device)

    def stats(self) -> Any:
        """The glofnd_stats of the last step. On CUDA this waits for it, and raises the failure of a step."""
        with self.lock, _current(self.device):
            if self.last is None:
                raise _lib.ArgumentError("there was no step yet")
            if self.last is not True:
                return self.last
            self.synchronize()
            stats = self.engine.fetch_stats()
            if self.totals is not None:
                stats.loss, stats.grad_tau, stats.grad_bias = self.totals.tolist()
            return stats

    def count(self) -> None:
        """Adds the step that just ran on the CPU to the counts."""
        x = self._counted
        self.engine.read_stats(x)
        self.counts.add(x.pairs, x.flagged, 0 if math.isnan(x.precision) else x.flagged, 0 if math.isnan(x.recall) else x.same, x.hits)

    def keep_stats(self) -> None:
        """Before a call that is no step but changes what the engine knows of the last one."""
        if self.last is True:
            self.last = self.stats()

    def reserve(self, rows: int, cols: int, dim: int) -> None:
        """CUDA: the workspace comes from PyTorch's allocator, which counts it and uses it again. Checked once per shape."""
        if not self.is_cuda or (rows, cols, dim) in self._fits:
            return
        # The tables of ids of the largest batch and the arrays of the largest shape must fit at once.
        size = max(self._most[0], self.engine.workspace_bytes(rows, cols, dim))
        columns = max(self._most[1], cols)
        needed = size + 32 * columns + 1024
        if self.workspace is None or self.workspace.numel() < needed:
            if torch.cuda.is_current_stream_capturing():
                raise _lib.UnsupportedError(
                    f"a step of this size (batch {cols}, dim {dim}) was not run before the capture of a CUDA graph: run one first")
            memory = torch.empty(needed, dtype=torch.uint8, device=self.device)
            self.engine.workspace(memory.data_ptr(), needed)  # waits for the steps that use the old one
            if self.captured and self.workspace is not None:
                self.retired.append(self.workspace)
            self.workspace = memory
        self._most = (size, columns)
        self._fits.add((rows, cols, dim))


_is_distributed = dist.is_initialized if dist.is_available() else lambda: False


def core_of(handle: int) -> Core:
    found = _cores.get(handle)
    core = found and found()
    if core is None:
        raise _lib.ArgumentError("the GloFNDLoss of this compiled graph is gone: keep the module as long as the graph")
    return core


_nothing: Any = contextlib.nullcontext()


def _current(device: torch.device) -> Any:
    """Makes a CUDA device the current one; nothing on the CPU, or where it is that already."""
    if device.type != "cuda" or torch._C._cuda_getDevice() == device.index:
        return _nothing
    return torch.cuda.device(device)


_is_compiling, _dispatch_stack = torch.compiler.is_compiling, torch._C._len_torch_dispatch_stack


def run_step(a, b, index, labels, groups, tau, clock, handle, flags):  # type: ignore[no-untyped-def]
    """The operator. Without tracing and fake tensors it is called without the dispatcher, which takes longer
    than all the rest of a small step."""
    kind = type(a)
    if (kind is torch.Tensor or kind is torch.nn.Parameter) and not _is_compiling() and _dispatch_stack() == 0:
        return _step(a, b, index, labels, groups, tau, clock, handle, flags)
    return torch.ops.glofnd.step(a, b, index, labels, groups, tau, clock, handle, flags)


def run_step_candidates(*arguments):  # type: ignore[no-untyped-def]
    """The same with negatives beyond the batch, several positives, or a guide."""
    a = arguments[0]
    if (type(a) is torch.Tensor or type(a) is torch.nn.Parameter) and not _is_compiling() and _dispatch_stack() == 0:
        return _step_candidates(*arguments)
    return torch.ops.glofnd.step_candidates(*arguments)


# ----- the batch --------------------------------------------------------------------------------------------------------------


def readable(x: torch.Tensor) -> torch.Tensor:
    """`x` as the library reads it: numbers of a row side by side, rows at least their length apart."""
    return x if x.stride(1) == 1 and x.stride(0) >= x.shape[1] else x.contiguous()


def classes_of(x: Optional[torch.Tensor]) -> Optional[torch.Tensor]:
    """Labels or groups of a whole batch as the library reads them, int32: equal where these are; all negative numbers mean none.
    A GPU is not waited for to see if they fit: they become the places of the first equal ones among them, sorted."""
    if x is None or x.dtype == torch.int32:
        return x if x is None else x.contiguous()
    wide = x.detach().to(torch.int64)
    if x.element_size() < 4 or (not wide.is_cuda and wide.numel() and int(wide.max()) <= 0x7FFFFFFF):
        return wide.clamp(min=-1).to(torch.int32)
    return torch.searchsorted(torch.sort(wide).values, wide, out_int32=True).masked_fill_(wide < 0, -1)


# The leading fields of the batch struct but its size, written in one go: one by one they take as long as the rest of a call.
_LEADING = struct.Struct("@" + "".join({_lib.c_int64: "q", _lib.c_void_p: "N", _lib.c_int32: "i", _lib.c_uint32: "I", _lib.c_double: "d"}[kind]
                                       for _, kind in _lib.STRUCTS["glofnd_batch"][1:19]))
assert _lib.STRUCTS["glofnd_batch"][18][0] == "extra" and _lib.Batch.n.offset == 8 and _lib.Batch.extra.offset + 8 == 8 + _LEADING.size


def fill_batch(core: Core, a: torch.Tensor, b: torch.Tensor, index: torch.Tensor, labels: Optional[torch.Tensor],
               groups: Optional[torch.Tensor], positives: Optional[torch.Tensor], guide: Optional[torch.Tensor],
               guide_thresholds: Optional[torch.Tensor], want: int, tau: float, grad_dtype: int) -> Any:
    """The batch struct of the core, filled. Fields that no step of this package uses stay 0."""
    n, dim = a.shape
    _LEADING.pack_into(core.batch, 8, n, dim, a.data_ptr(), b.data_ptr(), index.data_ptr(), 0 if labels is None else labels.data_ptr(),
                       0 if groups is None else groups.data_ptr(), a.stride(0), b.stride(0), 0, 0, DTYPES[a.dtype], grad_dtype, core.epoch,
                       want, tau, 0.0, 0)
    core.batch.positives = 0 if positives is None else positives.data_ptr()
    if guide is not None and guide_thresholds is not None:
        core.batch.guide, core.batch.guide_dim, core.batch.guide_threshold = guide.data_ptr(), guide.shape[1], guide_thresholds.data_ptr()
    return core.batch


def set_candidates(batch: Any, candidates: "tuple[Optional[torch.Tensor], ...]", flags: int, dtype: torch.dtype) -> list[torch.Tensor]:
    """Gives the batch its candidates; returns their two gradients, with no rows where they are not wanted."""
    grads = []
    for side, wanted in (("a", GRAD_A), ("b", GRAD_B)):
        rows, ids = candidates[side == "b"], candidates[2 + (side == "b")]
        grad = batch_like = None
        if rows is not None and rows.shape[0]:
            batch_like = rows
            setattr(batch, f"negatives_{side}", rows.data_ptr())
            setattr(batch, f"negatives_{side}_n", rows.shape[0])
            setattr(batch, f"negatives_{side}_stride", rows.stride(0))
            setattr(batch, f"negatives_{side}_id", 0 if ids is None else ids.data_ptr())
        if rows is not None:
            grad = torch.empty(rows.shape if flags & wanted else (0, rows.shape[1]), dtype=dtype, device=rows.device)
        if batch_like is not None and flags & wanted:
            assert grad is not None
            setattr(batch, f"grad_negatives_{side}", grad.data_ptr())
        grads.append(torch.empty(0, dtype=dtype) if grad is None else grad)
    return grads


def clear_candidates(batch: Any) -> None:
    """The next step may have none."""
    for side in "ab":
        for name in (f"negatives_{side}", f"negatives_{side}_n", f"negatives_{side}_stride", f"negatives_{side}_id", f"grad_negatives_{side}"):
            setattr(batch, name, 0)
    batch.guide = batch.guide_threshold = batch.guide_dim = 0


def set_banks(batch: Any, banks: list[torch.Tensor]) -> Any:
    """The averages of similarity "bank" of all samples of the batch: the calls in two steps do not read them from the store.
    Returns what must live as long as the batch is used."""
    bank_a, bank_b = [*(x.data_ptr() for x in banks), 0, 0][:2]
    extra = _lib.BatchExtra(bank_a=bank_a, bank_b=bank_b)
    batch.extra = ctypes.addressof(extra)
    return extra


def records_of(core: Core, index: torch.Tensor) -> torch.Tensor:
    """uint8 [n][record_bytes]: all state of these anchors, on the device of the core. On a GPU only queued."""
    records = torch.empty(index.numel(), core.engine.record_bytes, dtype=torch.uint8, device=core.device)
    core.engine.records_get(index.data_ptr(), index.numel(), records.data_ptr())
    return records


def averages_of(core: Core, index: torch.Tensor) -> list[torch.Tensor]:
    """float16 [batch][dim] averages before the step, per side, on the device of the core, as is `index`; empty without similarity "bank"."""
    engine = core.engine
    if not engine.bank_dim:
        return []
    records, width = records_of(core, index), 4 * ((engine.bank_dim + 1) // 2)
    first = engine.record_bytes - 8 * engine.keyed - engine.sides * width
    return [records[:, at:at + 2 * engine.bank_dim].contiguous().view(torch.float16) for at in range(first, first + engine.sides * width, width)]


def grad_type(dtype: torch.dtype) -> torch.dtype:
    """Gradients of bfloat16 are bfloat16. Those of float16 stay float32 until they are scaled: they may be too small for it."""
    return torch.bfloat16 if dtype == torch.bfloat16 else torch.float32


# ----- several ranks ----------------------------------------------------------------------------------------------------------


def start_gather(core: Core, x: torch.Tensor, world: int) -> tuple[torch.Tensor, Any]:
    """([world * rows] of every rank's rows, in the order of ranks; what to wait for, on the stream). Bytes travel, so every type does."""
    own = x.contiguous().view(torch.uint8).reshape(-1)
    out = torch.empty(world * own.numel(), dtype=torch.uint8, device=own.device)
    work = dist.all_gather_into_tensor(out, own, group=core.own_group(), async_op=True)
    return out.view(x.dtype).reshape(world * x.shape[0], *x.shape[1:]), work


def gather(core: Core, x: torch.Tensor, world: int) -> torch.Tensor:
    every, work = start_gather(core, x, world)
    work.wait()
    return every


def gather_batch(core: Core, own: dict[str, Optional[torch.Tensor]], world: int) -> dict[str, Optional[torch.Tensor]]:
    """The batch of all ranks, by one collective: a sample is a row of bytes. Embeddings stay where they arrive, at the stride of a row."""
    a, b = own["a"], own["b"]
    assert a is not None and b is not None
    rows, dim = a.shape
    named = {name: own[name] for name in INPUTS[2:6] if own[name] is not None}
    parts = [x.reshape(rows, 1).view(torch.uint8) for x in named.values()]  # type: ignore[union-attr]
    parts += parts[:len(parts) % 2]  # every part begins at 16 bytes
    bytes_of = dim * a.element_size()
    sides = [x.view(torch.uint8) for x in (a, b)]
    fill = -bytes_of % 16
    if fill:
        nothing = torch.zeros(rows, fill, dtype=torch.uint8, device=a.device)
        sides = [sides[0], nothing, sides[1], nothing]
    first = 8 * len(parts)
    table = gather(core, torch.cat(parts + sides, 1), world)
    every: dict[str, Optional[torch.Tensor]] = dict.fromkeys(INPUTS)
    for i, (name, x) in enumerate(named.items()):
        every[name] = table[:, 8 * i:8 * i + 8].view(torch.int64).reshape(-1).contiguous()
    for name, at in (("a", first), ("b", first + bytes_of + fill)):
        every[name] = table[:, at:at + bytes_of].view(a.dtype)
    for name in INPUTS[6:]:  # a guide
        x = own[name]
        every[name] = None if x is None else gather(core, x, world)
    return every


def options_code(core: Core) -> int:
    """A number that differs between options that give different results."""
    named = sorted((key, option_text(value)) for key, value in core.values.items() if key not in ("threads", "device"))
    return zlib.crc32(repr(named).encode())


def check_ranks(core: Core, tensors: dict[str, Optional[torch.Tensor]], want: int, world: int) -> None:
    """All ranks mean the same step. On a GPU the host looks, and so waits, only in the first step of a kind: all ranks have the same kinds,
    or the rank that has another one raises."""
    a = tensors["a"]
    assert a is not None
    kind = (a.shape[0], a.shape[1], DTYPES[a.dtype], core.epoch, tensors["labels"] is not None, tensors["groups"] is not None,
            tensors["positives"] is not None, 0 if tensors["guide"] is None else tensors["guide"].shape[1], not want & _lib.WANT_NO_UPDATE, -1 if core.n is None else core.n, core.code)
    known = core.kind == kind
    if not known:
        core.kind, core.kind_tensor = kind, torch.tensor(kind, dtype=torch.int64, device=a.device)
    assert core.kind_tensor is not None
    table = gather(core, core.kind_tensor, world)
    if known and a.is_cuda:
        return
    lines = table.reshape(world, -1).tolist()
    if any(line != lines[0] for line in lines):
        core.kind = ()
        raise _lib.ArgumentError(
            "ranks differ in (batch, dim, dtype, epoch, labels, groups, positives, guide, training, num_samples, code of the options): " +
            "; ".join(map(str, lines)) + ". Every rank needs a batch of the same size (DataLoader drop_last=True), the same "
            "set_epoch(), train() or eval(), and the same options; a loss on one rank alone needs process_group=False")


def sum_of_ranks(table: torch.Tensor) -> torch.Tensor:
    """Float64 sums of [world, n] numbers. All ranks have the same table, so they get the same bits."""
    return table.double().sum(0)


def share_sums(core: Core) -> None:
    """Gives the engine its sums over ranks: of numbers on the host, and of numbers on the device, which no one waits for."""
    def add(values: list[float]) -> list[float]:
        table = gather(core, torch.tensor(values, dtype=torch.float64, device=core.device), core.ranks()[1])
        return sum_of_ranks(table.reshape(-1, len(values))).tolist()

    def queue(address: int, n: int) -> None:
        x = core.numbers.get((address, n))
        if x is None:
            x = core.numbers[address, n] = torch.as_tensor(_DeviceDoubles(address, n), device=core.device)
        x.copy_(sum_of_ranks(gather(core, x, core.ranks()[1]).reshape(-1, n)))

    core.engine.reduce(add, queue if core.is_cuda else None)
    core.sums_shared = True


class _DeviceDoubles:
    """Doubles of the library on the device, as a tensor may take them over."""

    def __init__(self, address: int, n: int):
        self.__cuda_array_interface__ = {"shape": (n,), "typestr": "<f8", "data": (address, False), "version": 2}


def step_of_ranks(core: Core, own: dict[str, Optional[torch.Tensor]], grads: torch.Tensor, want: int, tau: float, bias: bool) -> torch.Tensor:
    """float64 [3]: loss, grad_tau and grad_bias of all ranks. The caller's candidates are in the batch already, negatives of this rank's
    rows alone. On a GPU everything is queued; the new state travels while the gradients are made."""
    rank, world = core.ranks()
    check_ranks(core, own, want, world)
    if not core.sums_shared:
        share_sums(core)
    every = gather_batch(core, own, world)
    every.update({name: classes_of(every[name]) for name in INPUTS[3:6]})
    index = every["index"]
    assert index is not None and own["a"] is not None
    rows = own["a"].shape[0]
    batch = fill_batch(core, *(every[name] for name in INPUTS), want, tau, DTYPES[grads.dtype])  # type: ignore[arg-type, call-arg]
    part = _lib.OwnRows(first=rank * rows, rows=rows)
    banks = averages_of(core, index)  # every rank holds the state of all samples
    extra = set_banks(batch, banks)
    links = torch.empty(rows, _lib.LINK_BYTES, dtype=torch.uint8, device=core.device)
    core.engine.step_rows(batch, links.data_ptr(), None, part)
    all_links, links_come = start_gather(core, links, world)
    # The next epoch may give a sample to any rank: the new state of every rank's anchors goes to all of them.
    updates = not want & _lib.WANT_NO_UPDATE
    if updates:
        records, records_come = start_gather(core, records_of(core, index[rank * rows:(rank + 1) * rows]), world)
    links_come.wait()
    core.engine.step_grad(batch, all_links.data_ptr(), grads.data_ptr(), grads[1].data_ptr(), None, part)
    batch.extra = 0
    del extra
    if updates:
        records_come.wait()
        core.engine.records_put(index.data_ptr(), index.numel(), records.data_ptr())
    numbers = torch.zeros(3, dtype=torch.float32, device=core.device)
    at = numbers.data_ptr()
    core.engine.results(at, at + 4, at + 8 if bias else 0)
    return sum_of_ranks(gather(core, numbers, world).reshape(world, 3))


# ----- activation checkpointing -----------------------------------------------------------------------------------------------


_task = torch._C._current_graph_task_id  # -1 unless autograd runs: a forward pass there is the second one of activation checkpointing


def saved_by_hooks() -> bool:
    """True where the caller replaces saved tensors, as torch.utils.checkpoint does to compute them a second time. PyTorch 2.4 cannot
    tell, so it may be so."""
    return _top_hooks is None or _top_hooks(True) is not None


_top_hooks = getattr(torch._C._autograd, "_top_saved_tensors_default_hooks", None)


def fingerprint(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """Three numbers that differ between steps: the same samples can come again before an old step is forgotten."""
    x, y = a.detach().float(), b.detach().float()
    return torch.stack([x.sum(), y.sum(), (x * y).sum()])


def remember(core: Core, a: torch.Tensor, b: torch.Tensor, index: torch.Tensor, results: tuple[torch.Tensor, ...], silent: bool) -> None:
    """Steps that were recalled make room first. A step without autograd whose place is taken had no backward: no checkpointing."""
    for entry in [entry for entry in core.remembered if entry.recalled]:
        core.remembered.remove(entry)
    if len(core.remembered) == REMEMBERED_STEPS and core.remembered[0].silent:
        core.watch.warn("silent", f"GloFNDLoss ran {REMEMBERED_STEPS} times in training mode under torch.no_grad() and no backward followed. Each "
                        "call moved the thresholds and moving averages of its samples. For validation call criterion.eval() before, and "
                        "criterion.train() after it; if the criterion is part of the model, model.eval() does both")
    core.remembered.append(Remembered(index.clone(), fingerprint(a, b), tuple(x.clone() for x in results), silent))


def recall(core: Core, a: torch.Tensor, b: torch.Tensor, index: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """The results of the step of these samples and embeddings; if a second pass gives other embeddings, of the last of these samples."""
    found = [entry for entry in reversed(core.remembered) if entry.index.shape == index.shape and torch.equal(entry.index, index)]
    if not found:
        raise _lib.UnsupportedError(
            "GloFNDLoss ran a second time on a batch during backward, and its first run is not known: it was not seen as part of "
            f"activation checkpointing, or more than {REMEMBERED_STEPS} such losses wait for their backward. A second step would "
            "move thresholds twice. Call the loss outside of the checkpointed part, or backward more often")
    now = fingerprint(a, b)
    same = [entry for entry in found if torch.equal(entry.fingerprint, now)] or found[:1]
    entry = next((entry for entry in same if not entry.recalled), same[0])  # one batch may have had several losses
    entry.recalled = True
    return tuple(x.clone() for x in entry.results)


# ----- the operator -----------------------------------------------------------------------------------------------------------

library = torch.library.Library("glofnd", "DEF")
library.define("step(Tensor a, Tensor b, Tensor index, Tensor? labels, Tensor? groups, Tensor? tau, Tensor(a!) clock, "
               "int handle, int flags) -> (Tensor, Tensor, Tensor)")
library.define("step_candidates(Tensor a, Tensor b, Tensor index, Tensor? labels, Tensor? groups, Tensor? positives, Tensor? guide, "
               "Tensor? guide_thresholds, Tensor? tau, Tensor? negatives_a, Tensor? negatives_b, Tensor? negatives_a_id, Tensor? negatives_b_id, Tensor(a!) clock, int handle, int flags) -> "
               "(Tensor, Tensor, Tensor, Tensor, Tensor)")


def temperature_of(core: Core, tau: torch.Tensor, on_device: bool) -> tuple[float, Optional[torch.Tensor]]:
    """(the number for the batch, the float32 on the device that the step reads instead). Only the first waits for a GPU."""
    if on_device and tau.is_cuda and not core.engine.temperatures:
        return 0.0, tau.detach().reshape(-1)[:1].to(torch.float32)
    value = float(tau.reshape(-1)[0])
    if not value > 0.0:
        raise _lib.OptionError(f"tau is {value:g}; it must be in [0.001, 100]")
    return value, None


def bias_of(core: Core, tau: Optional[torch.Tensor]) -> Optional[torch.Tensor]:
    """Loss "sigmoid": the bias comes behind the temperature. The next steps read it at the float32 that this returns."""
    there = None if tau is None or tau.numel() < 2 else tau.detach().reshape(-1)[1:].to(core.device, torch.float32)
    core.engine.bias(0 if there is None else there.data_ptr())
    return there


def empty_results(a: torch.Tensor, tau: Optional[torch.Tensor], nothing: Optional[torch.Tensor] = None) -> tuple[torch.Tensor, ...]:
    """The loss, the gradients of both embeddings in one tensor, which backward scales in one go, and those of temperature and bias: `nothing`
    where there are none."""
    device, (n, dim) = a.device, a.shape
    return (torch.empty((), dtype=torch.float32, device=device), torch.empty((2, n, dim), dtype=grad_type(a.dtype), device=device),
            nothing if tau is None and nothing is not None else torch.empty(0 if tau is None else tau.numel(), dtype=torch.float32, device=device))


def step_of_one(core: Core, a: torch.Tensor, b: torch.Tensor, index: torch.Tensor, labels: Optional[torch.Tensor],
                groups: Optional[torch.Tensor], positives: Optional[torch.Tensor], guide: tuple[Optional[torch.Tensor], ...],
                tau: Optional[torch.Tensor], want: int,
                candidates: Any = None, flags: int = 0) -> tuple[torch.Tensor, ...]:
    """One rank: all results stay on the device, and nothing waits for it."""
    loss, grads, grad_tau = empty_results(a, tau, core.nothing)
    value, on_device = (0.0, None) if tau is None else temperature_of(core, tau, True)
    if core.is_cuda:
        core.synchronize()
        core.engine.tau(0 if on_device is None else on_device.data_ptr())
        more = 0 if candidates is None else sum(x.shape[0] for x in candidates[:2] if x is not None)
        core.reserve(a.shape[0] + more, a.shape[0] + more, a.shape[1])
        if torch.cuda.is_current_stream_capturing():
            core.captured = True
    fill_batch(core, a, b, index, labels, groups, positives, *guide, want, value, DTYPES[grads.dtype])  # type: ignore[call-arg, arg-type]
    more_grads = [] if candidates is None else set_candidates(core.batch, candidates, flags, grads.dtype)
    core.last, core.totals = True, None
    if core.sums_shared:  # the process group is gone
        core.engine.reduce(None)
        core.sums_shared = False
    bias = bias_of(core, tau)
    at, of_tau = grads.data_ptr(), grad_tau.data_ptr()
    core.engine.queue_step(core.batch_at, at, at + grads.nbytes // 2, loss.data_ptr(), of_tau, 0 if bias is None else of_tau + 4)
    return loss, grads, grad_tau, *more_grads


def step_of_several(core: Core, own: dict[str, Optional[torch.Tensor]], tau: Optional[torch.Tensor], want: int,
                    candidates: Any = None, flags: int = 0) -> tuple[torch.Tensor, ...]:
    a = own["a"]
    assert a is not None
    loss, grads, grad_tau = empty_results(a, tau)
    value, on_device = (0.0, None) if tau is None else temperature_of(core, tau, True)
    if core.is_cuda:
        if torch.cuda.is_current_stream_capturing():
            raise _lib.UnsupportedError("a step of several ranks cannot be captured in a CUDA graph")
        core.synchronize()
        core.engine.tau(0 if on_device is None else on_device.data_ptr())
        more = 0 if candidates is None else sum(x.shape[0] for x in candidates[:2] if x is not None)
        core.reserve(a.shape[0] + more, core.ranks()[1] * a.shape[0] + more, a.shape[1])
    bias = bias_of(core, tau)
    more_grads = [] if candidates is None else set_candidates(core.batch, candidates, flags, grads.dtype)
    core.last = True
    core.totals = step_of_ranks(core, own, grads, want, value, bias is not None)
    loss.copy_(core.totals[0])
    grad_tau.copy_(core.totals[1:1 + grad_tau.numel()])
    world = core.ranks()[1]
    for gradient in (grads, *more_grads):
        gradient.mul_(world)  # DistributedDataParallel takes the mean of gradients over ranks; the loss is a sum over them
    return loss, grads, grad_tau, *more_grads


def _step(a: torch.Tensor, b: torch.Tensor, index: torch.Tensor, labels: Optional[torch.Tensor], groups: Optional[torch.Tensor],
          tau: Optional[torch.Tensor], clock: torch.Tensor, handle: int, flags: int, candidates: Any = None,
          positives: Optional[torch.Tensor] = None, guide: tuple[Optional[torch.Tensor], ...] = (None, None)) -> tuple[torch.Tensor, ...]:
    core = core_of(handle)
    with core.lock, _current(core.device) if core.is_cuda else _nothing:
        if flags & UPDATE and _task() != -1:
            return recall(core, a, b, index)
        if not (a.is_contiguous() and b.is_contiguous() and index.is_contiguous()):
            a, b, index = readable(a), readable(b), index.contiguous()
        if flags & UPDATE and core.unannounced is not None:
            core.count_samples(a.shape[0])
        want = core.want | (0 if flags & UPDATE else _lib.WANT_NO_UPDATE) | (0 if labels is None else _lib.WANT_QUALITY)
        if core.shares():
            wide = (None if x is None else x.detach().to(torch.int64) for x in (labels, groups, positives))
            results = step_of_several(core, dict(zip(INPUTS, (a, b, index, *wide, *guide))), tau, want, candidates, flags)
        else:
            results = step_of_one(core, a, b, index, *map(classes_of, (labels, groups, positives)), guide, tau, want, candidates, flags)
        if flags & UPDATE and (flags & REMEMBER or saved_by_hooks()):
            remember(core, a, b, index, results, bool(flags & REMEMBER))
        if flags & UPDATE:
            if not core.is_cuda:
                core.count()
            core.watch.step(core, index, tau)
        return results


def _step_candidates(a, b, index, labels, groups, positives, guide, guide_thresholds, tau, negatives_a, negatives_b, negatives_a_id,
                     negatives_b_id, clock, handle, flags):  # type: ignore[no-untyped-def]
    rows = tuple(None if x is None else readable(x) for x in (negatives_a, negatives_b))
    ids = tuple(None if x is None else x.contiguous() for x in (negatives_a_id, negatives_b_id))
    core = core_of(handle)
    with core.lock:
        try:
            return _step(a, b, index, labels, groups, tau, clock, handle, flags, rows + ids, positives, (guide, guide_thresholds))
        finally:
            clear_candidates(core.batch)


for _device in ("CPU", "CUDA"):
    library.impl("step", _step, _device)
    library.impl("step_candidates", _step_candidates, _device)


@torch.library.register_fake("glofnd::step", lib=library)
def _fake(a, b, index, labels, groups, tau, clock, handle, flags):  # type: ignore[no-untyped-def]
    return empty_results(a, tau)


@torch.library.register_fake("glofnd::step_candidates", lib=library)
def _fake_candidates(a, b, index, labels, groups, positives, guide, guide_thresholds, tau, negatives_a, negatives_b, negatives_a_id, negatives_b_id, clock, handle, flags):  # type: ignore[no-untyped-def]
    dtype = grad_type(a.dtype)
    more = [torch.empty(0, dtype=dtype) if x is None else
            torch.empty(x.shape if flags & wanted else (0, x.shape[1]), dtype=dtype, device=x.device)
            for x, wanted in ((negatives_a, GRAD_A), (negatives_b, GRAD_B))]
    return *_fake(a, b, index, labels, groups, tau, clock, handle, flags), *more


def _no_second_gradient() -> None:
    if not torch.compiler.is_compiling() and torch.is_grad_enabled():
        raise _lib.UnsupportedError("create_graph=True: the gradient of this loss has no gradient of its own; call backward without it, "
                                    "and leave the loss out of penalties on gradients")


def _keep(ctx: Any, a: torch.Tensor, tau: Optional[torch.Tensor], *grads: torch.Tensor) -> None:
    ctx.save_for_backward(*grads)
    ctx.like = a.dtype, None if tau is None else (tau.dtype, tau.device, tau.shape)


def _scaled(ctx: Any, grads: torch.Tensor, grad_tau: torch.Tensor, g: torch.Tensor) -> list[Optional[torch.Tensor]]:
    """Gradients of a, b and tau, those that are asked for. On a GPU every product costs the host a launch: both embeddings share one."""
    wanted, (dtype, tau_like) = ctx.needs_input_grad, ctx.like
    results: list[Optional[torch.Tensor]] = [None, None, None]
    if wanted[0] and wanted[1]:
        scaled = grads * g
        results[:2] = (scaled if scaled.dtype is dtype else scaled.to(dtype)).unbind()
    elif wanted[0] or wanted[1]:
        results[wanted[1]] = (grads[int(wanted[1])] * g).to(dtype)
    if wanted[2]:
        dtype, device, shape = tau_like
        results[2] = (grad_tau * g).to(dtype=dtype, device=device).reshape(shape)
    return results


class CandidateStepFunction(torch.autograd.Function):
    """glofnd::step_candidates under autograd."""

    @staticmethod
    def forward(ctx, a, b, tau, negatives_a, negatives_b, index, labels, groups, positives, guide, guide_thresholds, ids_a, ids_b, clock, handle, flags):  # type: ignore[no-untyped-def]
        loss, *grads = run_step_candidates(a, b, index, labels, groups, positives, guide, guide_thresholds, tau, negatives_a, negatives_b, ids_a, ids_b, clock, handle, flags)
        _keep(ctx, a, tau, *grads)
        return loss

    @staticmethod
    def backward(ctx, g):  # type: ignore[no-untyped-def]
        _no_second_gradient()
        grads, grad_tau, *more = ctx.saved_tensors
        extra = ((x * g).to(ctx.like[0]) if wanted else None for x, wanted in zip(more, ctx.needs_input_grad[3:]))
        return *_scaled(ctx, grads, grad_tau, g), *extra, *[None] * 11


class StepFunction(torch.autograd.Function):
    """glofnd::step under autograd. The gradients come with the loss; backward scales them."""

    @staticmethod
    def forward(ctx, a, b, tau, index, labels, groups, clock, handle, flags):  # type: ignore[no-untyped-def]
        loss, grads, grad_tau = run_step(a, b, index, labels, groups, tau, clock, handle, flags)
        _keep(ctx, a, tau, grads, grad_tau)
        return loss

    @staticmethod
    def backward(ctx, g):  # type: ignore[no-untyped-def]
        _no_second_gradient()
        grads, grad_tau = ctx.saved_tensors
        return *_scaled(ctx, grads, grad_tau, g), None, None, None, None, None, None

"""The operator glofnd::step: loss and gradients of a batch, and the state that moves with it.

It reads tensors by pointer on the caller's current stream. The state lies behind an integer handle, with everything that changes
between steps (epoch, options), so that a compiled graph holds constants only. `clock` is a tensor that the operator claims to
write: without it a compiler would drop a call whose results are not used, or move it.

With several ranks the operator gathers embeddings, ids and links by itself: a compiled graph sees one call.
"""

from __future__ import annotations

import contextlib
import ctypes
import itertools
import threading
import weakref
import zlib
from collections import deque
from typing import Any, Iterator, Optional

import torch
import torch.distributed as dist

from . import _lib
from ._engine import Engine, option_text
from ._watch import Watch

DTYPES = {torch.float32: _lib.F32, torch.bfloat16: _lib.BF16, torch.float16: _lib.F16}
UPDATE, REMEMBER, GRAD_A, GRAD_B = 1, 2, 4, 8  # bits of the operator's `flags`; the last two: gradients of candidates are wanted
INPUTS = ("a", "b", "index", "labels", "groups", "positives")
CANDIDATES = ("negatives_a", "negatives_b", "negatives_a_id", "negatives_b_id")
ROW_BYTES = 36
REMEMBERED_STEPS = 8  # losses in checkpointed parts whose backward has not begun

_handles = itertools.count(1)
_cores: "weakref.WeakValueDictionary[int, Core]" = weakref.WeakValueDictionary()


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
        self.lock = threading.RLock()
        self.engine: Engine
        self.remembered: deque = deque(maxlen=REMEMBERED_STEPS)
        self.open(device)
        self.handle = next(_handles)
        _cores[self.handle] = self

    def open(self, device: torch.device, store: Any = None) -> None:
        """A new engine on `device`, with no state, or in place of the previous one, with that of a store file."""
        with _current(device):
            self.engine = self.engine.loaded(store) if store else Engine(self.n, self.dim, {**self.values, "device": device.type})
        self.last_begin = self._last_begin()
        self.device = device
        self.is_cuda = device.type == "cuda"
        self.last: Any = None  # None: no step yet; True: the engine knows; else glofnd_stats of the last step
        self.batch = _lib.Batch()
        self.batch_at = ctypes.addressof(self.batch)
        self.workspace: Optional[torch.Tensor] = None
        self.retired: list[torch.Tensor] = []  # workspaces that captured graphs still use
        self.captured = False
        self._fits: set[tuple[int, int, int]] = set()
        self._most = (0, 0)  # bytes, columns

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

    def announce(self, epoch: int) -> None:
        """The epoch of the next steps. Samples are counted as long as every call has the same one."""
        if epoch != self.epoch or not self.announced:
            self.unannounced = None
        elif self.unannounced is None and "epoch" not in self.watch.said:
            self.unannounced = 0
        self.epoch, self.announced = epoch, True

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
            return self.engine.fetch_stats()

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
    core = _cores.get(handle)
    if core is None:
        raise _lib.ArgumentError("the GloFNDLoss of this compiled graph is gone: keep the module as long as the graph")
    return core


_nothing: Any = contextlib.nullcontext()


def _current(device: torch.device) -> Any:
    """Makes a CUDA device the current one; nothing on the CPU, or where it is that already."""
    if device.type != "cuda" or torch._C._cuda_getDevice() == device.index:
        return _nothing
    return torch.cuda.device(device)


def run_step(a, b, index, labels, groups, tau, clock, handle, flags):  # type: ignore[no-untyped-def]
    """The operator. Without tracing and fake tensors it is called without the dispatcher, which takes longer
    than all the rest of a small step."""
    if (type(a) is torch.Tensor or type(a) is torch.nn.Parameter) and not torch.compiler.is_compiling() and (
            torch._C._len_torch_dispatch_stack() == 0):
        return _step(a, b, index, labels, groups, tau, clock, handle, flags)
    return torch.ops.glofnd.step(a, b, index, labels, groups, tau, clock, handle, flags)


def run_step_candidates(*arguments):  # type: ignore[no-untyped-def]
    """The same with negatives beyond the batch, or several positives."""
    a = arguments[0]
    if (type(a) is torch.Tensor or type(a) is torch.nn.Parameter) and not torch.compiler.is_compiling() and (
            torch._C._len_torch_dispatch_stack() == 0):
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


def fill_batch(core: Core, a: torch.Tensor, b: torch.Tensor, index: torch.Tensor, labels: Optional[torch.Tensor],
               groups: Optional[torch.Tensor], positives: Optional[torch.Tensor], want: int, tau: float, grad_dtype: int) -> Any:
    """The batch struct of the core, filled. Fields that no step of this package uses stay 0."""
    batch = core.batch
    batch.n, batch.dim = a.shape
    batch.a, batch.b, batch.id = a.data_ptr(), b.data_ptr(), index.data_ptr()
    batch.label = 0 if labels is None else labels.data_ptr()
    batch.group = 0 if groups is None else groups.data_ptr()
    batch.positives = 0 if positives is None else positives.data_ptr()
    batch.a_stride, batch.b_stride = a.stride(0), b.stride(0)
    batch.dtype, batch.grad_dtype = DTYPES[a.dtype], grad_dtype
    batch.epoch, batch.want, batch.tau = core.epoch, want, tau
    batch.extra = 0
    return batch


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


def set_banks(batch: Any, banks: list[torch.Tensor]) -> Any:
    """The averages of similarity "bank" of all samples of the batch: the calls in two steps do not read them from the store.
    Returns what must live as long as the batch is used."""
    bank_a, bank_b = [*(x.data_ptr() for x in banks), 0, 0][:2]
    extra = _lib.BatchExtra(bank_a=bank_a, bank_b=bank_b)
    batch.extra = ctypes.addressof(extra)
    return extra


def averages_of(core: Core, index: torch.Tensor) -> list[torch.Tensor]:
    """float16 [batch][dim] averages before the step, per side, on the device of the core; empty without similarity "bank"."""
    banks = []
    ids = index.cpu().contiguous() if core.engine.bank_dim else index
    for side in range(core.engine.sides if core.engine.bank_dim else 0):
        rows = torch.empty(ids.numel(), core.engine.bank_dim, dtype=torch.float16)
        core.engine.bank_get(side, ids.data_ptr(), ids.numel(), rows.data_ptr())
        banks.append(rows.to(core.device))
    return banks


def grad_type(dtype: torch.dtype) -> torch.dtype:
    """Gradients of bfloat16 are bfloat16. Those of float16 stay float32 until they are scaled: they may be too small for it."""
    return torch.bfloat16 if dtype == torch.bfloat16 else torch.float32


# ----- several ranks ----------------------------------------------------------------------------------------------------------


def gather(core: Core, x: Optional[torch.Tensor], world: int) -> Optional[torch.Tensor]:
    """[world * rows] of every rank's rows, in the order of ranks. Bytes travel, so every type does."""
    if x is None:
        return None
    own = x.contiguous().view(torch.uint8).reshape(-1)
    out = torch.empty(world * own.numel(), dtype=torch.uint8, device=own.device)
    dist.all_gather_into_tensor(out, own, group=core.own_group())
    return out.view(x.dtype).reshape(world * x.shape[0], *x.shape[1:])


def options_code(core: Core) -> int:
    """A number that differs between options that give different results."""
    named = sorted((key, option_text(value)) for key, value in core.values.items() if key not in ("threads", "device"))
    return zlib.crc32(repr(named).encode())


def check_ranks(core: Core, tensors: dict[str, Optional[torch.Tensor]], want: int, world: int) -> None:
    a = tensors["a"]
    assert a is not None
    own = torch.tensor([a.shape[0], a.shape[1], DTYPES[a.dtype], core.epoch, tensors["labels"] is not None,
                        tensors["groups"] is not None, tensors["positives"] is not None, not want & _lib.WANT_NO_UPDATE, -1 if core.n is None else core.n, options_code(core)],
                       dtype=torch.int64, device=a.device)
    table = gather(core, own, world)
    assert table is not None
    lines = table.reshape(world, -1).tolist()
    if any(line != lines[0] for line in lines):
        raise _lib.ArgumentError(
            "ranks differ in (batch, dim, dtype, epoch, labels, groups, positives, training, num_samples, code of the options): " +
            "; ".join(map(str, lines)) + ". Every rank needs a batch of the same size (DataLoader drop_last=True), the same "
            "set_epoch(), train() or eval(), and the same options; a loss on one rank alone needs process_group=False")


def rank_sum(core: Core, values: list[float]) -> list[float]:
    """Sums over ranks, added in the order of ranks, so that all have the same bits."""
    _, world = core.ranks()
    own = torch.tensor(values, dtype=torch.float64, device=core.device)
    table = gather(core, own, world)
    assert table is not None
    rows = table.reshape(world, -1).tolist()
    return [sum(column) for column in zip(*rows)]


def exchange_state(core: Core, index: torch.Tensor, rows: int, row0: int, world: int) -> None:
    """The new state of every rank's anchors goes to all ranks: the next epoch may give a sample to any of them."""
    ids = index.cpu()
    foreign = torch.ones(ids.shape[0], dtype=torch.bool)
    foreign[row0:row0 + rows] = False
    if core.values.get("repeats"):  # copies of a sample lie on one rank, and have one state
        last = {int(x): i for i, x in enumerate(ids.tolist()) if foreign[i]}
        foreign[:] = False
        foreign[list(last.values())] = True
    other_ids = ids[foreign].contiguous()
    for side in range(core.engine.sides):
        own = torch.empty(rows, ROW_BYTES, dtype=torch.uint8)
        core.engine.rows_get(side, ids.data_ptr() + 8 * row0, rows, own.data_ptr())
        every = gather(core, own.to(core.device), world)
        assert every is not None
        others = every.cpu()[foreign].contiguous()
        core.engine.rows_put(side, other_ids.data_ptr(), other_ids.shape[0], others.data_ptr())
    for side, averages in enumerate(averages_of(core, ids[row0:row0 + rows])):
        every = gather(core, averages, world)
        assert every is not None
        others = every.cpu()[foreign].contiguous()
        core.engine.bank_put(side, other_ids.data_ptr(), other_ids.shape[0], others.data_ptr())


def step_of_ranks(core: Core, own: dict[str, Optional[torch.Tensor]], grads: list[torch.Tensor], want: int, tau: float) -> Any:
    """The stats of the step, with loss and grad_tau of all ranks. The host waits: ranks exchange state through it. Candidates, which
    the batch has already, are negatives of this rank's rows alone."""
    rank, world = core.ranks()
    stats = _lib.Stats()
    check_ranks(core, own, want, world)
    core.engine.reduce(lambda values: rank_sum(core, values))
    every = {name: gather(core, x, world) for name, x in own.items()}
    every.update({name: classes_of(every[name]) for name in INPUTS[3:]})
    assert own["a"] is not None and every["index"] is not None
    rows = own["a"].shape[0]
    batch = fill_batch(core, *(every[name] for name in INPUTS), want, tau, DTYPES[grads[0].dtype])  # type: ignore[arg-type, call-arg]
    part = _lib.OwnRows(first=rank * rows, rows=rows)
    banks = averages_of(core, every["index"])  # every rank holds the state of all samples: a wrong index is refused by all of them
    extra = set_banks(batch, banks)
    links = torch.empty(rows, _lib.LINK_BYTES, dtype=torch.uint8, device=core.device)
    core.engine.step_rows(batch, links.data_ptr(), stats, part)
    all_links = gather(core, links, world)
    assert all_links is not None
    core.engine.step_grad(batch, all_links.data_ptr(), grads[0].data_ptr(), grads[1].data_ptr(), stats, part)
    batch.extra = 0
    del extra
    if not want & _lib.WANT_NO_UPDATE:
        exchange_state(core, every["index"], rows, rank * rows, world)
    stats.loss, stats.grad_tau, stats.grad_bias = rank_sum(core, [stats.loss, stats.grad_tau, stats.grad_bias])
    for gradient in grads:
        gradient.mul_(world)  # DistributedDataParallel takes the mean of gradients over ranks; the loss is a sum over them
    return stats


# ----- activation checkpointing -----------------------------------------------------------------------------------------------


def in_backward() -> bool:
    """True while autograd runs: a forward pass there is the second one of activation checkpointing."""
    return torch._C._current_graph_task_id() != -1


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
library.define("step_candidates(Tensor a, Tensor b, Tensor index, Tensor? labels, Tensor? groups, Tensor? positives, Tensor? tau, "
               "Tensor? negatives_a, Tensor? negatives_b, Tensor? negatives_a_id, Tensor? negatives_b_id, Tensor(a!) clock, int handle, int flags) -> "
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


def empty_results(a: torch.Tensor, tau: Optional[torch.Tensor]) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """The loss, the gradients of both embeddings in one tensor, which backward scales in one go, and those of temperature and bias."""
    device = a.device
    return (torch.empty((), dtype=torch.float32, device=device), torch.empty((2, *a.shape), dtype=grad_type(a.dtype), device=device),
            torch.empty(0 if tau is None else tau.numel(), dtype=torch.float32, device=device))


def step_of_one(core: Core, a: torch.Tensor, b: torch.Tensor, index: torch.Tensor, labels: Optional[torch.Tensor],
                groups: Optional[torch.Tensor], positives: Optional[torch.Tensor], tau: Optional[torch.Tensor], want: int,
                candidates: Any = None, flags: int = 0) -> tuple[torch.Tensor, ...]:
    """One rank: all results stay on the device, and nothing waits for it."""
    loss, grads, grad_tau = empty_results(a, tau)
    value, on_device = (0.0, None) if tau is None else temperature_of(core, tau, True)
    if core.is_cuda:
        core.synchronize()
        core.engine.tau(0 if on_device is None else on_device.data_ptr())
        more = 0 if candidates is None else sum(x.shape[0] for x in candidates[:2] if x is not None)
        core.reserve(a.shape[0] + more, a.shape[0] + more, a.shape[1])
        if torch.cuda.is_current_stream_capturing():
            core.captured = True
    fill_batch(core, a, b, index, labels, groups, positives, want, value, DTYPES[grads.dtype])
    more_grads = [] if candidates is None else set_candidates(core.batch, candidates, flags, grads.dtype)
    core.last = True
    bias = bias_of(core, tau)
    at, of_tau = grads.data_ptr(), grad_tau.data_ptr()
    core.engine.queue_step(core.batch_at, at, at + grads.nbytes // 2, loss.data_ptr(), of_tau, 0 if bias is None else of_tau + 4)
    return loss, grads, grad_tau, *more_grads


def step_of_several(core: Core, own: dict[str, Optional[torch.Tensor]], tau: Optional[torch.Tensor], want: int,
                    candidates: Any = None, flags: int = 0) -> tuple[torch.Tensor, ...]:
    a = own["a"]
    assert a is not None
    loss, grads, grad_tau = empty_results(a, tau)
    if core.is_cuda and torch.cuda.is_current_stream_capturing():
        raise _lib.UnsupportedError("with several ranks a step waits for the host: it cannot be captured in a CUDA graph")
    core.synchronize()
    if core.is_cuda:
        core.engine.tau(0)
        more = 0 if candidates is None else sum(x.shape[0] for x in candidates[:2] if x is not None)
        core.reserve(a.shape[0] + more, core.ranks()[1] * a.shape[0] + more, a.shape[1])
    bias = bias_of(core, tau)
    more = [] if candidates is None else set_candidates(core.batch, candidates, flags, grads.dtype)
    value = 0.0 if tau is None else temperature_of(core, tau, False)[0]
    core.last = step_of_ranks(core, own, [*grads.unbind(), *more], want, value)
    loss.fill_(core.last.loss)
    for place, x in zip(grad_tau, (core.last.grad_tau, core.last.grad_bias)):
        place.fill_(x)
    return loss, grads, grad_tau, *more


def _step(a: torch.Tensor, b: torch.Tensor, index: torch.Tensor, labels: Optional[torch.Tensor], groups: Optional[torch.Tensor],
          tau: Optional[torch.Tensor], clock: torch.Tensor, handle: int, flags: int, candidates: Any = None,
          positives: Optional[torch.Tensor] = None) -> tuple[torch.Tensor, ...]:
    core = core_of(handle)
    with core.lock, _current(core.device):
        if flags & UPDATE and in_backward():
            return recall(core, a, b, index)
        a, b, index = readable(a), readable(b), index.contiguous()
        if flags & UPDATE and core.unannounced is not None:
            core.count_samples(a.shape[0])
        want = core.want | (0 if flags & UPDATE else _lib.WANT_NO_UPDATE) | (0 if labels is None else _lib.WANT_QUALITY)
        if core.ranks()[1] > 1:
            wide = (None if x is None else x.detach().to(torch.int64) for x in (labels, groups, positives))
            results = step_of_several(core, dict(zip(INPUTS, (a, b, index, *wide))), tau, want, candidates, flags)
        else:
            results = step_of_one(core, a, b, index, *map(classes_of, (labels, groups, positives)), tau, want, candidates, flags)
        if flags & UPDATE and (flags & REMEMBER or saved_by_hooks()):
            remember(core, a, b, index, results, bool(flags & REMEMBER))
        if flags & UPDATE:
            core.watch.step(core, index, tau)
        return results


def _step_candidates(a, b, index, labels, groups, positives, tau, negatives_a, negatives_b, negatives_a_id, negatives_b_id, clock,
                     handle, flags):  # type: ignore[no-untyped-def]
    rows = tuple(None if x is None else readable(x) for x in (negatives_a, negatives_b))
    ids = tuple(None if x is None else x.contiguous() for x in (negatives_a_id, negatives_b_id))
    core = core_of(handle)
    with core.lock:
        try:
            return _step(a, b, index, labels, groups, tau, clock, handle, flags, rows + ids, positives)
        finally:
            clear_candidates(core.batch)


for _device in ("CPU", "CUDA"):
    library.impl("step", _step, _device)
    library.impl("step_candidates", _step_candidates, _device)


@torch.library.register_fake("glofnd::step", lib=library)
def _fake(a, b, index, labels, groups, tau, clock, handle, flags):  # type: ignore[no-untyped-def]
    return empty_results(a, tau)


@torch.library.register_fake("glofnd::step_candidates", lib=library)
def _fake_candidates(a, b, index, labels, groups, positives, tau, negatives_a, negatives_b, negatives_a_id, negatives_b_id, clock, handle, flags):  # type: ignore[no-untyped-def]
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
    ctx.dtype = a.dtype
    ctx.tau_like = None if tau is None else (tau.dtype, tau.device, tau.shape)


def _scaled(ctx: Any, grads: torch.Tensor, grad_tau: torch.Tensor, g: torch.Tensor) -> list[Optional[torch.Tensor]]:
    """Gradients of a, b and tau, those that are asked for. On a GPU every product costs the host a launch: both embeddings share one."""
    wanted = ctx.needs_input_grad[:3]
    results: list[Optional[torch.Tensor]] = [None, None, None]
    if wanted[0] and wanted[1]:
        results[:2] = (grads * g).to(ctx.dtype).unbind()
    elif wanted[0] or wanted[1]:
        results[wanted[1]] = (grads[int(wanted[1])] * g).to(ctx.dtype)
    if wanted[2]:
        dtype, device, shape = ctx.tau_like
        results[2] = (grad_tau * g).to(dtype=dtype, device=device).reshape(shape)
    return results


class CandidateStepFunction(torch.autograd.Function):
    """glofnd::step_candidates under autograd."""

    @staticmethod
    def forward(ctx, a, b, tau, negatives_a, negatives_b, index, labels, groups, positives, ids_a, ids_b, clock, handle, flags):  # type: ignore[no-untyped-def]
        loss, *grads = run_step_candidates(a, b, index, labels, groups, positives, tau, negatives_a, negatives_b, ids_a, ids_b, clock, handle, flags)
        _keep(ctx, a, tau, *grads)
        return loss

    @staticmethod
    def backward(ctx, g):  # type: ignore[no-untyped-def]
        _no_second_gradient()
        grads, grad_tau, *more = ctx.saved_tensors
        extra = ((x * g).to(ctx.dtype) if wanted else None for x, wanted in zip(more, ctx.needs_input_grad[3:]))
        return *_scaled(ctx, grads, grad_tau, g), *extra, *[None] * 9


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

"""The operator glofnd::step: loss and gradients of a batch, and the state that moves with it.

It reads tensors by pointer on the caller's current stream. The state lies behind an integer handle, with everything that changes
between steps (epoch, options), so that a compiled graph holds constants only. `clock` is a tensor that the operator claims to
write: without it a compiler would drop a call whose results are not used, or move it.

With several ranks the operator gathers embeddings, ids and links by itself: a compiled graph sees one call.
"""

from __future__ import annotations

import contextlib
import itertools
import threading
import weakref
from collections import deque
from typing import Any, Optional

import torch
import torch.distributed as dist

from . import _lib
from ._engine import Engine

DTYPES = {torch.float32: _lib.F32, torch.bfloat16: _lib.BF16, torch.float16: _lib.F16}
UPDATE, REMEMBER = 1, 2  # bits of the operator's `flags`
ROW_BYTES = 36
REMEMBERED_STEPS = 4

_handles = itertools.count(1)
_cores: "weakref.WeakValueDictionary[int, Core]" = weakref.WeakValueDictionary()


class Core:
    """The engine of one module, and what belongs to its next step. `device` is where state and steps are."""

    def __init__(self, n: int, dim: int, values: dict[str, Any], device: torch.device, group: Any):
        self.n, self.dim, self.values, self.group = n, dim, values, group
        self.epoch, self.want = 0, 0
        self.lock = threading.RLock()
        self.remembered: deque = deque(maxlen=REMEMBERED_STEPS)
        self.last: Any = None  # glofnd_stats of the last step
        self.open(device)
        self.handle = next(_handles)
        _cores[self.handle] = self

    def open(self, device: torch.device) -> None:
        self.device = device
        with _current(device):
            self.engine = Engine(self.n, self.dim, {**self.values, "device": device.type})

    def configure(self, **options: Any) -> None:
        self.engine.configure(**options)
        self.values.update(options)

    def ranks(self) -> tuple[int, int]:
        """(this rank, number of ranks)."""
        if self.group is False or not dist.is_available() or not dist.is_initialized():
            return 0, 1
        return dist.get_rank(self.group), dist.get_world_size(self.group)

    def own_group(self) -> Any:
        return self.group or None

    def synchronize(self) -> None:
        """Lets the engine work on the caller's current stream."""
        if self.device.type == "cuda":
            self.engine.stream(torch.cuda.current_stream(self.device).cuda_stream)


def core_of(handle: int) -> Core:
    core = _cores.get(handle)
    if core is None:
        raise _lib.ArgumentError("the GloFNDLoss of this compiled graph is gone: keep the module as long as the graph")
    return core


_nothing: Any = contextlib.nullcontext()


def _current(device: torch.device) -> Any:
    """Makes a CUDA device the current one; nothing on the CPU."""
    return torch.cuda.device(device) if device.type == "cuda" else _nothing


# ----- the batch --------------------------------------------------------------------------------------------------------------


def readable(x: torch.Tensor) -> torch.Tensor:
    """`x` as the library reads it: numbers of a row side by side, rows at least their length apart."""
    return x if x.stride(1) == 1 and x.stride(0) >= x.shape[1] else x.contiguous()


def pointer(x: Optional[torch.Tensor]) -> int:
    return 0 if x is None else x.data_ptr()


def make_batch(core: Core, tensors: dict[str, Optional[torch.Tensor]], rows: int, row0: int, want: int, tau: float,
               grad_dtype: int) -> Any:
    a, b = tensors["a"], tensors["b"]
    assert a is not None and b is not None
    return _lib.Batch(
        rows=rows, cols=a.shape[0], row0=row0, dim=a.shape[1], a=a.data_ptr(), b=b.data_ptr(), id=pointer(tensors["index"]),
        label=pointer(tensors["labels"]), group=pointer(tensors["groups"]), a_stride=a.stride(0), b_stride=b.stride(0),
        dtype=DTYPES[a.dtype], grad_dtype=grad_dtype, epoch=core.epoch, want=want, tau=tau)


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


def check_ranks(core: Core, tensors: dict[str, Optional[torch.Tensor]], world: int) -> None:
    a = tensors["a"]
    assert a is not None
    own = torch.tensor([a.shape[0], a.shape[1], DTYPES[a.dtype], core.epoch, tensors["labels"] is not None,
                        tensors["groups"] is not None], dtype=torch.int64, device=a.device)
    table = gather(core, own, world)
    assert table is not None
    lines = table.reshape(world, -1).tolist()
    if any(line != lines[0] for line in lines):
        raise _lib.ArgumentError(
            "ranks differ in (batch, dim, dtype, epoch, labels, groups): " + "; ".join(map(str, lines)) +
            ". Every rank needs a batch of the same size (DataLoader drop_last=True) and the same set_epoch()")


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
    other_ids = ids[foreign].contiguous()
    for side in range(core.engine.sides):
        own = torch.empty(rows, ROW_BYTES, dtype=torch.uint8)
        core.engine.rows_get(side, ids.data_ptr() + 8 * row0, rows, own.data_ptr())
        every = gather(core, own.to(core.device), world)
        assert every is not None
        others = every.cpu()[foreign].contiguous()
        core.engine.rows_put(side, other_ids.data_ptr(), other_ids.shape[0], others.data_ptr())


def step_of_ranks(core: Core, own: dict[str, Optional[torch.Tensor]], grads: list[torch.Tensor], want: int, tau: float,
                  stats: Any) -> None:
    rank, world = core.ranks()
    check_ranks(core, own, world)
    core.engine.reduce(lambda values: rank_sum(core, values))
    every = {name: gather(core, x, world) for name, x in own.items()}
    assert own["a"] is not None and every["index"] is not None
    rows = own["a"].shape[0]
    batch = make_batch(core, every, rows, rank * rows, want, tau, DTYPES[grads[0].dtype])
    links = torch.empty(rows, _lib.LINK_BYTES, dtype=torch.uint8, device=core.device)
    core.engine.step_rows(batch, links.data_ptr(), stats)
    all_links = gather(core, links, world)
    core.engine.step_grad(batch, pointer(all_links), grads[0].data_ptr(), grads[1].data_ptr(), stats)
    if not want & _lib.WANT_NO_UPDATE:
        exchange_state(core, every["index"], rows, rank * rows, world)
    stats.loss, stats.grad_tau = rank_sum(core, [stats.loss, stats.grad_tau])
    for gradient in grads:
        gradient.mul_(world)  # DistributedDataParallel takes the mean of gradients over ranks; the loss is a sum over them


# ----- activation checkpointing -----------------------------------------------------------------------------------------------


def in_backward() -> bool:
    """True while autograd runs: a forward pass there is the second one of activation checkpointing."""
    return torch._C._current_graph_task_id() != -1


def saved_by_hooks() -> bool:
    """True where the caller replaces saved tensors, as torch.utils.checkpoint does to compute them a second time."""
    return torch._C._autograd._top_saved_tensors_default_hooks(True) is not None


def recall(core: Core, index: torch.Tensor) -> tuple[torch.Tensor, ...]:
    for ids, results in core.remembered:
        if ids.shape == index.shape and torch.equal(ids, index):
            return tuple(x.clone() for x in results)
    raise _lib.UnsupportedError(
        "GloFNDLoss ran a second time on a batch during backward, and the first run was not seen as part of activation "
        "checkpointing: a second step would move thresholds twice. Call the loss outside of the checkpointed part")


# ----- the operator -----------------------------------------------------------------------------------------------------------

library = torch.library.Library("glofnd", "DEF")
library.define("step(Tensor a, Tensor b, Tensor index, Tensor? labels, Tensor? groups, Tensor? tau, Tensor(a!) clock, "
               "int handle, int flags) -> (Tensor, Tensor, Tensor, Tensor)")


def _step(a: torch.Tensor, b: torch.Tensor, index: torch.Tensor, labels: Optional[torch.Tensor], groups: Optional[torch.Tensor],
          tau: Optional[torch.Tensor], clock: torch.Tensor, handle: int, flags: int) -> tuple[torch.Tensor, ...]:
    core = core_of(handle)
    with core.lock, _current(core.device):
        if flags & UPDATE and in_backward():
            return recall(core, index)
        own = {"a": readable(a), "b": readable(b), "index": index.contiguous(),
               "labels": None if labels is None else labels.contiguous(),
               "groups": None if groups is None else groups.contiguous()}
        want = core.want | (0 if flags & UPDATE else _lib.WANT_NO_UPDATE) | (0 if labels is None else _lib.WANT_QUALITY)
        temperature = 0.0 if tau is None else float(tau)
        grads = [torch.empty(a.shape, dtype=grad_type(a.dtype), device=a.device) for _ in range(2)]
        stats = _lib.Stats()
        core.synchronize()
        if core.ranks()[1] > 1:
            step_of_ranks(core, own, grads, want, temperature, stats)
        else:
            batch = make_batch(core, own, a.shape[0], 0, want, temperature, DTYPES[grads[0].dtype])
            core.engine.step(batch, grads[0].data_ptr(), grads[1].data_ptr(), stats)
        core.last = stats
        results = (torch.full((), stats.loss, dtype=torch.float32, device=a.device), *grads,
                   torch.full((), stats.grad_tau, dtype=torch.float32, device=a.device))
        if flags & UPDATE and (flags & REMEMBER or saved_by_hooks()):
            core.remembered.append((index.clone(), tuple(x.clone() for x in results)))
        return results


library.impl("step", _step, "CPU")
library.impl("step", _step, "CUDA")


@torch.library.register_fake("glofnd::step", lib=library)
def _fake(a, b, index, labels, groups, tau, clock, handle, flags):  # type: ignore[no-untyped-def]
    grads = [torch.empty(a.shape, dtype=grad_type(a.dtype), device=a.device) for _ in range(2)]
    scalars = [torch.empty((), dtype=torch.float32, device=a.device) for _ in range(2)]
    return scalars[0], grads[0], grads[1], scalars[1]


class StepFunction(torch.autograd.Function):
    """glofnd::step under autograd. The gradients come with the loss; backward scales them."""

    @staticmethod
    def forward(ctx, a, b, tau, index, labels, groups, clock, handle, flags):  # type: ignore[no-untyped-def]
        loss, grad_a, grad_b, grad_tau = torch.ops.glofnd.step(a, b, index, labels, groups, tau, clock, handle, flags)
        ctx.save_for_backward(grad_a, grad_b, grad_tau)
        ctx.dtype = a.dtype
        ctx.tau_like = None if tau is None else (tau.dtype, tau.device, tau.shape)
        return loss

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, g):  # type: ignore[no-untyped-def]
        grad_a, grad_b, grad_tau = ctx.saved_tensors
        of_tau = None
        if ctx.tau_like is not None and ctx.needs_input_grad[2]:
            dtype, device, shape = ctx.tau_like
            of_tau = (grad_tau * g).to(dtype=dtype, device=device).reshape(shape)
        a = (grad_a * g).to(ctx.dtype) if ctx.needs_input_grad[0] else None
        b = (grad_b * g).to(ctx.dtype) if ctx.needs_input_grad[1] else None
        return a, b, of_tau, None, None, None, None, None, None

"""Numbers of samples that are hashes: equal ones in a batch, and the hash itself. Nothing here waits for a GPU."""

from __future__ import annotations

from typing import Optional

import torch
import torch.distributed as dist


def _signed(x: int) -> int:
    return x - (1 << 64) if x >> 63 else x


GOLDEN, _MIX1, _MIX2 = (_signed(x) for x in (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB))
POSITIVE = (1 << 63) - 1


def _shift(x: torch.Tensor, bits: int) -> torch.Tensor:
    return (x >> bits) & ((1 << (64 - bits)) - 1)


def mixed(x: torch.Tensor) -> torch.Tensor:
    """SplitMix64's finalizer: every bit of the result depends on every bit of x."""
    x = (x ^ _shift(x, 30)) * _MIX1
    x = (x ^ _shift(x, 27)) * _MIX2
    return x ^ _shift(x, 31)


def ranks() -> int:
    return dist.get_world_size() if dist.is_available() and dist.is_initialized() else 1


class AllRows(torch.autograd.Function):
    """The rows of all ranks. The gradient of a row is the sum of those on all ranks."""

    @staticmethod
    def forward(ctx, x):  # type: ignore[no-untyped-def]
        ctx.rows, ctx.first = x.shape[0], dist.get_rank() * x.shape[0]
        out = x.new_empty(dist.get_world_size() * x.shape[0], *x.shape[1:])
        dist.all_gather_into_tensor(out, x.contiguous())
        return out

    @staticmethod
    def backward(ctx, grad):  # type: ignore[no-untyped-def]
        grad = grad.contiguous()
        dist.all_reduce(grad)
        return grad[ctx.first:ctx.first + ctx.rows]


def all_rows(x: torch.Tensor) -> torch.Tensor:
    """[ranks * rows] of every rank; `x` itself without ranks."""
    return AllRows.apply(x) if ranks() > 1 else x


def _classes(ids: torch.Tensor) -> torch.Tensor:
    """Small numbers in place of ids, equal where they are."""
    return torch.searchsorted(torch.sort(ids).values, ids)


def _distinct(ids: torch.Tensor) -> torch.Tensor:
    """The ids, where the second and later ones of equal ones become others, the same in every step."""
    order = torch.argsort(ids, stable=True)
    place = torch.arange(ids.numel(), device=ids.device)
    begins = torch.ones_like(place, dtype=torch.bool)
    begins[1:] = ids[order][1:] != ids[order][:-1]
    copies = torch.empty_like(place)
    copies[order] = place - torch.cummax(torch.where(begins, place, 0), 0).values
    return torch.where(copies == 0, ids, mixed(ids + GOLDEN * copies) & POSITIVE)


def apart(ids: torch.Tensor, others: Optional[torch.Tensor] = None) -> tuple[torch.Tensor, torch.Tensor]:
    """(index, groups) of this rank's samples, for a batch that may hold an id more than once: an index has each number once in the
    batch of all ranks, and samples are in one group if their ids are equal, or those of `others`, or both with a third one."""
    rows = ids.shape[0]
    every, more = all_rows(ids), None if others is None else all_rows(others)
    index, group = _distinct(every), _classes(every)
    if more is not None:
        other = _classes(more)
        for _ in range(3):  # the smallest number goes around; longer chains of equal ones are no batches of people
            for of in (other, _classes(every)):
                group = torch.full_like(group, group.numel()).scatter_reduce(0, of, group, "amin")[of]
    first = dist.get_rank() * rows if every.shape[0] > rows else 0
    return index[first:first + rows], group[first:first + rows]

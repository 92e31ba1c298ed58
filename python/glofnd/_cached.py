"""GradCache for losses that need the whole batch: embeddings of a large batch with the memory of a small one."""

from __future__ import annotations

import contextlib
from typing import Any, Callable, Iterator

import torch
from torch.utils.checkpoint import checkpoint

from ._engine import checked_count
from ._lib import ArgumentError

__all__ = ["Cached", "cached"]


def rows_of(x: Any) -> int:
    """Samples of an input: a tensor, or tensors in dicts, tuples and lists; 0: it has none."""
    if isinstance(x, torch.Tensor):
        return x.shape[0] if x.dim() else 0
    parts = x.values() if hasattr(x, "values") else x if isinstance(x, (tuple, list)) else ()
    return next((rows for rows in map(rows_of, parts) if rows), 0)


def part_of(x: Any, n: int, first: int, last: int) -> Any:
    """Samples first .. last-1 of an input of n samples. What is not one row per sample stays whole."""
    if isinstance(x, torch.Tensor):
        return x[first:last] if x.dim() and x.shape[0] == n else x
    if hasattr(x, "items"):
        return {key: part_of(value, n, first, last) for key, value in x.items()}
    if isinstance(x, (tuple, list)):
        parts = (part_of(value, n, first, last) for value in x)
        return type(x)(*parts) if hasattr(x, "_fields") else type(x)(parts)
    return x


def _in_parts(forward: Callable[..., Any], chunk: int) -> Callable[..., Any]:
    """`forward` over `chunk` samples at a time. Backward computes each part a second time, so that activations of one part exist."""
    def run(x: Any, *rest: Any, **options: Any) -> Any:
        n = rows_of(x)
        if not n:
            raise ArgumentError(f"the input of the model is of type {type(x).__name__}; expected tensors with one row per sample")
        parts = []
        for first in range(0, n, chunk):
            part = part_of(x, n, first, min(first + chunk, n))
            if torch.is_grad_enabled():
                parts.append(checkpoint(forward, part, *rest, use_reentrant=False, **options))
            else:
                parts.append(forward(part, *rest, **options))
        if not all(isinstance(part, torch.Tensor) for part in parts):
            raise ArgumentError(f"the model returns {type(parts[0]).__name__}; expected a tensor of embeddings: wrap it in a function "
                                "that takes them out")
        return torch.cat(parts)
    return run


@contextlib.contextmanager
def _forward_in_parts(module: torch.nn.Module, chunk: int) -> Iterator[None]:
    own = module.__dict__.get("forward")
    module.forward = _in_parts(module.forward, chunk)  # type: ignore[method-assign]
    try:
        yield
    finally:
        if own is None:
            del module.forward
        else:
            module.forward = own  # type: ignore[method-assign]


class Cached:
    """What cached() returns: called with inputs of the model in place of embeddings."""

    def __init__(self, model: Any, criterion: Any, chunk: int):
        self.models = tuple(model) if isinstance(model, (tuple, list)) else (model, model)
        if len(self.models) != 2 or not all(callable(x) for x in self.models):
            raise ArgumentError("model: expected a module, or a pair of them, one for each side of the loss")
        self.criterion, self.chunk = criterion, checked_count("chunk", chunk)
        if self.chunk < 1:
            raise ArgumentError(f"chunk is {chunk}; expected at least one sample")

    def embed(self, x: Any, side: int = 0) -> torch.Tensor:
        """Embeddings of all samples of `x`, computed in parts."""
        model = self.models[side]
        if isinstance(model, torch.nn.parallel.DistributedDataParallel):
            # One call of its forward per batch: gradients of all parts are one sum, which ranks exchange once.
            with _forward_in_parts(model.module, self.chunk):
                return model(x)
        return _in_parts(model, self.chunk)(x)

    def __call__(self, x1: Any, x2: Any, *arguments: Any, negatives: Any = None, **options: Any) -> torch.Tensor:
        if negatives is not None:
            options["negatives"] = self.embed(negatives, 1)
        return self.criterion(self.embed(x1), self.embed(x2, 1), *arguments, **options)


def cached(model: Any, criterion: Any, chunk: int) -> Cached:
    """A training step of a large batch with the memory of `chunk` samples: GradCache, exact with every option of the loss.

        step = glofnd.torch.cached(model, criterion, chunk=64)
        loss = step(x1, x2, index)      # in place of criterion(model(x1), model(x2), index)
        loss.backward()

    model      a module, or (query encoder, document encoder); its result is the tensor of embeddings. DistributedDataParallel works
    criterion  GloFNDLoss, or any loss of two embeddings; what follows x1 and x2 goes to it as it is; `negatives` are embedded, too
    chunk      samples that the model sees at a time

    The loss is computed once, from all embeddings, so thresholds move once. Backward runs the model a second time, part by part, with
    the same dropout. Gradients equal those of the whole batch up to rounding; batch normalisation sees a part at a time.
    """
    return Cached(model, criterion, chunk)

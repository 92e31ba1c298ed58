"""Mistakes in a training loop that raise no error: a warning for each, once, with the cure. No check waits for a GPU.

A step on the CPU is looked at when it has run. On a GPU the few tensors that a check needs are kept until the caller reads statistics
or state, and so waits anyway.
"""

from __future__ import annotations

import contextlib
import warnings
from typing import Any

import torch

from . import _lib
from ._engine import scale_warning

SAME_STEPS = (9, 10, 11)  # training steps whose positions are compared: consecutive ones, after a first look at the loop
NEW_EPOCHS = 3  # epochs after which samples should have come again


class Watch:
    """What one loss has seen of its training loop."""

    def __init__(self) -> None:
        self.steps, self.epochs, self.epoch = 0, 0, -1
        self.said: set[str] = set()
        self.waiting: list[tuple[str, Any]] = []  # (check, its tensors), for the next time the caller waits
        self.same = 0  # steps of SAME_STEPS with the positions 0 .. B-1
        self.pairs = 0  # of all steps, of one side

    def warn(self, mistake: str, text: str) -> None:
        if text and mistake not in self.said:
            self.said.add(mistake)
            warnings.warn(text, stacklevel=2)

    def step(self, core: Any, index: torch.Tensor, tau: Any) -> None:
        """After a training step."""
        self.steps += 1
        if core.epoch != self.epoch:
            self._share(core)
            self.epoch, self.epochs = core.epoch, self.epochs + 1
            if self.epochs >= NEW_EPOCHS and core.epoch >= self._first_epoch(core):
                self._look("visits", index)
        self._count(core, index.numel())
        if self.steps in SAME_STEPS:
            self._look("positions", index)
        if tau is not None and self.steps in (1, SAME_STEPS[0]):
            self._look("tau", tau.reshape(-1)[:1])
        if self.waiting and not core.is_cuda:
            self.read(core)

    def _count(self, core: Any, rows: int) -> None:
        """The pairs of a step."""
        views = 2 if core.engine.sides == 1 else 1
        self.pairs += views * rows * views * (core.ranks()[1] * rows - 1)

    def _share(self, core: Any) -> None:
        """After an epoch: can a threshold flag alpha of what was seen?"""
        options = core.engine.options
        alpha = float(options.alpha)
        if self.epochs and alpha > 0.0 and options.detector in ("glofnd", "mutual", "single") and alpha * self.pairs < 1.0:
            self.warn("share", f"alpha is {alpha:g}, and all batches so far had {self.pairs} pairs, fewer than 1/alpha: no threshold can flag "
                      "that fraction. Use a larger alpha or larger batches")

    def _first_epoch(self, core: Any) -> float:
        """Epoch from which a sample that came before has been visited twice; inf: its visits are not counted."""
        options = core.engine.options
        if options.detector not in ("glofnd", "mutual") or options.learner == "ring" or float(options.alpha) <= 0.0:
            return float("inf")
        return int(options.update_epoch) + int(options.lambda_warmup) + NEW_EPOCHS - 1

    def _look(self, check: str, x: torch.Tensor) -> None:
        if check not in self.said and not (x.is_cuda and torch.cuda.is_current_stream_capturing()):
            self.waiting.append((check, x.detach().clone()))

    def read(self, core: Any) -> None:
        """Looks at what waits. On a GPU this waits for its steps."""
        waiting, self.waiting = self.waiting, []
        for check, x in waiting:
            if check == "tau":
                self.warn("tau", scale_warning(float(x)))
            elif check == "positions":
                self._positions(core, x.cpu())
            else:
                with contextlib.suppress(_lib.Error):  # a wrong position on a GPU: that step raises, not this check
                    self._visits(core, x.cpu())

    def _positions(self, core: Any, index: torch.Tensor) -> None:
        rows = index.numel()
        self.same += int((core.n is None or core.n >= 2 * rows) and torch.equal(index, torch.arange(rows)))
        if self.same == len(SAME_STEPS):
            self.warn("positions", f"index is 0 .. {rows - 1} in every step, while the dataset has {core.n or 'more'} samples: these are positions in the "
                      "batch, so all samples share the thresholds of the first ones. Pass positions in the dataset, which "
                      "glofnd.torch.WithIndex(dataset) adds to the samples")

    def _visits(self, core: Any, index: torch.Tensor) -> None:
        rows = torch.empty(index.numel(), 9, dtype=torch.int32)
        ids = index.contiguous()
        visits = 0
        for side in range(core.engine.sides):
            core.engine.rows_get(side, ids.data_ptr(), ids.numel(), rows.data_ptr())
            visits = max(visits, int(rows[:, 4].max()))
        if visits <= 1:
            self.warn("visits", f"no sample of this batch came before, and this is epoch {core.epoch}: a threshold that is visited once has learned "
                      "nothing. Give a sample the same position in every epoch; for a stream without positions use detector=\"fnc\" or "
                      "\"single\"")

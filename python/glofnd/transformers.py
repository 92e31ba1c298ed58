"""GloFND in the Trainer of Hugging Face, and in those made of it: sentence-transformers, TRL.

    trainer = Trainer(model, arguments, ..., callbacks=[glofnd.transformers.GloFNDCallback(loss)])

The callback tells the loss which epoch it is, saves its thresholds into every checkpoint, restores them when training resumes, and
adds its statistics to the log.
"""

from __future__ import annotations

import math
import os
import re
import sys
from typing import Any, Iterator, Optional

import torch
from transformers import TrainerCallback

from ._lib import ArgumentError, FileError, StateError
from .torch import GloFNDLoss

__all__ = ["STATE_FILE", "GloFNDCallback"]

STATE_FILE = "glofnd.pt"
_STATS = ("flagged_share", "lambda_mean", "precision", "recall")


def _parts(loss: Any) -> dict[str, torch.nn.Module]:
    """The losses of a trainer by name: a module, or a dict of them, one for each dataset."""
    return dict(loss) if hasattr(loss, "items") else {"": loss}


def _modules(loss: Any) -> dict[str, torch.nn.Module]:
    return {path: module for key, part in _parts(loss).items() for path, module in part.named_modules(prefix=key)}


def criteria_of(loss: Any) -> dict[str, GloFNDLoss]:
    """Every GloFNDLoss inside of a loss, by its path."""
    return {path: module for path, module in _modules(loss).items() if isinstance(module, GloFNDLoss)}


def state_of(loss: Any) -> dict[str, dict[str, torch.Tensor]]:
    """The state of every GloFNDLoss inside of a loss, by its path."""
    return {path: criterion.state_dict() for path, criterion in criteria_of(loss).items()}


def set_state(loss: Any, state: dict[str, dict[str, torch.Tensor]], where: str) -> None:
    """Restores what state_of() returned. A loss that makes its criteria at need (Matryoshka: one per dimension) makes them here."""
    have = criteria_of(loss)
    for path, values in state.items():
        if path not in have:
            owner = re.fullmatch(r"(?:(.*)\.)?criteria\.(\d+)", path)
            module: Any = owner and _modules(loss).get(owner.group(1) or "")
            if owner is None or not hasattr(module, "criterion_of"):
                raise StateError(f"{where} holds thresholds of {path or 'the loss'!r}, which this loss does not have: make it as it was saved")
            have[path] = module.criterion_of(int(owner.group(2)))
        have[path].load_state_dict(values)


def save_state(loss: Any, path: str) -> None:
    """Writes the file at once or not at all."""
    torch.save(state_of(loss), path + ".partial")
    os.replace(path + ".partial", path)


def load_state(loss: Any, path: str) -> None:
    set_state(loss, torch.load(path, map_location="cpu", weights_only=True), path)


def _callers() -> Iterator[Any]:
    frame: Any = sys._getframe(1)
    while frame is not None:
        yield frame.f_locals
        frame = frame.f_back


def log_stats(loss: Any) -> dict[str, float]:
    """Numbers of the last step for a log: the fraction of negatives flagged, the mean threshold, with labels precision and recall."""
    logged = {}
    for path, criterion in criteria_of(loss).items():
        try:
            stats = criterion.stats()
        except ArgumentError:
            continue  # there was no step yet
        stats["flagged_share"] = stats["flagged"] / stats["pairs"] if stats["pairs"] else 0.0
        name = "_".join(part for part in path.split(".") if part not in ("criteria", "criterion", "loss"))
        for key in _STATS:
            if key in stats and (key not in ("precision", "recall") or stats.get("same", 0)) and math.isfinite(stats[key]):
                logged[f"glofnd_{key}" + (f"_{name}" if name and len(criteria_of(loss)) > 1 else "")] = round(float(stats[key]), 6)
    return logged


class GloFNDCallback(TrainerCallback):
    """Epochs, checkpoints and statistics of a GloFNDLoss in a Trainer.

    loss   a GloFNDLoss, a module that holds one (GloFNDRankingLoss, MatryoshkaLoss around it, your own model), or a dict of them
    log    False: adds nothing to the trainer's log

    Every checkpoint gets a file glofnd.pt. `trainer.train(resume_from_checkpoint=...)` reads it; a checkpoint without one
    raises an error, unless resume="ignore": thresholds then begin anew.
    """

    def __init__(self, loss: Any, *, log: bool = True, resume: str = "require"):
        if not all(isinstance(part, torch.nn.Module) for part in _parts(loss).values()):
            raise ArgumentError(f"loss is of type {type(loss).__name__}; expected a module that holds a GloFNDLoss, or a dict of them")
        if resume not in ("require", "ignore"):
            raise ArgumentError(f"resume is {resume!r}; expected 'require' or 'ignore'")
        self.loss, self.log, self.resume = loss, log, resume

    def _epoch(self, state: Any) -> None:
        epoch = int((state.epoch or 0) + 1e-6)
        module: Any
        for module in _modules(self.loss).values():
            if isinstance(module, GloFNDLoss):
                module.set_epoch(epoch)
            elif hasattr(module, "criterion_of"):
                module.epoch = epoch  # of criteria that it makes later

    def on_train_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        folder: Optional[str] = None
        for names in _callers():  # the Trainer tells its callbacks neither the checkpoint nor itself
            handler = getattr(names.get("self"), "callback_handler", None)
            if handler is not None:
                handler.callbacks = [self, *(x for x in handler.callbacks if x is not self)]  # before those that write the log
            if isinstance(names.get("resume_from_checkpoint"), (str, os.PathLike)):
                folder = os.fspath(names["resume_from_checkpoint"])
                break
        if state.global_step:
            self._restore(folder or os.path.join(args.output_dir, f"checkpoint-{state.global_step}"))
        self._epoch(state)

    def _restore(self, folder: str) -> None:
        path = os.path.join(folder, STATE_FILE)
        if os.path.exists(path):
            load_state(self.loss, path)
        elif self.resume == "require":
            raise FileError(f"{path} is missing: the checkpoint was saved without GloFNDCallback. GloFNDCallback(loss, resume=\"ignore\") "
                            "continues with thresholds that begin anew")

    def on_epoch_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        self._epoch(state)

    def on_save(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        first = state.is_local_process_zero if args.save_on_each_node else state.is_world_process_zero
        if not first:
            return
        folder = args.output_dir
        for names in _callers():
            trainer = names.get("self")
            if hasattr(trainer, "callback_handler") and hasattr(trainer, "_get_output_dir"):
                folder = trainer._get_output_dir(trial=names.get("trial"))
                break
        folder = os.path.join(folder, f"checkpoint-{state.global_step}")
        os.makedirs(folder, exist_ok=True)
        save_state(self.loss, os.path.join(folder, STATE_FILE))

    def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **_: Any) -> None:
        if not self.log or not logs or "loss" not in logs:
            return
        extra = log_stats(self.loss)
        logs.update(extra)
        if state.log_history:
            state.log_history[-1].update(extra)

"""GloFND in a PyTorch training loop: one module in place of the contrastive loss.

    dataset = glofnd.torch.WithIndex(dataset)                   # (x1, x2) becomes (x1, x2, index)
    criterion = glofnd.torch.GloFNDLoss(len(dataset), loss="sogclr", alpha=0.01)
    for epoch in range(epochs):
        criterion.set_epoch(epoch)
        for x1, x2, index in loader:
            loss = criterion(model(x1), model(x2), index)
            loss.backward()
"""

from __future__ import annotations

import math
import numbers
import os
import warnings
from typing import TYPE_CHECKING, Any, Optional, Union

import torch
from torch import nn

from . import _lib
from ._cached import cached
from ._counts import Counts
from ._engine import (LEAST_TAU, checked_count, checked_epoch, checked_growth, checked_tau, has_tau_gradient, own_names,
                      scale_warning, stats_dict)
from ._lib import ArgumentError, OptionError, StateError
from ._torch_op import (DTYPES, GRAD_A, GRAD_B, REMEMBER, ROW_BYTES, UPDATE, CandidateStepFunction, Core, StepFunction, _current, averages_of, classes_of, fill_batch,
                        readable, set_banks)

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ._options import Action, Detector, Loss, Options

__all__ = ["GloFNDLoss", "WithIndex", "cached"]

_ROW_FIELDS = [(name, torch.float32 if kind is _lib.c_float else torch.int32) for name, kind in _lib.STRUCTS["glofnd_anchor"]]
_TEMPERATURE_FIELDS = ("tau", "tau_m", "tau_v", "tau_clock")
_STATE_NAMES = [name for name, _ in _ROW_FIELDS] + ["shared", "epoch", "ring_index", "ring_a", "ring_b", "bank", "keys"]
_UINT64 = getattr(torch, "uint64", "none")  # PyTorch 2.2 has none
_GUIDED = ("fixed", "fixed-mutual")  # detectors
_LOG_SCALE_MAX = -math.log(LEAST_TAU)
_FIXED = {"num_samples": "resize(num_samples) is for a dataset that grew", **dict.fromkeys(
    ("learn_tau", "learn_bias", "dim", "process_group", "loss", "pairing", "learner", "similarity", "device"), "the state is made for one; make another GloFNDLoss")}


class WithIndex(torch.utils.data.Dataset):
    """A dataset whose samples carry their position, as the loss asks for it: (x1, x2) becomes (x1, x2, index), a dict gets the key
    "index", and anything else, such as a list of views, becomes (it, index). All other attributes are those of the dataset."""

    def __init__(self, dataset: Any):
        if not (hasattr(dataset, "__len__") and hasattr(dataset, "__getitem__")):
            raise ArgumentError(f"{type(dataset).__name__} has no length or no positions: number the samples of a stream yourself, the same "
                                "number for the same sample in every epoch")
        self.dataset = dataset

    def __len__(self) -> int:
        return len(self.dataset)

    def __getattr__(self, name: str) -> Any:
        if name == "dataset" or name.startswith("__"):  # not yet set, as in a copy; __getitems__ would leave the index out
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        return getattr(self.dataset, name)

    def __getitem__(self, index: int) -> Any:
        sample, index = self.dataset[index], range(len(self.dataset))[index]
        if isinstance(sample, dict):
            return {**sample, "index": index}
        return (*sample, index) if isinstance(sample, tuple) else (sample, index)


def _samples(index: Any, n: Optional[int]) -> torch.Tensor:
    """Positions of samples, checked."""
    try:
        index = torch.as_tensor(index)
    except (TypeError, RuntimeError, ValueError):
        raise ArgumentError(f"index is {index!r}; expected integers") from None
    if not index.numel():
        return index.long()
    if index.is_floating_point() or index.is_complex() or index.dtype == torch.bool:
        raise ArgumentError(f"index is {index.dtype}; expected integers")
    if n is None:
        return index
    if not (0 <= int(index.min()) and int(index.max()) < n):
        raise _lib.AnchorIndexError(f"index holds {int(index.min())} to {int(index.max())}; there are samples 0 .. {n - 1}")
    return index


def _index_tensor(index: Any, like: Any) -> Any:
    """A list or an array of positions as a tensor on the device of the embeddings; all else stays, to be checked."""
    if index is None or isinstance(index, torch.Tensor) or not isinstance(like, torch.Tensor):
        return index
    try:
        return torch.as_tensor(index, device=like.device)
    except (TypeError, RuntimeError, ValueError):
        raise ArgumentError(f"index is {index!r}; expected one integer per sample") from None


def _misfit(name: str, saved: Optional[torch.Tensor], shape: Optional[tuple[int, ...]]) -> str:
    """Why this part of a saved state is not that of the loss."""
    if saved is None and name == "keys":
        return "the saved state has positions, this loss has keys: make it with the num_samples that it was saved with"
    if saved is None:
        return f"the saved state has no {name}: it was saved with another loss, learner or similarity"
    have = tuple(saved.shape)
    if shape is not None and name == "lambda" and len(have) == 2 and have[0] == shape[0]:
        grown = f"; if the dataset grew, load it into a loss of {have[1]} samples, then resize({shape[1]})" if have[1] < shape[1] else ""
        return f"the state was saved with num_samples={have[1]}, this loss has {shape[1]}{grown}"
    return f"{name} of the saved state has shape {list(have)}; expected {list(shape or ())}: it was saved with another loss, learner or similarity"


def _guide_pair(guide: Any, n: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Embeddings and thresholds of n samples: tensors, arrays, or .npy files."""
    if not isinstance(guide, (tuple, list)) or len(guide) != 2:
        raise ArgumentError("guide: expected a pair (embeddings, thresholds)")
    pair = []
    for name, x in zip(("embeddings", "thresholds"), guide):
        if isinstance(x, (str, os.PathLike)):
            import numpy as np
            x = np.load(x)
        try:
            x = torch.as_tensor(x).detach()
        except (TypeError, RuntimeError, ValueError):
            raise ArgumentError(f"guide: {name} of type {type(x).__name__}; expected a tensor, an array or a .npy file") from None
        if not x.is_floating_point():
            raise ArgumentError(f"guide: {name} are {x.dtype}; expected floating-point numbers")
        pair.append(x)
    rows, thresholds = pair
    if rows.dim() != 2 or rows.shape[0] != n or thresholds.shape != (n,):
        raise ArgumentError(f"guide: embeddings have shape {list(rows.shape)}, thresholds {list(thresholds.shape)}; expected [{n}, any width] "
                            f"and [{n}]")
    return rows, thresholds


class _Temperature(torch.autograd.Function):
    """1 / e^log_scale within its bounds. The gradient is that of the bounded value, so that beyond a bound it can still come back."""

    @staticmethod
    def forward(ctx, log_scale):  # type: ignore[no-untyped-def]
        tau = torch.exp(-log_scale.clamp(0.0, _LOG_SCALE_MAX))
        ctx.save_for_backward(tau)
        return tau

    @staticmethod
    def backward(ctx, g):  # type: ignore[no-untyped-def]
        return -g * ctx.saved_tensors[0]


def temperature(criterion: "GloFNDLoss") -> Optional[torch.Tensor]:
    """The learned temperature of a loss, with its gradient; None: it learns none."""
    return None if criterion.log_scale is None else _Temperature.apply(criterion.log_scale)


class GloFNDLoss(nn.Module):
    """Contrastive loss that learns, for every sample of the dataset, which similarities are false negatives.

    num_samples  size of the dataset; `index` of a batch counts from 0 to num_samples - 1. None: it holds keys, any int64, such as those that
                 glofnd.keys() makes of texts, and the state grows with the keys that come
    loss         "sogclr", "simclr", "fastclip", "isogclr", "sigmoid" (SigLIP); "clip" is "simclr" with pairing="image-text"
    pairing      an embedding and its partner are two "views" of an image, or "image-text"
    detector     "glofnd" (a threshold per sample), "mutual" (above the thresholds of both samples of a pair), "single", "fnc", "oracle" (labels), "groups", "none"; "positive": more similar than
                 the own positive plus `margin` (0.1); "positive-relative": plus margin times it
    action       a false negative is left out ("drop"), attracted ("attract") or counts less ("weight")
    alpha        share of negatives to flag
    tau          temperature, or its start where it is learned
    start_epoch  first epoch whose loss uses the flags; thresholds are learned from `update_epoch` (0) on
    learn_tau    True: `log_scale` = log(1/tau) is a parameter, within [0, log 100]; "clip", "fastclip", "sigmoid" only, their default
    learn_bias   True: `logit_bias` is a parameter, which begins at the option `bias` (-10); "sigmoid" only, its default
    dim          length of an embedding; needed by learner="ring" and similarity="bank" only
    process_group  ranks that share a batch; None: all ranks if torch.distributed is initialised; False: this rank alone
    lambda_init  "quantile": a threshold starts at the quantile of its sample's first batch; "one", as in the paper: at 1, from where it
                 falls by at most lambda_lr a visit, so that nothing is flagged in the first epochs
    math         products on a GPU: "auto" rounds to bfloat16 if tau is 0.05 or more; "split" is as exact as PyTorch's float32
    repeats      True: a sample may occur several times in a batch (sampling with replacement, augmented queries). Its copies are no negatives
                 of each other, and its threshold moves once. With several ranks they may be on any; on GPUs they must be on one
    guide        for detector="fixed" (above the guide's threshold of the anchor) and "fixed-mutual" (of both samples): a pair of embeddings
                 [num_samples][any width] and thresholds [num_samples], such as those that discover() returns. Tensors, arrays or .npy files
    options      all others of `python -m glofnd --options`: gamma, learner, lambda_lr, compat, threads ...

    None: the library's default, which `python -m glofnd --options` shows; C and the program have the same.

    Embeddings are normalised inside (normalize=False: they come as unit vectors). The loss is a float32 scalar; gradients have
    the type of the embeddings. In eval() the state does not move. With several ranks every rank gets the loss of the whole batch,
    and gradients whose mean over ranks is its gradient, as DistributedDataParallel expects.
    """

    _clock: torch.Tensor

    def __init__(self, num_samples: Optional[int], loss: "Optional[Loss]" = None, *, detector: "Optional[Detector]" = None, action: "Optional[Action]" = None,
                 alpha: Optional[float] = None, tau: Optional[float] = None, start_epoch: Optional[int] = None,
                 learn_tau: Optional[bool] = None, learn_bias: Optional[bool] = None, dim: int = 0, process_group: Any = None, guide: Any = None,
                 **options: "Unpack[Options]"):
        super().__init__()
        if "device" in options:
            raise OptionError("device: the loss follows its module; use criterion.to(device)")
        values = own_names({"loss": loss, "detector": detector, "action": action, "alpha": alpha,
                            "tau": None if tau is None else checked_tau(tau, False), "start_epoch": start_epoch, **options})
        samples = None if num_samples is None else checked_count("num_samples", num_samples)
        self._core = Core(samples, checked_count("dim", dim), values, torch.device("cpu"), process_group)
        self._handle = self._core.handle
        chosen = self._core.engine.options
        self._learned_tau = has_tau_gradient(chosen)
        if learn_tau is None:
            learn_tau = self._learned_tau
        if learn_tau and not self._learned_tau:
            raise OptionError(f"learn_tau: loss {chosen.loss!r} has no learnable temperature; clip, fastclip and sigmoid have one")
        self._biased = chosen.loss == "sigmoid"
        self._guided = chosen.detector in _GUIDED
        self._guide = self._checked_guide(guide, samples)
        if learn_bias and not self._biased:
            raise OptionError(f"learn_bias: loss {chosen.loss!r} has no bias; sigmoid has one")
        tau = checked_tau(chosen.tau, learn_tau)
        self._core.watch.warn("tau", scale_warning(tau))
        self.register_buffer("_clock", torch.zeros(1, dtype=torch.int64), persistent=False)
        self.log_scale = nn.Parameter(torch.tensor(-math.log(tau), dtype=torch.float32)) if learn_tau else None
        learns = self._biased if learn_bias is None else learn_bias
        self.logit_bias = nn.Parameter(torch.tensor(chosen.bias, dtype=torch.float32)) if learns else None

    def _checked_guide(self, guide: Any, n: Optional[int]) -> Optional[tuple[torch.Tensor, torch.Tensor]]:
        """Embeddings and thresholds of all samples, where they were given."""
        if guide is None:
            return None
        if not self._guided:
            raise OptionError("guide: only detector 'fixed' and 'fixed-mutual' have one")
        if n is None:
            raise ArgumentError("guide: a loss of keys (num_samples=None) has no positions; pass the guide's rows of each batch in the call")
        rows, thresholds = _guide_pair(guide, n)
        return rows, thresholds

    def _guide_of(self, guide: Any, index: torch.Tensor, rows: int) -> tuple[Optional[torch.Tensor], Optional[torch.Tensor]]:
        """The guide of a batch: float32 on the device of `index`."""
        if not self._guided:
            if guide is not None:
                raise ArgumentError("guide: only detector 'fixed' and 'fixed-mutual' have one")
            return None, None
        if guide is not None:
            pair = _guide_pair(guide, rows)
        elif self._guide is None:
            raise ArgumentError("detector 'fixed' needs guide=(embeddings, thresholds): of all samples when the loss is made, or of the batch in the call")
        else:
            at = index.to(self._guide[0].device)
            pair = self._guide[0][at], self._guide[1][at]
        return pair[0].to(index.device, torch.float32).contiguous(), pair[1].to(index.device, torch.float32).contiguous()

    # ----- loss -----

    def forward(self, z1: torch.Tensor, z2: torch.Tensor, index: Any = None, labels: Optional[torch.Tensor] = None, *,
                groups: Optional[torch.Tensor] = None, tau: Union[None, float, torch.Tensor] = None, negatives: Any = None,
                negatives_index: Any = None, bias: Union[None, float, torch.Tensor] = None,
                positives: Optional[torch.Tensor] = None, guide: Any = None) -> torch.Tensor:
        """The loss of a batch, a scalar.

        z1, z2   [batch][dim] two views, or image and text
        index    [batch] positions of the samples in the dataset, all different: a tensor, an array of NumPy or a list
        labels   [batch] integers: for detector="oracle"; else they add precision and recall of the flags to stats()
        groups   [batch] integers: for detector="groups", or pairs to flag in addition; negative: in no group
        tau      a number in place of the module's own temperature; a tensor of one gets a gradient for "clip", "fastclip", "sigmoid"
        bias     "sigmoid": a number or a tensor of one in place of the module's own; a tensor gets a gradient
        negatives  [m][dim] embeddings beyond the batch that are negatives only: hard negatives, a queue. Two views: of all rows; image-text:
                 further texts (documents), negatives of z1. A pair (n1, n2), either may be None: also further images, negatives of z2.
                 They get gradients if they require them. Several ranks: negatives of this rank's samples
        negatives_index  [m], or a pair: the sample that each is an embedding of, -1 if unknown. No negative of that sample
        positives  [batch] integers: samples of one number are positives of each other, with weights 1/k (SupCon), and no negatives;
                 negative: of none but its own. Thresholds are for the other pairs. groups in contrast are pairs to flag
        guide    detector="fixed": (embeddings [batch][any width], thresholds [batch]) of this batch, in place of those of the module
        """
        index = _index_tensor(index, z1)
        z1, z2 = self._check(z1, z2, index, labels, groups, positives)
        tau = temperature(self) if tau is None else _temperature(tau)
        if isinstance(tau, torch.Tensor) and tau.requires_grad and not self._learned_tau:
            raise ArgumentError("tau requires a gradient, which this loss does not have: pass tau.detach()")
        if bias is not None and not self._biased:
            raise ArgumentError("bias: only loss 'sigmoid' has one")
        bias = self.logit_bias if bias is None else bias
        if self._biased and (tau is not None or bias is not None):
            tau = torch.stack([torch.as_tensor(x, dtype=torch.float32).reshape(()).to(z1.device)
                               for x in (self.tau if tau is None else tau, self.bias if bias is None else bias)])
        flags = 0
        if self.training:
            flags = UPDATE if torch.is_grad_enabled() else UPDATE | REMEMBER
        index = _int64(index)
        rows, thresholds = self._guide_of(guide, index, z1.shape[0])
        if negatives is None and negatives_index is None and positives is None and rows is None:
            return StepFunction.apply(z1, z2, tau, index, labels, groups, self._clock, self._handle, flags)
        (n1, n2), ids = (None, None), [None, None]  # type: tuple[Any, Any], list[Any]
        if negatives is not None or negatives_index is not None:
            (n1, n2), ids = self._check_negatives(z1, negatives, negatives_index)
        for more, bit in ((n1, GRAD_A), (n2, GRAD_B)):
            if more is not None and more.requires_grad and torch.is_grad_enabled():
                flags |= bit
        return CandidateStepFunction.apply(z1, z2, tau, n1, n2, index, labels, groups, positives, rows, thresholds, *ids, self._clock, self._handle, flags)

    def _check_negatives(self, z1: torch.Tensor, negatives: Any, index: Any) -> tuple[list[Any], list[Any]]:
        """Candidates of either side, in the type of the batch, and their indices."""
        two = self._core.engine.sides == 2
        if negatives is None:
            raise ArgumentError("negatives_index is given without negatives")
        rows, ids = ([*x] if isinstance(x, (tuple, list)) and len(x) == 2 and not isinstance(x[0], int) else [None, x] if two else [x, None]
                     for x in (negatives, index))
        if not two and rows[1] is not None:
            raise ArgumentError("negatives is a pair; with pairing 'views' it is one tensor, [m, dim]")
        if all(x is None for x in rows):
            raise ArgumentError("negatives is a pair of None; leave it out where there are none")
        for i, (x, of) in enumerate(zip(rows, ids)):
            if x is None and of is not None:
                raise ArgumentError("negatives_index has indices of a side without negatives")
            if x is None:
                continue
            if not isinstance(x, torch.Tensor):
                raise ArgumentError(f"negatives is of type {type(x).__name__}; expected a tensor [m, dim], or a pair of them")
            if x.dim() != 2 or x.shape[1] != z1.shape[1]:
                raise ArgumentError(f"negatives has shape {list(x.shape)}; expected [m, {z1.shape[1]}], as wide as z1")
            if x.device != z1.device:
                raise ArgumentError(f"z1 is on {z1.device}, negatives on {x.device}: move one of them with .to({str(z1.device)!r})")
            if x.layout is not torch.strided or not x.is_floating_point():
                raise ArgumentError(f"negatives is a tensor of {x.dtype}, {x.layout}; expected dense floating-point embeddings")
            rows[i] = x.to(z1.dtype)
            if of is None:
                continue
            of = _index_tensor(of, z1)
            if not isinstance(of, torch.Tensor) or of.shape != x.shape[:1] or of.is_floating_point() or of.dtype in (torch.bool, _UINT64):
                raise ArgumentError(f"negatives_index: expected {x.shape[0]} integers, the sample of every candidate, or -1")
            if of.device != z1.device:
                raise ArgumentError(f"z1 is on {z1.device}, negatives_index on {of.device}: move one of them with .to({str(z1.device)!r})")
            ids[i] = _int64(of)
        return rows, ids

    def _check(self, z1: torch.Tensor, z2: torch.Tensor, index: torch.Tensor, labels: Optional[torch.Tensor],
               groups: Optional[torch.Tensor], positives: Optional[torch.Tensor] = None) -> tuple[torch.Tensor, torch.Tensor]:
        """The two embeddings in one type that the library reads; refuses what cannot be meant."""
        if index is None:
            raise ArgumentError("index is missing: the positions of the samples in the dataset, which glofnd.torch.WithIndex(dataset) adds to them")
        if labels is None and groups is None and positives is None and isinstance(z1, torch.Tensor) and isinstance(z2, torch.Tensor) and isinstance(index, torch.Tensor):
            device, dtype, shape = z1.device, z1.dtype, z1.shape
            if (len(shape) == 2 and z2.shape == shape and index.shape == shape[:1] and z2.dtype is dtype and index.dtype is torch.int64 and
                    dtype in DTYPES and device == z2.device == index.device == self._clock.device and z1.layout is z2.layout is torch.strided):
                return z1, z2  # nothing to say, and most calls are like this
        for name, x in (("z1", z1), ("z2", z2), ("index", index), ("labels", labels), ("groups", groups), ("positives", positives)):
            if not isinstance(x, torch.Tensor) and (x is not None or name in ("z1", "z2", "index")):
                raise ArgumentError(f"{name} is of type {type(x).__name__}; expected a tensor, as torch.as_tensor({name}) makes it")
        if z1.dim() != 2 or z1.shape != z2.shape:
            raise ArgumentError(f"z1 has shape {list(z1.shape)}, z2 {list(z2.shape)}; expected the same [batch, dim] for both")
        for name, x in (("z2", z2), ("index", index), ("labels", labels), ("groups", groups), ("positives", positives), ("this loss", self._clock)):
            if x is not None and x.device != z1.device:
                raise ArgumentError(f"z1 is on {z1.device}, {name} on {x.device}: move one of them with .to({str(z1.device)!r})")
        for name, x in (("index", index), ("labels", labels), ("groups", groups), ("positives", positives)):
            if x is not None and (x.dim() != 1 or x.shape[0] != z1.shape[0]):
                raise ArgumentError(f"{name} has shape {list(x.shape)}; expected [{z1.shape[0]}]: one number per sample")
            if x is not None and (x.is_floating_point() or x.is_complex() or x.dtype == torch.bool):
                raise ArgumentError(f"{name} is {x.dtype}; expected integers")
            if x is not None and x.dtype is _UINT64:
                raise ArgumentError(f"{name} is torch.uint64, of which int64 holds one half: pass {name}.to(torch.int64)")
        for name, x in (("z1", z1), ("z2", z2)):
            if x.layout is not torch.strided:
                raise ArgumentError(f"{name} is a tensor of layout {x.layout}; expected a dense one: .to_dense()")
        if not z1.is_floating_point() or not z2.is_floating_point():
            raise ArgumentError(f"z1 is {z1.dtype}, z2 is {z2.dtype}; expected floating-point embeddings")
        common = z1.dtype if z1.dtype == z2.dtype and z1.dtype in DTYPES else torch.float32
        return z1.to(common), z2.to(common)

    # ----- between steps -----

    def set_epoch(self, epoch: int) -> None:
        """The epoch of the next steps, from 0: start_epoch, update_epoch and lambda_warmup count by it."""
        self._core.announce(checked_epoch(epoch))

    @property
    def epoch(self) -> int:
        return self._core.epoch

    @property
    def waits_for_start(self) -> bool:
        """True before start_epoch: the loss does not use its flags yet."""
        return self._core.epoch < int(self._core.engine.options.mask_epoch)

    def configure(self, **options: Any) -> None:
        """New values of options from the next step on, for a schedule: configure(gamma=0.6), configure(tau=0.2)."""
        for key, hint in _FIXED.items():
            if key in options and options[key] not in (self._core.values.get(key, _FIXED), getattr(self._core.engine.options, key, _FIXED)):
                raise OptionError(f"{key}: {hint}")
        if "tau" in options and self.log_scale is not None:
            raise OptionError("tau: it is learned here; change log_scale, or make the loss with learn_tau=False")
        if "bias" in options and self.logit_bias is not None:
            raise OptionError("bias: it is learned here; change logit_bias, or make the loss with learn_bias=False")
        self._core.configure(**own_names(options))
        self._guided = self._core.engine.options.detector in _GUIDED
        self._core.watch.warn("tau", scale_warning(float(self._core.engine.options.tau)))

    @property
    def tau(self) -> float:
        """The temperature now; with individual temperatures the one they start from."""
        if self.log_scale is None:
            return float(self._core.engine.options.tau)
        return math.exp(-min(max(self.log_scale.item(), 0.0), _LOG_SCALE_MAX))

    @property
    def bias(self) -> float:
        """The bias now; only loss "sigmoid" has one."""
        return float(self._core.engine.options.bias) if self.logit_bias is None else self.logit_bias.item()

    def stats(self) -> dict[str, Any]:
        """Numbers of the last step: loss, kept_share, lambda_mean, flagged, precision, recall ... (glofnd_stats in glofnd.h).

        On CUDA this waits for the step; a step whose index or embeddings were wrong raises here, if no later step has done so.
        """
        stats = stats_dict(self._core.stats())
        self._core.watch.read(self._core)
        return stats

    def epoch_stats(self) -> dict[str, Any]:
        """Counts of all training steps since set_epoch() was called last: `steps`, `pairs`, `flagged`, `flagged_share` = flagged / pairs. If
        steps had labels also `same`, `hits`, and precision, recall and f1 of these sums; NaN if there is nothing to divide by.

        On the CPU only, because a step on a GPU does not wait for its statistics. There and over ranks, whose counts are of their own
        samples as those of stats(), glofnd.sum_stats() adds them up.
        """
        core = self._core
        if core.is_cuda:
            raise _lib.UnsupportedError("epoch_stats(): a step on a GPU does not wait for its statistics, so nothing has added them up. Call stats() after "
                                        "the steps that you want to count, which waits for each, and pass the results to glofnd.sum_stats()")
        with core.lock:
            return core.counts.stats()

    # ----- state -----

    def _rows(self, side: int, index: torch.Tensor) -> torch.Tensor:
        """uint8 [n][36] rows of anchors, on the CPU; `index` int64 on the CPU."""
        rows = torch.empty(index.numel(), ROW_BYTES, dtype=torch.uint8)
        self._core.settle()
        self._core.engine.rows_get(side, index.data_ptr(), index.numel(), rows.data_ptr())
        return rows

    def thresholds(self, index: Optional[torch.Tensor] = None) -> torch.Tensor:
        """Thresholds of the anchors `index` (None: all): [n], or [n][2] for image and text. 1: not visited yet, flags nothing."""
        if index is not None:
            index = _samples(index, self._core.n)
        ids = self._ids() if index is None else index.detach().to("cpu", torch.int64).contiguous()
        columns = []
        self._core.watch.read(self._core)
        for side in range(self._core.engine.sides):
            words = self._rows(side, ids).view(torch.float32)
            shared = self._core.engine.shared_get(side)
            visits = words.view(torch.int32)[:, 4]
            of_all = torch.full_like(words[:, 0], getattr(shared, "lambda"))
            follows = (visits == 0) & (shared.clock > 0)
            columns.append(torch.where(follows, of_all, words[:, 0]))
        result = columns[0] if len(columns) == 1 else torch.stack(columns, 1)
        return result.to(self._clock.device if index is None else index.device)

    @torch.no_grad()
    def mask(self, z1: torch.Tensor, z2: torch.Tensor, index: Any, labels: Optional[torch.Tensor] = None, *,
             groups: Optional[torch.Tensor] = None, positives: Optional[torch.Tensor] = None,
             guide: Any = None) -> torch.Tensor:
        """The negatives that a step on this batch would keep, among this rank's samples; the state stays as it is.

        Two views: bool [batch][2][2][batch], by own view and the other's view. Image and text: bool [batch][2][batch], by side.
        """
        index = _index_tensor(index, z1)
        z1, z2 = self._check(z1, z2, index, labels, groups, positives)
        n, core = z1.shape[0], self._core
        tensors: list[Any] = [readable(z1), readable(z2), _int64(index).contiguous(), *map(classes_of, (labels, groups, positives)),
                              *self._guide_of(guide, _int64(index), n)]
        keep = torch.empty((n, 2, 2, n) if core.engine.sides == 1 else (n, 2, n), dtype=torch.uint8, device=z1.device)
        links = torch.empty(n, _lib.LINK_BYTES, dtype=torch.uint8, device=z1.device)
        tau = 0.0 if self.log_scale is None else self.tau
        with core.lock, _current(core.device):
            core.keep_stats()
            core.synchronize()
            if core.is_cuda:
                core.engine.tau(0)
                core.reserve(n, n, z1.shape[1])
            batch = fill_batch(core, *tensors, _lib.WANT_NO_UPDATE, tau, _lib.F32)  # type: ignore[call-arg]
            banks = averages_of(core, tensors[2])
            extra = set_banks(batch, banks)
            with core.engine.without_neighbours():
                core.engine.step_rows(batch, links.data_ptr())
                core.engine.step_mask(batch, links.data_ptr(), keep.data_ptr())
            batch.extra = 0
            del extra
        return keep.bool()

    def keys(self) -> torch.Tensor:
        """The keys of all samples that have state, ascending: int64 [n] on the CPU. For num_samples=None."""
        if self._core.n is not None:
            raise ArgumentError(f"this loss has no keys: its samples are 0 .. {self._core.n - 1}")
        return self._ids()

    def reserve(self, keys: int) -> None:
        """Room for this number of keys in all, for num_samples=None: until then no step allocates. Needed before a step is captured in a CUDA graph."""
        if self._core.n is not None:
            raise ArgumentError(f"reserve: this loss has {self._core.n} samples by position; keys need num_samples=None")
        self._core.settle()
        self._core.engine.make_room(keys)

    def _ids(self) -> torch.Tensor:
        """All positions, or all keys."""
        core = self._core
        if core.n is not None:
            return torch.arange(core.n)
        with core.lock, _current(core.device):
            core.settle()
            keys = torch.empty(core.engine.count_keys(), dtype=torch.int64)
            core.engine.keys(keys.data_ptr(), keys.numel())
        return keys

    def save_store(self, path: Union[str, os.PathLike]) -> None:
        """Writes the state to a store file, which load_store(), glofnd.numpy, the program and the C library read."""
        self._core.settle()
        self._core.engine.save(path)

    def load_store(self, path: Union[str, os.PathLike]) -> None:
        """Replaces the state by that of a store file of as many samples. Epoch and a learned temperature are not in such a file."""
        with self._core.lock:
            self._core.settle()
            self._core.open(self._core.device, path)

    def _state(self) -> dict[str, torch.Tensor]:
        """All state by value: one tensor [sides][n] per field of a row, the shared thresholds, the ring, the averages."""
        core = self._core
        with core.lock, _current(core.device):
            ids = self._ids()
            core.watch.read(core)
            words = torch.stack([self._rows(side, ids).view(torch.float32) for side in range(core.engine.sides)])
            state = {name: words[..., i].contiguous().view(dtype) for i, (name, dtype) in enumerate(_ROW_FIELDS)
                     if core.engine.temperatures or name not in _TEMPERATURE_FIELDS}
            shared = [bytes(core.engine.shared_get(side)) for side in range(core.engine.sides)]
            state["shared"] = torch.frombuffer(bytearray(b"".join(shared)), dtype=torch.uint8).reshape(-1, ROW_BYTES).clone()
            state["epoch"] = torch.tensor(core.epoch)
            if core.n is None:
                state["keys"] = ids
            info = core.engine.describe()
            if info.ring_rows:
                state["ring_index"] = torch.empty(info.ring_count, dtype=torch.int64)
                for name in ("ring_a", "ring_b")[:core.engine.sides]:
                    state[name] = torch.empty(info.ring_count, info.ring_dim)
                core.engine.ring_get(*(_data(state.get(name)) for name in ("ring_index", "ring_a", "ring_b")))
            if core.engine.bank_dim:
                core.synchronize()
                state["bank"] = torch.stack([rows.cpu() for rows in averages_of(core, ids.to(core.device))])
        return state

    def _set_state(self, state: dict[str, torch.Tensor]) -> None:
        """Replaces all state; where that fails, the old one stays."""
        core = self._core
        want = self._state_shapes()
        for name, shape in want.items():
            if name not in state or (shape is not None and tuple(state[name].shape) != shape):
                raise StateError(_misfit(name, state.get(name), shape))
        epoch = _saved_epoch(state["epoch"])
        if state["shared"].dtype != torch.uint8:
            raise StateError(f"shared of the saved state is {state['shared'].dtype}; expected torch.uint8: leave it as it was saved")
        if core.n is None:
            _check_keys(state)
        with core.lock, core.unless_it_fails(), _current(core.device):
            core.open(core.device)
            self._fill(state)
            core.epoch = epoch

    def _fill(self, state: dict[str, torch.Tensor]) -> None:
        """The state of a new engine: the rows that were ever visited, the shared thresholds, the ring, the averages."""
        core = self._core
        ids = torch.arange(core.n) if core.n is not None else state["keys"].to("cpu", torch.int64).contiguous()
        for side in range(core.engine.sides):
            words = torch.zeros(ids.numel(), len(_ROW_FIELDS), dtype=torch.float32)
            for i, (name, dtype) in enumerate(_ROW_FIELDS):
                if name in state:
                    words[:, i] = state[name][side].to("cpu", dtype).view(torch.float32)
            whole = words.view(torch.int32)
            seen = torch.nonzero((whole[:, 4] != 0) | (words[:, 3] > -math.inf) | (whole[:, 8] != 0)).reshape(-1).contiguous()
            rows, seen = words[seen].contiguous(), ids[seen].contiguous()
            core.engine.rows_put(side, seen.data_ptr(), seen.numel(), rows.data_ptr())
            shared = _lib.Row.from_buffer_copy(bytes(state["shared"][side].cpu().tolist()))
            if shared.clock:
                core.engine.shared_put(side, shared)
        if "ring_index" in state and state["ring_index"].numel():
            index = state["ring_index"].to("cpu", torch.int64).reshape(-1).contiguous()
            shape, ring = (index.numel(), core.engine.describe().ring_dim), []
            for name in ("ring_a", "ring_b")[:core.engine.sides]:
                ring.append(state[name].to("cpu", torch.float32).contiguous())
                if tuple(ring[-1].shape) != shape:
                    raise StateError(_misfit(name, state[name], shape))
            core.engine.ring_put(index.numel(), index.data_ptr(), *(_data(x) for x in [*ring, None][:2]))
        if "bank" in state:
            self._set_bank(state["bank"], ids)

    def _set_bank(self, bank: torch.Tensor, ids: torch.Tensor) -> None:
        """bank: [sides][n][dim], of the anchors `ids`; rows of zeros were never seen."""
        for side, averages in enumerate(bank.to("cpu", torch.float16)):
            seen = torch.nonzero(averages.any(dim=1)).reshape(-1)
            rows, seen = averages[seen].contiguous(), ids[seen].contiguous()
            self._core.engine.bank_put(side, seen.data_ptr(), seen.numel(), rows.data_ptr())

    def _state_shapes(self) -> dict[str, Optional[tuple[int, ...]]]:
        engine = self._core.engine
        shapes: dict[str, Optional[tuple[int, ...]]] = {
            name: None if engine.keyed else (engine.sides, engine.n)
            for name, _ in _ROW_FIELDS if engine.temperatures or name not in _TEMPERATURE_FIELDS}
        if engine.keyed:
            shapes["keys"] = None
        shapes |= {"shared": (engine.sides, ROW_BYTES), "epoch": ()}
        if engine.describe().ring_rows:
            shapes |= {name: None for name in ("ring_index", "ring_a", "ring_b")[:engine.sides + 1]}
        if engine.bank_dim:
            shapes["bank"] = None if engine.keyed else (engine.sides, engine.n, engine.bank_dim)
        return shapes

    def load_state_dict(self, state_dict: Any, strict: bool = True, assign: bool = False) -> Any:
        try:
            return super().load_state_dict(state_dict, strict, assign)
        except RuntimeError as failure:
            raise StateError(f"{failure}\nMake the loss with the num_samples and options that it was saved with, or load with "
                             "strict=False to keep the thresholds of this loss") from failure

    def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
        super()._save_to_state_dict(destination, prefix, keep_vars)
        for name, value in self._state().items():
            destination[prefix + name] = value

    def _load_from_state_dict(self, state_dict: Any, prefix: str, local_metadata: Any, strict: bool, missing_keys: Any,
                              unexpected_keys: Any, error_msgs: Any) -> None:
        own = {name: state_dict[prefix + name] for name in self._state_shapes() if prefix + name in state_dict}
        rest = {key: value for key, value in state_dict.items() if key[len(prefix):] not in own or not key.startswith(prefix)}
        super()._load_from_state_dict(rest, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs)
        if not own:
            missing_keys.extend(prefix + name for name in self._state_shapes())
            return
        foreign = [name for name in _STATE_NAMES if prefix + name in state_dict and name not in own]
        try:
            if foreign == ["keys"]:
                raise StateError("the saved state has keys, this loss has positions: make it with num_samples=None")
            if foreign:  # thresholds beside it may be of another scale
                raise StateError(f"the saved state has {foreign[0]}, which belongs to options that this loss does not have")
            self._set_state(own)
        except StateError as failure:
            # PyTorch passes strict=True always, and looks at missing keys itself: they raise unless strict is False.
            missing_keys.append(f"{prefix}lambda ({failure})")
            warnings.warn(f"{prefix or 'GloFNDLoss.'}lambda: {failure}. The saved state is left out: with strict=False this loss keeps "
                          "its own thresholds", stacklevel=2)
        except _lib.Error as failure:
            error_msgs.append(f"{prefix or 'GloFNDLoss: '}{failure}")

    def resize(self, num_samples: int) -> None:
        """For a dataset that grew at its end: samples keep their thresholds, new ones begin with none. Load the state before."""
        core = self._core
        more = checked_growth(num_samples, core.n) - (core.n or 0)
        state = self._state()
        for name, shape in self._state_shapes().items():
            if shape is not None and len(shape) >= 2 and shape[1] == core.n and name != "shared":
                old = state[name]
                new = torch.full((shape[0], more, *shape[2:]), -math.inf if name == "log_u" else 0, dtype=old.dtype)
                state[name] = torch.cat([old, new], 1)
        with core.lock, core.unless_it_fails(), _current(core.device):
            core.n = (core.n or 0) + more
            core.open(core.device)
            self._set_state(state)

    def _apply(self, fn: Any, recurse: bool = True) -> "GloFNDLoss":
        super()._apply(fn, recurse)
        device = self._clock.device
        if device.type == "cuda" and device.index is None:
            device = torch.device("cuda", torch.cuda.current_device())
        if device != self._core.device:
            state = self._state()
            with self._core.lock, self._core.unless_it_fails():
                self._core.open(device)
                self._set_state(state)
                self._core.counts = Counts()
        return self

    def _replicate_for_data_parallel(self) -> Any:
        raise _lib.UnsupportedError("DataParallel splits a batch among copies of its module, and this loss needs all of it: wrap the model "
                                    "alone, or use DistributedDataParallel")

    def __getstate__(self) -> dict[str, Any]:
        core = self._core
        if core.group not in (None, False):
            raise ArgumentError("a GloFNDLoss with a process group of its own cannot be pickled: save its state_dict()")
        plain = {key: value for key, value in self.__dict__.items() if key not in ("_core", "_handle")}
        plain["_saved"] = (core.n, core.dim, dict(core.values), core.group, self._state())
        return plain

    def __setstate__(self, state: dict[str, Any]) -> None:
        n, dim, values, group, saved = state.pop("_saved")
        super().__setstate__(state)
        self._core = Core(n, dim, values, self._clock.device, group)
        self._handle = self._core.handle
        self._set_state(saved)

    def extra_repr(self) -> str:
        names = ("loss", "detector", "action", "alpha", "tau")
        values, chosen = self._core.values, self._core.engine.options
        return f"num_samples={self._core.n}, " + ", ".join(f"{name}={values.get(name, getattr(chosen, name))!r}" for name in names)


def _check_keys(state: dict[str, torch.Tensor]) -> None:
    """Every part of a saved state has a row for every key."""
    keys = state["keys"]
    if keys.dtype != torch.int64 or keys.dim() != 1:
        raise StateError(f"keys of the saved state are {keys.dtype} {list(keys.shape)}; expected torch.int64 [n]")
    if keys.unique().numel() != keys.numel():
        raise StateError("keys of the saved state: one is there twice")
    sides = state["shared"].shape[0]
    for name in [*(name for name, _ in _ROW_FIELDS), "bank"]:
        if name in state and tuple(state[name].shape[:2]) != (sides, keys.numel()):
            raise StateError(f"{name} of the saved state has shape {list(state[name].shape)}; expected [{sides}, {keys.numel()}], one for every key")


def _saved_epoch(epoch: torch.Tensor) -> int:
    try:
        return checked_epoch(epoch.item())
    except ArgumentError as failure:
        raise StateError(f"the saved state is damaged: {failure}") from None


def _temperature(tau: Any) -> torch.Tensor:
    """A tensor of one number; a number keeps all its bits."""
    if not isinstance(tau, (torch.Tensor, numbers.Real, torch.SymFloat)) or (isinstance(tau, torch.Tensor) and tau.numel() != 1):
        what = f"has shape {list(tau.shape)}" if isinstance(tau, torch.Tensor) else f"is of type {type(tau).__name__}"
        raise ArgumentError(f"tau {what}; expected one number, or a tensor of one number")
    return tau if isinstance(tau, torch.Tensor) else torch.tensor(float(tau), dtype=torch.float64)


def _int64(x: torch.Tensor) -> torch.Tensor:
    return x if x.dtype == torch.int64 else x.detach().to(torch.int64)


def _data(x: Optional[torch.Tensor]) -> int:
    return 0 if x is None else x.data_ptr()

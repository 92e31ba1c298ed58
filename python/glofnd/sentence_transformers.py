"""Losses for the trainer of sentence-transformers, in place of its MultipleNegativesRankingLoss and of the cached one.

    loss = GloFNDRankingLoss(model, alpha=0.001)                    # MultipleNegativesRankingLoss(model)
    trainer = SentenceTransformerTrainer(model, arguments, train_dataset=dataset, loss=loss, callbacks=[GloFNDCallback(loss)])

No column of indices is needed: a sample is known by the text of its positive. Equal texts are never negatives of each other.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Literal, Optional, Union

import torch
from sentence_transformers import SentenceTransformer
from torch import nn

from ._apart import Apart
from ._ids import GOLDEN, POSITIVE, all_rows, apart, mixed, ranks
from ._lib import ArgumentError, OptionError
from .torch import GloFNDLoss
from .transformers import GloFNDCallback

try:
    from sentence_transformers.base.losses.merged_forward import embed_columns as _embed_columns
except ImportError:  # before 6.1
    def _embed_columns(model: Any, features: Any) -> Any:  # type: ignore[misc]
        return [model(x)["sentence_embedding"] for x in features]
try:
    from sentence_transformers.base.losses.gradcache import CachedLossMixin as _Cached
except ImportError:  # before 6.1
    class _Cached:  # type: ignore[no-redef]
        def forward_cached(self, *_: Any) -> Any:
            raise ArgumentError("CachedGloFNDRankingLoss needs sentence-transformers 6.1 or later")

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ._options import Action, Detector, Options

__all__ = ["CachedGloFNDRankingLoss", "GloFNDCallback", "GloFNDRankingLoss", "text_ids"]

Directions = Literal["forward", "both"]
_THEIRS = {("query_to_doc",): "forward", ("query_to_doc", "doc_to_query"): "both"}
_CITATION = """
@inproceedings{balmaseda2025discovering,
      title={Discovering Global False Negatives On the Fly for Self-supervised Contrastive Learning},
      author={Vicente Balmaseda and Bokun Wang and Ching-Long Lin and Tianbao Yang},
      booktitle={Proceedings of the 42nd International Conference on Machine Learning},
      year={2025},
      eprint={2502.20612},
      archivePrefix={arXiv},
      primaryClass={cs.LG}
}
"""

# ----- ids of texts -----------------------------------------------------------------------------------------------------------


def _words(values: torch.Tensor) -> torch.Tensor:
    """int64 numbers with the bits of `values`."""
    if not values.is_floating_point():
        return values.long()
    return values.detach().float().contiguous().view(torch.int32).long()


def _hashed(tokens: torch.Tensor, place: torch.Tensor) -> torch.Tensor:
    return mixed(_words(tokens) + GOLDEN * (place + 1))


def text_ids(features: dict[str, Any]) -> torch.Tensor:
    """int64 [batch], 0 or more: a number for each text of tokenized features, from its tokens alone. Padding, and the place of a text
    in its batch, do not matter; equal texts have equal numbers in every run."""
    tokens = features.get("input_ids")
    if tokens is None:
        return _hash_rows(features)
    flat = tokens.reshape(-1)
    bounds = features.get("cu_seq_lens_q")
    if bounds is None and tokens.dim() == 1 and features.get("offsets") is not None:  # the tokens of StaticEmbedding
        bounds = torch.cat([features["offsets"], torch.tensor([flat.numel()], device=flat.device)])
    if bounds is not None:
        bounds = bounds.long()
        length = bounds.diff()
        row = torch.repeat_interleave(torch.arange(length.numel(), device=flat.device), length, output_size=flat.numel())
        place = torch.arange(flat.numel(), device=flat.device) - bounds[:-1][row]
        sums = torch.zeros_like(length).index_add_(0, row, _hashed(flat, place))
    else:
        mask = features.get("attention_mask")
        if mask is None or mask.shape != tokens.shape:
            mask = torch.ones_like(tokens)
        real = mask != 0
        place = real.long().cumsum(1) - 1
        sums = (_hashed(tokens, place) * real).sum(1)
    return mixed(sums) & POSITIVE


def _hash_rows(features: dict[str, Any]) -> torch.Tensor:
    """Features without tokens, such as counts of words or pixels: all numbers of a row."""
    rows = [x for x in features.values() if isinstance(x, torch.Tensor) and x.dim() > 1]
    if not rows or any(x.shape[0] != rows[0].shape[0] for x in rows):
        raise ArgumentError(f"no ids can be made of the features {sorted(features)}: expected input_ids, or tensors with a row per sample")
    sums: Any = 0
    for x in rows:
        x = x.reshape(x.shape[0], -1)
        sums = mixed(sums + _hashed(x, torch.arange(x.shape[1], device=x.device)).sum(1))
    return sums & POSITIVE


# ----- losses -----------------------------------------------------------------------------------------------------------------


class GloFNDRankingLoss(nn.Module):
    """MultipleNegativesRankingLoss without the false negatives that GloFND finds.

    model       SentenceTransformer
    scale       1 / temperature, as there
    alpha       fraction of negatives to flag, for example 0.001: the fraction of pairs in a batch that mean the same
    directions  "forward": each query among all documents, as MultipleNegativesRankingLoss; "both": each document among all queries,
                too, as its directions=("query_to_doc", "doc_to_query") with partition_mode="per_direction", which are understood here
    detector    "none": the value and gradient of MultipleNegativesRankingLoss
    options     of GloFNDLoss: action, learner, start_epoch, learn_tau ...

    Columns of the dataset: anchor, positive, and any number of negatives. A column `label` is not used. Ids are hashes of the tokens
    of positives; queries and documents of equal text are no negatives of each other, in any epoch. Thresholds move in training only: the loss
    follows train() and eval() of the model. MatryoshkaLoss may be around it: every dimension has thresholds of its own. Several
    ranks share their batches, as with gather_across_devices=True there.
    """

    def __init__(self, model: SentenceTransformer, scale: float = 20.0, *, alpha: Optional[float] = None,  # type: ignore[misc]
                 directions: Union[Directions, tuple[str, ...]] = "forward", detector: "Optional[Detector]" = None,
                 action: "Optional[Action]" = None, start_epoch: Optional[int] = None, learn_tau: bool = False, dim: int = 0,
                 **options: "Unpack[Options]"):
        super().__init__()
        for name, instead in (("tau", "scale = 1 / tau"), ("loss", "it is that of MultipleNegativesRankingLoss"),
                              ("gather_across_devices", "ranks always share their batches"),
                              ("mini_batch_size", "CachedGloFNDRankingLoss has it")):
            if name in options:
                raise OptionError(f"{name}: not here; {instead}")
        if not scale > 0:
            raise OptionError(f"scale is {scale}; expected 1 / temperature, such as 20")
        chosen: Any = directions if isinstance(directions, str) else _THEIRS.get(tuple(directions), "")
        if chosen not in ("forward", "both"):
            raise OptionError(f"directions is {directions!r}; expected 'forward' or 'both'")
        self.model = model
        self.scale, self.directions = float(scale), chosen
        named = {"alpha": alpha, "detector": detector, "action": action, "start_epoch": start_epoch, **options}
        self.options = {key: value for key, value in named.items() if value is not None}
        self.learn_tau, self.dim, self.epoch = learn_tau, dim, 0
        self.criteria = nn.ModuleDict()
        self._apart = Apart()
        self._seen: tuple[tuple[Any, ...], tuple[torch.Tensor, ...]] = ((), ())
        self._make(0)  # wrong options raise here

    def _make(self, dim: int) -> GloFNDLoss:
        # "groups" flags equal texts alone
        detector = {"detector": "groups"} if self.options.get("detector") == "none" else {}
        return GloFNDLoss(None, "clip", directions=self.directions, tau=1 / self.scale, learn_tau=self.learn_tau,
                          dim=self.dim and dim, **{**self.options, **detector})

    def criterion_of(self, dim: int) -> GloFNDLoss:
        """The GloFNDLoss of embeddings of this length, with thresholds of their own."""
        name = str(dim)
        if name not in self.criteria:
            device = next((p.device for p in self.model.parameters()), torch.device("cpu"))
            self.criteria[name] = self._make(dim).to(device)
            self.criteria[name].set_epoch(self.epoch)  # type: ignore[operator]
        return self.criteria[name]  # type: ignore[return-value]

    def forward(self, sentence_features: Iterable[dict[str, Any]], labels: Optional[torch.Tensor] = None) -> torch.Tensor:
        features = list(sentence_features)
        ids = self._ids(features)
        return self.compute_loss_from_embeddings(_embed_columns(self.model, features), ids)

    def _ids(self, features: list[dict[str, Any]]) -> tuple[torch.Tensor, ...]:
        """Ids of the texts of every column. MatryoshkaLoss comes several times with the same features, which the model has changed."""
        if len(features) < 2:
            raise ArgumentError(f"{len(features)} columns; expected anchor, positive, and any number of negatives")
        keys = tuple(x.get("input_ids", x) for x in features)
        if len(keys) != len(self._seen[0]) or any(a is not b for a, b in zip(keys, self._seen[0])):
            self._seen = keys, tuple(text_ids(x) for x in features)
        return self._seen[1]

    def compute_loss_from_embeddings(self, embeddings: list[torch.Tensor], ids: tuple[torch.Tensor, ...]) -> torch.Tensor:
        anchor, positive = embeddings[:2]
        criterion = self.criterion_of(anchor.shape[1]).train(getattr(self.model, "training", True))
        extra: dict[str, Any] = {}
        if len(embeddings) > 2:
            extra["negatives"], extra["negatives_index"] = all_rows(torch.cat(embeddings[2:])), all_rows(torch.cat(ids[2:]))
        elif anchor.shape[0] * ranks() == 1:
            return (anchor.sum() + positive.sum()) * 0.0  # nothing to tell it from
        index, groups = apart(ids[1], ids[0])
        return self._apart(criterion, anchor, positive, index, groups, **extra)

    def thresholds(self, documents: list[str], dim: Optional[int] = None) -> torch.Tensor:
        """Learned thresholds of the samples with these positives; 1: not seen. dim: of MatryoshkaLoss; None: the largest."""
        tokenize = getattr(self.model, "preprocess", None) or self.model.tokenize
        ids = text_ids(tokenize(documents))
        if not self.criteria:
            raise ArgumentError("there was no step yet")
        return self.criteria[str(dim or max(map(int, self.criteria)))].thresholds(ids)  # type: ignore[operator]

    def get_config_dict(self) -> dict[str, Any]:
        return {"scale": self.scale, "directions": self.directions, **self.options}

    @property
    def temperature(self) -> float:
        return 1.0 / self.scale

    @property
    def citation(self) -> str:
        return _CITATION


class CachedGloFNDRankingLoss(_Cached, GloFNDRankingLoss):
    """GloFNDRankingLoss for batches that do not fit: the model sees mini_batch_size texts at a time (GradCache). The loss is computed
    from the whole batch, once."""

    def __init__(self, model: SentenceTransformer, scale: float = 20.0, *, mini_batch_size: int = 32,  # type: ignore[misc]
                 mini_batch_num_tokens: Optional[int] = None, show_progress_bar: bool = False, alpha: Optional[float] = None,
                 directions: Union[Directions, tuple[str, ...]] = "forward", detector: "Optional[Detector]" = None,
                 action: "Optional[Action]" = None, start_epoch: Optional[int] = None, learn_tau: bool = False, dim: int = 0,
                 **options: "Unpack[Options]"):
        super().__init__(model, scale, alpha=alpha, directions=directions, detector=detector, action=action, start_epoch=start_epoch,
                         learn_tau=learn_tau, dim=dim, **options)
        if mini_batch_size < 1 or (mini_batch_num_tokens is not None and mini_batch_num_tokens < 1):
            raise OptionError("mini_batch_size and mini_batch_num_tokens: expected 1 or more")
        self.mini_batch_size, self.mini_batch_num_tokens = mini_batch_size, mini_batch_num_tokens
        self.show_progress_bar = show_progress_bar
        self._now: tuple[torch.Tensor, ...] = ()

    def forward(self, sentence_features: Iterable[dict[str, Any]], labels: Optional[torch.Tensor] = None) -> torch.Tensor:
        features = list(sentence_features)
        self._now = self._ids(features)
        return self.forward_cached(features, labels)

    def calculate_loss(self, reps: list[list[torch.Tensor]], labels: Optional[torch.Tensor] = None, *,
                       with_backward: bool = False) -> torch.Tensor:
        loss = self.compute_loss_from_embeddings([torch.cat(column) for column in reps], self._now)
        if with_backward:
            loss.backward()
            loss = loss.detach()
        return loss

    def get_config_dict(self) -> dict[str, Any]:
        return {"mini_batch_size": self.mini_batch_size, "mini_batch_num_tokens": self.mini_batch_num_tokens, **super().get_config_dict()}

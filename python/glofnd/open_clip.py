"""GloFND in open_clip: the loss in its form, and its own training program with this loss.

    loss = GloFNDClipLoss(alpha=0.001)                                      # open_clip.ClipLoss()
    losses = loss(**model(images, texts), index=index, output_dict=True)    # index: a number or a hash of each sample

    python -m glofnd.open_clip --alpha 0.001 -- --train-data 'shards/{000..999}.tar' --dataset-type webdataset ...
    torchrun --nproc-per-node 8 -m glofnd.open_clip --alpha 0.001 -- ...

What follows `--` goes to open_clip_train as it is. Samples of WebDataset are known by shard and key, those of a table by their
row. Checkpoints hold the thresholds, and --resume restores them.
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
import os
import sys
from typing import TYPE_CHECKING, Any, Iterator, Optional

import open_clip
import torch
from torch import nn

from ._apart import Apart
from ._ids import apart
from ._lib import ArgumentError, OptionError, StateError, option_table
from .torch import GloFNDLoss, WithIndex

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ._options import Action, Detector, Options

__all__ = ["GloFNDClipLoss", "key_id", "main"]

STATE = "glofnd"  # in a checkpoint of open_clip_train


def key_id(key: str, shard: str = "") -> int:
    """A number for a sample of WebDataset: a hash of its key and of the name of its shard, the same in every run."""
    name = f"{os.path.basename(shard)}\0{key}".encode()
    return int.from_bytes(hashlib.blake2b(name, digest_size=8).digest(), "little") >> 1


class GloFNDClipLoss(nn.Module):
    """open_clip's ClipLoss, or SigLipLoss, without the false negatives that GloFND finds.

    alpha        share of negatives to flag
    siglip       the sigmoid loss; the model then has a logit_bias
    accum_freq   calls of the loss per optimizer step, as open_clip_train makes them with --accum-freq: each has the features of all
                 batches. Thresholds move once, in the last of them
    inner        a loss of open_clip whose contrastive part this one replaces: CoCaLoss, DistillClipLoss
    options      of GloFNDLoss: detector, action, start_epoch, learner ...

    A sample that comes twice in a batch is no negative of itself. forward() has open_clip's arguments, and `index`: numbers of the samples, such as key_id(). With several ranks all samples of a
    batch are negatives of each other, and gradients are those of --local-loss --gather-with-grad.
    """

    def __init__(self, *, alpha: Optional[float] = None, siglip: bool = False, accum_freq: int = 1, num_samples: Optional[int] = None,
                 inner: Optional[nn.Module] = None, detector: "Optional[Detector]" = None, action: "Optional[Action]" = None,
                 start_epoch: Optional[int] = None, dim: int = 0, **options: "Unpack[Options]"):
        super().__init__()
        if accum_freq < 1:
            raise OptionError(f"accum_freq is {accum_freq}; expected 1 or more")
        loss: Any = "sigmoid" if siglip else "clip"
        named: Any = {**options, "pairing": "image-text", "learn_bias": False} if siglip else options
        self.criterion = GloFNDLoss(num_samples, loss, alpha=alpha, detector="groups" if detector == "none" else detector, action=action, start_epoch=start_epoch,
                                    learn_tau=False, dim=dim, **named)
        self.siglip, self.accum_freq, self.inner = siglip, accum_freq, inner
        self._apart = Apart()
        self._noted: list[torch.Tensor] = []
        self._calls = 0

    def note(self, index: torch.Tensor) -> None:
        """The samples of the next batch, for a training loop that does not pass `index`."""
        self._noted.append(torch.as_tensor(index).long())

    def set_epoch(self, epoch: int) -> None:
        self.criterion.set_epoch(epoch)
        self._noted.clear()
        self._calls = 0

    def _index(self, rows: int, index: Any) -> Any:
        if index is not None:
            return index
        found = torch.cat(self._noted) if self._noted else torch.empty(0, dtype=torch.int64)
        if found.numel() != rows:
            raise ArgumentError(f"{found.numel()} samples are known of a batch of {rows}: pass index=, a number for each sample")
        return found

    def forward(self, image_features: torch.Tensor, text_features: torch.Tensor, logit_scale: torch.Tensor,
                logit_bias: Optional[torch.Tensor] = None, output_dict: bool = False, *, index: Any = None, **others: Any) -> Any:
        index = torch.as_tensor(self._index(image_features.shape[0], index)).to(image_features.device)
        self._calls += 1
        last = self._calls % self.accum_freq == 0
        extra = {"bias": logit_bias} if self.siglip else {}  # a softmax does not depend on it
        self.criterion.train(self.training and last)
        index, groups = apart(index)
        loss = self._apart(self.criterion, image_features, text_features, index, groups, tau=1 / logit_scale, **extra)
        if last:
            self._noted.clear()
        if self.inner is None:
            return {"contrastive_loss": loss} if output_dict else loss
        whole = self.inner(image_features=image_features, text_features=text_features, logit_scale=logit_scale, output_dict=True,
                           **({} if logit_bias is None else {"logit_bias": logit_bias}), **others)
        whole["contrastive_loss"] = loss * getattr(self.inner, "clip_loss_weight", 1.0)
        return whole if output_dict else tuple(whole.values())


# ----- open_clip_train ----------------------------------------------------------------------------------------------------------


class _Noted:
    """A loader whose batches carry the numbers of their samples: the loss gets these, the training loop the rest."""

    def __init__(self, loader: Any, note: Any):
        self.loader, self.note = loader, note

    def __getattr__(self, name: str) -> Any:
        return getattr(self.loader, name)

    def __iter__(self) -> Iterator[Any]:
        for *batch, index in self.loader:
            self.note(index)
            yield batch


class _Except:
    """A module with some names replaced."""

    def __init__(self, module: Any, **names: Any):
        self.__dict__.update(names, _module=module)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._module, name)


def _parallel(model: Any, device_ids: Any = None, **named: Any) -> Any:
    """DistributedDataParallel, which takes no device_ids on the CPU."""
    on_cpu = next(model.parameters()).device.type == "cpu"
    return nn.parallel.DistributedDataParallel(model, device_ids=None if on_cpu else device_ids, **named)


def _numbered(*names: str) -> Any:
    """In place of webdataset.to_tuple(): the number of a sample at the end."""
    def stage(samples: Any) -> Iterator[tuple[Any, ...]]:
        for sample in samples:
            yield (*(sample[name] for name in names), torch.tensor(key_id(sample["__key__"], sample.get("__url__", ""))))
    return stage


class _Training:
    """open_clip_train.main with the loss of `options`, as long as the context lasts."""

    def __init__(self, options: dict[str, Any]):
        self.options = options
        self.loss: Optional[GloFNDClipLoss] = None
        self.resumed: Any = None
        self.index: list[torch.Tensor] = []

    def create_loss(self, args: Any) -> GloFNDClipLoss:
        if args.horovod:
            raise OptionError("--horovod: not with GloFND; use torchrun")
        special = args.distill or "coca" in args.model.lower()
        self.loss = GloFNDClipLoss(siglip=args.siglip, accum_freq=args.accum_freq, inner=open_clip.create_loss(args) if special else None,
                                   **self.options).to(args.device)
        if self.resumed is not None:
            self.loss.load_state_dict(self.resumed)
        return self.loss

    def note(self, index: Any) -> None:
        assert self.loss is not None
        self.loss.note(index)

    def epoch(self, train: Any) -> Any:
        def train_one_epoch(model: Any, data: Any, loss: Any, epoch: int, *rest: Any, **named: Any) -> Any:
            loss.set_epoch(epoch)
            result = train(model, data, loss, epoch, *rest, **named)
            stats = loss.criterion.stats()
            logging.info(f"GloFND Epoch: {epoch} flagged {stats['flagged'] / max(stats['pairs'], 1):.5f} "
                         f"mean threshold {stats['lambda_mean']:.4f}")
            return result
        return train_one_epoch

    def data(self, module: Any) -> Any:
        plain, wds = module.get_data, module.wds
        loader = module.DataLoader

        def get(kind: Any) -> Any:
            def numbered(args: Any, preprocess: Any, is_train: bool, *rest: Any, **named: Any) -> Any:
                if not is_train:
                    return kind(args, preprocess, is_train, *rest, **named)
                module.wds = _Except(wds, to_tuple=_numbered)
                module.DataLoader = lambda dataset, *a, **k: loader(WithIndex(dataset), *a, **k)
                try:
                    info = kind(args, preprocess, is_train, *rest, **named)
                finally:
                    module.wds, module.DataLoader = wds, loader
                info.dataloader = _Noted(info.dataloader, self.note)
                return info
            return numbered

        def get_data(*arguments: Any, **named: Any) -> Any:
            choose = module.get_dataset_fn
            module.get_dataset_fn = lambda *a, **k: get(choose(*a, **k))
            try:
                return plain(*arguments, **named)
            finally:
                module.get_dataset_fn = choose
        return get_data

    def save(self, what: Any, *rest: Any, **named: Any) -> None:
        if isinstance(what, dict) and "optimizer" in what and self.loss is not None:
            what = {**what, STATE: self.loss.state_dict()}
        torch.save(what, *rest, **named)

    def load(self, load: Any) -> Any:
        def pt_load(*arguments: Any, **named: Any) -> Any:
            checkpoint = load(*arguments, **named)
            if isinstance(checkpoint, dict) and "epoch" in checkpoint:
                self.resumed = checkpoint.pop(STATE, None)
                if self.resumed is None:
                    raise StateError(f"{arguments[0]} has no thresholds: it was saved by open_clip_train alone. Its weights alone begin a "
                                     "new run: --pretrained")
            return checkpoint
        return pt_load

    @contextlib.contextmanager
    def inside(self) -> Iterator[Any]:
        import open_clip_train.data as data
        import open_clip_train.main as program
        own = {"create_loss": self.create_loss, "get_data": self.data(data), "train_one_epoch": self.epoch(program.train_one_epoch),
               "pt_load": self.load(program.pt_load),
               "torch": _Except(torch, save=self.save, nn=_Except(nn, parallel=_Except(nn.parallel, DistributedDataParallel=_parallel)))}
        before = {name: getattr(program, name) for name in own}
        vars(program).update(own)
        try:
            yield program
        finally:
            vars(program).update(before)


def _value(text: str) -> Any:
    for kind in (int, float):
        with contextlib.suppress(ValueError):
            return kind(text)
    return {"true": True, "false": False}.get(text.lower(), text)


def main(arguments: Optional[list[str]] = None) -> Any:
    """glofnd.open_clip [--OPTION VALUE ...] -- ARGUMENTS OF open_clip_train"""
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    if "--" not in arguments:
        raise SystemExit("usage: python -m glofnd.open_clip [--alpha 0.001] [--OPTION VALUE ...] -- ARGUMENTS OF open_clip_train\n"
                         "options: python -m glofnd --options")
    ours, theirs = arguments[:arguments.index("--")], arguments[arguments.index("--") + 1:]
    known = {name for name, _, _ in option_table()} - {"loss", "pairing", "tau", "device"}
    options: dict[str, Any] = {}
    while ours:
        name, equals, text = ours.pop(0).partition("=")
        key = name[2:].replace("-", "_")
        if not name.startswith("--") or key not in known | {"dim"} or not (equals or ours):
            raise SystemExit(f"glofnd.open_clip: {name}: expected --OPTION VALUE; python -m glofnd --options lists them. "
                             "Arguments of open_clip_train follow --")
        options[key] = _value(text if equals else ours.pop(0))
    with _Training(options).inside() as program:
        return program.main(theirs)


if __name__ == "__main__":
    sys.exit(main())

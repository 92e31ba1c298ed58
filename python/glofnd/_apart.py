"""Batches in which samples may be equal: these are no negatives of each other, in any epoch."""

from __future__ import annotations

from typing import Any

import torch

from .torch import GloFNDLoss, temperature

_SHARED = ("loss", "pairing", "directions", "tau", "bias", "compat", "normalize", "threads", "math")


class Apart:
    """Computes a GloFNDLoss whose groups are equal samples.

    Before start_epoch a GloFNDLoss uses no flags, and groups are flags. A second loss, which knows groups alone, then gives the value
    and the gradient, and the first one learns its thresholds from the same batch.
    """

    def __init__(self) -> None:
        self._groups: dict[torch.device, GloFNDLoss] = {}

    def __call__(self, criterion: GloFNDLoss, z1: torch.Tensor, z2: torch.Tensor, index: torch.Tensor, groups: torch.Tensor,
                 **given: Any) -> torch.Tensor:
        if not criterion.waits_for_start:
            return criterion(z1, z2, index, groups=groups, **given)
        if criterion.training:
            known = {name: x.detach() if isinstance(x, torch.Tensor) else x for name, x in given.items()}
            criterion(z1.detach(), z2.detach(), index, groups=groups, **known)
        return self._groups_alone(criterion, z1.device)(z1, z2, index, groups=groups, **{"tau": temperature(criterion), **given})

    def _groups_alone(self, criterion: GloFNDLoss, device: torch.device) -> GloFNDLoss:
        if device not in self._groups:
            core = criterion._core
            options = {name: value for name, value in core.values.items() if name in _SHARED}
            alone = GloFNDLoss(None, detector="groups", process_group=core.group, **options)
            self._groups[device] = alone.requires_grad_(False).to(device).eval()
        return self._groups[device]

"""Statistics that add up: counts of pairs over steps and ranks, and precision, recall and F1 of their sums."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

from ._lib import ArgumentError


class Counts:
    """Sums over steps. `judged`: flagged pairs of the steps that had labels, which precision is of. `same` and `hits` are of the steps that
    had labels and could flag."""

    def __init__(self) -> None:
        self.steps = self.pairs = self.flagged = self.judged = self.same = self.hits = 0

    def add(self, pairs: int, flagged: int, judged: int, same: int, hits: int, steps: int = 1) -> None:
        self.steps += steps
        self.pairs += pairs
        self.flagged += flagged
        self.judged += judged
        self.same += same
        self.hits += hits

    def stats(self) -> dict[str, Any]:
        precision, recall = _ratio(self.hits, self.judged), _ratio(self.hits, self.same)
        f1 = math.nan if math.isnan(precision + recall) else _ratio(2 * self.hits, self.judged + self.same)
        return {**vars(self), "flagged_share": _ratio(self.flagged, self.pairs), "precision": precision, "recall": recall, "f1": f1}


def _ratio(part: int, whole: int) -> float:
    return part / whole if whole else math.nan


def sum_stats(stats: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Adds up the statistics of several steps: what stats() of glofnd.torch returns, `result.stats` of glofnd.numpy, or for several ranks
    the epoch_stats() of each.

    The result has the sums `steps`, `pairs`, `flagged`, `same` and `hits`, the fraction `flagged_share` = flagged / pairs, and of all steps
    with labels `precision`, `recall` and `f1`: ratios of sums, not means of ratios. A ratio of nothing is NaN. `judged` are the flagged pairs
    of steps with labels: precision = hits / judged. Steps before start_epoch flag nothing and do not count for recall = hits / same.
    """
    total = Counts()
    for one in stats:
        try:
            flagged = int(one["flagged"])
            judged = one.get("judged", 0 if math.isnan(one["precision"]) else flagged)  # precision is NaN if nothing was flagged, too
            same = 0 if math.isnan(one["recall"]) else int(one["same"])
            total.add(int(one["pairs"]), flagged, int(judged), same, int(one["hits"]), int(one.get("steps", 1)))
        except (AttributeError, KeyError, IndexError, TypeError, ValueError):
            raise ArgumentError("stats: expected dicts of criterion.stats(), result.stats or criterion.epoch_stats()") from None
    return total.stats()

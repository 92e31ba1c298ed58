"""Names and values of the options, for editors and type checkers. python/tests/test_typing.py compares them with the library's."""

from __future__ import annotations

from typing import Literal, TypedDict

Loss = Literal["sogclr", "simclr", "fastclip", "isogclr", "sigmoid", "clip"]
Pairing = Literal["views", "image-text"]
Detector = Literal["none", "glofnd", "single", "fnc", "oracle", "groups", "components", "positive", "positive-relative", "mutual", "fixed", "fixed-mutual"]
Action = Literal["drop", "attract", "weight"]
LambdaInit = Literal["one", "quantile", "auto"]


class Options(TypedDict, total=False):
    """The options that GloFNDLoss has no parameter of its own for. `python -m glofnd --options` explains them."""

    pairing: Pairing
    directions: Literal["both", "forward"]
    omega: float
    fnc_rule: Literal["quantile", "topk", "threshold"]
    compat: Literal["paper", "official"]
    repeats: bool
    normalize: bool
    learner: Literal["adam", "sgd", "adam-official", "ring", "shrinkage", "auto"]
    lambda_init: LambdaInit
    update_epoch: int
    mask_epoch: int
    lambda_warmup: int
    lambda_lr: float
    lambda_beta1: float
    lambda_beta2: float
    lambda_decay: float
    gamma: float
    rho: float
    tau_lr: float
    tau_min: float
    bias: float
    ring_rows: int
    threads: int
    math: Literal["auto", "exact", "bf16", "split"]
    similarity: Literal["embedding", "bank"]
    attract_omega: float
    neighbours: int
    neighbour_rows: int
    neighbour_weight: float
    neighbour_share: float
    bank_momentum: float
    fnc_threshold: float
    margin: float
    fnc_support: int

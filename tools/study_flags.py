#!/usr/bin/env python3
"""What could flag false negatives better on a trained network? Labels give the answer.

    glofnd embed RUN --head --out z.npy --labels y.npy; glofnd embed RUN --out h.npy
    python3 tools/study_flags.py z.npy y.npy [--features h.npy] [--networks z2.npy z3.npy ...] [--alpha 0.01] [--anchors 2500]
                                 [--seed 0]

Compares, over all pairs of some anchors with the whole data: equal shares, one threshold, shares by the shape of an anchor's
similarities, and the best shares that labels could choose; the order of pairs by several scores; a calibrated probability as
the weight; thresholds predicted from the embedding. Needs NumPy; scikit-learn for the last three parts. --networks: embeddings
of the same samples by networks of other seeds; only how much their mean similarity knows more than one of them.
"""
import argparse

import numpy as np


def unit(x):
    return x / np.linalg.norm(x, axis=1, keepdims=True)


def whitened(x, dims=256):
    """Centred, the largest directions, each divided by the square root of its deviation."""
    x = unit(x) - unit(x).mean(0)
    values, vectors = np.linalg.eigh(x.T @ x / len(x))
    largest = np.argsort(-values)[:dims]
    return unit(x @ vectors[:, largest] / values[largest] ** 0.25)


def similarities(x, anchors):
    s = x[anchors] @ x.T
    s[np.arange(len(anchors)), anchors] = -2
    return s


def flagged(flags, same):
    """Share of flags; precision, recall, F1 over all pairs; F1 per anchor, all in percent."""
    right, count, wanted = (flags & same).sum(1), flags.sum(1), same.sum(1)
    precision, recall = right.sum() / count.sum(), right.sum() / wanted.sum()
    return 100 * np.array([flags.mean(), precision, recall, 2 * precision * recall / (precision + recall),
                           np.mean(2 * right / (count + wanted))])


def row(name, flags, same):
    print("| %s | %s |" % (name, " | ".join("%.2f" % v if i == 0 else "%.1f" % v for i, v in enumerate(flagged(flags, same)))))


def study_shares(s, same, alpha):
    n, anchors = s.shape[1], len(s)
    order = np.argsort(-s, axis=1)[:, : min(n, int(10 * alpha * n))]
    sorted_s, hits = np.take_along_axis(s, order, 1), np.take_along_axis(same, order, 1).cumsum(1)
    size = np.arange(1, order.shape[1] + 1)
    at = lambda count: np.take_along_axis(sorted_s, count[:, None], 1)
    share = np.full(anchors, int(alpha * n))
    print("| thresholds | flagged % | precision | recall | F1 pooled | F1 per anchor |\n|---|--:|--:|--:|--:|--:|")
    row("equal shares", s >= at(share - 1), same)
    lam = at(share - 1)
    for weight in (0.5, 0.0):
        d = s - weight * lam
        part = d[:, ::7].ravel()
        rank = -int(alpha * part.size)
        row("half of its own, half common" if weight else "one for all", d >= np.partition(part, rank)[rank], same)
    shapes = {"its 20 nearest": sorted_s[:, :20].mean(1),
              "surest fifth above λ": sorted_s[:, : share[0] // 5].mean(1) - lam[:, 0],
              "deviation of all": s.std(1)}
    for name, shape in shapes.items():
        rank = np.argsort(np.argsort(shape)) / anchors
        row("share 0.25 to 1.75 α by " + name, s >= at(np.maximum(1, (alpha * n * (0.25 + 1.5 * rank)).astype(int))), same)
    best = (2 * hits / (size + same.sum(1)[:, None])).argmax(1)
    row("labels choose the share: best F1 per anchor", s >= at(best), same)
    for cost in (0.1, 0.15, 0.2):  # hits - cost * flags is largest at the best pooled F1 for one of the costs
        gain = hits - cost * size
        threshold = np.where(gain.max(1)[:, None] > 0, at(gain.argmax(1)), 3)
        row("labels choose the share: best pooled, cost %.2f" % cost, s >= threshold, same)


def study_networks(networks, y, anchors, alpha):
    """Does the mean similarity of several networks know more than that of one?"""
    same = y[anchors][:, None] == y
    same[np.arange(len(anchors)), anchors] = False
    total = 0
    print("| networks | flagged % | precision | recall | F1 pooled | F1 per anchor | nearest is right: all | half | quarter |")
    print("|---|--:|--:|--:|--:|--:|--:|--:|--:|")
    for count, z in enumerate(networks, 1):
        total = total + similarities(z, anchors)
        count_flagged = int(alpha * len(y))
        flags = total >= np.partition(total, -count_flagged, axis=1)[:, -count_flagged][:, None]
        right = (y[total.argmax(1)] == y[anchors])[np.argsort(-total.max(1))]
        shares = ["%.1f" % (100 * right[: len(right) // part].mean()) for part in (1, 2, 4)]
        values = ["%.2f" % v if i == 0 else "%.1f" % v for i, v in enumerate(flagged(flags, same))]
        print("| %d | %s |" % (count, " | ".join(values + shares)))


def study_orders(z, y, h, lam, near, anchors, alpha):
    from sklearn.ensemble import HistGradientBoostingClassifier
    from sklearn.isotonic import IsotonicRegression
    n = len(z)

    def candidates(a):
        s = similarities(z, a)
        few = np.argpartition(-s, int(8 * alpha * n), axis=1)[:, : int(8 * alpha * n)]
        v = np.take_along_axis(s, few, 1)
        rank = np.argsort(np.argsort(-v, axis=1), axis=1)
        columns = [v, v - lam[a][:, None], v - lam[few], np.log1p(rank), np.broadcast_to(near[a][:, None], v.shape), near[few],
                   lam[few]]
        if h is not None:
            columns.append(np.take_along_axis(similarities(h, a), few, 1))
        return np.stack(columns, -1).reshape(-1, len(columns)).astype("f4"), (y[few] == y[a][:, None]).ravel()

    half = len(anchors) // 2
    x, right = candidates(anchors[:half])
    x2, right2 = candidates(anchors[half:])
    pairs, wanted = (len(anchors) - half) * (n - 1), sum((y == y[a]).sum() - 1 for a in anchors[half:])

    def order(name, score):
        hits = right2[np.argsort(-score)].cumsum()
        f1 = 2 * hits / (np.arange(1, len(hits) + 1) + wanted)
        shares = [alpha / 10, alpha * 0.3, alpha]
        precision = ["%.1f" % (100 * hits[int(p * pairs)] / int(p * pairs)) for p in shares]
        print("| %s | %s | %.1f |" % (name, " | ".join(precision), 100 * f1.max()))

    print("\n| order of pairs by | precision at α / 10 | 0.3 α | α | best pooled F1 |\n|---|--:|--:|--:|--:|")
    order("similarity", x2[:, 0])
    order("above λ of the anchor", x2[:, 1])
    order("above the mean of both λ", x2[:, 1] + x2[:, 2])
    if h is not None:
        order("similarity of whitened features", x2[:, 7])
        order("both similarities", x2[:, 0] / x2[:, 0].std() + x2[:, 7] / x2[:, 7].std())
    trees = HistGradientBoostingClassifier(max_iter=120, random_state=0)
    some = np.random.default_rng(0).permutation(len(right))[:1500000]
    order("boosted trees of all of these, trained by labels", trees.fit(x[some], right[some]).predict_proba(x2)[:, 1])
    p = IsotonicRegression(out_of_bounds="clip").fit(x[:, 0], right).predict(x2[:, 0])
    top = np.argsort(-x2[:, 0])[: int(alpha * pairs)]
    print("\nweights: of what is removed from the top α, false negatives are %.1f %% by 0/1 and %.1f %% by a calibrated "
          "probability; pairs with a probability above 1/2 hold %.1f %% of the false negatives" %
          (100 * right2[top].mean(), 100 * p[top] @ right2[top] / p[top].sum(), 100 * right2[p > 0.5].sum() / wanted))


def study_prediction(z, lam):
    from sklearn.linear_model import Ridge
    from sklearn.neural_network import MLPRegressor
    order = np.random.default_rng(0).permutation(len(z))
    known, new = order[: len(z) * 4 // 5], order[len(z) * 4 // 5:]
    network = MLPRegressor(hidden_layer_sizes=(128, 128), early_stopping=True, max_iter=60, learning_rate_init=2e-3,
                           random_state=0)
    error = lambda m: np.abs(m.fit(z[known], lam[known]).predict(z[new]) - lam[new]).mean()
    print("\nλ of new anchors: deviation %.4f; mean error of a constant %.4f, linear in the embedding %.4f, a network with two "
          "layers of 128 %.4f" %
          (lam.std(), np.abs(lam[new] - np.median(lam)).mean(), error(Ridge(1e-3)), error(network)))


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("embeddings")
    p.add_argument("labels")
    p.add_argument("--features")
    p.add_argument("--networks", nargs="+", default=[])
    p.add_argument("--alpha", type=float, default=0.01)
    p.add_argument("--anchors", type=int, default=2500)
    p.add_argument("--seed", type=int, default=0)
    o = p.parse_args()
    z, y = unit(np.load(o.embeddings).astype("f4")), np.load(o.labels).astype(int)
    h = whitened(np.load(o.features).astype("f4")) if o.features else None
    anchors = np.random.default_rng(o.seed).choice(len(z), min(len(z), o.anchors), replace=False)
    if o.networks:
        study_networks([z] + [unit(np.load(path).astype("f4")) for path in o.networks], y, anchors, o.alpha)
        return
    same = y[anchors][:, None] == y
    same[np.arange(len(anchors)), anchors] = False
    study_shares(similarities(z, anchors), same, o.alpha)
    n, rank = len(z), len(z) - int(o.alpha * (len(z) - 1))
    lam, near = np.empty(n, "f4"), np.empty(n, "f4")
    for i in range(0, n, 1000):
        block = np.partition(similarities(z, np.arange(i, min(n, i + 1000))), (rank, n - 20), axis=1)
        lam[i:i + 1000], near[i:i + 1000] = block[:, rank], block[:, n - 20:].mean(1)
    study_orders(z, y, h, lam, near, anchors, o.alpha)
    study_prediction(z, lam)


if __name__ == "__main__":
    main()

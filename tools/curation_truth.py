#!/usr/bin/env python3
"""Decisions of `glofnd discover` against planted truth, beside cleanlab, scikit-learn and FAISS where they are installed.

    tools/curation_truth.py [--glofnd build/glofnd] [--draws 3] [--peers] [NAME=EMB.npy,LABELS.npy ...]

Without NAME: Fashion-MNIST of Debian's package dataset-fashion-mnist, as 64 principal components of its pixels. Planted, with the seed of each draw:
  labels      200 of them changed, to any class (uniform) or to one of the two most similar classes (similar)
  duplicates  300 rows twice, the copy with noise of 1/30 of its length
  leaks       the last sixth of the rows is a test split; 100 rows of the training split are in it, too, with such noise
  outliers    100 rows of random directions; and the same, each twice
Prints a table in Markdown. Label issues: average precision; of the flagged rows the precision, the mean probability that the label is wrong and the
suggestion right, and the recall; and the share of flagged planted rows whose suggestion is the old label. Flagged are rows with a probability of 0.5
or more, and those of cleanlab's find_label_issues, which gives no such probability (nan). Then recall of planted duplicates and leaks, with the share
of planted ones among all that were found, and the least similarity of a removed row to the row that is kept for it; area under the ROC
curve of outliers; seconds of the processors. Needs NumPy.
"""

import argparse
import glob
import gzip
import importlib.util
import os
import resource
import subprocess
import sys
import tempfile

import numpy as np

CHANGED, COPIES, ALONE = 200, 300, 100


def fashion():
    path = next(iter(glob.glob("/usr/share/**/train-images-idx3-ubyte*", recursive=True)), None)
    if path is None:
        sys.exit("Fashion-MNIST is not there: apt-get install dataset-fashion-mnist, or give NAME=EMB.npy,LABELS.npy")
    read = gzip.open if path.endswith(".gz") else open
    with read(path) as images, read(path.replace("images-idx3", "labels-idx1")) as labels:
        x = np.frombuffer(images.read(), np.uint8, offset=16).reshape(-1, 784).astype(np.float32) / 255
        y = np.frombuffer(labels.read(), np.uint8, offset=8).astype(np.int32)
    x -= x.mean(0)
    _, axes = np.linalg.eigh(x.T @ x / len(x))
    return (x @ axes[:, -64:]).astype(np.float32), y


def processor_time():
    """Of this process and of those it has started."""
    return sum(u.ru_utime + u.ru_stime for u in map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)))


def unit(x):
    return x / np.linalg.norm(x, axis=1, keepdims=True)


def average_precision(score, truth):
    hit = truth[np.argsort(-score, kind="stable")]
    return float((np.cumsum(hit)[hit] / (np.flatnonzero(hit) + 1)).mean())


def area(score, truth):
    """Of the ROC curve; equal scores count half."""
    values, place, count = np.unique(score, return_inverse=True, return_counts=True)
    rank = (np.cumsum(count) - (count - 1) / 2)[place]
    yes = int(truth.sum())
    return float((rank[truth].sum() - yes * (yes + 1) / 2) / (yes * (len(truth) - yes)))


def change_labels(x, y, seed, kind):
    rng, classes, z = np.random.default_rng(seed), int(y.max()) + 1, y.copy()
    rows = rng.choice(len(y), CHANGED, replace=False)
    if kind == "uniform":
        z[rows] = (y[rows] + rng.integers(1, classes, CHANGED)) % classes
    else:
        centre = unit(np.stack([unit(x)[y == k].mean(0) for k in range(classes)]))
        near = (centre @ centre.T - 9 * np.eye(classes)).argsort(1)[:, -2:]
        z[rows] = near[y[rows], rng.integers(0, 2, CHANGED)]
    truth = np.zeros(len(y), bool)
    truth[rows] = True
    return z.astype(np.int32), truth


class Program:
    def __init__(self, path, folder):
        self.path, self.folder = path, folder

    def __call__(self, x, *flags, labels=None):
        emb, out = os.path.join(self.folder, "x.npy"), os.path.join(self.folder, "out")
        np.save(emb, x)
        words = [self.path, "discover", emb, "--out", out, "--force", "--quiet", *flags]
        if labels is not None:
            np.save(os.path.join(self.folder, "y.npy"), labels)
            words += ["--labels", os.path.join(self.folder, "y.npy")]
        begun = processor_time()
        subprocess.run(words, check=True, stdout=subprocess.DEVNULL)
        return processor_time() - begun

    def table(self, name):
        with open(os.path.join(self.folder, "out", name)) as lines:
            head, *rows = (line.rstrip("\n").split("\t") for line in lines)
        return {key: [row[k] for row in rows] for k, key in enumerate(head)}


def mean(values):
    return float(values.mean()) if len(values) else float("nan")


def flags(rows, truth):
    """Precision and recall of a set of rows."""
    hits = float(truth[rows].sum())
    return hits / max(len(rows), 1), hits / float(truth.sum())


def label_issues(program, x, y, seed, kind, *more):
    z, truth = change_labels(x, y, seed, kind)
    seconds = program(x, "--k", "10", "--top", "50", *more, labels=z)
    found = program.table("label_issues.tsv")
    rows, probability = np.array(found["row"], int), np.array(found["probability"], float)
    score = np.full(len(y), -1.0)
    score[rows] = np.array(found["score"], float)
    flagged = probability >= 0.5
    planted = flagged & truth[rows]
    right = np.array(found["suggested"], int)[planted] == y[rows[planted]]
    precision, recall = flags(rows[flagged], truth)
    return average_precision(score, truth), precision, mean(probability[flagged]), recall, mean(right), seconds


def cleanlab_issues(x, y, seed, kind):
    from cleanlab.filter import find_label_issues
    from cleanlab.rank import get_label_quality_scores
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import cross_val_predict
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler
    z, truth = change_labels(x, y, seed, kind)
    begun = processor_time()
    classifier = make_pipeline(StandardScaler(), LogisticRegression(max_iter=200))
    shares = cross_val_predict(classifier, x, z, cv=3, method="predict_proba")
    score = 1 - get_label_quality_scores(z, shares, method="self_confidence")
    rows = np.flatnonzero(find_label_issues(z, shares))
    best, planted = shares.argmax(1), np.intersect1d(rows, np.flatnonzero(truth))
    precision, recall = flags(rows, truth)
    return average_precision(score, truth), precision, float("nan"), recall, mean(best[planted] == y[planted]), processor_time() - begun


def noisy(x, rows, rng):
    noise = unit(rng.normal(size=(len(rows), x.shape[1])))
    return x[rows] + np.linalg.norm(x[rows], axis=1, keepdims=True) * noise / 30


def duplicates(program, x, seed):
    rng = np.random.default_rng(seed)
    both = np.concatenate([x, noisy(x, rng.choice(len(x), COPIES, replace=False), rng)]).astype(np.float32)
    seconds = program(both, "--k", "10", "--dup", "0.999")
    gone = program.table("remove.tsv")
    row, kept = np.array(gone["row"], int), np.array(gone["kept"], int)
    least = (unit(both)[row] * unit(both)[kept]).sum(1).min()
    return float(np.isin(np.arange(len(x), len(both)), row).mean()), float((row >= len(x)).mean()), float(least), seconds


def faiss_duplicates(x, seed):
    import faiss
    rng = np.random.default_rng(seed)
    both = unit(np.concatenate([x, noisy(x, rng.choice(len(x), COPIES, replace=False), rng)])).astype(np.float32)
    begun = processor_time()
    index = faiss.IndexFlatIP(both.shape[1])
    index.add(both)
    near, other = index.search(both, 11)
    gone = np.zeros(len(both), bool)
    for i in np.flatnonzero((near[:, 1:] >= 0.999).any(1)):
        gone[i] = any(j < i and not gone[j] for j in other[i][near[i] >= 0.999])
    row = np.flatnonzero(gone)
    return float(np.isin(np.arange(len(x), len(both)), row).mean()), float((row >= len(x)).mean()), processor_time() - begun


def leaky(x, seed):
    rng = np.random.default_rng(seed)
    train, test = np.split(x, [len(x) * 5 // 6])
    rows = rng.choice(len(train), ALONE, replace=False)
    return np.concatenate([train, test, noisy(train, rows, rng)]).astype(np.float32), len(train)


def leaks(program, x, seed):
    both, first = leaky(x, seed)
    seconds = program(both, "--duplicates", "--dup", "0.999", "--split", f"test={first}:{len(both)}", "--split", f"train=0:{first}")
    found = program.table("leaks.tsv")
    rows = np.unique(np.concatenate([np.array(found["a"], int), np.array(found["b"], int)]))
    rows = rows[rows >= first]
    return float(np.isin(np.arange(len(x), len(both)), rows).mean()), float((rows >= len(x)).mean()), seconds


def faiss_leaks(x, seed):
    import faiss
    both, first = leaky(x, seed)
    both = unit(both).astype(np.float32)
    begun = processor_time()
    index = faiss.IndexFlatIP(both.shape[1])
    index.add(both[:first])
    near, _ = index.search(both[first:], 1)
    rows = first + np.flatnonzero(near[:, 0] >= 0.999)
    return float(np.isin(np.arange(len(x), len(both)), rows).mean()), float((rows >= len(x)).mean()), processor_time() - begun


def outliers(program, x, seed, times):
    rng = np.random.default_rng(seed)
    strange = unit(rng.normal(size=(ALONE, x.shape[1]))) * np.linalg.norm(x, axis=1).mean()
    both = np.concatenate([x] + [strange] * times).astype(np.float32)
    seconds = program(both, "--k", "10", "--outliers", str(len(both)))
    found = program.table("outliers.tsv")
    score = np.zeros(len(both))
    score[np.array(found["row"], int)] = -np.array(found["score"], float)
    return area(score, np.arange(len(both)) >= len(x)), seconds


def peers_outliers(x, seed, times):
    from sklearn.neighbors import LocalOutlierFactor
    rng = np.random.default_rng(seed)
    strange = unit(rng.normal(size=(ALONE, x.shape[1]))) * np.linalg.norm(x, axis=1).mean()
    both = unit(np.concatenate([x] + [strange] * times)).astype(np.float32)
    begun = processor_time()
    factor = LocalOutlierFactor(n_neighbors=10).fit(both)
    return area(-factor.negative_outlier_factor_, np.arange(len(both)) >= len(x)), processor_time() - begun


def print_row(name, what, tool, values, digits=3):
    """values [draws][measures and seconds]: the first measure with its deviation, the others as means."""
    values = np.array(values, float)
    std = f" ({values[:, 0].std(ddof=1):.{digits}f})" if len(values) > 1 else ""
    rest = ", ".join(f"{v:.{digits}f}" for v in values[:, 1:-1].mean(0))
    print(f"| {name} | {what} | {tool} | {values[:, 0].mean():.{digits}f}{std} | {rest} | {values[:, -1].mean():.1f} |", flush=True)


def installed(name):
    return importlib.util.find_spec(name) is not None


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", nargs="*", metavar="NAME=EMB.npy,LABELS.npy")
    parser.add_argument("--glofnd", default="build/glofnd")
    parser.add_argument("--draws", type=int, default=3)
    parser.add_argument("--peers", action="store_true", help="also cleanlab with cross-validated logistic regression, and scikit-learn")
    asked = parser.parse_args()
    sets = [("Fashion-MNIST, PCA 64", *fashion())] if not asked.data else []
    for word in asked.data:
        name, _, files = word.partition("=")
        emb, _, labels = files.partition(",")
        sets.append((name, np.load(emb).astype(np.float32), np.load(labels).astype(np.int32)))
    print("| data | planted: first measure | tool | mean (std) | others | s |\n|---|---|---|--:|--:|--:|")
    labels = "average precision; of the flagged: precision, mean probability, recall, share of right suggestions"
    with tempfile.TemporaryDirectory() as folder:
        program, peers = Program(asked.glofnd, folder), asked.peers
        seeds = range(asked.draws)
        for name, x, y in sets:
            for kind in ("uniform", "similar"):
                what = f"labels, {kind}: {labels}"
                print_row(name, what, "glofnd --top 50", [label_issues(program, x, y, s, kind) for s in seeds])
                print_row(name, what, "glofnd --top 50 --probe", [label_issues(program, x, y, s, kind, "--probe") for s in seeds])
                if peers and installed("cleanlab"):
                    print_row(name, what, "cleanlab, logistic regression", [cleanlab_issues(x, y, s, kind) for s in seeds])
            what = "duplicates: recall; share of planted ones; least similarity to the kept row"
            print_row(name, what, "glofnd", [duplicates(program, x, s) for s in seeds], 4)
            if peers and installed("faiss"):
                print_row(name, what, "FAISS, flat", [faiss_duplicates(x, s) for s in seeds], 4)
            print_row(name, "leaks: recall; share of planted ones", "glofnd", [leaks(program, x, s) for s in seeds])
            if peers and installed("faiss"):
                print_row(name, "leaks: recall; share of planted ones", "FAISS, flat", [faiss_leaks(x, s) for s in seeds])
            for times, word in ((1, "once"), (2, "each twice")):
                print_row(name, f"outliers, {word}: area under the curve", "glofnd", [outliers(program, x, s, times) for s in seeds])
                if peers and installed("sklearn"):
                    print_row(name, f"outliers, {word}: area under the curve", "scikit-learn LOF",
                              [peers_outliers(x, s, times) for s in seeds])


if __name__ == "__main__":
    main()

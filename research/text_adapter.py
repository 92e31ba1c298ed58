"""Rules for false negatives where many pairs share a meaning: words and definitions of WordNet, an adapter on frozen MiniLM.

    python text_adapter.py embed MODEL OUT [--synsets 250] [--words 6]   MODEL: a folder of all-MiniLM-L6-v2; needs Debian's wordnet-base
    python text_adapter.py run DATA LOG [--epochs 15] [--first 1] [--seeds 10] BATCH:NAME[:OPTION=VALUE,...] ...
    python text_adapter.py table LOG [BASELINE]

A training pair is a word and the definition of its synset, of which 30 % of the words were dropped: all words of a synset have one meaning,
and no two of their texts are equal. So all other pairs of a synset are known false negatives. Tests: NDCG@10 of definitions, for a word of each
training synset that was kept out of training (`seen`), and for words of other synsets (`new`). The adapter is z = x + W x, normalised; W starts at 0.

NAME is `gist` (flags by the frozen embeddings: pairs that these find more similar than the positive), or any name, with the options of
glofnd.torch.GloFNDLoss. Rows of one seed and batch have equal batches. `run` needs one processor core, and about 2 s a run.
"""
from __future__ import annotations

import argparse
import collections
import json
import math
import sys
import time

import numpy as np

VARIANTS = 5


def synsets():
    """(words, definition) of every synset, each word in its first one of those that were chosen."""
    for part in ("noun", "verb", "adj", "adv"):
        with open(f"/usr/share/wordnet/data.{part}", encoding="latin-1") as file:
            for line in file:
                if line.startswith(" "):
                    continue
                fields, gloss = line.split("|", 1)
                fields = fields.split()
                words = [fields[4 + 2 * i].split("(")[0].replace("_", " ") for i in range(int(fields[3], 16))]
                yield list(dict.fromkeys(words)), gloss.split('; "')[0].strip()


def embed(model: str, out: str, count: int, least: int) -> None:
    import torch
    from sentence_transformers import SentenceTransformer

    rng = np.random.default_rng(0)
    rich, others, used = [], [], set()
    every = list(synsets())
    rng.shuffle(every)
    for words, gloss in every:
        free = [w for w in words if w.lower() not in used]
        if len(gloss.split()) < 4:
            continue
        if len(rich) < count and len(free) >= least:
            rich.append((free, gloss))
        elif len(others) < 1250 and len(free) == 1:
            others.append((free, gloss))
        else:
            continue
        used.update(w.lower() for w in free)
    words = [w for free, _ in rich for w in free[1:]]
    meaning = np.array([i for i, (free, _) in enumerate(rich) for _ in free[1:]])
    variants = []
    for i in meaning:
        parts = rich[i][1].split()
        for _ in range(VARIANTS):
            kept = rng.random(len(parts)) >= 0.3
            variants.append(" ".join(p for p, k in zip(parts, kept) if k) or parts[0])
    texts = words + variants + [free[0] for free, _ in rich + others] + [gloss for _, gloss in rich + others]
    torch.set_num_threads(2)
    z = SentenceTransformer(model, device="cpu").encode(texts, batch_size=256, show_progress_bar=True).astype(np.float16)
    a, b, c = len(words), len(words) + len(variants), len(words) + len(variants) + len(rich) + len(others)
    np.savez(out, words=z[:a], definitions=z[a:b].reshape(a, VARIANTS, -1), queries=z[b:c], corpus=z[c:], meaning=meaning, seen=len(rich))
    same = np.bincount(meaning)
    print(f"{a} pairs of {len(rich)} synsets; share of false negatives {((same * (same - 1)).sum() / (a * (a - 1))):.5f}; "
          f"{len(others)} other synsets")


def ndcg(net, data) -> dict:
    import torch

    with torch.no_grad():
        q, d = net(torch.from_numpy(data["queries"])), net(torch.from_numpy(data["corpus"]))
        s = q @ d.T
        rank = (s > s.diagonal()[:, None]).sum(1).numpy()
    gain = np.where(rank < 10, 1 / np.log2(rank + 2), 0)
    return {"seen": round(100 * gain[:data["seen"]].mean(), 3), "new": round(100 * gain[data["seen"]:].mean(), 3)}


def train(data: dict, seed: int, batch: int, name: str, options: dict, epochs: int) -> dict:
    import torch
    import torch.nn.functional as F
    from glofnd.torch import GloFNDLoss

    rng = np.random.default_rng(seed)
    pairs, width = data["words"].shape
    words, definitions = torch.from_numpy(data["words"]), torch.from_numpy(data["definitions"])
    meaning = torch.from_numpy(data["meaning"])
    weight = torch.nn.Parameter(torch.zeros(width, width))

    def net(x):
        return F.normalize(x + x @ weight.T, dim=1)

    result = {"name": name, "batch": batch, "seed": seed, "options": options, "epochs": epochs, "untrained": ndcg(net, data)}
    options = dict(options)
    oracle, loss_name = options.pop("oracle", 0), options.pop("loss", "simclr")
    criterion = None
    if name != "gist":
        criterion = GloFNDLoss(pairs, loss=loss_name, pairing="image-text", **{"tau": 0.05, "start_epoch": 1, **options})
    learned = [p for p in criterion.parameters()] if criterion is not None else []
    steps = pairs // batch
    optimizer = torch.optim.AdamW([{"params": [weight]}, {"params": learned, "weight_decay": 0.0}] if learned else [weight],
                                  lr=2e-3 * math.sqrt(batch / 128), weight_decay=0.01)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda s: 1 - s / (steps * epochs))
    shares, counts, began = [], collections.Counter(), time.time()
    for epoch in range(epochs):
        order, variant = torch.from_numpy(rng.permutation(pairs)), torch.from_numpy(rng.integers(0, VARIANTS, pairs))
        if criterion is not None:
            criterion.set_epoch(epoch)
        flagged = seen = 0
        for step in range(steps):
            index = order[step * batch:(step + 1) * batch]
            x, y = words[index], definitions[index, variant[index]]
            a, b, group = net(x), net(y), meaning[index]
            if criterion is None:
                guide, scores = x @ y.T, a @ b.T / 0.05
                both = []
                for g, s in ((guide, scores), (guide.T, scores.T)):
                    drop = g > g.diagonal()[:, None] + 1e-6
                    flagged, seen = flagged + int(drop.sum()), seen + batch * (batch - 1)
                    both.append(F.cross_entropy(s.masked_fill(drop, -math.inf), torch.arange(batch)))
                loss = sum(both) / 2
            else:
                loss = criterion(a, b, index, labels=group, groups=group if oracle else None)
                stats = criterion.stats()
                flagged, seen = flagged + stats["flagged"], seen + stats["pairs"]
                if epoch == epochs - 1:
                    counts.update({k: stats[k] for k in ("flagged", "same", "hits")})
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
        shares.append(float(f"{flagged / seen:.3g}"))
    marked, same, hits = (counts[k] for k in ("flagged", "same", "hits"))
    result.update(seconds=round(time.time() - began, 1), flagged_share=shares,
                  precision=round(hits / marked, 4) if marked else None, recall=round(hits / same, 4) if same else None,
                  f1=round(2 * hits / (marked + same), 4) if marked + same else None)
    return {**result, **ndcg(net, data)}


def value(text: str):
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            pass
    return text


def run(path: str, log: str, rows: list[str], epochs: int, first: int, seeds: int) -> None:
    import torch

    torch.set_num_threads(1)
    data = {k: v.astype(np.float32) if v.dtype == np.float16 else v for k, v in np.load(path).items()}
    for seed in range(first, first + seeds):
        for row in rows:
            batch, name, options = (row + "::").split(":")[:3]
            options = {k: value(v) for k, v in (x.split("=") for x in options.split(",") if x)}
            line = json.dumps(train(data, seed, int(batch), name, options, epochs))
            with open(log, "a", encoding="utf-8") as file:
                file.write(line + "\n")


def table(log: str, baseline: str) -> None:
    """Means (standard deviations) over seeds, and p of a two-sided paired t-test against the row BASELINE of the same batch."""
    from scipy import stats

    scores, flags = collections.defaultdict(dict), {}
    for line in open(log, encoding="utf-8"):
        r = json.loads(line)
        scores[r["batch"], r["name"]][r["seed"]] = r
    print("| batch | rule | share flagged, last epoch | precision | recall | seen | p | new | p |\n|--:|---|--:|--:|--:|--:|--:|--:|--:|")
    for (batch, name), runs in scores.items():
        base = scores.get((batch, baseline), {})
        cells = []
        for key in ("seen", "new"):
            x = np.array([runs[s][key] for s in sorted(runs)])
            pair = [(runs[s][key], base[s][key]) for s in runs if s in base]
            p = stats.ttest_rel(*zip(*pair)).pvalue if name != baseline and len(pair) > 2 else None
            cells += [f"{x.mean():.2f} ({x.std(ddof=1):.2f})", f"{p:.3g}" if p is not None else ""]
        mean = {k: np.mean([r[k] for r in runs.values() if r[k] is not None] or [np.nan]) for k in ("precision", "recall")}
        share = np.mean([r["flagged_share"][-1] for r in runs.values()])
        print(f"| {batch} | {name} | {100 * share:.2f} % | {mean['precision']:.2f} | {mean['recall']:.2f} | {' | '.join(cells)} |")


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    sub = p.add_subparsers(dest="do", required=True)
    e = sub.add_parser("embed")
    e.add_argument("model")
    e.add_argument("out")
    e.add_argument("--synsets", type=int, default=250)
    e.add_argument("--words", type=int, default=6)
    r = sub.add_parser("run")
    r.add_argument("data")
    r.add_argument("log")
    r.add_argument("rows", nargs="+")
    r.add_argument("--epochs", type=int, default=15)
    r.add_argument("--first", type=int, default=1, help="the first seed")
    r.add_argument("--seeds", type=int, default=10)
    t = sub.add_parser("table")
    t.add_argument("log")
    t.add_argument("baseline", nargs="?", default="none")
    a = p.parse_args()
    if a.do == "embed":
        embed(a.model, a.out, a.synsets, a.words)
    elif a.do == "run":
        run(a.data, a.log, a.rows, a.epochs, a.first, a.seeds)
    else:
        table(a.log, a.baseline)


if __name__ == "__main__":
    sys.exit(main())

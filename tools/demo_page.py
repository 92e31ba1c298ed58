#!/usr/bin/env python3
"""Writes OUT/index.html, the page of `make demo`: what was flagged, where the thresholds lie, what it is good for, and what discover found.

usage: demo_page.py GLOFND SPEC OUT SECONDS [FOUND_SPEC]      tools/demo.sh calls it

OUT holds the runs seed1, seed2, ... with their eval.jsonl, and of the first one thresholds.tsv, embeddings.npy and labels.npy. FOUND_SPEC is
the data whose splits OUT/found is about. Needs only Python. The samples shown are not chosen: they are the first of each class.
"""

import array
import ast
import base64
import html
import json
import math
import os
import random
import re
import struct
import subprocess
import sys
import tempfile

BINS, SHOWN, PAIRS, NEAREST = 56, 8, 8, 0.25      # NEAREST: fraction of the others that a figure shows
HARD, EASY = "Shirt", "Ankle boot"      # classes of the two figures, if the data has them

CSS = """
:root{color-scheme:light;--ink:#1a2027;--faint:#5a6673;--grid:#e1e6ec;--paper:#fff;--panel:#f7f8fa;--same:#0072b2;--rest:#c3cad2;--fnc:#d55e00;--left:#0072b218}
@media screen and (prefers-color-scheme:dark){:root{color-scheme:dark;--ink:#e8ebef;--faint:#a0abb7;--grid:#2c343d;--paper:#12161b;--panel:#191f26;
--same:#56b4e9;--rest:#48525e;--fnc:#ff9a4d;--left:#56b4e922}}
*{box-sizing:border-box}body{margin:0;background:var(--paper);color:var(--ink);font:16px/1.5 system-ui,-apple-system,'Segoe UI',Roboto,sans-serif}
main{max-width:1180px;margin:0 auto;padding:26px 24px 60px}h1{font-size:30px;line-height:1.2;letter-spacing:-.02em;margin:0 0 8px}
h2{font-size:22px;margin:48px 0 4px}p{margin:6px 0;max-width:104ch}.faint,footer{color:var(--faint);font-size:14px}a{color:var(--same)}
.tiles{display:grid;grid-template-columns:repeat(auto-fit,minmax(210px,1fr));gap:12px;margin:16px 0}
.tile{padding:12px 16px;background:var(--panel);border:1px solid var(--grid);border-radius:10px}
.tile b{display:block;font-size:29px;line-height:1.2;letter-spacing:-.02em;font-variant-numeric:tabular-nums}.tile span{color:var(--faint);font-size:14px;line-height:1.35;display:block}
.two{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,460px),1fr));gap:26px;margin:10px 0}
figure{margin:0;min-width:0}figcaption{font-weight:600;margin:0 0 4px}svg{display:block;width:100%;height:auto;overflow:visible}
svg text{font:13px system-ui,sans-serif;fill:var(--ink)}svg .tick{fill:var(--faint);font-size:12px}svg .grid{stroke:var(--grid)}svg .same{fill:var(--same)}svg .rest{fill:var(--rest)}
svg .beyond{fill:var(--left)}svg .level{stroke:var(--ink);stroke-width:2}svg .strong{font-weight:650}svg .fnc{fill:var(--fnc)}svg .line{fill:none;stroke:var(--same);stroke-width:2}
svg .chance{stroke:var(--faint);stroke-dasharray:4 4;fill:none}
.key{font-size:14px;color:var(--faint)}.key i{display:inline-block;width:12px;height:12px;border-radius:3px;margin:0 5px 0 14px;vertical-align:-1px}.key i:first-child{margin-left:0}
img{display:block;border-radius:4px;background:#000}.pic{display:inline-block;position:relative;padding:2px;border-radius:6px;border:3px solid transparent}
.pic.same{border-color:var(--same)}.pic.other{border-color:var(--fnc);border-style:dotted}.flags{overflow-x:auto}
.flags table{border-collapse:collapse}.flags td,.flags th{padding:3px 10px 3px 0;text-align:left;vertical-align:middle;white-space:nowrap}.flags th{font-weight:600;font-size:14px}
.flags .count{display:block;color:var(--faint);font-size:13px}.flags img{width:42px;height:42px}.flags td+td{padding-left:14px;border-left:1px solid var(--grid)}
.all{border-collapse:collapse;font-variant-numeric:tabular-nums;margin:8px 0}.all th,.all td{padding:5px 18px 5px 0;text-align:right;border-bottom:1px solid var(--grid)}
.all th{font-size:13px;color:var(--faint);font-weight:600;vertical-align:bottom}.all tr.mean td{font-weight:650}.wide{overflow-x:auto}
.cards{display:grid;grid-template-columns:repeat(auto-fill,minmax(132px,1fr));gap:10px;margin:10px 0}.card{border:1px solid var(--grid);background:var(--panel);border-radius:10px;padding:10px;
font-size:13.5px;line-height:1.35;text-align:center}.card div{display:flex;gap:6px;justify-content:center;margin-bottom:6px}.card img{width:52px;height:52px}.card.one img{width:76px;height:76px}
.card s{color:var(--faint)}.card b{color:var(--fnc)}pre{background:var(--panel);border:1px solid var(--grid);border-radius:8px;padding:10px 14px;overflow-x:auto;font-size:13.5px}
"""


# ----- what the program wrote -----

def read_npy(path):
    """(shape, values) of a .npy file of float32, int32 or int64."""
    with open(path, "rb") as file:
        magic = file.read(8)
        head = ast.literal_eval(file.read(struct.unpack("<H" if magic[6] == 1 else "<I", file.read(2 if magic[6] == 1 else 4))[0]).decode("latin-1"))
        values = array.array({"<f4": "f", "<i4": "i", "<i8": "q"}[head["descr"]])
        values.frombytes(file.read())
    return head["shape"], values


def read_table(path):
    with open(path, encoding="utf-8") as file:
        lines = [line.rstrip("\n").split("\t") for line in file]
    return [dict(zip(lines[0], line)) for line in lines[1:]]


def read_records(path):
    with open(path, encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def record(records, **wanted):
    """The newest record with these values."""
    return next(r for r in reversed(records) if all(r.get(key) == value for key, value in wanted.items()))


class Pictures:
    """PNG files of samples, as the program exports them: each SPEC once, for all rows that the page wants of it."""

    def __init__(self, glofnd):
        self.glofnd, self.wanted, self.uri, self.classes = glofnd, {}, {}, []

    def want(self, spec, row):
        self.wanted.setdefault(spec, []).append(row)

    def load(self):
        for spec, rows in self.wanted.items():
            rows = sorted(set(rows))
            with tempfile.TemporaryDirectory() as folder:
                listed, out = os.path.join(folder, "rows"), os.path.join(folder, "pictures")
                with open(listed, "w", encoding="utf-8") as file:
                    file.write("".join(f"{row}\n" for row in rows))
                joined = spec + ("&" if "?" in spec else "?") + "rows=" + listed
                subprocess.run([self.glofnd, "data", "export", joined, "--out", out, "--folder"], check=True, stdout=subprocess.DEVNULL)
                with open(os.path.join(out, "classnames.txt"), encoding="utf-8") as file:
                    self.classes = file.read().splitlines()
                for at, _, names in os.walk(out):
                    for name in names:
                        if name.endswith(".png"):
                            with open(os.path.join(at, name), "rb") as file:
                                self.uri[spec, rows[int(name[:-4])]] = "data:image/png;base64," + base64.b64encode(file.read()).decode()

    def img(self, spec, row, title):
        title = html.escape(title, quote=True)
        return f'<img src="{self.uri.get((spec, row), "data:,")}" alt="{title}" title="{title}">'


# ----- one anchor among all others -----

class Anchor:
    """A sample, its learned threshold, all others by their similarity, and what GloFND and FNC flag for it."""

    def __init__(self, row, x, labels, threshold, alpha, batch):
        self.row, self.label, self.threshold = row, labels[row], threshold
        mine = x[row]
        self.others = sorted(((sum(a * b for a, b in zip(mine, y)), other) for other, y in enumerate(x) if other != row), reverse=True)
        self.same = {other for _, other in self.others if labels[other] == self.label}
        self.glofnd = [pair for pair in self.others if pair[0] > threshold]
        # FNC: the (1 - alpha) quantile of each batch, interpolated; the others are split into random batches.
        mixed, self.fnc = self.others[:], []
        random.Random(row).shuffle(mixed)
        for first in range(0, len(mixed) - batch + 2, batch - 1):
            part = sorted(mixed[first:first + batch - 1])
            place = (1 - alpha) * (len(part) - 1)
            low = math.floor(place)
            level = part[low][0] + (place - low) * (part[min(low + 1, len(part) - 1)][0] - part[low][0])
            self.fnc += [pair for pair in part if pair[0] > level]
        self.fnc.sort(reverse=True)

    def right(self, flagged):
        return sum(other in self.same for _, other in flagged)


def spread(flagged):
    """SHOWN of them, evenly from the most to the least similar."""
    n = len(flagged)
    return flagged if n <= SHOWN else [flagged[round(k * (n - 1) / (SHOWN - 1))] for k in range(SHOWN)]


def ticks(low, high):
    """Round values between both, at most eight, with their texts."""
    step = next(s for s in (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0) if (high - low) / s <= 8)
    first = math.ceil(low / step - 1e-9)
    return [(k * step, f"{k * step:.{2 if step < 0.1 else 1}f}") for k in range(first, math.floor(high / step + 1e-9) + 1)]


def draw_anchor(a, name, picture):
    """The histogram of an anchor's similarities, with its threshold; the side that is left out is shaded."""
    width, left, right, top, bottom = 540, 8, 532, 92, 250
    near = a.others[:max(1, int(NEAREST * len(a.others)))]
    low, high = min(near[-1][0], a.threshold - 0.02), max(near[0][0], a.threshold + 0.02)
    same, rest = [0] * BINS, [0] * BINS
    for similarity, other in near:
        part = same if other in a.same else rest
        part[min(BINS - 1, int((similarity - low) / (high - low) * BINS))] += 1
    most = max(s + r for s, r in zip(same, rest))
    step = (right - left) / BINS

    def x(similarity):
        return left + (similarity - low) / (high - low) * (right - left)

    at, out = x(a.threshold), []
    out.append(f'<svg viewBox="0 0 {width} 296" role="img" aria-label="similarities of all other images to one, and its threshold">')
    out.append(f'<rect class="beyond" x="{at:.1f}" y="{top - 30}" width="{right - at:.1f}" height="{bottom - top + 30}"/>')
    for b in range(BINS):
        h, g = (bottom - top) * same[b] / most, (bottom - top) * rest[b] / most
        where = f'x="{left + b * step:.1f}" width="{step - 1:.1f}"'
        if h:
            out.append(f'<rect class="same" {where} y="{bottom - h:.1f}" height="{h:.1f}"/>')
        if g:
            out.append(f'<rect class="rest" {where} y="{bottom - h - g:.1f}" height="{g:.1f}"/>')
    out.append(f'<line class="grid" x1="{left}" x2="{right}" y1="{bottom}" y2="{bottom}"/>')
    out.append(f'<line class="level" x1="{at:.1f}" x2="{at:.1f}" y1="{top - 30}" y2="{bottom}"/>')
    for tick, text in ticks(low, high):
        out.append(f'<text class="tick" text-anchor="middle" x="{x(tick):.1f}" y="{bottom + 18}">{text}</text>')
    out.append(f'<text class="tick" text-anchor="middle" x="{(left + right) / 2}" y="{bottom + 38}">similarity to this image</text>')
    n, hits = len(a.glofnd), a.right(a.glofnd)
    turn = at > 0.62 * width      # where the texts find room
    out.append(f'<text text-anchor="end" x="{at - 8:.1f}" y="{top - 14}">learned threshold {a.threshold:.2f}</text>')
    out.append(f'<text text-anchor="end" x="{at - 8:.1f}" y="{top + 6}" class="tick">stay negatives: {len(a.others) - n:,}</text>')
    if turn:
        out.append(f'<text class="strong" text-anchor="end" x="{right}" y="{top - 40}">left out: {n}, {hits} of them the same kind</text>')
    else:
        out.append(f'<text class="strong" x="{at + 8:.1f}" y="{top - 14}">left out: {n},</text>')
        out.append(f'<text x="{at + 8:.1f}" y="{top + 4}">{hits} of them the same kind</text>')
    out.append(f'<image x="{left}" y="0" width="64" height="64" href="{picture}"/>')
    out.append(f'<text class="strong" x="{left + 74}" y="18">{html.escape(name)}</text></svg>')
    return "".join(out)


# ----- parts of the page -----

def mean(values):
    return sum(values) / len(values)


def seeds_of(values, form="{:.1f}"):
    return ", ".join(form.format(v) for v in values)


def tile(number, text):
    return f'<div class="tile"><b>{number}</b><span>{text}</span></div>'


def draw_levels(table):
    """Learned thresholds of all anchors, and the exact ones."""
    learned = [float(row["lambda"]) for row in table if row["lambda"] != "nan"]
    exact = [float(row["optimum"]) for row in table if row["lambda"] != "nan"]
    low, high = min(learned + exact), max(learned + exact) + 1e-6
    width, left, right, bottom, tall = 540, 8, 532, 190, 150
    out = [f'<svg viewBox="0 0 {width} 236" role="img" aria-label="learned and exact thresholds of all images">']

    def counts(values):
        part = [0] * BINS
        for value in values:
            part[min(BINS - 1, int((value - low) / (high - low) * BINS))] += 1
        return part

    bars, curve = counts(learned), counts(exact)
    most, step = max(bars + curve), (right - left) / BINS
    for b, count in enumerate(bars):
        h = tall * count / most
        out.append(f'<rect class="same" x="{left + b * step:.1f}" width="{step - 1:.1f}" y="{bottom - h:.1f}" height="{h:.1f}"/>')
    path = "".join(f'{"L" if b else "M"}{left + (b + 0.5) * step:.1f} {bottom - tall * count / most:.1f}' for b, count in enumerate(curve))
    out.append(f'<path d="{path}" fill="none" stroke="var(--ink)" stroke-width="2"/>')
    for tick, text in ticks(low, high):
        out.append(f'<text class="tick" text-anchor="middle" x="{left + (tick - low) / (high - low) * (right - left):.1f}" y="{bottom + 18}">{text}</text>')
    out.append(f'<text class="tick" text-anchor="middle" x="{(left + right) / 2}" y="{bottom + 38}">threshold</text></svg>')
    return "".join(out)


def draw_epochs(curves, chance):
    """Correct share of the flagged pairs by epoch, a line per seed."""
    width, left, right, top, bottom = 540, 40, 532, 12, 190
    epochs = max(len(c) for c in curves)

    def y(share):
        return bottom - share * (bottom - top)

    out = [f'<svg viewBox="0 0 {width} 236" role="img" aria-label="share of flagged pairs that are of one kind, by epoch">']
    for share in (0, 0.25, 0.5, 0.75, 1):
        out.append(f'<line class="grid" x1="{left}" x2="{right}" y1="{y(share):.1f}" y2="{y(share):.1f}"/>')
        out.append(f'<text class="tick" text-anchor="end" x="{left - 6}" y="{y(share) + 4:.1f}">{100 * share:.0f}</text>')
    for e in range(epochs):
        x = left + (right - left) * (e + 0.5) / epochs
        if epochs <= 16 or e % 2:
            out.append(f'<text class="tick" text-anchor="middle" x="{x:.1f}" y="{bottom + 18}">{e + 1}</text>')
    for c in curves:
        points = [f"{left + (right - left) * (e + 0.5) / epochs:.1f} {y(v):.1f}" for e, v in enumerate(c) if v is not None]     # None: nothing flagged yet
        out.append(f'<path class="line" d="M{"L".join(points)}"/>')
    out.append(f'<path class="chance" d="M{left} {y(chance):.1f}H{right}"/>')
    out.append(f'<text class="tick" text-anchor="end" x="{right}" y="{y(chance) - 6:.1f}">random pairs: {100 * chance:.0f} %</text>')
    out.append(f'<text class="tick" text-anchor="middle" x="{(left + right) / 2}" y="{bottom + 38}">epoch</text></svg>')
    return "".join(out)


def flag_rows(anchors, spec, pictures, name_of, labels):
    out = ['<div class="flags"><table><tr><th></th><th></th><th>GloFND: above the image\'s own learned threshold</th>'
           '<th style="padding-left:14px">FNC: the most similar of each batch</th></tr>']
    for a in anchors:
        cells = []
        for flagged in (a.glofnd, a.fnc):
            n, hits = len(flagged), a.right(flagged)
            images = "".join(f'<span class="pic {"same" if other in a.same else "other"}">'
                             f'{pictures.img(spec, other, f"{name_of(labels[other])}, similarity {similarity:.2f}")}</span>' for similarity, other in spread(flagged))
            share = f"{100 * hits / n:.0f} %" if n else "none"
            cells.append(f'<td>{images}<span class="count">{hits} of {n} are the same kind: {share}</span></td>')
        out.append(f'<tr><th>{html.escape(name_of(a.label))}</th><td><span class="pic">{pictures.img(spec, a.row, name_of(a.label))}</span></td>{"".join(cells)}</tr>')
    out.append("</table></div>")
    return "".join(out)


def at_most_two(rows, key, most):
    """The first rows, at most two with the same value."""
    shown, count = [], {}
    for row in rows:
        count[row[key]] = count.get(row[key], 0) + 1
        if count[row[key]] <= 2 and len(shown) < most:
            shown.append(row)
    return shown


class Found:
    """The folder that discover wrote about two splits: the first near duplicates across them, and the first suspicious labels."""

    def __init__(self, folder, spec):
        self.leaks = read_table(os.path.join(folder, "leaks.tsv"))
        self.issues = read_table(os.path.join(folder, "label_issues.tsv"))
        self.spec = spec
        with open(os.path.join(folder, "summary.json"), encoding="utf-8") as file:
            self.summary = json.load(file)
        # The most similar pair of every test image; at most two of a kind are shown, and at most two that one label is suggested for.
        best = {}
        for row in sorted(self.leaks, key=lambda row: -float(row["similarity"])):
            if row["a_split"] == "test":
                best.setdefault(row["a_index"], row)
        self.leaked, self.pairs = len(best), at_most_two(best.values(), "a_label", PAIRS)
        self.suspects = at_most_two(self.issues, "suggested", PAIRS)

    def split_spec(self, split):
        return self.spec + ("?split=test" if split == "test" else "")

    def place(self, row):
        """(SPEC, row) of a row of both splits together, the test split first."""
        first = int(self.summary["split_rows"][0])
        row = int(row["row"])
        return (self.split_spec("test"), row) if row < first else (self.split_spec("train"), row - first)

    def want(self, pictures):
        for row in self.pairs:
            for side in "ab":
                pictures.want(self.split_spec(row[side + "_split"]), int(row[side + "_index"]))
        for row in self.suspects:
            pictures.want(*self.place(row))

    def section(self, pictures, name_of):
        test, train = (int(n) for n in self.summary["split_rows"])
        out = ['<h2 id="found">What discover finds in the same images, without training</h2>',
               f"<p>The command below compared all {test + train:,} images of the dataset, training and test split, pixel by pixel. "
               f"<b>{self.leaked} of the {test:,} test images have a near copy in the training set.</b> A score on them does not show what a model has learned.</p>",
               f'<pre>glofnd discover --split "test={html.escape(self.spec)}?split=test" \\\n    --split train={html.escape(self.spec)} --k 10 --dup 0.999 --html --out found</pre>',
               '<p class="faint">The most similar pairs, at most two of a kind: a test image, and its near copy in the training set.</p><div class="cards">']
        for row in self.pairs:
            images = "".join(pictures.img(self.split_spec(row[s + "_split"]), int(row[s + "_index"]), f"{row[s + '_split']} image {row[s + '_index']}") for s in "ab")
            labels = sorted({name_of(int(row["a_label"])), name_of(int(row["b_label"]))})
            out.append(f'<div class="card"><div>{images}</div>{html.escape(" / ".join(labels))}<br><span class="faint">{row["a_index"]} and {row["b_index"]}</span></div>')
        out.append('</div><p class="faint">Suspicious labels: the label of the dataset, and the label that the nearest images agree on. Some are mistakes of the dataset; others are unusual '
                   'pictures. Look before you decide.</p><div class="cards">')
        for row in self.suspects:
            spec, at = self.place(row)
            out.append(f'<div class="card one"><div>{pictures.img(spec, at, row["name"])}</div><s>{html.escape(row["class"])}</s><br><b>{html.escape(row["suggested_class"])}?</b></div>')
        out.append('</div><p>All of them: <a href="found/index.html">the page of discover</a>.</p>')
        return "".join(out)


def main():
    if len(sys.argv) not in (5, 6):
        sys.exit(__doc__)
    glofnd, spec, out, seconds = sys.argv[1:5]
    runs = sorted((name for name in os.listdir(out) if re.fullmatch(r"seed\d+", name)), key=lambda name: int(name[4:]))
    evals = [read_records(os.path.join(out, run, "eval.jsonl")) for run in runs]
    logs = [[r for r in read_records(os.path.join(out, run, "log.jsonl")) if r["event"] == "epoch"] for run in runs]
    own = [record(e, event="fn", pairs="views", detector="glofnd") for e in evals]
    fnc = [record(e, event="fn", pairs="views", detector="fnc") for e in evals]
    error = [record(e, event="threshold") for e in evals]
    after = [100 * record(e, event="knn", untrained=False)["top1"] for e in evals]
    before = [100 * record(e, event="knn", untrained=True)["top1"] for e in evals]
    right, fnc_right = [100 * r["pooled_precision"] for r in own], [100 * r["pooled_precision"] for r in fnc]
    chance = mean([r["pooled_precision"] * r["flagged"] / r["pooled_recall"] for r in own if r["pooled_recall"]])
    alpha, batch, test_images = own[0]["alpha"], own[0]["batch"], int(record(evals[0], event="knn", untrained=False)["test_samples"])

    first = os.path.join(out, runs[0])
    (n, dim), values = read_npy(os.path.join(first, "embeddings.npy"))
    labels = list(read_npy(os.path.join(first, "labels.npy"))[1])
    x = []
    for row in range(n):
        v = values[row * dim:(row + 1) * dim]
        norm = math.sqrt(sum(e * e for e in v)) or 1.0
        x.append([e / norm for e in v])
    table = read_table(os.path.join(first, "thresholds.tsv"))
    threshold = {int(row["sample"]): float(row["lambda"]) for row in table if row["lambda"] != "nan"}

    def name_of(label):
        return pictures.classes[label] if 0 <= label < len(pictures.classes) else f"class {label}"

    anchors = []
    for label in sorted(set(labels)):
        row = next((row for row in range(n) if labels[row] == label and row in threshold), None)
        if row is not None:
            anchors.append(Anchor(row, x, labels, threshold[row], alpha, batch))

    pictures = Pictures(glofnd)
    found = Found(os.path.join(out, "found"), sys.argv[5]) if len(sys.argv) == 6 else None
    for a in anchors:
        pictures.want(spec, a.row)
        for flagged in (a.glofnd, a.fnc):
            for _, other in spread(flagged):
                pictures.want(spec, other)
    if found:
        found.want(pictures)
    pictures.load()

    by_name = {name_of(a.label): a for a in anchors}
    figures = [by_name.get(HARD, anchors[0]), by_name.get(EASY, anchors[-1])]
    page = [f'<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width,initial-scale=1">'
            f'<title>GloFND: the demo</title><link rel="icon" href="data:,"><style>{CSS}</style></head><body><main>']
    page.append(f"<h1>{mean(right):.0f} of 100 flagged pairs show two of a kind. At random, {100 * chance:.0f} would.</h1>"
                f"<p>A small network learned from {n:,} images without labels: contrastive training pulls two views of one image together and pushes "
                f"different images apart. That is wrong for two {'shirts' if HARD in by_name else 'of a kind'}: they are a <b>false negative</b>. GloFND learned a similarity threshold for each "
                "image while the network trained, and left the pairs above it out of the loss. Labels only served to count here.</p>")
    page.append('<div class="tiles">')
    page.append(tile(f"{mean(right):.1f} %", f"of GloFND's flags are right (seeds: {seeds_of(right)})"))
    page.append(tile(f"{mean(fnc_right):.1f} %", f"with FNC's rule, a quantile of each batch, at the same α = {100 * alpha:g}&nbsp;% on the same networks (seeds: {seeds_of(fnc_right)})"))
    page.append(tile(f"{mean(before):.1f} → {mean(after):.1f} %", f"of {test_images:,} test images classified by their nearest training images, before and after training "
                                                                  f"(seeds: {seeds_of(after)})"))
    if found:
        page.append(tile(f"{found.leaked}", f'test images have a near copy in the training set: <a href="#found">what discover found</a>'))
    page.append("</div>")
    page.append('<div class="two">')
    for a in figures:
        page.append(f"<figure>{draw_anchor(a, name_of(a.label), pictures.uri.get((spec, a.row), 'data:,'))}</figure>")
    page.append(f'</div><p class="key"><i style="background:var(--same)"></i>the same kind<i style="background:var(--rest)"></i>other kinds'
                f'<i style="background:var(--left);border:1px solid var(--same)"></i>left out of the loss. Labels colour the bars; training never saw them. A figure shows the {int(NEAREST * (n - 1)):,} most similar of '
                f"the {n - 1:,} other images. Each image has a threshold of its own.</p>")

    page.append('<h2 id="flags">What was flagged</h2><p>The first image of each kind in the data, and eight of the images that were flagged for it, from the most similar '
                "to the least. A blue frame: the same kind. A dotted orange frame: another kind.</p>")
    page.append(flag_rows(anchors, spec, pictures, name_of, labels))
    page.append(f'<p class="faint">FNC flags the top {100 * alpha:g}&nbsp;% of the {batch - 1} other images of each batch, at least the most similar one, '
                "even if it is another kind. A threshold over the whole dataset can flag none in one batch and many in the next.</p>")

    page.append('<h2 id="seeds">All seeds</h2><div class="wide"><table class="all"><tr><th>seed<th>flagged pairs<br>(α = '
                f"{100 * alpha:g} %)<th>of them right:<br>GloFND<th>FNC<th>random<br>pairs<th>error of a threshold:<br>GloFND<th>FNC<th>nearest neighbours:<br>before<th>after</tr>")
    columns = [[100 * r["flagged"] for r in own], right, fnc_right, [100 * chance] * len(runs), [r["mae"] for r in error], [r["fnc_mae"] for r in error], before, after]
    forms = ["{:.2f} %", "{:.1f} %", "{:.1f} %", "{:.1f} %", "{:.3f}", "{:.3f}", "{:.1f} %", "{:.1f} %"]
    for k, run in enumerate(runs):
        page.append(f"<tr><td>{run[4:]}" + "".join(f"<td>{form.format(column[k])}" for form, column in zip(forms, columns)) + "</tr>")
    page.append('<tr class="mean"><td>mean' + "".join(f"<td>{form.format(mean(column))}" for form, column in zip(forms, columns)) + "</tr></table></div>")
    page.append('<p class="faint">Flagged pairs: in batches, with the finished network. Error: mean distance of a threshold to the exact quantile over the whole data. The accuracy shows that '
                "the network learned something. It does not compare detectors: this demo trains with GloFND only.</p>")

    page.append('<div class="two"><figure><figcaption>How many flags were right, epoch by epoch</figcaption>'
                '<p class="faint">Flagged pairs of one kind, in percent; a line for each seed.</p>')
    page.append(draw_epochs([[e["pooled_precision"] for e in log] for log in logs], chance))
    page.append('</figure><figure><figcaption>Every image has its own threshold</figcaption><p class="faint">Bars: learned thresholds of all images. Line: the exact ones, '
                "computed afterwards from all pairs.</p>")
    page.append(draw_levels(table))
    page.append("</figure></div>")

    if found:
        page.append(found.section(pictures, name_of))
    page.append('<h2>More</h2><p><a href="report.html">The report of the runs</a>: maps of the embeddings, curves, costs. The same for your own images:</p>'
                "<pre>glofnd pretrain --data folder:IMAGES --out run1 --alpha 0.01\nglofnd report run1\nglofnd discover folder:IMAGES --html --out found</pre>")
    page.append(f"<footer>Made by make demo in {float(seconds):.0f} s, without the build. Data: <code>{html.escape(spec)}</code>. This page is one file and loads nothing.</footer></main></body></html>\n")
    with open(os.path.join(out, "index.html"), "w", encoding="utf-8") as file:
        file.write("\n".join(page))


if __name__ == "__main__":
    main()

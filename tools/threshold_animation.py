#!/usr/bin/env python3
"""Draws docs/img/threshold.svg, an animation: one image of Fashion-MNIST, the others by their similarity to it after every epoch of a short
training, and the threshold that is learned for it. Needs only Python and the images (Debian: dataset-fashion-mnist).

usage: threshold_animation.py GLOFND CONFIG WORK OUT.svg [--draw]

Trains in WORK with CONFIG (configs/demo.cfg), and after every epoch stores embeddings and thresholds there; --draw draws from what is stored.
"""

import glob
import math
import os
import re
import subprocess
import sys

from demo_page import Pictures, read_npy, read_table

SPEC, EPOCHS, CLASS = "fashion_mnist:/usr/share/datasets/fashion-mnist?first=2000", 12, 9      # an ankle boot
BINS, SECONDS, HOLD = 48, 0.8, 3.0      # of an epoch, and of the last one
WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM, LANE, SIDE = 760, 400, 24, 736, 196, 350, 62, 40
STYLE = ("text{font:14px system-ui,sans-serif;fill:#24292f}.title{font-weight:600;font-size:16px}.faint{fill:#59636e;font-size:13px}.paper{fill:#fff}.axis{stroke:#d8dce2}"
         ".same{fill:#0072b2}.rest{fill:#c3cad2}.beyond{fill:#0072b2;opacity:.12}.level{stroke:#24292f;stroke-width:2}.is{fill:none;stroke:#0072b2;stroke-width:3}"
         ".not{fill:none;stroke:#d55e00;stroke-width:3;stroke-dasharray:3 3}.still{display:none}"
         "@media (prefers-reduced-motion:reduce){.moving{display:none}.still{display:inline}}"
         "@media (prefers-color-scheme:dark){text{fill:#dde3ec}.faint{fill:#9aa5b1}.paper{fill:#1b1f27}.axis{stroke:#3a4352}.rest{fill:#4a5461}.level{stroke:#dde3ec}"
         ".same{fill:#56b4e9}.is{stroke:#56b4e9}.beyond{fill:#56b4e9}}")


def train(glofnd, config, work):
    """Every epoch leaves at_1.npy, at_1/thresholds.tsv ..."""
    run = os.path.join(work, "run")
    subprocess.run([glofnd, "pretrain", "--config", config, "--data", SPEC, "--epochs", str(EPOCHS), "--start_epoch", "0", "--alpha", "0.01",
                    "--checkpoint_minutes", "0", "--keep_checkpoints", str(EPOCHS), "--out", run], check=True)
    stored = sorted(os.listdir(os.path.join(run, "checkpoints")), key=lambda name: int(re.search(r"\d+", name).group()))
    for epoch, name in enumerate(stored, 1):
        at = os.path.join(work, f"at_{epoch}")      # a run that ended here
        os.makedirs(os.path.join(at, "checkpoints"))
        os.symlink(os.path.join(run, "config.cfg"), os.path.join(at, "config.cfg"))
        os.symlink(os.path.join(run, "checkpoints", name), os.path.join(at, "checkpoints", name))
        subprocess.run([glofnd, "embed", at, "--head", "--out", at + ".npy", "--labels", os.path.join(work, "labels.npy"), "--quiet"], check=True)
        subprocess.run([glofnd, "eval", "threshold", at, "--samples", "2000", "--quiet"], check=True, stdout=subprocess.DEVNULL)


class Frame:
    def __init__(self, work, epoch, row):
        (n, dim), values = read_npy(os.path.join(work, f"at_{epoch}.npy"))
        rows = [values[k * dim:(k + 1) * dim] for k in range(n)]
        norms = [math.sqrt(sum(e * e for e in v)) or 1.0 for v in rows]
        self.similarity = [sum(a * b for a, b in zip(rows[row], v)) / (norms[row] * norm) for v, norm in zip(rows, norms)]
        self.threshold = next(float(r["lambda"]) for r in read_table(os.path.join(work, f"at_{epoch}", "thresholds.tsv")) if int(r["sample"]) == row)


def main():
    if len(sys.argv) not in (5, 6):
        sys.exit(__doc__)
    glofnd, config, work, target = (os.path.abspath(x) for x in sys.argv[1:5])
    if sys.argv[5:] != ["--draw"]:
        os.makedirs(work)
        train(glofnd, config, work)
    labels = list(read_npy(os.path.join(work, "labels.npy"))[1])
    row = labels.index(CLASS)
    epochs = sorted(int(re.search(r"at_(\d+)\.npy$", path).group(1)) for path in glob.glob(os.path.join(work, "at_*.npy")))
    frames = [Frame(work, epoch, row) for epoch in epochs]
    others = [k for k in range(len(labels)) if k != row]
    low = math.floor(min(min(f.similarity[k] for k in others) for f in frames) * 10) / 10

    def x(similarity):
        return LEFT + (similarity - low) / (1 - low) * (RIGHT - LEFT)

    # The images that travel: of one kind and of others, evenly by their last similarity in the upper half.
    last = frames[-1].similarity
    same = sorted((k for k in others if labels[k] == CLASS), key=lambda k: last[k])
    rest = sorted((k for k in others if labels[k] != CLASS), key=lambda k: last[k])
    shown = [same[int(len(same) * q)] for q in (0.35, 0.65, 0.9)] + [rest[int(len(rest) * q)] for q in (0.3, 0.75, 0.97)]
    pictures = Pictures(glofnd)
    for k in [row] + shown:
        pictures.want(SPEC, k)
    pictures.load()

    total = SECONDS * (len(frames) - 1) + HOLD
    times = ";".join(f"{SECONDS * k / total:.4f}" for k in range(len(frames))) + ";1"

    def animate(attribute, values, extra=""):
        values = [*values, values[-1]]
        return f'<animate attributeName="{attribute}" dur="{total:.1f}s" repeatCount="indefinite" keyTimes="{times}" values="{";".join(values)}"{extra}/>'

    def move(values):
        values = [f"{v:.1f} 0" for v in [*values, values[-1]]]
        return f'<animateTransform attributeName="transform" type="translate" dur="{total:.1f}s" repeatCount="indefinite" keyTimes="{times}" values="{";".join(values)}"/>'

    counts = []
    for f in frames:
        both = [0] * BINS, [0] * BINS      # of its kind, all
        for k in others:
            b = min(BINS - 1, int((f.similarity[k] - low) / (1 - low) * BINS))
            both[1][b] += 1
            both[0][b] += labels[k] == CLASS
        counts.append(both)
    most = max(max(c[1]) for c in counts)

    def outline(part):
        d, step = f"M{LEFT} {BOTTOM}", (RIGHT - LEFT) / BINS
        for b, count in enumerate(part):
            d += f"V{BOTTOM - (BOTTOM - TOP) * count / most:.1f}H{LEFT + (b + 1) * step:.1f}"
        return d + f"V{BOTTOM}Z"

    def words(f, epoch):
        flagged = [k for k in others if f.similarity[k] > f.threshold]
        hits = sum(labels[k] == CLASS for k in flagged)
        return (f'<text x="{LEFT + 74}" y="64">epoch {epoch}: threshold {f.threshold:.2f}</text>'
                f'<text class="faint" x="{LEFT + 74}" y="84">left out of its loss: {len(flagged)} images, {hits} of them ankle boots</text>')

    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="One ankle boot, {len(others)} other images by their similarity '
           f'to it after each of {len(frames)} epochs, and the threshold that is learned for it">', f"<style>{STYLE}</style>",
           f'<rect class="paper" width="{WIDTH}" height="{HEIGHT}" rx="6"/>', "<defs>"]
    for at, k in enumerate(shown):
        out.append(f'<g id="p{at}"><image width="{SIDE}" height="{SIDE}" x="{-SIDE / 2}" href="{pictures.uri[SPEC, k]}"/>'
                   f'<rect class="{"is" if labels[k] == CLASS else "not"}" x="{-SIDE / 2}" width="{SIDE}" height="{SIDE}" rx="3"/></g>')
    out.append("</defs>")
    out.append(f'<image x="{LEFT}" y="20" width="64" height="64" href="{pictures.uri[SPEC, row]}"/>')
    out.append(f'<text class="title" x="{LEFT + 74}" y="38">One boot among {len(others):,} other images</text>')
    lanes = [LANE + 40 + (at % 2) * (SIDE + 6) for at in range(len(shown))]
    for kind in ("moving", "still"):
        moving = kind == "moving"
        out.append(f'<g class="{kind}">')
        out.append(f'<g transform="translate({x(frames[-1].threshold):.1f} 0)">{move([x(f.threshold) for f in frames]) if moving else ""}'
                   f'<rect class="beyond" width="{WIDTH}" y="{LANE + 34}" height="{BOTTOM - LANE - 34}"/></g>')
        for name, part in (("rest", 1), ("same", 0)):
            out.append(f'<path class="{name}" d="{outline(counts[-1][part])}">{animate("d", [outline(c[part]) for c in counts]) if moving else ""}</path>')
        out.append(f'<g transform="translate({x(frames[-1].threshold):.1f} 0)">{move([x(f.threshold) for f in frames]) if moving else ""}'
                   f'<path class="level" d="M0 {LANE + 34}V{BOTTOM}"/></g>')
        for at, k in enumerate(shown):
            out.append(f'<g transform="translate({x(last[k]):.1f} 0)">{move([x(f.similarity[k]) for f in frames]) if moving else ""}<use href="#p{at}" y="{lanes[at]}"/></g>')
        if moving:
            for e, (f, epoch) in enumerate(zip(frames, epochs)):
                on = ["visible" if k == e else "hidden" for k in range(len(frames))]
                out.append(f'<g visibility="hidden">{words(f, epoch)}{animate("visibility", on, chr(32) + "calcMode=" + chr(34) + "discrete" + chr(34))}</g>')
        else:
            out.append(words(frames[-1], epochs[-1]))
        out.append("</g>")
    out.append(f'<rect class="paper" x="{RIGHT + 1}" y="{LANE}" width="{WIDTH - RIGHT - 1}" height="{BOTTOM - LANE + 2}"/>')
    out.append(f'<path class="axis" d="M{LEFT} {BOTTOM}H{RIGHT}"/>')
    tick = math.ceil(low * 5) / 5
    while tick <= 1 + 1e-9:
        out.append(f'<text class="faint" text-anchor="middle" x="{x(tick):.1f}" y="{BOTTOM + 18}">{tick:.1f}</text>')
        tick = round(tick + 0.2, 1)
    out.append(f'<text class="faint" x="{LEFT}" y="{BOTTOM + 38}">similarity to the boot</text>')
    out.append(f'<rect class="same" x="{RIGHT - 236}" y="{BOTTOM + 28}" width="12" height="12"/><text class="faint" x="{RIGHT - 218}" y="{BOTTOM + 38}">ankle boots</text>')
    out.append(f'<rect class="rest" x="{RIGHT - 126}" y="{BOTTOM + 28}" width="12" height="12"/><text class="faint" x="{RIGHT - 108}" y="{BOTTOM + 38}">other kinds</text>')
    with open(target, "w", encoding="utf-8") as file:
        file.write("\n".join(out) + "</svg>\n")
    print(f"{target}: {len(frames)} epochs, {os.path.getsize(target)} bytes")


if __name__ == "__main__":
    main()

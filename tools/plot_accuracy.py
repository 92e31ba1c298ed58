#!/usr/bin/env python3
"""Draws docs/img/accuracy.svg: accuracy with 1 % of the labels, by detector, from a table of research/2026-11/results.md. Needs only Python.

usage: tools/plot_accuracy.py < research/2026-11/results.md > docs/img/accuracy.svg

The table has the columns of HEAD; a cell is "mean (standard deviation)".
"""
import re
import sys

HEAD, COLUMN = "| run, three seeds | kNN-20 | linear 100 % | 10 % | 1 % | mean of 3 |", 4
BARS = [("no detector", "no detector", "#8a8f98"), ("FNC", "FNC", "#d55e00"), ("GloFND", "GloFND", "#0072b2"),
        ("neighbours, share 0.5", "GloFND + neighbours", "#009e73")]     # Okabe-Ito: safe for colour-blind eyes
WIDTH, LEFT, RIGHT, TOP, ROW, BAR, FULL = 760, 180, 70, 44, 40, 24, 45
STYLE = ("text{font:14px system-ui,sans-serif;fill:#24292f}.title{font-weight:600}.paper{fill:#fff}.grid{stroke:#d8dce2}.error{stroke:#24292f;stroke-width:1.6}"
         "@media (prefers-color-scheme:dark){text{fill:#dde3ec}.paper{fill:#1b1f27}.grid{stroke:#3a4352}.error{stroke:#dde3ec}}")


def read_table(lines):
    """{run: (mean, standard deviation)}"""
    lines = [line.rstrip("\n") for line in lines]
    if HEAD not in lines:
        sys.exit("no table of three seeds: give research/2026-11/results.md as input")
    found = {}
    for line in lines[lines.index(HEAD) + 2:]:
        if not line.startswith("|"):
            break
        cells = [cell.strip().replace("*", "") for cell in line.strip("|").split("|")]
        value = re.fullmatch(r"([0-9.]+) \(([0-9.]+)\)", cells[COLUMN])
        if value:
            found[cells[0]] = float(value.group(1)), float(value.group(2))
    return found


def draw(values):
    height = TOP + ROW * len(BARS) + 34
    bottom = height - 30

    def x(value):
        return LEFT + (WIDTH - LEFT - RIGHT) * value / FULL

    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img" '
           'aria-label="Linear-probe accuracy with 1 % of the labels: ' +
           ", ".join(f"{name} {values[run][0]:.1f} %" for run, name, _ in BARS) + '">',
           f"<style>{STYLE}</style>", f'<rect class="paper" width="{WIDTH}" height="{height}" rx="6"/>',
           '<text class="title" x="16" y="26">CIFAR-100: linear-probe accuracy with 1 % of the labels</text>']
    for tick in range(0, FULL + 1, 10):
        out.append(f'<line class="grid" x1="{x(tick):.1f}" x2="{x(tick):.1f}" y1="{TOP}" y2="{bottom}"/>')
        out.append(f'<text text-anchor="middle" x="{x(tick):.1f}" y="{bottom + 19}">{tick}{" %" if tick else ""}</text>')
    for i, (run, name, colour) in enumerate(BARS):
        mean, deviation = values[run]
        middle = TOP + ROW * i + ROW / 2
        out.append(f'<text text-anchor="end" x="{LEFT - 12}" y="{middle + 5}">{name}</text>')
        out.append(f'<rect x="{LEFT}" width="{x(mean) - LEFT:.1f}" y="{middle - BAR / 2}" height="{BAR}" fill="{colour}"/>')
        low, high = x(mean - deviation), x(mean + deviation)
        out.append(f'<path class="error" fill="none" d="M{low:.1f} {middle}H{high:.1f}M{low:.1f} {middle - 5}v10M{high:.1f} {middle - 5}v10"/>')
        out.append(f'<text x="{high + 9:.1f}" y="{middle + 5}">{mean:.1f}</text>')
    return "\n".join(out) + "</svg>"


if __name__ == "__main__":
    print(draw(read_table(sys.stdin)))

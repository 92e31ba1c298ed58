#!/usr/bin/env python3
"""Draws docs/img/differences.svg from docs/img/differences.tsv: what each detector changed, seed by seed. Needs only Python.

usage: tools/plot_differences.py < docs/img/differences.tsv > docs/img/differences.svg

A line "# TEXT" begins a setting; other lines are: detector, tab, differences to the run without a detector, one per seed.
"""
import sys
from xml.sax.saxutils import escape

LEFT, RIGHT, ROW, HEAD, TOP, WIDTH = 190, 120, 24, 34, 30, 860
COLOURS = {"FNC": "#d55e00", "GloFND": "#0072b2"}      # Okabe-Ito: safe for colour-blind eyes
OTHER = "#009e73"
STYLE = ("text{font:13px system-ui,sans-serif;fill:#333}.h{font-weight:600}.g{stroke:#ddd}.z{stroke:#888}.m{fill:#777}"
         "@media (prefers-color-scheme:dark){text{fill:#dde3ec}.g{stroke:#3a4352}.z{stroke:#8a94a6}.m{fill:#9aa6b8}}")


def read_settings(lines):
    """[(setting, [(detector, [difference of a seed])])]"""
    settings = []
    for number, line in enumerate(lines, 1):
        line = line.rstrip("\n")
        if line.startswith("# "):
            settings.append((line[2:], []))
        elif line.strip():
            try:
                name, values = line.split("\t")
                settings[-1][1].append((name, [float(v) for v in values.split(",")]))
            except (ValueError, IndexError):
                sys.exit(f"line {number}: expected \"# SETTING\", or a detector, a tab and numbers: {line[:80]}")
    if not any(rows for _, rows in settings):
        sys.exit("no rows: give docs/img/differences.tsv as input")
    return settings


def signed(value, digits):
    return f"{value:+.{digits}f}".replace("-", "\u2212") if value else "0"


def draw(settings):
    values = [v for _, rows in settings for _, seeds in rows for v in seeds]
    low, high = min(0.0, min(values)) - 0.2, max(values) + 0.2
    height = TOP + sum(HEAD + ROW * len(rows) for _, rows in settings) + 44

    def x(value):
        return LEFT + (WIDTH - LEFT - RIGHT) * (value - low) / (high - low)

    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img" '
           'aria-label="Differences to training without a detector, by setting and detector">', f"<style>{STYLE}</style>"]
    bottom = height - 40
    for tick in range(int(low) - 1, int(high) + 2):
        if low <= tick <= high:
            out.append(f'<line class="{"g" if tick else "z"}" x1="{x(tick):.1f}" x2="{x(tick):.1f}" y1="{TOP}" y2="{bottom}"/>')
            out.append(f'<text text-anchor="middle" x="{x(tick):.1f}" y="{bottom + 18}">{signed(tick, 0)}</text>')
    y = TOP
    for setting, rows in settings:
        y += HEAD
        out.append(f'<text class="h" x="8" y="{y - 8}">{escape(setting)}</text>')
        for name, seeds in rows:
            colour, mean, middle = COLOURS.get(name, OTHER), sum(seeds) / len(seeds), y + ROW / 2
            out.append(f'<text text-anchor="end" x="{LEFT - 12}" y="{middle + 4:.1f}">{escape(name)}</text>')
            out.append(f'<line x1="{x(0):.1f}" x2="{x(mean):.1f}" y1="{middle}" y2="{middle}" '
                       f'stroke="{colour}" stroke-width="7" stroke-opacity=".35"/>')
            out += [f'<circle cx="{x(v):.1f}" cy="{middle}" r="4" fill="{colour}"/>' for v in seeds]
            out.append(f'<text class="m" x="{WIDTH - RIGHT + 12}" y="{middle + 4:.1f}">{signed(mean, 2)}</text>')
            y += ROW
    out.append(f'<text text-anchor="middle" x="{x((low + high) / 2):.1f}" y="{height - 4}">'
               "points against no detector; a dot is a seed, the bar their mean</text></svg>")
    return "\n".join(out)


if __name__ == "__main__":
    print(draw(read_settings(sys.stdin)))

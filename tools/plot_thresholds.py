#!/usr/bin/env python3
"""Draws docs/img/thresholds.svg from the table that build/examples/02_step prints. Needs only Python.

usage: build/examples/02_step | tools/plot_thresholds.py > docs/img/thresholds.svg
"""
import sys

W, H, LEFT, TOP, PLOT_W, PLOT_H, GAP = 860, 300, 62, 46, 330, 196, 88
BLUE, ORANGE, GREEN = "b", "o", "g"    # classes of the style below. Okabe-Ito: safe for colour-blind eyes

STYLE = ("<style>text{font:13px system-ui,sans-serif;fill:#333}.title{font-weight:600;font-size:15px}.grid{stroke:#ddd}.line{stroke-width:2.2}"
         ".b{fill:#0072b2;stroke:#0072b2}.o{fill:#d55e00;stroke:#d55e00}.g{fill:#009e73;stroke:#009e73}text.b,text.o,text.g{stroke:none;font-weight:600}"
         ".line.b,.line.o,.line.g{fill:none}@media (prefers-color-scheme:dark){text{fill:#dde3ec}.grid{stroke:#3a4352}"
         ".b{fill:#56b4e9;stroke:#56b4e9}}</style>")


def read_rows(lines):
    """(step, error, flagged %, precision, recall) of every line of the table."""
    rows = []
    for line in lines:
        f = line.replace("%", "").split()
        try:
            rows.append((int(f[0]), float(f[3]), float(f[4]), 100 * float(f[5]), 100 * float(f[6])))
        except (IndexError, ValueError):
            continue
    return rows


def axes(x0, title, unit, top, ticks, steps):
    out = [f'<text x="{x0}" y="24" class="title">{title}</text>']
    for t in ticks:
        y = TOP + PLOT_H * (1 - t / top)
        out.append(f'<line x1="{x0}" x2="{x0 + PLOT_W}" y1="{y:.1f}" y2="{y:.1f}" class="grid"/>')
        out.append(f'<text x="{x0 - 8}" y="{y + 4:.1f}" text-anchor="end">{t:g}{unit}</text>')
    for s in range(0, steps + 1, 120):
        out.append(f'<text x="{x0 + PLOT_W * s / steps:.1f}" y="{TOP + PLOT_H + 20}" text-anchor="middle">{s}</text>')
    out.append(f'<text x="{x0 + PLOT_W / 2}" y="{TOP + PLOT_H + 40}" text-anchor="middle">step</text>')
    return out


def curve(x0, rows, column, top, steps, colour, name, label_dy):
    points = [(x0 + PLOT_W * r[0] / steps, TOP + PLOT_H * (1 - min(r[column], top) / top)) for r in rows]
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    out = [f'<polyline points="{path}" class="line {colour}"/>']
    out += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" class="{colour}"/>' for x, y in points]
    x, y = points[-1]
    out.append(f'<text x="{x}" y="{y + label_dy:.1f}" text-anchor="end" class="{colour}">{name}</text>')
    return out


def main():
    rows = read_rows(sys.stdin)
    if not rows:
        sys.exit("no table on standard input: pipe build/examples/02_step into this")
    steps, right = rows[-1][0], LEFT + PLOT_W + GAP
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{W}" height="{H}" viewBox="0 0 {W} {H}" role="img">',
           STYLE]
    top = next((t for t in (0.04, 0.08, 0.2, 0.4) if max(r[1] for r in rows) <= 1.05 * t), 0.4)
    out += axes(LEFT, "Learned thresholds reach the exact quantiles", "", top, [top * k / 4 for k in range(5)], steps)
    out += curve(LEFT, rows, 1, top, steps, BLUE, "mean |λ − exact|", 24)
    out += axes(right, "Flagged pairs against the true classes", " %", 100, [0, 25, 50, 75, 100], steps)
    out += curve(right, rows, 3, 100, steps, GREEN, "precision", -12)
    out += curve(right, rows, 4, 100, steps, ORANGE, "recall", 22)
    out += curve(right, rows, 2, 100, steps, BLUE, f"flagged: {rows[-1][2]:.1f} %", -10)
    print("\n".join(out + ["</svg>"]))


if __name__ == "__main__":
    main()

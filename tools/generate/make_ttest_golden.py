#!/usr/bin/env python3
"""make_ttest_golden.py > tests/fixtures/ttest_golden.h - paired t-tests and tails of distributions by SciPy (1.6 or newer)."""
import numpy as np
import scipy
from scipy import special, stats

rng = np.random.default_rng(7)


def number(x):
    return {"inf": "INFINITY", "-inf": "-INFINITY", "nan": "NAN"}.get(str(x), repr(float(x)))


def samples():
    """Scores of a method and its baseline in percent, two decimals as tables print them."""
    sizes = [(2, 0.5, 0.2), (3, 1.0, 0.3), (3, 0.02, 0.4), (3, -1.5, 0.2), (5, 0.4, 0.5), (10, 0.1, 0.6), (3, 12.0, 0.01)]
    for n, gain, spread in sizes:
        base = np.round(70 + rng.normal(0, spread, n), 2)
        yield np.round(base + gain + rng.normal(0, spread, n), 2), base
    yield np.array([77.5, 77.6, 77.7]), np.array([77.5, 77.6, 77.7])


print("/* ttest_golden.h - made by tools/generate/make_ttest_golden.py with SciPy %s; do not edit. */" % scipy.__version__)
print("#ifndef GF_TTEST_GOLDEN_H\n#define GF_TTEST_GOLDEN_H\n\n#include <math.h>\n")
print("static const struct ttest_case {\n    int n;\n    double x[10], y[10], t, p_greater, p_less;\n} ttest_cases[] = {")
with np.errstate(all="ignore"):
    for x, y in samples():
        greater = stats.ttest_rel(x, y, alternative="greater")
        less = stats.ttest_rel(x, y, alternative="less")
        values = ", ".join(number(v) for v in (greater.statistic, greater.pvalue, less.pvalue))
        print("    {%d, {%s},\n     {%s},\n     %s}," % (len(x), ", ".join(map(number, x)), ", ".join(map(number, y)), values))
print("};\n\nstatic const struct student_case {\n    double t, df, above;\n} student_cases[] = {")
for df in (1, 2, 3, 9, 99, 1e4):
    for t in (-6, -1.5, -0.1, 0, 0.01, 0.7, 2.92, 12, 60):
        print("    {%s, %s, %s}," % (number(t), number(df), number(stats.t.sf(t, df))))
print("};\n\nstatic const struct beta_case {\n    double a, b, x, share;\n} beta_cases[] = {")
for a, b in ((0.5, 0.5), (1, 0.5), (5, 0.5), (0.5, 50), (2, 3), (300, 200)):
    for x in (1e-9, 0.01, 0.3, 0.5, 0.62, 0.99, 1 - 1e-9):
        print("    {%s, %s, %s, %s}," % tuple(map(number, (a, b, x, special.betainc(a, b, x)))))
print("};\n\n#endif")

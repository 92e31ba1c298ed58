#!/usr/bin/env python3
"""Writes tests/fixtures/logistic_golden.h: multinomial logistic regression by scikit-learn in float64, for
tests/eval/unit_logistic_regression.c.

    python3 tools/generate/make_logistic_golden.py [OUTPUT FILE]

Needs numpy and scikit-learn. Features are rounded to float32 first, so that both sides start from the same numbers. Of each
strength: the objective (mean cross entropy + l2 / (2 n) |W|^2), the share of training and of test rows classified rightly, and
the smallest distance between best and second best score of a row, so that the test can tell that no row hangs on rounding.
"""
import sys

import numpy as np
from sklearn.linear_model import LogisticRegression

N, TEST, DIM, CLASSES = 90, 60, 5, 4
STRENGTHS = (1e-3, 1e-1, 1.0, 30.0, 1e4)


def draw():
    rng = np.random.default_rng(7)
    y = rng.integers(0, CLASSES, N + TEST)
    centres = rng.standard_normal((CLASSES, DIM))
    x = (centres[y] + 1.1 * rng.standard_normal((N + TEST, DIM))).astype(np.float32)
    return x, y


def fit(x, y, l2):
    model = LogisticRegression(C=1 / l2, tol=1e-12, max_iter=100000).fit(x[:N].astype(np.float64), y[:N])
    z = x.astype(np.float64) @ model.coef_.T + model.intercept_
    top = z.max(1)
    entropy = np.log(np.exp(z[:N] - top[:N, None]).sum(1)) + top[:N] - z[np.arange(N), y[:N]]
    objective = entropy.mean() + l2 / (2 * N) * (model.coef_ ** 2).sum()
    right = z.argmax(1) == y
    second = np.sort(z, 1)[:, -2]
    return objective, right[:N].mean(), right[N:].mean(), (top - second).min(), model.coef_


def numbers(values, form="%.9g"):
    lines, line = [], "   "
    for v in values:
        text = " " + form % v + ","
        if len(line) + len(text) > 120:
            lines.append(line)
            line = "   "
        line += text
    return "\n".join(lines + [line])


def main():
    path = sys.argv[1] if len(sys.argv) > 1 else "tests/fixtures/logistic_golden.h"
    x, y = draw()
    with open(path, "w") as out:
        out.write("/* logistic_golden.h - made by tools/generate/make_logistic_golden.py; not to be edited. */\n")
        out.write("#ifndef TESTS_LOGISTIC_GOLDEN_H\n#define TESTS_LOGISTIC_GOLDEN_H\n\n#include <stdint.h>\n\n")
        out.write("enum { GOLDEN_N = %d, GOLDEN_TEST = %d, GOLDEN_DIM = %d, GOLDEN_CLASSES = %d };\n\n" % (N, TEST, DIM, CLASSES))
        out.write("/* [GOLDEN_N + GOLDEN_TEST][GOLDEN_DIM], training rows first */\nstatic const double golden_x[] = {\n")
        out.write(numbers(x.ravel()) + "\n};\nstatic const int32_t golden_label[] = {\n" + numbers(y, "%d") + "\n};\n\n")
        out.write("/* margin: smallest lead of a row's best score; weights [GOLDEN_CLASSES][GOLDEN_DIM] */\n")
        out.write("static const struct golden_fit {\n    double l2, objective, train, test, margin;\n")
        out.write("    double weights[GOLDEN_CLASSES * GOLDEN_DIM];\n} golden_fits[] = {\n")
        for l2 in STRENGTHS:
            objective, train, test, margin, w = fit(x, y, l2)
            out.write("    {%.17g, %.17g, %.17g, %.17g, %.3g, {\n%s\n    }},\n"
                      % (l2, objective, train, test, margin, numbers(w.ravel(), "%.12g")))
        out.write("};\n\n#endif\n")


main()

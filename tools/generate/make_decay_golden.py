#!/usr/bin/env python3
"""make_decay_golden.py > tests/fixtures/decay_golden.h - thresholds under lambda_decay: shares of negatives above lambda, one per
visit of an anchor, and lambda after each. Plain Python, float64; lambda and the moments are kept as float32, as in a store."""
import math
import struct

ALPHA, VISITS = 0.01, 24
SHARES = [((37 * t) % 11) / 508 if t > 3 else 0.0 for t in range(VISITS)]  # counts of 508 pairs; none at first
CASES = [  # learner, normalize, quantile start (None: lambda starts at 1), lr, decay
    ("SGD", 1, 0.55, 0.05, 4.0),
    ("SGD", 0, 0.55, 5.0, 2.5),
    ("SGD", 1, None, 0.05, 0.5),
    ("SGD", 1, 0.55, 0.05, 0.0),
    ("ADAM", 0, 0.55, 0.05, 4.0),
    ("ADAM", 0, None, 0.05, 10.0),
]


def single(x):
    return struct.unpack("<f", struct.pack("<f", x))[0]


def trajectory(learner, normalize, start, lr, decay):
    """lambda after each visit. The visit that sets it to a quantile is not one that shrinks the steps."""
    value, m, v, steps = 1.0 if start is None else single(start), 0.0, 0.0, 0
    for share in SHARES:
        steps += 1
        size = lr if decay == 0 or steps <= decay else lr * decay / steps
        g = (ALPHA - share) / (ALPHA if normalize else 1)
        if learner == "ADAM":
            m, v = 0.9 * m + (1 - 0.9) * g, 0.98 * v + (1 - 0.98) * g * g
            g = m / (1 - 0.9 ** steps) / (math.sqrt(v / (1 - 0.98 ** steps)) + 1e-8)
            m, v = single(m), single(v)
        value = single(min(1.0, max(-1.0, value - size * g)))
        yield value


def lines(values, per=8):
    texts = ["%.9g" % x for x in values]
    return ",\n         ".join(", ".join(texts[i:i + per]) for i in range(0, len(texts), per))


print("/* decay_golden.h - made by tools/generate/make_decay_golden.py; do not edit. */")
print("#pragma once\n\nenum { DECAY_VISITS = %d };\n#define DECAY_ALPHA %r" % (VISITS, ALPHA))
print("static const double decay_share[DECAY_VISITS] = {\n         %s};\n" % ",\n         ".join(
    ", ".join(map(repr, SHARES[i:i + 5])) for i in range(0, VISITS, 5)))
print("static const struct decay_case {\n    int sgd, normalize;\n    double start, lr, decay; /* start 0: lambda starts at 1 */")
print("    float lambda[DECAY_VISITS];\n} decay_cases[] = {")
for learner, normalize, start, lr, decay in CASES:
    print("    {%d, %d, %r, %r, %r,\n        {%s}}," % (learner == "SGD", normalize, start or 0, lr, decay,
                                                     lines(trajectory(learner, normalize, start, lr, decay))))
print("};")

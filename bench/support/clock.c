/* clock.c - see clock.h. */
#include "support/clock.h"

#include <math.h>
#include <stdlib.h>

void clock_add(clock_times *t, double ms) {
    if (t->count < CLOCK_MAX) t->ms[t->count++] = ms;
}

static int ascending(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double quantile(clock_times *t, double q) {
    if (t->count == 0) return NAN;
    qsort(t->ms, (size_t)t->count, sizeof t->ms[0], ascending);
    const double place = q * (t->count - 1);
    const int below = (int)place, above = below + 1 < t->count ? below + 1 : below;
    return t->ms[below] + (place - below) * (t->ms[above] - t->ms[below]);
}

double clock_median(clock_times *t) { return quantile(t, 0.5); }

double clock_least(clock_times *t) { return quantile(t, 0.0); }

double clock_spread(clock_times *t) { return (quantile(t, 0.75) - quantile(t, 0.25)) / clock_median(t); }

/* stats.c - see stats.h. */
#include "eval/stats.h"

#include <math.h>

double gf_mean(const double *x, int64_t n) {
    double sum = 0.0;
    for (int64_t i = 0; i < n; i++) sum += x[i];
    return n > 0 ? sum / (double)n : NAN;
}

double gf_std(const double *x, int64_t n) {
    const double mean = gf_mean(x, n);
    double square = 0.0;
    for (int64_t i = 0; i < n; i++) square += (x[i] - mean) * (x[i] - mean);
    return n > 1 ? sqrt(square / (double)(n - 1)) : NAN;
}

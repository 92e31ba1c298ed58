/* threshold_spread.c - see threshold_spread.h. */
#include "pairs/threshold_spread.h"

#include <math.h>

gf_threshold_error gf_threshold_error_of(const float *x, const float *optimum, int64_t n, int64_t each) {
    gf_threshold_error e = {0};
    double absolute = 0.0, square = 0.0, sum = 0.0;
    for (int64_t i = 0; i < n * each; i++) {
        const double d = (double)x[i] - (double)optimum[i / each];
        if (isnan(d)) continue;
        e.count++;
        absolute += fabs(d), square += d * d, sum += d;
    }
    const double count = e.count ? (double)e.count : NAN;
    e.mae = absolute / count, e.rmse = sqrt(square / count), e.bias = sum / count;
    return e;
}

gf_spread gf_spread_of(const float *x, int64_t n) {
    gf_spread s = {.min = NAN, .max = NAN};
    double sum = 0.0, square = 0.0;
    for (int64_t i = 0; i < n; i++) {
        if (isnan(x[i])) continue;
        s.count++;
        sum += (double)x[i];
        s.min = fmin(s.min, (double)x[i]), s.max = fmax(s.max, (double)x[i]);
    }
    s.mean = s.count ? sum / (double)s.count : NAN;
    for (int64_t i = 0; i < n; i++)
        if (!isnan(x[i])) square += ((double)x[i] - s.mean) * ((double)x[i] - s.mean);
    s.std = s.count ? sqrt(square / (double)s.count) : NAN;
    return s;
}

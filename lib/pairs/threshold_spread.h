/* threshold_spread.h - errors of thresholds against exact ones, and their spread. */
#pragma once

#include <stdint.h>

typedef struct gf_threshold_error {
    int64_t count;          /* number of thresholds compared */
    double mae, rmse, bias; /* mean absolute, root mean square and mean difference to the optimum; NaN: none */
} gf_threshold_error;

/* x [n][each] against optimum [n]; pairs with a NaN are left out. */
gf_threshold_error gf_threshold_error_of(const float *x, const float *optimum, int64_t n, int64_t each);

typedef struct gf_spread {
    int64_t count;
    double mean, std, min, max;
} gf_spread;

gf_spread gf_spread_of(const float *x, int64_t n); /* NaN are left out */

/* plain_thresholds.h - glofnd_exact_thresholds of contiguous float32 rows, as one call. */
#pragma once

#include "glofnd.h"

static inline glofnd_status plain_thresholds(glofnd_ctx *c, const void *q, int64_t rows, const void *k, int64_t cols, int64_t dim,
                                             const int64_t *skip, double alpha, float *out) {
    const glofnd_query x = {
        .size = sizeof x, .rows = rows, .cols = cols, .dim = dim, .q = q, .k = k, .skip = skip, .alpha = alpha};
    return glofnd_exact_thresholds(c, &x, out);
}

/* passes.h - elementwise operations on blocks [rows][cols], one pass over memory each, as an eager framework runs them: on all
 * threads, vectorised, each result in a block of its own. `t` holds a number per row.
 */
#pragma once

#include <stdint.h>

typedef struct extent {
    int64_t rows, cols;
    int threads;
} extent;

void pass_scale(extent e, float *y, const float *x, float factor);        /* y = x factor */
void pass_scale_rows(extent e, float *y, const float *x, const float *t); /* y = x t */
void pass_exp(extent e, float *y, const float *x);
void pass_keep(extent e, float *y, const float *x, const uint8_t *mask);              /* y = mask ? x : 0 */
void pass_fill(extent e, float *y, const float *x, const uint8_t *mask, float other); /* y = mask ? x : other */
void pass_above(extent e, uint8_t *y, const float *x, const float *t);                /* y = x > t */
void pass_at_most(extent e, uint8_t *y, const float *x, const float *t);              /* y = x <= t */
void pass_and(extent e, uint8_t *y, const uint8_t *a, const uint8_t *b);
void pass_differ(extent e, uint8_t *y, const int32_t *row, const int32_t *col); /* y = row[i] != col[j] */
void pass_count(extent e, int32_t *y, const uint8_t *mask);                     /* per row */
void pass_sum(extent e, double *y, const float *x);                             /* per row */
/* Per row the (1-alpha) quantile of its n largest values, interpolated; selects in a copy of the row, never sorts it. */
void pass_quantile(extent e, float *y, const float *x, int64_t n, double alpha);

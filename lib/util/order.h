/* order.h - order statistics of small arrays. */
#pragma once

#include <stdint.h>

/* The k-th largest of v[n], 1 <= k <= n; reorders v so that the k largest come first (the k-th at v[k-1]). No NaN. */
float gf_kth_largest(float *v, int64_t n, int64_t k);

/* Rising order of int32_t, for qsort and bsearch. */
int gf_order_int32(const void *x, const void *y);

/* ceil(alpha n), at least 1: how many of n values are the top alpha. Products that are whole but for rounding count as such. */
int64_t gf_top_count(int64_t n, double alpha);

/* Place of the (1-alpha) quantile of n values, interpolated as NumPy and PyTorch do: the best-th largest, moved by `fraction`
 * of the way to the next larger. Where every value occurs `copies` times, the quantile is that of the n / copies distinct ones:
 * between two equal values it would equal them, and fewer than the share alpha would be above it. */
void gf_quantile_place(int64_t n, int64_t copies, double alpha, int64_t *best, double *fraction);

/* That quantile; reorders v. */
float gf_quantile(float *v, int64_t n, double alpha);

/* The best-th largest of v[n], moved towards the next larger; reorders v. */
float gf_between(float *v, int64_t n, int64_t best, double fraction);

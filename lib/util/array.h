/* array.h - arrays that grow, and order statistics of small ones. */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* Makes the array at *pointer hold at least `count` items of `bytes` bytes each. *capacity is the number of items it holds; at
 * first it is 0, and *pointer NULL. Grows to twice the count, so that adding one by one takes linear time. 1: done; 0: no memory,
 * and nothing has changed.
 *
 *     if (!gf_grow(&list->item, &list->capacity, list->count + 1, sizeof *list->item)) return 0;
 *     list->item[list->count++] = x; */
int gf_grow(void *pointer, size_t *capacity, size_t count, size_t bytes);

/* ----- order ----- */

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

/* The smaller and the larger of two numbers of one type. An argument is evaluated twice. */
#define GF_MIN(a, b) ((a) < (b) ? (a) : (b))
#define GF_MAX(a, b) ((a) > (b) ? (a) : (b))

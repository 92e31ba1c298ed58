/* batchnorm_kernels.h - batch norm, conversion, sum and mean over a block of rows: the SIMD kernels behind cpu/nn.
 *
 * Rows are channels-last, [rows][c]. A kernel works on rows [r0, r1) of the arrays of a gf_nn_norm. Sums are made in float over
 * runs of few rows, which are then added in double: accurate enough for float inputs, at the speed of float.
 */
#pragma once

#include "nn/nn_ops.h"

typedef struct gf_norm_ops {
    /* partial [2][c] = sum of x - mean, of its square; n->mean is any number near x. */
    void (*sums)(double *partial, const gf_nn_norm *n, int64_t r0, int64_t r1);
    void (*apply)(const gf_nn_norm *n, int64_t r0, int64_t r1);
    /* dy becomes g; partial [2][c] = sum of g, of g (x - mean). */
    void (*back_sums)(double *partial, const gf_nn_norm *n, int64_t r0, int64_t r1);
    /* dx = scale g + coef[0] (x - mean) + coef[1] */
    void (*back_apply)(const gf_nn_norm *n, int64_t r0, int64_t r1);
    void (*cast)(gf_type type, void *dst, const float *src, int64_t count);
    void (*add)(gf_type type, void *dst, const void *src, int64_t count);
    /* One image: x [hw][c]. */
    void (*mean)(gf_type type, float *y, const void *x, int64_t hw, int64_t c);
    void (*mean_back)(gf_type type, void *dx, const float *dy, int64_t hw, int64_t c);
} gf_norm_ops;

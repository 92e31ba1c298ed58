/* token_kernels.h - rows of tokens: layer norm, activations, softmax, and the small sums around them; the SIMD kernels behind
 * cpu/nn.
 *
 * Rows may have any length. All arithmetic is float32, whatever type the arrays have.
 */
#pragma once

#include "nn/nn_ops.h"

typedef struct gf_row_ops {
    /* y = act(z);  g = dy act'(z). y may be z, g may be dy. */
    void (*act)(gf_nn_act act, gf_type type, void *y, const void *z, int64_t count);
    void (*act_back)(gf_nn_act act, gf_type type, void *g, const void *dy, const void *z, int64_t count);
    /* Rows r0 .. r1 of a layer norm; saved [rows][2] = mean, 1 / deviation. partial [2][c] = this block's parts of the gradients
     * of weight and bias. */
    void (*layernorm)(const gf_nn_shape *s, const gf_nn_args *a, int64_t r0, int64_t r1);
    void (*layernorm_back)(float *partial, const gf_nn_shape *s, const gf_nn_args *a, int64_t r0, int64_t r1);

    /* s [rows][ld] of scores becomes softmax over the first `keys` of each row, causal: over the first i + 1 of row i; zeros up
     * to ld, a multiple of GF_PANEL. lse [rows], or NULL: log of the sum of exponentials. */
    void (*softmax)(float *s, int64_t ld, int64_t rows, int64_t keys, int causal, float *lse);
    /* s becomes p = exp(s - lse), dp becomes p (dp - d): the gradient of the scores, d [rows] = sum of p dp. */
    void (*softmax_back)(float *s, float *dp, int64_t ld, int64_t rows, int64_t keys, int causal, const float *lse,
                         const float *d);

    /* dst [rows][to] = scale src [rows][ld], `cols` of them, then zeros; and back. */
    void (*gather)(float *dst, int64_t to, gf_type type, const void *src, int64_t ld, int64_t rows, int64_t cols, float scale);
    void (*scatter)(gf_type type, void *dst, int64_t ld, const float *src, int64_t from, int64_t rows, int64_t cols, float scale);
    /* d [rows] = scale a [rows][lda] . b [rows][ldb]; lda 0: one row for all. */
    void (*dots)(float *d, const float *a, int64_t lda, gf_type type, const void *b, int64_t ldb, int64_t rows, int64_t cols,
                 float scale);
    /* y [cols] = sum of w [rows] x [rows][ld];  x [rows][ld] = w [rows] y [cols]. */
    void (*mix)(float *y, const float *w, gf_type type, const void *x, int64_t ld, int64_t rows, int64_t cols);
    void (*outer)(gf_type type, void *x, int64_t ld, const float *w, const float *y, int64_t rows, int64_t cols);

    /* y = x + b;  sum += x */
    void (*plus)(gf_type to, void *y, gf_type from, const void *x, const float *b, int64_t count);
    void (*add_to)(float *sum, gf_type type, const void *x, int64_t count);
} gf_row_ops;

/* net_kernels.h - kernels of networks on the CPU: all of this folder for one instruction set, and the choice among them. The
 * folder is compiled once per instruction set, as lib/cpu/kernels. */
#pragma once

#include "cpu/kernels/cpu_kernels.h"
#include "device/pair_passes.h"
#include "nn/nn_ops.h"

/* ----- batch norm ----- */

/* Batch norm, conversion, sum and mean over a block of rows: the SIMD kernels behind nn/cpu.
 *
 * Rows are channels-last, [rows][c]. A kernel works on rows [r0, r1) of the arrays of a gf_nn_norm. Sums are made in float over
 * runs of few rows, which are then added in double: accurate enough for float inputs, at the speed of float. */

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

/* ----- rows of tokens ----- */

/* Rows of tokens: layer norm, activations, softmax, and the small sums around them; the SIMD kernels behind
 * nn/cpu.
 *
 * Rows may have any length. All arithmetic is float32, whatever type the arrays have. */

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

/* ----- 3 x 3 convolutions ----- */

/* Winograd's short convolution for 3 x 3 windows, stride 1, padding 1: the transforms.
 *
 * The image is cut into tiles of 4 x 4 outputs, each made from 6 x 6 inputs. Evaluated at six points in each direction, a
 * tile becomes 36 numbers per channel, and the convolution 36 matrix products instead of the 144 that a plain one needs:
 *   forward     y  = A' [(G g G') . (B' x B)] A              per tile, summed over input channels at `.`
 *   backward    dg = G' [sum over tiles (A dy A') . (B' x B)] G
 * The points are 0, +-3/4, +-3/2 and infinity: they keep the error of float32 at about six times that of plain sums, half of what
 * the usual 0, +-1, +-2 give.
 *
 * Numbers of plane i, tile t, channel c lie at planes[i * plane + t * row + (c / GF_PANEL) * panel + c % GF_PANEL]: panel =
 * GF_PANEL gives rows of channels, any other value the right side of a matrix product. All counts of channels are multiples of
 * GF_PANEL. */

enum { GF_WINO_OUT = 4, GF_WINO_PLANES = 36 };

typedef struct gf_wino_image { /* [h][w][c] */
    gf_type type;
    void *data;
    int64_t h, w, c;
} gf_wino_image;

typedef struct gf_wino_planes { /* of one tile: data is its first number */
    float *data;
    size_t plane, panel;
} gf_wino_planes;

/* Weights of [out][in][3][3] as a pass uses them: forward has `rows` = in and `cols` = out; the gradient of x is a convolution of
 * dy with turned windows and the two exchanged. */
typedef struct gf_wino_weights {
    float *data; /* only `gradient` writes */
    int64_t rows, cols;
    int64_t row_step, col_step; /* floats */
    int turned;
} gf_wino_weights;

typedef struct gf_wino_ops {
    /* Tile whose first output is (y, x): B' x B of the 6 x 6 around it, zeros beyond the edges. */
    void (*input)(const gf_wino_planes *to, const gf_wino_image *from, int64_t y, int64_t x);
    /* A' m A, as far as it lies in the image. */
    void (*output)(const gf_wino_image *to, const gf_wino_planes *from, int64_t y, int64_t x);
    /* A dy A', zeros beyond the edges. */
    void (*spread)(const gf_wino_planes *to, const gf_wino_image *from, int64_t y, int64_t x);
    /* u [36][cols / GF_PANEL][rows][GF_PANEL] = G g G', for rows [r0, r1) of one panel of columns. */
    void (*weights)(float *u, const gf_wino_weights *w, int64_t panel, int64_t r0, int64_t r1);
    /* w = G' du G, du [36][rows][cols], for rows [r0, r1) of one panel of columns. */
    void (*gradient)(const gf_wino_weights *w, const float *du, int64_t panel, int64_t r0, int64_t r1);
} gf_wino_ops;

/* ----- the choice ----- */

typedef struct gf_net_kernels {
    const char *isa;         /* as in gf_cpu_kernels */
    const gf_norm_ops *norm; /* batch norm */
    const gf_row_ops *row;   /* rows of tokens: layer norm, activations, softmax */
    const gf_wino_ops *wino; /* 3 x 3 convolutions */
} gf_net_kernels;

/* Those of the instruction set that gf_cpu_kernels_get() chose. */
const gf_net_kernels *gf_net_kernels_get(void);
/* By instruction set; NULL: not compiled in, or not supported by this CPU. */
const gf_net_kernels *gf_net_kernels_find(const char *isa);

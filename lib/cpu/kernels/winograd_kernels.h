/* winograd_kernels.h - Winograd's short convolution for 3 x 3 windows, stride 1, padding 1: the transforms.
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
 * GF_PANEL.
 */
#pragma once

#include "nn/nn_ops.h"
#include "device/pair_passes.h"

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

/* tile_product.c - the one matrix product: C (+)= A B on a tile, packed for registers.
 *
 * A is m x k with any two strides, so that rows, or the transpose of a tile, are read in place. B comes in panels of GF_PANEL
 * columns: element (k, j) of panel p is b[p * b_panel + k * b_k + j]. Each element of C is one chain of fused multiply-adds
 * over k = 0, 1, ..: its bits do not depend on the tile it lies in, nor on which of the two factors is the row. The masks of
 * different passes and ranks agree because of that.
 */
#include "cpu/kernels/simd.h"
#include "cpu/kernels/tile.h"
#include "cpu/kernels/tile_names.h"

#if GF_LANES == 16
#define ROWS 8 /* 8 x 2 accumulators of the 32 registers: two loads and eight broadcasts feed sixteen FMAs */
#define VECS 2
#elif defined(GF_NEON)
#define ROWS 4 /* 4 x 4 of the 32 registers: four loads and four broadcasts feed sixteen FMAs */
#define VECS 4
#else
#define ROWS 4 /* 4 x 2 of the 16 registers */
#define VECS 2
#endif
#define COLS (VECS * GF_LANES)

GF_INLINE void micro(float *c, size_t c_row, const float *a, size_t a_row, size_t a_k, const float *b, size_t b_k, int k,
                     int accumulate) {
    vf acc[ROWS][VECS];
    for (int r = 0; r < ROWS; r++)
        for (int v = 0; v < VECS; v++) acc[r][v] = accumulate ? vf_load(c + r * c_row + v * GF_LANES) : vf_set(0.0f);
    for (int i = 0; i < k; i++) {
        vf bv[VECS];
        for (int v = 0; v < VECS; v++) bv[v] = vf_load(b + i * b_k + v * GF_LANES);
        for (int r = 0; r < ROWS; r++) {
            const vf av = vf_set(a[r * a_row + i * a_k]);
            for (int v = 0; v < VECS; v++) acc[r][v] = vf_fma(av, bv[v], acc[r][v]);
        }
    }
    for (int r = 0; r < ROWS; r++)
        for (int v = 0; v < VECS; v++) vf_store(c + r * c_row + v * GF_LANES, acc[r][v]);
}

void GF_NAME(gf_tile_product)(float *c, size_t c_row, const float *a, size_t a_row, size_t a_k, const float *b, size_t b_k,
                              size_t b_panel, int m, int n, int k, int accumulate) {
    for (int p = 0; p < n / GF_PANEL; p++)
        for (int j = 0; j < GF_PANEL; j += COLS) {
            const float *bp = b + p * b_panel + j;
            float *cp = c + (size_t)p * GF_PANEL + j;
            for (int r = 0; r < m; r += ROWS) {
                float *cr = cp + r * c_row;
                const float *ar = a + r * a_row;
                if (a_k == 1 && accumulate) micro(cr, c_row, ar, a_row, 1, bp, b_k, k, 1);
                else if (a_k == 1) micro(cr, c_row, ar, a_row, 1, bp, b_k, k, 0);
                else if (a_k == GF_PANEL && b_k == GF_PANEL) micro(cr, c_row, ar, 1, GF_PANEL, bp, GF_PANEL, k, accumulate);
                else micro(cr, c_row, ar, 1, a_k, bp, b_k, k, accumulate);
            }
        }
}

/* As vf_fma on one lane. */
GF_INLINE float fma_one(float a, float b, float c) {
#if defined(__FMA__) || defined(GF_NEON)
    return __builtin_fmaf(a, b, c);
#else
    return a * b + c;
#endif
}

void GF_NAME(gf_tile_dots)(float out[GF_TILE_DOTS], const float *a, const float *const b[GF_TILE_DOTS], int64_t n) {
    float sum[GF_TILE_DOTS] = {0};
    for (int64_t i = 0; i < n; i++)
        for (int r = 0; r < GF_TILE_DOTS; r++) sum[r] = fma_one(a[i], b[r][i], sum[r]);
    memcpy(out, sum, sizeof sum);
}

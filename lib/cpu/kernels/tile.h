/* tile.h - one tile of similarities and the operations on it; the interface between passes and the SIMD kernels.
 *
 * A tile is prows x pcols floats (multiples of GF_PANEL), of which rows x cols are pairs; padding and pairs of one sample hold
 * NaN, for which every comparison is false. r0, c0 place it in the row arrays of its two sides.
 */
#pragma once

#include <stddef.h>

#include "device/pair_passes.h"

#define GF_TILE_MAX 512
#define GF_TILE_DOTS 8

typedef struct gf_tile {
    float *s;           /* [prows][ld] */
    const float *score; /* [prows][ld] GF_TIE: what flags; else NULL */
    size_t ld;
    int rows, cols, prows, pcols;
    int64_t r0, c0;
    int dirty; /* holds NaN */
} gf_tile;

/* Bits of `marks` for row i and the columns from c on: c is a multiple of the lanes of a kernel, which divide 32. */
static inline unsigned gf_tile_marks(const uint32_t *marks, int64_t ld, int64_t i, int64_t c) {
    return marks[i * ld + c / 32] >> (c % 32);
}

typedef struct gf_tile_scratch {   /* per thread */
    float *s, *score, *transposed; /* [tile][tile] */
    float sum[GF_TILE_MAX];        /* column accumulators of one tile */
    int32_t count[GF_TILE_MAX];
} gf_tile_scratch;

/* Lengths of vectors of integers, of the left and of the right side of a product: with the rounding of up to GF_INT16_DEPTH
 * numbers their product is below 2^31. */
#define GF_INT16_SHORT 32700.0f
#define GF_INT16_LONG 65400.0f
#define GF_INT16_DEPTH 16384

typedef struct gf_int16_words { /* vectors of 16-bit integers, two in a word */
    const uint32_t *word;       /* left side: (r, k) at r * row + k * k; right side: panel p from p * row on */
    size_t row, k;
    const float *step; /* of each vector: what its 1 stands for */
} gf_int16_words;

typedef struct gf_tile_ops {
    /* C [m][n] (+)= A [m][k] B [k][n]; m, n multiples of GF_PANEL; a_row or a_k is 1 (tile.c). */
    void (*product)(float *c, size_t c_row, const float *a, size_t a_row, size_t a_k, const float *b, size_t b_k, size_t b_panel,
                    int m, int n, int k, int accumulate);
    /* The same of bf16 numbers, two along k in a word; k counts words (tile_product16.c). */
    void (*product16)(float *c, size_t c_row, const uint32_t *a, size_t a_row, size_t a_k, const uint32_t *b, size_t b_k,
                      size_t b_panel, int m, int n, int k, int accumulate);
    /* words[i]: first[i] and second[i] rounded to bf16; n a multiple of GF_PANEL. */
    void (*words)(uint32_t *words, const float *first, const float *second, int64_t n);
    /* out[i]: in[i] rounded to bf16; n a multiple of GF_PANEL. */
    void (*round)(uint16_t *out, const float *in, int64_t n);
    /* The product of vectors of integers; k counts words (tile_product_int16.c). m: a multiple of 8. */
    void (*product_int16)(float *c, size_t c_row, const gf_int16_words *a, const gf_int16_words *b, int m, int n, int k,
                          int accumulate);
    int (*int16_is_fast)(void); /* 1: twice as fast as `product` */
    /* A left vector: n numbers, a multiple of GF_PANEL, as integers; returns their step. out == in is fine. */
    float (*row_to_int16)(int16_t *out, const float *in, int64_t n);
    /* GF_PANEL right vectors: panel [rows][GF_PANEL], rows even, becomes words [rows / 2][GF_PANEL]; both may be one array. */
    void (*panel_to_int16)(uint32_t *words, const float *panel, int64_t rows, float *step);
    void (*transpose)(float *dst, const float *src, size_t ld, int rows, int cols);
    /* Sums for both roles, plain or with dropped pairs; flags: GF_COUNT or nothing. */
    void (*sum_both)(const gf_tile *t, const gf_sum_in *row, const gf_sum_in *col, const gf_sum_out *row_out,
                     const gf_sum_out *col_out, unsigned flags, int64_t window_cap, gf_tile_scratch *x);
    /* Sums for the row role, all flags. col_group: GF_GROUP. */
    void (*sum_rows)(const gf_tile *t, const gf_sum_in *row, const int32_t *col_group, const gf_sum_out *out, unsigned flags,
                     float omega, int64_t window_cap);
    /* Gradient: s becomes P. Without col_role only the anchors of the rows give weights. col_out NULL: columns are not counted
     * by GF_QUALITY. */
    void (*weights)(const gf_tile *t, const gf_grad_in *row, const gf_grad_in *col, const gf_grad_out *row_out,
                    const gf_grad_out *col_out, int col_role, unsigned flags, float omega);
    /* Kept pairs of the tile's row role as bytes [rows][keep_ld]. */
    void (*keep)(const gf_tile *t, const gf_grad_in *row, const gf_grad_in *col, unsigned flags, uint8_t *keep, size_t keep_ld);
    /* Appends the values of the tile above their row's limit to its list, and, with col, those above their column's limit to
     * the list of that column. The lists have room for them. */
    void (*collect)(const gf_tile *t, const gf_lists *row, const gf_lists *col);
    /* The best-th largest of v[n], 1 <= best <= n, moved by `fraction` towards the next larger, as gf_between; *above gets how
     * many are larger than the best-th. No NaN. */
    float (*between)(const float *v, int64_t n, int64_t best, double fraction, int64_t *above);
    /* Appends the values of v[n] above `floor` (n a multiple of GF_PANEL); returns their number. */
    int64_t (*above)(const float *v, int64_t n, float floor, float *out);
    /* Rising positions of those of v[n] that reach min(row, col[i]) (col NULL: row), n a multiple of GF_PANEL; returns their
     * number. */
    int (*reach)(int32_t *at, const float *v, int n, float row, const float *col);
    /* out[i]: the product of a and b[i], n numbers, by the chain of `product`: its bits. */
    void (*dots)(float out[GF_TILE_DOTS], const float *a, const float *const b[GF_TILE_DOTS], int64_t n);
    /* y[i] = by x[i], a product of doubles. */
    void (*scale)(float *y, const float *x, int64_t n, double by);
    /* y[i] = exp(x[i]) */
    void (*exp)(float *y, const float *x, int64_t n);
    /* y[i] = log(1 + exp(x[i])), slope[i] = 1 / (1 + exp(-x[i])); n a multiple of GF_PANEL */
    void (*softplus)(float *y, float *slope, const float *x, int64_t n);
} gf_tile_ops;

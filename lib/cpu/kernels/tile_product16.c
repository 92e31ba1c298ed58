/* tile_product16.c - the product of tile.c on bf16 numbers, summed in float32.
 *
 * Two consecutive numbers along k are one word: the first in its low half. Words lie as the floats of tile.c do, so that
 * both products are called alike. Each element of C is one chain over k = 0, 1, ..: its bits depend neither on the tile nor on
 * which factor is the row. CPUs with AVX512-BF16 do both halves of a word in one instruction, whose intermediate rounding differs
 * from the plain code's by some units of float32; a CPU always takes the same one.
 */
#include "cpu/kernels/simd.h"
#include "cpu/kernels/tile.h"
#include "cpu/kernels/tile_names.h"

#if GF_LANES == 16
#define ROWS 8
#else
#define ROWS 4
#endif
#define VECS 2
#define COLS (VECS * GF_LANES)

GF_INLINE void micro(float *c, size_t c_row, const uint32_t *a, size_t a_row, size_t a_k, const uint32_t *b, size_t b_k, int k,
                     int accumulate) {
    vf acc[ROWS][VECS];
    for (int r = 0; r < ROWS; r++)
        for (int v = 0; v < VECS; v++) acc[r][v] = accumulate ? vf_load(c + r * c_row + v * GF_LANES) : vf_set(0.0f);
    for (int i = 0; i < k; i++) {
        vf low[VECS], high[VECS];
        for (int v = 0; v < VECS; v++) vf_load_words(b + i * b_k + v * GF_LANES, &low[v], &high[v]);
        for (int r = 0; r < ROWS; r++) {
            const uint32_t word = a[r * a_row + i * a_k];
            const vf first = vf_set(gf_bf16_to_float((uint16_t)word)), second = vf_set(gf_bf16_to_float((uint16_t)(word >> 16)));
            for (int v = 0; v < VECS; v++) acc[r][v] = vf_fma(second, high[v], vf_fma(first, low[v], acc[r][v]));
        }
    }
    for (int r = 0; r < ROWS; r++)
        for (int v = 0; v < VECS; v++) vf_store(c + r * c_row + v * GF_LANES, acc[r][v]);
}

static void product(float *c, size_t c_row, const uint32_t *a, size_t a_row, size_t a_k, const uint32_t *b, size_t b_k,
                    size_t b_panel, int m, int n, int k, int accumulate) {
    for (int p = 0; p < n / GF_PANEL; p++)
        for (int j = 0; j < GF_PANEL; j += COLS)
            for (int r = 0; r < m; r += ROWS)
                micro(c + r * c_row + (size_t)p * GF_PANEL + j, c_row, a + r * a_row, a_row, a_k, b + p * b_panel + j, b_k, k,
                      accumulate);
}

#if GF_LANES == 16
#define DOT __attribute__((target("avx512bf16,avx512bw,avx512vl,avx512dq")))

DOT static inline __attribute__((always_inline)) void micro_dot(float *c, size_t c_row, const uint32_t *a, size_t a_row,
                                                                size_t a_k, const uint32_t *b, size_t b_k, int k,
                                                                int accumulate) {
    __m512 acc[ROWS][VECS];
    for (int r = 0; r < ROWS; r++)
        for (int v = 0; v < VECS; v++)
            acc[r][v] = accumulate ? _mm512_loadu_ps(c + r * c_row + v * GF_LANES) : _mm512_setzero_ps();
    for (int i = 0; i < k; i++) {
        __m512bh bv[VECS];
        for (int v = 0; v < VECS; v++) bv[v] = (__m512bh)_mm512_loadu_si512(b + i * b_k + v * GF_LANES);
        for (int r = 0; r < ROWS; r++) {
            const __m512bh av = (__m512bh)_mm512_set1_epi32((int32_t)a[r * a_row + i * a_k]);
            for (int v = 0; v < VECS; v++) acc[r][v] = _mm512_dpbf16_ps(acc[r][v], av, bv[v]);
        }
    }
    for (int r = 0; r < ROWS; r++)
        for (int v = 0; v < VECS; v++) _mm512_storeu_ps(c + r * c_row + v * GF_LANES, acc[r][v]);
}

DOT static void product_dot(float *c, size_t c_row, const uint32_t *a, size_t a_row, size_t a_k, const uint32_t *b, size_t b_k,
                            size_t b_panel, int m, int n, int k, int accumulate) {
    for (int p = 0; p < n / GF_PANEL; p++)
        for (int r = 0; r < m; r += ROWS) {
            const uint32_t *bp = b + p * b_panel, *ar = a + r * a_row;
            float *cr = c + r * c_row + (size_t)p * GF_PANEL;
            if (a_k == 1 && accumulate) micro_dot(cr, c_row, ar, a_row, 1, bp, b_k, k, 1);
            else if (a_k == 1) micro_dot(cr, c_row, ar, a_row, 1, bp, b_k, k, 0);
            else micro_dot(cr, c_row, ar, 1, a_k, bp, b_k, k, accumulate);
        }
}
#endif

void GF_NAME(gf_tile_product16)(float *c, size_t c_row, const uint32_t *a, size_t a_row, size_t a_k, const uint32_t *b,
                                size_t b_k, size_t b_panel, int m, int n, int k, int accumulate) {
#if GF_LANES == 16
    if (__builtin_cpu_supports("avx512bf16")) {
        product_dot(c, c_row, a, a_row, a_k, b, b_k, b_panel, m, n, k, accumulate);
        return;
    }
#endif
    product(c, c_row, a, a_row, a_k, b, b_k, b_panel, m, n, k, accumulate);
}

void GF_NAME(gf_tile_words)(uint32_t *words, const float *first, const float *second, int64_t n) {
    for (int64_t i = 0; i < n; i += GF_LANES) vf_store_words(words + i, vf_load(first + i), vf_load(second + i));
}

void GF_NAME(gf_tile_round)(uint16_t *out, const float *in, int64_t n) {
    for (int64_t i = 0; i < n; i += GF_LANES) vf_store_bf16(out + i, vf_load(in + i));
}

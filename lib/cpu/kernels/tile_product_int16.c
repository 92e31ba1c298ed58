/* tile_product_int16.c - the product of tile.c on 16-bit integers, summed in 32 bits: exact until the sum is scaled.
 *
 * Vectors are scaled so that every number fits into 16 bits and the lengths of two of them multiply to less than 2^31: by the
 * inequality of Cauchy and Schwarz no sum of products, whole or begun, then leaves 32 bits. The numbers keep 12 to 15 bits where
 * bf16 has 8. Two consecutive ones along k are one word, the first in its low half; words lie as the floats of tile.c do.
 * CPUs with AVX512-VNNI multiply both halves of a word in one instruction, twice the rate of float32; the plain code gives the
 * same bits.
 */
#include "cpu/kernels/simd.h"
#include "cpu/kernels/tile.h"
#include "cpu/kernels/tile_names.h"

#define SAFE 1e-30f /* squares of floats from here to its inverse add up without loss */

/* ----- the product ------------------------------------------------------------------------------------------------- */

/* Rows that only fill up a block may hold any bits. Their sums wrap, as they do in AVX512-VNNI; nobody reads them. */
GF_INLINE uint32_t dot(uint32_t sum, uint32_t a, uint32_t b) {
    const int32_t low = (int16_t)(a & 0xffff) * (int16_t)(b & 0xffff), high = (int16_t)(a >> 16) * (int16_t)(b >> 16);
    return sum + (uint32_t)low + (uint32_t)high;
}

static void product(float *c, const gf_int16_words *a, const gf_int16_words *b, size_t c_row, int m, int n, int k,
                    int accumulate) {
    for (int r = 0; r < m; r++)
        for (int j = 0; j < n; j++) {
            const uint32_t *av = a->word + (size_t)r * a->row, *bv = b->word + (size_t)(j / GF_PANEL) * b->row + j % GF_PANEL;
            float *to = c + (size_t)r * c_row + j;
            uint32_t sum = 0;
            for (int i = 0; i < k; i++) sum = dot(sum, av[(size_t)i * a->k], bv[(size_t)i * b->k]);
            const float step = a->step[r] * b->step[j], whole = (float)(int32_t)sum;
            *to = accumulate ? fmaf(whole, step, *to) : whole * step;
        }
}

#if GF_LANES == 16
#define ROWS 8
#define VECS 2
#define DOT __attribute__((target("avx512vnni,avx512bw,avx512vl,avx512dq")))

DOT static inline __attribute__((always_inline)) void micro_dot(float *c, size_t c_row, const uint32_t *a, size_t a_row,
                                                                size_t a_k, const float *a_step, const uint32_t *b, size_t b_k,
                                                                const float *b_step, int k, int accumulate) {
    __m512i acc[ROWS][VECS];
    for (int r = 0; r < ROWS; r++)
        for (int v = 0; v < VECS; v++) acc[r][v] = _mm512_setzero_si512();
    for (int i = 0; i < k; i++) {
        __m512i bv[VECS];
        for (int v = 0; v < VECS; v++) bv[v] = _mm512_loadu_si512(b + i * b_k + v * GF_LANES);
        for (int r = 0; r < ROWS; r++) {
            const __m512i av = _mm512_set1_epi32((int32_t)a[r * a_row + i * a_k]);
            for (int v = 0; v < VECS; v++) acc[r][v] = _mm512_dpwssd_epi32(acc[r][v], av, bv[v]);
        }
    }
    for (int r = 0; r < ROWS; r++)
        for (int v = 0; v < VECS; v++) {
            float *to = c + r * c_row + v * GF_LANES;
            const __m512 step = _mm512_mul_ps(_mm512_set1_ps(a_step[r]), _mm512_loadu_ps(b_step + v * GF_LANES));
            const __m512 sum = _mm512_cvtepi32_ps(acc[r][v]);
            _mm512_storeu_ps(to, accumulate ? _mm512_fmadd_ps(sum, step, _mm512_loadu_ps(to)) : _mm512_mul_ps(sum, step));
        }
}

DOT static void product_dot(float *c, const gf_int16_words *a, const gf_int16_words *b, size_t c_row, int m, int n, int k,
                            int accumulate) {
    for (int p = 0; p < n / GF_PANEL; p++)
        for (int r = 0; r < m; r += ROWS) {
            const uint32_t *bp = b->word + (size_t)p * b->row, *ar = a->word + (size_t)r * a->row;
            const float *a_step = a->step + r, *b_step = b->step + p * GF_PANEL;
            float *cr = c + (size_t)r * c_row + p * GF_PANEL;
            if (a->k == 1 && !accumulate) micro_dot(cr, c_row, ar, a->row, 1, a_step, bp, GF_PANEL, b_step, k, 0);
            else if (a->row == 1 && a->k == GF_PANEL && !accumulate)
                micro_dot(cr, c_row, ar, 1, GF_PANEL, a_step, bp, GF_PANEL, b_step, k, 0);
            else micro_dot(cr, c_row, ar, a->row, a->k, a_step, bp, b->k, b_step, k, accumulate);
        }
}
#endif

int GF_NAME(gf_tile_int16_is_fast)(void) {
#if GF_LANES == 16
    return __builtin_cpu_supports("avx512vnni") != 0;
#else
    return 0;
#endif
}

void GF_NAME(gf_tile_product_int16)(float *c, size_t c_row, const gf_int16_words *a, const gf_int16_words *b, int m, int n, int k,
                                    int accumulate) {
#if GF_LANES == 16
    if (b->k == GF_PANEL && GF_NAME(gf_tile_int16_is_fast)()) {
        product_dot(c, a, b, c_row, m, n, k, accumulate);
        return;
    }
#endif
    product(c, a, b, c_row, m, n, k, accumulate);
}

/* ----- scaling ----------------------------------------------------------------------------------------------------- */

GF_INLINE void store_int16(int16_t *p, vf a) {
#if GF_LANES == 16
    _mm256_storeu_si256((__m256i *)(void *)p, _mm512_cvtsepi32_epi16(_mm512_cvtps_epi32(a)));
#else
    float wide[GF_LANES];
    vf_store(wide, vf_round(a));
    for (int i = 0; i < GF_LANES; i++) p[i] = wide[i] == wide[i] ? (int16_t)wide[i] : 0; /* the step of NaN is NaN */
#endif
}

static float largest(const float *x, int64_t n) {
    vf top = vf_set(0.0f);
    for (int64_t i = 0; i < n; i += GF_LANES) top = vf_max(vf_max(vf_sub(vf_set(0.0f), vf_load(x + i)), vf_load(x + i)), top);
    return vf_top(top);
}

/* The step of n numbers where squares would overflow or be lost: of an upper bound of their length. NaN: not all are finite. */
static float rough_step(const float *x, int64_t n, float squares) {
    const float top = largest(x, n);
    if (squares != squares || !(top < INFINITY)) return NAN;
    return top < SAFE ? 0.0f : top / GF_INT16_SHORT * sqrtf((float)n);
}

float GF_NAME(gf_tile_row_to_int16)(int16_t *out, const float *in, int64_t n) {
    vf sum = vf_set(0.0f);
    for (int64_t i = 0; i < n; i += GF_LANES) sum = vf_fma(vf_load(in + i), vf_load(in + i), sum);
    const float squares = vf_sum(sum);
    const float step = squares > SAFE && squares < 1.0f / SAFE ? sqrtf(squares) / GF_INT16_SHORT : rough_step(in, n, squares);
    if (step != step) return step; /* every product with this vector is NaN, whatever `out` holds */
    const vf scale = vf_set(step > 0.0f ? 1.0f / step : 0.0f);
    for (int64_t i = 0; i < n; i += GF_LANES) store_int16(out + i, vf_mul(scale, vf_load(in + i)));
    return step;
}

/* One vector of columns of a panel. */
GF_INLINE void columns_to_int16(uint32_t *words, const float *panel, int64_t rows, float *step) {
    vf sum = vf_set(0.0f), top = vf_set(0.0f);
    for (int64_t r = 0; r < rows; r++) {
        const vf x = vf_load(panel + r * GF_PANEL);
        sum = vf_fma(x, x, sum);
        top = vf_max(vf_max(x, vf_sub(vf_set(0.0f), x)), top);
    }
    float squares[GF_LANES], largest_of[GF_LANES], scale[GF_LANES];
    vf_store(squares, sum), vf_store(largest_of, top);
    for (int i = 0; i < GF_LANES; i++) {
        const int exact = squares[i] > SAFE && squares[i] < 1.0f / SAFE;
        const float length = exact ? sqrtf(squares[i]) / GF_INT16_LONG : largest_of[i] / GF_INT16_LONG * sqrtf((float)rows);
        const float most = fmaxf(length, largest_of[i] / GF_INT16_SHORT);
        step[i] = squares[i] != squares[i] || !(most < INFINITY) ? NAN : largest_of[i] < SAFE ? 0.0f : most;
        scale[i] = step[i] > 0.0f ? 1.0f / step[i] : 0.0f;
    }
    const vf s = vf_load(scale);
    for (int64_t r = 0; r < rows; r += 2) {
        int16_t low[GF_LANES], high[GF_LANES];
        store_int16(low, vf_mul(s, vf_load(panel + r * GF_PANEL)));
        store_int16(high, vf_mul(s, vf_load(panel + (r + 1) * GF_PANEL)));
        for (int i = 0; i < GF_LANES; i++) words[r / 2 * GF_PANEL + i] = (uint16_t)low[i] | (uint32_t)(uint16_t)high[i] << 16;
    }
}

void GF_NAME(gf_tile_panel_to_int16)(uint32_t *words, const float *panel, int64_t rows, float *step) {
    for (int j = 0; j < GF_PANEL; j += GF_LANES) columns_to_int16(words + j, panel + j, rows, step + j);
}

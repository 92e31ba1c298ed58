/* simd.h - vector types of the kernels, for four instruction sets: AVX-512, AVX2+FMA, NEON, and plain C vectors.
 *
 * Every file of this folder is compiled once per instruction set (GF_ISA = avx512 | avx2 | neon | base) and defines its functions
 * under GF_NAME(x), so that all of them are in one library and one is chosen at run time.
 *   vf  GF_LANES floats      vm  a lane mask      vi  GF_LANES int32
 * Comparisons are false for NaN: kernels rely on it, excluded pairs of a tile are NaN.
 */
#pragma once

#include <math.h>
#include <stdint.h>
#include <string.h>

#include "util/dtype.h"

#define GF_PASTE_(a, b) a##_##b
#define GF_PASTE(a, b) GF_PASTE_(a, b)
#define GF_NAME(x) GF_PASTE(x, GF_ISA)

#define GF_INLINE static inline __attribute__((always_inline))

#if defined(__AVX512F__)
#include <immintrin.h>

#define GF_LANES 16
typedef __m512 vf;
typedef __mmask16 vm;
typedef __m512i vi;

GF_INLINE vf vf_load(const float *p) { return _mm512_loadu_ps(p); }
GF_INLINE void vf_store(float *p, vf a) { _mm512_storeu_ps(p, a); }
GF_INLINE vf vf_set(float x) { return _mm512_set1_ps(x); }
GF_INLINE vf vf_add(vf a, vf b) { return _mm512_add_ps(a, b); }
GF_INLINE vf vf_sub(vf a, vf b) { return _mm512_sub_ps(a, b); }
GF_INLINE vf vf_mul(vf a, vf b) { return _mm512_mul_ps(a, b); }
GF_INLINE vf vf_fma(vf a, vf b, vf c) { return _mm512_fmadd_ps(a, b, c); }
GF_INLINE vf vf_max(vf a, vf b) { return _mm512_max_ps(a, b); } /* b where a is NaN */
GF_INLINE vf vf_min(vf a, vf b) { return _mm512_min_ps(a, b); }
GF_INLINE vf vf_round(vf a) { return _mm512_roundscale_ps(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC); }
GF_INLINE vf vf_scale2(vf a, vf n) { return _mm512_scalef_ps(a, n); } /* a * 2^n, n integral in [-126, 127] */
GF_INLINE vm vm_le(vf a, vf b) { return _mm512_cmp_ps_mask(a, b, _CMP_LE_OQ); }
GF_INLINE vm vm_lt(vf a, vf b) { return _mm512_cmp_ps_mask(a, b, _CMP_LT_OQ); }
GF_INLINE vm vm_eq(vf a, vf b) { return _mm512_cmp_ps_mask(a, b, _CMP_EQ_OQ); }
GF_INLINE vm vm_and(vm a, vm b) { return a & b; }
GF_INLINE vm vm_or(vm a, vm b) { return a | b; }
GF_INLINE vm vm_andnot(vm a, vm b) { return (vm)(a & ~b); } /* a and not b */
GF_INLINE unsigned vm_bits(vm m) { return m; }
GF_INLINE vm vm_of_bits(unsigned bits) { return (vm)bits; }            /* lane i: bit i; higher bits do not count */
GF_INLINE vf vf_keep(vm m, vf a) { return _mm512_maskz_mov_ps(m, a); } /* a where m, else 0 */
GF_INLINE vf vf_pick(vm m, vf a, vf b) { return _mm512_mask_mov_ps(b, m, a); }
GF_INLINE vf vf_addm(vf a, vm m, vf b) { return _mm512_mask_add_ps(a, m, a, b); } /* a + (b where m) */
GF_INLINE vi vi_load(const int32_t *p) { return _mm512_loadu_si512(p); }
GF_INLINE void vi_store(int32_t *p, vi a) { _mm512_storeu_si512(p, a); }
GF_INLINE vi vi_set(int32_t x) { return _mm512_set1_epi32(x); }
GF_INLINE vm vi_eq(vi a, vi b) { return _mm512_cmpeq_epi32_mask(a, b); }
GF_INLINE vm vi_gt(vi a, vi b) { return _mm512_cmpgt_epi32_mask(a, b); }
GF_INLINE vi vi_count(vi c, vm m) { return _mm512_mask_add_epi32(c, m, c, _mm512_set1_epi32(1)); } /* c + 1 where m */
GF_INLINE float vf_sum(vf a) { return _mm512_reduce_add_ps(a); }
GF_INLINE float vf_top(vf a) { return _mm512_reduce_max_ps(a); }

#elif defined(__AVX2__) && defined(__FMA__)
#include <immintrin.h>

#define GF_LANES 8
typedef __m256 vf;
typedef __m256 vm;
typedef __m256i vi;

GF_INLINE vf vf_load(const float *p) { return _mm256_loadu_ps(p); }
GF_INLINE void vf_store(float *p, vf a) { _mm256_storeu_ps(p, a); }
GF_INLINE vf vf_set(float x) { return _mm256_set1_ps(x); }
GF_INLINE vf vf_add(vf a, vf b) { return _mm256_add_ps(a, b); }
GF_INLINE vf vf_sub(vf a, vf b) { return _mm256_sub_ps(a, b); }
GF_INLINE vf vf_mul(vf a, vf b) { return _mm256_mul_ps(a, b); }
GF_INLINE vf vf_fma(vf a, vf b, vf c) { return _mm256_fmadd_ps(a, b, c); }
GF_INLINE vf vf_max(vf a, vf b) { return _mm256_max_ps(a, b); }
GF_INLINE vf vf_min(vf a, vf b) { return _mm256_min_ps(a, b); }
GF_INLINE vf vf_round(vf a) { return _mm256_round_ps(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC); }
GF_INLINE vf vf_scale2(vf a, vf n) {
    __m256i e = _mm256_slli_epi32(_mm256_add_epi32(_mm256_cvtps_epi32(n), _mm256_set1_epi32(127)), 23);
    return _mm256_mul_ps(a, _mm256_castsi256_ps(e));
}
GF_INLINE vm vm_le(vf a, vf b) { return _mm256_cmp_ps(a, b, _CMP_LE_OQ); }
GF_INLINE vm vm_lt(vf a, vf b) { return _mm256_cmp_ps(a, b, _CMP_LT_OQ); }
GF_INLINE vm vm_eq(vf a, vf b) { return _mm256_cmp_ps(a, b, _CMP_EQ_OQ); }
GF_INLINE vm vm_and(vm a, vm b) { return _mm256_and_ps(a, b); }
GF_INLINE vm vm_or(vm a, vm b) { return _mm256_or_ps(a, b); }
GF_INLINE vm vm_andnot(vm a, vm b) { return _mm256_andnot_ps(b, a); }
GF_INLINE unsigned vm_bits(vm m) { return (unsigned)_mm256_movemask_ps(m); }
GF_INLINE vm vm_of_bits(unsigned bits) {
    const __m256i lane = _mm256_setr_epi32(1, 2, 4, 8, 16, 32, 64, 128);
    return _mm256_castsi256_ps(_mm256_cmpeq_epi32(_mm256_and_si256(_mm256_set1_epi32((int)bits), lane), lane));
}
GF_INLINE vf vf_keep(vm m, vf a) { return _mm256_and_ps(m, a); }
GF_INLINE vf vf_pick(vm m, vf a, vf b) { return _mm256_blendv_ps(b, a, m); }
GF_INLINE vf vf_addm(vf a, vm m, vf b) { return _mm256_add_ps(a, _mm256_and_ps(m, b)); }
GF_INLINE vi vi_load(const int32_t *p) { return _mm256_loadu_si256((const __m256i *)(const void *)p); }
GF_INLINE void vi_store(int32_t *p, vi a) { _mm256_storeu_si256((__m256i *)(void *)p, a); }
GF_INLINE vi vi_set(int32_t x) { return _mm256_set1_epi32(x); }
GF_INLINE vm vi_eq(vi a, vi b) { return _mm256_castsi256_ps(_mm256_cmpeq_epi32(a, b)); }
GF_INLINE vm vi_gt(vi a, vi b) { return _mm256_castsi256_ps(_mm256_cmpgt_epi32(a, b)); }
GF_INLINE vi vi_count(vi c, vm m) { return _mm256_sub_epi32(c, _mm256_castps_si256(m)); }
GF_INLINE float vf_sum(vf a) {
    __m128 s = _mm_add_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
    s = _mm_add_ps(s, _mm_movehl_ps(s, s));
    return _mm_cvtss_f32(_mm_add_ss(s, _mm_movehdup_ps(s)));
}
GF_INLINE float vf_top(vf a) {
    __m128 s = _mm_max_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
    s = _mm_max_ps(s, _mm_movehl_ps(s, s));
    return _mm_cvtss_f32(_mm_max_ss(s, _mm_movehdup_ps(s)));
}

#elif defined(GF_NEON) /* asked for: the plain vectors of the same machine stay the reference */
#include "cpu/kernels/simd_neon.h"

#else /* GCC/Clang vectors of four: SSE2, NEON or what the compiler has */

#define GF_LANES 4
typedef float vf __attribute__((vector_size(16)));
typedef int32_t vi __attribute__((vector_size(16)));
typedef vi vm;

GF_INLINE vf vf_load(const float *p) {
    vf a;
    memcpy(&a, p, sizeof a);
    return a;
}
GF_INLINE void vf_store(float *p, vf a) { memcpy(p, &a, sizeof a); }
GF_INLINE vf vf_set(float x) { return (vf){x, x, x, x}; }
GF_INLINE vf vf_add(vf a, vf b) { return a + b; }
GF_INLINE vf vf_sub(vf a, vf b) { return a - b; }
GF_INLINE vf vf_mul(vf a, vf b) { return a * b; }
GF_INLINE vf vf_fma(vf a, vf b, vf c) { return a * b + c; }
GF_INLINE vf vf_pick(vm m, vf a, vf b) { return (vf)(((vi)a & m) | ((vi)b & ~m)); }
GF_INLINE vf vf_max(vf a, vf b) { return vf_pick(a > b, a, b); }
GF_INLINE vf vf_min(vf a, vf b) { return vf_pick(a < b, a, b); }
GF_INLINE vf vf_round(vf a) { /* adding 1.5 * 2^23 rounds to nearest for |a| < 2^22 */
    const vf magic = vf_set(12582912.0f);
    return (a + magic) - magic;
}
GF_INLINE vf vf_scale2(vf a, vf n) {
    vi e = {(int32_t)n[0], (int32_t)n[1], (int32_t)n[2], (int32_t)n[3]};
    return a * (vf)((e + 127) << 23);
}
GF_INLINE vm vm_le(vf a, vf b) { return a <= b; }
GF_INLINE vm vm_lt(vf a, vf b) { return a < b; }
GF_INLINE vm vm_eq(vf a, vf b) { return a == b; }
GF_INLINE vm vm_and(vm a, vm b) { return a & b; }
GF_INLINE vm vm_or(vm a, vm b) { return a | b; }
GF_INLINE vm vm_andnot(vm a, vm b) { return a & ~b; }
GF_INLINE unsigned vm_bits(vm m) { return (unsigned)((m[0] & 1) | (m[1] & 2) | (m[2] & 4) | (m[3] & 8)); }
GF_INLINE vm vm_of_bits(unsigned bits) {
    const int32_t b = (int32_t)bits;
    return (vm){-(b & 1), -(b >> 1 & 1), -(b >> 2 & 1), -(b >> 3 & 1)};
}
GF_INLINE vf vf_keep(vm m, vf a) { return (vf)((vi)a & m); }
GF_INLINE vf vf_addm(vf a, vm m, vf b) { return a + vf_keep(m, b); }
GF_INLINE vi vi_load(const int32_t *p) {
    vi a;
    memcpy(&a, p, sizeof a);
    return a;
}
GF_INLINE void vi_store(int32_t *p, vi a) { memcpy(p, &a, sizeof a); }
GF_INLINE vi vi_set(int32_t x) { return (vi){x, x, x, x}; }
GF_INLINE vm vi_eq(vi a, vi b) { return a == b; }
GF_INLINE vm vi_gt(vi a, vi b) { return a > b; }
GF_INLINE vi vi_count(vi c, vm m) { return c - m; }
GF_INLINE float vf_sum(vf a) { return (a[0] + a[2]) + (a[1] + a[3]); }
GF_INLINE float vf_top(vf a) { return fmaxf(fmaxf(a[0], a[2]), fmaxf(a[1], a[3])); }

#endif

/* bf16, rounded to nearest even; NaN stays NaN. */
#if GF_LANES == 16
GF_INLINE vf vf_load_bf16(const uint16_t *p) {
    const __m512i wide = _mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)(const void *)p));
    return _mm512_castsi512_ps(_mm512_slli_epi32(wide, 16));
}
/* Words of two bf16 numbers: the low and the high halves. */
GF_INLINE void vf_load_words(const uint32_t *p, vf *low, vf *high) {
    const __m512i words = _mm512_loadu_si512(p);
    *low = _mm512_castsi512_ps(_mm512_slli_epi32(words, 16));
    *high = _mm512_castsi512_ps(_mm512_and_si512(words, _mm512_set1_epi32((int32_t)0xffff0000u)));
}
GF_INLINE __m512i vf_bf16_bits(vf a) { /* in the low halves */
    const __m512i bits = _mm512_castps_si512(a), high = _mm512_srli_epi32(bits, 16);
    const __m512i odd = _mm512_and_si512(high, _mm512_set1_epi32(1));
    const __m512i near = _mm512_srli_epi32(_mm512_add_epi32(bits, _mm512_add_epi32(odd, _mm512_set1_epi32(0x7fff))), 16);
    const __m512i quiet = _mm512_or_si512(high, _mm512_set1_epi32(0x40));
    return _mm512_mask_mov_epi32(near, _mm512_cmp_ps_mask(a, a, _CMP_UNORD_Q), quiet);
}
GF_INLINE void vf_store_bf16(uint16_t *p, vf a) {
    _mm256_storeu_si256((__m256i *)(void *)p, _mm512_cvtepi32_epi16(vf_bf16_bits(a)));
}
GF_INLINE void vf_store_words(uint32_t *p, vf low, vf high) {
    _mm512_storeu_si512(p, _mm512_or_si512(vf_bf16_bits(low), _mm512_slli_epi32(vf_bf16_bits(high), 16)));
}
#else
GF_INLINE void vf_load_words(const uint32_t *p, vf *low, vf *high) {
    float first[GF_LANES], second[GF_LANES];
    for (int i = 0; i < GF_LANES; i++)
        first[i] = gf_bf16_to_float((uint16_t)p[i]), second[i] = gf_bf16_to_float((uint16_t)(p[i] >> 16));
    *low = vf_load(first), *high = vf_load(second);
}
GF_INLINE void vf_store_words(uint32_t *p, vf low, vf high) {
    float first[GF_LANES], second[GF_LANES];
    vf_store(first, low), vf_store(second, high);
    for (int i = 0; i < GF_LANES; i++)
        p[i] = (uint32_t)gf_bf16_from_float(first[i]) | (uint32_t)gf_bf16_from_float(second[i]) << 16;
}
#ifndef GF_NEON
GF_INLINE vf vf_load_bf16(const uint16_t *p) {
    float wide[GF_LANES];
    for (int i = 0; i < GF_LANES; i++) wide[i] = gf_bf16_to_float(p[i]);
    return vf_load(wide);
}
GF_INLINE void vf_store_bf16(uint16_t *p, vf a) {
    float wide[GF_LANES];
    vf_store(wide, a);
    for (int i = 0; i < GF_LANES; i++) p[i] = gf_bf16_from_float(wide[i]);
}
#endif
#endif

#if GF_LANES == 16
GF_INLINE vf vf_div(vf a, vf b) { return _mm512_div_ps(a, b); }
#elif GF_LANES == 8
GF_INLINE vf vf_div(vf a, vf b) { return _mm256_div_ps(a, b); }
#else
GF_INLINE vf vf_div(vf a, vf b) { return a / b; }
#endif

GF_INLINE vm vm_none(void) { return vm_lt(vf_set(0.0f), vf_set(0.0f)); }

/* exp(x), relative error below 1.2e-7 on [-87.3, 88.3] (tests/cpu/unit_simd_exp.c); arguments are clamped to that range, NaN
 * gives a finite number. x = n ln2 + r, |r| <= ln2/2, exp(r) by a polynomial of degree 6 with relative error 3.1e-9. */
GF_INLINE vf vf_exp(vf x) {
    x = vf_min(vf_max(x, vf_set(-87.3f)), vf_set(88.3f));
    const vf n = vf_round(vf_mul(x, vf_set(1.44269504f)));
    vf r = vf_fma(n, vf_set(-0.693359375f), x); /* ln2 in two parts; the first has 9 bits, so n * it is exact */
    r = vf_fma(n, vf_set(2.12194440e-4f), r);
    vf p = vf_fma(r, vf_set(1.381454003e-3f), vf_set(8.368745113e-3f));
    p = vf_fma(p, r, vf_set(4.166839079e-2f));
    p = vf_fma(p, r, vf_set(1.666652040e-1f));
    p = vf_fma(p, r, vf_set(4.999999343e-1f));
    p = vf_fma(vf_mul(p, r), r, r);
    return vf_scale2(vf_add(p, vf_set(1.0f)), n);
}

/* log(1 + exp(x)), relative error below 4e-7 (tests/cpu/unit_simd_exp.c), and *slope = sigma(x) = 1/(1 + exp(-x)). With
 * e = exp(-|x|) it is max(x, 0) + log(1 + e), and log(1 + e) = 2 atanh(t), t = e/(2 + e) <= 1/3: an odd polynomial of degree 9. */
GF_INLINE vf vf_softplus(vf x, vf *slope) {
    const vf zero = vf_set(0.0f), one = vf_set(1.0f), e = vf_exp(vf_min(x, vf_sub(zero, x)));
    const vf first = vf_add(one, e), second = vf_add(one, first), inverse = vf_div(one, vf_mul(first, second));
    const vf t = vf_mul(vf_mul(e, first), inverse), square = vf_mul(t, t);
    *slope = vf_mul(vf_pick(vm_lt(x, zero), e, one), vf_mul(second, inverse));
    vf p = vf_fma(square, vf_set(1.342574954e-1f), vf_set(1.411830932e-1f));
    p = vf_fma(p, square, vf_set(2.000378072e-1f));
    p = vf_fma(p, square, vf_set(3.333331943e-1f));
    p = vf_fma(vf_mul(p, square), t, t);
    return vf_add(vf_max(x, zero), vf_add(p, p));
}

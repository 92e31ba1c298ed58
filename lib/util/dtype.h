/* dtype.h - 16-bit floating point, stored as uint16_t, computed as float: bfloat16, the upper half of a float32, and IEEE half
 * precision with 5 bits of exponent and 10 of mantissa; and arrays of float32, bfloat16 or float16, converted a row at a time.
 *
 * Rounds to nearest, ties to even, float16 with subnormal numbers; NaN stays NaN, what is too large becomes infinite. bfloat16,
 * and float16 to float, are written so that loops over them vectorise.
 */
#pragma once

#include <stdint.h>
#include <string.h>

#include "glofnd.h"

static inline float gf_bf16_to_float(uint16_t h) {
    const uint32_t bits = (uint32_t)h << 16;
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

static inline uint16_t gf_bf16_from_float(float x) {
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    const uint32_t rounded = bits + 0x7FFFu + ((bits >> 16) & 1u);
    const uint32_t quiet = bits | 0x400000u; /* a NaN whose payload lies in the lower half must not become infinite */
    return (uint16_t)(((bits & 0x7FFFFFFFu) > 0x7F800000u ? quiet : rounded) >> 16);
}

static inline float gf_f16_to_float(uint16_t h) {
    const uint32_t sign = (uint32_t)(h & 0x8000u) << 16, magnitude = h & 0x7FFFu;
    const uint32_t bias = 112u << 23, normal = (magnitude << 13) + bias; /* the biases are 15 and 127 */
    const float small = (float)(int32_t)magnitude * 0x1p-24f;            /* subnormal, or zero: exact */
    uint32_t bits;
    float x;
    memcpy(&bits, &small, sizeof bits);
    bits = magnitude >= 0x400u ? normal : bits;
    bits = magnitude >= 0x7C00u ? normal + bias : bits; /* infinite, or NaN */
    bits |= sign;
    memcpy(&x, &bits, sizeof x);
    return x;
}

static inline uint16_t gf_f16_from_float(float x) {
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    const uint32_t sign = bits >> 16 & 0x8000u, magnitude = bits & 0x7FFFFFFFu;
    if (magnitude > 0x7F800000u) return (uint16_t)(sign | 0x7E00u);  /* NaN */
    if (magnitude >= 0x477FF000u) return (uint16_t)(sign | 0x7C00u); /* 65520 and more rounds to infinity */
    if (magnitude >= 0x38800000u) {                                  /* 2^-14 and more: normal */
        const uint32_t rebiased = magnitude - (112u << 23);
        return (uint16_t)(sign | (rebiased + 0xFFFu + (rebiased >> 13 & 1u)) >> 13);
    }
    /* 2^-24 is the unit of subnormal numbers; adding 1.5 * 2^23 units rounds to one, ties to even. */
    float units;
    memcpy(&units, &magnitude, sizeof units);
    units = units * 0x1p24f + 0x1.8p23f;
    memcpy(&bits, &units, sizeof bits);
    return (uint16_t)(sign | (bits & 0x7FFu));
}

/* ----- arrays ----- */

/* Bytes of one number; 0: not a type. */
static inline size_t gf_dtype_bytes(glofnd_dtype type) {
    return type == GLOFND_F32 ? 4 : type == GLOFND_BF16 || type == GLOFND_F16 ? 2 : 0;
}

static inline float gf_dtype_at(glofnd_dtype type, const void *x, int64_t i) {
    if (type == GLOFND_F32) return ((const float *)x)[i];
    return type == GLOFND_BF16 ? gf_bf16_to_float(((const uint16_t *)x)[i]) : gf_f16_to_float(((const uint16_t *)x)[i]);
}

/* n numbers of a 16-bit type. */
static inline void gf_dtype_to_float(glofnd_dtype type, float *out, const uint16_t *x, int64_t n) {
    if (type == GLOFND_BF16)
        for (int64_t i = 0; i < n; i++) out[i] = gf_bf16_to_float(x[i]);
    else
        for (int64_t i = 0; i < n; i++) out[i] = gf_f16_to_float(x[i]);
}

static inline void gf_dtype_from_float(glofnd_dtype type, uint16_t *out, const float *x, int64_t n) {
    if (type == GLOFND_BF16)
        for (int64_t i = 0; i < n; i++) out[i] = gf_bf16_from_float(x[i]);
    else
        for (int64_t i = 0; i < n; i++) out[i] = gf_f16_from_float(x[i]);
}

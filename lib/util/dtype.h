/* dtype.h - arrays of float32, bfloat16 or float16 numbers, converted from and to float32 a row at a time. */
#pragma once

#include "glofnd.h"
#include "util/half.h"

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

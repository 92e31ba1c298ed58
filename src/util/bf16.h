/* bf16.h - bfloat16: the upper half of a float32. Stored as uint16_t, always computed with as float.
 *
 * Rounds to nearest, ties to even; NaN stays NaN, what is too large becomes infinite. Written so that loops over it vectorise.
 */
#ifndef GF_UTIL_BF16_H
#define GF_UTIL_BF16_H

#include <stdint.h>
#include <string.h>

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

#endif

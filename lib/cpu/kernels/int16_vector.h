/* int16_vector.h - a vector of length about 1 as 16-bit integers for product_int16 (tile.h), and how wrong its products are. */
#pragma once

#include <math.h>
#include <stdint.h>

#include "cpu/kernels/tile.h"
#include "util/array.h"

#define GF_INT16_EVEN 46000.0f      /* length of both sides: squared, with the rounding of GF_INT16_DEPTH numbers, below 2^31 */
#define GF_INT16_ROUNDS 12582912.0f /* 1.5 * 2^23: added and subtracted, it rounds smaller floats to integers */

/* What a 1 stands for. */
static inline float gf_int16_step(const float *x, int64_t dim, double scale) {
    double squares = 0.0;
    float top = 0.0f;
    for (int64_t k = 0; k < dim; k++) {
        squares += (double)x[k] * (double)x[k];
        top = GF_MAX(top, fabsf(x[k]));
    }
    return (float)(1.000001 * scale * GF_MAX(sqrt(squares) / (double)GF_INT16_EVEN, (double)top / 32767.0));
}

/* Rounds the floats scale * x[dim] to every `stride`-th word from `word` on; returns the step. *lost gets the length of what
 * rounding took. */
static inline float gf_int16_round(uint32_t *word, int64_t stride, const float *x, int64_t dim, double scale, float *lost) {
    const float step = gf_int16_step(x, dim, scale), inverse = step > 0.0f ? 1.0f / step : 0.0f;
    double squares = 0.0;
    uint32_t low = 0;
    for (int64_t k = 0; k < dim; k++) {
        const float unit = (float)(scale * (double)x[k]), whole = (unit * inverse + GF_INT16_ROUNDS) - GF_INT16_ROUNDS;
        const double off = (double)unit - (double)whole * (double)step;
        squares += off * off;
        if (k % 2 == 0) low = (uint16_t)(int32_t)whole;
        word[k / 2 * stride] = k % 2 ? low | (uint32_t)(int32_t)whole << 16 : low;
    }
    *lost = (float)(1.000001 * sqrt(squares));
    return step;
}

/* The product of two such vectors by integers, less that by floats in one chain, is within +- this: x y - x' y' = (x - x') y +
 * x' (y - y'), for lengths up to 1.005; then the rounding of the chain, and of the scaled sum. */
static inline float gf_int16_error(float lost, float other_lost, int64_t dim) {
    const double a = (double)lost, b = (double)other_lost;
    return (float)(1.01 * (a + b + a * b + (double)(dim + 64) * 0x1p-24));
}

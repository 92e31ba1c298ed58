/* augment_colour.cuh - colours of one pixel with PIL's numbers, as in train/image/color.c. Single levels depend on the roundings to
 * float, so no product may be fused with a sum.
 */
#pragma once

#include "image/augment_job.h"

typedef struct gf_pixel {
    int red, green, blue;
} gf_pixel;

static __device__ __forceinline__ int luma(gf_pixel p) {
    return (p.red * 19595 + p.green * 38470 + p.blue * 7471 + 0x8000) >> 16;
}

/* base + factor * (value - base), truncated to integers in 0 .. 255. */
static __device__ __forceinline__ int blend(int base, int value, float factor) {
    const float mixed = __fadd_rn((float)base, __fmul_rn(factor, (float)(value - base)));
    return (int)fminf(fmaxf(mixed, 0.0f), 255.0f);
}

static __device__ __forceinline__ gf_pixel blend_all(int base, gf_pixel p, float factor) {
    return {blend(base, p.red, factor), blend(base, p.green, factor), blend(base, p.blue, factor)};
}

/* PIL's 8-bit hue, as hue_of in train/image/color.c. */
static __device__ __forceinline__ int hue_of(gf_pixel p, int top, int range) {
    const bool is_red = p.red == top, is_green = !is_red && p.green == top;
    const int ahead = top - (is_red ? p.blue : is_green ? p.red : p.green);
    const int behind = top - (is_red ? p.green : is_green ? p.blue : p.red);
    const int sixths = is_red ? 0 : is_green ? 2 : 4, sign = ahead == range ? -1 : 1;
    const int whole = range == 0 ? sixths : sixths - sign, other = min(ahead, behind);
    const float turn = __fadd_rn((float)whole, __fdiv_rn((float)(sign * other), (float)max(range, 1)));
    const float below_zero = is_red && ahead < behind ? 1.0f : 0.0f;
    return (int)__fmul_rn(__fadd_rn(__fdiv_rn(turn, 6.0f), below_zero), 255.0f);
}

/* value * (1 - part), rounded; part lies in 0 .. 1. */
static __device__ __forceinline__ int dim(int value, float part) {
    return (int)__fadd_rn(__fmul_rn((float)value, __fsub_rn(1.0f, part)), 0.5f);
}

/* From HSV: the sector of six decides which channel is the value, which the lowest level, and which lies between. */
static __device__ __forceinline__ gf_pixel from_hsv(int hue, int saturation, int value) {
    const int sector = hue * 1543 >> 16; /* hue * 6 / 255 */
    const float strength = __fdiv_rn((float)saturation, 255.0f), part = __fdiv_rn((float)(hue * 6 - sector * 255), 255.0f);
    const bool falls = sector & 1; /* the level between falls in odd sectors, rises in even ones */
    const int low = dim(value, strength), between = dim(value, __fmul_rn(strength, falls ? part : __fsub_rn(1.0f, part)));
    switch (sector) {
    case 1: return {between, value, low};
    case 2: return {low, value, between};
    case 3: return {low, between, value};
    case 4: return {between, low, value};
    case 5: return {value, low, between};
    default: return {value, between, low}; /* 0, and 6 which is 0 again */
    }
}

static __device__ __forceinline__ gf_pixel shift_hue(gf_pixel p, int shift) {
    const int top = max(p.red, max(p.green, p.blue)), range = top - min(p.red, min(p.green, p.blue));
    const int saturation = (int)__fmul_rn(__fdiv_rn((float)range, (float)max(top, 1)), 255.0f);
    return from_hsv((hue_of(p, top, range) + shift) & 255, saturation, top);
}

static __device__ __forceinline__ gf_pixel to_gray(gf_pixel p) {
    const int level = luma(p);
    return {level, level, level};
}

/* Operation i of the order. By shifts, so that the job stays in registers. */
static __device__ __forceinline__ int operation(const gf_view_job &j, int i) {
    uint32_t order;
    memcpy(&order, j.order, sizeof order);
    return (int8_t)(order >> (8 * i));
}

/* Operations from .. to of the job's order on n pixels; mean: the level that contrast blends with. */
template <int n>
static __device__ __forceinline__ void change_colours(const gf_view_job &j, int from, int to, int mean, gf_pixel *p) {
    for (int i = from; i < to; i++) { /* the same for all threads of a block */
        switch (operation(j, i)) {
        case GF_COLOUR_BRIGHTNESS:
            for (int k = 0; k < n; k++) p[k] = blend_all(0, p[k], j.factor[0]);
            break;
        case GF_COLOUR_CONTRAST:
            for (int k = 0; k < n; k++) p[k] = blend_all(mean, p[k], j.factor[1]);
            break;
        case GF_COLOUR_SATURATION:
            for (int k = 0; k < n; k++) p[k] = blend_all(luma(p[k]), p[k], j.factor[2]);
            break;
        case GF_COLOUR_HUE:
            for (int k = 0; k < n; k++) p[k] = shift_hue(p[k], j.shift);
            break;
        default: break;
        }
    }
}

/* pixels_neon.h - loops over pixels for NEON: weighted sums of rows, box blur, colours. Each does whole vectors from the first
 * pixel on and returns how many pixels it did; the plain loop behind it does the rest. The operations and their order are those
 * of the plain loops, so the bits are the same (tests/image/unit_pixel_loops.c). Included by simd_clones.h alone.
 */
#pragma once

#include <arm_neon.h>
#include <stddef.h>
#include <stdint.h>

#define GF_NEON static inline __attribute__((always_inline))

typedef struct gf_neon_s32 { /* 16 pixels */
    int32x4_t part[4];
} gf_neon_s32;

GF_NEON gf_neon_s32 gf_neon_widen(uint8x16_t x) {
    const uint16x8_t low = vmovl_u8(vget_low_u8(x)), high = vmovl_high_u8(x);
    return (gf_neon_s32){{vreinterpretq_s32_u32(vmovl_u16(vget_low_u16(low))), vreinterpretq_s32_u32(vmovl_high_u16(low)),
                          vreinterpretq_s32_u32(vmovl_u16(vget_low_u16(high))), vreinterpretq_s32_u32(vmovl_high_u16(high))}};
}

/* The lowest bytes, as a cast to uint8_t takes them. */
GF_NEON uint8x16_t gf_neon_narrow(const gf_neon_s32 *x) {
    const int16x8_t low = vmovn_high_s32(vmovn_s32(x->part[0]), x->part[1]);
    const int16x8_t high = vmovn_high_s32(vmovn_s32(x->part[2]), x->part[3]);
    return vreinterpretq_u8_s8(vmovn_high_s16(vmovn_s16(low), high));
}

/* ----- resample.c ----- */

/* Sums of `count` rows times weights of 22 bits behind the point; clip: limited to 0 .. 255. */
GF_NEON size_t gf_neon_blend(uint8_t *out, const uint8_t *row, size_t pitch, size_t n, const int32_t *weight, int count,
                             int clip) {
    size_t i = 0;
    for (; i + 16 <= n; i += 16) {
        gf_neon_s32 sum;
        for (int p = 0; p < 4; p++) sum.part[p] = vdupq_n_s32(1 << 21);
        for (int k = 0; k < count; k++) {
            const gf_neon_s32 x = gf_neon_widen(vld1q_u8(row + (size_t)k * pitch + i));
            for (int p = 0; p < 4; p++) sum.part[p] = vmlaq_n_s32(sum.part[p], x.part[p], weight[k]);
        }
        for (int p = 0; p < 4; p++) {
            sum.part[p] = vshrq_n_s32(sum.part[p], 22);
            if (clip) sum.part[p] = vminq_s32(vmaxq_s32(sum.part[p], vdupq_n_s32(0)), vdupq_n_s32(255));
        }
        vst1q_u8(out + i, gf_neon_narrow(&sum));
    }
    return i;
}

GF_NEON int gf_neon_split(uint8_t *red, uint8_t *green, uint8_t *blue, const uint8_t *rgb, int n) {
    int i = 0;
    for (; i + 16 <= n; i += 16) {
        const uint8x16x3_t x = vld3q_u8(rgb + 3 * i);
        vst1q_u8(red + i, x.val[0]), vst1q_u8(green + i, x.val[1]), vst1q_u8(blue + i, x.val[2]);
    }
    return i;
}

/* ----- effects.c: blur ----- */

/* (sum inner + ends outer + 2^23) / 2^24 of eight pixels */
GF_NEON uint8x8_t gf_neon_box_level(uint16x8_t sum, uint16x8_t ends, uint32_t inner, uint32_t outer) {
    uint32x4_t low = vmlaq_n_u32(vdupq_n_u32(1u << 23), vmovl_u16(vget_low_u16(sum)), inner);
    uint32x4_t high = vmlaq_n_u32(vdupq_n_u32(1u << 23), vmovl_high_u16(sum), inner);
    low = vshrq_n_u32(vmlaq_n_u32(low, vmovl_u16(vget_low_u16(ends)), outer), 24);
    high = vshrq_n_u32(vmlaq_n_u32(high, vmovl_high_u16(ends), outer), 24);
    return vmovn_u16(vmovn_high_u32(vmovn_u32(low), high));
}

/* Pixels `d` away from those at `in`: in a row of its own, or in row y + d of `height` rows of n pixels. */
GF_NEON const uint8_t *gf_neon_away(const uint8_t *in, size_t n, int height, int y, int d) {
    if (!height) return in + d;
    const int at = y + d < 0 ? 0 : y + d < height ? y + d : height - 1;
    return in + (size_t)at * n;
}

/* One row of a box blur, along the row (height 0) or across the rows. */
GF_NEON size_t gf_neon_box(uint8_t *out, const uint8_t *in, size_t n, int height, int y, int radius, uint32_t inner,
                           uint32_t outer) {
    size_t i = 0;
    for (; i + 16 <= n; i += 16) {
        const uint8x16_t x = vld1q_u8(gf_neon_away(in, n, height, y, 0) + i);
        uint16x8_t low = vmovl_u8(vget_low_u8(x)), high = vmovl_high_u8(x);
        for (int d = 1; d <= radius; d++) {
            const uint8x16_t a = vld1q_u8(gf_neon_away(in, n, height, y, -d) + i);
            const uint8x16_t b = vld1q_u8(gf_neon_away(in, n, height, y, d) + i);
            low = vaddw_u8(vaddw_u8(low, vget_low_u8(a)), vget_low_u8(b));
            high = vaddw_high_u8(vaddw_high_u8(high, a), b);
        }
        const uint8x16_t a = vld1q_u8(gf_neon_away(in, n, height, y, -radius - 1) + i);
        const uint8x16_t b = vld1q_u8(gf_neon_away(in, n, height, y, radius + 1) + i);
        vst1q_u8(out + i, vcombine_u8(gf_neon_box_level(low, vaddl_u8(vget_low_u8(a), vget_low_u8(b)), inner, outer),
                                      gf_neon_box_level(high, vaddl_high_u8(a, b), inner, outer)));
    }
    return i;
}

/* ----- effects.c: colours ----- */

GF_NEON uint16x4_t gf_neon_luma4(uint16x4_t red, uint16x4_t green, uint16x4_t blue) {
    return vrshrn_n_u32(vmlal_n_u16(vmlal_n_u16(vmull_n_u16(red, 19595), green, 38470), blue, 7471), 16);
}

GF_NEON uint8x8_t gf_neon_luma8(uint8x8_t red, uint8x8_t green, uint8x8_t blue) {
    const uint16x8_t r = vmovl_u8(red), g = vmovl_u8(green), b = vmovl_u8(blue);
    const uint16x4_t low = gf_neon_luma4(vget_low_u16(r), vget_low_u16(g), vget_low_u16(b));
    return vmovn_u16(vcombine_u16(low, gf_neon_luma4(vget_high_u16(r), vget_high_u16(g), vget_high_u16(b))));
}

GF_NEON uint8x16_t gf_neon_luma(uint8x16_t red, uint8x16_t green, uint8x16_t blue) {
    return vcombine_u8(gf_neon_luma8(vget_low_u8(red), vget_low_u8(green), vget_low_u8(blue)),
                       gf_neon_luma8(vget_high_u8(red), vget_high_u8(green), vget_high_u8(blue)));
}

/* base + factor (value - base), limited to 0 .. 255 and truncated. */
GF_NEON uint8x16_t gf_neon_mix(uint8x16_t base, uint8x16_t value, float factor) {
    const gf_neon_s32 from = gf_neon_widen(base), to = gf_neon_widen(value);
    gf_neon_s32 x;
    for (int p = 0; p < 4; p++) {
        const float32x4_t away = vmulq_n_f32(vcvtq_f32_s32(vsubq_s32(to.part[p], from.part[p])), factor);
        float32x4_t mixed = vaddq_f32(vcvtq_f32_s32(from.part[p]), away);
        mixed = vbslq_f32(vcgtzq_f32(mixed), mixed, vdupq_n_f32(0.0f));
        x.part[p] = vcvtq_s32_f32(vbslq_f32(vcltq_f32(mixed, vdupq_n_f32(255.0f)), mixed, vdupq_n_f32(255.0f)));
    }
    return gf_neon_narrow(&x);
}

GF_NEON size_t gf_neon_blend_level(uint8_t *x, size_t n, int level, float factor) {
    size_t i = 0;
    for (; i + 16 <= n; i += 16) vst1q_u8(x + i, gf_neon_mix(vdupq_n_u8((uint8_t)level), vld1q_u8(x + i), factor));
    return i;
}

GF_NEON size_t gf_neon_add_luma(const uint8_t *red, const uint8_t *green, const uint8_t *blue, size_t n, uint64_t *sum) {
    size_t i = 0;
    uint64x2_t all = vdupq_n_u64(0);
    for (; i + 16 <= n; i += 16) {
        const uint8x16_t gray = gf_neon_luma(vld1q_u8(red + i), vld1q_u8(green + i), vld1q_u8(blue + i));
        all = vpadalq_u32(all, vpaddlq_u16(vpaddlq_u8(gray)));
    }
    *sum += vaddvq_u64(all);
    return i;
}

GF_NEON size_t gf_neon_saturate(uint8_t *red, uint8_t *green, uint8_t *blue, size_t n, float factor) {
    size_t i = 0;
    for (; i + 16 <= n; i += 16) {
        const uint8x16_t r = vld1q_u8(red + i), g = vld1q_u8(green + i), b = vld1q_u8(blue + i), gray = gf_neon_luma(r, g, b);
        vst1q_u8(red + i, gf_neon_mix(gray, r, factor));
        vst1q_u8(green + i, gf_neon_mix(gray, g, factor));
        vst1q_u8(blue + i, gf_neon_mix(gray, b, factor));
    }
    return i;
}

GF_NEON size_t gf_neon_gray(uint8_t *red, uint8_t *green, uint8_t *blue, size_t n) {
    size_t i = 0;
    for (; i + 16 <= n; i += 16) {
        const uint8x16_t gray = gf_neon_luma(vld1q_u8(red + i), vld1q_u8(green + i), vld1q_u8(blue + i));
        vst1q_u8(red + i, gray), vst1q_u8(green + i, gray), vst1q_u8(blue + i, gray);
    }
    return i;
}

/* hue_of in effects.c: is_red, is_green and ones are masks, all bits or none. */
GF_NEON int32x4_t gf_neon_hue(int32x4_t red, int32x4_t green, int32x4_t blue, int32x4_t top, int32x4_t range) {
    const int32x4_t zero = vdupq_n_s32(0);
    const uint32x4_t is_red = vceqq_s32(red, top), is_green = vbicq_u32(vceqq_s32(green, top), is_red);
    const int32x4_t ahead = vsubq_s32(top, vbslq_s32(is_red, blue, vbslq_s32(is_green, red, green)));
    const int32x4_t behind = vsubq_s32(top, vbslq_s32(is_red, green, vbslq_s32(is_green, blue, red)));
    const int32x4_t sixths = vbslq_s32(is_red, zero, vbslq_s32(is_green, vdupq_n_s32(2), vdupq_n_s32(4)));
    const uint32x4_t below_zero = vandq_u32(is_red, vcltq_s32(ahead, behind)), gray = vceqzq_s32(range);
    const int32x4_t sign = vbslq_s32(vceqq_s32(ahead, range), vdupq_n_s32(-1), vdupq_n_s32(1));
    const int32x4_t whole = vbslq_s32(gray, sixths, vsubq_s32(sixths, sign));
    const int32x4_t part = vmulq_s32(sign, vminq_s32(ahead, behind)), by = vsubq_s32(range, vreinterpretq_s32_u32(gray));
    const float32x4_t turn = vaddq_f32(vcvtq_f32_s32(whole), vdivq_f32(vcvtq_f32_s32(part), vcvtq_f32_s32(by)));
    const float32x4_t one = vcvtq_f32_u32(vshrq_n_u32(below_zero, 31));
    return vcvtq_s32_f32(vmulq_n_f32(vaddq_f32(vdivq_f32(turn, vdupq_n_f32(6.0f)), one), 255.0f));
}

/* value (1 - part), rounded */
GF_NEON int32x4_t gf_neon_dim(int32x4_t value, float32x4_t part) {
    const float32x4_t rest = vsubq_f32(vdupq_n_f32(1.0f), part);
    return vcvtq_s32_f32(vaddq_f32(vmulq_f32(vcvtq_f32_s32(value), rest), vdupq_n_f32(0.5f)));
}

typedef struct gf_neon_levels { /* of 16 colours, as in effects.c */
    gf_neon_s32 value, sector, low, falling, rising;
} gf_neon_levels;

GF_NEON void gf_neon_turn(gf_neon_levels *x, int p, int32x4_t red, int32x4_t green, int32x4_t blue, int shift) {
    const int32x4_t top = vmaxq_s32(red, vmaxq_s32(green, blue)), range = vsubq_s32(top, vminq_s32(red, vminq_s32(green, blue)));
    const int32x4_t byte = vdupq_n_s32(255), black = vreinterpretq_s32_u32(vceqzq_s32(top));
    const int32x4_t hue = vandq_s32(vaddq_s32(gf_neon_hue(red, green, blue, top, range), vdupq_n_s32(shift)), byte);
    const float32x4_t share = vdivq_f32(vcvtq_f32_s32(range), vcvtq_f32_s32(vsubq_s32(top, black)));
    const int32x4_t saturation = vandq_s32(vcvtq_s32_f32(vmulq_n_f32(share, 255.0f)), byte);
    const int32x4_t sector = vshrq_n_s32(vmulq_n_s32(hue, 1543), 16);
    const int32x4_t into = vsubq_s32(vmulq_n_s32(hue, 6), vmulq_n_s32(sector, 255));
    const float32x4_t strength = vdivq_f32(vcvtq_f32_s32(saturation), vdupq_n_f32(255.0f));
    const float32x4_t part = vdivq_f32(vcvtq_f32_s32(into), vdupq_n_f32(255.0f));
    x->value.part[p] = top;
    x->sector.part[p] = sector;
    x->low.part[p] = gf_neon_dim(top, strength);
    x->falling.part[p] = gf_neon_dim(top, vmulq_f32(strength, part));
    x->rising.part[p] = gf_neon_dim(top, vmulq_f32(strength, vsubq_f32(vdupq_n_f32(1.0f), part)));
}

GF_NEON uint8x16_t gf_neon_choose(const gf_neon_levels *x, uint8_t a, uint8_t b, uint8_t falling, uint8_t rising) {
    const uint8x16_t sector = gf_neon_narrow(&x->sector), k = vbicq_u8(sector, vceqq_u8(sector, vdupq_n_u8(6)));
    const uint8x16_t is_top = vorrq_u8(vceqq_u8(k, vdupq_n_u8(a)), vceqq_u8(k, vdupq_n_u8(b)));
    const uint8x16_t level = vbslq_u8(is_top, gf_neon_narrow(&x->value), gf_neon_narrow(&x->low));
    const uint8x16_t mixed = vbslq_u8(vceqq_u8(k, vdupq_n_u8(falling)), gf_neon_narrow(&x->falling), level);
    return vbslq_u8(vceqq_u8(k, vdupq_n_u8(rising)), gf_neon_narrow(&x->rising), mixed);
}

GF_NEON size_t gf_neon_shift_hue(uint8_t *red, uint8_t *green, uint8_t *blue, size_t n, int shift) {
    size_t i = 0;
    for (; i + 16 <= n; i += 16) {
        const gf_neon_s32 r = gf_neon_widen(vld1q_u8(red + i)), g = gf_neon_widen(vld1q_u8(green + i));
        const gf_neon_s32 b = gf_neon_widen(vld1q_u8(blue + i));
        gf_neon_levels x;
        for (int p = 0; p < 4; p++) gf_neon_turn(&x, p, r.part[p], g.part[p], b.part[p], shift);
        vst1q_u8(red + i, gf_neon_choose(&x, 0, 5, 1, 4));
        vst1q_u8(green + i, gf_neon_choose(&x, 1, 2, 3, 0));
        vst1q_u8(blue + i, gf_neon_choose(&x, 3, 4, 5, 2));
    }
    return i;
}

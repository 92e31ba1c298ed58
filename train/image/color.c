/* color.c - see color.h. Results are PIL's to the bit: which values are rounded to float, and when, decides about single levels.
 * Where PIL goes through double and we do not, all values that can occur give the same; tests compare all 2^24 colours.
 */
#include "image/color.h"

#include "image/simd_clones.h"

GF_LANES_BODY int luma(int red, int green, int blue) { return (red * 19595 + green * 38470 + blue * 7471 + 0x8000) >> 16; }

/* base + factor * (value - base), truncated to integers in 0 .. 255. */
GF_LANES_BODY int blend(int base, int value, float factor) {
    const float mixed = (float)base + factor * (float)(value - base);
    const float low = mixed > 0 ? mixed : 0;
    return (int)(low < 255 ? low : 255);
}

GF_LANES_BODY void blend_level_body(uint8_t *restrict x, size_t n, int level, float factor) {
    for (size_t i = GF_NEON_DOES(gf_neon_blend_level(x, n, level, factor)); i < n; i++)
        x[i] = (uint8_t)blend(level, x[i], factor);
}
GF_LANES(static, blend_level, (uint8_t *restrict x, size_t n, int level, float factor), (x, n, level, factor))

void gf_color_brightness(uint8_t *planes, size_t n, double factor) { blend_level(planes, 3 * n, 0, (float)factor); }

/* ----- Contrast ----- */

enum { CHUNK = 4096 }; /* sums of so many gray levels fit 32 bits */

GF_LANES_BODY void add_luma_body(const uint8_t *restrict red, const uint8_t *restrict green, const uint8_t *restrict blue,
                                 size_t n, uint64_t *sum) {
    for (size_t at = GF_NEON_DOES(gf_neon_add_luma(red, green, blue, n, sum)); at < n; at += CHUNK) {
        const size_t end = n - at < CHUNK ? n : at + CHUNK;
        int32_t part = 0;
        for (size_t i = at; i < end; i++) part += luma(red[i], green[i], blue[i]);
        *sum += (uint64_t)part;
    }
}
GF_LANES(static, add_luma,
         (const uint8_t *restrict red, const uint8_t *restrict green, const uint8_t *restrict blue, size_t n, uint64_t *sum),
         (red, green, blue, n, sum))

void gf_color_contrast(uint8_t *planes, size_t n, double factor) {
    uint64_t sum = 0;
    if (n == 0) return;
    add_luma(planes, planes + n, planes + 2 * n, n, &sum);
    blend_level(planes, 3 * n, (int)((double)sum / (double)n + 0.5), (float)factor);
}

/* ----- Saturation and gray ----- */

GF_LANES_BODY void saturate_body(uint8_t *restrict red, uint8_t *restrict green, uint8_t *restrict blue, size_t n, float factor) {
    for (size_t i = GF_NEON_DOES(gf_neon_saturate(red, green, blue, n, factor)); i < n; i++) {
        const int level = luma(red[i], green[i], blue[i]);
        red[i] = (uint8_t)blend(level, red[i], factor);
        green[i] = (uint8_t)blend(level, green[i], factor);
        blue[i] = (uint8_t)blend(level, blue[i], factor);
    }
}
GF_LANES(static, saturate, (uint8_t *restrict red, uint8_t *restrict green, uint8_t *restrict blue, size_t n, float factor),
         (red, green, blue, n, factor))

void gf_color_saturation(uint8_t *planes, size_t n, double factor) {
    saturate(planes, planes + n, planes + 2 * n, n, (float)factor);
}

GF_LANES_BODY void gray_body(uint8_t *restrict red, uint8_t *restrict green, uint8_t *restrict blue, size_t n) {
    for (size_t i = GF_NEON_DOES(gf_neon_gray(red, green, blue, n)); i < n; i++)
        red[i] = green[i] = blue[i] = (uint8_t)luma(red[i], green[i], blue[i]);
}
GF_LANES(static, gray, (uint8_t *restrict red, uint8_t *restrict green, uint8_t *restrict blue, size_t n), (red, green, blue, n))

void gf_color_gray(uint8_t *planes, size_t n) { gray(planes, planes + n, planes + 2 * n, n); }

/* ----- Hue -----
 *
 * In blocks, in three plain loops without branches, so that each is vectorised: to HSV with the hue shifted; the levels that
 * occur in the result; choosing among them. Gray pixels take the same way and come out as hue 0, saturation 0. */

enum { BLOCK = 512 };

typedef struct hsv {
    uint8_t hue[BLOCK], saturation[BLOCK], value[BLOCK];
} hsv;

typedef struct levels { /* of a colour: its value, and the smallest, a falling and a rising level below it */
    uint8_t sector[BLOCK], low[BLOCK], falling[BLOCK], rising[BLOCK];
} levels;

GF_LANES_BODY int larger(int a, int b) { return a > b ? a : b; }
GF_LANES_BODY int smaller(int a, int b) { return a < b ? a : b; }
GF_LANES_BODY int pick(int yes, int a, int b) { return b ^ ((a ^ b) & -yes); }

/* PIL's 8-bit hue of a colour whose largest channel is `top` and whose channels span `range`: a sixth of sixths + ahead/range -
 * behind/range. One of the two distances is the range itself, so that one quotient is left; and then float gives what PIL's
 * double does. */
GF_LANES_BODY int hue_of(int red, int green, int blue, int top, int range) {
    const int is_red = red == top, is_green = (green == top) & !is_red;
    const int ahead = top - pick(is_red, blue, pick(is_green, red, green));
    const int behind = top - pick(is_red, green, pick(is_green, blue, red));
    const int sixths = 4 - 4 * is_red - 2 * is_green, below_zero = is_red & (ahead < behind);
    const int sign = 1 - 2 * (ahead == range), whole = pick(range == 0, sixths, sixths - sign);
    const int other = smaller(ahead, behind);
    const float turn = (float)whole + (float)(sign * other) / (float)(range + (range == 0));
    return (int)((turn / 6.0f + (float)below_zero) * 255.0f);
}

GF_LANES_BODY void to_hsv(hsv *restrict out, const uint8_t *restrict red, const uint8_t *restrict green,
                          const uint8_t *restrict blue, size_t n, int shift) {
    for (size_t i = 0; i < n; i++) {
        const int r = red[i], g = green[i], b = blue[i];
        const int top = larger(r, larger(g, b)), range = top - smaller(r, smaller(g, b));
        out->hue[i] = (uint8_t)(hue_of(r, g, b, top, range) + shift);
        out->saturation[i] = (uint8_t)(int)((float)range / (float)(top + (top == 0)) * 255.0f);
        out->value[i] = (uint8_t)top;
    }
}

/* value * (1 - part), rounded; part lies in 0 .. 1. */
GF_LANES_BODY int dim(int value, float part) { return (int)((float)value * (1.0f - part) + 0.5f); }

GF_LANES_BODY void to_levels(levels *restrict out, const hsv *restrict in, size_t n) {
    for (size_t i = 0; i < n; i++) {
        const int value = in->value[i], hue = in->hue[i], sector = hue * 1543 >> 16; /* hue * 6 / 255 */
        const float strength = (float)in->saturation[i] / 255.0f, part = (float)(hue * 6 - sector * 255) / 255.0f;
        out->sector[i] = (uint8_t)sector;
        out->low[i] = (uint8_t)dim(value, strength);
        out->falling[i] = (uint8_t)dim(value, strength * part);
        out->rising[i] = (uint8_t)dim(value, strength * (1.0f - part));
    }
}

/* The channel that is largest in sectors a and b, falls in `falling` and rises in `rising`; sector 6 is 0 again. */
GF_LANES_BODY void choose(uint8_t *restrict out, const hsv *restrict in, const levels *restrict x, size_t n, uint8_t a, uint8_t b,
                          uint8_t falling, uint8_t rising) {
    for (size_t i = 0; i < n; i++) {
        const uint8_t sector = x->sector[i], value = in->value[i], low = x->low[i], fall = x->falling[i], rise = x->rising[i];
        const uint8_t k = sector == 6 ? 0 : sector, level = ((k == a) | (k == b)) ? value : low;
        const uint8_t mixed = k == falling ? fall : level;
        out[i] = k == rising ? rise : mixed;
    }
}

GF_LANES_BODY void shift_hue_body(uint8_t *restrict red, uint8_t *restrict green, uint8_t *restrict blue, size_t n, int shift) {
    hsv colour;
    levels x;
    for (size_t at = GF_NEON_DOES(gf_neon_shift_hue(red, green, blue, n, shift)); at < n; at += BLOCK) {
        const size_t count = n - at < BLOCK ? n - at : BLOCK;
        to_hsv(&colour, red + at, green + at, blue + at, count, shift);
        to_levels(&x, &colour, count);
        choose(red + at, &colour, &x, count, 0, 5, 1, 4);
        choose(green + at, &colour, &x, count, 1, 2, 3, 0);
        choose(blue + at, &colour, &x, count, 3, 4, 5, 2);
    }
}
GF_LANES(static, shift_hue, (uint8_t *restrict red, uint8_t *restrict green, uint8_t *restrict blue, size_t n, int shift),
         (red, green, blue, n, shift))

void gf_color_hue(uint8_t *planes, size_t n, double factor) {
    shift_hue(planes, planes + n, planes + 2 * n, n, (int)(factor * 255) & 255);
}

/* effects.c - see effects.h. */
#include "image/effects.h"

#include <math.h>
#include <string.h>

#include "image/simd_clones.h"

/* ===== colours =====
 *
 * Results are PIL's to the bit: which values are rounded to float, and when, decides about single levels.
 * Where PIL goes through double and we do not, all values that can occur give the same; tests compare all 2^24 colours.
 */

GF_LANES_BODY int luma(int red, int green, int blue) { return (red * 19595 + green * 38470 + blue * 7471 + 0x8000) >> 16; }

/* base + factor * (value - base), truncated to integers in 0 .. 255. */
GF_LANES_BODY int blend(int base, int value, float factor) {
    const float mixed = (float)base + factor * (float)(value - base);
    const float low = mixed > 0 ? mixed : 0;
    return (int)(low < 255 ? low : 255);
}

GF_LANES_BODY void blend_level_body(uint8_t *restrict x, size_t n, int level, float factor) {
    for (size_t i = 0; i < n; i++) x[i] = (uint8_t)blend(level, x[i], factor);
}
GF_LANES(static, blend_level, (uint8_t *restrict x, size_t n, int level, float factor), (x, n, level, factor))

void gf_color_brightness(uint8_t *planes, size_t n, double factor) { blend_level(planes, 3 * n, 0, (float)factor); }

/* ----- Contrast ----- */

enum { CHUNK = 4096 }; /* sums of so many gray levels fit 32 bits */

GF_LANES_BODY void add_luma_body(const uint8_t *restrict red, const uint8_t *restrict green, const uint8_t *restrict blue,
                                 size_t n, uint64_t *sum) {
    for (size_t at = 0; at < n; at += CHUNK) {
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
    for (size_t i = 0; i < n; i++) {
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
    for (size_t i = 0; i < n; i++) red[i] = green[i] = blue[i] = (uint8_t)luma(red[i], green[i], blue[i]);
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
    for (size_t at = 0; at < n; at += BLOCK) {
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

/* ===== blur =====
 *
 * A box blur is a sum over the whole pixels of the box, times one weight, plus its two end pixels times
 * another; both are fractions of 2^24, so that everything is exact in unsigned 32 bits.
 */

/* Gwosdek et al. 2011, "extended box filter". Types as in PIL. */
gf_box gf_blur_box(double sigma) {
    const float s = (float)sigma, variance = s * s / 3;
    const float length = (float)sqrt(12.0 * (double)variance + 1.0);
    const float whole = (float)floor(((double)length - 1.0) / 2.0);
    float fraction = (2 * whole + 1) * (whole * (whole + 1) - 3 * variance);
    fraction /= 6 * (variance - (whole + 1) * (whole + 1));
    const float radius = whole + fraction;
    gf_box b = {.radius = (int)radius};
    b.inner = (uint32_t)((float)(1 << 24) / (radius * 2 + 1));
    b.outer = ((1u << 24) - (uint32_t)(2 * b.radius + 1) * b.inner) / 2;
    return b;
}

/* out[n] from in[n] and the border around it. */
GF_LANES_BODY void box_row_body(uint8_t *restrict out, const uint8_t *restrict in, uint16_t *restrict sum, size_t n, gf_box b) {
    const int r = b.radius;
    for (size_t i = 0; i < n; i++) sum[i] = in[i];
    for (int d = 1; d <= r; d++)
        for (size_t i = 0; i < n; i++) sum[i] = (uint16_t)(sum[i] + in[(ptrdiff_t)i - d] + in[(ptrdiff_t)i + d]);
    for (size_t i = 0; i < n; i++) {
        const uint32_t ends = (uint32_t)in[(ptrdiff_t)i - r - 1] + in[(ptrdiff_t)i + r + 1];
        out[i] = (uint8_t)((sum[i] * b.inner + ends * b.outer + (1u << 23)) >> 24);
    }
}
GF_LANES(static, box_row, (uint8_t *restrict out, const uint8_t *restrict in, uint16_t *restrict sum, size_t n, gf_box b),
         (out, in, sum, n, b))

static int clamp(int i, int n) { return i < 0 ? 0 : i < n ? i : n - 1; }

/* Row y of out from the rows of in around it. */
GF_LANES_BODY void box_column_body(uint8_t *restrict out, const uint8_t *restrict in, uint16_t *restrict sum, int width,
                                   int height, int y, gf_box b) {
    const size_t n = (size_t)width;
    for (size_t i = 0; i < n; i++) sum[i] = in[(size_t)y * n + i];
    for (int d = 1; d <= b.radius; d++) {
        const uint8_t *above = in + (size_t)clamp(y - d, height) * n, *below = in + (size_t)clamp(y + d, height) * n;
        for (size_t i = 0; i < n; i++) sum[i] = (uint16_t)(sum[i] + above[i] + below[i]);
    }
    const uint8_t *above = in + (size_t)clamp(y - b.radius - 1, height) * n;
    const uint8_t *below = in + (size_t)clamp(y + b.radius + 1, height) * n;
    for (size_t i = 0; i < n; i++) {
        const uint32_t ends = (uint32_t)above[i] + below[i];
        out[i] = (uint8_t)((sum[i] * b.inner + ends * b.outer + (1u << 23)) >> 24);
    }
}
GF_LANES(static, box_column,
         (uint8_t *restrict out, const uint8_t *restrict in, uint16_t *restrict sum, int width, int height, int y, gf_box b),
         (out, in, sum, width, height, y, b))

/* A row with its borders repeated `edge` times on both sides. */
static void extend(uint8_t *row, int n, int edge) {
    memset(row - edge, row[0], (size_t)edge);
    memset(row + n, row[n - 1], (size_t)edge);
}

/* Scratch: sums of a row, two rows with borders, two planes. */
static size_t bordered(int width, gf_box b) { return (size_t)width + 2 * (size_t)(b.radius + 1); }

size_t gf_blur_scratch(int width, int height, double sigma) {
    return (size_t)width * sizeof(uint16_t) + 2 * bordered(width, gf_blur_box(sigma)) + 2 * (size_t)width * (size_t)height;
}

void gf_blur(uint8_t *plane, int width, int height, double sigma, void *scratch) {
    const gf_box b = gf_blur_box(sigma);
    const int edge = b.radius + 1;
    const size_t n = (size_t)width, pixels = n * (size_t)height;
    uint16_t *sum = scratch;
    uint8_t *first = (uint8_t *)(sum + width) + edge, *second = first + bordered(width, b);
    uint8_t *planes = second - edge + bordered(width, b);
    for (int y = 0; y < height; y++) {
        uint8_t *row = plane + (size_t)y * n;
        memcpy(first, row, n);
        extend(first, width, edge);
        box_row(second, first, sum, n, b);
        extend(second, width, edge);
        box_row(first, second, sum, n, b);
        extend(first, width, edge);
        box_row(row, first, sum, n, b);
    }
    const uint8_t *in[3] = {plane, planes, planes + pixels};
    uint8_t *out[3] = {planes, planes + pixels, plane};
    for (int k = 0; k < 3; k++)
        for (int y = 0; y < height; y++) box_column(out[k] + (size_t)y * n, in[k], sum, width, height, y, b);
}

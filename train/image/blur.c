/* blur.c - see blur.h. A box blur is a sum over the whole pixels of the box, times one weight, plus its two end pixels times
 * another; both are fractions of 2^24, so that everything is exact in unsigned 32 bits.
 */
#include "image/blur.h"

#include <math.h>
#include <string.h>

#include "image/simd_clones.h"

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
    const size_t done = GF_NEON_DOES(gf_neon_box(out, in, n, 0, 0, r, b.inner, b.outer));
    for (size_t i = done; i < n; i++) sum[i] = in[i];
    for (int d = 1; d <= r; d++) {
        for (size_t i = done; i < n; i++) sum[i] = (uint16_t)(sum[i] + in[(ptrdiff_t)i - d] + in[(ptrdiff_t)i + d]);
    }
    for (size_t i = done; i < n; i++) {
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
    const size_t done = GF_NEON_DOES(gf_neon_box(out, in, n, height, y, b.radius, b.inner, b.outer));
    for (size_t i = done; i < n; i++) sum[i] = in[(size_t)y * n + i];
    for (int d = 1; d <= b.radius; d++) {
        const uint8_t *above = in + (size_t)clamp(y - d, height) * n, *below = in + (size_t)clamp(y + d, height) * n;
        for (size_t i = done; i < n; i++) sum[i] = (uint16_t)(sum[i] + above[i] + below[i]);
    }
    const uint8_t *above = in + (size_t)clamp(y - b.radius - 1, height) * n;
    const uint8_t *below = in + (size_t)clamp(y + b.radius + 1, height) * n;
    for (size_t i = done; i < n; i++) {
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

static void blur_rows(uint8_t *plane, int width, int height, gf_box b, uint16_t *sum, uint8_t *first, uint8_t *second) {
    const int edge = b.radius + 1;
    const size_t n = (size_t)width;
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
}

static void blur_columns(uint8_t *out, const uint8_t *in, int width, int height, gf_box b, uint16_t *sum) {
    for (int y = 0; y < height; y++) box_column(out + (size_t)y * (size_t)width, in, sum, width, height, y, b);
}

/* Scratch: sums of a row, two rows with borders, two planes. */
static size_t bordered(int width, gf_box b) { return (size_t)width + 2 * (size_t)(b.radius + 1); }

size_t gf_blur_scratch(int width, int height, double sigma) {
    return (size_t)width * sizeof(uint16_t) + 2 * bordered(width, gf_blur_box(sigma)) + 2 * (size_t)width * (size_t)height;
}

void gf_blur(uint8_t *plane, int width, int height, double sigma, void *scratch) {
    const gf_box b = gf_blur_box(sigma);
    uint16_t *sum = scratch;
    uint8_t *rows = (uint8_t *)(sum + width), *planes = rows + 2 * bordered(width, b);
    const size_t pixels = (size_t)width * (size_t)height;
    blur_rows(plane, width, height, b, sum, rows + b.radius + 1, rows + bordered(width, b) + b.radius + 1);
    blur_columns(planes, plane, width, height, b, sum);
    blur_columns(planes + pixels, planes, width, height, b, sum);
    blur_columns(plane, planes + pixels, width, height, b, sum);
}

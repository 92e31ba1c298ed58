/* resample.c - the two passes of resample.h.
 *
 * Rows: 16 source rows at a time are laid side by side, so that one column is a run of 48 neighbouring bytes [16 rows][3]; an
 * output column is then a weighted sum of such runs, the same weights for all bytes. Columns: an output row is a weighted sum of
 * rows.
 * Weights of the linear filter are not negative and sum to 1 within rounding, so that 8-bit sums need no clipping.
 */
#include "image/resample.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "image/simd_clones.h"

enum { PRECISION = 22, ROWS = 16, RUN = ROWS * 3, SLICE = 16, STEP = 32 };
enum { BUFFER_SPANS, BUFFER_WEIGHTS, BUFFER_EXACT, BUFFER_BLOCK, BUFFER_MIDDLE, BUFFER_LINE };

typedef struct span { /* the source pixels one output pixel is made of */
    int first, count;
} span;

typedef struct axis {
    int taps;        /* weights kept per output pixel */
    span *span;      /* [wanted] */
    int32_t *weight; /* [wanted][taps] */
    int clip;        /* sums may lie outside 0 .. 255 */
    int first, end;  /* source pixels that any of them needs */
} axis;

static glofnd_status reserve_buffer(gf_error *err, gf_resampler *r, int which, size_t bytes) {
    if (r->bytes[which] < bytes) {
        free(r->buffer[which]);
        r->bytes[which] = 0;
        r->buffer[which] = malloc(bytes);
        FAIL_IF(err, !r->buffer[which], GLOFND_E_MEMORY, "no memory for resizing an image (%zu bytes)", bytes);
        r->bytes[which] = bytes;
    }
    return GLOFND_OK;
}

void gf_resampler_free(gf_resampler *r) {
    for (int i = 0; i < 6; i++) free(r->buffer[i]);
    *r = (gf_resampler){0};
}

/* ----- Weights ----- */

static double filter_reach(gf_filter f) { return f == GF_FILTER_CUBIC ? 2 : 1; }

int gf_filter_taps(gf_filter f, int in, int out) {
    const double scale = (double)in / out;
    return (int)ceil(filter_reach(f) * (scale < 1 ? 1 : scale)) * 2 + 1;
}

static double filter_at(gf_filter f, double x) {
    const double d = fabs(x);
    if (f == GF_FILTER_LINEAR) return d < 1 ? 1 - d : 0;
    if (d < 1) return (1.5 * d - 2.5) * d * d + 1;
    return d < 2 ? ((2.5 - 0.5 * d) * d - 4) * d + 2 : 0;
}

int gf_filter_weights(gf_filter f, int in, int out, int at, double *weight, int *first) {
    const double scale = (double)in / out, widened = scale < 1 ? 1 : scale, support = filter_reach(f) * widened,
                 shrink = 1 / widened;
    const double center = (at + 0.5) * scale;
    int begin = (int)(center - support + 0.5), end = (int)(center + support + 0.5);
    if (begin < 0) begin = 0;
    if (end > in) end = in;
    double sum = 0;
    for (int i = 0; i < end - begin; i++) {
        weight[i] = filter_at(f, (i + begin - center + 0.5) * shrink);
        sum += weight[i];
    }
    for (int i = 0; i < end - begin && sum != 0; i++) weight[i] /= sum;
    *first = begin;
    return end - begin;
}

/* Output pixel `at` of `full`; exact [taps]: scratch for the weights before rounding. */
static span weigh_span(gf_filter f, int in, int full, int at, double *exact, int32_t *weight) {
    span s;
    s.count = gf_filter_weights(f, in, full, at, exact, &s.first);
    for (int i = 0; i < s.count; i++) weight[i] = (int32_t)((exact[i] < 0 ? -0.5 : 0.5) + exact[i] * (1 << PRECISION));
    return s;
}

static void make_axis(axis *a, gf_filter f, int in, int full, int wanted_first, int wanted, double *exact) {
    a->taps = gf_filter_taps(f, in, full);
    a->clip = f != GF_FILTER_LINEAR;
    a->first = in;
    a->end = 0;
    for (int i = 0; i < wanted; i++) {
        a->span[i] = weigh_span(f, in, full, wanted_first + i, exact, a->weight + (size_t)i * (size_t)a->taps);
        const int end = a->span[i].first + a->span[i].count;
        if (a->span[i].first < a->first) a->first = a->span[i].first;
        if (end > a->end) a->end = end;
    }
}

/* ----- Weighted sums ----- */

/* out[n] = the sum of `count` rows, `pitch` apart, times their weights. With a count known to the compiler the sums stay in
 * registers. */
GF_LANES_BODY void blend_few(uint8_t *restrict out, const uint8_t *restrict row, size_t pitch, size_t n,
                             const int32_t *restrict weight, int count) {
    for (size_t i = 0; i < n; i++) {
        int32_t sum = 1 << (PRECISION - 1);
        for (int k = 0; k < count; k++) sum += row[(size_t)k * pitch + i] * weight[k];
        out[i] = (uint8_t)(sum >> PRECISION);
    }
}

GF_LANES_BODY uint8_t level(int32_t sum, int clip) {
    const int32_t x = sum >> PRECISION;
    return (uint8_t)(clip && x < 0 ? 0 : clip && x > 255 ? 255 : x);
}

/* Any count; n is a multiple of SLICE. */
GF_LANES_BODY void blend_many(uint8_t *restrict out, const uint8_t *restrict row, size_t pitch, size_t n,
                              const int32_t *restrict weight, int count, int clip) {
    for (size_t at = 0; at < n; at += SLICE) {
        int32_t sum[SLICE];
        for (int i = 0; i < SLICE; i++) sum[i] = 1 << (PRECISION - 1);
        for (int k = 0; k < count; k++)
            for (int i = 0; i < SLICE; i++) sum[i] += row[(size_t)k * pitch + at + (size_t)i] * weight[k];
        for (int i = 0; i < SLICE; i++) out[at + (size_t)i] = level(sum[i], clip);
    }
}

GF_LANES_BODY void blend(uint8_t *restrict out, const uint8_t *restrict row, size_t pitch, size_t n,
                         const int32_t *restrict weight, int count, int clip) {
    if (clip) {
        blend_many(out, row, pitch, n, weight, count, 1);
        return;
    }
    switch (count) {
    case 1: blend_few(out, row, pitch, n, weight, 1); break;
    case 2: blend_few(out, row, pitch, n, weight, 2); break;
    case 3: blend_few(out, row, pitch, n, weight, 3); break;
    case 4: blend_few(out, row, pitch, n, weight, 4); break;
    case 5: blend_few(out, row, pitch, n, weight, 5); break;
    case 6: blend_few(out, row, pitch, n, weight, 6); break;
    default: blend_many(out, row, pitch, n, weight, count, 0);
    }
}

/* ----- Rows ----- */

/* block[x - first][ROWS][3] from up to ROWS rows of the source; missing ones repeat the last. Pixels are copied with a byte of
 * the next one, which its own copy overwrites: the block has one spare byte. */
static void gather_block(uint8_t *block, const gf_resize *j, int first, int end, int top, int rows) {
    const uint8_t *row[ROWS];
    for (int i = 0; i < ROWS; i++) row[i] = j->rgb + (size_t)(top + (i < rows ? i : rows - 1)) * j->stride;
    for (int x = first; x < end - 1; x++)
        for (int i = 0; i < ROWS; i++, block += 3) memcpy(block, row[i] + (size_t)x * 3, 4);
    for (int i = 0; i < ROWS; i++, block += 3) memcpy(block, row[i] + (size_t)(end - 1) * 3, 3);
}

/* middle[rows][pitch]; again with one byte more per pixel, so that a row ends with a spare byte. */
GF_LANES_BODY void blend_columns_body(uint8_t *middle, size_t pitch, int rows, const uint8_t *block, const axis *x, int columns,
                                      int flip) {
    for (int to = 0; to < columns; to++, middle += 3) {
        uint8_t out[RUN + 1];
        const int at = flip ? columns - 1 - to : to;
        const span s = x->span[at];
        out[RUN] = 0;
        blend(out, block + (size_t)(s.first - x->first) * RUN, RUN, RUN, x->weight + (size_t)at * (size_t)x->taps, s.count,
              x->clip);
        for (int i = 0; i < rows; i++) memcpy(middle + (size_t)i * pitch, out + 3 * i, 4);
    }
}
GF_LANES(static, blend_columns,
         (uint8_t * middle, size_t pitch, int rows, const uint8_t *block, const axis *x, int columns, int flip),
         (middle, pitch, rows, block, x, columns, flip))

/* ----- Columns ----- */

GF_LANES_BODY void blend_rows_body(uint8_t *line, const uint8_t *row, size_t pitch, const int32_t *weight, int count, int clip) {
    blend(line, row, pitch, pitch, weight, count, clip);
}
GF_LANES(static, blend_rows, (uint8_t * line, const uint8_t *row, size_t pitch, const int32_t *weight, int count, int clip),
         (line, row, pitch, weight, count, clip))

GF_LANES_BODY void split_colours_body(uint8_t *restrict red, uint8_t *restrict green, uint8_t *restrict blue,
                                      const uint8_t *restrict rgb, int n) {
    for (int i = 0; i < n; i++) {
        red[i] = rgb[3 * i];
        green[i] = rgb[3 * i + 1];
        blue[i] = rgb[3 * i + 2];
    }
}
GF_LANES(static, split_colours,
         (uint8_t *restrict red, uint8_t *restrict green, uint8_t *restrict blue, const uint8_t *restrict rgb, int n),
         (red, green, blue, rgb, n))

/* ----- Both ----- */

glofnd_status gf_resample(gf_error *err, gf_resampler *r, const gf_resize *j) {
    FAIL_IF(err, j->width < 1 || j->height < 1 || j->full_width < 1 || j->full_height < 1, GLOFND_E_ARGUMENT,
            "cannot resize %d x %d to %d x %d", j->width, j->height, j->full_width, j->full_height);
    const int inside = j->left >= 0 && j->top >= 0 && j->out_width >= 1 && j->out_height >= 1 &&
                       j->out_width <= j->full_width - j->left && j->out_height <= j->full_height - j->top;
    FAIL_IF(err, !inside, GLOFND_E_ARGUMENT, "part %d x %d at %d, %d lies outside %d x %d", j->out_width, j->out_height, j->left,
            j->top, j->full_width, j->full_height);
    axis x, y;
    const size_t x_taps = (size_t)gf_filter_taps(j->filter, j->width, j->full_width);
    const size_t y_taps = (size_t)gf_filter_taps(j->filter, j->height, j->full_height);
    const size_t columns = (size_t)j->out_width, axes_rows = (size_t)j->out_height;
    TRY(reserve_buffer(err, r, BUFFER_EXACT, (x_taps > y_taps ? x_taps : y_taps) * sizeof(double)));
    TRY(reserve_buffer(err, r, BUFFER_SPANS, (columns + axes_rows) * sizeof(span)));
    TRY(reserve_buffer(err, r, BUFFER_WEIGHTS, (columns * x_taps + axes_rows * y_taps) * sizeof(int32_t)));
    double *exact = r->buffer[BUFFER_EXACT];
    x.span = r->buffer[BUFFER_SPANS];
    x.weight = r->buffer[BUFFER_WEIGHTS];
    y.span = x.span + columns;
    y.weight = x.weight + columns * x_taps;
    make_axis(&x, j->filter, j->width, j->full_width, j->left, j->out_width, exact);
    make_axis(&y, j->filter, j->height, j->full_height, j->top, j->out_height, exact);
    const size_t used = (size_t)j->out_width * 3, pitch = used / STEP * STEP + STEP; /* always spare bytes at the end */
    TRY(reserve_buffer(err, r, BUFFER_BLOCK, (size_t)(x.end - x.first) * RUN + 1));
    TRY(reserve_buffer(err, r, BUFFER_MIDDLE, (size_t)(y.end - y.first) * pitch));
    TRY(reserve_buffer(err, r, BUFFER_LINE, pitch));
    uint8_t *block = r->buffer[BUFFER_BLOCK], *middle = r->buffer[BUFFER_MIDDLE], *line = r->buffer[BUFFER_LINE];
    for (int top = y.first; top < y.end; top += ROWS) {
        const int rows = y.end - top < ROWS ? y.end - top : ROWS;
        uint8_t *to = middle + (size_t)(top - y.first) * pitch;
        gather_block(block, j, x.first, x.end, top, rows);
        blend_columns(to, pitch, rows, block, &x, j->out_width, j->flip);
        for (int i = 0; i < rows; i++) memset(to + (size_t)i * pitch + used, 0, pitch - used);
    }
    for (int at = 0; at < j->out_height; at++) {
        const size_t to = (size_t)at * j->pitch;
        const span s = y.span[at];
        blend_rows(line, middle + (size_t)(s.first - y.first) * pitch, pitch, y.weight + (size_t)at * (size_t)y.taps, s.count,
                   y.clip);
        split_colours(j->plane[0] + to, j->plane[1] + to, j->plane[2] + to, line, j->out_width);
    }
    return GLOFND_OK;
}

/* positions.c - see positions.h. */
#include "loop/positions.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "image/resample.h"

#define ROWS_MAX (1 << 20)

/* The side of a square grid of n; 0: n is no square. */
static int side_of(int64_t n) {
    int side = 0;
    while ((int64_t)side * side < n && side < 1024) side++;
    return (int64_t)side * side == n ? side : 0;
}

gf_positions_kind gf_positions_of(const char *name, int64_t from, int64_t to) {
    static const char *const grids[] = {"visual.positional_embedding", "visual.attnpool.positional_embedding"};
    if (from < 1 || to < 1 || from > ROWS_MAX || to > ROWS_MAX) return GF_POSITIONS_NONE;
    if (strcmp(name, "positional_embedding") == 0) return GF_POSITIONS_LINE;
    for (size_t k = 0; k < sizeof grids / sizeof *grids; k++)
        if (strcmp(name, grids[k]) == 0 && side_of(from - 1) > 0 && side_of(to - 1) > 0) return GF_POSITIONS_GRID;
    return GF_POSITIONS_NONE;
}

void gf_positions_text(gf_positions_kind kind, int64_t from, int64_t to, char *text, size_t bytes) {
    const int a = side_of(from - 1), b = side_of(to - 1);
    if (kind == GF_POSITIONS_GRID) snprintf(text, bytes, "%dx%d to %dx%d", a, a, b, b);
    else snprintf(text, bytes, "%" PRId64 " to %" PRId64, from, to);
}

static void add_row(double *sum, const double *row, double weight, int64_t n) {
    for (int64_t i = 0; i < n; i++) sum[i] += weight * row[i];
}

/* Rows of `width` numbers, `stride` apart: in of them become out. `sum` starts at zero. */
static void resize_axis(const double *from, int in, double *sum, int out, int64_t stride, int64_t width, double *weight) {
    for (int at = 0; at < out; at++) {
        int first;
        const int count = gf_filter_weights(GF_FILTER_CUBIC, in, out, at, weight, &first);
        for (int k = 0; k < count; k++) add_row(sum + at * stride, from + (first + k) * stride, weight[k], width);
    }
}

/* [a][a][width] to [b][b][width] by way of [a][b][width]: first each row of the grid, then whole rows. */
static glofnd_status resize_grid(gf_error *err, const float *old, int a, float *new, int b, int64_t width) {
    const int64_t n_old = (int64_t)a * a * width, n_middle = (int64_t)a * b * width, n_new = (int64_t)b * b * width;
    double *block = calloc((size_t)(n_old + n_middle + n_new) + (size_t)gf_filter_taps(GF_FILTER_CUBIC, a, b), sizeof *block);
    FAIL_IF(err, !block, GLOFND_E_MEMORY, "no memory to resize positions of %d x %d patches to %d x %d", a, a, b, b);
    double *middle = block + n_old, *end = middle + n_middle, *weight = end + n_new;
    for (int64_t i = 0; i < n_old; i++) block[i] = (double)old[i];
    for (int y = 0; y < a; y++) resize_axis(block + y * a * width, a, middle + (int64_t)y * b * width, b, width, width, weight);
    resize_axis(middle, a, end, b, b * width, b * width, weight);
    for (int64_t i = 0; i < n_new; i++) new[i] = (float)end[i];
    free(block);
    return GLOFND_OK;
}

/* Between the two nearest, of which the ends are held. */
static void resize_line(const float *old, int64_t from, float *new, int64_t to, int64_t width) {
    for (int64_t at = 0; at < to; at++) {
        const double wanted = ((double)at + 0.5) * (double)from / (double)to - 0.5, place = wanted < 0 ? 0 : wanted;
        const int64_t first = (int64_t)place, next = first + 1 < from ? first + 1 : first;
        const double share = place - (double)first;
        for (int64_t i = 0; i < width; i++) {
            const double a = (double)old[first * width + i], b = (double)old[next * width + i];
            new[at * width + i] = (float)(a + share * (b - a));
        }
    }
}

glofnd_status gf_positions_resize(gf_error *err, gf_positions_kind kind, const float *old, int64_t from, float *new, int64_t to,
                                  int64_t width) {
    if (kind == GF_POSITIONS_LINE) {
        resize_line(old, from, new, to, width);
        return GLOFND_OK;
    }
    memcpy(new, old, (size_t)width * sizeof *new); /* that of the class token */
    return resize_grid(err, old + width, side_of(from - 1), new + width, side_of(to - 1), width);
}

/* fn_quality_pairs.c - see fn_quality_pairs.h. The product is the tiles' one, whose bits do not depend on the place in a tile. */
#include "eval/fn_quality_pairs.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/parallel.h"
#include "cpu/tile/tile.h"

#define COLUMNS 512             /* of a tile */

typedef struct sweep {
    const gf_pairs *p;
    gf_pair_visit visit;
    void *user;
    const gf_tile_ops *ops;
    float *panels;              /* [pad(cols) / GF_PANEL][dim][GF_PANEL] unit columns */
    float *scratch;             /* per thread: unit rows [GF_PAIR_ROWS][dim], then the tile */
    size_t scratch_floats;
} sweep;

static void unit(float *out, size_t stride, const float *x, int64_t dim) {
    double sum = 0.0;
    for (int64_t i = 0; i < dim; i++) sum += (double)x[i] * (double)x[i];
    const double scale = sum > 0.0 ? 1.0 / sqrt(sum) : 0.0;
    for (int64_t i = 0; i < dim; i++) out[(size_t)i * stride] = (float)(scale * (double)x[i]);
}

static glofnd_status check_finite(gf_error *err, const float *x, int64_t rows, int64_t dim) {
    for (int64_t i = 0; i < rows * dim; i++)
        FAIL_IF(err, !isfinite(x[i]), GLOFND_E_NUMERIC, "embedding %lld is not finite", (long long)(i / dim));
    return GLOFND_OK;
}

static glofnd_status allocate(gf_error *err, sweep *x) {
    const gf_pairs *p = x->p;
    x->scratch_floats = GF_PAIR_ROWS * ((size_t)p->dim + COLUMNS);
    x->panels = calloc((size_t)gf_pad(p->cols) * (size_t)p->dim, sizeof *x->panels);
    x->scratch = calloc(x->scratch_floats * (size_t)p->threads, sizeof *x->scratch);
    FAIL_IF(err, !x->panels || !x->scratch, GLOFND_E_MEMORY, "no memory for %lld x %lld embeddings", (long long)p->cols,
            (long long)p->dim);
    return GLOFND_OK;
}

static void pack_panel(void *arg, int64_t panel, int thread) {
    const sweep *x = arg;
    const gf_pairs *p = x->p;
    (void)thread;
    for (int64_t c = panel * GF_PANEL; c < p->cols && c < (panel + 1) * GF_PANEL; c++)
        unit(x->panels + panel * GF_PANEL * p->dim + c % GF_PANEL, GF_PANEL, p->col + c * p->dim, p->dim);
}

static void sweep_block(void *arg, int64_t block, int thread) {
    const sweep *x = arg;
    const gf_pairs *p = x->p;
    float *rows = x->scratch + (size_t)thread * x->scratch_floats, *s = rows + GF_PAIR_ROWS * p->dim;
    gf_pair_tile t = {.r0 = block * GF_PAIR_ROWS, .s = s, .ld = COLUMNS};
    t.rows = p->rows - t.r0 < GF_PAIR_ROWS ? (int)(p->rows - t.r0) : GF_PAIR_ROWS;
    for (int r = 0; r < t.rows; r++) unit(rows + r * p->dim, 1, p->row + (t.r0 + r) * p->dim, p->dim);
    for (t.c0 = 0; t.c0 < p->cols; t.c0 += COLUMNS) {
        t.cols = p->cols - t.c0 < COLUMNS ? (int)(p->cols - t.c0) : COLUMNS;
        t.last = t.c0 + t.cols == p->cols;
        x->ops->product(s, COLUMNS, rows, (size_t)p->dim, 1, x->panels + t.c0 * p->dim, GF_PANEL, GF_PANEL * (size_t)p->dim,
                        GF_PAIR_ROWS, (int)gf_pad(t.cols), (int)p->dim, 0);
        x->visit(x->user, &t, thread);
    }
}

glofnd_status gf_pairs_sweep(gf_error *err, const gf_pairs *p, gf_pair_visit visit, void *user) {
    sweep x = {.p = p, .visit = visit, .user = user, .ops = gf_tile_ops_get()};
    FAIL_IF(err, p->rows < 1 || p->cols < 1 || p->dim < 1 || p->dim > INT32_MAX / 4 || p->threads < 1, GLOFND_E_ARGUMENT,
            "%lld x %lld pairs of %lld numbers on %d threads: all must be at least 1", (long long)p->rows, (long long)p->cols,
            (long long)p->dim, p->threads);
    TRY(check_finite(err, p->row, p->rows, p->dim));
    if (p->col != p->row || p->cols != p->rows) TRY(check_finite(err, p->col, p->cols, p->dim));
    const glofnd_status status = allocate(err, &x);
    if (status == GLOFND_OK) {
        gf_parallel(p->threads, gf_pad(p->cols) / GF_PANEL, pack_panel, &x);
        gf_parallel(p->threads, (p->rows + GF_PAIR_ROWS - 1) / GF_PAIR_ROWS, sweep_block, &x);
    }
    free(x.panels);
    free(x.scratch);
    return status;
}

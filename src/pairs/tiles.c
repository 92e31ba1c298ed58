/* tiles.c - see tiles.h. The product is the tiles' one, whose bits do not depend on the place in a tile. */
#include "pairs/tiles.h"

#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "cpu/kernels/tile.h"
#include "util/parallel.h"

#define DEPTH 256 /* of a row, in one call of the product: what is read again and again stays in near caches */

typedef struct sweep {
    const gf_pairs *p;
    gf_pair_visit visit;
    void *user;
    const gf_tile_ops *ops;
    float *panels;  /* [pad(cols) / GF_PANEL][dim][GF_PANEL] unit columns */
    float *scratch; /* per thread: unit rows [GF_PAIR_ROWS][dim], then the tile */
    size_t scratch_floats;
    _Atomic int64_t bad_row, bad_col; /* one that is not finite; -1: none */
    _Atomic int64_t done;             /* rows */
} sweep;

gf_pair_how gf_pair_about(const gf_pair_how *how, const char *what) {
    gf_pair_how out = *how;
    if (!out.what) out.what = what;
    return out;
}

/* Unit row; zeros stay zeros. 0: a number is not finite. */
static int unit(float *out, size_t stride, const float *x, int64_t dim) {
    double sum = 0.0;
    for (int64_t i = 0; i < dim; i++) sum += (double)x[i] * (double)x[i];
    const double scale = sum > 0.0 ? 1.0 / sqrt(sum) : 0.0;
    for (int64_t i = 0; i < dim; i++) out[(size_t)i * stride] = (float)(scale * (double)x[i]);
    return isfinite(sum); /* squares of floats are far from the end of double */
}

static glofnd_status allocate(gf_error *err, sweep *x) {
    const gf_pairs *p = x->p;
    x->scratch_floats = GF_PAIR_ROWS * ((size_t)p->dim + GF_PAIR_COLUMNS);
    x->panels = calloc((size_t)gf_pad(p->cols) * (size_t)p->dim, sizeof *x->panels);
    x->scratch = calloc(x->scratch_floats * (size_t)p->how.threads, sizeof *x->scratch);
    FAIL_IF(err, !x->panels || !x->scratch, GLOFND_E_MEMORY, "no memory for %lld x %lld embeddings", (long long)p->cols,
            (long long)p->dim);
    return GLOFND_OK;
}

static void pack_panel(void *arg, int64_t panel, int thread) {
    sweep *x = arg;
    const gf_pairs *p = x->p;
    (void)thread;
    for (int64_t c = panel * GF_PANEL; c < p->cols && c < (panel + 1) * GF_PANEL; c++)
        if (!unit(x->panels + panel * GF_PANEL * p->dim + c % GF_PANEL, GF_PANEL, p->col + c * p->dim, p->dim)) x->bad_col = c;
}

static void multiply(const sweep *x, const float *rows, float *s, int64_t c0, int cols) {
    const int64_t dim = x->p->dim;
    for (int64_t a = 0; a < dim; a += DEPTH)
        x->ops->product(s, GF_PAIR_COLUMNS, rows + a, (size_t)dim, 1, x->panels + c0 * dim + a * GF_PANEL, GF_PANEL,
                        GF_PANEL * (size_t)dim, GF_PAIR_ROWS, (int)gf_pad(cols), (int)(dim - a < DEPTH ? dim - a : DEPTH), a > 0);
}

static void sweep_block(void *arg, int64_t block, int thread) {
    sweep *x = arg;
    const gf_pairs *p = x->p;
    float *rows = x->scratch + (size_t)thread * x->scratch_floats, *s = rows + GF_PAIR_ROWS * p->dim;
    gf_pair_tile t = {.r0 = block * GF_PAIR_ROWS, .s = s, .ld = GF_PAIR_COLUMNS};
    t.rows = p->rows - t.r0 < GF_PAIR_ROWS ? (int)(p->rows - t.r0) : GF_PAIR_ROWS;
    for (int r = 0; r < t.rows; r++)
        if (!unit(rows + r * p->dim, 1, p->row + (t.r0 + r) * p->dim, p->dim)) x->bad_row = t.r0 + r;
    for (t.c0 = 0; t.c0 < p->cols && x->bad_row < 0; t.c0 += GF_PAIR_COLUMNS) {
        t.cols = p->cols - t.c0 < GF_PAIR_COLUMNS ? (int)(p->cols - t.c0) : GF_PAIR_COLUMNS;
        t.last = t.c0 + t.cols == p->cols;
        multiply(x, rows, s, t.c0, t.cols);
        x->visit(x->user, &t, thread);
    }
    const int64_t done = atomic_fetch_add(&x->done, t.rows) + t.rows;
    if (thread == 0 && p->how.progress) p->how.progress(p->how.user, p->how.what, done, p->rows);
}

static glofnd_status run(gf_error *err, sweep *x) {
    const gf_pairs *p = x->p;
    gf_parallel(p->how.threads, gf_pad(p->cols) / GF_PANEL, pack_panel, x);
    FAIL_IF(err, x->bad_col >= 0, GLOFND_E_NUMERIC, "%s %lld is not finite", p->col_name ? p->col_name : "embedding",
            (long long)x->bad_col);
    gf_parallel(p->how.threads, (p->rows + GF_PAIR_ROWS - 1) / GF_PAIR_ROWS, sweep_block, x);
    FAIL_IF(err, x->bad_row >= 0, GLOFND_E_NUMERIC, "%s %lld is not finite", p->row_name ? p->row_name : "embedding",
            (long long)x->bad_row);
    return GLOFND_OK;
}

glofnd_status gf_pairs_sweep(gf_error *err, const gf_pairs *p, gf_pair_visit visit, void *user) {
    sweep x = {.p = p, .visit = visit, .user = user, .ops = gf_tile_ops_get(), .bad_row = -1, .bad_col = -1};
    FAIL_IF(err, p->rows < 1 || p->cols < 1 || p->dim < 1 || p->dim > INT32_MAX / 4 || p->how.threads < 1, GLOFND_E_ARGUMENT,
            "%lld x %lld pairs of %lld numbers on %d threads: all must be at least 1", (long long)p->rows, (long long)p->cols,
            (long long)p->dim, p->how.threads);
    glofnd_status status = allocate(err, &x);
    if (status == GLOFND_OK) status = run(err, &x);
    free(x.panels);
    free(x.scratch);
    return status;
}

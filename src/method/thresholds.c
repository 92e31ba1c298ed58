/* thresholds.c - exact thresholds of given embeddings: what the learner converges to. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "method/context.h"
#include "util/order.h"

enum { MOST_DIM = INT32_MAX / 4 };

typedef struct tables {
    gf_embed q, k;
    float *norm;
    int64_t *row_id, *col_id; /* leave out column skip[i] */
    void *scratch;
} tables;

static void *take(size_t bytes) { return aligned_alloc(64, (bytes + 63) / 64 * 64); }

static glofnd_status allocate(glofnd_ctx *c, int64_t rows, int64_t cols, int64_t dim, int64_t best, int skips, tables *x) {
    const gf_backend *b = c->backend;
    const int64_t ld = b->embed_ld(dim), most = rows > cols ? rows : cols;
    const size_t q_bytes = sizeof(float) * (size_t)((gf_pad(rows) + GF_PANEL) * ld),
                 k_bytes = sizeof(float) * (size_t)((gf_pad(cols) + GF_PANEL) * ld);
    x->q = (gf_embed){.rows = rows, .dim = dim, .ld = ld, .row = take(q_bytes)};
    x->k = (gf_embed){
        .rows = cols, .dim = dim, .ld = ld, .row = take(k_bytes), .col = take(sizeof(float) * (size_t)(gf_pad(cols) * dim))};
    x->norm = take(sizeof(float) * (size_t)most);
    x->scratch = take(b->select_bytes(best, c->threads));
    if (skips) {
        x->row_id = take(sizeof(int64_t) * (size_t)rows);
        x->col_id = take(sizeof(int64_t) * (size_t)cols);
    }
    FAIL_IF(&c->err, !x->q.row || !x->k.row || !x->k.col || !x->norm || !x->scratch || (skips && (!x->row_id || !x->col_id)),
            GLOFND_E_MEMORY, "no memory for %lld x %lld embeddings against %lld", (long long)rows, (long long)dim,
            (long long)cols);
    memset(x->q.row, 0, q_bytes);
    memset(x->k.row, 0, k_bytes);
    return GLOFND_OK;
}

static void release(tables *x) {
    free(x->q.row);
    free(x->k.row);
    free(x->k.col);
    free(x->norm);
    free(x->row_id);
    free(x->col_id);
    free(x->scratch);
}

static glofnd_status embed(glofnd_ctx *c, const gf_embed *e, const char *name, const float *h, float *norm) {
    const int64_t bad = c->backend->embed(e, h, e->rows, 0, 1, c->o.normalize, norm, c->threads);
    if (bad >= 0) {
        for (int64_t i = 0; i < e->dim; i++)
            FAIL_IF(&c->err, !isfinite(h[bad * e->dim + i]), GLOFND_E_NUMERIC, "%s: row %lld is not finite", name,
                    (long long)bad);
        GF_FAIL(&c->err, GLOFND_E_ARGUMENT, "%s: row %lld is not a unit vector; set normalize = 1", name, (long long)bad);
    }
    c->backend->pack(e, c->threads);
    return GLOFND_OK;
}

static glofnd_status thresholds(glofnd_ctx *c, const float *q, const float *k, const int64_t *skip, double alpha, int64_t best,
                                tables *x, float *out) {
    TRY(embed(c, &x->q, "q", q, x->norm));
    TRY(embed(c, &x->k, "k", k, x->norm));
    for (int64_t i = 0; skip && i < x->q.rows; i++) x->row_id[i] = skip[i];
    for (int64_t j = 0; skip && j < x->k.rows; j++) x->col_id[j] = j;
    const gf_select p = {
        .q = &x->q,
        .k = &x->k,
        .shift = -1,
        .best = best,
        .round_up = 1,
        .alpha = alpha,
        .row_id = x->row_id,
        .col_id = x->col_id,
        .value = out,
        .scratch = x->scratch,
        .threads = c->threads,
    };
    c->backend->select(&p);
    return GLOFND_OK;
}

static glofnd_status check_skip(gf_error *err, const int64_t *skip, int64_t rows, int64_t cols) {
    for (int64_t i = 0; i < rows; i++)
        FAIL_IF(err, skip[i] < -1 || skip[i] >= cols || (cols == 1 && skip[i] == 0), GLOFND_E_INDEX,
                "skip[%lld] is %lld; it must be -1 or a column below %lld, and leave one", (long long)i, (long long)skip[i],
                (long long)cols);
    return GLOFND_OK;
}

/* It lies on the device. */
static glofnd_status check_skip_there(glofnd_ctx *c, const int64_t *skip, int64_t rows, int64_t cols) {
    int64_t *here = malloc(sizeof *here * (size_t)rows);
    FAIL_IF(&c->err, !here, GLOFND_E_MEMORY, "no memory for a copy of skip, of %lld rows", (long long)rows);
    glofnd_status status = c->device->copy(&c->err, c->on, here, skip, sizeof *here * (size_t)rows);
    if (status == GLOFND_OK) status = check_skip(&c->err, here, rows, cols);
    free(here);
    return status;
}

static glofnd_status on_device(glofnd_ctx *c, const float *q, int64_t rows, const float *k, int64_t cols, int64_t dim,
                               const int64_t *skip, double alpha, float *out) {
    const gf_device_thresholds x = {.q = q,
                                    .k = k,
                                    .skip = skip,
                                    .rows = rows,
                                    .cols = cols,
                                    .dim = dim,
                                    .best = gf_top_count(cols, alpha),
                                    .alpha = alpha,
                                    .normalize = c->o.normalize,
                                    .out = out};
    if (skip) TRY(check_skip_there(c, skip, rows, cols));
    return c->device->thresholds(&c->err, c->on, &x);
}

glofnd_status glofnd_thresholds(glofnd_ctx *c, const float *q, int64_t rows, const float *k, int64_t cols, int64_t dim,
                                const int64_t *skip, double alpha, float *out) {
    tables x = {0};
    if (!c) return GLOFND_E_ARGUMENT;
    gf_error *err = &c->err;
    FAIL_IF(err, !q || !k || !out, GLOFND_E_ARGUMENT, "q, k and out must not be NULL");
    FAIL_IF(err, rows < 1 || cols < 1 || rows > INT32_MAX || cols > INT32_MAX, GLOFND_E_ARGUMENT,
            "rows is %lld and cols %lld; both must be in 1..%d", (long long)rows, (long long)cols, INT32_MAX);
    FAIL_IF(err, dim < 1 || dim > MOST_DIM, GLOFND_E_ARGUMENT, "dim is %lld; it must be in 1..%d", (long long)dim, MOST_DIM);
    FAIL_IF(err, !(alpha > 0.0 && alpha < 1.0), GLOFND_E_OPTION, "alpha is %g; it must lie in (0, 1)", alpha);
    if (c->device) return on_device(c, q, rows, k, cols, dim, skip, alpha, out);
    if (skip) TRY(check_skip(err, skip, rows, cols));
    const int64_t best = gf_top_count(cols, alpha);
    glofnd_status status = allocate(c, rows, cols, dim, best, skip != NULL, &x);
    if (status == GLOFND_OK) status = thresholds(c, q, k, skip, alpha, best, &x, out);
    release(&x);
    return status;
}

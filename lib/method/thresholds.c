/* thresholds.c - exact thresholds of given embeddings: the values that learned thresholds converge to. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "method/step.h"
#include "util/array.h"

enum { DIM_MAX = INT32_MAX / 4 };

typedef struct tables {
    gf_embed q, k;
    float *norm;
    int64_t *row_id, *col_id; /* columns with the row's id are left out */
    void *scratch;
} tables;

static void *take(size_t bytes) { return aligned_alloc(64, (bytes + 63) / 64 * 64); }

static glofnd_status allocate(glofnd_ctx *c, const glofnd_query *query, int64_t best, tables *x) {
    const int64_t rows = query->rows, cols = query->cols, dim = query->dim, ld = gf_cpu_embed_ld(dim);
    const size_t q_bytes = sizeof(float) * (size_t)((gf_pad(rows) + GF_PANEL) * ld),
                 k_bytes = sizeof(float) * (size_t)((gf_pad(cols) + GF_PANEL) * ld);
    x->q = (gf_embed){.rows = rows, .dim = dim, .ld = ld, .row = take(q_bytes)};
    x->k = (gf_embed){
        .rows = cols, .dim = dim, .ld = ld, .row = take(k_bytes), .col = take(sizeof(float) * (size_t)(gf_pad(cols) * dim))};
    x->norm = take(sizeof(float) * (size_t)(rows > cols ? rows : cols));
    x->scratch = take(gf_cpu_select_bytes(best, c->threads));
    int ok = x->q.row && x->k.row && x->k.col && x->norm && x->scratch;
    if (query->skip) {
        x->row_id = take(sizeof(int64_t) * (size_t)rows);
        x->col_id = take(sizeof(int64_t) * (size_t)cols);
        ok = ok && x->row_id && x->col_id;
    }
    FAIL_IF(&c->err, !ok, GLOFND_E_MEMORY, "no memory for %lld x %lld embeddings against %lld", (long long)rows, (long long)dim,
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

static glofnd_status embed(glofnd_ctx *c, const gf_embed *e, const char *name, gf_source h, float *norm) {
    const int64_t bad = gf_cpu_embed(e, &h, e->rows, 0, 1, c->o.normalize, norm, c->threads);
    if (bad >= 0) {
        for (int64_t i = 0; i < e->dim; i++)
            FAIL_IF(&c->err, !isfinite(gf_dtype_at(h.dtype, gf_source_row(&h, bad), i)), GLOFND_E_NUMERIC,
                    "%s: row %lld is not finite", name, (long long)bad);
        GF_FAIL(&c->err, GLOFND_E_ARGUMENT, "%s: row %lld is not a unit vector; set normalize = 1", name, (long long)bad);
    }
    gf_cpu_pack(e, c->threads);
    return GLOFND_OK;
}

static glofnd_status thresholds(glofnd_ctx *c, const glofnd_query *query, int64_t best, tables *x, float *out) {
    TRY(embed(c, &x->q, "q", (gf_source){query->q, query->q_stride, query->dtype}, x->norm));
    TRY(embed(c, &x->k, "k", (gf_source){query->k, query->k_stride, query->dtype}, x->norm));
    for (int64_t i = 0; query->skip && i < x->q.rows; i++) x->row_id[i] = query->skip[i];
    for (int64_t j = 0; query->skip && j < x->k.rows; j++) x->col_id[j] = j;
    const gf_select p = {
        .q = &x->q,
        .k = &x->k,
        .shift = -1,
        .best = best,
        .round_up = 1,
        .alpha = query->alpha,
        .row_id = x->row_id,
        .col_id = x->col_id,
        .value = out,
        .scratch = x->scratch,
        .threads = c->threads,
    };
    gf_cpu_select(&p);
    return GLOFND_OK;
}

static glofnd_status check_skip(gf_error *err, const int64_t *skip, int64_t rows, int64_t cols) {
    for (int64_t i = 0; i < rows; i++)
        FAIL_IF(err, skip[i] < -1 || skip[i] >= cols || (cols == 1 && skip[i] == 0), GLOFND_E_INDEX,
                "skip[%lld] is %lld; it must be -1 or a column below %lld, and leave one", (long long)i, (long long)skip[i],
                (long long)cols);
    return GLOFND_OK;
}

/* skip lies on the device. */
static glofnd_status check_skip_on_device(glofnd_ctx *c, const int64_t *skip, int64_t rows, int64_t cols) {
    int64_t *here = malloc(sizeof *here * (size_t)rows);
    FAIL_IF(&c->err, !here, GLOFND_E_MEMORY, "no memory for a copy of skip, of %lld rows", (long long)rows);
    glofnd_status status = c->device->copy(&c->err, c->on, here, skip, sizeof *here * (size_t)rows);
    if (status == GLOFND_OK) status = check_skip(&c->err, here, rows, cols);
    free(here);
    return status;
}

static glofnd_status on_device(glofnd_ctx *c, const glofnd_query *x, int64_t best, float *out) {
    const gf_device_thresholds job = {.q = x->q,
                                      .k = x->k,
                                      .skip = x->skip,
                                      .rows = x->rows,
                                      .cols = x->cols,
                                      .dim = x->dim,
                                      .q_stride = x->q_stride,
                                      .k_stride = x->k_stride,
                                      .dtype = x->dtype,
                                      .normalize = c->o.normalize,
                                      .best = best,
                                      .alpha = x->alpha,
                                      .out = out};
    if (x->skip) TRY(check_skip_on_device(c, x->skip, x->rows, x->cols));
    return c->device->thresholds(&c->err, c->on, &job);
}

static glofnd_status check_query(gf_error *err, const glofnd_query *x) {
    FAIL_IF(err, !x->q || !x->k, GLOFND_E_ARGUMENT, "q and k must not be NULL");
    FAIL_IF(err, x->rows < 1 || x->cols < 1 || x->rows > INT32_MAX || x->cols > INT32_MAX, GLOFND_E_ARGUMENT,
            "rows is %lld and cols %lld; both must be in 1..%d", (long long)x->rows, (long long)x->cols, INT32_MAX);
    FAIL_IF(err, x->dim < 1 || x->dim > DIM_MAX, GLOFND_E_ARGUMENT, "dim is %lld; it must be in 1..%d", (long long)x->dim,
            DIM_MAX);
    FAIL_IF(err, !(x->alpha > 0.0 && x->alpha < 1.0), GLOFND_E_OPTION, "alpha is %g; it must lie in (0, 1)", x->alpha);
    TRY(gf_dtype_check(err, "dtype", x->dtype));
    TRY(gf_rows_check(err, "q", x->q, x->dtype, x->q_stride, x->dim));
    return gf_rows_check(err, "k", x->k, x->dtype, x->k_stride, x->dim);
}

glofnd_status glofnd_exact_thresholds(glofnd_ctx *c, const glofnd_query *query, float *out) {
    tables x = {0};
    if (!c) return GLOFND_E_ARGUMENT;
    FAIL_IF(&c->err, !query || !out, GLOFND_E_ARGUMENT, "the query and out must not be NULL");
    TRY(gf_struct_check(&c->err, "query", "glofnd_query", query, sizeof *query, sizeof *query));
    glofnd_query known = {0};
    memcpy(&known, query, query->size);
    if (known.q_stride == 0) known.q_stride = known.dim;
    if (known.k_stride == 0) known.k_stride = known.dim;
    TRY(check_query(&c->err, &known));
    const int64_t best = gf_top_count(known.cols, known.alpha);
    if (c->device) return on_device(c, &known, best, out);
    if (known.skip) TRY(check_skip(&c->err, known.skip, known.rows, known.cols));
    glofnd_status status = allocate(c, &known, best, &x);
    if (status == GLOFND_OK) status = thresholds(c, &known, best, &x, out);
    release(&x);
    return status;
}

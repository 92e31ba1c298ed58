/* detect.c - detection outside of a step: glofnd_detect_update and glofnd_detect_mask, thresholds learned from and applied to
 * similarities of the caller, in plain loops with the learner of the step; exact thresholds; groups of a batch for WCL.
 *
 * On a device the arrays of the caller are copied to the host, the loops run there, and results are copied back. These calls are
 * for inspection and for losses of the caller's own; steps never leave the device.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "method/options.h"
#include "method/step.h"
#include "util/array.h"
#include "util/components.h"

/* ---- checks ---- */

static int is_negative(const glofnd_sims *q, int64_t r, int64_t c) {
    return q->negative ? q->negative[r * q->cols + c] != 0 : r != c;
}

/* ---- buffers of both calls ---- */

typedef struct buffers {
    glofnd_sims q;        /* on the host: the caller's, or copies */
    gf_plan plan;         /* meaning of the options in this epoch */
    float *values;        /* [cols] */
    int64_t *scratch;     /* [4 rows] */
    const int64_t *place; /* [rows] of the store: the ids, or the rows of these keys (in scratch); -1: it has none */
    void *copy[5];        /* of the caller's arrays, where they lie on a device */
    int copies;
    const glofnd_store *locked; /* its copy on the host holds the rows of q */
} buffers;

/* *array [count] of `size` bytes each becomes a copy on the host; NULL stays. */
static glofnd_status fetch(glofnd_ctx *c, buffers *x, const void **array, size_t count, size_t size) {
    if (!*array) return GLOFND_OK;
    void *copy = count <= SIZE_MAX / size ? malloc(count * size) : NULL;
    FAIL_IF(&c->err, !copy, GLOFND_E_MEMORY, "no memory for a copy of %zu numbers of sims", count);
    x->copy[x->copies++] = copy;
    TRY(c->device->copy(&c->err, c->on, copy, *array, count * size));
    *array = copy;
    return GLOFND_OK;
}

/* Checks the arguments and allocates a row of values and scratch for the ids. */
static glofnd_status enter(glofnd_ctx *c, const glofnd_store *s, const glofnd_sims *q, buffers *x) {
    *x = (buffers){0};
    gf_error *err = &c->err;
    FAIL_IF(err, !s || !q, GLOFND_E_ARGUMENT, "store and sims must not be NULL");
    TRY(gf_struct_check(err, "sims", "glofnd_sims", q, sizeof *q, sizeof *q));
    FAIL_IF(err, s->device != c->device, GLOFND_E_ARGUMENT, "the store was made for %s, this context is for %s",
            s->device ? s->device->name : "the cpu", c->device ? c->device->name : "the cpu");
    FAIL_IF(
        err, c->o.similarity == GLOFND_SIMILARITY_BANK, GLOFND_E_UNSUPPORTED,
        "similarity bank is an option of the steps; set similarity to embedding for glofnd_detect_update and glofnd_detect_mask");
    FAIL_IF(err, !q->sim || !q->id, GLOFND_E_ARGUMENT, "sims.sim and sims.id must not be NULL");
    FAIL_IF(err, q->views < 1 || q->views > 2, GLOFND_E_ARGUMENT, "sims.views is %d; it must be 1 or 2", q->views);
    FAIL_IF(err, q->rows < 1 || q->cols < 1 || q->rows > INT32_MAX || q->cols > INT32_MAX, GLOFND_E_ARGUMENT,
            "sims has %lld rows and %lld cols; both must be in 1..%d", (long long)q->rows, (long long)q->cols, INT32_MAX);
    glofnd_sims *sims = &x->q;
    *sims = *q;
    x->plan = gf_plan_of(&c->o, &(gf_step_batch){.rows = q->rows, .cols = q->cols, .epoch = q->epoch, .adam = s->adam});
    x->values = malloc(sizeof(float) * (size_t)q->cols);
    x->scratch = malloc(sizeof(int64_t) * 4 * (size_t)q->rows);
    FAIL_IF(err, !x->values || !x->scratch, GLOFND_E_MEMORY, "no memory for a row of %lld similarities", (long long)q->cols);
    if (c->device) {
        const size_t rows = (size_t)sims->rows, cols = (size_t)sims->cols, views = (size_t)sims->views;
        TRY(fetch(c, x, (const void **)&sims->sim, views * rows * cols, sizeof *sims->sim));
        TRY(fetch(c, x, (const void **)&sims->negative, rows * cols, sizeof *sims->negative));
        TRY(fetch(c, x, (const void **)&sims->id, rows, sizeof *sims->id));
        TRY(fetch(c, x, (const void **)&sims->row_group, rows, sizeof *sims->row_group));
        TRY(fetch(c, x, (const void **)&sims->col_group, cols, sizeof *sims->col_group));
    }
    const glofnd_detector d = c->o.detector;
    FAIL_IF(err, sims->side < 0 || sims->side >= s->spec.modalities, GLOFND_E_ARGUMENT,
            "sims.side is %d; the store has %d modalities", sims->side, s->spec.modalities);
    FAIL_IF(err, sims->epoch < 0, GLOFND_E_ARGUMENT, "sims.epoch is %d; epochs count from 0", sims->epoch);
    FAIL_IF(err, d == GLOFND_DETECT_COMPONENTS, GLOFND_E_UNSUPPORTED,
            "detector components makes groups of a batch of embeddings: call glofnd_step, or pass groups with detector groups");
    FAIL_IF(err, gf_flags_by_positive(&c->o), GLOFND_E_UNSUPPORTED,
            "detector positive needs the similarity of every row to its positive, which sims does not have: call glofnd_step");
    FAIL_IF(err, gf_flags_by_guide(&c->o), GLOFND_E_UNSUPPORTED,
            "detector fixed needs the embeddings of a guide, which sims does not have: call glofnd_step");
    FAIL_IF(err, (d == GLOFND_DETECT_ORACLE || d == GLOFND_DETECT_GROUPS) && (!sims->row_group || !sims->col_group),
            GLOFND_E_ARGUMENT, "this detector needs sims.row_group and sims.col_group");
    FAIL_IF(
        err, s->spec.keyed && s->device, GLOFND_E_UNSUPPORTED,
        "glofnd_detect_update and glofnd_detect_mask work on a copy of a device's store by position; a store of keys has none");
    x->place = sims->id;
    if (s->spec.keyed) {
        glofnd_store *found_in = (glofnd_store *)(uintptr_t)s; /* nothing is inserted */
        TRY(gf_store_check_distinct(err, "sims.id", sims->id, sims->rows, x->scratch));
        TRY(gf_store_rows(err, found_in, sims->id, sims->rows, 0, x->scratch));
        x->place = x->scratch;
    } else {
        TRY(gf_store_check_ids(err, s, "sims.id", sims->id, sims->rows, 1, x->scratch));
    }
    for (int64_t r = 0; r < sims->rows; r++) {
        int64_t n = 0;
        for (int64_t col = 0; col < sims->cols; col++) {
            if (!is_negative(sims, r, col)) continue;
            n++;
            for (int v = 0; v < sims->views; v++) {
                const double sim = (double)sims->sim[(v * sims->rows + r) * sims->cols + col];
                FAIL_IF(err, !isfinite(sim), GLOFND_E_NUMERIC,
                        "sims.sim: view %d, row %lld (anchor %lld), column %lld is not finite", v, (long long)r,
                        (long long)sims->id[r], (long long)col);
                FAIL_IF(
                    err, fabs(sim) > 1.001, GLOFND_E_ARGUMENT,
                    "sims.sim: view %d, row %lld, column %lld is %g; a cosine lies in [-1, 1] (was it divided by a temperature?)",
                    v, (long long)r, (long long)col, sim);
            }
        }
        FAIL_IF(err, n == 0, GLOFND_E_ARGUMENT, "sims.negative: row %lld has no negative", (long long)r);
    }
    if (!c->device) return GLOFND_OK;
    gf_store_lock(s);
    x->locked = s;
    return gf_store_device_borrow(&c->err, s, q->side, x->q.id, q->rows);
}

static void leave(buffers *x) {
    if (x->locked) gf_store_unlock(x->locked);
    for (int i = 0; i < x->copies; i++) free(x->copy[i]);
    free(x->values);
    free(x->scratch);
}

/* ---- learning ---- */

static int64_t negatives_of(const glofnd_sims *q, int v, int64_t r, float *values) {
    int64_t n = 0;
    for (int64_t c = 0; c < q->cols; c++)
        if (is_negative(q, r, c)) values[n++] = q->sim[(v * q->rows + r) * q->cols + c];
    return n;
}

static double row_quantile(const buffers *x, int64_t r) {
    double sum = 0.0;
    for (int v = 0; v < x->q.views; v++)
        sum += (double)gf_quantile(x->values, negatives_of(&x->q, v, r, x->values), x->plan.o.alpha);
    return sum / x->q.views;
}

/* Number of negatives of anchor r above lambda, over its views; *n is increased by the number of all of them. */
static double above(const glofnd_sims *q, int64_t r, float lambda, double *n) {
    const float threshold = gf_lambda_threshold(lambda);
    double count = 0.0;
    for (int v = 0; v < q->views; v++)
        for (int64_t c = 0; c < q->cols; c++) {
            if (!is_negative(q, r, c)) continue;
            *n += 1.0;
            count += q->sim[(v * q->rows + r) * q->cols + c] > threshold;
        }
    return count;
}

/* SHRINKAGE: mean (S - lambda)^2 of all negatives. */
static double mean_square(const glofnd_sims *q, double lambda) {
    double sum = 0.0, n = 0.0;
    for (int v = 0; v < q->views; v++)
        for (int64_t r = 0; r < q->rows; r++)
            for (int64_t c = 0; c < q->cols; c++) {
                if (!is_negative(q, r, c)) continue;
                sum += gf_pool_square((double)q->sim[(v * q->rows + r) * q->cols + c], lambda);
                n += 1.0;
            }
    return sum / n;
}

/* The shared row. SHRINKAGE: if it has not started, from about the (1-alpha) quantile of all similarities, by halving the interval
 * that it lies in. */
static glofnd_anchor open_pool(const glofnd_store *s, const buffers *x) {
    const glofnd_sims *q = &x->q;
    const gf_learner *l = &x->plan.learner;
    glofnd_anchor pool = gf_store_shared_get(s, q->side);
    if (!x->plan.pooled || !x->plan.updating || !gf_pool_starts(&pool)) return pool;
    double lo = -1.0, hi = 1.0, value = 0.0, n = 0.0;
    for (int k = 0; k < GF_POOL_HALVINGS; k++) {
        double count = n = 0.0;
        value = 0.5 * (lo + hi);
        for (int64_t r = 0; r < q->rows; r++) count += above(q, r, (float)value, &n);
        if (count >= fmax(1.0, l->alpha * n)) lo = value;
        else hi = value;
    }
    pool.m = (float)mean_square(q, value);
    gf_pool_start(l, &pool, value, l->alpha * n);
    return pool;
}

/* The state of anchor r as the learner of this step takes it. */
static glofnd_anchor open_anchor(const glofnd_store *s, const buffers *x, const glofnd_anchor *pool, int64_t r) {
    glofnd_anchor row;
    gf_store_gather(s, x->q.side, &x->place[r], 1, !x->plan.pooled, &row);
    gf_lambda_open(&x->plan.learner, pool, &row);
    return row;
}

static void update_shared(glofnd_store *s, const buffers *x, const gf_learner *l) {
    const glofnd_sims *q = &x->q;
    glofnd_anchor row = open_pool(s, x);
    double sum = 0.0, n = 0.0;
    if (gf_row_starts(&x->plan, &row)) {
        for (int64_t r = 0; r < q->rows; r++) sum += row_quantile(x, r);
        gf_lambda_start(&row, sum / (double)q->rows);
    } else {
        for (int64_t r = 0; r < q->rows; r++) sum += above(q, r, row.lambda, &n);
        if (x->plan.pooled) gf_pool_move(l, &row, sum, n, mean_square(q, (double)row.lambda));
        else gf_lambda_update(l, NULL, &row, sum, n);
    }
    gf_store_shared_put(s, q->side, &row);
}

/* SHRINKAGE: where an anchor starts whose rows expect enough above their thresholds (gf_pool_place); NAN: at the pool's lambda. */
static double own_start(const buffers *x, int64_t r) {
    double sum = 0.0;
    for (int v = 0; v < x->q.views; v++) {
        const int64_t n = negatives_of(&x->q, v, r, x->values);
        const double each = x->plan.learner.alpha * (double)n;
        if (each < GF_OWN_START) return NAN;
        sum += (double)gf_between(x->values, n, (int64_t)fmin(floor(each + 0.5), (double)(n - 1)) + 1, 0.5);
    }
    return sum / x->q.views;
}

static void update_anchors(glofnd_store *s, const buffers *x, const gf_learner *l) {
    const glofnd_sims *q = &x->q;
    glofnd_anchor pool = open_pool(s, x);
    double all = 0.0, pairs = 0.0;
    for (int64_t r = 0; r < q->rows; r++) {
        glofnd_anchor row = open_anchor(s, x, &pool, r);
        if (gf_row_starts(&x->plan, &row)) {
            gf_lambda_start(&row, row_quantile(x, r));
        } else {
            const double own = x->plan.pooled && row.clock == 0 ? own_start(x, r) : NAN;
            double n = 0.0;
            if (!isnan(own)) row.lambda = (float)gf_lambda_project(own);
            const double count = above(q, r, row.lambda, &n);
            gf_lambda_update(l, &pool, &row, count, n);
            if (isnan(own)) all += count, pairs += n;
        }
        gf_store_scatter(s, q->side, &x->place[r], 1, &row);
    }
    if (!x->plan.pooled) return;
    gf_pool_move(l, &pool, all, pairs, mean_square(q, (double)pool.lambda));
    gf_store_shared_put(s, q->side, &pool);
}

static glofnd_status update(glofnd_ctx *c, glofnd_store *s, const glofnd_sims *given, buffers *x) {
    const glofnd_sims *q = &x->q;
    TRY(enter(c, s, given, x));
    if (!x->plan.learned || !x->plan.updating) return GLOFND_OK;
    FAIL_IF(&c->err, c->o.learner == GLOFND_LEARN_RING, GLOFND_E_UNSUPPORTED,
            "the learner ring needs embeddings; use glofnd_step");
    if (s->spec.keyed) TRY(gf_store_rows(&c->err, s, q->id, q->rows, 1, x->scratch));
    TRY(gf_store_prepare(&c->err, s, x->place, q->rows));
    const gf_learner l = gf_learner_of(&x->plan.o, s->spec.modalities == 2, q->epoch);
    if (x->plan.shared) update_shared(s, x, &l);
    else update_anchors(s, x, &l);
    return c->device ? gf_store_device_return(&c->err, s, q->side, q->id, q->rows) : GLOFND_OK;
}

glofnd_status glofnd_detect_update(glofnd_ctx *c, glofnd_store *s, const glofnd_sims *q) {
    buffers x;
    if (!c) return GLOFND_E_ARGUMENT;
    const glofnd_status status = update(c, s, q, &x);
    leave(&x);
    return status;
}

/* ---- masking ---- */

/* Threshold of row r, view v; +inf where only groups decide. */
static float threshold(const glofnd_store *s, const buffers *x, int v, int64_t r) {
    const glofnd_sims *q = &x->q;
    const double alpha = x->plan.o.alpha;
    if (!x->plan.thresholds) return INFINITY;
    if (x->plan.topk && x->plan.o.fnc_rule == GLOFND_FNC_THRESHOLD) return (float)x->plan.o.fnc_threshold;
    if (!x->plan.learned) {
        const int64_t n = negatives_of(q, v, r, x->values);
        return x->plan.topk ? gf_kth_largest(x->values, n, gf_top_count(n, alpha)) : gf_quantile(x->values, n, alpha);
    }
    if (x->plan.shared) return gf_lambda_threshold(gf_store_shared_get(s, q->side).lambda);
    const glofnd_anchor pool = gf_store_shared_get(s, q->side), row = open_anchor(s, x, &pool, r);
    return gf_lambda_threshold(row.lambda);
}

static int same_group(const glofnd_sims *q, int64_t r, int64_t c) {
    return q->row_group && q->col_group && q->row_group[r] >= 0 && q->row_group[r] == q->col_group[c];
}

/* FNC TOPK: of the entries equal to the threshold, the smaller columns are flagged too. */
static int64_t ties_to_flag(const gf_plan *p, const glofnd_sims *q, const float *sim, int64_t r, float theta) {
    if (!p->topk || p->o.fnc_rule == GLOFND_FNC_THRESHOLD) return 0;
    int64_t n = 0, larger = 0;
    for (int64_t col = 0; col < q->cols; col++) {
        if (!is_negative(q, r, col)) continue;
        n++;
        larger += sim[col] > theta;
    }
    return gf_top_count(n, p->o.alpha) - larger;
}

static int32_t mask_row(const gf_plan *p, const glofnd_sims *q, int v, int64_t r, float theta, uint8_t *keep) {
    const float *sim = q->sim + (v * q->rows + r) * q->cols;
    int64_t ties = ties_to_flag(p, q, sim, r, theta);
    int32_t kept = 0;
    float smallest = INFINITY;
    for (int64_t col = 0; col < q->cols; col++) {
        const int negative = is_negative(q, r, col);
        int flagged = sim[col] > theta || same_group(q, r, col);
        if (negative && sim[col] == theta && ties > 0) flagged = 1, ties--;
        keep[col] = (uint8_t)(negative && !flagged);
        kept += keep[col];
        if (negative) smallest = fminf(smallest, sim[col]);
    }
    if (kept > 0 || p->official) return kept;
    for (int64_t col = 0; col < q->cols; col++) {
        keep[col] = (uint8_t)(is_negative(q, r, col) && sim[col] == smallest);
        kept += keep[col];
    }
    return kept;
}

static void mask_all(const glofnd_store *s, const buffers *x, uint8_t *keep, int32_t *kept) {
    const glofnd_sims *q = &x->q;
    const int active = q->epoch >= x->plan.o.mask_epoch;
    for (int v = 0; v < q->views; v++)
        for (int64_t r = 0; r < q->rows; r++) {
            uint8_t *row = keep + (v * q->rows + r) * q->cols;
            int32_t count = 0;
            if (active) count = mask_row(&x->plan, q, v, r, threshold(s, x, v, r), row);
            else
                for (int64_t col = 0; col < q->cols; col++) count += row[col] = (uint8_t)is_negative(q, r, col);
            if (kept) kept[v * q->rows + r] = count;
        }
}

static glofnd_status mask(glofnd_ctx *c, const glofnd_store *s, const glofnd_sims *q, uint8_t *keep, int32_t *kept, buffers *x) {
    TRY(enter(c, s, q, x));
    FAIL_IF(&c->err, c->o.detector == GLOFND_DETECT_MUTUAL, GLOFND_E_UNSUPPORTED,
            "detector mutual needs the thresholds of the columns, which sims does not name: call glofnd_step");
    FAIL_IF(&c->err, !keep, GLOFND_E_ARGUMENT, "keep is NULL; it holds [views][rows][cols] bytes");
    if (c->device) {
        /* Makes the results on the host and copies them to the device. */
        const size_t rows = (size_t)x->q.views * (size_t)x->q.rows, pairs = rows * (size_t)x->q.cols;
        uint8_t *here = malloc(pairs);
        int32_t *count = malloc(rows * sizeof *count);
        glofnd_status status = GLOFND_OK;
        if (!here || !count) status = gf_fail(&c->err, GLOFND_E_MEMORY, "no memory for a mask of %zu pairs", pairs);
        if (status == GLOFND_OK) {
            mask_all(s, x, here, count);
            status = c->device->copy(&c->err, c->on, keep, here, pairs);
        }
        if (status == GLOFND_OK && kept) status = c->device->copy(&c->err, c->on, kept, count, rows * sizeof *count);
        free(here);
        free(count);
        return status;
    }
    mask_all(s, x, keep, kept);
    return GLOFND_OK;
}

glofnd_status glofnd_detect_mask(glofnd_ctx *c, const glofnd_store *s, const glofnd_sims *q, uint8_t *keep, int32_t *kept) {
    buffers x;
    if (!c) return GLOFND_E_ARGUMENT;
    const glofnd_status status = mask(c, s, q, keep, kept, &x);
    leave(&x);
    return status;
}

/* ----- thresholds ----- */

/* Exact thresholds of given embeddings: the values that learned thresholds converge to. */

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

glofnd_status glofnd_exact_thresholds(glofnd_ctx *c, const glofnd_query *query, float *out) {
    tables x = {0};
    if (!c) return GLOFND_E_ARGUMENT;
    FAIL_IF(&c->err, !query || !out, GLOFND_E_ARGUMENT, "the query and out must not be NULL");
    TRY(gf_struct_check(&c->err, "query", "glofnd_query", query, sizeof *query, sizeof *query));
    glofnd_query known = *query;
    if (known.q_stride == 0) known.q_stride = known.dim;
    if (known.k_stride == 0) known.k_stride = known.dim;
    gf_error *err = &c->err;
    FAIL_IF(err, !known.q || !known.k, GLOFND_E_ARGUMENT, "q and k must not be NULL");
    FAIL_IF(err, known.rows < 1 || known.cols < 1 || known.rows > INT32_MAX || known.cols > INT32_MAX, GLOFND_E_ARGUMENT,
            "rows is %lld and cols %lld; both must be in 1..%d", (long long)known.rows, (long long)known.cols, INT32_MAX);
    FAIL_IF(err, known.dim < 1 || known.dim > DIM_MAX, GLOFND_E_ARGUMENT, "dim is %lld; it must be in 1..%d",
            (long long)known.dim, DIM_MAX);
    FAIL_IF(err, !(known.alpha > 0.0 && known.alpha < 1.0), GLOFND_E_OPTION, "alpha is %g; it must lie in (0, 1)", known.alpha);
    TRY(gf_dtype_check(err, "dtype", known.dtype));
    TRY(gf_rows_check(err, "q", known.q, known.dtype, known.q_stride, known.dim));
    TRY(gf_rows_check(err, "k", known.k, known.dtype, known.k_stride, known.dim));
    const int64_t best = gf_top_count(known.cols, known.alpha);
    if (c->device) {
        const gf_device_thresholds job = {.q = known.q,
                                          .k = known.k,
                                          .skip = known.skip,
                                          .rows = known.rows,
                                          .cols = known.cols,
                                          .dim = known.dim,
                                          .q_stride = known.q_stride,
                                          .k_stride = known.k_stride,
                                          .dtype = known.dtype,
                                          .normalize = c->o.normalize,
                                          .best = best,
                                          .alpha = known.alpha,
                                          .out = out};
        if (known.skip) TRY(check_skip_on_device(c, known.skip, known.rows, known.cols));
        return c->device->thresholds(&c->err, c->on, &job);
    }
    if (known.skip) TRY(check_skip(&c->err, known.skip, known.rows, known.cols));
    glofnd_status status = allocate(c, &known, best, &x);
    if (status == GLOFND_OK) status = thresholds(c, &known, best, &x, out);
    free(x.q.row);
    free(x.k.row);
    free(x.k.col);
    free(x.norm);
    free(x.row_id);
    free(x.col_id);
    free(x.scratch);
    return status;
}

/* ----- batch components ----- */

/* Groups of a batch made of the batch itself, as in WCL (Zheng et al. 2021): a baseline that makes its groups
 * before the step, which then treats them as any others.
 *
 * Every sample is joined to its nearest neighbour in the batch: the sample that has the embedding most similar to one of its own
 * (ties: the first embedding, the smaller column). Connected components of this graph are the groups. With several ranks every
 * rank does the whole batch, so that all have the same groups.
 */

glofnd_status gf_batch_components(glofnd_ctx *c, const glofnd_batch *batch, const glofnd_own_rows *own, int32_t *group) {
    gf_step step;
    gf_step_batch q;
    TRY(gf_batch_take(&c->err, batch, own, &q));
    if (c->device) {
        const gf_shape shape = gf_shape_of(c, q.rows, q.cols, q.dim);
        const gf_plan plan = gf_plan_of(&c->o, &q);
        const gf_device_step x = {.plan = &plan, .shape = &shape, .q = &q};
        return c->device->components(&c->err, c->on, &x, group);
    }
    TRY(gf_step_begin(&step, c, &q));
    /* Of every row of both sides: its largest similarity to a row of another sample, and that row's position. */
    const int64_t sides = step.plan.sides, all = step.plan.all, per_sample = step.plan.per_sample;
    float *largest = (float *)(void *)step.ws->id_scratch;
    int32_t *nearest = (int32_t *)(void *)(largest + sides * all);
    for (int i = 0; i < sides; i++) {
        const gf_select p = {
            .q = &step.ws->side[i].z,
            .k = &step.ws->side[sides - 1 - i].z,
            .shift = (int)per_sample - 1,
            .best = 1,
            .value = largest + i * all,
            .tie = nearest + i * all,
            .scratch = step.ws->select_scratch,
            .threads = (int)step.ws->shape.threads,
        };
        step.ops->select(&p);
    }
    gf_components_init(group, q.cols);
    for (int64_t s = 0; s < q.cols; s++) {
        const int64_t a = s * per_sample, b = (sides - 1) * all + a + per_sample - 1; /* its two embeddings */
        const int32_t row = largest[b] > largest[a] ? nearest[b] : nearest[a];
        gf_components_join(group, (int32_t)s, (int32_t)(row / per_sample));
    }
    gf_components_flatten(group, q.cols);
    return GLOFND_OK;
}

/* detect.c - glofnd_detect_update and glofnd_detect_mask: thresholds learned from and applied to similarities of the caller. Plain loops; the
 * learner is that of the step.
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

/* ---- checks ---- */

static int is_negative(const glofnd_sims *q, int64_t r, int64_t c) {
    return q->negative ? q->negative[r * q->cols + c] != 0 : r != c;
}

static glofnd_status check_similarity(gf_error *err, const glofnd_sims *q, int v, int64_t r, int64_t c) {
    const double s = (double)q->sim[(v * q->rows + r) * q->cols + c];
    FAIL_IF(err, !isfinite(s), GLOFND_E_NUMERIC, "sims.sim: view %d, row %lld (anchor %lld), column %lld is not finite", v,
            (long long)r, (long long)q->id[r], (long long)c);
    FAIL_IF(err, fabs(s) > 1.001, GLOFND_E_ARGUMENT,
            "sims.sim: view %d, row %lld, column %lld is %g; a cosine lies in [-1, 1] (was it divided by a temperature?)", v,
            (long long)r, (long long)c, s);
    return GLOFND_OK;
}

static glofnd_status check_rows(gf_error *err, const glofnd_sims *q) {
    for (int64_t r = 0; r < q->rows; r++) {
        int64_t n = 0;
        for (int64_t c = 0; c < q->cols; c++) {
            if (!is_negative(q, r, c)) continue;
            n++;
            for (int v = 0; v < q->views; v++) TRY(check_similarity(err, q, v, r, c));
        }
        FAIL_IF(err, n == 0, GLOFND_E_ARGUMENT, "sims.negative: row %lld has no negative", (long long)r);
    }
    return GLOFND_OK;
}

static glofnd_status check_sims(glofnd_ctx *c, const glofnd_store *s, const glofnd_sims *q, int64_t *scratch) {
    gf_error *err = &c->err;
    const glofnd_detector d = c->o.detector;
    FAIL_IF(err, q->side < 0 || q->side >= s->spec.modalities, GLOFND_E_ARGUMENT, "sims.side is %d; the store has %d modalities",
            q->side, s->spec.modalities);
    FAIL_IF(err, q->epoch < 0, GLOFND_E_ARGUMENT, "sims.epoch is %d; epochs count from 0", q->epoch);
    FAIL_IF(err, d == GLOFND_DETECT_COMPONENTS, GLOFND_E_UNSUPPORTED,
            "detector components makes groups of a batch of embeddings: call glofnd_step, or pass groups with detector groups");
    FAIL_IF(err, (d == GLOFND_DETECT_ORACLE || d == GLOFND_DETECT_GROUPS) && (!q->row_group || !q->col_group), GLOFND_E_ARGUMENT,
            "this detector needs sims.row_group and sims.col_group");
    TRY(gf_store_check_ids(err, s, "sims.id", q->id, q->rows, 1, scratch));
    return check_rows(err, q);
}

static glofnd_status check_call(glofnd_ctx *c, const glofnd_store *s, const glofnd_sims *q) {
    gf_error *err = &c->err;
    FAIL_IF(err, !s || !q, GLOFND_E_ARGUMENT, "store and sims must not be NULL");
    TRY(gf_struct_check(err, "sims", "glofnd_sims", q, sizeof *q, sizeof *q));
    FAIL_IF(err, s->device != c->device, GLOFND_E_ARGUMENT, "the store was made for %s, this context is for %s",
            s->device ? s->device->name : "the cpu", c->device ? c->device->name : "the cpu");
    FAIL_IF(
        err, gf_options_mark(&c->o), GLOFND_E_UNSUPPORTED,
        "similarity bank is an option of the steps; set similarity to embedding for glofnd_detect_update and glofnd_detect_mask");
    FAIL_IF(err, !q->sim || !q->id, GLOFND_E_ARGUMENT, "sims.sim and sims.id must not be NULL");
    FAIL_IF(err, q->views < 1 || q->views > 2, GLOFND_E_ARGUMENT, "sims.views is %d; it must be 1 or 2", q->views);
    FAIL_IF(err, q->rows < 1 || q->cols < 1 || q->rows > INT32_MAX || q->cols > INT32_MAX, GLOFND_E_ARGUMENT,
            "sims has %lld rows and %lld cols; both must be in 1..%d", (long long)q->rows, (long long)q->cols, INT32_MAX);
    return GLOFND_OK;
}

/* ---- buffers of both calls ---- */

typedef struct buffers {
    glofnd_sims q;    /* on the host: the caller's, or copies */
    gf_plan plan;     /* meaning of the options in this epoch */
    float *values;    /* [cols] */
    int64_t *scratch; /* [4 rows] */
    void *copy[5];    /* of the caller's arrays, where they lie on a device */
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

static glofnd_status fetch_all(glofnd_ctx *c, buffers *x) {
    glofnd_sims *q = &x->q;
    const size_t rows = (size_t)q->rows, cols = (size_t)q->cols, views = (size_t)q->views;
    TRY(fetch(c, x, (const void **)&q->sim, views * rows * cols, sizeof *q->sim));
    TRY(fetch(c, x, (const void **)&q->negative, rows * cols, sizeof *q->negative));
    TRY(fetch(c, x, (const void **)&q->id, rows, sizeof *q->id));
    TRY(fetch(c, x, (const void **)&q->row_group, rows, sizeof *q->row_group));
    return fetch(c, x, (const void **)&q->col_group, cols, sizeof *q->col_group);
}

/* Checks the arguments and allocates a row of values and scratch for the ids. */
static glofnd_status enter(glofnd_ctx *c, const glofnd_store *s, const glofnd_sims *q, buffers *x) {
    *x = (buffers){0};
    TRY(check_call(c, s, q));
    x->q = *q;
    x->plan = gf_plan_of(&c->o, &(gf_step_batch){.rows = q->rows, .cols = q->cols, .epoch = q->epoch});
    x->values = malloc(sizeof(float) * (size_t)q->cols);
    x->scratch = malloc(sizeof(int64_t) * 4 * (size_t)q->rows);
    FAIL_IF(&c->err, !x->values || !x->scratch, GLOFND_E_MEMORY, "no memory for a row of %lld similarities", (long long)q->cols);
    if (c->device) TRY(fetch_all(c, x));
    TRY(check_sims(c, s, &x->q, x->scratch));
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

static void update_shared(glofnd_store *s, const buffers *x, const gf_learner *l) {
    const glofnd_sims *q = &x->q;
    glofnd_anchor row = gf_store_shared_get(s, q->side);
    double sum = 0.0, n = 0.0;
    if (gf_row_starts(&x->plan, &row)) {
        for (int64_t r = 0; r < q->rows; r++) sum += row_quantile(x, r);
        gf_lambda_start(&row, sum / (double)q->rows);
    } else {
        for (int64_t r = 0; r < q->rows; r++) sum += above(q, r, row.lambda, &n);
        gf_lambda_update(l, &row, sum / n);
    }
    gf_store_shared_put(s, q->side, &row);
}

static void update_anchors(glofnd_store *s, const buffers *x, const gf_learner *l) {
    const glofnd_sims *q = &x->q;
    for (int64_t r = 0; r < q->rows; r++) {
        glofnd_anchor row;
        gf_store_gather(s, q->side, &q->id[r], 1, &row);
        if (gf_row_starts(&x->plan, &row)) {
            gf_lambda_start(&row, row_quantile(x, r));
        } else {
            double n = 0.0;
            const double count = above(q, r, row.lambda, &n);
            gf_lambda_update(l, &row, count / n);
        }
        gf_store_scatter(s, q->side, &q->id[r], 1, &row);
    }
}

static glofnd_status update(glofnd_ctx *c, glofnd_store *s, const glofnd_sims *given, buffers *x) {
    const glofnd_sims *q = &x->q;
    TRY(enter(c, s, given, x));
    if (!x->plan.learned || !x->plan.updating) return GLOFND_OK;
    FAIL_IF(&c->err, c->o.learner == GLOFND_LEARN_RING, GLOFND_E_UNSUPPORTED,
            "the learner ring needs embeddings; use glofnd_step");
    TRY(gf_store_prepare(&c->err, s, q->id, q->rows));
    const gf_learner l = gf_learner_of(&c->o, s->spec.modalities == 2, q->epoch);
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
    glofnd_anchor row;
    if (!x->plan.thresholds) return INFINITY;
    if (x->plan.topk && x->plan.o.fnc_rule == GLOFND_FNC_THRESHOLD) return (float)x->plan.o.fnc_threshold;
    if (!x->plan.learned) {
        const int64_t n = negatives_of(q, v, r, x->values);
        return x->plan.topk ? gf_kth_largest(x->values, n, gf_top_count(n, alpha)) : gf_quantile(x->values, n, alpha);
    }
    if (x->plan.shared) return gf_lambda_threshold(gf_store_shared_get(s, q->side).lambda);
    gf_store_gather(s, q->side, &q->id[r], 1, &row);
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

/* Makes the results on the host and copies them to the device. */
static glofnd_status mask_on_device(glofnd_ctx *c, const glofnd_store *s, const buffers *x, uint8_t *keep, int32_t *kept) {
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

static glofnd_status mask(glofnd_ctx *c, const glofnd_store *s, const glofnd_sims *q, uint8_t *keep, int32_t *kept, buffers *x) {
    TRY(enter(c, s, q, x));
    FAIL_IF(&c->err, !keep, GLOFND_E_ARGUMENT, "keep is NULL; it holds [views][rows][cols] bytes");
    if (c->device) return mask_on_device(c, s, x, keep, kept);
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

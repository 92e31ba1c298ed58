/* compare_detectors.c - see compare_detectors.h. */
#include "eval/compare_detectors.h"

#include <math.h>
#include <stdlib.h>

#include "eval/detector_thresholds.h"

#define GF_FN_X(name, text, meaning) text,
const char *const gf_fn_detector_names[GF_FN_DETECTOR_COUNT] = {GF_FN_DETECTORS(GF_FN_X)};
#undef GF_FN_X
#define GF_FN_X(name, text, meaning) meaning,
const char *const gf_fn_detector_meanings[GF_FN_DETECTOR_COUNT] = {GF_FN_DETECTORS(GF_FN_X)};
#undef GF_FN_X

typedef struct tables {
    float *theta;              /* [GF_FN_DETECTOR_COUNT][s->n] by row */
    float *exact;              /* [s->n / views] */
    float *part;               /* [GF_FN_DETECTOR_COUNT][rows of a batch] */
    gf_fn_counts *counts;      /* [GF_FN_DETECTOR_COUNT][s->n] */
    gf_fn_counts *part_counts; /* [GF_FN_DETECTOR_COUNT][rows of a batch] */
} tables;

/* Sets the thresholds that do not depend on the batch. */
static glofnd_status fill_thresholds(gf_error *err, const gf_fn_comparison *x, tables *t) {
    const gf_view_set *s = x->s;
    float single;
    TRY(gf_optimal_thresholds(err, s, x->views, gf_view_columns(s), x->alpha, &x->job, t->exact));
    TRY(gf_single_threshold(err, s, x->alpha, &x->job, &single));
    for (int64_t i = 0; i < s->n; i++) {
        const float lambda = x->lambda ? x->lambda[i / x->views] : 1.0f;
        t->theta[GF_FN_GLOFND * s->n + i] = isnan(lambda) ? 1.0f : lambda;
        t->theta[GF_FN_EXACT * s->n + i] = t->exact[i / x->views];
        t->theta[GF_FN_SINGLE * s->n + i] = single;
        t->theta[GF_FN_FNC * s->n + i] = 1.0f;
    }
    return GLOFND_OK;
}

/* Rows [first, first + rows) as a set; borrowed. */
static gf_view_set part_of(const gf_view_set *s, int64_t first, int64_t rows) {
    return (gf_view_set){.n = rows, .dim = s->dim, .z = s->z + first * s->dim, .id = s->id + first, .label = s->label + first};
}

static glofnd_status count_batch(gf_error *err, const gf_fn_comparison *x, tables *t, int64_t first, int64_t rows) {
    const gf_view_set *s = x->s, others = part_of(gf_view_columns(s), first, rows);
    gf_view_set batch = part_of(s, first, rows);
    if (s->others) batch.others = &others;
    for (int k = 0; k < GF_FN_DETECTOR_COUNT; k++)
        for (int64_t i = 0; i < rows; i++) t->part[k * rows + i] = t->theta[k * s->n + first + i];
    const gf_sweep_job silent = {.threads = x->job.threads}; /* progress is by batch */
    TRY(gf_fnc_thresholds(err, &batch, x->alpha, &silent, t->part + GF_FN_FNC * rows));
    TRY(gf_fn_count(err, &batch, t->part, GF_FN_DETECTOR_COUNT, &silent, t->part_counts));
    for (int k = 0; k < GF_FN_DETECTOR_COUNT; k++)
        for (int64_t i = 0; i < rows; i++) t->counts[k * s->n + first + i] = t->part_counts[k * rows + i];
    return GLOFND_OK;
}

static glofnd_status compare(gf_error *err, const gf_fn_comparison *x, tables *t, gf_precision_recall *out) {
    const int64_t rows = x->batch * x->views, used = x->batch ? x->s->n / rows * rows : x->s->n;
    const gf_sweep_job stage = gf_sweep_stage(&x->job, "flagged pairs of batches");
    TRY(fill_thresholds(err, x, t));
    if (!x->batch) TRY(gf_fn_count(err, x->s, t->theta, GF_FN_DETECTOR_COUNT, &x->job, t->counts));
    for (int64_t first = 0; x->batch && first < used; first += rows) {
        TRY(count_batch(err, x, t, first, rows));
        gf_job_report(&stage.watch, (double)(first + rows) / (double)used);
    }
    for (int k = 0; k < GF_FN_DETECTOR_COUNT; k++) {
        const int available = k == GF_FN_GLOFND ? x->lambda != NULL : k != GF_FN_FNC || x->batch > 0;
        out[k] =
            available ? gf_fn_precision_recall(t->counts + k * x->s->n, used / x->views, x->views) : (gf_precision_recall){0};
    }
    return GLOFND_OK;
}

glofnd_status gf_fn_compare(gf_error *err, const gf_fn_comparison *x, gf_precision_recall *out) {
    const size_t n = (size_t)x->s->n, rows = x->batch ? (size_t)(x->batch * x->views) : 1;
    FAIL_IF(err, x->batch < 0 || x->batch == 1 || (x->batch && (int64_t)rows > x->s->n), GLOFND_E_ARGUMENT,
            "batches of %lld samples out of %lld have no pairs", (long long)x->batch, (long long)x->s->n / x->views);
    tables t = {
        .theta = malloc(GF_FN_DETECTOR_COUNT * n * sizeof *t.theta),
        .exact = malloc(n * sizeof *t.exact),
        .part = malloc(GF_FN_DETECTOR_COUNT * rows * sizeof *t.part),
        .counts = malloc(GF_FN_DETECTOR_COUNT * n * sizeof *t.counts),
        .part_counts = malloc(GF_FN_DETECTOR_COUNT * rows * sizeof *t.part_counts),
    };
    const int complete = t.theta && t.exact && t.part && t.counts && t.part_counts;
    const glofnd_status status = complete ? compare(err, x, &t, out) : gf_fail(err, GLOFND_E_MEMORY, "no memory for counts");
    free(t.theta);
    free(t.exact);
    free(t.part);
    free(t.counts);
    free(t.part_counts);
    return status;
}

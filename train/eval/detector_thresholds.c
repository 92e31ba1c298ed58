/* detector_thresholds.c - see detector_thresholds.h. */
#include "eval/detector_thresholds.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cpu/kernels/cpu_kernels.h"
#include "util/array.h"

static glofnd_status sweep(gf_error *err, const gf_view_set *rows, const gf_view_set *cols, const gf_sweep_job *job,
                           const char *stage, gf_strip_visit visit, void *user) {
    const gf_vectors q = gf_view_vectors(rows), k = gf_view_vectors(cols);
    const gf_sweep_job named = gf_sweep_stage(job, stage);
    return gf_sweep_vectors(err, &q, &k, &named, visit, user);
}

/* ----- quantiles of a batch: complete rows of a block fit in memory ----- */

typedef struct batch_rows {
    const gf_view_set *s;
    double alpha;
    float *row;     /* [threads][GF_SWEEP_GROUP][s->n] similarities to other samples */
    int64_t *count; /* [threads][GF_SWEEP_GROUP] */
    float *theta;
} batch_rows;

static void collect_rows(void *user, const gf_strip *t, int thread) {
    const batch_rows *x = user;
    for (int r = 0; r < t->rows; r++) {
        const int64_t slot = (int64_t)thread * GF_SWEEP_GROUP + t->slot + r, id = x->s->id[t->r0 + r];
        float *row = x->row + slot * x->s->n;
        if (t->c0 == 0) x->count[slot] = 0;
        for (int c = 0; c < t->cols; c++)
            if (gf_view_columns(x->s)->id[t->c0 + c] != id) row[x->count[slot]++] = t->s[(size_t)r * t->ld + (size_t)c];
        if (t->last) x->theta[t->r0 + r] = x->count[slot] ? gf_quantile(row, x->count[slot], x->alpha) : 1.0f;
    }
}

glofnd_status gf_fnc_thresholds(gf_error *err, const gf_view_set *s, double alpha, const gf_sweep_job *job, float *theta) {
    const size_t slots = (size_t)job->threads * GF_SWEEP_GROUP;
    batch_rows x = {.s = s, .alpha = alpha, .theta = theta};
    x.row = malloc(slots * (size_t)s->n * sizeof *x.row);
    x.count = malloc(slots * sizeof *x.count);
    const glofnd_status status = x.row && x.count
                                     ? sweep(err, s, gf_view_columns(s), job, "thresholds of batches", collect_rows, &x)
                                     : gf_fail(err, GLOFND_E_MEMORY, "no memory for rows of %lld similarities", (long long)s->n);
    free(x.row);
    free(x.count);
    return status;
}

/* ----- quantile of an anchor over a large pool: keeps the similarities that can still be among the largest ----- */

typedef struct best_of {
    float *value;         /* [capacity] */
    int64_t count, pairs; /* kept; seen */
    float limit;          /* values up to this are not among the largest */
} best_of;

typedef struct selection {
    const gf_view_set *anchors, *pool;
    int views;
    double alpha;
    int64_t best, capacity; /* values needed, at most; values of a list */
    best_of *list;          /* [threads][GF_SWEEP_GROUP / views] */
    float *values, *out;
} selection;

/* Adds similarities s [cols] of sample `id` to the samples ids [cols]. Nearly always none of them is `id` itself: the vector
 * path. */
static void add_similarities(const selection *x, best_of *b, const float *s, const int64_t *ids, int cols, int64_t id) {
    int own = 0;
    for (int c = 0; c < cols; c++) own += ids[c] == id;
    b->pairs += cols - own;
    if (b->count + cols > x->capacity) {
        b->limit = gf_kth_largest(b->value, b->count, x->best);
        b->count = x->best;
    }
    if (own == 0 && cols % GF_PANEL == 0) {
        b->count += gf_cpu_kernels_get()->tile->above(s, cols, b->limit, b->value + b->count);
        return;
    }
    for (int c = 0; c < cols; c++)
        if (ids[c] != id && s[c] > b->limit) b->value[b->count++] = s[c];
}

static void select_strip(void *user, const gf_strip *t, int thread) {
    const selection *x = user;
    for (int r = 0; r < t->rows; r++) {
        const int slot = t->slot + r;
        best_of *b = &x->list[thread * (GF_SWEEP_GROUP / x->views) + slot / x->views];
        if (t->c0 == 0 && slot % x->views == 0) b->count = b->pairs = 0, b->limit = -INFINITY;
        add_similarities(x, b, t->s + (size_t)r * t->ld, x->pool->id + t->c0, t->cols, x->anchors->id[t->r0 + r]);
        if (!t->last || (slot + 1) % x->views != 0) continue;
        const int64_t k = gf_top_count(b->pairs, x->alpha);
        x->out[(t->r0 + r) / x->views] = b->pairs ? gf_kth_largest(b->value, b->count, k) : NAN;
    }
}

glofnd_status gf_optimal_thresholds(gf_error *err, const gf_view_set *anchors, int views, const gf_view_set *pool, double alpha,
                                    const gf_sweep_job *job, float *out) {
    selection x = {.anchors = anchors, .pool = pool, .views = views, .alpha = alpha, .out = out};
    FAIL_IF(err, anchors->dim != pool->dim || views < 1 || GF_SWEEP_GROUP % views || anchors->n % views, GLOFND_E_ARGUMENT,
            "%lld rows cannot be grouped into anchors of %d views", (long long)anchors->n, views);
    FAIL_IF(err, !(alpha > 0.0 && alpha < 1.0), GLOFND_E_OPTION, "alpha is %g; expected a number in (0, 1)", alpha);
    const int64_t lists = (int64_t)job->threads * (GF_SWEEP_GROUP / views);
    x.best = gf_top_count(views * pool->n, alpha);
    x.capacity = 2 * x.best + 2 * GF_STRIP_COLS; /* after a cut, a row of a strip fits */
    x.list = calloc((size_t)lists, sizeof *x.list);
    x.values = malloc((size_t)lists * (size_t)x.capacity * sizeof *x.values);
    glofnd_status status = GLOFND_OK;
    if (!x.list || !x.values) status = gf_fail(err, GLOFND_E_MEMORY, "no memory for lists of %lld values", (long long)x.capacity);
    for (int64_t i = 0; i < lists && status == GLOFND_OK; i++) x.list[i].value = x.values + i * x.capacity;
    if (status == GLOFND_OK) status = sweep(err, anchors, pool, job, "optimal thresholds", select_strip, &x);
    free(x.list);
    free(x.values);
    return status;
}

/* ----- one threshold for all pairs: histogram ----- */

enum { BINS = 1 << 17 }; /* of [-1, 1] */

typedef struct histogram {
    const gf_view_set *s;
    int64_t *bin; /* [threads][BINS] */
} histogram;

/* Bin b holds values in (-1 + b w, -1 + (b+1) w], so that later bins hold exactly the values above an edge. */
static int bin_of(float s) {
    const int b = (int)ceil(((double)s + 1.0) * (BINS / 2)) - 1;
    return b < 0 ? 0 : b >= BINS ? BINS - 1 : b;
}

static void count_bins(void *user, const gf_strip *t, int thread) {
    const histogram *x = user;
    int64_t *bin = x->bin + (int64_t)thread * BINS;
    for (int r = 0; r < t->rows; r++)
        for (int c = 0; c < t->cols; c++)
            if (gf_view_columns(x->s)->id[t->c0 + c] != x->s->id[t->r0 + r]) bin[bin_of(t->s[(size_t)r * t->ld + (size_t)c])]++;
}

glofnd_status gf_single_threshold(gf_error *err, const gf_view_set *s, double alpha, const gf_sweep_job *job, float *out) {
    histogram x = {.s = s, .bin = calloc((size_t)job->threads * BINS, sizeof *x.bin)};
    FAIL_IF(err, !x.bin, GLOFND_E_MEMORY, "no memory for a histogram");
    const glofnd_status status = sweep(err, s, gf_view_columns(s), job, "one threshold for all", count_bins, &x);
    int64_t all = 0, above = 0;
    for (int64_t i = BINS; status == GLOFND_OK && i < (int64_t)job->threads * BINS; i++) x.bin[i % BINS] += x.bin[i];
    for (int b = 0; b < BINS; b++) all += x.bin[b];
    int b = BINS;
    while (b > 0 && (double)(above + x.bin[b - 1]) <= alpha * (double)all) above += x.bin[--b];
    *out = (float)(-1.0 + (double)b / (BINS / 2));
    free(x.bin);
    return status;
}

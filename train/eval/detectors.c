/* detectors.c - see detectors.h: thresholds of detectors, counts of what they flag, errors of thresholds. */
#include "eval/detectors.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cpu/kernels/cpu_kernels.h"
#include "util/array.h"
#include "util/parallel.h"
#include "util/rng.h"

static glofnd_status sweep_views(gf_error *err, const gf_view_set *rows, const gf_view_set *cols, const gf_sweep_job *job,
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
                                     ? sweep_views(err, s, gf_view_columns(s), job, "thresholds of batches", collect_rows, &x)
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
    if (status == GLOFND_OK) status = sweep_views(err, anchors, pool, job, "optimal thresholds", select_strip, &x);
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
static void count_bins(void *user, const gf_strip *t, int thread) {
    const histogram *x = user;
    int64_t *bin = x->bin + (int64_t)thread * BINS;
    for (int r = 0; r < t->rows; r++)
        for (int c = 0; c < t->cols; c++)
            if (gf_view_columns(x->s)->id[t->c0 + c] != x->s->id[t->r0 + r]) {
                const int b = (int)ceil(((double)t->s[(size_t)r * t->ld + (size_t)c] + 1.0) * (BINS / 2)) - 1;
                bin[b < 0 ? 0 : b >= BINS ? BINS - 1 : b]++;
            }
}

glofnd_status gf_single_threshold(gf_error *err, const gf_view_set *s, double alpha, const gf_sweep_job *job, float *out) {
    histogram x = {.s = s, .bin = calloc((size_t)job->threads * BINS, sizeof *x.bin)};
    FAIL_IF(err, !x.bin, GLOFND_E_MEMORY, "no memory for a histogram");
    const glofnd_status status = sweep_views(err, s, gf_view_columns(s), job, "one threshold for all", count_bins, &x);
    int64_t all = 0, above = 0;
    for (int64_t i = BINS; status == GLOFND_OK && i < (int64_t)job->threads * BINS; i++) x.bin[i % BINS] += x.bin[i];
    for (int b = 0; b < BINS; b++) all += x.bin[b];
    int b = BINS;
    while (b > 0 && (double)(above + x.bin[b - 1]) <= alpha * (double)all) above += x.bin[--b];
    *out = (float)(-1.0 + (double)b / (BINS / 2));
    free(x.bin);
    return status;
}

/* ----- flagged pairs ----- */

typedef struct counting {
    const gf_view_set *s;
    const float *theta;
    int kinds;
    gf_fn_counts *counts;
} counting;

/* One row of a tile: s [cols] against the columns from c0. Free of branches, so that the compiler vectorises it. */
static void count_row(const gf_view_set *set, int64_t row, int64_t c0, int cols, const float *s, float theta, gf_fn_counts *out) {
    const gf_view_set *columns = gf_view_columns(set);
    const int64_t id = set->id[row], *ids = columns->id + c0;
    const int32_t label = set->label[row], *labels = columns->label + c0;
    int pairs = 0, same = 0, flagged = 0, hits = 0;
    for (int c = 0; c < cols; c++) {
        const int pair = ids[c] != id, equal = pair & (labels[c] == label) & (label >= 0), above = pair & (s[c] > theta);
        pairs += pair, same += equal, flagged += above, hits += equal & above;
    }
    out->pairs += pairs, out->same += same, out->flagged += flagged, out->hits += hits;
}

static void count_strip(void *user, const gf_strip *t, int thread) {
    const counting *x = user;
    (void)thread;
    for (int r = 0; r < t->rows; r++) {
        const int64_t row = t->r0 + r;
        for (int k = 0; k < x->kinds; k++) {
            const int64_t at = k * x->s->n + row;
            if (t->c0 == 0) x->counts[at] = (gf_fn_counts){0};
            count_row(x->s, row, t->c0, t->cols, t->s + (size_t)r * t->ld, x->theta[at], &x->counts[at]);
        }
    }
}

glofnd_status gf_fn_count(gf_error *err, const gf_view_set *s, const float *theta, int kinds, const gf_sweep_job *job,
                          gf_fn_counts *counts) {
    counting x = {s, theta, kinds, counts};
    return sweep_views(err, s, gf_view_columns(s), job, "flagged pairs", count_strip, &x);
}

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

/* Rows [first, first + rows) as a set; borrowed. */
static gf_view_set part_of(const gf_view_set *s, int64_t first, int64_t rows) {
    return (gf_view_set){.n = rows, .dim = s->dim, .z = s->z + first * s->dim, .id = s->id + first, .label = s->label + first};
}

static glofnd_status compare_detectors(gf_error *err, const gf_fn_comparison *x, tables *t, gf_precision_recall *out) {
    const int64_t rows = x->batch * x->views, used = x->batch ? x->s->n / rows * rows : x->s->n;
    const gf_sweep_job stage = gf_sweep_stage(&x->job, "flagged pairs of batches");
    /* Sets the thresholds that do not depend on the batch. */
    const gf_view_set *s = x->s;
    const int64_t n = s->n;
    float single;
    TRY(gf_optimal_thresholds(err, s, x->views, gf_view_columns(s), x->alpha, &x->job, t->exact));
    TRY(gf_single_threshold(err, s, x->alpha, &x->job, &single));
    for (int64_t i = 0; i < n; i++) {
        const float lambda = x->lambda ? x->lambda[i / x->views] : 1.0f;
        t->theta[GF_FN_GLOFND * n + i] = isnan(lambda) ? 1.0f : lambda;
        t->theta[GF_FN_EXACT * n + i] = t->exact[i / x->views];
        t->theta[GF_FN_SINGLE * n + i] = single;
        t->theta[GF_FN_FNC * n + i] = 1.0f;
    }
    if (!x->batch) TRY(gf_fn_count(err, s, t->theta, GF_FN_DETECTOR_COUNT, &x->job, t->counts));
    for (int64_t first = 0; x->batch && first < used; first += rows) {
        const gf_view_set others = part_of(gf_view_columns(s), first, rows);
        gf_view_set batch = part_of(s, first, rows);
        if (s->others) batch.others = &others;
        for (int k = 0; k < GF_FN_DETECTOR_COUNT; k++)
            for (int64_t i = 0; i < rows; i++) t->part[k * rows + i] = t->theta[k * n + first + i];
        const gf_sweep_job silent = {.threads = x->job.threads}; /* progress is by batch */
        TRY(gf_fnc_thresholds(err, &batch, x->alpha, &silent, t->part + GF_FN_FNC * rows));
        TRY(gf_fn_count(err, &batch, t->part, GF_FN_DETECTOR_COUNT, &silent, t->part_counts));
        for (int k = 0; k < GF_FN_DETECTOR_COUNT; k++)
            for (int64_t i = 0; i < rows; i++) t->counts[k * n + first + i] = t->part_counts[k * rows + i];
        gf_job_report(&stage.watch, (double)(first + rows) / (double)used);
    }
    for (int k = 0; k < GF_FN_DETECTOR_COUNT; k++) {
        const int available = k == GF_FN_GLOFND ? x->lambda != NULL : k != GF_FN_FNC || x->batch > 0;
        out[k] = available ? gf_fn_precision_recall(t->counts + k * n, used / x->views, x->views) : (gf_precision_recall){0};
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
    const glofnd_status status =
        complete ? compare_detectors(err, x, &t, out) : gf_fail(err, GLOFND_E_MEMORY, "no memory for counts");
    free(t.theta);
    free(t.exact);
    free(t.part);
    free(t.counts);
    free(t.part_counts);
    return status;
}

/* ----- errors of thresholds ----- */

void gf_density(const float *x, int64_t n, double low, double high, int bins, double *out) {
    int64_t count = 0;
    for (int b = 0; b < bins; b++) out[b] = 0.0;
    for (int64_t i = 0; i < n; i++) {
        if (isnan(x[i])) continue;
        count++;
        const double at = ((double)x[i] - low) / (high - low) * bins;
        if (at >= 0.0 && at <= bins) out[at < bins ? (int)at : bins - 1] += 1.0;
    }
    for (int b = 0; b < bins && count; b++) out[b] *= bins / (high - low) / (double)count;
}

static double mean_of(const float *x, int64_t n) {
    double sum = 0.0;
    for (int64_t i = 0; i < n; i++) sum += (double)x[i];
    return sum / (double)n;
}

void gf_draw_mean(const float *draw, int64_t n, int64_t draws, float *mean) {
    for (int64_t i = 0; i < n; i++) mean[i] = (float)mean_of(draw + i * draws, draws);
}

typedef struct draw_sums {
    double anchors, absolute, square; /* of draws from their mean, summed over anchors: means over the draws of each */
} draw_sums;

static void add_sums(draw_sums *to, draw_sums s) { to->anchors += s.anchors, to->absolute += s.absolute, to->square += s.square; }

gf_draw_error gf_draw_error_of(const float *x, const float *draw, int64_t n, int64_t draws) {
    const double few = (double)draws / (double)(draws - 1);
    draw_sums all = {0}, compared = {0};
    double off = 0.0, off_square = 0.0;
    for (int64_t i = 0; i < n; i++) {
        const float *own = draw + i * draws;
        const double mean = mean_of(own, draws), d = (double)x[i] - mean;
        draw_sums around = {.anchors = 1.0};
        for (int64_t k = 0; k < draws; k++) {
            const double off_mean = (double)own[k] - mean;
            around.absolute += fabs(off_mean) / (double)draws, around.square += off_mean * off_mean / (double)draws;
        }
        if (!isnan(mean)) add_sums(&all, around);
        if (isnan(d)) continue;
        add_sums(&compared, around);
        off += d, off_square += d * d;
    }
    gf_draw_error e = {.one = gf_threshold_error_of(draw, x, n, draws)};
    e.one.bias = -e.one.bias; /* of x against the draws */
    e.floor = all.absolute / all.anchors * sqrt(few);
    e.noise = sqrt(all.square / all.anchors * few);
    const double bias = off / compared.anchors, own_noise = compared.square / compared.anchors * few / (double)draws;
    e.spread = sqrt(fmax(0.0, off_square / compared.anchors - bias * bias - own_noise));
    return e;
}

/* ----- thresholds of FNC in shuffled batches ----- */

typedef struct shuffle {
    const gf_view_set *s;
    int views, draw, draws, threads;
    int64_t batch, samples;
    double alpha;
    uint64_t seed;
    gf_view_set *set;      /* [threads] a batch each; then as many for s->others, if any */
    float *theta, *out;    /* [threads][batch * views] */
    glofnd_status *status; /* [threads] */
} shuffle;

static int64_t sample_at(const shuffle *x, int64_t position) {
    return gf_permute(x->seed, (uint32_t)x->draw, x->samples, position);
}

static void copy_sample(gf_view_set *to, int64_t at, const gf_view_set *from, int64_t sample, int views) {
    memcpy(to->z + at * views * to->dim, from->z + sample * views * from->dim, (size_t)views * (size_t)from->dim * sizeof *to->z);
    memcpy(to->id + at * views, from->id + sample * views, (size_t)views * sizeof *to->id);
}

static void batch_thresholds(void *arg, int64_t task, int thread) {
    const shuffle *x = arg;
    const int64_t end = (task + 1) * x->batch, first = end > x->samples ? x->samples - x->batch : task * x->batch;
    const int64_t new = task * x->batch; /* earlier positions belong to the previous batch */
    gf_view_set *b = &x->set[thread], *others = x->s->others ? &x->set[x->threads + thread] : NULL;
    float *theta = x->theta + (int64_t)thread * x->batch * x->views;
    for (int64_t i = 0; i < x->batch; i++) copy_sample(b, i, x->s, sample_at(x, first + i), x->views);
    for (int64_t i = 0; others && i < x->batch; i++) copy_sample(others, i, x->s->others, sample_at(x, first + i), x->views);
    b->others = others;
    const glofnd_status status = gf_fnc_thresholds(NULL, b, x->alpha, &(gf_sweep_job){.threads = 1}, theta);
    if (status != GLOFND_OK) x->status[thread] = status;
    for (int64_t i = new - first; status == GLOFND_OK &&i < x->batch; i++) {
        float *to = x->out + (sample_at(x, first + i) * x->draws + x->draw) * x->views;
        for (int v = 0; v < x->views; v++) to[v] = theta[i * x->views + v];
    }
}

static glofnd_status shuffle_all(gf_error *err, shuffle *x, const gf_sweep_job *job) {
    const gf_sweep_job stage = gf_sweep_stage(job, "batches of FNC");
    for (x->draw = 0; x->draw < x->draws; x->draw++) {
        gf_job_report(&stage.watch, (double)x->draw / (double)x->draws);
        gf_parallel(job->threads, (x->samples + x->batch - 1) / x->batch, batch_thresholds, x);
        for (int t = 0; t < job->threads; t++)
            FAIL_IF(err, x->status[t] != GLOFND_OK, x->status[t], "thresholds of a batch: %s", glofnd_status_text(x->status[t]));
    }
    return GLOFND_OK;
}

glofnd_status gf_fnc_batch_thresholds(gf_error *err, const gf_view_set *s, int views, int64_t batch, int draws, double alpha,
                                      uint64_t seed, const gf_sweep_job *job, float *out) {
    const int threads = job->threads, sets = s->others ? 2 * threads : threads;
    shuffle x = {.s = s,
                 .views = views,
                 .draws = draws,
                 .threads = threads,
                 .batch = batch,
                 .samples = s->n / views,
                 .alpha = alpha,
                 .seed = seed,
                 .out = out};
    FAIL_IF(err, batch < 2 || batch > x.samples, GLOFND_E_ARGUMENT, "a batch of %lld cannot be drawn from %lld samples",
            (long long)batch, (long long)x.samples);
    x.set = calloc((size_t)sets, sizeof *x.set);
    x.status = calloc((size_t)threads, sizeof *x.status);
    x.theta = malloc((size_t)threads * (size_t)(batch * views) * sizeof *x.theta);
    glofnd_status status =
        x.set && x.status && x.theta ? GLOFND_OK : gf_fail(err, GLOFND_E_MEMORY, "no memory for batches of thresholds");
    for (int t = 0; t < sets && status == GLOFND_OK; t++) status = gf_view_set_alloc(err, &x.set[t], batch * views, s->dim);
    if (status == GLOFND_OK) status = shuffle_all(err, &x, job);
    for (int t = 0; t < sets && x.set; t++) gf_view_set_free(&x.set[t]);
    free(x.set);
    free(x.status);
    free(x.theta);
    return status;
}

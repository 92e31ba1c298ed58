/* threshold_error.c - see threshold_error.h. */
#include "eval/threshold_error.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "eval/detector_thresholds.h"
#include "util/parallel.h"
#include "util/rng.h"

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

/* ----- several draws of views ----- */

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

static draw_sums sums_around(const float *draw, int64_t draws, double mean) {
    draw_sums s = {.anchors = 1.0};
    for (int64_t k = 0; k < draws; k++) {
        const double d = (double)draw[k] - mean;
        s.absolute += fabs(d) / (double)draws, s.square += d * d / (double)draws;
    }
    return s;
}

static void add_sums(draw_sums *to, draw_sums s) { to->anchors += s.anchors, to->absolute += s.absolute, to->square += s.square; }

gf_draw_error gf_draw_error_of(const float *x, const float *draw, int64_t n, int64_t draws) {
    const double few = (double)draws / (double)(draws - 1);
    draw_sums all = {0}, compared = {0};
    double off = 0.0, off_square = 0.0;
    for (int64_t i = 0; i < n; i++) {
        const float *own = draw + i * draws;
        const double mean = mean_of(own, draws), d = (double)x[i] - mean;
        const draw_sums around = sums_around(own, draws, mean);
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

/* ----- thresholds of FNC ----- */

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

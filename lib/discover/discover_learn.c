/* discover_learn.c - thresholds of fixed embeddings by the stochastic learner, as in training: random batches, one update of
 * each anchor per visit. The learning rate decays to 0 over the epochs, so that the last batches have little influence. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "discover/discover.h"
#include "method/options.h"
#include "util/array.h"
#include "util/rng.h"

enum { LEARN_PARTS = 2 }; /* learning is 1 / LEARN_PARTS of the progress */

typedef struct learner {
    const gf_discover_spec *s;
    const gf_discover_data *d;
    glofnd_options o;
    glofnd_ctx *ctx;
    glofnd_store *store;
    int64_t batch;
    float *sim;   /* [batch][batch] */
    int64_t *id;  /* [batch] */
    int32_t *row; /* [batch] rows of d->x */
} learner;

static void copy_strip(void *user, const gf_strip *t, int thread) {
    const learner *x = user;
    (void)thread;
    for (int r = 0; r < t->rows; r++)
        memcpy(x->sim + (t->r0 + r) * x->batch + t->c0, t->s + (size_t)r * t->ld, (size_t)t->cols * sizeof *x->sim);
}

/* One batch: positions `first` and on of the epoch's order. */
static glofnd_status learn_batch(gf_error *err, learner *x, uint32_t epoch, int64_t first) {
    const gf_sweep_job silent = {.threads = x->s->threads, .watch.stop = x->s->watch.stop};
    const gf_vectors batch = {.x = x->d->x, .row = x->row, .n = x->batch, .dim = x->d->dim};
    for (int64_t i = 0; i < x->batch; i++) {
        x->id[i] = gf_permute(x->s->seed, epoch, x->d->good_n, first + i);
        x->row[i] = x->d->good[x->id[i]];
    }
    TRY(gf_sweep_vectors(err, &batch, &batch, &silent, copy_strip, x));
    const glofnd_sims q = {
        .size = sizeof q, .views = 1, .rows = x->batch, .cols = x->batch, .sim = x->sim, .id = x->id, .epoch = (int32_t)epoch};
    const glofnd_status learned = glofnd_update(x->ctx, x->store, &q);
    FAIL_IF(err, learned != GLOFND_OK, learned, "learning thresholds: %s", glofnd_ctx_error(x->ctx));
    return GLOFND_OK;
}

/* The last batch of an epoch is completed with samples of the one before. */
static glofnd_status learn_epoch(gf_error *err, learner *x, uint32_t epoch) {
    const int64_t n = x->d->good_n;
    const double pi = 3.14159265358979323846, at = (double)epoch / (double)x->s->epochs;
    glofnd_options o = x->o;
    o.lambda_lr = x->o.lambda_lr * 0.5 * (1.0 + cos(pi * at));
    const glofnd_status set = glofnd_ctx_configure(x->ctx, &o);
    FAIL_IF(err, set != GLOFND_OK, set, "learning thresholds: %s", glofnd_ctx_error(x->ctx));
    for (int64_t first = 0; first < n; first += x->batch) {
        TRY(learn_batch(err, x, epoch, first + x->batch > n ? n - x->batch : first));
        const double done = ((double)epoch + (double)first / (double)n) / (double)x->s->epochs;
        gf_job_report(&x->s->watch, done / LEARN_PARTS);
    }
    return GLOFND_OK;
}

static glofnd_status init_learner(gf_error *err, learner *x, double alpha) {
    const glofnd_store_spec spec = {.size = sizeof spec, .n = x->d->good_n};
    gf_method_options_init(&x->o);
    x->o.alpha = alpha;
    x->o.lambda_init = GLOFND_INIT_QUANTILE;
    x->o.threads = x->s->threads;
    x->sim = malloc((size_t)x->batch * (size_t)x->batch * sizeof *x->sim);
    x->id = malloc((size_t)x->batch * sizeof *x->id);
    x->row = malloc((size_t)x->batch * sizeof *x->row);
    FAIL_IF(err, !x->sim || !x->id || !x->row, GLOFND_E_MEMORY, "no memory for batches of %lld", (long long)x->batch);
    char why[200];
    const glofnd_status opened = glofnd_ctx_create(&x->o, &x->ctx, why, sizeof why);
    FAIL_IF(err, opened != GLOFND_OK, opened, "the learner: %s", why);
    const glofnd_status made = glofnd_store_create(x->ctx, &spec, &x->store);
    FAIL_IF(err, made != GLOFND_OK, made, "the learner: %s", glofnd_ctx_error(x->ctx));
    return GLOFND_OK;
}

static glofnd_status read_lambda(gf_error *err, const learner *x, float *lambda) {
    for (int64_t i = 0; i < x->d->good_n; i++) {
        glofnd_row row;
        const glofnd_status got = glofnd_rows_get(x->ctx, x->store, 0, &i, 1, &row);
        FAIL_IF(err, got != GLOFND_OK, got, "the learner: %s", glofnd_ctx_error(x->ctx));
        lambda[i] = row.lambda;
    }
    return GLOFND_OK;
}

glofnd_status gf_discover_learn(gf_error *err, const gf_discover_spec *s, const gf_discover_data *d, double alpha,
                                float *lambda) {
    learner x = {.s = s, .d = d, .batch = GF_MIN(s->batch, d->good_n)};
    glofnd_status status = init_learner(err, &x, alpha);
    for (int64_t e = 0; e < s->epochs && status == GLOFND_OK; e++) status = learn_epoch(err, &x, (uint32_t)e);
    if (status == GLOFND_OK) status = read_lambda(err, &x, lambda);
    glofnd_store_free(x.store);
    glofnd_ctx_free(x.ctx);
    free(x.sim);
    free(x.id);
    free(x.row);
    return status;
}

glofnd_status gf_discover_learn_error(gf_error *err, const gf_discover_spec *s, const gf_discover_data *d, void *state,
                                      int64_t rank, const float *lambda, gf_threshold_error *out) {
    const int64_t n = GF_MIN(s->sample, d->good_n);
    gf_pairs_task t = {
        .rank = rank, .dup = INFINITY, .memory = s->memory, .threads = s->threads, .watch = {.stop = s->watch.stop}};
    gf_pairs_found f = {0};
    int32_t *at = malloc((size_t)n * sizeof *at), *row = malloc((size_t)n * sizeof *row);
    float *learned = malloc((size_t)n * sizeof *learned);
    glofnd_status status = at && row && learned ? gf_pairs_found_alloc(err, &f, n, 0)
                                                : gf_fail(err, GLOFND_E_MEMORY, "no memory for a sample of thresholds");
    for (int64_t i = 0; i < n && status == GLOFND_OK; i++) {
        at[i] = (int32_t)gf_permute(s->seed, UINT32_MAX, d->good_n, i);
        row[i] = d->good[at[i]];
        learned[i] = lambda[at[i]];
    }
    t.skip = at;
    const gf_vectors rows = {.x = d->x, .row = row, .n = n, .dim = d->dim};
    if (status == GLOFND_OK) status = s->pass->query(err, state, &rows, &t, &f);
    if (status == GLOFND_OK) *out = gf_threshold_error_of(learned, f.lambda, n, 1);
    gf_pairs_found_free(&f);
    free(at);
    free(row);
    free(learned);
    return status;
}

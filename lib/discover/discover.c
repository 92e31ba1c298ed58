/* discover.c - see discover.h: the order of work. Learned thresholds; what a search is asked for; totals of what it finds; a run; a
 * query against a stored result. */
#include "discover/discover.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "method/options.h"
#include "util/array.h"
#include "util/rng.h"

/* ----- learned thresholds ----- */

/* Thresholds of fixed embeddings by the stochastic learner, as in training: random batches, one update of
 * each anchor per visit. The learning rate decays to 0 over the epochs, so that the last batches have little influence. */

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

/* The last batch of an epoch is completed with samples of the one before. */
static glofnd_status learn_epoch(gf_error *err, learner *x, uint32_t epoch) {
    const int64_t n = x->d->good_n;
    const double pi = 3.14159265358979323846, at = (double)epoch / (double)x->s->epochs;
    glofnd_options o = x->o;
    o.lambda_lr = x->o.lambda_lr * 0.5 * (1.0 + cos(pi * at));
    const glofnd_status set = glofnd_ctx_configure(x->ctx, &o);
    FAIL_IF(err, set != GLOFND_OK, set, "learning thresholds: %s", glofnd_ctx_error(x->ctx));
    for (int64_t first = 0; first < n; first += x->batch) {
        /* One batch: positions `batch_first` and on of the epoch's order. */
        const int64_t batch_first = first + x->batch > n ? n - x->batch : first;
        const gf_sweep_job silent = {.threads = x->s->task.threads, .watch.stop = x->s->task.watch.stop};
        const gf_vectors batch = {.x = x->d->x, .row = x->row, .n = x->batch, .dim = x->d->dim};
        for (int64_t i = 0; i < x->batch; i++) {
            x->id[i] = gf_permute(x->s->seed, epoch, x->d->good_n, batch_first + i);
            x->row[i] = x->d->good[x->id[i]];
        }
        TRY(gf_sweep_vectors(err, &batch, &batch, &silent, copy_strip, x));
        const glofnd_sims q = {.size = sizeof q,
                               .views = 1,
                               .rows = x->batch,
                               .cols = x->batch,
                               .sim = x->sim,
                               .id = x->id,
                               .epoch = (int32_t)epoch};
        const glofnd_status learned = glofnd_detect_update(x->ctx, x->store, &q);
        FAIL_IF(err, learned != GLOFND_OK, learned, "learning thresholds: %s", glofnd_ctx_error(x->ctx));
        const double done = ((double)epoch + (double)first / (double)n) / (double)x->s->epochs;
        gf_job_report(&x->s->task.watch, done / LEARN_PARTS);
    }
    return GLOFND_OK;
}

/* Thresholds [d->good_n] by the learner, over all rows `epochs` times in random batches. */
static glofnd_status learn_thresholds(gf_error *err, learner *x, double alpha, float *lambda) {
    const glofnd_store_spec spec = {.size = sizeof spec, .n = x->d->good_n};
    gf_method_options_init(&x->o);
    x->o.alpha = alpha;
    x->o.lambda_init = GLOFND_INIT_QUANTILE;
    x->o.threads = x->s->task.threads;
    x->sim = malloc((size_t)x->batch * (size_t)x->batch * sizeof *x->sim);
    x->id = malloc((size_t)x->batch * sizeof *x->id);
    x->row = malloc((size_t)x->batch * sizeof *x->row);
    FAIL_IF(err, !x->sim || !x->id || !x->row, GLOFND_E_MEMORY, "no memory for batches of %lld", (long long)x->batch);
    char why[200];
    const glofnd_status opened = glofnd_ctx_create(&x->o, &x->ctx, why, sizeof why);
    FAIL_IF(err, opened != GLOFND_OK, opened, "the learner: %s", why);
    const glofnd_status made = glofnd_store_create(x->ctx, &spec, &x->store);
    FAIL_IF(err, made != GLOFND_OK, made, "the learner: %s", glofnd_ctx_error(x->ctx));
    for (int64_t e = 0; e < x->s->epochs; e++) TRY(learn_epoch(err, x, (uint32_t)e));
    for (int64_t i = 0; i < x->d->good_n; i++) {
        glofnd_anchor row;
        const glofnd_status got = glofnd_anchors_get(x->ctx, x->store, 0, &i, 1, &row);
        FAIL_IF(err, got != GLOFND_OK, got, "the learner: %s", glofnd_ctx_error(x->ctx));
        lambda[i] = row.lambda;
    }
    return GLOFND_OK;
}

/* Error of learned thresholds against exact ones, on a sample of anchors. */
static glofnd_status measure_learned(gf_error *err, const gf_discover_spec *s, const gf_discover_data *d, void *state,
                                     int64_t rank, const float *lambda, gf_threshold_error *out) {
    const int64_t n = GF_MIN(s->sample, d->good_n);
    gf_pairs_task t = {.rank = rank,
                       .dup = INFINITY,
                       .memory = s->task.memory,
                       .threads = s->task.threads,
                       .watch = {.stop = s->task.watch.stop}};
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
    if (status == GLOFND_OK) status = s->search->query(err, state, &rows, &t, &f);
    if (status == GLOFND_OK) *out = gf_threshold_error_of(learned, f.lambda, n, 1);
    gf_pairs_found_free(&f);
    free(at);
    free(row);
    free(learned);
    return status;
}

/* ----- the task ----- */

glofnd_status gf_discover_rank(gf_error *err, const gf_discover_spec *s, int64_t n, int64_t *rank) {
    const int64_t others = n - 1, max = s->learned ? others - 2 : others - 1; /* alpha of the learner is below 1 */
    FAIL_IF(err, n < 2, GLOFND_E_ARGUMENT,
            "need at least two usable rows, found %lld (rows of zeros and rows with nan or inf are skipped)", (long long)n);
    FAIL_IF(err, s->k == 0 && !(s->alpha > 0.0 && s->alpha < 1.0), GLOFND_E_OPTION, "alpha is %g; expected a number in (0, 1)",
            s->alpha);
    FAIL_IF(err, s->k > 0 && max < 1, GLOFND_E_ARGUMENT, "k is %lld; an anchor has %lld other%s, and k=1 needs %d",
            (long long)s->k, (long long)others, others == 1 ? "" : "s", s->learned ? 3 : 2);
    FAIL_IF(err, max < 0, GLOFND_E_ARGUMENT, "an anchor has 1 other; learned thresholds need at least 2");
    FAIL_IF(err, s->k > max, GLOFND_E_OPTION, "k is %lld; an anchor has %lld others, so k can be at most %lld", (long long)s->k,
            (long long)others, (long long)max);
    *rank = s->k > 0 ? s->k + 1 : gf_top_count(others, s->alpha);
    return GLOFND_OK;
}

/* Rounding errors of a dot product are largest where all have one sign, as in rows of equal numbers: up to 0.14 dim 2^-24 below
 * 1 was measured. The limit is twice that, plus the error of the unit vectors. */
float gf_discover_dup(const gf_discover_spec *s, int64_t dim) {
    const double one = 1.0 - 0x1p-21 - 0x1p-26 * (double)dim;
    return s->dup_exact ? INFINITY : (float)fmin(s->dup, one);
}

gf_pairs_task gf_discover_task(const gf_discover_spec *s, int64_t rank, int64_t n, int64_t dim) {
    gf_pairs_task t = s->task;
    t.rank = rank, t.dup = gf_discover_dup(s, dim), t.top = GF_MIN(t.top, n - 1);
    return t;
}

gf_pairs_plan gf_discover_plan_for(const gf_discover_spec *s, int64_t n, int64_t dim, int64_t rank) {
    static const float given;
    gf_pairs_task t = gf_discover_task(s, rank, n, dim);
    if (s->learned) t.lambda = &given;
    return s->search->plan(n, dim, &t);
}

double gf_discover_seconds(const gf_discover_spec *s, int64_t n, int64_t dim, int64_t rank) {
    const gf_pairs_task t = gf_discover_task(s, rank, n, dim);
    return s->learned || !s->search->seconds ? NAN : s->search->seconds(n, dim, &t);
}

/* ----- statistics ----- */

static int64_t above_in_list(const gf_pairs_found *f, int64_t i) {
    int64_t k = 0;
    while (k < f->top && f->similarity[i * f->top + k] > f->lambda[i]) k++;
    return k;
}

static glofnd_status count_listed(gf_error *err, int64_t max, gf_discover_result *r) {
    r->cutoff = -INFINITY;
    for (int64_t i = 0; i < r->f.n; i++) r->listed_of += above_in_list(&r->f, i);
    r->listed = GF_MIN(r->listed_of, max);
    if (!(r->listed < r->listed_of)) return GLOFND_OK;
    /* Finds the similarity of the last one of `max` listed pairs. */
    const gf_pairs_found *f = &r->f;
    float *value = malloc((size_t)r->listed_of * sizeof *value);
    int64_t n = 0;
    FAIL_IF(err, !value, GLOFND_E_MEMORY, "no memory to choose among %lld pairs", (long long)r->listed_of);
    for (int64_t i = 0; i < f->n; i++) {
        const int64_t count = above_in_list(f, i);
        memcpy(value + n, f->similarity + i * f->top, (size_t)count * sizeof *value);
        n += count;
    }
    r->cutoff = gf_kth_largest(value, n, max);
    r->cut_ties = max;
    for (int64_t i = 0; i < n; i++) r->cut_ties -= value[i] > r->cutoff;
    free(value);
    return GLOFND_OK;
}

int gf_discover_listed(const gf_discover_result *r, int64_t i, int64_t k, int64_t *ties) {
    const float v = r->f.similarity[i * r->f.top + k];
    if (!(v > r->f.lambda[i]) || v < r->cutoff) return 0;
    return v > r->cutoff || (*ties)++ < r->cut_ties;
}

int gf_discover_canonical(const gf_pairs_found *f, int64_t i, int64_t k) {
    const int64_t j = f->other[i * f->top + k];
    if (i < j) return 1;
    for (int64_t m = 0; m < f->top; m++)
        if (f->other[j * f->top + m] == i) return 0;
    return 1;
}

static void sum_counts(gf_discover_result *r) {
    int64_t mutual = 0, copies = 0;
    for (int64_t i = 0; i < r->f.n; i++) {
        r->above += r->f.above[i];
        r->with_pairs += r->f.above[i] > 0;
        mutual += r->f.mutual[i], copies += r->f.copies[i];
    }
    r->mutual_pairs = mutual, r->dup_pairs = copies;
    r->lambda = gf_spread_of(r->f.lambda, r->f.n);
}

/* Lines of duplicates.tsv: with equal bytes each copy once, else the listed pairs. */
static int64_t count_listed_duplicates(const gf_discover_spec *s, const gf_discover_data *d, const gf_discover_result *r,
                                       int query) {
    const gf_pairs_found *f = &r->f;
    const float limit = gf_discover_dup(s, d->dim);
    int64_t n = 0;
    if (s->dup_exact) return query ? r->stored_copies : d->good_n - d->distinct;
    for (int64_t i = 0; i < f->n; i++)
        for (int64_t k = 0; k < f->top && f->similarity[i * f->top + k] >= limit; k++)
            n += query || gf_discover_canonical(f, i, k);
    return n;
}

/* size [d->good_n]: number of rows with the bytes of a position, at the first of them. */
static glofnd_status count_copies(gf_error *err, const gf_discover_data *d, int64_t **size) {
    *size = calloc((size_t)d->good_n, sizeof **size);
    FAIL_IF(err, !*size, GLOFND_E_MEMORY, "no memory for groups of copies");
    for (int64_t i = 0; i < d->good_n; i++) (*size)[d->copy_of[i]]++;
    return GLOFND_OK;
}

int gf_discover_exact(const gf_discover_data *d, const gf_discover_result *r, int64_t i, int64_t j) {
    return (r->stored_copy ? r->stored_copy[i] : d->copy_of[i]) == d->copy_of[j];
}

/* Number of elements of sorted [n] below y. */
static int64_t below(const int32_t *sorted, int64_t n, int64_t y) {
    int64_t low = 0, high = n;
    while (low < high) {
        const int64_t mid = low + (high - low) / 2;
        if (sorted[mid] < y) low = mid + 1;
        else high = mid;
    }
    return low;
}

glofnd_status gf_discover_statistics(gf_error *err, const gf_discover_spec *s, const gf_discover_data *d, const int32_t *label,
                                     gf_discover_result *r) {
    gf_pairs_found *f = &r->f;
    if (s->dup_exact) {
        /* Only equal bytes: every row of a group of g has g - 1 duplicates. */
        int64_t *size = NULL;
        TRY(count_copies(err, d, &size));
        for (int64_t i = 0; i < f->n; i++) {
            f->copy_root[i] = d->copy_of[i];
            if (f->copies[i] != size[d->copy_of[i]] - 1) f->copies[i] = size[d->copy_of[i]] - 1; /* zeros take no memory yet */
        }
        free(size);
    }
    sum_counts(r);
    r->mutual_pairs /= 2, r->dup_pairs /= 2; /* counted at both ends */
    r->dup_listed = count_listed_duplicates(s, d, r, 0);
    TRY(count_listed(err, s->max_pairs, r));
    TRY(gf_components_list(err, f->mutual_root, f->mutual, f->n, &r->parts));
    TRY(gf_components_list(err, f->copy_root, f->copies, f->n, &r->groups));
    if (!label || s->task.only_dup) return GLOFND_OK;
    /* label [n] by position. */
    const int64_t n = r->f.n;
    gf_fn_counts *counts = malloc((size_t)n * sizeof *counts);
    int32_t *sorted = malloc((size_t)n * sizeof *sorted);
    if (!counts || !sorted) {
        free(counts);
        free(sorted);
        GF_FAIL(err, GLOFND_E_MEMORY, "no memory to compare with labels");
    }
    memcpy(sorted, label, (size_t)n * sizeof *sorted);
    qsort(sorted, (size_t)n, sizeof *sorted, gf_order_int32);
    for (int64_t i = 0; i < n; i++) {
        counts[i] = (gf_fn_counts){.pairs = n - 1, .flagged = r->f.above[i], .hits = r->f.hits[i]};
        if (label[i] >= 0) counts[i].same = below(sorted, n, (int64_t)label[i] + 1) - below(sorted, n, label[i]) - 1;
    }
    r->quality = gf_fn_precision_recall(counts, n, 1);
    free(counts);
    free(sorted);
    return GLOFND_OK;
}

/* ----- another limit of duplicates ----- */

glofnd_status gf_discover_set_dup(gf_error *err, const gf_discover_spec *s, const gf_discover_data *d, gf_discover_result *r) {
    gf_pairs_found *f = &r->f;
    const float limit = gf_discover_dup(s, d->dim);
    gf_components_init(f->copy_root, f->n);
    r->dup_pairs = 0;
    for (int64_t i = 0; i < f->n; i++) {
        int64_t k = 0;
        for (; k < f->top && f->similarity[i * f->top + k] >= limit; k++)
            gf_components_join(f->copy_root, (int32_t)i, f->other[i * f->top + k]);
        f->copies[i] = k;
        r->dup_pairs += k;
    }
    gf_components_flatten(f->copy_root, f->n);
    r->dup_pairs /= 2;
    r->dup_listed = count_listed_duplicates(s, d, r, 0);
    gf_components_free(&r->groups);
    return gf_components_list(err, f->copy_root, f->copies, f->n, &r->groups);
}

#define FIT_NEIGHBOUR 10 /* more than a row has duplicates, as a rule */
#define LEAST_FIT 1e-4   /* nearer ones are copies */

glofnd_status gf_discover_fit_dup(gf_error *err, gf_discover_spec *s, const gf_discover_data *d, gf_discover_result *r) {
    const gf_pairs_found *f = &r->f;
    if (!s->dup_fits || s->dup_exact || s->learned || s->task.only_dup || s->task.probe || f->top < FIT_NEIGHBOUR ||
        f->n <= 10 * FIT_NEIGHBOUR)
        return GLOFND_OK;
    float *near = malloc((size_t)f->n * sizeof *near);
    FAIL_IF(err, !near, GLOFND_E_MEMORY, "no memory for the similarities of %lld rows", (long long)f->n);
    for (int64_t i = 0; i < f->n; i++) near[i] = f->similarity[i * f->top + FIT_NEIGHBOUR - 1];
    const double upper = (double)gf_kth_largest(near, f->n, (f->n + 3) / 4),
                 lower = (double)gf_kth_largest(near, f->n, f->n - f->n / 4);
    free(near);
    /* The fence, in distances. Then no list may be full of duplicates: they would not be all. */
    const double a = fmax(1.0 - upper, 1e-6), b = fmax(1.0 - lower, 1e-6);
    double fence = a * pow(a / b, 1.5), full = 2.0;
    for (int64_t i = 0; i < f->n && f->top < f->n - 1; i++) full = fmin(full, 1.0 - (double)f->similarity[(i + 1) * f->top - 1]);
    if (1.0 - fence <= s->dup || full < LEAST_FIT) return GLOFND_OK;
    fence = fmin(fence, full);
    const double unit = pow(10.0, floor(log10(fence)) - 1.0); /* two digits */
    s->dup = 1.0 - unit * (ceil(fence / unit) - 1.0);
    return gf_discover_set_dup(err, s, d, r);
}

/* 1: the list of j has i, which is `similarity` from it: all nearer ones are in an exact list, and of equal ones the first. */
static int lists_row(const gf_pairs_found *f, int64_t j, int64_t i, float similarity) {
    const int64_t end = (j + 1) * f->top;
    if (!(f->similarity[end - 1] >= similarity)) return 1; /* or the list is not full */
    for (int64_t k = end - 1; k >= j * f->top && f->similarity[k] <= similarity; k--)
        if (f->other[k] == i) return 1;
    return 0;
}

int gf_discover_dup_choices(const gf_discover_spec *s, const gf_discover_result *r, gf_dup_choice choice[GF_DUP_LIMITS]) {
    static const double limits[GF_DUP_LIMITS] = {0.9, 0.95, 0.98, 0.99, 0.995, 0.998, 0.999};
    const gf_pairs_found *f = &r->f;
    if (f->top == 0 || s->task.only_dup || s->task.probe) return 0;
    for (int c = 0; c < GF_DUP_LIMITS; c++) choice[c] = (gf_dup_choice){.limit = limits[c]};
    for (int64_t i = 0; i < f->n; i++)
        for (int64_t k = 0; k < f->top; k++) {
            const float v = f->similarity[i * f->top + k];
            const int64_t j = f->other[i * f->top + k];
            if (!(v >= (float)limits[0])) break;
            const int once = i < j || !lists_row(f, j, i, v);
            for (int c = 0; c < GF_DUP_LIMITS && v >= (float)limits[c]; c++) {
                choice[c].pairs += once, choice[c].rows += k == 0;
                choice[c].cut |= k == f->top - 1 && f->top < f->n - 1;
            }
        }
    return GF_DUP_LIMITS;
}

/* ----- run ----- */

static gf_vectors rows_of(const gf_discover_data *d) {
    return (gf_vectors){.x = d->x, .row = d->good, .n = d->good_n, .dim = d->dim};
}

static glofnd_status search_rows(gf_error *err, const gf_discover_spec *s, gf_discover_data *d, const int32_t *label,
                                 float *lambda, gf_discover_result *r) {
    gf_pairs_task t = gf_discover_task(s, r->rank, d->good_n, d->dim);
    void *state = NULL;
    const gf_vectors rows = rows_of(d);
    const double alpha = s->k > 0 ? (double)r->rank / (double)(d->good_n - 1) : s->alpha;
    if (s->learned) {
        learner x = {.s = s, .d = d, .batch = GF_MIN(s->batch, d->good_n)};
        const glofnd_status learned = learn_thresholds(err, &x, alpha, lambda);
        glofnd_store_free(x.store);
        glofnd_ctx_free(x.ctx);
        free(x.sim);
        free(x.id);
        free(x.row);
        TRY(learned);
        t.lambda = lambda, t.watch = gf_job_part(&s->task.watch, 0.5, 1.0);
    }
    t.label = label;
    TRY(s->search->open(err, &rows, s->task.threads, &state));
    glofnd_status status = GLOFND_OK;
    if (s->learned) status = measure_learned(err, s, d, state, r->rank, lambda, &r->error);
    if (!s->keep_rows) gf_discover_free_rows(d);
    if (status == GLOFND_OK) status = gf_pairs_found_alloc(err, &r->f, d->good_n, t.top);
    if (status == GLOFND_OK && t.below > 0) status = gf_pairs_found_below(err, &r->f, t.below);
    if (status == GLOFND_OK) status = s->search->find(err, state, &t, &r->f);
    s->search->close(state);
    return status == GLOFND_OK ? gf_discover_statistics(err, s, d, label, r) : status;
}

glofnd_status gf_discover_copies(gf_error *err, const gf_discover_spec *s, gf_discover_data *d, gf_discover_result *r) {
    if (!s->keep_rows) gf_discover_free_rows(d);
    TRY(gf_pairs_found_alloc(err, &r->f, d->good_n, gf_discover_task(s, r->rank, d->good_n, d->dim).top));
    gf_pairs_found_none(&r->f);
    return gf_discover_statistics(err, s, d, NULL, r);
}

glofnd_status gf_discover_labels(gf_error *err, const gf_discover_data *d, int32_t **label) {
    int64_t first = 0;
    *label = NULL;
    while (d->label && first < d->good_n && d->label[d->good[first]] < 0) first++;
    if (!d->label || first == d->good_n) return GLOFND_OK; /* no usable row has one */
    *label = malloc((size_t)d->good_n * sizeof **label);
    FAIL_IF(err, !*label, GLOFND_E_MEMORY, "no memory for %lld rows", (long long)d->good_n);
    for (int64_t i = 0; i < d->good_n; i++) (*label)[i] = d->label[d->good[i]];
    return GLOFND_OK;
}

glofnd_status gf_discover_run(gf_error *err, const gf_discover_spec *s, gf_discover_data *d, gf_discover_result *r) {
    int32_t *label = NULL;
    *r = (gf_discover_result){0};
    TRY(gf_discover_rank(err, s, d->good_n, &r->rank));
    TRY(gf_discover_labels(err, d, &label));
    float *lambda = s->learned ? malloc((size_t)d->good_n * sizeof *lambda) : NULL;
    glofnd_status status = s->learned && !lambda ? gf_fail(err, GLOFND_E_MEMORY, "no memory for %lld rows", (long long)d->good_n)
                           : s->task.only_dup && s->dup_exact ? gf_discover_copies(err, s, d, r)
                                                              : search_rows(err, s, d, label, lambda, r);
    free(label);
    free(lambda);
    if (status != GLOFND_OK) gf_discover_result_free(r);
    return status;
}

void gf_discover_result_free(gf_discover_result *r) {
    gf_pairs_found_free(&r->f);
    gf_components_free(&r->parts);
    gf_components_free(&r->groups);
    free(r->stored_copy);
    *r = (gf_discover_result){0};
}

/* ----- query ----- */

static glofnd_status search_new(gf_error *err, const gf_discover_spec *s, gf_discover_data *d, const float *lambda,
                                const gf_discover_data *q, gf_discover_result *r) {
    const gf_vectors old = rows_of(d), new = rows_of(q);
    gf_pairs_task t = gf_discover_task(s, r->rank, d->good_n + 1, d->dim);
    void *state = NULL;
    t.lambda = lambda, t.below = 0;
    r->stored_copy = malloc((size_t)q->good_n * sizeof *r->stored_copy);
    FAIL_IF(err, !r->stored_copy, GLOFND_E_MEMORY, "no memory for %lld rows", (long long)q->good_n);
    TRY(gf_discover_match_rows(err, d, q, r->stored_copy));
    for (int64_t i = 0; i < q->good_n; i++) r->stored_copies += r->stored_copy[i] >= 0;
    TRY(s->search->open(err, &old, s->task.threads, &state));
    gf_discover_free_rows(d);
    glofnd_status status = gf_pairs_found_alloc(err, &r->f, q->good_n, t.top);
    if (status == GLOFND_OK) status = s->search->query(err, state, &new, &t, &r->f);
    s->search->close(state);
    TRY(status);
    if (s->dup_exact) {
        /* New rows: all stored rows with their bytes. */
        int64_t *size = NULL;
        TRY(count_copies(err, d, &size));
        for (int64_t i = 0; i < r->f.n; i++) r->f.copies[i] = r->stored_copy[i] < 0 ? 0 : size[r->stored_copy[i]];
        free(size);
    }
    sum_counts(r);
    r->dup_listed = count_listed_duplicates(s, d, r, 1);
    return count_listed(err, s->max_pairs, r);
}

glofnd_status gf_discover_query(gf_error *err, const gf_discover_spec *s, gf_discover_data *d, const float *lambda,
                                const gf_discover_data *q, gf_discover_result *r) {
    *r = (gf_discover_result){0};
    FAIL_IF(err, q->dim != d->dim, GLOFND_E_ARGUMENT, "the new embeddings have %lld dimensions, the stored ones %lld",
            (long long)q->dim, (long long)d->dim);
    FAIL_IF(err, q->good_n < 1, GLOFND_E_ARGUMENT, "the new embeddings have no usable row");
    FAIL_IF(err, d->good_n < 1, GLOFND_E_ARGUMENT, "the stored embeddings have no usable row");
    TRY(gf_discover_rank(err, s, d->good_n + 1, &r->rank)); /* all n stored rows are others of a new one */
    float *known = malloc((size_t)d->good_n * sizeof *known);
    FAIL_IF(err, !known, GLOFND_E_MEMORY, "no memory for %lld thresholds", (long long)d->good_n);
    for (int64_t i = 0; i < d->good_n; i++) known[i] = lambda[d->good[i]];
    const glofnd_status status = search_new(err, s, d, known, q, r);
    free(known);
    if (status != GLOFND_OK) gf_discover_result_free(r);
    return status;
}

/* knn.c - see knn.h: a sweep over all pairs of test and training rows that keeps a shortlist per test row. */
#include "eval/knn.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cpu/kernels/tile.h"
#include "util/order.h"
#include "util/parallel.h"

#define SPARE_MIN 512 /* places of a shortlist beyond k */

typedef struct neighbour {
    float s;
    int32_t label;
} neighbour;

typedef struct shortlist { /* of one test row: neighbours that may be among the k nearest */
    neighbour *best;       /* [capacity] */
    int64_t count;
    float limit; /* a similarity up to this is not among the k nearest */
} shortlist;

typedef struct scratch { /* of one thread */
    shortlist list[GF_PAIR_ROWS];
    neighbour *best; /* [GF_PAIR_ROWS][capacity] of the lists */
    float *value;    /* [capacity] */
    double *vote;    /* [classes] */
    int32_t at[GF_PAIR_COLUMNS];
} scratch;

typedef struct job {
    const gf_knn *o;
    const gf_features *train;
    const gf_tile_ops *ops;
    int64_t k, classes;
    int64_t capacity; /* of a shortlist: k, SPARE_MIN or k more, and a row of a tile; a larger one is cut less often */
    scratch *scratch; /* [threads] */
    int32_t *predicted;
} job;

/* ----- set-up ----- */

static glofnd_status check(gf_error *err, const gf_knn *o, const gf_features *train, const gf_features *test) {
    FAIL_IF(err, o->k < 1, GLOFND_E_OPTION, "k is %lld; expected at least 1", (long long)o->k);
    FAIL_IF(err, !(o->temperature >= 0.0 && o->temperature < INFINITY), GLOFND_E_OPTION, "temperature is %g; expected 0 or more",
            o->temperature);
    FAIL_IF(err, train->dim != test->dim, GLOFND_E_ARGUMENT, "training rows have %lld features, test rows %lld",
            (long long)train->dim, (long long)test->dim);
    return GLOFND_OK;
}

static glofnd_status make_scratch(gf_error *err, job *j, int threads) {
    int complete = (j->scratch = calloc((size_t)threads, sizeof *j->scratch)) != NULL;
    for (int t = 0; t < threads && complete; t++) {
        scratch *x = &j->scratch[t];
        x->best = malloc(GF_PAIR_ROWS * (size_t)j->capacity * sizeof *x->best);
        x->value = malloc((size_t)j->capacity * sizeof *x->value);
        x->vote = malloc((size_t)j->classes * sizeof *x->vote);
        complete = x->best && x->value && x->vote;
        for (int r = 0; r < GF_PAIR_ROWS && complete; r++) x->list[r].best = x->best + r * j->capacity;
    }
    FAIL_IF(err, !complete, GLOFND_E_MEMORY, "no memory for the neighbours of %d threads", threads);
    return GLOFND_OK;
}

static void free_scratch(job *j, int threads) {
    for (int t = 0; j->scratch && t < threads; t++) {
        free(j->scratch[t].best);
        free(j->scratch[t].value);
        free(j->scratch[t].vote);
    }
    free(j->scratch);
}

/* ----- search ----- */

/* Cuts the list to its k best, in the order of the columns; of equal similarities the earlier ones stay. */
static void cut(const job *j, scratch *x, shortlist *l) {
    for (int64_t i = 0; i < l->count; i++) x->value[i] = l->best[i].s;
    l->limit = gf_kth_largest(x->value, l->count, j->k);
    int64_t equals = j->k, kept = 0;
    for (int64_t i = 0; i < l->count; i++) equals -= l->best[i].s > l->limit;
    for (int64_t i = 0; i < l->count; i++) {
        const neighbour n = l->best[i];
        if (n.s < l->limit || (n.s == l->limit && equals-- <= 0)) continue;
        l->best[kept++] = n;
    }
    l->count = kept;
}

/* A later column must be above the limit, not equal to it: k earlier ones are at least as near. */
static void take_row(const job *j, scratch *x, const float *s, const gf_pair_tile *t, shortlist *l) {
    const int32_t *label = j->train->label + t->c0;
    if (l->count + t->cols > j->capacity) cut(j, x, l);
    const int found = j->ops->reach(x->at, s, (int)gf_pad(t->cols), l->limit, NULL);
    for (int i = 0; i < found; i++) {
        const int32_t c = x->at[i];
        if (c < t->cols && s[c] > l->limit && label[c] >= 0) l->best[l->count++] = (neighbour){s[c], label[c]};
    }
}

static int32_t vote_of(const job *j, const shortlist *l, double *vote) {
    const double t = j->o->temperature;
    double nearest = -INFINITY;
    int32_t winner = 0;
    memset(vote, 0, (size_t)j->classes * sizeof *vote);
    for (int64_t i = 0; i < l->count; i++) nearest = fmax(nearest, (double)l->best[i].s);
    for (int64_t i = 0; i < l->count; i++) vote[l->best[i].label] += t > 0.0 ? exp(((double)l->best[i].s - nearest) / t) : 1.0;
    for (int32_t c = 1; c < j->classes; c++) winner = vote[c] > vote[winner] ? c : winner;
    return winner;
}

static void visit(void *user, const gf_pair_tile *t, int thread) {
    const job *j = user;
    scratch *x = &j->scratch[thread];
    for (int r = 0; r < t->rows; r++) {
        shortlist *l = &x->list[r];
        if (t->c0 == 0) l->count = 0, l->limit = -INFINITY;
        take_row(j, x, t->s + (size_t)r * t->ld, t, l);
        if (!t->last) continue;
        if (l->count > j->k) cut(j, x, l);
        j->predicted[t->r0 + r] = vote_of(j, l, x->vote);
    }
}

glofnd_status gf_knn_classify(gf_error *err, const gf_knn *o, const gf_features *train, const gf_features *test,
                              int32_t *predicted) {
    job j = {.o = o, .train = train, .ops = gf_tile_ops_get(), .classes = gf_features_classes(train), .predicted = predicted};
    int64_t labelled = 0;
    TRY(check(err, o, train, test));
    for (int64_t i = 0; i < train->n; i++) labelled += train->label[i] >= 0;
    FAIL_IF(err, labelled == 0, GLOFND_E_ARGUMENT, "no training row has a label");
    gf_pairs pairs = {.row = test->x,
                      .col = train->x,
                      .rows = test->n,
                      .cols = train->n,
                      .dim = train->dim,
                      .row_name = "test row",
                      .col_name = "training row",
                      .how = gf_pair_about(&o->how, "neighbours")};
    if (pairs.how.threads < 1) pairs.how.threads = gf_parallel_default();
    j.k = o->k < labelled ? o->k : labelled;
    j.capacity = j.k + (j.k > SPARE_MIN ? j.k : SPARE_MIN) + GF_PAIR_COLUMNS;
    glofnd_status status = make_scratch(err, &j, pairs.how.threads);
    if (status == GLOFND_OK) status = gf_pairs_sweep(err, &pairs, visit, &j);
    free_scratch(&j, pairs.how.threads);
    return status;
}

double gf_top1(const gf_features *test, const int32_t *predicted) {
    int64_t right = 0, all = 0;
    for (int64_t i = 0; i < test->n; i++) {
        all += test->label[i] >= 0;
        right += test->label[i] >= 0 && predicted[i] == test->label[i];
    }
    return all ? (double)right / (double)all : NAN;
}

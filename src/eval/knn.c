/* knn.c - see knn.h. The product is the tiles' one, whose bits do not depend on where in a tile a pair lies. */
#include "eval/knn.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/order.h"
#include "base/parallel.h"
#include "cpu/tile/tile.h"

#define QUERIES 64              /* test rows of a task */
#define COLUMNS 512             /* training rows of a tile */
#define RUN 16                  /* similarities looked at together */
#define SPARE 256               /* places of a shortlist beyond k, at the least */

typedef struct neighbour {
    float s;
    int32_t label;
} neighbour;

typedef struct shortlist {      /* of one test row: neighbours that may be among the k nearest */
    neighbour *best;            /* [room] */
    int64_t count;
    float limit;                /* what is not above cannot be */
} shortlist;

typedef struct scratch {        /* of one thread */
    float *query;               /* [QUERIES][dim] unit rows */
    float *s;                   /* [QUERIES][COLUMNS] */
    shortlist list[QUERIES];
    neighbour *best;            /* [QUERIES][room], of the lists */
    float *value;               /* [room] */
    double *vote;               /* [classes] */
} scratch;

typedef struct job {
    const gf_knn *o;
    const gf_features *test;
    const gf_tile_ops *ops;
    int64_t n, dim, k, classes; /* n: training rows with label */
    int64_t room;               /* of a shortlist; the larger, the less often it is cut */
    float *panels;              /* [pad(n) / GF_PANEL][dim][GF_PANEL] unit rows */
    int32_t *label;             /* [n] */
    scratch *scratch;           /* [threads] */
    int32_t *predicted;
} job;

/* ----- making ----- */

/* Unit row; rows of zeros stay zeros. */
static void unit(float *out, const float *x, int64_t dim) {
    double sum = 0.0;
    for (int64_t i = 0; i < dim; i++) sum += (double)x[i] * (double)x[i];
    const double scale = sum > 0.0 ? 1.0 / sqrt(sum) : 0.0;
    for (int64_t i = 0; i < dim; i++) out[i] = (float)(scale * (double)x[i]);
}

static glofnd_status check_finite(gf_error *err, const gf_features *f, const char *which) {
    for (int64_t i = 0; i < f->n; i++)
        for (int64_t a = 0; a < f->dim; a++)
            FAIL_IF(err, !isfinite(f->x[i * f->dim + a]), GLOFND_E_NUMERIC, "feature %lld of %s row %lld is not finite",
                    (long long)a, which,
                    (long long)i);
    return GLOFND_OK;
}

static glofnd_status check(gf_error *err, const gf_knn *o, const gf_features *train, const gf_features *test) {
    FAIL_IF(err, o->k < 1, GLOFND_E_OPTION, "k is %lld; it must be at least 1", (long long)o->k);
    FAIL_IF(err, !(o->temperature >= 0.0 && o->temperature < INFINITY), GLOFND_E_OPTION,
            "temperature is %g; it must be 0 or more",
            o->temperature);
    FAIL_IF(err, train->dim != test->dim, GLOFND_E_ARGUMENT, "%lld features of training rows and %lld of test rows",
            (long long)train->dim,
            (long long)test->dim);
    FAIL_IF(err, train->dim > INT32_MAX, GLOFND_E_ARGUMENT, "%lld features are too many", (long long)train->dim);
    TRY(check_finite(err, train, "training"));
    return check_finite(err, test, "test");
}

/* Training rows with a label, as columns of panels. */
static glofnd_status pack(gf_error *err, job *j, const gf_features *train) {
    for (int64_t i = 0; i < train->n; i++) j->n += train->label[i] >= 0;
    FAIL_IF(err, j->n == 0, GLOFND_E_ARGUMENT, "no training row has a label");
    float *row = malloc((size_t)j->dim * sizeof *row);
    j->panels = calloc((size_t)gf_pad(j->n) * (size_t)j->dim, sizeof *j->panels);
    j->label = malloc((size_t)j->n * sizeof *j->label);
    if (!row || !j->panels || !j->label) {
        free(row);
        GF_FAIL(err, GLOFND_E_MEMORY, "no memory for %lld training rows", (long long)j->n);
    }
    for (int64_t i = 0, at = 0; i < train->n; i++) {
        if (train->label[i] < 0) continue;
        float *column = j->panels + at / GF_PANEL * GF_PANEL * j->dim + at % GF_PANEL;
        unit(row, train->x + i * j->dim, j->dim);
        for (int64_t a = 0; a < j->dim; a++) column[a * GF_PANEL] = row[a];
        j->label[at++] = train->label[i];
    }
    free(row);
    return GLOFND_OK;
}

static glofnd_status make_scratch(gf_error *err, job *j, int threads) {
    int complete = (j->scratch = calloc((size_t)threads, sizeof *j->scratch)) != NULL;
    for (int t = 0; t < threads && complete; t++) {
        scratch *x = &j->scratch[t];
        x->query = malloc(QUERIES * (size_t)j->dim * sizeof *x->query);
        x->s = malloc(sizeof *x->s * QUERIES * COLUMNS);
        x->best = malloc(QUERIES * (size_t)j->room * sizeof *x->best);
        x->value = malloc((size_t)j->room * sizeof *x->value);
        x->vote = malloc((size_t)j->classes * sizeof *x->vote);
        complete = x->query && x->s && x->best && x->value && x->vote;
    }
    FAIL_IF(err, !complete, GLOFND_E_MEMORY, "no memory for the tiles of %d threads", threads);
    return GLOFND_OK;
}

static void free_job(job *j, int threads) {
    for (int t = 0; j->scratch && t < threads; t++) {
        free(j->scratch[t].query);
        free(j->scratch[t].s);
        free(j->scratch[t].best);
        free(j->scratch[t].value);
        free(j->scratch[t].vote);
    }
    free(j->scratch);
    free(j->panels);
    free(j->label);
}

/* ----- searching ----- */

/* Cuts the list to its k best. It is in the order of the columns and stays so; of equals the earlier ones are kept. */
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

/* Is one of RUN similarities above the limit? Mostly none is, and this is a few vector operations. */
static int any_above(const float *s, float limit) {
    int above = 0;
    for (int i = 0; i < RUN; i++) above |= s[i] > limit;
    return above;
}

/* Later columns must be above the limit, not equal to it: k earlier ones are at least as near. */
static void take_row(const job *j, scratch *x, const float *s, int64_t c0, int64_t columns, shortlist *l) {
    for (int64_t c = 0; c < columns; c += RUN) {
        const int64_t end = c + RUN < columns ? c + RUN : columns;
        if (c + RUN <= columns && !any_above(s + c, l->limit)) continue;
        for (int64_t i = c; i < end; i++)
            if (s[i] > l->limit) l->best[l->count++] = (neighbour){s[i], j->label[c0 + i]};
        if (l->count > j->room - RUN) cut(j, x, l);
    }
}

static int32_t elect(const job *j, const shortlist *l, double *vote) {
    const double t = j->o->temperature;
    double nearest = -INFINITY;
    int32_t winner = 0;
    memset(vote, 0, (size_t)j->classes * sizeof *vote);
    for (int64_t i = 0; i < l->count; i++) nearest = fmax(nearest, (double)l->best[i].s);
    for (int64_t i = 0; i < l->count; i++) vote[l->best[i].label] += t > 0.0 ? exp(((double)l->best[i].s - nearest) / t) : 1.0;
    for (int32_t c = 1; c < j->classes; c++) winner = vote[c] > vote[winner] ? c : winner;
    return winner;
}

static void classify_tile(void *arg, int64_t task, int thread) {
    const job *j = arg;
    scratch *x = &j->scratch[thread];
    const int64_t r0 = task * QUERIES, rows = j->test->n - r0 < QUERIES ? j->test->n - r0 : QUERIES;
    memset(x->query, 0, QUERIES * (size_t)j->dim * sizeof *x->query);
    for (int64_t r = 0; r < rows; r++) {
        unit(x->query + r * j->dim, j->test->x + (r0 + r) * j->dim, j->dim);
        x->list[r] = (shortlist){x->best + r * j->room, 0, -INFINITY};
    }
    for (int64_t c0 = 0; c0 < j->n; c0 += COLUMNS) {
        const int64_t columns = j->n - c0 < COLUMNS ? j->n - c0 : COLUMNS;
        j->ops->product(x->s, COLUMNS, x->query, (size_t)j->dim, 1, j->panels + c0 * j->dim, GF_PANEL, GF_PANEL * (size_t)j->dim,
                QUERIES,
                        (int)gf_pad(columns), (int)j->dim, 0);
        for (int64_t r = 0; r < rows; r++) take_row(j, x, x->s + r * COLUMNS, c0, columns, &x->list[r]);
    }
    for (int64_t r = 0; r < rows; r++) {
        if (x->list[r].count > j->k) cut(j, x, &x->list[r]);
        j->predicted[r0 + r] = elect(j, &x->list[r], x->vote);
    }
}

glofnd_status gf_knn_classify(gf_error *err, const gf_knn *o, const gf_features *train, const gf_features *test,
        int32_t *predicted) {
    job j = {.o = o, .test = test, .ops = gf_tile_ops_get(), .dim = train->dim, .classes = gf_features_classes(train),
            .predicted = predicted};
    const int threads = o->threads > 0 ? o->threads : gf_parallel_default();
    TRY(check(err, o, train, test));
    glofnd_status status = pack(err, &j, train);
    j.k = o->k < j.n ? o->k : j.n;
    j.room = j.k + (j.k > SPARE ? j.k : SPARE) + RUN;
    if (status == GLOFND_OK) status = make_scratch(err, &j, threads);
    if (status == GLOFND_OK) gf_parallel(threads, (test->n + QUERIES - 1) / QUERIES, classify_tile, &j);
    free_job(&j, threads);
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

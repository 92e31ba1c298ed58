/* knn.c - see knn.h: a sweep over all pairs of test and training rows that keeps a shortlist per test row. */
#include "eval/knn.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cpu/kernels/cpu_kernels.h"
#include "pairs/best.h"
#include "util/minmax.h"
#include "util/parallel.h"

typedef struct job {
    const gf_knn *o;
    const gf_features *train;
    const gf_tile_ops *ops;
    int64_t k, classes;
    gf_best best; /* [threads][GF_SWEEP_GROUP] training rows that may be among the k nearest */
    double *vote; /* [threads][classes] */
    int32_t *predicted;
} job;

static glofnd_status check(gf_error *err, const gf_knn *o, const gf_features *train, const gf_features *test) {
    FAIL_IF(err, o->k < 1, GLOFND_E_OPTION, "k is %lld; expected at least 1", (long long)o->k);
    FAIL_IF(err, !(o->temperature >= 0.0 && o->temperature < INFINITY), GLOFND_E_OPTION, "temperature is %g; expected 0 or more",
            o->temperature);
    FAIL_IF(err, train->dim != test->dim, GLOFND_E_ARGUMENT, "training rows have %lld features, test rows %lld",
            (long long)train->dim, (long long)test->dim);
    return GLOFND_OK;
}

/* Columns rise: one that only equals the limit is behind k others that are at least as near. */
static void take_row(job *j, const gf_strip *t, const float *s, int64_t list) {
    int32_t at[GF_STRIP_COLS];
    const int32_t *label = j->train->label + t->c0;
    const int found = j->ops->reach(at, s, (int)gf_pad(t->cols), j->best.limit[list], NULL);
    for (int i = 0; i < found && at[i] < t->cols; i++) {
        const int32_t c = at[i];
        if (s[c] > j->best.limit[list] && label[c] >= 0) gf_best_push(&j->best, list, s[c], t->c0 + c);
    }
}

/* Votes are added in the order of the training rows: sums in double depend on it. */
static int32_t vote_of(job *j, int64_t list, double *vote) {
    const double t = j->o->temperature;
    const uint64_t *key = j->best.key + list * j->best.capacity;
    const int64_t count = gf_best_sort_by_position(&j->best, list, j->k);
    float nearest = -INFINITY;
    int32_t winner = 0;
    memset(vote, 0, (size_t)j->classes * sizeof *vote);
    for (int64_t i = 0; i < count; i++) nearest = fmaxf(nearest, gf_best_value(key[i]));
    for (int64_t i = 0; i < count; i++)
        vote[j->train->label[gf_best_other(key[i])]] +=
            t > 0.0 ? exp(((double)gf_best_value(key[i]) - (double)nearest) / t) : 1.0;
    for (int32_t c = 1; c < j->classes; c++) winner = vote[c] > vote[winner] ? c : winner;
    return winner;
}

static void visit(void *user, const gf_strip *t, int thread) {
    job *j = user;
    for (int r = 0; r < t->rows; r++) {
        const int64_t list = (int64_t)thread * GF_SWEEP_GROUP + t->slot + r;
        if (t->c0 == 0) gf_best_clear(&j->best, list);
        take_row(j, t, t->s + (size_t)r * t->ld, list);
        if (t->last) j->predicted[t->r0 + r] = vote_of(j, list, j->vote + thread * j->classes);
    }
}

glofnd_status gf_knn_classify(gf_error *err, const gf_knn *o, const gf_features *train, const gf_features *test,
                              int32_t *predicted) {
    job j = {
        .o = o, .train = train, .ops = gf_cpu_kernels_get()->tile, .classes = gf_features_classes(train), .predicted = predicted};
    int64_t labelled = 0;
    TRY(check(err, o, train, test));
    for (int64_t i = 0; i < train->n; i++) labelled += train->label[i] >= 0;
    FAIL_IF(err, labelled == 0, GLOFND_E_ARGUMENT, "no training row has a label");
    const gf_vectors rows = {.x = test->x, .n = test->n, .dim = test->dim, .name = "test row"},
                     cols = {.x = train->x, .n = train->n, .dim = train->dim, .name = "training row"};
    gf_sweep_job stage = gf_sweep_stage(&o->job, "neighbours");
    if (stage.threads < 1) stage.threads = gf_parallel_default();
    j.k = GF_MIN(o->k, labelled);
    j.vote = malloc((size_t)stage.threads * (size_t)j.classes * sizeof *j.vote);
    FAIL_IF(err, !j.vote, GLOFND_E_MEMORY, "no memory for the votes of %d threads", stage.threads);
    glofnd_status status = gf_best_alloc_roomy(err, &j.best, (int64_t)stage.threads * GF_SWEEP_GROUP, j.k);
    if (status == GLOFND_OK) status = gf_sweep_vectors(err, &rows, &cols, &stage, visit, &j);
    gf_best_free(&j.best);
    free(j.vote);
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

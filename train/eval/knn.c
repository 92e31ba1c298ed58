/* knn.c - see knn.h: the votes of what pairs/nearest.h finds. */
#include "eval/knn.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "pairs/nearest.h"
#include "util/array.h"
#include "util/parallel.h"

typedef struct job {
    const gf_knn *o;
    const gf_features *train;
    int64_t k, classes;
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

/* Votes are added in the order of the training rows: sums in double depend on it. */
static void vote_of(void *user, gf_best *b, int64_t list, int64_t row, int thread) {
    const job *j = user;
    const double t = j->o->temperature;
    const uint64_t *key = b->key + list * b->capacity;
    const int64_t count = gf_best_sort_by_position(b, list, j->k);
    double *vote = j->vote + thread * j->classes;
    float nearest = -INFINITY;
    int32_t winner = 0;
    memset(vote, 0, (size_t)j->classes * sizeof *vote);
    for (int64_t i = 0; i < count; i++) nearest = fmaxf(nearest, gf_best_value(key[i]));
    for (int64_t i = 0; i < count; i++)
        vote[j->train->label[gf_best_other(key[i])]] +=
            t > 0.0 ? exp(((double)gf_best_value(key[i]) - (double)nearest) / t) : 1.0;
    for (int32_t c = 1; c < j->classes; c++) winner = vote[c] > vote[winner] ? c : winner;
    j->predicted[row] = winner;
}

glofnd_status gf_knn_classify(gf_error *err, const gf_knn *o, const gf_features *train, const gf_features *test,
                              int32_t *predicted) {
    job j = {.o = o, .train = train, .classes = gf_features_classes(train), .predicted = predicted};
    int64_t labelled = 0;
    TRY(check(err, o, train, test));
    for (int64_t i = 0; i < train->n; i++) labelled += train->label[i] >= 0;
    FAIL_IF(err, labelled == 0, GLOFND_E_ARGUMENT, "no training row has a label");
    gf_nearest_search s = {.rows = {.x = test->x, .n = test->n, .dim = test->dim, .name = "test row"},
                           .cols = {.x = train->x, .n = train->n, .dim = train->dim, .name = "training row"},
                           .label = train->label,
                           .job = gf_sweep_stage(&o->job, "neighbours"),
                           .take = vote_of,
                           .user = &j};
    if (s.job.threads < 1) s.job.threads = gf_parallel_default();
    s.k = j.k = GF_MIN(o->k, labelled);
    j.vote = malloc((size_t)s.job.threads * (size_t)j.classes * sizeof *j.vote);
    FAIL_IF(err, !j.vote, GLOFND_E_MEMORY, "no memory for the votes of %d threads", s.job.threads);
    const glofnd_status status = gf_nearest_each(err, &s);
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

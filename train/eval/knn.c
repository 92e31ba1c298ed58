/* knn.c - see knn.h: the votes of what pairs/nearest.h finds. */
#include "eval/knn.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "eval/encode.h"
#include "eval/split.h"
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
    FAIL_IF(err, o->k < 1, GLOFND_E_OPTION, "k is %lld; expected at least 1", (long long)o->k);
    FAIL_IF(err, !(o->temperature >= 0.0 && o->temperature < INFINITY), GLOFND_E_OPTION, "temperature is %g; expected 0 or more",
            o->temperature);
    FAIL_IF(err, train->dim != test->dim, GLOFND_E_ARGUMENT, "training rows have %lld features, test rows %lld",
            (long long)train->dim, (long long)test->dim);
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

/* ----- while training ----- */

enum { NEIGHBOURS = 20, VOTES_PER_TEST = 5 };
#define TEMPERATURE 0.07 /* of the votes, as `glofnd eval knn` */
#define HELD_OUT 0.2     /* of each class, where the data has no test split */

struct gf_training_knn {
    gf_split split;
    gf_run_encoder *encoder; /* made at the first evaluation: memory of training comes first */
    char data[sizeof((gf_config *)0)->data];
};

/* Leaves about `max` samples, of every class at least one. */
static glofnd_status reduce_samples(gf_error *err, gf_samples *s, int64_t max, uint64_t seed) {
    gf_stratified_sample draw = {.seed = seed, .stream = GF_STRATIFIED_LABELS, .at_least_one = 1};
    gf_samples fewer = {0};
    if (s->n <= max) return GLOFND_OK;
    draw.share = (double)max / (double)s->n;
    uint8_t *chosen = malloc((size_t)s->n);
    FAIL_IF(err, !chosen, GLOFND_E_MEMORY, "no memory to choose among %lld samples", (long long)s->n);
    glofnd_status status = gf_stratified_draw(err, &draw, s->label, s->n, chosen);
    if (status == GLOFND_OK) status = gf_samples_choose(err, s, chosen, 1, &fewer);
    free(chosen);
    TRY(status);
    gf_samples_free(s);
    *s = fewer;
    return GLOFND_OK;
}

glofnd_status gf_training_knn_create(gf_error *err, const gf_trainer *t, gf_training_knn **out) {
    const gf_config *c = &t->config;
    const gf_split_spec spec = {.data = c->data, .share = HELD_OUT, .seed = (uint64_t)c->seed};
    gf_training_knn *k = calloc(1, sizeof *k);
    *out = NULL;
    FAIL_IF(err, !k, GLOFND_E_MEMORY, "no memory for an evaluation");
    snprintf(k->data, sizeof k->data, "%s", c->data);
    glofnd_status status = gf_split_init(err, &spec, &k->split);
    const gf_error why = *err;
    if (status != GLOFND_OK) gf_fail(err, status, "eval_every: %.450s", why.text);
    if (status == GLOFND_OK) status = reduce_samples(err, &k->split.train, c->eval_samples, spec.seed);
    if (status == GLOFND_OK) status = reduce_samples(err, &k->split.test, c->eval_samples / VOTES_PER_TEST, spec.seed);
    if (status == GLOFND_OK) *out = k;
    else gf_training_knn_free(k);
    return status;
}

void gf_training_knn_free(gf_training_knn *k) {
    if (!k) return;
    gf_run_encoder_free(k->encoder);
    gf_split_free(&k->split);
    free(k);
}

void gf_training_knn_describe(const gf_training_knn *k, char *out, size_t bytes) {
    const char *of = *k->split.test_name ? k->split.test_name : "the same, held out by class (but trained on)";
    snprintf(out, bytes, "%lld images of %.400s, classified by %lld of %.400s", (long long)k->split.test.n, of,
             (long long)k->split.train.n, k->data);
}

static glofnd_status encode_centre_crops(gf_error *err, gf_run_encoder *e, const gf_samples *s, gf_features *out) {
    return gf_encode_samples(err, e, s->data, &(gf_encode_spec){.ids = s->id, .id_count = s->n, .labels = s->label}, out);
}

glofnd_status gf_training_knn_measure(gf_error *err, gf_training_knn *k, const gf_trainer *t, double *top1) {
    gf_features train = {0}, test = {0};
    if (!k->encoder) TRY(gf_run_encoder_create(err, &(gf_run_encoder_spec){.config = &t->config}, &k->encoder));
    TRY(gf_run_encoder_copy(err, k->encoder, t->encoders.at[0].net));
    glofnd_status status = encode_centre_crops(err, k->encoder, &k->split.train, &train);
    if (status == GLOFND_OK) status = encode_centre_crops(err, k->encoder, &k->split.test, &test);
    const gf_knn knn = {.k = NEIGHBOURS, .temperature = TEMPERATURE, .job = {.threads = gf_run_encoder_threads(k->encoder)}};
    int32_t *predicted = malloc((size_t)test.n * sizeof *predicted + 1);
    if (!predicted) status = gf_fail(err, GLOFND_E_MEMORY, "no memory for %lld predictions", (long long)test.n);
    if (status == GLOFND_OK) status = gf_knn_classify(err, &knn, &train, &test, predicted);
    if (status == GLOFND_OK) *top1 = gf_top1(&test, predicted);
    free(predicted);
    gf_features_free(&train);
    gf_features_free(&test);
    return status;
}

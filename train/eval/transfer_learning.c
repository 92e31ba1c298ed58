/* transfer_learning.c - see transfer_learning.h. */
#include "eval/transfer_learning.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "eval/stratified_sample.h"

#define TOLERANCE 1e-4

typedef struct fit_progress {
    const gf_transfer *t;
    int64_t fit, fits;
} fit_progress;

static void report_iteration(void *user, int64_t iteration) {
    const fit_progress *w = user;
    if (w->t->progress) w->t->progress(w->t->user, w->fit, w->fits, iteration);
}

/* ----- features ----- */

/* Numbers the classes of the training samples 0, 1, ...: a class without samples would have no weights to fit. */
static glofnd_status relabel(gf_error *err, gf_transfer *t, gf_features *train, gf_features *test) {
    const int32_t labels = gf_features_classes(train);
    int32_t *number = malloc(((size_t)labels + 1) * sizeof *number);
    FAIL_IF(err, !number, GLOFND_E_MEMORY, "no memory for %d classes", (int)labels);
    for (int32_t c = 0; c < labels; c++) number[c] = -1;
    for (int64_t i = 0; i < train->n; i++) number[train->label[i]] = 0;
    t->classes = 0;
    for (int32_t c = 0; c < labels; c++)
        if (number[c] == 0) number[c] = (int32_t)t->classes++;
    for (int64_t i = 0; i < train->n; i++) train->label[i] = number[train->label[i]];
    for (int64_t i = 0; i < test->n; i++) {
        const int32_t label = test->label[i];
        test->label[i] = label >= 0 && label < labels ? number[label] : -1;
    }
    free(number);
    return GLOFND_OK;
}

static glofnd_status prepare(gf_error *err, gf_transfer *t, gf_features *train, gf_features *test) {
    FAIL_IF(err, train->dim != test->dim, GLOFND_E_ARGUMENT, "training rows have %lld features, test rows %lld",
            (long long)train->dim, (long long)test->dim);
    for (int64_t i = 0; i < train->n; i++)
        FAIL_IF(err, train->label[i] < 0, GLOFND_E_ARGUMENT, "training row %lld has no label", (long long)i);
    TRY(relabel(err, t, train, test));
    if (t->protocol->unit) gf_features_unit(train), gf_features_unit(test);
    if (t->protocol->standard) TRY(gf_features_standardise(err, train, test));
    gf_transfer_strengths(t->protocol, t->l2);
    return GLOFND_OK;
}

/* ----- fits ----- */

static glofnd_status score_of(gf_error *err, const gf_transfer *t, gf_linear *m, const gf_features *f, int32_t *rank,
                              double *out) {
    gf_linear_rank(m, f, rank);
    if (t->scoring == GF_SCORE_MEAN) return gf_rank_mean_per_class(err, f, rank, out);
    *out = gf_rank_top(rank, f->n, 1);
    return GLOFND_OK;
}

static glofnd_status sweep(gf_error *err, gf_transfer *t, fit_progress *w, gf_linear *m, const gf_features *train,
                           const gf_features *test, int32_t *rank, double *score) {
    for (int i = 0; i < GF_TRANSFER_STRENGTHS; i++, w->fit++) {
        gf_logistic o = {
            .l2 = t->l2[i],
            .tolerance = t->tolerance > 0.0 ? t->tolerance : TOLERANCE,
            .iterations = t->protocol->iterations,
            .progress = report_iteration,
            .user = w,
        };
        TRY(gf_logistic_fit(err, &o, train, m));
        t->unfinished += !o.converged;
        TRY(score_of(err, t, m, test, rank, &score[i]));
    }
    return GLOFND_OK;
}

/* Fits on `train` at every strength and scores on `test`. */
static glofnd_status fit_all(gf_error *err, gf_transfer *t, fit_progress *w, const gf_features *train, const gf_features *test,
                             double *score) {
    gf_linear *m = NULL;
    int32_t *rank = malloc((size_t)test->n * sizeof *rank);
    FAIL_IF(err, !rank, GLOFND_E_MEMORY, "no memory for %lld ranks", (long long)test->n);
    glofnd_status status = gf_linear_create(err, train->dim, t->classes, t->threads, &m);
    if (status == GLOFND_OK) status = sweep(err, t, w, m, train, test, rank, score);
    gf_linear_free(m);
    free(rank);
    return status;
}

static int argmax(const double *score) {
    int best = 0;
    for (int i = 1; i < GF_TRANSFER_STRENGTHS; i++) best = score[i] > score[best] ? i : best;
    return best;
}

/* True if at least one sample can be held out. */
static int can_validate(const gf_transfer *t, const gf_features *train) {
    gf_stratified_sample d = {.share = t->validation, .seed = t->seed, .stream = GF_STRATIFIED_TEST};
    uint8_t *chosen = malloc((size_t)train->n + 1);
    const int can =
        chosen && t->validation > 0.0 && gf_stratified_draw(NULL, &d, train->label, train->n, chosen) == GLOFND_OK && d.count > 0;
    free(chosen);
    return can;
}

glofnd_status gf_transfer_fit(gf_error *err, gf_transfer *t, gf_features *train, gf_features *test) {
    gf_features held = {0};
    t->unfinished = 0;
    t->best = t->chosen = -1;
    TRY(prepare(err, t, train, test));
    const int validate = can_validate(t, train);
    fit_progress w = {.t = t, .fits = GF_TRANSFER_STRENGTHS * (validate ? 2 : 1)};
    TRY(fit_all(err, t, &w, train, test, t->score));
    t->best = argmax(t->score);
    if (!validate) return GLOFND_OK;
    glofnd_status status = gf_features_hold_out(err, train, t->validation, t->seed, &held);
    if (status == GLOFND_OK) status = fit_all(err, t, &w, train, &held, t->validation_score);
    if (status == GLOFND_OK) t->chosen = argmax(t->validation_score);
    gf_features_free(&held);
    return status;
}

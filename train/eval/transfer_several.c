/* transfer_several.c - transfer to a dataset whose images have several classes: a logistic regression per class, scored by the
 * mean over classes of the 11-point average precision. See transfer_learning.h. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "eval/average_precision.h"
#include "eval/transfer_learning.h"
#include "eval/stratified_sample.h"

#define TOLERANCE 1e-4

typedef struct several_fit {
    gf_transfer *t;
    const gf_features *train, *test;
    const uint8_t *train_mark, *test_mark; /* [n][classes] */
    const uint8_t *use;                    /* [train->n] 1: a row to fit on */
    gf_features rows;                      /* rows that count for a class, with labels 0 and 1 */
    double *score;                         /* [test->n] */
    uint8_t *positive;                     /* [test->n] */
    int64_t fit, fits;
} several_fit;

static void report_iteration(void *user, int64_t iteration) {
    const several_fit *s = user;
    if (s->t->progress) s->t->progress(s->t->user, s->fit, s->fits, iteration);
}

/* Rows that have the class or certainly have not. The number of those that have it. */
static int64_t choose_rows(several_fit *s, int64_t c) {
    const int64_t classes = s->t->classes, dim = s->train->dim;
    int64_t n = 0, positives = 0;
    for (int64_t i = 0; i < s->train->n; i++) {
        const uint8_t mark = s->train_mark[i * classes + c];
        if (!s->use[i] || mark > 1) continue;
        memcpy(s->rows.x + n * dim, s->train->x + i * dim, (size_t)dim * sizeof *s->rows.x);
        s->rows.label[n++] = mark;
        positives += mark;
    }
    s->rows.n = n;
    return positives;
}

static void score_rows(several_fit *s, const gf_linear *m) {
    const float *no = m->weight, *yes = m->weight + m->ld;
    for (int64_t i = 0; i < s->test->n; i++) {
        const float *x = s->test->x + i * s->test->dim;
        double sum = (double)m->bias[1] - (double)m->bias[0];
        for (int64_t k = 0; k < s->test->dim; k++) sum += (double)x[k] * ((double)yes[k] - (double)no[k]);
        s->score[i] = sum;
    }
}

static glofnd_status fit_class(gf_error *err, several_fit *s, int64_t c, gf_linear *m, double *score) {
    const int64_t classes = s->t->classes;
    for (int64_t i = 0; i < s->test->n; i++) s->positive[i] = s->test_mark[i * classes + c];
    for (int i = 0; i < GF_TRANSFER_STRENGTHS; i++, s->fit++) {
        gf_logistic o = {
            .l2 = s->t->l2[i],
            .tolerance = s->t->tolerance > 0.0 ? s->t->tolerance : TOLERANCE,
            .iterations = s->t->protocol->iterations,
            .progress = report_iteration,
            .user = s,
        };
        double precision;
        TRY(gf_logistic_fit(err, &o, &s->rows, m));
        s->t->unfinished += !o.converged;
        score_rows(s, m);
        TRY(gf_average_precision11(err, s->score, s->positive, s->test->n, &precision));
        FAIL_IF(err, isnan(precision), GLOFND_E_ARGUMENT, "no test image has class %lld", (long long)c);
        score[i] += precision / (double)classes;
    }
    return GLOFND_OK;
}

static glofnd_status fit_classes(gf_error *err, several_fit *s, double *score) {
    memset(score, 0, GF_TRANSFER_STRENGTHS * sizeof *score);
    for (int64_t c = 0; c < s->t->classes; c++) {
        gf_linear *m = NULL;
        FAIL_IF(err, choose_rows(s, c) == 0, GLOFND_E_ARGUMENT, "no training image has class %lld", (long long)c);
        TRY(gf_linear_create(err, s->train->dim, 2, s->t->threads, &m));
        const glofnd_status status = fit_class(err, s, c, m, score);
        gf_linear_free(m);
        TRY(status);
    }
    return GLOFND_OK;
}

static int argmax(const double *score) {
    int best = 0;
    for (int i = 1; i < GF_TRANSFER_STRENGTHS; i++) best = score[i] > score[best] ? i : best;
    return best;
}

/* Fits on all rows and scores the test rows; then on the rows that validation leaves, scored by the others. held [train->n]: 1
 * for rows of validation; `use` gets the others. */
static glofnd_status fit_both(gf_error *err, several_fit *s, const uint8_t *held, uint8_t *use) {
    gf_transfer *t = s->t;
    TRY(fit_classes(err, s, t->score));
    t->best = argmax(t->score);
    if (s->fits == GF_TRANSFER_STRENGTHS * t->classes) return GLOFND_OK;
    const gf_features all = *s->train;
    uint8_t *mark = malloc((size_t)all.n * (size_t)t->classes + 1);
    FAIL_IF(err, !mark, GLOFND_E_MEMORY, "no memory for the labels of %lld rows", (long long)all.n);
    memcpy(mark, s->train_mark, (size_t)all.n * (size_t)t->classes);
    for (int64_t i = 0; i < all.n; i++) {
        use[i] = !held[i];
        if (!held[i]) memset(mark + i * t->classes, 2, (size_t)t->classes); /* not scored */
    }
    s->test = s->train, s->test_mark = mark;
    const glofnd_status status = fit_classes(err, s, t->validation_score);
    if (status == GLOFND_OK) t->chosen = argmax(t->validation_score);
    free(mark);
    return status == GLOFND_E_ARGUMENT ? GLOFND_OK : status; /* a class is missing there: no validation */
}

/* Every `share` of the rows; labels do not matter. */
static glofnd_status draw_validation(gf_error *err, const gf_transfer *t, int64_t n, uint8_t *held, int64_t *count) {
    gf_stratified_sample d = {.share = t->validation, .seed = t->seed, .stream = GF_STRATIFIED_TEST};
    int32_t *zeros = calloc((size_t)n + 1, sizeof *zeros);
    FAIL_IF(err, !zeros, GLOFND_E_MEMORY, "no memory to split %lld samples", (long long)n);
    const glofnd_status status = gf_stratified_draw(err, &d, zeros, n, held);
    free(zeros);
    *count = d.count;
    return status;
}

glofnd_status gf_transfer_fit_several(gf_error *err, gf_transfer *t, int64_t classes, gf_features *train,
                                      const uint8_t *train_mark, gf_features *test, const uint8_t *test_mark) {
    several_fit s = {.t = t, .train = train, .test = test, .train_mark = train_mark, .test_mark = test_mark};
    const int64_t most = train->n > test->n ? train->n : test->n;
    int64_t held_count = 0;
    FAIL_IF(err, train->dim != test->dim || classes < 1, GLOFND_E_ARGUMENT, "training rows have %lld features, test rows %lld",
            (long long)train->dim, (long long)test->dim);
    t->unfinished = 0, t->best = t->chosen = -1, t->classes = classes;
    if (t->protocol->unit) gf_features_unit(train), gf_features_unit(test);
    if (t->protocol->standard) TRY(gf_features_standardise(err, train, test));
    gf_transfer_strengths(t->protocol, t->l2);
    uint8_t *use = malloc((size_t)train->n + 1), *held = calloc((size_t)train->n + 1, 1);
    s.score = malloc((size_t)most * sizeof *s.score);
    s.positive = malloc((size_t)most);
    s.use = use;
    glofnd_status status = gf_features_alloc(err, &s.rows, train->n, train->dim);
    if (!use || !held || !s.score || !s.positive)
        status = gf_fail(err, GLOFND_E_MEMORY, "no memory for %lld rows", (long long)most);
    if (status == GLOFND_OK) {
        memset(use, 1, (size_t)train->n);
        if (t->validation > 0.0) status = draw_validation(err, t, train->n, held, &held_count);
        s.fits = GF_TRANSFER_STRENGTHS * classes * (held_count > 0 ? 2 : 1);
    }
    if (status == GLOFND_OK) status = fit_both(err, &s, held, use);
    gf_features_free(&s.rows);
    free(use);
    free(held);
    free(s.score);
    free(s.positive);
    return status;
}

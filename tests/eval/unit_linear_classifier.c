/* unit_linear_classifier.c - the linear probe against plain loops, on easy, hard and broken features; protocols, early
 * stopping. */
#include "support/test.h"

#include "eval/linear.h"
#include "support/random.h"
#include "util/rng.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

static gf_features make(int64_t n, int64_t dim, int32_t classes, double lead, uint64_t seed) {
    gf_features f;
    rng g = {seed};
    assert_int_equal(gf_features_alloc(NULL, &f, n, dim), GLOFND_OK);
    for (int64_t i = 0; i < n; i++) f.label[i] = (int32_t)(i % classes);
    for (int64_t i = 0; i < n * dim; i++) f.x[i] = (float)(0.3 * rng_normal(&g) + (i % dim == f.label[i / dim] ? lead : 0.0));
    return f;
}

typedef struct source {
    const gf_features *f;
    const int64_t *rows;
    int64_t n, calls;
} source;

static glofnd_status give(gf_error *err, void *user, int64_t epoch, gf_probe_rows *out) {
    source *s = user;
    (void)err;
    assert_int_equal(epoch, s->calls++);
    *out = (gf_probe_rows){.f = s->f, .rows = s->rows, .n = s->n};
    return GLOFND_OK;
}

static gf_probe probe(const char *protocol, source *s, int64_t classes, int64_t epochs, const gf_features *test) {
    return (gf_probe){.protocol = gf_probe_protocol_find(protocol),
                      .classes = classes,
                      .epochs = epochs,
                      .seed = 1,
                      .threads = 2,
                      .epoch = give,
                      .user = s,
                      .test = test};
}

/* ----- against plain loops ----- */

enum { DIM = 6, CLASSES = 8, ROWS = 75, BATCH = 32, EPOCHS = 4, TESTS = 1500 };

typedef struct model {
    double w[CLASSES][DIM + 1]; /* the last column is the bias */
} model;

static void scores_of(const model *m, const float *x, double *z) {
    for (int c = 0; c < CLASSES; c++) {
        z[c] = m->w[c][DIM];
        for (int a = 0; a < DIM; a++) z[c] += m->w[c][a] * (double)x[a];
    }
}

/* Gradient of the mean cross entropy of rows [n] of f. */
static void gradient_of(const model *m, const gf_features *f, const int64_t *rows, int64_t n, model *g) {
    *g = (model){0};
    for (int64_t i = 0; i < n; i++) {
        const float *x = f->x + rows[i] * DIM;
        double z[CLASSES], sum = 0.0;
        scores_of(m, x, z);
        for (int c = 0; c < CLASSES; c++) sum += exp(z[c]);
        for (int c = 0; c < CLASSES; c++) {
            const double d = (exp(z[c]) / sum - (c == f->label[rows[i]])) / (double)n;
            for (int a = 0; a < DIM; a++) g->w[c][a] += d * (double)x[a];
            g->w[c][DIM] += d;
        }
    }
}

/* AdamW or SGD with momentum as in PyTorch; biases do not decay. */
static void step_of(const gf_probe_protocol *q, double lr, int step, model *m, const model *g, model *first, model *second) {
    for (int c = 0; c < CLASSES; c++)
        for (int a = 0; a <= DIM; a++) {
            double *w = &m->w[c][a], *v = &first->w[c][a], *u = &second->w[c][a];
            const double decay = a < DIM ? q->weight_decay : 0.0, d = g->w[c][a];
            if (q->adamw) {
                *w -= lr * decay * *w;
                *v = q->momentum * *v + (1.0 - q->momentum) * d;
                *u = 0.999 * *u + 0.001 * d * d;
                *w -= lr * (*v / (1.0 - pow(q->momentum, step))) / (sqrt(*u / (1.0 - pow(0.999, step))) + 1e-8);
            } else {
                *v = q->momentum * *v + d + decay * *w;
                *w -= lr * *v;
            }
        }
}

/* after [EPOCHS]: the model after each epoch. */
static void fit_by_hand(const gf_probe_protocol *q, const gf_features *f, uint64_t seed, model *after) {
    model m = {0}, first = {0}, second = {0}, g;
    int step = 0;
    for (int c = 0; c < CLASSES; c++) {
        gf_rng r = gf_rng_at(seed, GF_RNG_INIT, 0, (uint64_t)c, 0);
        for (int a = 0; a < DIM; a++) m.w[c][a] = 0.01 * gf_rng_normal(&r);
    }
    for (int epoch = 0; epoch < EPOCHS; epoch++) {
        const double peak = q->lr_by_batch ? q->lr * (double)q->batch / 256.0 : q->lr;
        const double lr = peak * 0.5 * (1.0 + cos(acos(-1.0) * epoch / EPOCHS));
        for (int64_t at = 0; at < f->n; at += q->batch) {
            int64_t rows[BATCH], n = f->n - at < q->batch ? f->n - at : q->batch;
            for (int64_t i = 0; i < n; i++) rows[i] = gf_permute(seed, (uint32_t)epoch, f->n, at + i);
            gradient_of(&m, f, rows, n, &g);
            step_of(q, lr, ++step, &m, &g, &first, &second);
        }
        after[epoch] = m;
    }
}

/* Rank of the label among the scores; -1: some score is so close to the label's that rounding could decide. */
static int rank_by_hand(const model *m, const float *x, int32_t label) {
    double z[CLASSES];
    int rank = 0;
    scores_of(m, x, z);
    for (int c = 0; c < CLASSES; c++) {
        if (c != label && fabs(z[c] - z[label]) < 1e-4) return -1;
        rank += z[c] > z[label];
    }
    return rank;
}

/* Random labels and features that no model of the protocol ranks by rounding. */
static void draw_tests(const model *after, gf_features *test, rng *g) {
    for (int64_t i = 0; i < TESTS;) {
        int clear = 1;
        for (int a = 0; a < DIM; a++) test->x[i * DIM + a] = (float)rng_normal(g);
        test->label[i] = (int32_t)rng_below(g, CLASSES);
        for (int e = 0; e < EPOCHS; e++) clear &= rank_by_hand(&after[e], test->x + i * DIM, test->label[i]) >= 0;
        i += clear;
    }
}

TEST(training_equals_plain_loops) {
    static const gf_probe_protocol protocols[] = {
        {.name = "adamw", .adamw = 1, .lr = 0.1, .momentum = 0.9, .weight_decay = 0.5, .batch = BATCH, .patience = 100},
        {.name = "sgd", .lr = 2.0, .lr_by_batch = 1, .momentum = 0.9, .weight_decay = 0.1, .batch = BATCH, .patience = 100},
    };
    for (int k = 0; k < 2; k++) {
        rng g = {20};
        model after[EPOCHS];
        gf_features train = make(ROWS, DIM, CLASSES, 0.6, 21), test = make(TESTS, DIM, CLASSES, 0.0, 22);
        source s = {.f = &train, .n = ROWS};
        gf_probe p = probe("paper", &s, CLASSES, EPOCHS, &test);
        p.protocol = &protocols[k];
        fit_by_hand(p.protocol, &train, p.seed, after);
        draw_tests(after, &test, &g);
        assert_int_equal(gf_probe_fit(NULL, &p), GLOFND_OK);
        int best = -1, top1[EPOCHS] = {0}, top5[EPOCHS] = {0};
        for (int e = 0; e < EPOCHS; e++) {
            for (int64_t i = 0; i < TESTS; i++) {
                const int rank = rank_by_hand(&after[e], test.x + i * DIM, test.label[i]);
                top1[e] += rank < 1, top5[e] += rank < 5;
            }
            if (best < 0 || top1[e] > top1[best]) best = e;
        }
        assert_int_equal(lround(p.last_top1 * TESTS), top1[EPOCHS - 1]);
        assert_int_equal(lround(p.last_top5 * TESTS), top5[EPOCHS - 1]);
        assert_int_equal(p.best_epoch, best + 1);
        assert_int_equal(lround(p.top1 * TESTS), top1[best]);
        assert_int_equal(lround(p.top5 * TESTS), top5[best]);
        gf_features_free(&train);
        gf_features_free(&test);
    }
}

TEST(separable_features_are_separated) {
    gf_features train = make(3000, 24, 10, 3.0, 1), test = make(500, 24, 10, 3.0, 2);
    for (int i = 0; gf_probe_protocol_at(i); i++) {
        source s = {.f = &train, .n = train.n};
        gf_probe p = probe(gf_probe_protocol_at(i)->name, &s, 10, 90, &test);
        assert_int_equal(gf_probe_fit(NULL, &p), GLOFND_OK);
        assert_true(p.top1 > 0.995 && p.top5 == 1.0 && p.last_top1 > 0.99);
        assert_true(p.best_epoch >= 1 && p.best_epoch <= p.epochs_run && s.calls == p.epochs_run);
    }
    gf_features_free(&train);
    gf_features_free(&test);
}

/* Rows outside the list have wrong labels: reading them would spoil the score. */
TEST(only_the_given_rows_are_read) {
    gf_features train = make(400, 16, 8, 3.0, 3), test = make(200, 16, 8, 3.0, 4);
    int64_t rows[200];
    for (int64_t i = 0; i < 400; i++) {
        if (i < 200) rows[i] = i;
        else train.label[i] = (int32_t)((i + 1) % 8);
    }
    source s = {.f = &train, .rows = rows, .n = 200};
    gf_probe p = probe("paper", &s, 8, 60, &test);
    assert_int_equal(gf_probe_fit(NULL, &p), GLOFND_OK);
    assert_true(p.top1 > 0.99);
    gf_features_free(&train);
    gf_features_free(&test);
}

TEST(features_without_meaning_stop_early) {
    gf_features train = make(64, 8, 4, 0.0, 5), test = make(400, 8, 4, 0.0, 6);
    source s = {.f = &train, .n = train.n};
    gf_probe p = probe("paper", &s, 4, 900, &test);
    assert_int_equal(gf_probe_fit(NULL, &p), GLOFND_OK);
    assert_true(p.epochs_run < 900 && p.epochs_run == p.best_epoch + p.protocol->patience);
    assert_true(p.top1 < 0.5 && p.top1 >= p.last_top1);
    gf_features_free(&train);
    gf_features_free(&test);
}

/* Stopping by other samples than those reported: the score is the test score of that epoch, not the best test score. */
TEST(validation_samples_decide) {
    gf_features train = make(100, 8, 4, 0.5, 7), test = make(300, 8, 4, 0.5, 8), validation = make(60, 8, 4, 0.5, 9);
    source s = {.f = &train, .n = train.n}, again = s;
    gf_probe p = probe("official", &s, 4, 40, &test), q = probe("official", &again, 4, 40, &test);
    p.validation = &validation;
    assert_int_equal(gf_probe_fit(NULL, &p), GLOFND_OK);
    assert_int_equal(gf_probe_fit(NULL, &q), GLOFND_OK);
    assert_true(p.top1 <= q.top1);
    assert_true(q.validation_top1 == q.top1);
    const double sixtieth = p.validation_top1 * 60.0;
    assert_true(fabs(sixtieth - round(sixtieth)) < 1e-9);
    gf_features_free(&train);
    gf_features_free(&test);
    gf_features_free(&validation);
}

TEST(equal_calls_give_equal_numbers) {
    gf_features train = make(1500, 12, 5, 0.4, 10), test = make(300, 12, 5, 0.4, 11);
    double last[3];
    for (int i = 0; i < 3; i++) {
        source s = {.f = &train, .n = train.n};
        gf_probe p = probe("paper", &s, 5, 7, &test);
        p.threads = i == 1 ? 5 : 1;
        p.seed = i == 2 ? 2 : 1;
        assert_int_equal(gf_probe_fit(NULL, &p), GLOFND_OK);
        last[i] = p.last_top1 + p.last_top5;
    }
    assert_true(last[0] == last[1]);
    assert_true(last[0] != last[2]);
    gf_features_free(&train);
    gf_features_free(&test);
}

TEST(epochs_follow_the_share_of_labels) {
    assert_int_equal(gf_probe_epochs(1.0), 90);
    assert_int_equal(gf_probe_epochs(0.1), 285);
    assert_int_equal(gf_probe_epochs(0.01), 900);
    assert_int_equal(gf_probe_epochs(0.001), 900);
    assert_true(gf_probe_protocol_find("paper")->adamw && !gf_probe_protocol_find("official")->adamw);
    assert_null(gf_probe_protocol_find("other"));
}

TEST(broken_features_are_named) {
    gf_error err = {{0}};
    gf_features train = make(100, 8, 4, 1.0, 12), test = make(20, 8, 4, 1.0, 13);
    source s = {.f = &train, .n = train.n}, none = {.f = &train, .n = 0};
    gf_probe p = probe("paper", &s, 4, 5, &test), q = probe("paper", &none, 4, 5, &test);
    train.x[77] = NAN;
    assert_int_equal(gf_probe_fit(&err, &p), GLOFND_E_NUMERIC);
    assert_non_null(strstr(err.text, "epoch 1"));
    assert_int_equal(gf_probe_fit(&err, &q), GLOFND_E_ARGUMENT);
    q.epochs = 0;
    assert_int_equal(gf_probe_fit(&err, &q), GLOFND_E_OPTION);
    gf_features_free(&train);
    gf_features_free(&test);
}

/* unit_linear_classifier.c - linear evaluation on features that are easy, hard, or broken; its protocols and when it stops. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "eval/linear/linear_probe.h"
#include "support/random.h"

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

static void separable_features_are_separated(void **state) {
    (void)state;
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

/* Rows that are not in the list are lies; only who reads them fails. */
static void only_the_given_rows_are_read(void **state) {
    (void)state;
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

static void features_without_meaning_stop_early(void **state) {
    (void)state;
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
static void validation_samples_decide(void **state) {
    (void)state;
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

static void equal_calls_give_equal_numbers(void **state) {
    (void)state;
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

static void epochs_follow_the_share_of_labels(void **state) {
    (void)state;
    assert_int_equal(gf_probe_epochs(1.0), 90);
    assert_int_equal(gf_probe_epochs(0.1), 285);
    assert_int_equal(gf_probe_epochs(0.01), 900);
    assert_int_equal(gf_probe_epochs(0.001), 900);
    assert_true(gf_probe_protocol_find("paper")->adamw && !gf_probe_protocol_find("official")->adamw);
    assert_null(gf_probe_protocol_find("other"));
}

static void broken_features_are_named(void **state) {
    (void)state;
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

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(separable_features_are_separated),    cmocka_unit_test(only_the_given_rows_are_read),
        cmocka_unit_test(features_without_meaning_stop_early), cmocka_unit_test(validation_samples_decide),
        cmocka_unit_test(equal_calls_give_equal_numbers),      cmocka_unit_test(epochs_follow_the_share_of_labels),
        cmocka_unit_test(broken_features_are_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

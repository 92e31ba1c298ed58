/* unit_average_precision.c - 11-point average precision against values worked out by hand, and transfer to images with several
 * classes. */
#include "support/test.h"

#include "eval/linear.h"
#include "eval/split.h"
#include "support/random.h"
#include <math.h>
#include <string.h>

static double ap(const double *score, const uint8_t *positive, int64_t n) {
    double out = -1.0;
    assert_int_equal(gf_average_precision11(NULL, score, positive, n, &out), GLOFND_OK);
    return out;
}

#define AP(n, scores, positives) ap((const double[])scores, (const uint8_t[])positives, n)
#define L(...) \
    { __VA_ARGS__ }

TEST(values_are_those_worked_out_by_hand) {
    assert_true(fabs(AP(4, L(4, 3, 2, 1), L(1, 1, 0, 0)) - 1.0) < 1e-15);
    /* Ranks of the positives 2 and 4: precisions 1/2 at recalls up to 1/2 and 2/4 at recall 1. */
    assert_true(fabs(AP(4, L(4, 3, 2, 1), L(0, 1, 0, 1)) - 0.5) < 1e-15);
    /* Ranks 1 and 3: precision 1 at the six recalls up to 0.5, 2/3 at the other five. */
    assert_true(fabs(AP(3, L(3, 2, 1), L(1, 0, 1)) - (6.0 + 5.0 * 2.0 / 3.0) / 11.0) < 1e-15);
    /* A difficult image is as if it were not there; of equal scores the first comes first. */
    assert_true(fabs(AP(4, L(9, 3, 2, 1), L(2, 1, 0, 1)) - (6.0 + 5.0 * 2.0 / 3.0) / 11.0) < 1e-15);
    assert_true(fabs(AP(2, L(1, 1), L(0, 1)) - 0.5) < 1e-15);
    assert_true(isnan(AP(2, L(1, 2), L(0, 0))));
}

/* Feature c says whether an image has class c: every class can be ranked perfectly, whatever the other classes are. */
TEST(classes_are_fitted_one_by_one) {
    enum { N = 60, CLASSES = 3 };
    gf_features f[2];
    uint8_t mark[2][N * CLASSES];
    rng g = {5};
    for (int k = 0; k < 2; k++) {
        assert_int_equal(gf_features_alloc(NULL, &f[k], N, CLASSES), GLOFND_OK);
        for (int i = 0; i < N * CLASSES; i++) {
            mark[k][i] = (uint8_t)(rng_below(&g, 2) ? 1 : 0);
            f[k].x[i] = mark[k][i] ? 1.0f : -1.0f;
        }
        for (int i = 0; i < N; i++) f[k].label[i] = i;
        mark[k][7] = 2, f[k].x[7] = 9.0f; /* difficult, and in front */
    }
    gf_transfer t = {.protocol = gf_transfer_protocol_find("raw"), .validation = 0.2, .seed = 1, .threads = 1};
    gf_error err = {""};
    const glofnd_status status = gf_transfer_fit_several(&err, &t, CLASSES, &f[0], mark[0], &f[1], mark[1]);
    if (status == GLOFND_E_UNSUPPORTED) skip();
    assert_int_equal(status, GLOFND_OK);
    assert_true(t.chosen >= 0 && t.classes == CLASSES);
    assert_true(fabs(t.score[t.best] - 1.0) < 1e-12 && fabs(t.validation_score[t.chosen] - 1.0) < 1e-12);
    for (int i = 0; i < N; i++) mark[1][i * CLASSES] = 0;
    assert_int_equal(gf_transfer_fit_several(&err, &t, CLASSES, &f[0], mark[0], &f[1], mark[1]), GLOFND_E_ARGUMENT);
    assert_non_null(strstr(err.text, "no test image has class 0"));
    gf_features_free(&f[0]);
    gf_features_free(&f[1]);
}

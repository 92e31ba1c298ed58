/* unit_knn.c - nearest neighbours against plain loops; ties, unlabelled rows, thread counts, splits. */
#include "support/test.h"

#include "eval/knn.h"
#include "support/random.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

static gf_features make(int64_t n, int64_t dim, int32_t classes, uint64_t seed) {
    gf_features f;
    assert_int_equal(gf_features_alloc(NULL, &f, n, dim), GLOFND_OK);
    rng g = {seed};
    for (int64_t i = 0; i < n; i++) f.label[i] = (int32_t)rng_below(&g, classes);
    for (int64_t i = 0; i < n * dim; i++) f.x[i] = (float)rng_normal(&g) + (i % dim == f.label[i / dim] % dim ? 1.5f : 0.0f);
    return f;
}

static double cosine(const float *a, const float *b, int64_t dim) {
    double ab = 0, aa = 0, bb = 0;
    for (int64_t i = 0; i < dim; i++) {
        ab += (double)a[i] * (double)b[i];
        aa += (double)a[i] * (double)a[i];
        bb += (double)b[i] * (double)b[i];
    }
    return ab / sqrt(aa * bb);
}

/* One test row, by k scans for the next best. *margin: of the winner, and of the k-th over the next neighbour. */
static int32_t by_hand(const gf_features *train, const float *x, int64_t k, double t, double *margin) {
    double vote[64] = {0}, last = INFINITY, first = 0, second = 0;
    int64_t last_at = -1;
    *margin = INFINITY;
    for (int64_t taken = 0; taken <= k && taken < train->n; taken++) {
        double best = -INFINITY;
        int64_t at = -1;
        for (int64_t i = 0; i < train->n; i++) {
            const double s = cosine(train->x + i * train->dim, x, train->dim);
            const int later = s < last || (s == last && i > last_at);
            if (train->label[i] >= 0 && later && s > best) best = s, at = i;
        }
        if (at < 0) break;
        if (taken == k) *margin = last - best;
        else vote[train->label[at]] += t > 0 ? exp(best / t) : 1.0;
        last = best;
        last_at = at;
    }
    int32_t winner = 0;
    for (int32_t c = 1; c < 64; c++) winner = vote[c] > vote[winner] ? c : winner;
    first = vote[winner];
    for (int32_t c = 0; c < 64; c++) second = c != winner && vote[c] > second ? vote[c] : second;
    if (t > 0) *margin = fmin(*margin, (first - second) / first);
    return winner;
}

static void compare(int64_t n, int64_t tests, int64_t dim, int64_t k, double t, int unlabelled) {
    gf_error err = {{0}};
    gf_features train = make(n, dim, 10, 3), test = make(tests, dim, 10, 4);
    int32_t *predicted = malloc((size_t)tests * sizeof *predicted);
    rng g = {9};
    for (int64_t i = 0; unlabelled && i < n; i += 3) train.label[i] = -1;
    for (int64_t i = 0; i < tests; i++) { /* no test row that rounding decides */
        double margin;
        while (by_hand(&train, test.x + i * dim, k, t, &margin), margin < 1e-5)
            for (int64_t a = 0; a < dim; a++) test.x[i * dim + a] = (float)rng_normal(&g);
    }
    assert_int_equal(gf_knn_classify(&err, &(gf_knn){k, t, {.threads = 2}}, &train, &test, predicted), GLOFND_OK);
    for (int64_t i = 0; i < tests; i++) {
        double margin;
        const int32_t expected = by_hand(&train, test.x + i * dim, k, t, &margin);
        assert_int_equal(predicted[i], expected);
    }
    free(predicted);
    gf_features_free(&train);
    gf_features_free(&test);
}

TEST(equals_plain_loops) {
    compare(700, 150, 24, 20, 0.07, 0);
    compare(700, 150, 24, 20, 0.0, 0);
    compare(513, 65, 7, 1, 0.07, 1);
    compare(30, 10, 5, 600, 0.5, 1); /* k beyond the training rows */
    compare(1, 3, 1, 20, 0.07, 0);
    compare(1500, 40, 12, 200, 0.07, 0); /* the list of neighbours is cut several times */
    compare(1500, 40, 12, 300, 0.0, 1);
}

/* All rows are equal: the neighbours are the first k, whatever their tile. */
TEST(ties_go_to_the_smaller_index) {
    gf_features train = make(1200, 8, 10, 5), test = make(3, 8, 10, 6);
    int32_t predicted[3];
    for (int64_t i = 0; i < train.n; i++) {
        memcpy(train.x + i * 8, train.x, 8 * sizeof *train.x);
        train.label[i] = i < 600 ? 7 : 2;
    }
    const int64_t ks[] = {1, 20, 1199, 1200};
    const int32_t expected[] = {7, 7, 7, 2}; /* 1200: as many of both, the smaller class */
    for (int c = 0; c < 4; c++) {
        assert_int_equal(gf_knn_classify(NULL, &(gf_knn){ks[c], 0.0, {.threads = 1}}, &train, &test, predicted), GLOFND_OK);
        for (int i = 0; i < 3; i++) assert_int_equal(predicted[i], expected[c]);
    }
    gf_features_free(&train);
    gf_features_free(&test);
}

/* Among two equal neighbours, the later one makes room for a better one. */
TEST(the_later_of_equals_leaves) {
    gf_features train, test;
    int32_t predicted;
    assert_int_equal(gf_features_alloc(NULL, &train, 3, 2), GLOFND_OK);
    assert_int_equal(gf_features_alloc(NULL, &test, 1, 2), GLOFND_OK);
    const float rows[] = {1, 1, 1, 1, 1, 0};
    memcpy(train.x, rows, sizeof rows);
    for (int i = 0; i < 3; i++) train.label[i] = i + 1;
    test.x[0] = 1, test.x[1] = 0, test.label[0] = 1;
    assert_int_equal(gf_knn_classify(NULL, &(gf_knn){2, 0.0, {.threads = 1}}, &train, &test, &predicted), GLOFND_OK);
    assert_int_equal(predicted, 1); /* rows 2 and 0 vote, the smaller class wins */
    gf_features_free(&train);
    gf_features_free(&test);
}

TEST(same_for_any_thread_count) {
    gf_features train = make(900, 33, 10, 7), test = make(400, 33, 10, 8);
    int32_t one[400], many[400];
    assert_int_equal(gf_knn_classify(NULL, &(gf_knn){20, 0.07, {.threads = 1}}, &train, &test, one), GLOFND_OK);
    assert_int_equal(gf_knn_classify(NULL, &(gf_knn){20, 0.07, {.threads = 5}}, &train, &test, many), GLOFND_OK);
    assert_memory_equal(one, many, sizeof one);
    assert_true(gf_top1(&test, one) > 0.3);
    test.label[0] = -1;
    for (int64_t i = 1; i < test.n; i++) one[i] = test.label[i];
    assert_true(gf_top1(&test, one) == 1.0);
    gf_features_free(&train);
    gf_features_free(&test);
}

TEST(top1_is_of_those_with_a_label) {
    int32_t label[] = {0, 1, -1, 2, -1}, predicted[] = {0, 2, 5, 2, -1};
    gf_features test = {.n = 5, .label = label};
    assert_true(gf_top1(&test, predicted) == 2.0 / 3.0);
    test.n = 0;
    assert_true(isnan(gf_top1(&test, predicted)));
}

TEST(refuses_what_it_cannot_do) {
    gf_error err = {{0}};
    gf_features train = make(20, 4, 3, 9), test = make(5, 4, 3, 10), wide = make(5, 6, 3, 11);
    int32_t predicted[5];
    assert_int_equal(gf_knn_classify(&err, &(gf_knn){0, 0.07, {.threads = 1}}, &train, &test, predicted), GLOFND_E_OPTION);
    assert_int_equal(gf_knn_classify(&err, &(gf_knn){5, NAN, {.threads = 1}}, &train, &test, predicted), GLOFND_E_OPTION);
    assert_int_equal(gf_knn_classify(&err, &(gf_knn){5, 0.07, {.threads = 1}}, &train, &wide, predicted), GLOFND_E_ARGUMENT);
    test.x[7] = NAN;
    assert_int_equal(gf_knn_classify(&err, &(gf_knn){5, 0.07, {.threads = 1}}, &train, &test, predicted), GLOFND_E_NUMERIC);
    assert_non_null(strstr(err.text, "row 1"));
    for (int i = 0; i < 20; i++) train.label[i] = -1;
    assert_int_equal(gf_knn_classify(&err, &(gf_knn){5, 0.07, {.threads = 1}}, &train, &wide, predicted), GLOFND_E_ARGUMENT);
    gf_features_free(&train);
    gf_features_free(&test);
    gf_features_free(&wide);
}

/* A fifth of every class, each row once on one side, both sides in order. */
TEST(holds_out_a_share_of_each_class) {
    gf_features f, held = {0};
    int kept[3] = {0}, moved[3] = {0};
    assert_int_equal(gf_features_alloc(NULL, &f, 104, 1), GLOFND_OK);
    for (int i = 0; i < 104; i++) {
        f.x[i] = (float)i;
        f.label[i] = i < 50 ? 0 : i < 100 ? 2 : i == 100 ? -1 : 1;
    }
    assert_int_equal(gf_features_hold_out(NULL, &f, 0.2, 42, &held), GLOFND_OK);
    assert_int_equal(f.n + held.n, 104);
    for (int64_t i = 0; i < f.n; i++) {
        if (i) assert_true(f.x[i] > f.x[i - 1]);
        if (f.label[i] >= 0) kept[f.label[i]]++;
    }
    for (int64_t i = 0; i < held.n; i++) {
        if (i) assert_true(held.x[i] > held.x[i - 1]);
        for (int64_t o = 0; o < f.n; o++) assert_true(held.x[i] != f.x[o]);
        moved[held.label[i]]++;
    }
    assert_int_equal(moved[0], 10);
    assert_int_equal(moved[1], 0);
    assert_int_equal(moved[2], 10);
    assert_int_equal(kept[0] + kept[1] + kept[2], 83);
    gf_features_free(&f);
    gf_features_free(&held);
}

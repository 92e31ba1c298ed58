/* unit_logistic_regression.c - the linear classifier's loss and gradient against plain loops and differences; logistic
 * regression against scikit-learn's numbers; transfer learning over strengths. */
#include "support/test.h"

#include "eval/linear.h"
#include "fixtures/logistic_golden.h"
#include "support/random.h"
#include "util/rng.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

static gf_features make(int64_t n, int64_t dim, int32_t classes, double lead, uint64_t seed) {
    gf_features f;
    rng g = {seed};
    assert_int_equal(gf_features_alloc(NULL, &f, n, dim), GLOFND_OK);
    for (int64_t i = 0; i < n; i++) f.label[i] = (int32_t)rng_below(&g, classes);
    for (int64_t i = 0; i < n * dim; i++) f.x[i] = (float)(rng_normal(&g) + (i % dim == f.label[i / dim] % dim ? lead : 0.0));
    return f;
}

static gf_linear *model(int64_t dim, int64_t classes, int threads, uint64_t seed) {
    gf_linear *m;
    rng g = {seed};
    assert_int_equal(gf_linear_create(NULL, dim, classes, threads, &m), GLOFND_OK);
    for (int64_t c = 0; c < classes; c++) {
        for (int64_t a = 0; a < dim; a++) m->weight[c * m->ld + a] = (float)(0.3 * rng_normal(&g));
        m->bias[c] = (float)(0.3 * rng_normal(&g));
    }
    return m;
}

/* ----- loss and gradient ----- */

/* In double, from the model's weights; z is the scores of one row. */
static double scores(const gf_linear *m, const float *x, double *z) {
    double most = -INFINITY, sum = 0.0;
    for (int64_t c = 0; c < m->classes; c++) {
        z[c] = (double)m->bias[c];
        for (int64_t a = 0; a < m->dim; a++) z[c] += (double)m->weight[c * m->ld + a] * (double)x[a];
        most = fmax(most, z[c]);
    }
    for (int64_t c = 0; c < m->classes; c++) sum += exp(z[c] - most);
    return most + log(sum);
}

static double plain_loss(const gf_linear *m, const gf_features *f, const int64_t *rows, int64_t n, double *d_weight,
                         double *d_bias) {
    double *z = malloc((size_t)m->classes * sizeof *z), loss = 0.0;
    memset(d_weight, 0, (size_t)(m->classes * m->dim) * sizeof *d_weight);
    memset(d_bias, 0, (size_t)m->classes * sizeof *d_bias);
    for (int64_t i = 0; i < n; i++) {
        const int64_t row = rows ? rows[i] : i;
        const float *x = f->x + row * f->dim;
        const double total = scores(m, x, z);
        loss += (total - z[f->label[row]]) / (double)n;
        for (int64_t c = 0; c < m->classes; c++) {
            const double p = (exp(z[c] - total) - (c == f->label[row])) / (double)n;
            d_bias[c] += p;
            for (int64_t a = 0; a < m->dim; a++) d_weight[c * m->dim + a] += p * (double)x[a];
        }
    }
    free(z);
    return loss;
}

static void compare(int64_t n, int64_t dim, int64_t classes, int indexed) {
    gf_features f = make(n, dim, (int32_t)classes, 0.5, 3);
    gf_linear *m = model(dim, classes, 2, 4);
    int64_t *rows = malloc((size_t)n * sizeof *rows), count = indexed ? n / 2 + 1 : n;
    double *d_weight = malloc((size_t)(classes * dim) * sizeof *d_weight), *d_bias = malloc((size_t)classes * sizeof *d_bias);
    for (int64_t i = 0; i < n; i++) rows[i] = (i * 17 + 5) % n;
    const double loss = gf_linear_loss(m, &f, indexed ? rows : NULL, count);
    const double expected = plain_loss(m, &f, indexed ? rows : NULL, count, d_weight, d_bias);
    assert_true(fabs(loss - expected) < 1e-6 * (1.0 + expected));
    for (int64_t c = 0; c < classes; c++) {
        assert_true(fabs((double)m->d_bias[c] - d_bias[c]) < 2e-6);
        for (int64_t a = 0; a < dim; a++) assert_true(fabs((double)m->d_weight[c * m->ld + a] - d_weight[c * dim + a]) < 4e-6);
        for (int64_t a = dim; a < m->ld; a++) assert_true(m->d_weight[c * m->ld + a] == 0.0f);
    }
    gf_linear_free(m);
    gf_features_free(&f);
    free(rows);
    free(d_weight);
    free(d_bias);
}

/* Fewer and more than a tile of samples, a panel of features, eight classes. */
TEST(loss_and_gradient_equal_plain_loops) {
    compare(1, 1, 1, 0);
    compare(5, 3, 2, 0);
    compare(128, 32, 8, 0);
    compare(129, 33, 9, 1);
    compare(700, 70, 23, 0);
    compare(5000, 5, 3, 0); /* more tiles than parts */
    compare(5000, 5, 3, 1);
}

/* A step along the gradient changes the loss by its square. */
TEST(gradient_equals_differences) {
    gf_features f = make(300, 20, 7, 0.5, 8);
    gf_linear *m = model(20, 7, 1, 9);
    const double step = 1e-2;
    double square = 0.0, loss[2];
    gf_linear_loss(m, &f, NULL, f.n);
    float *d_weight = malloc((size_t)(m->rows * m->ld) * sizeof *d_weight), d_bias[8],
          *weight = malloc((size_t)(m->rows * m->ld) * sizeof *weight);
    memcpy(d_weight, m->d_weight, (size_t)(m->rows * m->ld) * sizeof *d_weight);
    memcpy(weight, m->weight, (size_t)(m->rows * m->ld) * sizeof *weight);
    memcpy(d_bias, m->d_bias, sizeof d_bias);
    for (int64_t i = 0; i < m->rows * m->ld; i++) square += (double)d_weight[i] * (double)d_weight[i];
    for (int c = 0; c < 7; c++) square += (double)d_bias[c] * (double)d_bias[c];
    float bias[8];
    memcpy(bias, m->bias, sizeof bias);
    for (int side = 0; side < 2; side++) {
        const double s = side ? step : -step;
        for (int64_t i = 0; i < m->rows * m->ld; i++) m->weight[i] = (float)((double)weight[i] + s * (double)d_weight[i]);
        for (int c = 0; c < 7; c++) m->bias[c] = (float)((double)bias[c] + s * (double)d_bias[c]);
        loss[side] = gf_linear_loss(m, &f, NULL, f.n);
    }
    const double slope = (loss[1] - loss[0]) / (2.0 * step);
    assert_true(square > 1e-3);
    assert_true(fabs(slope - square) < 1e-3 * square);
    free(d_weight);
    free(weight);
    gf_linear_free(m);
    gf_features_free(&f);
}

TEST(same_bits_for_any_thread_count) {
    gf_features f = make(3000, 40, 11, 0.5, 12);
    gf_linear *one = model(40, 11, 1, 13), *many = model(40, 11, 5, 13);
    const double a = gf_linear_loss(one, &f, NULL, f.n), b = gf_linear_loss(many, &f, NULL, f.n);
    assert_true(a == b);
    assert_memory_equal(one->d_weight, many->d_weight, (size_t)(one->rows * one->ld) * sizeof(float));
    assert_memory_equal(one->d_bias, many->d_bias, (size_t)one->rows * sizeof(float));
    gf_linear_free(one);
    gf_linear_free(many);
    gf_features_free(&f);
}

TEST(ranks_count_better_classes) {
    gf_features f = make(200, 6, 9, 0.5, 14);
    gf_linear *m = model(6, 9, 2, 15);
    int32_t rank[200];
    double z[9];
    f.label[3] = -1;
    f.label[4] = 9; /* beyond the classes */
    gf_linear_rank(m, &f, rank);
    for (int i = 0; i < 200; i++) {
        int32_t above = 0;
        scores(m, f.x + i * 6, z);
        for (int c = 0; c < 9 && i != 3 && i != 4; c++) above += z[c] > z[f.label[i]];
        assert_int_equal(rank[i], i == 3 || i == 4 ? -1 : above);
    }
    memset(m->weight, 0, (size_t)(m->rows * m->ld) * sizeof(float));
    memset(m->bias, 0, (size_t)m->rows * sizeof(float));
    gf_linear_rank(m, &f, rank);
    for (int i = 0; i < 200; i++)
        if (i != 3 && i != 4) assert_int_equal(rank[i], f.label[i]); /* ties: smaller classes first */
    gf_linear_free(m);
    gf_features_free(&f);
}

TEST(scores_of_ranks) {
    const int32_t rank[] = {0, 4, 5, -1, 0, 1};
    int32_t label[] = {0, 0, 0, 7, 2, 2};
    const gf_features f = {.n = 6, .dim = 1, .label = label};
    double mean;
    assert_true(fabs(gf_rank_top(rank, 6, 1) - 2.0 / 5.0) < 1e-12);
    assert_true(fabs(gf_rank_top(rank, 6, 5) - 4.0 / 5.0) < 1e-12);
    assert_int_equal(gf_rank_mean_per_class(NULL, &f, rank, &mean), GLOFND_OK);
    assert_true(fabs(mean - (1.0 / 3.0 + 1.0 / 2.0) / 2.0) < 1e-12);
    assert_true(isnan(gf_rank_top(rank + 3, 1, 1)));
}

/* ----- logistic regression ----- */

static int without_lbfgs(void) {
#ifdef GF_HAVE_LBFGS
    return 0;
#else
    return 1;
#endif
}

static gf_features golden(int64_t first, int64_t n) {
    gf_features f;
    assert_int_equal(gf_features_alloc(NULL, &f, n, GOLDEN_DIM), GLOFND_OK);
    for (int64_t i = 0; i < n * GOLDEN_DIM; i++) f.x[i] = (float)golden_x[first * GOLDEN_DIM + i];
    memcpy(f.label, golden_label + first, (size_t)n * sizeof *f.label);
    return f;
}

static void assert_weight(double found, double expected) { assert_true(fabs(found - expected) < 2e-3 * (1.0 + fabs(expected))); }

static double share(gf_linear *m, const gf_features *f) {
    int32_t rank[GOLDEN_N];
    gf_linear_rank(m, f, rank);
    return gf_rank_top(rank, f->n, 1);
}

TEST(equals_scikit_learn) {
    if (without_lbfgs()) skip();
    gf_features train = golden(0, GOLDEN_N), test = golden(GOLDEN_N, GOLDEN_TEST);
    for (size_t i = 0; i < sizeof golden_fits / sizeof *golden_fits; i++) {
        const struct golden_fit *g = &golden_fits[i];
        gf_logistic o = {.l2 = g->l2, .tolerance = 1e-6, .iterations = 5000};
        gf_linear *m;
        assert_int_equal(gf_linear_create(NULL, GOLDEN_DIM, GOLDEN_CLASSES, 1, &m), GLOFND_OK);
        assert_int_equal(gf_logistic_fit(NULL, &o, &train, m), GLOFND_OK);
        assert_true(o.converged && o.done > 0 && o.evaluations >= o.done);
        assert_true(fabs(o.objective - g->objective) < 1e-6 * g->objective);
        assert_true(g->margin > 1e-4);
        assert_true(fabs(share(m, &train) - g->train) < 1e-12);
        assert_true(fabs(share(m, &test) - g->test) < 1e-12);
        for (int c = 0; c < GOLDEN_CLASSES; c++)
            for (int a = 0; a < GOLDEN_DIM; a++) assert_weight((double)m->weight[c * m->ld + a], g->weights[c * GOLDEN_DIM + a]);
        gf_linear_free(m);
    }
    gf_features_free(&train);
    gf_features_free(&test);
}

TEST(a_neighbouring_solution_is_a_good_start) {
    if (without_lbfgs()) skip();
    gf_features f = make(2000, 30, 6, 1.0, 20);
    gf_linear *cold, *warm;
    gf_logistic near = {.l2 = 3.0, .tolerance = 1e-5, .iterations = 1000}, o = {.l2 = 2.0, .tolerance = 1e-5, .iterations = 1000},
                p = o;
    assert_int_equal(gf_linear_create(NULL, 30, 6, 2, &cold), GLOFND_OK);
    assert_int_equal(gf_linear_create(NULL, 30, 6, 2, &warm), GLOFND_OK);
    assert_int_equal(gf_logistic_fit(NULL, &near, &f, warm), GLOFND_OK);
    assert_int_equal(gf_logistic_fit(NULL, &o, &f, cold), GLOFND_OK);
    assert_int_equal(gf_logistic_fit(NULL, &p, &f, warm), GLOFND_OK);
    assert_true(fabs(o.objective - p.objective) < 1e-6 * o.objective);
    assert_true(p.done < o.done);
    gf_linear_free(cold);
    gf_linear_free(warm);
    gf_features_free(&f);
}

TEST(refuses_what_it_cannot_fit) {
    if (without_lbfgs()) skip();
    gf_error err = {{0}};
    gf_features f = make(50, 4, 3, 1.0, 21);
    gf_linear *m = model(4, 3, 1, 22);
    gf_logistic o = {.l2 = 1.0, .tolerance = 1e-4, .iterations = 2};
    assert_int_equal(gf_logistic_fit(&err, &o, &f, m), GLOFND_OK);
    assert_true(!o.converged && o.done == 2);
    o.l2 = -1.0;
    assert_int_equal(gf_logistic_fit(&err, &o, &f, m), GLOFND_E_OPTION);
    o.l2 = 1.0, f.label[7] = 3;
    assert_int_equal(gf_logistic_fit(&err, &o, &f, m), GLOFND_E_ARGUMENT);
    assert_non_null(strstr(err.text, "row 7"));
    f.label[7] = 2, f.x[9] = NAN;
    assert_int_equal(gf_logistic_fit(&err, &o, &f, m), GLOFND_E_NUMERIC);
    gf_linear_free(m);
    gf_features_free(&f);
}

/* ----- transfer learning ----- */

TEST(strengths_are_those_of_the_protocols) {
    double l2[GF_TRANSFER_STRENGTHS];
    gf_transfer_strengths(gf_transfer_protocol_find("paper"), l2);
    assert_true(fabs(l2[0] / 1e5 - 1.0) < 1e-12 && fabs(l2[9] / 1e-6 - 1.0) < 1e-12);
    for (int i = 1; i < 10; i++) assert_true(fabs(log10(l2[i - 1] / l2[i]) - 11.0 / 9.0) < 1e-9);
    gf_transfer_strengths(gf_transfer_protocol_find("official"), l2);
    assert_true(fabs(l2[0] / 1e6 - 1.0) < 1e-12 && fabs(l2[9] / 1e-5 - 1.0) < 1e-12);
    assert_null(gf_transfer_protocol_find("none"));
}

TEST(standardised_features_have_mean_0_and_deviation_1) {
    gf_features f = make(500, 3, 2, 0.0, 23), g = make(2, 3, 2, 0.0, 24);
    double mean[3] = {0}, square[3] = {0};
    for (int i = 0; i < 500; i++) f.x[i * 3] = 5.0f + 3.0f * f.x[i * 3], f.x[i * 3 + 2] = 7.0f;
    g.x[2] = 8.0f;
    assert_int_equal(gf_features_standardise(NULL, &f, &g), GLOFND_OK);
    for (int i = 0; i < 1500; i++)
        mean[i % 3] += (double)f.x[i] / 500.0, square[i % 3] += (double)f.x[i] * (double)f.x[i] / 500.0;
    for (int a = 0; a < 2; a++) assert_true(fabs(mean[a]) < 1e-6 && fabs(square[a] - 1.0) < 1e-5);
    assert_true(mean[2] == 0.0 && square[2] == 0.0 && g.x[2] == 1.0f);
    gf_features_unit(&g);
    assert_true(fabs((double)(g.x[3] * g.x[3] + g.x[4] * g.x[4] + g.x[5] * g.x[5]) - 1.0) < 1e-6);
    gf_features_free(&f);
    gf_features_free(&g);
}

TEST(transfer_finds_the_best_strength) {
    if (without_lbfgs()) skip();
    gf_features train = make(400, 12, 4, 2.5, 25), test = make(300, 12, 4, 2.5, 26);
    for (int64_t i = 0; i < train.n; i++) train.label[i] *= 2; /* labels with gaps */
    for (int64_t i = 0; i < test.n; i++) test.label[i] *= 2;
    gf_transfer t = {.protocol = gf_transfer_protocol_find("paper"), .validation = 0.2, .seed = 1, .threads = 2};
    assert_int_equal(gf_transfer_fit(NULL, &t, &train, &test), GLOFND_OK);
    assert_int_equal(t.classes, 4);
    for (int i = 0; i < GF_TRANSFER_STRENGTHS; i++) {
        assert_true(t.score[i] <= t.score[t.best] - (i < t.best ? 1e-9 : 0.0)); /* the first of equals */
        assert_true(t.validation_score[i] <= t.validation_score[t.chosen] - (i < t.chosen ? 1e-9 : 0.0));
    }
    assert_int_not_equal(t.best, t.chosen); /* so that one cannot stand for the other */
    assert_true(t.score[t.best] > 0.7 && t.validation_score[t.chosen] > 0.7);
    assert_int_equal(t.unfinished, 0);
    gf_transfer_protocol hasty = *t.protocol;
    hasty.iterations = 1;
    t.protocol = &hasty;
    assert_int_equal(gf_transfer_fit(NULL, &t, &train, &test), GLOFND_OK);
    assert_true(t.unfinished > 0 && t.unfinished <= 2 * GF_TRANSFER_STRENGTHS);
    gf_features_free(&train);
    gf_features_free(&test);
}

/* In class 0 all 90 test rows are right, in class 1 none of 10: 90 % of the rows, 50 % of the classes. */
TEST(transfer_scores_rows_or_classes) {
    if (without_lbfgs()) skip();
    for (int per_class = 0; per_class < 2; per_class++) {
        gf_features train = make(40, 2, 2, 0.0, 27), test = make(100, 2, 2, 0.0, 28);
        for (int64_t i = 0; i < train.n; i++) train.x[2 * i] = train.label[i] ? -4.0f : 4.0f, train.x[2 * i + 1] = 1.0f;
        for (int64_t i = 0; i < test.n; i++) test.x[2 * i] = 4.0f, test.x[2 * i + 1] = 1.0f, test.label[i] = i >= 90;
        gf_transfer t = {.protocol = gf_transfer_protocol_find("raw"),
                         .scoring = per_class ? GF_SCORE_MEAN : GF_SCORE_TOP1,
                         .seed = 1,
                         .threads = 1};
        assert_int_equal(gf_transfer_fit(NULL, &t, &train, &test), GLOFND_OK);
        for (int i = 0; i < GF_TRANSFER_STRENGTHS; i++) assert_true(fabs(t.score[i] - (per_class ? 0.5 : 0.9)) < 1e-12);
        gf_features_free(&train);
        gf_features_free(&test);
    }
}

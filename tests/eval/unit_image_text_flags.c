/* unit_image_text_flags.c - false negatives between two sides, images and texts: counts and thresholds against plain loops, and
 * a batch against the step of the method itself. */
#include "support/test.h"

#include "eval/detectors.h"
#include "method/options.h"
#include "support/losses.h"
#include "support/random.h"
#include "util/array.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { N = 533, DIM = 14, CLASSES = 6 }; /* more than a tile of columns */

static gf_error err;

/* Two sides of the same samples, each the other's columns. */
static void make(gf_view_set side[2], int64_t n, uint64_t seed) {
    rng g = {seed};
    float center[CLASSES][DIM];
    for (int c = 0; c < CLASSES; c++)
        for (int d = 0; d < DIM; d++) center[c][d] = (float)rng_normal(&g);
    for (int k = 0; k < 2; k++) {
        assert_int_equal(gf_view_set_alloc(&err, &side[k], n, DIM), GLOFND_OK);
        for (int64_t i = 0; i < n; i++) {
            side[k].id[i] = 3 * i + 1;
            side[k].label[i] = i % 31 == 4 ? -1 : (int32_t)(i % CLASSES);
            for (int d = 0; d < DIM; d++) side[k].z[i * DIM + d] = center[i % CLASSES][d] + 2.0f * (float)rng_normal(&g);
        }
    }
    side[0].others = &side[1], side[1].others = &side[0];
}

static void drop(gf_view_set side[2]) {
    gf_view_set_free(&side[0]);
    gf_view_set_free(&side[1]);
}

static float similarity(const gf_view_set *a, int64_t i, const gf_view_set *b, int64_t j) {
    double dot = 0.0, x = 0.0, y = 0.0;
    for (int d = 0; d < DIM; d++) {
        const double p = a->z[i * DIM + d], q = b->z[j * DIM + d];
        dot += p * q, x += p * p, y += q * q;
    }
    return (float)(dot / sqrt(x * y));
}

/* Similarities of row i to the other samples of the other side; n - 1 of them. */
static void row_of(const gf_view_set *s, int64_t i, float *out) {
    for (int64_t j = 0, k = 0; j < s->n; j++)
        if (j != i) out[k++] = similarity(s, i, s->others, j);
}

static int falling(const void *a, const void *b) {
    const float x = *(const float *)a, y = *(const float *)b;
    return x < y ? 1 : x > y ? -1 : 0;
}

/* A threshold near `wanted` that no similarity of row i is within 1e-5 of: rounding decides nothing. */
static float clear_of(const gf_view_set *s, int64_t i, float wanted) {
    static float row[N];
    int64_t k = 0;
    row_of(s, i, row);
    qsort(row, (size_t)(s->n - 1), sizeof *row, falling);
    while (k + 2 < s->n && (row[k] > wanted || row[k] - row[k + 1] < 2e-5f)) k++;
    assert_true(k + 2 < s->n);
    return 0.5f * (row[k] + row[k + 1]);
}

TEST(counts_are_those_of_plain_loops) {
    static float theta[N];
    static gf_fn_counts counts[N];
    gf_view_set side[2];
    make(side, N, 3);
    for (int k = 0; k < 2; k++) {
        const gf_view_set *s = &side[k];
        for (int64_t i = 0; i < N; i++) theta[i] = clear_of(s, i, 0.3f + 0.4f * (float)(i % 7) / 7.0f);
        assert_int_equal(gf_fn_count(&err, s, theta, 1, &(gf_sweep_job){.threads = 2}, counts), GLOFND_OK);
        for (int64_t i = 0; i < N; i++) {
            gf_fn_counts expected = {.pairs = N - 1};
            for (int64_t j = 0; j < N; j++) {
                const int same = j != i && s->label[i] >= 0 && s->label[i] == s->label[j];
                const int above = j != i && similarity(s, i, s->others, j) > theta[i];
                expected.same += same, expected.flagged += above, expected.hits += same && above;
            }
            assert_memory_equal(&counts[i], &expected, sizeof expected);
        }
    }
    drop(side);
}

TEST(thresholds_are_of_the_other_side) {
    enum { FEW = 130 };
    static float row[FEW], fnc[FEW], exact[FEW];
    const double alpha = 0.06;
    gf_view_set side[2];
    make(side, FEW, 5);
    for (int k = 0; k < 2; k++) {
        const gf_view_set *s = &side[k];
        const gf_sweep_job job = {.threads = 2};
        assert_int_equal(gf_fnc_thresholds(&err, s, alpha, &job, fnc), GLOFND_OK);
        assert_int_equal(gf_optimal_thresholds(&err, s, 1, s->others, alpha, &job, exact), GLOFND_OK);
        for (int64_t i = 0; i < FEW; i++) {
            row_of(s, i, row);
            assert_float_equal(fnc[i], gf_quantile(row, FEW - 1, alpha), 1e-6);
            assert_float_equal(exact[i], gf_kth_largest(row, FEW - 1, gf_top_count(FEW - 1, alpha)), 1e-6);
        }
    }
    float single[2];
    for (int k = 0; k < 2; k++)
        assert_int_equal(gf_single_threshold(&err, &side[k], alpha, &(gf_sweep_job){.threads = 1}, &single[k]), GLOFND_OK);
    assert_true(single[0] == single[1]); /* the same pairs from both sides */
    drop(side);
}

/* One batch as the method itself sees it, with detector FNC: both sides together have its flags, precision and recall. */
static glofnd_stats step_of_fnc(const gf_view_set side[2], double alpha) {
    const int64_t n = side[0].n;
    float *grad = malloc(sizeof *grad * 2 * (size_t)(n * DIM));
    int64_t *id = malloc(sizeof *id * (size_t)n);
    for (int64_t i = 0; i < n; i++) id[i] = i;
    glofnd_options o;
    glofnd_ctx *c;
    glofnd_store *store;
    glofnd_stats stats = {.size = sizeof stats};
    gf_method_options_init(&o);
    o.lambda_init = GLOFND_INIT_ONE;
    losses_set(&o, LOSS_SOGCLR2), o.detector = GLOFND_DETECT_FNC, o.alpha = alpha, o.update_epoch = o.mask_epoch = 0;
    assert_int_equal(glofnd_ctx_create(&o, &c, NULL, 0), GLOFND_OK);
    const glofnd_store_spec spec = {.size = sizeof spec, .n = n};
    assert_int_equal(glofnd_store_create(c, &spec, &store), GLOFND_OK);
    const glofnd_batch q = {.size = sizeof q,
                            .n = n,
                            .dim = DIM,
                            .a = side[0].z,
                            .b = side[1].z,
                            .id = id,
                            .label = side[0].label,
                            .want = GLOFND_WANT_QUALITY};
    assert_int_equal(glofnd_step(c, store, &q, grad, grad + n * DIM, &stats), GLOFND_OK);
    glofnd_store_free(store);
    glofnd_ctx_free(c);
    free(grad);
    free(id);
    return stats;
}

TEST(a_batch_is_what_a_step_sees) {
    enum { BATCH = 70 };
    gf_view_set side[2];
    gf_precision_recall q[2][GF_FN_DETECTOR_COUNT];
    make(side, BATCH + 1, 7); /* a sample more than a batch: it is left out */
    for (int k = 0; k < 2; k++) {
        const gf_fn_comparison x = {.s = &side[k], .views = 1, .batch = BATCH, .alpha = 0.07, .job = {.threads = 2}};
        assert_int_equal(gf_fn_compare(&err, &x, q[k]), GLOFND_OK);
    }
    side[0].n = side[1].n = BATCH;
    const glofnd_stats stats = step_of_fnc(side, 0.07);
    const gf_precision_recall *a = &q[0][GF_FN_FNC], *b = &q[1][GF_FN_FNC];
    assert_int_equal(a->anchors, BATCH);
    assert_true(fabs((a->flagged + b->flagged) / 2 - (double)stats.flagged / (double)stats.pairs) < 1e-12);
    assert_true(fabs((a->precision + b->precision) / 2 - stats.precision_per_anchor) < 1e-7);
    assert_true(fabs((a->recall + b->recall) / 2 - stats.recall_per_anchor) < 1e-7);
    drop(side);
}

/* Learned thresholds that are the exact ones give the same, over all pairs and in batches. */
TEST(learned_thresholds_are_used) {
    gf_view_set side[2];
    static float lambda[200];
    gf_precision_recall q[GF_FN_DETECTOR_COUNT];
    make(side, 200, 9);
    gf_fn_comparison x = {.s = &side[1], .views = 1, .alpha = 0.1, .lambda = lambda, .job = {.threads = 2}};
    assert_int_equal(gf_optimal_thresholds(&err, &side[1], 1, &side[0], 0.1, &x.job, lambda), GLOFND_OK);
    assert_int_equal(gf_fn_compare(&err, &x, q), GLOFND_OK);
    assert_memory_equal(&q[GF_FN_GLOFND], &q[GF_FN_EXACT], sizeof *q);
    assert_true(fabs(q[GF_FN_EXACT].flagged - 19.0 / 199.0) < 1e-12); /* ceil(0.1 * 199) = 20, of which 19 are above */
    x.batch = 50;
    assert_int_equal(gf_fn_compare(&err, &x, q), GLOFND_OK);
    assert_memory_equal(&q[GF_FN_GLOFND], &q[GF_FN_EXACT], sizeof *q);
    drop(side);
}

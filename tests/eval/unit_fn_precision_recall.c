/* unit_fn_precision_recall.c - counts and thresholds of pairs against plain loops and sorting, for sizes that do not fill a
 * tile. */
#include "support/test.h"

#include "eval/detectors.h"
#include "method/options.h"
#include "support/random.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { N = 611, DIM = 19, CLASSES = 7 }; /* more than a tile of columns, no multiple of anything */

#define ON(n) (&(gf_sweep_job){.threads = (n)})

static gf_error err;

/* Embeddings of classes with some spread; two views side by side; a few samples without label. */
static gf_view_set make_set(int64_t n, uint64_t seed) {
    gf_view_set s;
    rng g = {seed};
    float center[CLASSES][DIM];
    assert_int_equal(gf_view_set_alloc(&err, &s, n, DIM), GLOFND_OK);
    for (int c = 0; c < CLASSES; c++)
        for (int d = 0; d < DIM; d++) center[c][d] = (float)rng_normal(&g);
    for (int64_t i = 0; i < n; i++) {
        const int label = (int)(i / 2 % CLASSES);
        s.id[i] = 1000 - i / 2;
        s.label[i] = i / 2 % 29 == 3 ? -1 : label;
        for (int d = 0; d < DIM; d++) s.z[i * DIM + d] = center[label][d] + 2.0f * (float)rng_normal(&g);
    }
    return s;
}

static double similarity(const gf_view_set *a, int64_t i, const gf_view_set *b, int64_t j) {
    double dot = 0.0, x = 0.0, y = 0.0;
    for (int d = 0; d < DIM; d++) {
        const double p = a->z[i * DIM + d], q = b->z[j * DIM + d];
        dot += p * q, x += p * p, y += q * q;
    }
    return dot / sqrt(x * y);
}

static int falling(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return x < y ? 1 : x > y ? -1 : 0;
}

/* Similarities of rows [i, i + views) of `a` to other samples of b, sorted; how many. */
static int64_t sorted_row(const gf_view_set *a, int64_t i, int views, const gf_view_set *b, double *out) {
    int64_t n = 0;
    for (int v = 0; v < views; v++)
        for (int64_t j = 0; j < b->n; j++)
            if (b->id[j] != a->id[i]) out[n++] = similarity(a, i + v, b, j);
    qsort(out, (size_t)n, sizeof *out, falling);
    return n;
}

/* A threshold near `wanted` that no similarity of row [n], sorted, is within 1e-5 of: rounding decides nothing. */
static float clear_of(const double *row, int64_t n, double wanted) {
    int64_t k = 0;
    while (k + 1 < n && (row[k] > wanted || row[k] - row[k + 1] < 2e-5)) k++;
    assert_true(k + 1 < n);
    return (float)(0.5 * (row[k] + row[k + 1]));
}

TEST(counts_are_those_of_plain_loops) {
    gf_view_set s = make_set(N, 5);
    static float theta[2 * N];
    static double row[N];
    static gf_fn_counts counts[2 * N], again[2 * N];
    for (int i = 0; i < 2 * N; i++) theta[i] = clear_of(row, sorted_row(&s, i % N, 1, &s, row), i < N ? 0.1 + 0.0003 * i : 0.25);
    assert_int_equal(gf_fn_count(&err, &s, theta, 2, ON(1), counts), GLOFND_OK);
    assert_int_equal(gf_fn_count(&err, &s, theta, 2, ON(3), again), GLOFND_OK);
    assert_memory_equal(counts, again, sizeof counts);
    for (int64_t i = 0; i < 2 * N; i++) {
        gf_fn_counts expected = {0};
        for (int64_t j = 0; j < N; j++) {
            if (s.id[j] == s.id[i % N]) continue;
            const int same = s.label[j] == s.label[i % N] && s.label[j] >= 0;
            const int above = similarity(&s, i % N, &s, j) > (double)theta[i];
            expected.pairs++, expected.same += same, expected.flagged += above, expected.hits += same && above;
        }
        assert_memory_equal(&counts[i], &expected, sizeof expected);
    }
    gf_view_set_free(&s);
}

/* Two anchors of two rows each: an anchor's rows are pooled first, 0/0 is 1, and F1 is of the means. */
TEST(means_are_the_authors) {
    const gf_fn_counts counts[] = {{10, 4, 3, 2}, {10, 4, 1, 1}, {10, 0, 0, 0}, {10, 0, 0, 0}};
    const gf_precision_recall q = gf_fn_precision_recall(counts, 2, 2);
    assert_int_equal(q.anchors, 2);
    assert_true(fabs(q.precision - (0.75 + 1.0) / 2) < 1e-15);
    assert_true(fabs(q.recall - (3.0 / 8.0 + 1.0) / 2) < 1e-15);
    assert_true(fabs(q.f1 - 2.0 * 0.875 * 0.6875 / (0.875 + 0.6875)) < 1e-15);
    assert_true(fabs(q.flagged - 0.1) < 1e-15);
    assert_true(q.pooled_precision == 0.75 && q.pooled_recall == 0.375 && fabs(q.pooled_f1 - 0.5) < 1e-15);
    const gf_precision_recall none = gf_fn_precision_recall(counts + 2, 1, 2);
    assert_true(none.precision == 1.0 && none.recall == 1.0 && isnan(none.pooled_precision) && isnan(none.pooled_recall));
}

/* NumPy's quantile of the sorted row. */
TEST(fnc_takes_the_quantile_of_the_batch) {
    gf_view_set s = make_set(130, 6);
    float theta[130], again[130];
    double row[260];
    const double alpha = 0.03;
    assert_int_equal(gf_fnc_thresholds(&err, &s, alpha, ON(2), theta), GLOFND_OK);
    assert_int_equal(gf_fnc_thresholds(&err, &s, alpha, ON(1), again), GLOFND_OK);
    assert_memory_equal(theta, again, sizeof theta);
    for (int64_t i = 0; i < s.n; i++) {
        const int64_t n = sorted_row(&s, i, 1, &s, row);
        const double place = alpha * (double)(n - 1), low = floor(place), part = place - low;
        assert_int_equal(n, 128);
        assert_true(fabs((double)theta[i] - (row[(int)low] * (1.0 - part) + row[(int)low + 1] * part)) < 1e-6);
    }
    gf_view_set_free(&s);
}

static void check_optimum(const gf_view_set *anchors, int views, const gf_view_set *pool, double alpha, int threads) {
    float *theta = malloc(sizeof *theta * (size_t)(anchors->n / views));
    double *row = malloc(sizeof *row * (size_t)(views * pool->n));
    assert_int_equal(gf_optimal_thresholds(&err, anchors, views, pool, alpha, ON(threads), theta), GLOFND_OK);
    for (int64_t k = 0; k < anchors->n / views; k++) {
        const int64_t n = sorted_row(anchors, k * views, views, pool, row), best = (int64_t)ceil(alpha * (double)n - 1e-9);
        assert_true(fabs((double)theta[k] - row[best - 1]) < 1e-6);
    }
    free(theta);
    free(row);
}

TEST(optimum_is_that_of_sorting) {
    gf_view_set s = make_set(N - 1, 7), pool = make_set(2501, 8); /* lists of 1024 overflow */
    check_optimum(&s, 1, &s, 0.01, 2);
    check_optimum(&s, 2, &s, 0.05, 3);
    check_optimum(&s, 2, &pool, 0.2, 2);
    check_optimum(&s, 2, &pool, 0.6, 1);
    float one[N];
    s.n = N - 2;
    assert_int_equal(gf_optimal_thresholds(&err, &s, 2, &pool, 0.2, ON(1), one), GLOFND_E_ARGUMENT);
    assert_int_equal(gf_optimal_thresholds(&err, &s, 1, &pool, 0.0, ON(1), one), GLOFND_E_OPTION);
    s.n = N - 1;
    s.z[5 * DIM + 3] = NAN;
    assert_int_equal(gf_optimal_thresholds(&err, &s, 2, &pool, 0.2, ON(1), one), GLOFND_E_NUMERIC);
    assert_non_null(strstr(err.text, "embedding 5 "));
    gf_view_set_free(&s);
    gf_view_set_free(&pool);
}

TEST(one_value_for_all_pairs) {
    gf_view_set s = make_set(N, 9);
    static float theta[N];
    static gf_fn_counts counts[N];
    for (int threads = 1; threads <= 2; threads++) {
        float single = 0.0f;
        assert_int_equal(gf_single_threshold(&err, &s, 0.05, ON(threads), &single), GLOFND_OK);
        for (int step = 0; step < 2; step++) { /* at most alpha above it; a step of the grid lower, more */
            for (int i = 0; i < N; i++) theta[i] = single - (float)step * 0x1p-16f;
            assert_int_equal(gf_fn_count(&err, &s, theta, 1, ON(threads), counts), GLOFND_OK);
            const double share = gf_fn_precision_recall(counts, N, 1).flagged;
            assert_true(step ? share > 0.05 : share <= 0.05);
        }
    }
    gf_view_set_free(&s);
}

/* One batch of two views, as the method itself sees it in a step of detector FNC: the same pairs, flags, precision and recall. */
static glofnd_stats step_of_fnc(const gf_view_set *s, double alpha) {
    const int64_t n = s->n / 2;
    float *h = malloc(sizeof *h * 4 * (size_t)(n * DIM)), *b = h + n * DIM, *grad = b + n * DIM;
    int64_t *id = malloc(sizeof *id * (size_t)n);
    int32_t *label = malloc(sizeof *label * (size_t)n);
    for (int64_t i = 0; i < n; i++) {
        memcpy(h + i * DIM, s->z + 2 * i * DIM, DIM * sizeof *h);
        memcpy(b + i * DIM, s->z + (2 * i + 1) * DIM, DIM * sizeof *h);
        id[i] = i, label[i] = s->label[2 * i];
    }
    glofnd_options o;
    glofnd_ctx *c;
    glofnd_store *store;
    glofnd_stats stats = {.size = sizeof stats};
    gf_method_options_init(&o);
    o.lambda_init = GLOFND_INIT_ONE;
    o.detector = GLOFND_DETECT_FNC, o.alpha = alpha, o.update_epoch = o.mask_epoch = 0;
    assert_int_equal(glofnd_ctx_create(&o, &c, NULL, 0), GLOFND_OK);
    const glofnd_store_spec spec = {.size = sizeof spec, .n = n};
    assert_int_equal(glofnd_store_create(c, &spec, &store), GLOFND_OK);
    const glofnd_batch q = {
        .size = sizeof q, .n = n, .dim = DIM, .a = h, .b = b, .id = id, .label = label, .want = GLOFND_WANT_QUALITY};
    assert_int_equal(glofnd_step(c, store, &q, grad, grad + n * DIM, &stats), GLOFND_OK);
    glofnd_store_free(store);
    glofnd_ctx_free(c);
    free(h);
    free(id);
    free(label);
    return stats;
}

TEST(a_batch_is_what_a_step_sees) {
    enum { BATCH = 45 };
    gf_view_set s = make_set(2 * BATCH + 2, 11); /* a sample more than a batch: it is left out */
    gf_precision_recall q[GF_FN_DETECTOR_COUNT];
    const gf_fn_comparison x = {.s = &s, .views = 2, .batch = BATCH, .alpha = 0.07, .job = {.threads = 2}};
    assert_int_equal(gf_fn_compare(&err, &x, q), GLOFND_OK);
    s.n = 2 * BATCH;
    const glofnd_stats stats = step_of_fnc(&s, 0.07);
    const gf_precision_recall *fnc = &q[GF_FN_FNC];
    assert_int_equal(q[GF_FN_GLOFND].anchors, 0);
    assert_int_equal(fnc->anchors, BATCH);
    assert_true(fabs(fnc->flagged - (double)stats.flagged / (double)stats.pairs) < 1e-12);
    assert_true(fabs(fnc->precision - stats.precision_per_anchor) < 1e-7 && fabs(fnc->recall - stats.recall_per_anchor) < 1e-7);
    assert_true(fabs(fnc->pooled_precision - stats.precision) < 1e-12);
    assert_true(fabs(fnc->pooled_recall - stats.recall) < 1e-12);
    gf_view_set_free(&s);
}

/* Over all pairs: learned thresholds that are the exact ones give the same; anchors that learned none flag nothing. */
TEST(learned_thresholds_are_used) {
    gf_view_set s = make_set(202, 12);
    float lambda[101];
    gf_precision_recall q[GF_FN_DETECTOR_COUNT];
    gf_fn_comparison x = {.s = &s, .views = 2, .alpha = 0.1, .lambda = lambda, .job = {.threads = 2}};
    assert_int_equal(gf_optimal_thresholds(&err, &s, 2, &s, 0.1, ON(1), lambda), GLOFND_OK);
    assert_int_equal(gf_fn_compare(&err, &x, q), GLOFND_OK);
    assert_memory_equal(&q[GF_FN_GLOFND], &q[GF_FN_EXACT], sizeof *q);
    assert_int_equal(q[GF_FN_FNC].anchors, 0);
    assert_true(fabs(q[GF_FN_EXACT].flagged - 39.0 / 400.0) < 1e-12); /* ceil(0.1 * 400) = 40, of which 39 are above */
    static gf_fn_counts counts[202];
    static float theta[202];
    float single;
    assert_int_equal(gf_single_threshold(&err, &s, 0.1, ON(1), &single), GLOFND_OK);
    for (int kind = 0; kind < 2; kind++) {
        for (int i = 0; i < 202; i++) theta[i] = kind ? single : lambda[i / 2];
        assert_int_equal(gf_fn_count(&err, &s, theta, 1, ON(1), counts), GLOFND_OK);
        const gf_precision_recall expected = gf_fn_precision_recall(counts, 101, 2);
        assert_memory_equal(&q[kind ? GF_FN_SINGLE : GF_FN_EXACT], &expected, sizeof expected);
    }
    for (int i = 0; i < 101; i++) lambda[i] = NAN;
    assert_int_equal(gf_fn_compare(&err, &x, q), GLOFND_OK);
    assert_true(q[GF_FN_GLOFND].flagged == 0.0 && q[GF_FN_GLOFND].precision == 1.0);
    for (int i = 0; i < 101; i++) lambda[i] = i < 50 ? 1.0f : -1.0f;
    x.batch = 50; /* two batches, the one with nothing flagged, the other with everything */
    assert_int_equal(gf_fn_compare(&err, &x, q), GLOFND_OK);
    assert_true(q[GF_FN_GLOFND].anchors == 100 && q[GF_FN_GLOFND].flagged == 0.5 && q[GF_FN_FNC].anchors == 100);
    x.batch = 102;
    assert_int_equal(gf_fn_compare(&err, &x, q), GLOFND_E_ARGUMENT);
    gf_view_set_free(&s);
}

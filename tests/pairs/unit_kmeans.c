/* unit_kmeans.c - k-means by cosine similarity: clusters that are apart are found, groups and confidences are those of a plain
 * float64 computation from the same centroids, threads give the same bits, no group stays empty, wrong arguments are refused. */
#include "support/test.h"

#include "pairs/kmeans.h"
#include "support/random.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { N = 600, DIM = 19 };

static const gf_sweep_job ONE = {.threads = 1};

/* Vectors of random lengths around one of `clusters` directions. */
static void draw(float *x, int64_t n, int clusters, double noise) {
    rng g = {42};
    double *centre = malloc(sizeof *centre * (size_t)clusters * DIM);
    assert_non_null(centre);
    for (int i = 0; i < clusters * DIM; i++) centre[i] = rng_normal(&g);
    for (int64_t i = 0; i < n; i++) {
        const double length = 0.1 + rng_uniform(&g);
        for (int j = 0; j < DIM; j++)
            x[i * DIM + j] = (float)(length * (centre[i % clusters * DIM + j] + noise * rng_normal(&g)));
    }
    free(centre);
}

static void run(const gf_kmeans *k, const gf_vectors *v, const gf_sweep_job *job, int32_t *of, float *confidence) {
    gf_error err = {""};
    if (gf_kmeans_run(&err, k, v, job, of, confidence) != GLOFND_OK) fail_msg("%s", err.text);
}

/* With more groups than clusters, no group has samples of two of them. */
TEST(clusters_are_found) {
    static float x[N * DIM], confidence[N];
    static int32_t of[N];
    draw(x, N, 6, 0.05);
    for (uint64_t seed = 0; seed < 5; seed++) {
        const gf_kmeans k = {.groups = 40, .iterations = 20, .seed = seed, .tau = 0.1};
        int cluster[40];
        memset(cluster, -1, sizeof cluster);
        run(&k, &(gf_vectors){.x = x, .n = N, .dim = DIM}, &ONE, of, confidence);
        for (int i = 0; i < N; i++) {
            assert_in_range(of[i], 0, 39);
            if (cluster[of[i]] < 0) cluster[of[i]] = i % 6;
            assert_int_equal(cluster[of[i]], i % 6);
        }
        int used = 0;
        for (int g = 0; g < 40; g++) used += cluster[g] >= 0;
        assert_true(used >= 36); /* empty ones were filled, and may at most lose their samples again in the last round */
    }
}

static double similarity(const double *c, const float *x) {
    double xy = 0, xx = 0, yy = 0;
    for (int j = 0; j < DIM; j++) xy += c[j] * (double)x[j], xx += c[j] * c[j], yy += (double)x[j] * (double)x[j];
    return xy / sqrt(xx * yy);
}

/* At rest: the centroids follow from the groups, so the groups and their confidences follow from them, in float64. */
TEST(groups_are_those_of_their_centroids) {
    enum { GROUPS = 7 };
    static float x[N * DIM], confidence[N];
    static int32_t of[N], row[N];
    double centre[GROUPS][DIM] = {{0}};
    draw(x, N, 5, 0.7);
    for (int i = 0; i < N; i++) row[i] = N - 1 - i; /* a selection in another order */
    const gf_kmeans k = {.groups = GROUPS, .iterations = 500, .seed = 3, .tau = 0.2};
    run(&k, &(gf_vectors){.x = x, .row = row, .n = N, .dim = DIM}, &ONE, of, confidence);
    for (int i = 0; i < N; i++) {
        double square = 0;
        for (int j = 0; j < DIM; j++) square += (double)x[row[i] * DIM + j] * (double)x[row[i] * DIM + j];
        for (int j = 0; j < DIM; j++) centre[of[i]][j] += (double)x[row[i] * DIM + j] / sqrt(square);
    }
    for (int i = 0; i < N; i++) {
        double best = -2, sum = 0;
        int at = -1;
        for (int g = 0; g < GROUPS; g++) {
            const double s = similarity(centre[g], x + row[i] * DIM);
            sum += exp(s / k.tau);
            if (s > best) best = s, at = g;
        }
        assert_int_equal(of[i], at);
        assert_true(fabs((double)confidence[i] - exp(best / k.tau) / sum) < 1e-5);
    }
}

TEST(threads_give_the_same_bits) {
    static float x[N * DIM], confidence[2][N];
    static int32_t of[2][N];
    draw(x, N, 30, 1.0);
    const gf_kmeans k = {.groups = 50, .iterations = 20, .seed = 9, .tau = 0.1};
    const gf_vectors v = {.x = x, .n = N, .dim = DIM};
    run(&k, &v, &ONE, of[0], confidence[0]);
    for (int threads = 2; threads < 6; threads++) {
        run(&k, &v, &(gf_sweep_job){.threads = threads}, of[1], confidence[1]);
        assert_memory_equal(of[0], of[1], sizeof of[0]);
        assert_memory_equal(confidence[0], confidence[1], sizeof confidence[0]);
    }
}

/* Equal embeddings: one may stand alone in a group, but every group must have its own. */
TEST(equal_embeddings_are_no_trouble) {
    static float x[40 * DIM], confidence[40];
    int32_t of[40];
    for (int i = 0; i < 40 * DIM; i++) x[i] = i % DIM == 0 ? 2.0f : 0.0f;
    const gf_kmeans k = {.groups = 8, .iterations = 3, .seed = 1, .tau = 0.1};
    run(&k, &(gf_vectors){.x = x, .n = 40, .dim = DIM}, &ONE, of, confidence);
    for (int i = 0; i < 40; i++) assert_in_range(of[i], 0, 7);
    memset(x, 0, sizeof x); /* dead units */
    run(&k, &(gf_vectors){.x = x, .n = 40, .dim = DIM}, &ONE, of, confidence);
    for (int i = 0; i < 40; i++) assert_true(of[i] == 0 && fabsf(confidence[i] - 0.125f) < 1e-6f);
}

TEST(the_most_confident_are_accepted) {
    const float confidence[5] = {0.2f, 0.9f, 0.5f, 0.5f, 0.1f};
    gf_error err = {""};
    for (int64_t accepted = 0; accepted <= 6; accepted++) {
        int32_t of[5] = {1, 2, 3, 4, 5};
        static const int rank[5] = {3, 0, 1, 2, 4}; /* ties: the first */
        assert_int_equal(gf_kmeans_accept(&err, confidence, 5, accepted, of), GLOFND_OK);
        for (int i = 0; i < 5; i++) assert_int_equal(of[i], rank[i] < accepted ? i + 1 : -1);
    }
}

TEST(wrong_arguments_are_refused) {
    static float x[4 * DIM], confidence[4];
    int32_t of[4];
    gf_error err = {""};
    const gf_vectors v = {.x = x, .n = 4, .dim = DIM};
    const gf_kmeans wrong[] = {{0, 1, 0, 0.1}, {5, 1, 0, 0.1}, {2, 0, 0, 0.1}, {2, 1, 0, 0.0}};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        assert_int_equal(gf_kmeans_run(&err, &wrong[i], &v, &ONE, of, confidence), GLOFND_E_ARGUMENT);
    x[DIM + 3] = NAN;
    assert_int_equal(gf_kmeans_run(&err, &(gf_kmeans){2, 1, 0, 0.1}, &v, &ONE, of, confidence), GLOFND_E_NUMERIC);
}

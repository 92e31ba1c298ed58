/* cuda_kmeans.c - k-means on a GPU, against the CPU: the same groups, confidences to the last bit but one, for sizes that fill no
 * tile, selections of rows, equal embeddings and empty groups; the same bits twice; what is refused. */
#include "support/test.h"

#include "support/cuda_main.h"

#include "glofnd.h"
#include "kmeans/kmeans_cuda.h"
#include "support/random.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct problem {
    float *x;     /* [n][dim] */
    int32_t *row; /* [n] */
    gf_vectors v;
    int32_t *of[2];
    float *confidence[2];
} problem;

static void *array(int64_t count, size_t size) {
    void *p = calloc((size_t)count, size);
    if (!p) abort();
    return p;
}

/* Vectors of random lengths around `clusters` directions. chosen: every second one, from the last to the first. */
static problem make(int64_t n, int64_t dim, int clusters, double noise, int chosen) {
    const int64_t all = chosen ? 2 * n : n;
    problem p = {.x = array(all * dim, sizeof(float)), .row = array(n, sizeof(int32_t))};
    double *centre = array(clusters * dim, sizeof *centre);
    rng g = {(uint64_t)(n * 31 + dim)};
    for (int64_t i = 0; i < clusters * dim; i++) centre[i] = rng_normal(&g);
    for (int64_t i = 0; i < all; i++) {
        const double length = 0.1 + rng_uniform(&g);
        for (int64_t d = 0; d < dim; d++)
            p.x[i * dim + d] = (float)(length * (centre[i % clusters * dim + d] + noise * rng_normal(&g)));
    }
    for (int64_t i = 0; i < n; i++) p.row[i] = (int32_t)(2 * (n - 1 - i) + 1);
    p.v = (gf_vectors){.x = p.x, .row = chosen ? p.row : NULL, .n = n, .dim = dim};
    for (int i = 0; i < 2; i++) p.of[i] = array(n, sizeof(int32_t)), p.confidence[i] = array(n, sizeof(float));
    free(centre);
    return p;
}

static void drop(problem *p) {
    free(p->x), free(p->row);
    for (int i = 0; i < 2; i++) free(p->of[i]), free(p->confidence[i]);
}

static void on_gpu(const gf_kmeans *k, const problem *p, int place) {
    gf_error err = {""};
    if (gf_kmeans_cuda(&err, k, &p->v, p->of[place], p->confidence[place]) != GLOFND_OK) fail_msg("%s", err.text);
}

static void on_cpu(const gf_kmeans *k, const problem *p, int place) {
    const gf_sweep_job job = {.threads = 0};
    gf_error err = {""};
    if (gf_kmeans_run(&err, k, &p->v, &job, p->of[place], p->confidence[place]) != GLOFND_OK) fail_msg("%s", err.text);
}

static void expect_equal(const gf_kmeans *k, const problem *p) {
    for (int64_t i = 0; i < p->v.n; i++) {
        const double got = (double)p->confidence[0][i], want = (double)p->confidence[1][i];
        if (p->of[0][i] != p->of[1][i])
            fail_msg("%lld x %lld, %lld groups: embedding %lld is in group %d, expected %d", (long long)p->v.n,
                     (long long)p->v.dim, (long long)k->groups, (long long)i, p->of[0][i], p->of[1][i]);
        if (!(fabs(got - want) <= 0x1p-23 * want))
            fail_msg("%lld x %lld, %lld groups: confidence of embedding %lld is %.9g, expected %.9g", (long long)p->v.n,
                     (long long)p->v.dim, (long long)k->groups, (long long)i, got, want);
    }
}

static void check(int64_t n, int64_t dim, int64_t groups, double noise, int chosen) {
    problem p = make(n, dim, 9, noise, chosen);
    const gf_kmeans k = {.groups = groups, .iterations = 12, .seed = (uint64_t)groups, .tau = 0.1};
    on_gpu(&k, &p, 0);
    on_cpu(&k, &p, 1);
    expect_equal(&k, &p);
    drop(&p);
}

TEST(small_sizes_agree_with_the_cpu) {
    check(1, 1, 1, 1.0, 0);
    check(2, 3, 2, 1.0, 0);
    check(70, 19, 5, 0.3, 0);
    check(200, 16, 130, 1.0, 1);
    check(300, 33, 300, 1.0, 0);
}

TEST(sizes_agree_with_the_cpu) {
    static const int64_t SIZE[][3] = {{1000, 128, 10}, {1500, 64, 129}, {3000, 100, 300}, {5000, 128, 1000}, {2000, 515, 70}};
    for (size_t i = 0; i < sizeof SIZE / sizeof *SIZE; i++)
        for (int chosen = 0; chosen < 2; chosen++) {
            check(SIZE[i][0], SIZE[i][1], SIZE[i][2], 0.2, chosen); /* clusters that are apart */
            check(SIZE[i][0], SIZE[i][1], SIZE[i][2], 3.0, chosen); /* none to speak of */
        }
}

/* Many equal embeddings: most centroids begin at one place, and stay empty until they get a member. */
TEST(small_sets_of_equal_embeddings_agree) {
    for (int kinds = 1; kinds <= 7; kinds += 3) {
        problem p = make(150, 11, kinds, 0.0, 0);
        for (int64_t i = 0; i < 150 * 11; i++) p.x[i] = p.x[i % (kinds * 11)]; /* lengths, too */
        if (kinds == 1) memset(p.x, 0, sizeof(float) * 150 * 11);
        for (int64_t groups = 2; groups <= 100; groups += 49) {
            const gf_kmeans k = {.groups = groups, .iterations = 5, .seed = 3, .tau = 0.2};
            on_gpu(&k, &p, 0);
            on_cpu(&k, &p, 1);
            expect_equal(&k, &p);
        }
        drop(&p);
    }
}

TEST(two_runs_give_the_same_bits) {
    problem p = make(20000, 128, 50, 1.5, 1);
    const gf_kmeans k = {.groups = 333, .iterations = 8, .seed = 1, .tau = 0.1};
    on_gpu(&k, &p, 0);
    on_gpu(&k, &p, 1);
    assert_memory_equal(p.of[0], p.of[1], sizeof(int32_t) * 20000);
    assert_memory_equal(p.confidence[0], p.confidence[1], sizeof(float) * 20000);
    drop(&p);
}

TEST(what_cannot_be_grouped_is_refused) {
    problem p = make(50, 8, 3, 1.0, 1);
    gf_error err = {""};
    gf_kmeans k = {.groups = 51, .iterations = 3, .tau = 0.1};
    assert_int_equal(gf_kmeans_cuda(&err, &k, &p.v, p.of[0], p.confidence[0]), GLOFND_E_ARGUMENT);
    k.groups = 5, k.tau = 0.0;
    assert_int_equal(gf_kmeans_cuda(&err, &k, &p.v, p.of[0], p.confidence[0]), GLOFND_E_ARGUMENT);
    k.tau = 0.1;
    for (int what = 0; what < 2; what++) {
        p.x[p.row[17] * 8 + 3] = what ? INFINITY : NAN;
        assert_int_equal(gf_kmeans_cuda(&err, &k, &p.v, p.of[0], p.confidence[0]), GLOFND_E_NUMERIC);
        if (!strstr(err.text, "embedding 17 is not finite")) fail_msg("%s", err.text);
    }
    drop(&p);
}

TEST_NEEDS(no_cuda_device)

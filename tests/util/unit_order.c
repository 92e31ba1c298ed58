/* unit_order.c - order statistics against a full sort: every rank, ties, tiny arrays. */
#include "support/test.h"

#include "support/random.h"
#include "util/array.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

static int descending(const void *a, const void *b) {
    const float x = *(const float *)a, y = *(const float *)b;
    return (x < y) - (x > y);
}

TEST(every_rank_of_many_arrays) {
    rng r = {3};
    float v[97], sorted[97], work[97];
    for (int round = 0; round < 300; round++) {
        const int n = 1 + (int)(96.0 * rng_uniform(&r)), levels = round % 3 == 0 ? 3 : 1000000; /* a third are full of ties */
        for (int i = 0; i < n; i++) v[i] = floorf((float)(levels * rng_uniform(&r))) - 1.0f;
        memcpy(sorted, v, sizeof v);
        qsort(sorted, (size_t)n, sizeof *sorted, descending);
        for (int k = 1; k <= n; k++) {
            memcpy(work, v, sizeof v);
            assert_true(gf_kth_largest(work, n, k) == sorted[k - 1]);
            for (int i = 0; i < k; i++) assert_true(work[i] >= sorted[k - 1]);
        }
    }
}

/* Values of numpy.quantile([0.1, 0.4, 0.2, 0.9, 0.5], q) for q = 1 - alpha. */
TEST(quantile_interpolates_as_numpy) {
    const struct {
        double alpha, value;
    } known[] = {{0.05, 0.82}, {0.1, 0.74}, {0.25, 0.5}, {0.3, 0.48}, {0.5, 0.4}, {0.99, 0.104}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        float v[5] = {0.1f, 0.4f, 0.2f, 0.9f, 0.5f};
        assert_true(fabs((double)gf_quantile(v, 5, known[i].alpha) - known[i].value) < 1e-6);
    }
    float one[1] = {0.7f};
    assert_true(gf_quantile(one, 1, 0.3) == 0.7f);
}

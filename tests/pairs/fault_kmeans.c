/* fault_kmeans.c - every allocation of k-means fails once: E_MEMORY, and no leak (sanitizer builds). */
#include "support/test.h"

#include "pairs/kmeans.h"
#include "support/faults.h"
#include "support/random.h"
#include <stdlib.h>

enum { N = 50, DIM = 7 };

TEST(a_failed_allocation_is_reported) {
    static float x[N * DIM], confidence[N];
    static int32_t of[N];
    rng g = {5};
    for (int i = 0; i < N * DIM; i++) x[i] = i < 20 * DIM ? (float)(i % DIM == 0) : (float)rng_normal(&g); /* 20 are equal */
    const gf_kmeans k = {.groups = 9, .iterations = 4, .seed = 2, .tau = 0.1};
    const gf_vectors v = {.x = x, .n = N, .dim = DIM};
    for (long fault = 0;; fault++) {
        gf_error err = {""};
        faults_at(fault);
        glofnd_status status = gf_kmeans_run(&err, &k, &v, &(gf_sweep_job){.threads = 1}, of, confidence);
        if (status == GLOFND_OK) status = gf_kmeans_accept(&err, confidence, N, N / 2, of);
        if (!faults_end()) {
            assert_int_equal(status, GLOFND_OK);
            assert_true(fault > 8);
            return;
        }
        assert_int_equal(status, GLOFND_E_MEMORY);
        assert_true(err.text[0] != 0);
    }
}

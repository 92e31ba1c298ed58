/* unit_components.c - joins of many threads in one forest give the components of joins one after the other. */
#include "support/test.h"

#include "util/components.h"
#include "util/parallel.h"
#include "util/rng.h"
#include <stdlib.h>

enum { NODES = 20000, CHUNK = 64 };

typedef struct edges {
    int32_t *root;
    uint64_t seed;
    int64_t count;
} edges;

/* Edge e; most connect neighbours in a random order, so that the forest is deep. */
static void ends(const edges *x, int64_t e, int32_t *a, int32_t *b) {
    const int64_t at = gf_permute(x->seed, 1, NODES, e % NODES);
    *a = (int32_t)at, *b = (int32_t)(e % 3 ? (at + 1) % NODES : gf_permute(x->seed, 2, NODES, e % NODES));
}

static void join_chunk(void *arg, int64_t task, int thread) {
    const edges *x = arg;
    (void)thread;
    for (int64_t e = task * CHUNK; e < (task + 1) * CHUNK && e < x->count; e++) {
        int32_t a, b;
        ends(x, e, &a, &b);
        gf_components_join_shared(x->root, a, b);
    }
}

TEST(threads_join_in_one_forest) {
    int32_t *shared = malloc(NODES * sizeof *shared), *plain = malloc(NODES * sizeof *plain);
    for (uint64_t seed = 0; seed < 20; seed++) {
        const edges x = {shared, seed, NODES / (int64_t)(1 + seed % 4)};
        gf_components_init(shared, NODES);
        gf_components_init(plain, NODES);
        gf_parallel(8, (x.count + CHUNK - 1) / CHUNK, join_chunk, (void *)&x);
        for (int64_t e = 0; e < x.count; e++) {
            int32_t a, b;
            ends(&x, e, &a, &b);
            gf_components_join(plain, a, b);
        }
        gf_components_flatten(shared, NODES);
        gf_components_flatten(plain, NODES);
        assert_memory_equal(shared, plain, NODES * sizeof *plain);
    }
    free(shared);
    free(plain);
}

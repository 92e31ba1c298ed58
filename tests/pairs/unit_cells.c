/* unit_cells.c - duplicates by cells are those of the search over all pairs, to the bit, for any similarity; near 1 few pairs are
 * compared. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "pairs/cells.h"
#include "pairs/pairs_search.h"
#include "support/random.h"

static gf_error err;

/* Clusters of 40 rows, with copies and rows that are close to others. */
static float *make_rows(int64_t n, int64_t dim, uint64_t seed) {
    float *x = malloc((size_t)(n * dim) * sizeof *x);
    rng g = {seed};
    for (int64_t i = 0; i < n; i++)
        for (int64_t k = 0; k < dim; k++) {
            const float own = (float)rng_normal(&g);
            x[i * dim + k] = i % 40 == 0 ? own : x[(i - i % 40) * dim + k] + 0.5f * own;
        }
    for (int64_t i = 7; i < n; i += 11)
        for (int64_t k = 0; k < dim; k++)
            x[i * dim + k] = 2.0f * x[(i * 5 % n) * dim + k] + (i % 2 ? 0.02f * (float)rng_normal(&g) : 0.0f);
    return x;
}

static void search(const gf_pairs_search *p, const gf_vectors *rows, float dup, int threads, gf_pairs_found *f) {
    void *state = NULL;
    const gf_pairs_task t = {.rank = 1, .top = 6, .dup = dup, .memory = (size_t)1 << 30, .threads = threads};
    if (p->open(&err, rows, threads, &state) != GLOFND_OK) fail_msg("%s", err.text);
    assert_int_equal(gf_pairs_found_alloc(&err, f, rows->n, t.top), GLOFND_OK);
    if (p->find(&err, state, &t, f) != GLOFND_OK) fail_msg("%s", err.text);
    p->close(state);
}

static void same_duplicates(const gf_pairs_found *a, const gf_pairs_found *b, float dup) {
    assert_memory_equal(a->copies, b->copies, (size_t)a->n * sizeof *a->copies);
    assert_memory_equal(a->copy_root, b->copy_root, (size_t)a->n * sizeof *a->copy_root);
    for (int64_t i = 0; i < a->n * a->top; i++) {
        const int listed = a->other[i] >= 0 && a->similarity[i] >= dup;
        assert_int_equal(b->other[i], listed ? a->other[i] : -1);
        if (listed) assert_true(a->similarity[i] == b->similarity[i]);
        else assert_true(isnan(b->similarity[i]));
    }
}

static void duplicates_are_those_of_all_pairs(void **state) {
    static const int64_t sizes[][2] = {{1, 3}, {2, 5}, {63, 8}, {800, 24}, {2500, 3}, {1999, 70}};
    static const float dups[] = {0.9999f, 0.98f, 0.9f, 0.5f, -0.2f, 3.0f};
    (void)state;
    for (size_t k = 1; k < sizeof sizes / sizeof *sizes; k++) {
        float *x = make_rows(sizes[k][0], sizes[k][1], 5 + k);
        const gf_vectors rows = {.x = x, .n = sizes[k][0], .dim = sizes[k][1]};
        for (size_t d = 0; d < sizeof dups / sizeof *dups; d++) {
            gf_pairs_found all, cells;
            search(&gf_pairs_search_cpu, &rows, dups[d], 2, &all);
            search(&gf_pairs_search_cells, &rows, dups[d], 1 + (int)d % 3, &cells);
            same_duplicates(&all, &cells, dups[d]);
            assert_true(cells.compared <= gf_pad(rows.n) * gf_pad(rows.n));
            for (int64_t i = 0; i < rows.n; i++)
                assert_true(isinf(cells.lambda[i]) && cells.above[i] == 0 && cells.mutual_root[i] == i);
            gf_pairs_found_free(&all);
            gf_pairs_found_free(&cells);
        }
        free(x);
    }
}

static void near_one_few_pairs_are_compared(void **state) {
    enum { N = 6000, DIM = 32 };
    float *x = make_rows(N, DIM, 1);
    const gf_vectors rows = {.x = x, .n = N, .dim = DIM};
    gf_pairs_found tight, loose;
    (void)state;
    search(&gf_pairs_search_cells, &rows, 0.99f, 2, &tight);
    search(&gf_pairs_search_cells, &rows, 0.2f, 2, &loose);
    assert_true(tight.cells > 50);
    assert_true(tight.compared < (int64_t)N * N / 5);
    assert_true(loose.compared > tight.compared);
    gf_pairs_found_free(&tight);
    gf_pairs_found_free(&loose);
    free(x);
}

static void cells_hold_their_promises(void **state) {
    enum { N = 700, DIM = 12 };
    float *x = make_rows(N, DIM, 3);
    const gf_vectors rows = {.x = x, .n = N, .dim = DIM};
    const gf_sweep_job job = {.threads = 2};
    gf_cells c;
    uint8_t seen[N] = {0};
    (void)state;
    assert_int_equal(gf_cells_make(&err, &rows, 9, &job, &c), GLOFND_OK);
    assert_int_equal(c.start[0], 0);
    assert_int_equal(c.start[9], N);
    for (int64_t i = 0; i < N; i++) seen[c.order[i]]++;
    for (int64_t i = 0; i < N; i++) assert_int_equal(seen[i], 1);
    for (int k = 0; k < 9; k++)
        for (int64_t i = c.start[k] + 1; i < c.start[k + 1]; i++) assert_true(c.angle[i - 1] <= c.angle[i]);
    gf_cells_free(&c);
    free(x);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(duplicates_are_those_of_all_pairs),
        cmocka_unit_test(near_one_few_pairs_are_compared),
        cmocka_unit_test(cells_hold_their_promises),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

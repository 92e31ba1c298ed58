/* unit_cells.c - duplicates by cells are those of the search over all pairs, to the bit, for any similarity; near 1 few pairs are
 * compared. */
#include "support/test.h"

#include "pairs/cells.h"
#include "support/pair_rows.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static gf_error err;

/* Clusters of 40 rows, with copies and rows that are close to others. */
static float *make_rows(int64_t n, int64_t dim, uint64_t seed) {
    rng g = {seed};
    float *x = rows_in_clusters(&g, n, dim, 0.5f);
    for (int64_t i = 7; i < n; i += 11)
        for (int64_t k = 0; k < dim; k++)
            x[i * dim + k] = 2.0f * x[(i * 5 % n) * dim + k] + (i % 2 ? 0.02f * (float)rng_normal(&g) : 0.0f);
    return x;
}

static void search(const gf_pairs_search *p, const gf_vectors *rows, float dup, int threads, gf_pairs_found *f) {
    const gf_pairs_task t = {.rank = 1, .top = 6, .dup = dup, .memory = (size_t)1 << 30, .threads = threads};
    search_pairs(p, rows, &t, f);
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

TEST(duplicates_are_those_of_all_pairs) {
    static const int64_t sizes[][2] = {{1, 3}, {2, 5}, {63, 8}, {800, 24}, {2500, 3}, {1999, 70}};
    static const float dups[] = {0.9999f, 0.98f, 0.9f, 0.5f, -0.2f, 3.0f};
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

/* Noise in many dimensions, whose groups are much alike: near copies look into other groups than their originals. */
TEST(near_copies_across_groups_are_found) {
    enum { N = 12000, DIM = 20 };
    float *x = rows_with_copies(&(rng){8}, N, DIM, 0.004f);
    const gf_vectors rows = {.x = x, .n = N, .dim = DIM};
    gf_pairs_found all, cells;
    search(&gf_pairs_search_cpu, &rows, 0.99998f, 2, &all);
    search(&gf_pairs_search_cells, &rows, 0.99998f, 2, &cells);
    same_duplicates(&all, &cells, 0.99998f);
    assert_true(cells.compared < (int64_t)N * N / 4);
    gf_pairs_found_free(&all);
    gf_pairs_found_free(&cells);
    free(x);
}

TEST(near_one_few_pairs_are_compared) {
    enum { N = 6000, DIM = 32 };
    float *x = make_rows(N, DIM, 1);
    const gf_vectors rows = {.x = x, .n = N, .dim = DIM};
    gf_pairs_found tight, loose;
    search(&gf_pairs_search_cells, &rows, 0.99f, 2, &tight);
    search(&gf_pairs_search_cells, &rows, 0.2f, 2, &loose);
    assert_true(tight.cells > 50);
    assert_true(tight.compared < (int64_t)N * N / 5);
    assert_true(loose.compared > tight.compared);
    gf_pairs_found_free(&tight);
    gf_pairs_found_free(&loose);
    free(x);
}

static void probe(const gf_vectors *rows, int64_t cells, int threads, const int32_t *label, gf_pairs_found *f) {
    const gf_pairs_search *p = cells ? &gf_pairs_search_cells : &gf_pairs_search_cpu;
    const gf_pairs_task t = {
        .rank = 9, .top = 9, .dup = 0.95f, .label = label, .probe = cells, .memory = (size_t)1 << 30, .threads = threads};
    search_pairs(p, rows, &t, f);
}

#define SAME(field, count) assert_memory_equal(a->field, b->field, (size_t)(count) * sizeof *a->field)

static void same_found(const gf_pairs_found *a, const gf_pairs_found *b) {
    SAME(lambda, a->n), SAME(above, a->n), SAME(mutual, a->n), SAME(hits, a->n), SAME(copies, a->n), SAME(mutual_root, a->n);
    SAME(copy_root, a->n), SAME(other, a->n * a->top), SAME(similarity, a->n * a->top);
}

/* Of the 8 most similar ones of every anchor, those that the other result lists. */
static int64_t count_recalled(const gf_pairs_found *exact, const gf_pairs_found *f) {
    int64_t found = 0;
    for (int64_t i = 0; i < f->n; i++)
        for (int k = 0; k < 8; k++)
            for (int m = 0; m < 9; m++) found += exact->other[i * 9 + k] == f->other[i * 9 + m];
    return found;
}

TEST(probed_cells_are_approximate_and_say_so) {
    enum { N = 1010, DIM = 20 };
    float *x = make_rows(N, DIM, 2);
    const gf_vectors rows = {.x = x, .n = N, .dim = DIM};
    int32_t label[N];
    gf_pairs_found exact, all, some, again;
    for (int i = 0; i < N; i++) label[i] = i % 9 ? i / 40 : -1;
    probe(&rows, 0, 2, label, &exact);
    probe(&rows, 65536, 2, label, &all); /* as many as there are */
    same_found(&exact, &all);
    assert_int_equal(all.recalled, all.wanted);
    probe(&rows, 1, 1, label, &some);
    probe(&rows, 1, 3, label, &again);
    same_found(&some, &again);
    assert_memory_equal(some.copies, exact.copies, sizeof *some.copies * N);
    assert_memory_equal(some.copy_root, exact.copy_root, sizeof *some.copy_root * N);
    assert_int_equal(some.sampled, N); /* 32 panels */
    assert_int_equal(some.wanted, 8 * N);
    assert_int_equal(some.recalled, count_recalled(&exact, &some));
    assert_true(some.recalled < some.wanted && some.recalled > some.wanted / 10);
    int64_t mutual = 0;
    for (int i = 0; i < N; i++) mutual += some.mutual[i];
    assert_int_equal(mutual % 2, 0); /* both ends count */
    gf_pairs_found_free(&exact);
    gf_pairs_found_free(&all);
    gf_pairs_found_free(&some);
    gf_pairs_found_free(&again);
    free(x);
}

/* The rows at places i and j are in one cell. */
static int is_compared(const gf_cells *c, int64_t i, int64_t j) {
    for (int64_t k = 0; k < c->count; k++)
        if (c->start[k] <= i && i < c->start[k + 1]) return c->start[k] <= j && j < c->start[k + 1];
    return 0;
}

/* One cell, and no limit for duplicates: nothing but the own cell is looked at. */
TEST(one_cell_is_the_own_one) {
    enum { N = 1500, DIM = 16, TOP = 5 };
    float *x = make_rows(N, DIM, 4);
    const gf_vectors rows = {.x = x, .n = N, .dim = DIM};
    const gf_sweep_job job = {.threads = 2};
    const gf_pairs_task t = {.rank = TOP, .top = TOP, .dup = 3.0f, .probe = 1, .memory = (size_t)1 << 30, .threads = 2};
    gf_pairs_found all, some;
    gf_cells c;
    assert_int_equal(gf_cells_make(&err, &rows, 0, &job, &c), GLOFND_OK);
    search_pairs(&gf_pairs_search_cells, &rows, &t, &some);
    search(&gf_pairs_search_cpu, &rows, 3.0f, 2, &all);
    int64_t kept = 0, compared = 0;
    for (int64_t i = 0; i < N; i++) {
        int64_t next = 0; /* what the whole search lists, less what was not compared */
        int32_t place[N];
        for (int64_t k = 0; k < N; k++) place[c.order[k]] = (int32_t)k;
        for (int64_t j = 0; j < N; j++) compared += is_compared(&c, place[i], j);
        for (int64_t k = 0; k < all.top && next < TOP; k++) {
            const int32_t other = all.other[i * all.top + k];
            if (!is_compared(&c, place[i], place[other])) continue;
            assert_int_equal(some.other[i * TOP + next], other);
            next++, kept++;
        }
    }
    assert_true(c.count > 10 && kept > N);
    assert_int_equal(some.compared, compared);
    gf_cells_free(&c);
    gf_pairs_found_free(&all);
    gf_pairs_found_free(&some);
    free(x);
}

TEST(cells_hold_their_promises) {
    enum { N = 700, DIM = 12 };
    float *x = make_rows(N, DIM, 3);
    const gf_vectors rows = {.x = x, .n = N, .dim = DIM};
    const gf_sweep_job job = {.threads = 2};
    gf_cells c;
    uint8_t seen[N] = {0};
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

/* unit_select.c - order statistics of rows: from lists of candidates as from whole rows, bit by bit. */
#include "support/test.h"

#include "cpu/cpu_passes.h"
#include "cpu/kernels/cpu_kernels.h"
#include "support/random.h"
#include "util/array.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const char *const isas[] = {"base", "avx2", "avx512", "neon"};

/* ---- one list ---- */

static void check_between(const gf_tile_ops *ops, const float *v, int64_t n, int64_t best, double fraction, const char *isa) {
    float copy[600];
    int64_t above = -1, want_above = 0;
    memcpy(copy, v, sizeof *v * (size_t)n);
    const float want = gf_between(copy, n, best, fraction), got = ops->between(v, n, best, fraction, &above);
    const float value = gf_kth_largest(copy, n, best);
    for (int64_t i = 0; i < n; i++) want_above += v[i] > value;
    if (got != want || above != want_above)
        fail_msg("%s: n = %d, best = %d: %.9g, %d above, not %.9g, %d", isa, (int)n, (int)best, (double)got, (int)above,
                 (double)want, (int)want_above);
}

TEST(between_is_that_of_a_sort) {
    static const int sizes[] = {1, 2, 3, 15, 16, 17, 31, 64, 100, 257, 600};
    static float v[600];
    for (size_t k = 0; k < sizeof isas / sizeof *isas; k++) {
        const gf_cpu_kernels *kernels = gf_cpu_kernels_find(isas[k]);
        if (!kernels) continue;
        for (int kind = 0; kind < 5; kind++)
            for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
                rng r = {(uint64_t)(kind * 100 + sizes[s])};
                const int n = sizes[s];
                for (int i = 0; i < n; i++) {
                    const double x = 2.0 * rng_uniform(&r) - 1.0;
                    v[i] = kind == 0   ? (float)x
                           : kind == 1 ? (float)floor(4.0 * x) * 0.25f          /* many equal ones, zeros among them */
                           : kind == 2 ? 0.5f                                   /* all equal */
                           : kind == 3 ? (float)(x * 1e-38)                     /* denormal */
                                       : nextafterf(0.7f, x > 0 ? 1.0f : 0.0f); /* neighbours */
                }
                for (int best = 1; best <= n; best += 1 + n / 7)
                    check_between(kernels->tile, v, n, best, best % 3 * 0.37, isas[k]);
                check_between(kernels->tile, v, n, n, 0.5, isas[k]);
            }
    }
}

/* ---- rows of a batch ---- */

typedef struct scene {
    gf_embed q, k;
    gf_lists lists;
    float *value[2];
    int32_t *tie[2];
    void *scratch, *tile_scratch;
    float *tiles;
    gf_rounded rounded; /* of q */
} scene;

enum { THREADS = 3, DIM = 19, TILE = 64 };
enum { RANDOM, EQUAL_ROWS, COLLAPSED, SORTED, KINDS };

static float number_of(rng *r, int kind, int64_t row, int64_t rows, int d) {
    if (kind == EQUAL_ROWS) { /* of seven vectors */
        rng own = {(uint64_t)(row % 7 * 1000 + d)};
        return (float)rng_normal(&own);
    }
    if (kind == COLLAPSED) return 1.0f;
    return (float)(rng_normal(r) + (kind == SORTED && d == row * DIM / rows ? 4.0 : 0.0)); /* by class */
}

static void embed(gf_embed *e, int64_t rows, int kind, uint64_t seed) {
    rng r = {seed};
    float *x = malloc(sizeof *x * (size_t)(rows * DIM)), *norm = malloc(sizeof *norm * (size_t)rows);
    *e = (gf_embed){.rows = rows, .dim = DIM, .ld = gf_cpu_embed_ld(DIM)};
    e->row = aligned_alloc(64, sizeof(float) * (size_t)((gf_pad(rows) + 64) * e->ld));
    e->col = aligned_alloc(64, sizeof(float) * (size_t)(gf_pad(rows) * DIM));
    for (int64_t i = 0; i < rows * DIM; i++) x[i] = number_of(&r, kind, i / DIM, rows, (int)(i % DIM));
    memset(e->row, 0, sizeof(float) * (size_t)((gf_pad(rows) + 64) * e->ld));
    assert_int_equal(gf_cpu_embed(e, &(gf_source){x, DIM, GLOFND_F32}, rows, 0, 1, 1, norm, 1), -1);
    gf_cpu_pack(e, 1);
    free(x), free(norm);
}

static scene make(int64_t rows, int64_t cols, int kind, int64_t best, int64_t capacity) {
    scene s = {.lists = {.capacity = capacity}};
    const size_t n = (size_t)rows + 64;
    embed(&s.q, rows, kind, 3), embed(&s.k, cols, kind, 3); /* equal where rows = cols */
    s.lists.value = malloc(sizeof(float) * n * (size_t)capacity), s.lists.column = malloc(sizeof(int32_t) * n * (size_t)capacity);
    s.lists.count = malloc(sizeof(int32_t) * n), s.lists.limit = malloc(sizeof(float) * n);
    for (int i = 0; i < 2; i++) s.value[i] = calloc(n, sizeof(float)), s.tie[i] = calloc(n, sizeof(int32_t));
    s.scratch = aligned_alloc(64, (gf_cpu_select_bytes(best, THREADS) + 63) / 64 * 64);
    s.tile_scratch = aligned_alloc(64, (gf_cpu_scratch_bytes(TILE, THREADS) + 63) / 64 * 64);
    s.tiles = aligned_alloc(64, (gf_cpu_tiles_bytes(rows, cols, TILE, rows == cols) + 63) / 64 * 64);
    s.rounded.ld = gf_cpu_embed_ld16(DIM);
    s.rounded.row = calloc(n * (size_t)s.rounded.ld, sizeof(uint32_t));
    s.rounded.col = calloc(n * DIM, sizeof(uint32_t));
    s.rounded.step = calloc(n, sizeof(float)), s.rounded.lost = calloc(n, sizeof(float));
    return s;
}

static void drop(scene *s) {
    free(s->q.row), free(s->q.col), free(s->k.row), free(s->k.col);
    free(s->lists.value), free(s->lists.column), free(s->lists.count), free(s->lists.limit);
    for (int i = 0; i < 2; i++) free(s->value[i]), free(s->tie[i]);
    free(s->scratch), free(s->tile_scratch), free(s->tiles);
    free(s->rounded.row), free(s->rounded.col), free(s->rounded.step), free(s->rounded.lost);
}

/* p as lists give it: with the tiles kept, without, or from products of integers. */
static gf_select by_lists(const scene *s, const gf_select *p, int threads) {
    gf_select other = *p;
    other.value = s->value[1], other.tie = p->tie ? s->tie[1] : NULL, other.threads = threads;
    other.lists = s->lists, other.symmetric = s->q.rows == s->k.rows, other.tile = TILE, other.tile_scratch = s->tile_scratch;
    if (threads == THREADS) other.tiles = s->tiles;
    if (threads == 2) other.rounded = s->rounded;
    else if (!p->tie) other.lists.column = NULL;
    return other;
}

/* Once from whole rows, then from lists, with and without ties, and each way of making them. Returns rows that had no list. */
static int64_t compare(scene *s, int shift, int64_t best, double fraction) {
    const int symmetric = s->q.rows == s->k.rows;
    const int64_t rows = s->q.rows;
    int64_t short_lists = 0;
    gf_select p = {.q = &s->q, .k = symmetric ? &s->q : &s->k, .shift = shift, .best = best, .scratch = s->scratch};
    p.threads = 1, p.value = s->value[0], p.tie = s->tie[0], p.fraction = 0.0;
    for (int ties = 1; ties >= 0; ties--) {
        p.lists.capacity = 0, p.value = s->value[0], p.tie = ties ? s->tie[0] : NULL, p.fraction = ties ? 0.0 : fraction;
        gf_cpu_select(&p);
        for (int threads = 1; threads <= THREADS; threads++) {
            const gf_select other = by_lists(s, &p, threads);
            gf_cpu_select(&other);
            for (int64_t r = 0; r < rows; r++) short_lists += s->lists.count[r] < 0;
            for (int64_t r = 0; r < rows; r++) {
                if (memcmp(&s->value[0][r], &s->value[1][r], sizeof(float)) == 0 && (!ties || s->tie[0][r] == s->tie[1][r]))
                    continue;
                fail_msg("row %d of %d: %.9g, tie %d; not %.9g, %d", (int)r, (int)rows, (double)s->value[1][r], s->tie[1][r],
                         (double)s->value[0][r], s->tie[0][r]);
            }
        }
    }
    return short_lists;
}

TEST(lists_give_what_whole_rows_give) {
    static const int64_t shapes[][2] = {{100, 100}, {300, 300}, {1200, 1200}, {70, 900}, {333, 64}};
    for (size_t n = 0; n < sizeof shapes / sizeof *shapes; n++)
        for (int kind = 0; kind < KINDS; kind++)
            for (int share = 1; share <= 5; share += 4) { /* percent of the columns */
                const int64_t rows = shapes[n][0], cols = shapes[n][1], best = 1 + cols * share / 100;
                const int64_t fits = gf_cpu_lists_capacity(cols, 0.01 * share, best, TILE), tight = gf_pad(best + TILE);
                scene s = make(rows, cols, kind, best, fits > tight ? fits : tight);
                const int64_t missing = compare(&s, rows == cols ? 1 : -1, best, 0.4);
                if (kind == RANDOM && missing * 20 > 4 * rows) fail_msg("%d of %d lists are too short", (int)missing, (int)rows);
                s.lists.capacity = tight; /* lists are cut */
                compare(&s, rows == cols ? 0 : -1, best, 0.7);
                drop(&s);
            }
}

TEST(capacity_rises_with_the_batch) {
    for (int tenths = 1; tenths <= 200; tenths += 13) {
        int64_t before = 0;
        for (int64_t cols = 32; cols < 40000; cols += cols / 40 + 1) {
            const int64_t best = 2 + (int64_t)(1e-3 * tenths * (double)cols);
            const int64_t capacity = gf_cpu_lists_capacity(cols, 1e-3 * tenths, best, cols <= 1024 ? 64 : 128);
            assert_true(capacity >= before);
            assert_true(capacity == 0 || capacity >= best + 64);
            before = capacity;
        }
    }
}

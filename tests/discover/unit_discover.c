/* unit_discover.c - thresholds, pairs, mutual pairs, connected parts and duplicates against plain loops in double.
 *
 * Most embeddings here have 1, 4 or 16 entries of +-1 and zeros else: unit vectors and dot products of them are exact in float32,
 * with many equal similarities, so that everything must agree to the last bit. Others are drawn from a normal distribution.
 */
#include "support/test.h"

#include "cpu/kernels/cpu_kernels.h"
#include "pairs/best.h"
#include "pairs/pairs_search.h"
#include "support/random.h"
#include "util/components.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { TOP = 7 };

static gf_error err;
static const gf_pairs_search *const pass = &gf_pairs_search_cpu;

/* ----- embeddings ----- */

static float *make_exact(int64_t n, int64_t dim, uint64_t seed) {
    static const int sizes[] = {1, 4, 4, 4, 16};
    float *x = calloc((size_t)(n * dim), sizeof *x);
    rng g = {seed};
    for (int64_t i = 0; i < n; i++) {
        int left = sizes[rng_next(&g) % 5];
        if (i % 11 == 5) { /* a copy of one before */
            memcpy(x + i * dim, x + (i - 3) * dim, (size_t)dim * sizeof *x);
            continue;
        }
        if (left > dim) left = dim >= 4 ? 4 : 1;
        while (left > 0) {
            float *cell = &x[i * dim + (int64_t)(rng_next(&g) % (uint64_t)dim)];
            if (*cell != 0.0f) continue;
            *cell = rng_next(&g) % 3 ? 1.0f : -1.0f;
            left--;
        }
    }
    return x;
}

static int32_t *make_labels(int64_t n) {
    int32_t *y = malloc((size_t)n * sizeof *y);
    for (int64_t i = 0; i < n; i++) y[i] = i % 13 == 4 ? -1 : (int32_t)(i * i % 5);
    return y;
}

static double cosine(const float *a, const float *b, int64_t dim) {
    double ab = 0.0, aa = 0.0, bb = 0.0;
    for (int64_t k = 0; k < dim; k++) {
        ab += (double)a[k] * (double)b[k];
        aa += (double)a[k] * (double)a[k], bb += (double)b[k] * (double)b[k];
    }
    return ab / sqrt(aa) / sqrt(bb);
}

static double *all_similarities(const float *x, int64_t n, const float *y, int64_t m, int64_t dim) {
    double *s = malloc((size_t)(n * m) * sizeof *s);
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < m; j++) s[i * m + j] = cosine(x + i * dim, y + j * dim, dim);
    return s;
}

/* ----- plain loops ----- */

typedef struct other {
    double v;
    int64_t j;
} other;

static int better_first(const void *x, const void *y) {
    const other *a = x, *b = y;
    if (a->v != b->v) return a->v < b->v ? 1 : -1;
    return (a->j > b->j) - (a->j < b->j);
}

/* Others of row i among m columns, the best first; returns how many. */
static int64_t sorted_row(const double *s, int64_t m, int64_t skip, other *out) {
    int64_t n = 0;
    for (int64_t j = 0; j < m; j++)
        if (j != skip) out[n++] = (other){s[j], j};
    qsort(out, (size_t)n, sizeof *out, better_first);
    return n;
}

/* Spreads the smallest label along edges until nothing changes. */
static void connect(const double *s, const double *limit, int64_t n, int32_t *root) {
    for (int64_t i = 0; i < n; i++) root[i] = (int32_t)i;
    for (int changed = 1; changed;) {
        changed = 0;
        for (int64_t i = 0; i < n; i++)
            for (int64_t j = 0; j < n; j++)
                if (i != j && s[i * n + j] > fmax(limit[i], limit[j]) && root[j] < root[i]) root[i] = root[j], changed = 1;
    }
}

static gf_pairs_found brute(const double *s, int64_t n, const gf_pairs_task *t) {
    gf_pairs_found f;
    other *row = malloc((size_t)n * sizeof *row);
    double *limit = malloc((size_t)n * sizeof *limit), *dup = malloc((size_t)n * sizeof *dup);
    assert_int_equal(gf_pairs_found_alloc(&err, &f, n, t->top), GLOFND_OK);
    if (t->below > 0) assert_int_equal(gf_pairs_found_below(&err, &f, t->below), GLOFND_OK);
    for (int64_t i = 0; i < n; i++) {
        const int64_t count = sorted_row(s + i * n, n, i, row);
        limit[i] = t->lambda ? (double)t->lambda[i] : row[t->rank - 1].v;
        dup[i] = nextafter((double)t->dup, -2.0);
        f.lambda[i] = (float)limit[i];
        for (int64_t k = 0, e = 0; k < count && e < t->below; k++)
            if (!(row[k].v > limit[i])) f.below_other[i * t->below + e++] = (int32_t)row[k].j;
        for (int64_t k = 0; k < t->top; k++) {
            f.other[i * t->top + k] = k < count ? (int32_t)row[k].j : -1;
            f.similarity[i * t->top + k] = k < count ? (float)row[k].v : NAN;
        }
    }
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < n; j++) {
            const double v = s[i * n + j];
            if (i == j) continue;
            f.copies[i] += v >= (double)t->dup;
            if (!(v > limit[i])) continue;
            f.above[i]++, f.mutual[i] += v > limit[j];
            f.hits[i] += t->label && t->label[i] >= 0 && t->label[i] == t->label[j];
        }
    connect(s, limit, n, f.mutual_root);
    connect(s, dup, n, f.copy_root);
    free(row);
    free(limit);
    free(dup);
    return f;
}

static void same(const gf_pairs_found *a, const gf_pairs_found *b) {
    const size_t n = (size_t)a->n, cells = n * (size_t)a->top;
    for (size_t i = 0; i < n; i++) assert_true(a->lambda[i] == b->lambda[i]);
    assert_memory_equal(a->above, b->above, n * sizeof *a->above);
    assert_memory_equal(a->mutual, b->mutual, n * sizeof *a->mutual);
    assert_memory_equal(a->hits, b->hits, n * sizeof *a->hits);
    assert_memory_equal(a->copies, b->copies, n * sizeof *a->copies);
    assert_memory_equal(a->other, b->other, cells * sizeof *a->other);
    assert_int_equal(a->below, b->below);
    if (a->below) assert_memory_equal(a->below_other, b->below_other, n * (size_t)a->below * sizeof *a->below_other);
    for (size_t c = 0; c < cells; c++)
        assert_true(a->similarity[c] == b->similarity[c] || (isnan(a->similarity[c]) && isnan(b->similarity[c])));
    assert_memory_equal(a->mutual_root, b->mutual_root, n * sizeof *a->mutual_root);
    assert_memory_equal(a->copy_root, b->copy_root, n * sizeof *a->copy_root);
}

static gf_pairs_found run(const float *x, int64_t n, int64_t dim, const gf_pairs_task *t) {
    gf_pairs_found f;
    void *state = NULL;
    const gf_vectors rows = {.x = x, .n = n, .dim = dim};
    assert_int_equal(pass->open(&err, &rows, t->threads, &state), GLOFND_OK);
    assert_int_equal(gf_pairs_found_alloc(&err, &f, n, t->top), GLOFND_OK);
    if (t->below > 0) assert_int_equal(gf_pairs_found_below(&err, &f, t->below), GLOFND_OK);
    assert_int_equal(pass->find(&err, state, t, &f), GLOFND_OK);
    pass->close(state);
    return f;
}

/* ----- tests ----- */

TEST(every_way_equals_plain_loops) {
    static const int64_t sizes[][3] = {{2, 5, 1},    {3, 4, 2},     {33, 19, 4},   {64, 16, 1},
                                       {97, 23, 96}, {300, 33, 30}, {1100, 24, 61}};
    for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++) {
        const int64_t n = sizes[k][0], dim = sizes[k][1];
        float *x = make_exact(n, dim, k + 1);
        int32_t *label = make_labels(n);
        double *s = all_similarities(x, n, x, n, dim);
        gf_pairs_task t = {.rank = sizes[k][2], .top = TOP, .below = (int64_t)k % 5, .dup = 0.75f, .label = label, .threads = 1};
        gf_pairs_found expected = brute(s, n, &t);
        for (int way = 0; way < 12; way++) {
            t.threads = way & 1 ? 3 : 1, t.block = way & 2 ? 32 : 0, t.memory = way & 4 ? 1 : (size_t)1 << 40;
            t.integers = way & 8 ? 1 : -1;
            assert_int_equal(pass->plan(n, dim, &t).passes, way & 4 ? 2 : 1);
            gf_pairs_found f = run(x, n, dim, &t);
            same(&f, &expected);
            gf_pairs_found_free(&f);
        }
        gf_pairs_found_free(&expected);
        free(x);
        free(label);
        free(s);
    }
}

TEST(given_thresholds_are_taken) {
    const int64_t n = 150, dim = 21;
    float *x = make_exact(n, dim, 77), lambda[150];
    double *s = all_similarities(x, n, x, n, dim);
    for (int64_t i = 0; i < n; i++) lambda[i] = (float)(i % 4) * 0.25f;
    gf_pairs_task t = {.lambda = lambda, .top = TOP, .dup = 1.0f, .threads = 3, .memory = 1};
    gf_pairs_found expected = brute(s, n, &t), f = run(x, n, dim, &t);
    same(&f, &expected);
    gf_pairs_found_free(&f);
    gf_pairs_found_free(&expected);
    free(x);
    free(s);
}

/* Lists so short that most duplicates never come near them. */
TEST(duplicates_do_not_depend_on_lists) {
    const int64_t n = 300, dim = 16;
    float *x = make_exact(n, dim, 21);
    double *s = all_similarities(x, n, x, n, dim);
    gf_pairs_task t = {.rank = 2, .top = 2, .dup = 0.25f, .threads = 3};
    gf_pairs_found expected = brute(s, n, &t);
    assert_true(expected.copies[0] > 20);
    for (int two = 0; two < 2; two++) {
        t.memory = two ? 1 : (size_t)1 << 30;
        gf_pairs_found f = run(x, n, dim, &t);
        same(&f, &expected);
        gf_pairs_found_free(&f);
    }
    gf_pairs_found_free(&expected);
    free(x);
    free(s);
}

/* Every pair equals every other: whole rows of ties, and a list that must prefer the smaller positions. */
TEST(equal_rows_are_one_group) {
    enum { N = 200 };
    float x[N];
    for (int i = 0; i < N; i++) x[i] = 3.0f;
    const gf_pairs_task t = {.rank = 9, .top = TOP, .dup = 0.98f, .threads = 3, .memory = (size_t)1 << 30, .block = 32};
    gf_pairs_found f = run(x, N, 1, &t);
    for (int i = 0; i < N; i++) {
        assert_true(f.lambda[i] == 1.0f);
        assert_int_equal(f.above[i], 0); /* nothing is larger than the threshold */
        assert_int_equal(f.copies[i], N - 1);
        assert_int_equal(f.copy_root[i], 0);
        assert_int_equal(f.mutual_root[i], i);
        for (int k = 0; k < TOP; k++) assert_int_equal(f.other[i * TOP + k], k < i ? k : k + 1);
    }
    gf_pairs_found_free(&f);
}

TEST(normal_rows_are_within_rounding) {
    enum { N = 500, DIM = 67, RANK = 25 };
    float *x = malloc(sizeof(float) * N * DIM);
    other row[N];
    rng g = {5};
    for (int i = 0; i < N * DIM; i++) x[i] = (float)rng_normal(&g) * (i / DIM % 2 ? 1e15f : 1e-15f);
    double *s = all_similarities(x, N, x, N, DIM);
    const gf_pairs_task t = {.rank = RANK, .top = TOP, .dup = 0.98f, .threads = 2, .memory = (size_t)1 << 30};
    gf_pairs_found f = run(x, N, DIM, &t);
    for (int64_t i = 0; i < N; i++) {
        sorted_row(s + i * N, N, i, row);
        assert_true(fabs((double)f.lambda[i] - row[RANK - 1].v) < 5e-7);
        assert_int_equal(f.above[i], RANK - 1);
        for (int k = 0; k < TOP; k++) assert_true(fabs((double)f.similarity[i * TOP + k] - row[k].v) < 5e-7);
    }
    gf_pairs_found_free(&f);
    free(x);
    free(s);
}

/* Rows of any length, many of them alike: by integers as by floats, to the bit, with thresholds found and given. */
TEST(integers_change_no_bit) {
    static const int64_t sizes[][3] = {{700, 1, 3}, {1500, 16, 21}, {900, 67, 200}, {400, 300, 5}};
    for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++) {
        const int64_t n = sizes[k][0], dim = sizes[k][1];
        float *x = malloc((size_t)(n * dim) * sizeof *x);
        int32_t *label = make_labels(n);
        rng g = {31 + k};
        for (int64_t i = 0; i < n; i++) {
            const float length = i % 3 ? 1e15f : 1e-15f, noise = i % 7 ? 0.3f : i % 2 ? 1e-4f : 0.0f;
            for (int64_t d = 0; d < dim; d++)
                x[i * dim + d] =
                    length * (i < 20 ? (float)rng_normal(&g)
                                     : x[i % 20 * dim + d] / (i % 20 % 3 ? 1e15f : 1e-15f) + noise * (float)rng_normal(&g));
        }
        gf_pairs_task t = {
            .rank = sizes[k][2], .top = TOP, .dup = 0.98f, .label = label, .threads = 3, .memory = (size_t)1 << 30, .block = 32};
        t.integers = -1;
        gf_pairs_found floats = run(x, n, dim, &t), given = floats;
        for (int with = 0; with < 2; with++) {
            t.lambda = with ? floats.lambda : NULL;
            t.integers = -1, given = run(x, n, dim, &t);
            t.integers = 1;
            gf_pairs_found f = run(x, n, dim, &t);
            same(&f, &given);
            gf_pairs_found_free(&given);
            gf_pairs_found_free(&f);
        }
        gf_pairs_found_free(&floats);
        free(x);
        free(label);
    }
}

static void check_query(const float *q, const float *x, const gf_pairs_task *t, int64_t rows, int64_t n, int64_t dim) {
    gf_pairs_found f;
    void *state = NULL;
    other *row = malloc((size_t)n * sizeof *row);
    double *s = all_similarities(q, rows, x, n, dim);
    const gf_vectors old = {.x = x, .n = n, .dim = dim}, new = {.x = q, .n = rows, .dim = dim};
    assert_int_equal(pass->open(&err, &old, 1, &state), GLOFND_OK);
    assert_int_equal(gf_pairs_found_alloc(&err, &f, rows, t->top), GLOFND_OK);
    assert_int_equal(pass->query(&err, state, &new, t, &f), GLOFND_OK);
    for (int64_t i = 0; i < rows; i++) {
        const int64_t count = sorted_row(s + i * n, n, t->skip ? t->skip[i] : -1, row);
        const double limit = row[t->rank - 1].v;
        int64_t above = 0, mutual = 0, copies = 0;
        for (int64_t k = 0; k < count; k++) {
            copies += row[k].v >= (double)t->dup;
            above += row[k].v > limit;
            mutual += row[k].v > limit && row[k].v > (double)t->lambda[row[k].j];
        }
        assert_true((double)f.lambda[i] == limit);
        assert_int_equal(f.above[i], above);
        assert_int_equal(f.mutual[i], mutual);
        assert_int_equal(f.copies[i], copies);
        for (int k = 0; k < TOP; k++) assert_int_equal(f.other[i * TOP + k], row[k].j);
    }
    pass->close(state);
    gf_pairs_found_free(&f);
    free(row);
    free(s);
}

TEST(queries_equal_plain_loops) {
    enum { N = 1500, DIM = 20, ROWS = 70 };
    float *x = make_exact(N, DIM, 8), *q = make_exact(ROWS, DIM, 9), lambda[N];
    int32_t self[ROWS];
    for (int i = 0; i < N; i++) lambda[i] = (float)(i % 5) * 0.2f;
    for (int i = 0; i < ROWS; i++) self[i] = i % 3 ? i * 7 : -1;
    gf_pairs_task t = {.rank = 40, .lambda = lambda, .top = TOP, .dup = 0.5f, .threads = 3, .memory = (size_t)1 << 30};
    check_query(q, x, &t, ROWS, N, DIM);
    t.skip = self, t.threads = 1, t.memory = 1;
    check_query(q, x, &t, ROWS, N, DIM);
    t.rank = 2, t.dup = 0.25f; /* duplicates that the list has no place for */
    check_query(q, x, &t, ROWS, N, DIM);
    free(x);
    free(q);
}

TEST(a_stopped_search_says_so) {
    atomic_int stop = 1;
    float *x = make_exact(100, 8, 3);
    gf_pairs_found f;
    void *search = NULL;
    const gf_vectors rows = {.x = x, .n = 100, .dim = 8};
    gf_pairs_task t = {.rank = 5, .top = TOP, .dup = 1.0f, .threads = 1, .memory = (size_t)1 << 30, .watch = {.stop = &stop}};
    assert_int_equal(pass->open(&err, &rows, 1, &search), GLOFND_OK);
    assert_int_equal(gf_pairs_found_alloc(&err, &f, 100, TOP), GLOFND_OK);
    assert_int_not_equal(pass->find(&err, search, &t, &f), GLOFND_OK);
    assert_string_equal(err.text, "cancelled");
    t.watch.stop = NULL, t.rank = 100;
    assert_int_equal(pass->find(&err, search, &t, &f), GLOFND_E_ARGUMENT);
    pass->close(search);
    gf_pairs_found_free(&f);
    free(x);
}

/* ----- parts of it ----- */

TEST(lists_keep_the_best_of_any_order) {
    enum { MANY = 3000, KEEP = 50 };
    gf_best a, b;
    assert_int_equal(gf_best_alloc(&err, &a, 2, KEEP), GLOFND_OK);
    assert_int_equal(gf_best_alloc(&err, &b, 1, KEEP), GLOFND_OK);
    for (int i = 0; i < MANY; i++) {
        const int j = MANY - 1 - i;
        const float v = (float)(i * 7919 % 41 - 20) * 0.05f, w = (float)(j * 7919 % 41 - 20) * 0.05f;
        if (v >= a.limit[1]) gf_best_push(&a, 1, v, i);
        if (w >= b.limit[0]) gf_best_push(&b, 0, w, j);
    }
    assert_int_equal(gf_best_sort(&a, 1, KEEP), KEEP);
    assert_int_equal(gf_best_sort(&b, 0, KEEP), KEEP);
    assert_memory_equal(a.key + a.capacity, b.key, KEEP * sizeof *a.key);
    assert_true(gf_best_value(b.key[0]) == 1.0f && gf_best_other(b.key[0]) < gf_best_other(b.key[1]));
    assert_true(gf_best_value(gf_best_key(-0.5f, 3)) == -0.5f && gf_best_key(-0.5f, 3) < gf_best_key(-0.25f, 4));
    assert_true(gf_best_key(-0.0f, 1) == gf_best_key(0.0f, 1));
    gf_best_free(&a);
    gf_best_free(&b);
}

TEST(scans_find_what_reaches_either_limit) {
    static const char *const names[] = {"base", "avx2", "avx512", "neon"};
    float v[96], col[96];
    int32_t at[96];
    rng g = {4};
    for (int i = 0; i < 96; i++) v[i] = (float)(rng_next(&g) % 9), col[i] = (float)(rng_next(&g) % 12);
    v[40] = NAN;
    for (size_t k = 0; k < 3; k++) {
        const gf_cpu_kernels *kernels = gf_cpu_kernels_find(names[k]);
        int found = 0, alone = 0;
        if (!kernels) continue;
        const gf_tile_ops *ops = kernels->tile;
        const int n = ops->reach(at, v, 96, 6.0f, col);
        for (int i = 0; i < 96; i++)
            if (v[i] >= 6.0f || v[i] >= col[i]) assert_int_equal(at[found++], i);
        assert_int_equal(n, found);
        for (int i = 0; i < 96; i++) alone += v[i] >= 6.0f;
        assert_int_equal(ops->reach(at, v, 96, 6.0f, NULL), alone);
    }
}

TEST(parts_are_listed_largest_first) {
    int32_t root[9], more[9];
    const int64_t degree[9] = {1, 2, 0, 1, 1, 1, 3, 2, 1};
    gf_components p;
    gf_components_init(root, 9);
    gf_components_init(more, 9);
    gf_components_join(root, 5, 4);
    gf_components_join(root, 8, 6);
    gf_components_join(more, 7, 6);
    gf_components_join(more, 1, 7);
    gf_components_join(more, 3, 0);
    gf_components_merge(root, more, 9);
    gf_components_flatten(root, 9);
    assert_int_equal(gf_components_list(&err, root, degree, 9, &p), GLOFND_OK);
    assert_int_equal(p.count, 3);
    assert_int_equal(p.part[0].root, 1);
    assert_int_equal(p.part[0].nodes, 4);
    assert_int_equal(p.part[0].edges, 4);
    assert_int_equal(p.part[1].root, 0);
    assert_int_equal(p.part[2].root, 4);
    assert_int_equal(p.nodes, 8);
    assert_int_equal(p.edges, 6);
    static const int32_t of[9] = {1, 0, -1, 1, 2, 2, 0, 0, 0};
    assert_memory_equal(p.of, of, sizeof of);
    gf_components_free(&p);
}

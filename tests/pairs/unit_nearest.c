/* unit_nearest.c - the nearest columns of rows: by integers of 16 bits the bits of a search by floats, whatever the vectors are;
 * for any number of threads; ties in the order of the columns.
 */
#include "support/test.h"

#include "pairs/nearest.h"
#include "support/random.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct found { /* of all rows */
    int64_t k;
    uint64_t *key; /* [rows][k] nearest first; 0: no more */
} found;

static void take(void *user, gf_best *b, int64_t at, int64_t row, int thread) {
    const found *f = user;
    const int64_t count = gf_best_sort(b, at, f->k);
    (void)thread;
    for (int64_t i = 0; i < f->k; i++) f->key[row * f->k + i] = i < count ? b->key[at * b->capacity + i] : 0;
}

static uint64_t *search(gf_nearest_search s, gf_nearest_by by, int threads) {
    found f = {s.k, test_malloc((size_t)(s.rows.n * s.k) * sizeof *f.key)};
    gf_error err = {""};
    s.take = take, s.user = &f, s.by = by, s.job.threads = threads;
    if (gf_nearest_each(&err, &s) != GLOFND_OK) fail_msg("%s", err.text);
    return f.key;
}

static void check(const char *name, gf_nearest_search s) {
    const size_t bytes = (size_t)(s.rows.n * s.k) * sizeof(uint64_t);
    uint64_t *floats = search(s, GF_NEAREST_FLOATS, 2);
    const struct {
        gf_nearest_by by;
        int threads;
    } others[] = {{GF_NEAREST_INTEGERS, 1}, {GF_NEAREST_INTEGERS, 3}, {GF_NEAREST_CHOSEN, 2}};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        uint64_t *key = search(s, others[i].by, others[i].threads);
        if (memcmp(key, floats, bytes) != 0) fail_msg("%s: differs from floats (case %zu)", name, i);
        test_free(key);
    }
    test_free(floats);
}

static float *draw(rng *g, int64_t n, int64_t dim, float size) {
    float *x = test_malloc((size_t)(n * dim) * sizeof *x);
    for (int64_t i = 0; i < n * dim; i++) x[i] = size * (float)rng_normal(g);
    return x;
}

static gf_nearest_search of(const float *q, int64_t rows, const float *x, int64_t cols, int64_t dim, int64_t k) {
    return (gf_nearest_search){.rows = {.x = q, .n = rows, .dim = dim}, .cols = {.x = x, .n = cols, .dim = dim}, .k = k};
}

TEST(drawn_vectors) {
    static const int64_t dims[] = {1, 37, 64, 515};
    rng g = {1};
    for (size_t i = 0; i < sizeof dims / sizeof *dims; i++) {
        float *q = draw(&g, 70, dims[i], 1e-12f), *x = draw(&g, 1500, dims[i], 1e12f);
        check("drawn", of(q, 70, x, 1500, dims[i], 1));
        check("drawn, more neighbours", of(q, 70, x, 1500, dims[i], 60));
        check("drawn, all are neighbours", of(q, 70, x, 30, dims[i], 40));
        check("drawn, among themselves", of(x, 300, x, 300, dims[i], 5));
        test_free(q), test_free(x);
    }
}

/* Copies, near copies, zeros, and a vector along an axis. */
TEST(ties) {
    enum { ROWS = 40, COLS = 2500, DIM = 48 };
    rng g = {2};
    float *q = draw(&g, ROWS, DIM, 1.0f), *x = draw(&g, COLS, DIM, 1.0f);
    int32_t *label = test_malloc(COLS * sizeof *label);
    for (int64_t i = 0; i < COLS; i++) {
        label[i] = (int32_t)(i % 5) - 1;
        if (i % 3 == 1) memcpy(x + i * DIM, q + i % ROWS * DIM, DIM * sizeof *x);
        if (i % 3 == 2)
            memcpy(x + i * DIM, x + (i - 2) * DIM, DIM * sizeof *x), x[i * DIM + i % DIM] *= 1.0f + 3e-7f * (float)(i % 4);
        if (i % 50 == 0) memset(x + i * DIM, 0, DIM * sizeof *x);
    }
    memset(q, 0, DIM * sizeof *q);
    memset(q + DIM, 0, DIM * sizeof *q), q[DIM + 7] = -3.0f, memcpy(x, q + DIM, DIM * sizeof *x);
    gf_nearest_search s = of(q, ROWS, x, COLS, DIM, 7);
    check("ties", s);
    s.label = label;
    check("ties, some columns left out", s);
    s.k = 400;
    check("ties, many neighbours", s);
    test_free(q), test_free(x), test_free(label);
}

/* An encoder that gives nearly the same vector for all: nothing is decided by integers, and the search begins again. */
TEST(collapsed_vectors) {
    enum { ROWS = 150, COLS = 6000, DIM = 32 };
    rng g = {3};
    float *q = draw(&g, ROWS, DIM, 1e-6f), *x = draw(&g, COLS, DIM, 1e-6f);
    for (int64_t i = 0; i < ROWS * DIM; i++) q[i] += 1.0f;
    for (int64_t i = 0; i < COLS * DIM; i++) x[i] += 1.0f;
    check("collapsed", of(q, ROWS, x, COLS, DIM, 4));
    test_free(q), test_free(x);
}

TEST(what_is_not_finite_is_named) {
    float q[8] = {1, 2, 3, 4, 5, 6, 7, 8}, x[8] = {1, 2, 3, 4, 5, NAN, 7, 8};
    found f = {1, (uint64_t[2]){0}};
    gf_error err = {""};
    gf_nearest_search s = of(q, 2, x, 2, 4, 1);
    s.take = take, s.user = &f, s.job.threads = 1, s.by = GF_NEAREST_INTEGERS;
    assert_int_equal(gf_nearest_each(&err, &s), GLOFND_E_NUMERIC);
    assert_string_equal(err.text, "embedding 1 is not finite");
}

/* cuda_discover.c - discovery on the GPU against the CPU: the same bits for any size of strips and lists, with and without tensor
 * cores. */
#include "support/test.h"

#include "support/cuda_main.h"

#include "cuda/cuda_device.h"
#include "pairs/pairs_search.h"
#include "support/random.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static gf_error err;

#define GOOD(call)                                                    \
    do {                                                              \
        if ((call) != GLOFND_OK) fail_msg("%s: %s", #call, err.text); \
    } while (0)

/* ----- embeddings ----- */

enum { NORMAL, NARROW, CLUSTERS, TIES, EQUAL, KINDS };

static float cell_of(int kind, rng *g, int64_t i, int64_t d, const float *centre, int64_t dim) {
    const float *c = centre + i % 17 * dim;
    switch (kind) {
    case NORMAL: return (float)rng_normal(g) * (i % 2 ? 1e15f : 1e-15f);
    case NARROW: return 1.0f + 0.01f * (float)rng_normal(g); /* all similarities lie in a few brackets */
    case CLUSTERS: return c[d] + 0.1f * (float)rng_normal(g);
    case TIES: return (float)(rng_next(g) % 3) - 1.0f + (d == 0 ? 3.0f : 0.0f);
    default: return 3.0f;
    }
}

static float *make(int kind, int64_t n, int64_t dim, uint64_t seed) {
    float *x = malloc((size_t)(n * dim) * sizeof *x), *centre = malloc((size_t)(17 * dim) * sizeof *centre);
    rng g = {seed};
    for (int64_t i = 0; i < 17 * dim; i++) centre[i] = (float)rng_normal(&g);
    for (int64_t i = 0; i < n; i++)
        for (int64_t d = 0; d < dim; d++) x[i * dim + d] = cell_of(kind, &g, i, d, centre, dim);
    for (int64_t i = 20; i < n; i += 23) memcpy(x + i * dim, x + (i - 13) * dim, (size_t)dim * sizeof *x); /* copies */
    free(centre);
    return x;
}

static int32_t *make_labels(int64_t n) {
    int32_t *y = malloc((size_t)n * sizeof *y);
    for (int64_t i = 0; i < n; i++) y[i] = i % 29 == 4 ? -1 : (int32_t)(i % 17);
    return y;
}

/* ----- both ----- */

static void same_found(const gf_pairs_found *a, const gf_pairs_found *b, int parts, const char *what) {
    const size_t n = (size_t)a->n, cells = n * (size_t)a->top;
    for (size_t i = 0; i < n; i++)
        if (a->lambda[i] != b->lambda[i])
            fail_msg("%s: threshold of %zu is %.9g, not %.9g", what, i, (double)b->lambda[i], (double)a->lambda[i]);
    for (size_t c = 0; c < cells; c++)
        if (a->other[c] != b->other[c] || a->similarity[c] != b->similarity[c])
            fail_msg("%s: neighbour %zu of %zu is %d (%.9g), not %d (%.9g)", what, c % (size_t)a->top, c / (size_t)a->top,
                     b->other[c], (double)b->similarity[c], a->other[c], (double)a->similarity[c]);
    assert_int_equal(a->below, b->below);
    for (size_t c = 0; c < n * (size_t)a->below; c++)
        if (a->below_other[c] != b->below_other[c])
            fail_msg("%s: number %zu below the threshold of %zu is %d, not %d", what, c % (size_t)a->below, c / (size_t)a->below,
                     b->below_other[c], a->below_other[c]);
    const int64_t *const x[] = {a->above, a->copies, a->mutual, a->hits}, *const y[] = {b->above, b->copies, b->mutual, b->hits};
    static const char *const names[] = {"above", "copies", "mutual", "hits"};
    for (int k = 0; k < (parts ? 4 : 3); k++)
        for (size_t i = 0; i < n; i++)
            if (x[k][i] != y[k][i])
                fail_msg("%s: %s of %zu is %lld, not %lld", what, names[k], i, (long long)y[k][i], (long long)x[k][i]);
    if (!parts) return;
    assert_memory_equal(a->mutual_root, b->mutual_root, n * sizeof *a->mutual_root);
    assert_memory_equal(a->copy_root, b->copy_root, n * sizeof *a->copy_root);
}

static gf_pairs_found on_cpu(const float *x, int64_t n, int64_t dim, const gf_pairs_task *t) {
    gf_pairs_found f;
    void *state = NULL;
    const gf_vectors rows = {.x = x, .n = n, .dim = dim};
    GOOD(gf_pairs_search_cpu.open(&err, &rows, 2, &state));
    GOOD(gf_pairs_found_alloc(&err, &f, n, t->top));
    if (t->below > 0) GOOD(gf_pairs_found_below(&err, &f, t->below));
    GOOD(gf_pairs_search_cpu.find(&err, state, t, &f));
    gf_pairs_search_cpu.close(state);
    return f;
}

enum { ALL_WAYS, EXACT_WAYS }; /* these: without products of the tensor cores */

static void check_ways(int kind, const float *x, int64_t n, int64_t dim, const gf_pairs_task *t, int ways) {
    const gf_vectors rows = {.x = x, .n = n, .dim = dim};
    void *state = NULL;
    gf_pairs_found want = on_cpu(x, n, dim, t);
    GOOD(gf_pairs_search_cuda->open(&err, &rows, 1, &state));
    for (int way = ways == EXACT_WAYS; way < 16; way += ways == EXACT_WAYS ? 2 : 1) {
        char what[80];
        gf_pairs_found got;
        gf_pairs_task task = *t;
        task.exact = way & 1, task.memory = way & 2 ? 1 : (size_t)1 << 34, task.list = way & 4 ? t->top + 5 : 0;
        task.sample = way & 8 ? n / 4 + 1 : 0;
        snprintf(what, sizeof what, "kind %d, %lld x %lld, rank %lld, way %d", kind, (long long)n, (long long)dim,
                 (long long)t->rank, way);
        GOOD(gf_pairs_found_alloc(&err, &got, n, t->top));
        if (t->below > 0) GOOD(gf_pairs_found_below(&err, &got, t->below));
        GOOD(gf_pairs_search_cuda->find(&err, state, &task, &got));
        same_found(&want, &got, 1, what);
        gf_pairs_found_free(&got);
    }
    gf_pairs_search_cuda->close(state);
    gf_pairs_found_free(&want);
}

/* One search with a sample of so many rows. */
static void check_way(int kind, const float *x, int64_t n, int64_t dim, const gf_pairs_task *t, int64_t sample) {
    const gf_vectors rows = {.x = x, .n = n, .dim = dim};
    gf_pairs_found want = on_cpu(x, n, dim, t), got;
    gf_pairs_task task = *t;
    void *state = NULL;
    char what[80];
    task.sample = sample;
    snprintf(what, sizeof what, "kind %d, rank %lld, sample %lld", kind, (long long)t->rank, (long long)sample);
    GOOD(gf_pairs_search_cuda->open(&err, &rows, 1, &state));
    GOOD(gf_pairs_found_alloc(&err, &got, n, t->top));
    if (t->below > 0) GOOD(gf_pairs_found_below(&err, &got, t->below));
    GOOD(gf_pairs_search_cuda->find(&err, state, &task, &got));
    same_found(&want, &got, 1, what);
    gf_pairs_found_free(&got);
    gf_pairs_search_cuda->close(state);
    gf_pairs_found_free(&want);
}

/* ----- tests ----- */

typedef struct size {
    int64_t n, dim, rank, top, below;
} size;

static void check_size(int kind, const size *s, int ways) {
    float *x = make(kind, s->n, s->dim, (uint64_t)s->n);
    int32_t *label = make_labels(s->n);
    const gf_pairs_task t = {
        .rank = s->rank, .top = s->top, .below = s->below, .dup = 0.9f, .label = label, .threads = 2, .memory = (size_t)1 << 30};
    check_ways(kind, x, s->n, s->dim, &t, ways);
    free(x);
    free(label);
}

TEST(every_way_equals_the_cpu) {
    static const size sizes[] = {{2, 5, 1, 1, 0},       {3, 4, 2, 2, 1},       {65, 33, 1, 7, 2},
                                 {300, 64, 299, 20, 3}, {1500, 96, 75, 20, 4}, {2100, 130, 400, 3, 0}};
    for (int kind = 0; kind < KINDS; kind++)
        for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++) check_size(kind, &sizes[k], ALL_WAYS);
}

/* Every kernel once, small enough for compute-sanitizer; then without the products of cuBLASLt, which racecheck cannot
 * run: even if it checks no kernel at all, it ends with an internal error at the first of them. */
TEST(a_small_set_equals_the_cpu) {
    check_size(CLUSTERS, &(size){150, 40, 9, 5, 2}, ALL_WAYS);
    check_size(TIES, &(size){70, 24, 60, 3, 0}, ALL_WAYS);
}

TEST(own_kernels_equal_the_cpu) {
    check_size(CLUSTERS, &(size){150, 40, 9, 5, 2}, EXACT_WAYS);
    check_size(TIES, &(size){70, 24, 60, 3, 0}, EXACT_WAYS);
}

/* Windows from a small sample: most thresholds lie inside, few lists are cut. */
TEST(samples_lose_nothing) {
    for (int kind = 0; kind < EQUAL; kind++) {
        const size s[] = {{20000, 48, 21, 20, 2}, {20000, 48, 400, 20, 0}};
        for (int k = 0; k < 2; k++) {
            float *x = make(kind, s[k].n, s[k].dim, 5);
            int32_t *label = make_labels(s[k].n);
            const gf_pairs_task t = {.rank = s[k].rank,
                                     .top = s[k].top,
                                     .below = s[k].below,
                                     .dup = 0.995f,
                                     .label = label,
                                     .threads = 8,
                                     .memory = (size_t)1 << 34};
            check_way(kind, x, s[k].n, s[k].dim, &t, 2048);
            free(x);
            free(label);
        }
    }
}

/* Counts reports of a second sweep over all pairs. */
static void note_sweep(void *second, const char *stage, double share) {
    (void)share;
    *(int *)second += strstr(stage, "once more") || strstr(stage, "second sweep");
}

/* Three rows are equally similar to all others, up to rounding: their lists overflow, and only they are computed again. */
TEST(crowded_anchors_are_computed_again) {
    enum { N = 3000, DIM = 40 };
    float *x = make(NORMAL, N, DIM, 6);
    int32_t *label = make_labels(N);
    int second = 0;
    for (int i = 0; i < N; i++) {
        double sum = 0.0;
        for (int d = 1; d < DIM; d++) sum += (double)x[i * DIM + d] * (double)x[i * DIM + d];
        for (int d = 1; d < DIM; d++) x[i * DIM + d] = (float)((double)x[i * DIM + d] / sqrt(sum));
        x[i * DIM] = 1.0f;
        for (int d = 1; d < DIM && i % 1000 == 500; d++) x[i * DIM + d] = 0.0f;
    }
    for (int k = 0; k < 3; k++) { /* at last windows from a small sample, without an upper end */
        const gf_pairs_task t = {.rank = k == 1 ? 300 : 21,
                                 .top = 5,
                                 .below = 2,
                                 .dup = 0.98f,
                                 .label = label,
                                 .list = k == 0   ? 300
                                         : k == 1 ? 700
                                                  : 1500,
                                 .sample = k == 2 ? 64 : 0,
                                 .threads = 8,
                                 .memory = (size_t)1 << 34,
                                 .watch = {.progress = note_sweep, .user = &second, .stage = "pairs"}};
        check_way(NORMAL, x, N, DIM, &t, t.sample);
    }
    assert_int_equal(second, 0);
    free(x);
    free(label);
}

TEST(given_thresholds_are_taken) {
    enum { N = 900, DIM = 64 };
    float lambda[N];
    for (int i = 0; i < N; i++) lambda[i] = 0.25f * (float)(i % 5) - 0.2f;
    for (int kind = 0; kind < KINDS; kind++) {
        float *x = make(kind, N, DIM, 9);
        gf_pairs_task t = {.lambda = lambda, .top = 6, .dup = 0.99f, .threads = 2, .memory = (size_t)1 << 30};
        check_ways(kind, x, N, DIM, &t, ALL_WAYS);
        t.dup = INFINITY;
        check_ways(kind, x, N, DIM, &t, ALL_WAYS);
        free(x);
    }
}

TEST(queries_equal_the_cpu) {
    enum { N = 1300, DIM = 50, ROWS = 200 };
    const gf_pairs_search *cuda = gf_pairs_search_find(&err, "cuda"), *const both[] = {&gf_pairs_search_cpu, cuda};
    float lambda[N];
    int32_t self[ROWS], row[N];
    assert_non_null(cuda);
    for (int i = 0; i < N; i++) lambda[i] = 0.2f * (float)(i % 5), row[i] = i % 7 == 3 ? N - 1 - i : i;
    for (int i = 0; i < ROWS; i++) self[i] = i % 3 ? i * 5 : -1;
    for (int way = 0; way < 4; way++) {
        gf_pairs_found f[2];
        float *x = make(way % 2 ? CLUSTERS : TIES, N, DIM, 3), *y = make(way % 2 ? CLUSTERS : NORMAL, ROWS, DIM, 4);
        const gf_pairs_task t = {.rank = 31,
                                 .lambda = way < 2 ? lambda : NULL,
                                 .skip = way % 2 ? self : NULL,
                                 .top = 5,
                                 .dup = 0.9f,
                                 .threads = 2,
                                 .memory = (size_t)1 << 30};
        for (int k = 0; k < 2; k++) {
            void *search = NULL;
            const gf_vectors old = {.x = x, .row = row, .n = N, .dim = DIM}, new = {.x = y, .n = ROWS, .dim = DIM};
            GOOD(both[k]->open(&err, &old, 2, &search));
            GOOD(gf_pairs_found_alloc(&err, &f[k], ROWS, t.top));
            GOOD(both[k]->query(&err, search, &new, &t, &f[k]));
            both[k]->close(search);
        }
        same_found(&f[0], &f[1], 0, "query");
        gf_pairs_found_free(&f[0]);
        gf_pairs_found_free(&f[1]);
        free(x);
        free(y);
    }
}

static void stop_now(void *user, const char *stage, double share) {
    (void)stage;
    if (share > 0.0) atomic_store((atomic_int *)user, 1);
}

TEST(wrong_calls_say_so) {
    float *x = make(NORMAL, 100, 8, 3);
    const gf_vectors rows = {.x = x, .n = 100, .dim = 8}, wide = {.x = x, .n = 50, .dim = 16};
    const gf_pairs_search *p = gf_pairs_search_cuda;
    atomic_int stop = 0;
    void *search = NULL;
    gf_pairs_found f, too_many;
    gf_pairs_task t = {.rank = 5, .top = 20, .dup = 1.0f, .memory = (size_t)1 << 30};
    GOOD(p->open(&err, &rows, 1, &search));
    GOOD(gf_pairs_found_alloc(&err, &f, 100, 20));
    GOOD(gf_pairs_found_alloc(&err, &too_many, 100, 100));
    t.watch = (gf_job_progress){.progress = stop_now, .user = &stop, .stop = &stop};
    assert_int_not_equal(p->find(&err, search, &t, &f), GLOFND_OK);
    assert_string_equal(err.text, "cancelled");
    t.watch = (gf_job_progress){0};
    assert_int_equal(p->find(&err, search, &t, &too_many), GLOFND_E_ARGUMENT);
    assert_int_equal(p->query(&err, search, &wide, &t, &f), GLOFND_E_ARGUMENT);
    p->close(search);
    gf_pairs_found_free(&f);
    gf_pairs_found_free(&too_many);
    free(x);
}

/* cuda_discover [PATTERN]: only tests whose name fits it. */
TEST_NEEDS(no_cuda_device)

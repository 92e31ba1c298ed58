/* unit_pairs_sweep.c - the sweep over all pairs: both forms give every similarity, with the same bits for any block, group,
 * thread count and side of the pair; vectors that are not finite, progress and cancellation are reported. The k-best lists, in
 * both orders.
 */
#include "support/test.h"

#include "pairs/best.h"
#include "pairs/nearest.h"
#include "support/random.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

static gf_error err;

static float *make(int64_t n, int64_t dim, uint64_t seed) {
    float *x = malloc((size_t)(n * dim) * sizeof *x);
    rng g = {seed};
    assert_non_null(x);
    for (int64_t i = 0; i < n * dim; i++) x[i] = (float)rng_normal(&g);
    return x;
}

/* ---- all similarities ---- */

typedef struct matrix {
    int64_t rows, cols, group;
    float *s;            /* [rows][cols] NaN: not visited */
    int64_t *next;       /* [rows] first column that was not visited yet */
    int *thread_of;      /* [groups] */
    _Atomic int bad;     /* a rule of the sweep was broken */
    _Atomic int last;    /* strips that end their rows */
    atomic_int busy[64]; /* of a panel: some thread visits its rows or columns */
} matrix;

static matrix matrix_make(int64_t rows, int64_t cols, int64_t group) {
    matrix m = {.rows = rows, .cols = cols, .group = group};
    m.s = malloc((size_t)(rows * cols) * sizeof *m.s);
    m.next = calloc((size_t)rows, sizeof *m.next);
    m.thread_of = malloc((size_t)(rows / group + 1) * sizeof *m.thread_of);
    assert_true(m.s && m.next && m.thread_of);
    for (int64_t i = 0; i < rows * cols; i++) m.s[i] = NAN;
    for (int64_t i = 0; i <= rows / group; i++) m.thread_of[i] = -1;
    return m;
}

static void matrix_free(matrix *m) {
    free(m->s);
    free(m->next);
    free(m->thread_of);
}

static void take_rows(void *user, const gf_strip *t, int thread) {
    matrix *m = user;
    int *owner = &m->thread_of[t->r0 / m->group];
    if (*owner < 0) *owner = thread;
    if (*owner != thread || t->slot != t->r0 % m->group || t->rows > GF_PANEL || t->cols > GF_STRIP_COLS) m->bad = 1;
    for (int r = 0; r < t->rows; r++) {
        const int64_t i = t->r0 + r;
        if (m->next[i] != t->c0) m->bad = 1; /* columns rise without a gap */
        m->next[i] = t->c0 + t->cols;
        if (t->last != (m->next[i] == m->cols)) m->bad = 1;
        memcpy(m->s + i * m->cols + t->c0, t->s + (size_t)r * t->ld, (size_t)t->cols * sizeof *m->s);
    }
    m->last += t->last;
}

/* Marks the panels of n rows or columns from first on as in use, or as free; counts those that were in that state already. */
static int mark(matrix *m, int64_t first, int n, int used) {
    int already = 0;
    for (int64_t p = first / GF_PANEL; p <= (first + n - 1) / GF_PANEL; p++)
        already += atomic_exchange(&m->busy[p], used) == used;
    return already;
}

static void take_pairs(void *user, const gf_strip *t, int thread) {
    matrix *m = user;
    const int diagonal = t->c0 == t->r0; /* the rows are the first of the columns */
    (void)thread;
    if (mark(m, t->c0, t->cols, 1) || (!diagonal && mark(m, t->r0, t->rows, 1))) m->bad = 1;
    for (int r = 0; r < t->rows; r++)
        for (int c = 0; c < t->cols; c++) {
            const int64_t i = t->r0 + r, j = t->c0 + c;
            if (j > i) m->s[i * m->cols + j] = m->s[j * m->cols + i] = t->s[(size_t)r * t->ld + (size_t)c];
        }
    mark(m, t->c0, t->cols, 0);
    if (!diagonal) mark(m, t->r0, t->rows, 0);
}

static double cosine(const float *a, const float *b, int64_t dim) {
    double ab = 0.0, aa = 0.0, bb = 0.0;
    for (int64_t k = 0; k < dim; k++) {
        ab += (double)a[k] * (double)b[k];
        aa += (double)a[k] * (double)a[k], bb += (double)b[k] * (double)b[k];
    }
    return ab / sqrt(aa) / sqrt(bb);
}

typedef struct size {
    int64_t rows, cols, dim;
} size;

/* One panel and several, one chunk of dimensions and several, strips that are cut. */
static const size SIZES[] = {{1, 1, 1}, {31, 33, 7}, {70, 1100, 13}, {130, 200, 256}, {40, 150, 300}, {33, 500, 1025}};

TEST(rows_give_every_similarity) {
    for (size_t k = 0; k < sizeof SIZES / sizeof *SIZES; k++) {
        const size *z = &SIZES[k];
        float *x = make(z->rows, z->dim, k), *y = make(z->cols, z->dim, 99 + k);
        const gf_vectors rows = {.x = x, .n = z->rows, .dim = z->dim}, cols = {.x = y, .n = z->cols, .dim = z->dim};
        matrix want = matrix_make(z->rows, z->cols, GF_SWEEP_GROUP), other = matrix_make(z->cols, z->rows, GF_SWEEP_GROUP);
        assert_int_equal(gf_sweep_vectors(&err, &rows, &cols, &(gf_sweep_job){.threads = 1}, take_rows, &want), GLOFND_OK);
        assert_int_equal(gf_sweep_vectors(&err, &cols, &rows, &(gf_sweep_job){.threads = 2}, take_rows, &other), GLOFND_OK);
        assert_false(want.bad || other.bad);
        for (int64_t i = 0; i < z->rows; i++)
            for (int64_t j = 0; j < z->cols; j++) {
                const float s = want.s[i * z->cols + j];
                assert_true(fabs((double)s - cosine(x + i * z->dim, y + j * z->dim, z->dim)) < 1e-6);
                assert_memory_equal(&s, &other.s[j * z->rows + i], sizeof s);
            }
        for (int threads = 1; threads <= 3; threads++)
            for (int64_t group = GF_PANEL; group <= 128; group *= 2) {
                gf_panels q = {0}, p = {0};
                matrix m = matrix_make(z->rows, z->cols, group);
                assert_int_equal(gf_panels_pack(&err, &rows, threads, &q), GLOFND_OK);
                assert_int_equal(gf_panels_pack(&err, &cols, threads, &p), GLOFND_OK);
                assert_int_equal(gf_sweep_rows(&err, &q, &p, group, &(gf_sweep_job){.threads = threads}, take_rows, &m),
                                 GLOFND_OK);
                assert_false(m.bad);
                assert_int_equal(m.last, (z->rows + GF_PANEL - 1) / GF_PANEL);
                assert_memory_equal(m.s, want.s, (size_t)(z->rows * z->cols) * sizeof *m.s);
                matrix_free(&m);
                gf_panels_free(&q);
                gf_panels_free(&p);
            }
        matrix_free(&want);
        matrix_free(&other);
        free(x);
        free(y);
    }
}

/* Rows that are picked by number, against the form by rows of the same vectors. */
TEST(the_symmetric_form_gives_the_same_bits) {
    enum { N = 1333, DIM = 270 };
    float *x = make(2 * N, DIM, 5);
    int32_t row[N];
    gf_panels p = {0};
    matrix want = matrix_make(N, N, GF_SWEEP_GROUP);
    for (int i = 0; i < N; i++) row[i] = (i * 7) % (2 * N);
    const gf_vectors v = {.x = x, .row = row, .n = N, .dim = DIM};
    assert_int_equal(gf_sweep_vectors(&err, &v, &v, &(gf_sweep_job){.threads = 2}, take_rows, &want), GLOFND_OK);
    assert_int_equal(gf_panels_pack(&err, &v, 2, &p), GLOFND_OK);
    for (int threads = 1; threads <= 3; threads++)
        for (int64_t block = 0; block <= 128; block += GF_PANEL) {
            matrix m = matrix_make(N, N, GF_SWEEP_GROUP);
            assert_int_equal(gf_sweep_symmetric(&err, &p, block, &(gf_sweep_job){.threads = threads}, take_pairs, &m), GLOFND_OK);
            assert_false(m.bad);
            for (int64_t i = 0; i < N; i++) m.s[i * N + i] = want.s[i * N + i];
            assert_memory_equal(m.s, want.s, (size_t)N * N * sizeof *m.s);
            matrix_free(&m);
        }
    matrix_free(&want);
    gf_panels_free(&p);
    free(x);
}

/* ---- failures, progress ---- */

TEST(the_first_bad_vector_is_named) {
    float *x = make(100, 6, 3);
    gf_panels p;
    gf_vectors v = {.x = x, .n = 100, .dim = 6, .name = "test row"};
    x[77 * 6 + 2] = INFINITY, x[40 * 6] = NAN;
    for (int threads = 1; threads <= 3; threads++) {
        assert_int_equal(gf_panels_pack(&err, &v, threads, &p), GLOFND_E_NUMERIC);
        assert_string_equal(err.text, "test row 40 is not finite");
    }
    v.n = 0;
    assert_int_equal(gf_panels_pack(&err, &v, 1, &p), GLOFND_E_ARGUMENT);
    free(x);
}

/* Zeros have no direction: similarity 0 to all. */
TEST(zeros_stay_zeros) {
    float *x = make(40, 5, 3);
    matrix m = matrix_make(40, 40, GF_SWEEP_GROUP);
    const gf_vectors v = {.x = x, .n = 40, .dim = 5};
    memset(x + 7 * 5, 0, 5 * sizeof *x);
    assert_int_equal(gf_sweep_vectors(&err, &v, &v, &(gf_sweep_job){.threads = 1}, take_rows, &m), GLOFND_OK);
    for (int i = 0; i < 40; i++) assert_true(m.s[i * 40 + 7] == 0.0f && m.s[7 * 40 + i] == 0.0f);
    matrix_free(&m);
    free(x);
}

typedef struct reports {
    double last;
    int falls, wrong_stage;
    atomic_int stop;
    double stop_at;
} reports;

static void note(void *user, const char *stage, double share) {
    reports *x = user;
    x->falls += share < x->last;
    x->wrong_stage += !stage || strcmp(stage, "pairs") != 0;
    x->last = share;
    if (share >= x->stop_at) atomic_store(&x->stop, 1);
}

TEST(progress_rises_and_a_stop_ends_the_sweep) {
    float *x = make(500, 8, 3);
    const gf_vectors v = {.x = x, .n = 500, .dim = 8};
    for (int stops = 0; stops < 2; stops++) {
        reports r = {.stop_at = stops ? 0.6 : 2.0};
        matrix m = matrix_make(500, 500, GF_SWEEP_GROUP);
        const gf_job_progress all = {.progress = note, .user = &r, .stop = &r.stop};
        const gf_sweep_job job = {.threads = 1, .watch = gf_job_part(&all, 0.5, 1.0)}, named = gf_sweep_stage(&job, "pairs");
        const glofnd_status status = gf_sweep_vectors(&err, &v, &v, &named, take_rows, &m);
        assert_int_equal(status, stops ? GLOFND_E_CANCELLED : GLOFND_OK);
        if (stops) assert_string_equal(err.text, "cancelled");
        else assert_true(r.last == 1.0);
        assert_true(r.falls == 0 && r.wrong_stage == 0 && r.last >= 0.6);
        assert_true(!stops || r.last < 0.8);
        matrix_free(&m);
    }
    free(x);
}

/* ---- k-best lists ---- */

TEST(lists_come_in_both_orders) {
    enum { MANY = 5000, KEEP = 300 };
    for (int roomy = 0; roomy < 2; roomy++) {
        gf_best a;
        assert_int_equal((roomy ? gf_best_alloc_roomy : gf_best_alloc)(&err, &a, 1, KEEP), GLOFND_OK);
        for (int i = 0; i < MANY; i++) {
            const int64_t j = (int64_t)i * 2741 % MANY; /* every position once */
            const float v = (float)(j * 7919 % 997) * 0.002f - 1.0f;
            if (v >= a.limit[0]) gf_best_push(&a, 0, v, j);
        }
        assert_int_equal(gf_best_sort(&a, 0, KEEP), KEEP);
        uint64_t best[KEEP];
        memcpy(best, a.key, sizeof best);
        for (int i = 1; i < KEEP; i++) assert_true(best[i - 1] > best[i]);
        int above = 0; /* no entry was lost */
        for (int64_t j = 0; j < MANY; j++) above += gf_best_key((float)(j * 7919 % 997) * 0.002f - 1.0f, j) >= best[KEEP - 1];
        assert_int_equal(above, KEEP);
        assert_int_equal(gf_best_sort_by_position(&a, 0, 200), 200);
        for (int i = 1; i < 200; i++) assert_true(gf_best_other(a.key[i - 1]) < gf_best_other(a.key[i]));
        for (int i = 0; i < 200; i++) assert_true(a.key[i] >= best[199]);
        gf_best_free(&a);
    }
}

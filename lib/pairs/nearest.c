/* nearest.c - see nearest.h.
 *
 * By integers: similarities are off by at most e. The k-th largest of them is then at most e above the true k-th largest, so
 * that whatever is more than 2 e below it is not among the k nearest, nor equal to the last of these. All others are kept, and
 * computed as floats when the row is done. Where that leaves too many, as among vectors that are all alike, the search begins
 * again with floats.
 */
#include "pairs/nearest.h"

#include <stdlib.h>

#include "cpu/kernels/cpu_kernels.h"
#include "util/array.h"
#include "util/parallel.h"

#define GROUP 128      /* rows that share the columns while these are in the cache */
#define PAYS 128       /* columns per neighbour from which integers gain more than their exact values cost */
#define AFFORDABLE 640 /* one in so many similarities may be computed as a float before rows are done */
#define LEFT_ROWS 8    /* rows of a product at least; one of them is used */
#define DEPTH 64       /* dimensions of some columns that stay in the nearest cache */

typedef struct search {
    const gf_nearest_search *s;
    const gf_tile_ops *ops;
    gf_panels q, k;
    const gf_panels *rows; /* q; k if both are the same */
    gf_best list;          /* [threads][GROUP] */
    /* by integers */
    float *exact;          /* [threads][exact_floats] a row, and a part of some columns, of unit vectors */
    _Atomic int64_t early; /* floats that were computed before their row was done */
    int64_t early_max;
    atomic_int enough; /* 1: too many */
} search;

/* A row [dim][GF_PANEL], columns [DEPTH][DEPTH], and the same transposed. */
static int64_t exact_floats(int64_t dim) { return dim * GF_PANEL + 2 * DEPTH * DEPTH; }

static int counts(const search *x, int64_t column) { return !x->s->label || x->s->label[column] >= 0; }

/* ----- integers ----- */

/* Columns lie anywhere in memory: what is needed next is fetched while the present part is computed. */
static void fetch(const search *x, uint64_t key, int64_t d) {
    const float *column = gf_vector_at(&x->s->cols, gf_best_other(key));
    for (int64_t i = d; i < GF_MIN(d + DEPTH, x->k.dim); i += 16) __builtin_prefetch(column + i);
}

/* Replaces the similarities of a list by those of floats, a panel of columns at a time. */
static void compute_floats(search *x, int64_t list, int64_t row, int thread) {
    const int64_t dim = x->k.dim, count = x->list.count[list];
    float *left = x->exact + (int64_t)thread * exact_floats(dim);
    uint64_t *key = x->list.key + list * x->list.capacity;
    gf_vector_write_unit(left, gf_vector_at(&x->s->rows, row), dim, x->rows->scale[row]);
    for (int64_t from = 0; from < count; from += GF_PANEL) {
        uint64_t *panel_key = key + from;
        const int64_t panel_count = GF_MIN(GF_PANEL, count - from);
        float *right = left + dim * GF_PANEL;
        const int64_t panel_dim = x->k.dim;
        float s[LEFT_ROWS * GF_PANEL], *across = right + DEPTH * DEPTH;
        for (int64_t i = 0; i < panel_count; i++) fetch(x, panel_key[i], 0);
        for (int64_t d = 0; d < panel_dim; d += DEPTH) {
            const int64_t depth = GF_MIN(DEPTH, panel_dim - d);
            for (int64_t i = 0; i < panel_count; i++) {
                const int64_t column = gf_best_other(panel_key[i]);
                fetch(x, panel_key[i], d + DEPTH);
                x->ops->scale(across + i * DEPTH, gf_vector_at(&x->s->cols, column) + d, depth, x->k.scale[column]);
            }
            x->ops->transpose(right, across, DEPTH, GF_PANEL, DEPTH);
            x->ops->product(s, GF_PANEL, left + d * GF_PANEL, 1, GF_PANEL, right, DEPTH, 0, LEFT_ROWS, GF_PANEL, (int)depth,
                            d > 0);
        }
        for (int64_t i = 0; i < panel_count; i++) panel_key[i] = gf_best_key(s[i], gf_best_other(panel_key[i]));
    }
}

static void take_integers(search *x, const gf_strip *t, int r, int64_t list, int thread) {
    int32_t at[GF_STRIP_COLS];
    const float *s = t->s + (size_t)r * t->ld, margin = 2.0f * gf_panels_error(x->rows, t->r0 + r, &x->k);
    const int found = x->ops->reach(at, s, (int)gf_pad(t->cols), x->list.limit[list], NULL);
    for (int i = 0; i < found && at[i] < t->cols; i++) {
        if (s[at[i]] < x->list.limit[list] || !counts(x, t->c0 + at[i])) continue;
        x->list.key[list * x->list.capacity + x->list.count[list]++] = gf_best_key(s[at[i]], t->c0 + at[i]);
        if (x->list.count[list] == x->list.capacity) {
            /* A full list: what can no longer be among the nearest leaves it. */
            const int64_t row = t->r0 + r;
            const int64_t count = gf_best_cut_near(&x->list, list, margin);
            if (!(count <= (x->list.keep + x->list.capacity) / 2)) {
                if (atomic_fetch_add(&x->early, count) > x->early_max) atomic_store(&x->enough, 1);
                compute_floats(x, list, row, thread);
                gf_best_cut(&x->list, list); /* those are behind k others, whatever follows */
                x->list.limit[list] -= margin;
            }
        }
    }
    if (!t->last) return;
    gf_best_cut_near(&x->list, list, margin);
    compute_floats(x, list, t->r0 + r, thread);
}

/* ----- the sweep ----- */

static void visit(void *user, const gf_strip *t, int thread) {
    search *x = user;
    if (atomic_load(&x->enough)) return;
    for (int r = 0; r < t->rows; r++) {
        const int64_t list = (int64_t)thread * GROUP + t->slot + r;
        if (t->c0 == 0) gf_best_clear(&x->list, list);
        if (x->k.words) take_integers(x, t, r, list, thread);
        else {
            /* Columns rise, so one that only equals the limit is behind k others. */
            const float *s = t->s + (size_t)r * t->ld;
            int32_t at[GF_STRIP_COLS];
            const int found = x->ops->reach(at, s, (int)gf_pad(t->cols), x->list.limit[list], NULL);
            for (int i = 0; i < found && at[i] < t->cols; i++)
                if (s[at[i]] > x->list.limit[list] && counts(x, t->c0 + at[i]))
                    gf_best_push(&x->list, list, s[at[i]], t->c0 + at[i]);
        }
        if (t->last) x->s->take(x->s->user, &x->list, list, t->r0 + r, thread);
    }
}

static glofnd_status pack_and_sweep(gf_error *err, search *x, int integers) {
    const gf_vectors *rows = &x->s->rows, *cols = &x->s->cols;
    const int same = rows->x == cols->x && rows->row == cols->row && rows->n == cols->n && rows->dim == cols->dim;
    const int threads = x->s->job.threads;
    gf_sweep_job job = x->s->job;
    job.enough = &x->enough;
    x->rows = same ? &x->k : &x->q;
    TRY((integers ? gf_panels_pack_int16 : gf_panels_pack)(err, cols, threads, &x->k));
    if (!same) TRY((integers ? gf_panels_pack_int16 : gf_panels_pack)(err, rows, threads, &x->q));
    if (integers) x->exact = calloc((size_t)threads * (size_t)exact_floats(x->k.dim), sizeof *x->exact);
    FAIL_IF(err, integers && !x->exact, GLOFND_E_MEMORY, "no memory for some embeddings of %d threads", threads);
    return gf_sweep_rows(err, x->rows, &x->k, GROUP, &job, visit, x);
}

static glofnd_status run(gf_error *err, search *x, int integers) {
    atomic_store(&x->enough, 0);
    const glofnd_status status = pack_and_sweep(err, x, integers);
    gf_panels_free(&x->q);
    gf_panels_free(&x->k);
    free(x->exact);
    x->exact = NULL;
    return status;
}

glofnd_status gf_nearest_each(gf_error *err, const gf_nearest_search *s) {
    search x = {.s = s, .ops = gf_cpu_kernels_get()->tile, .early_max = s->rows.n * s->cols.n / AFFORDABLE};
    const int fit = s->cols.dim <= GF_INT16_DEPTH && s->rows.dim == s->cols.dim;
    const int pays = s->cols.n / PAYS >= s->k && x.ops->int16_is_fast();
    const int integers = fit && (s->by == GF_NEAREST_CHOSEN ? pays : s->by == GF_NEAREST_INTEGERS);
    TRY(gf_best_alloc_roomy(err, &x.list, (int64_t)s->job.threads * GROUP, s->k));
    glofnd_status status = run(err, &x, integers);
    if (status == GLOFND_OK && atomic_load(&x.enough)) status = run(err, &x, 0);
    gf_best_free(&x.list);
    return status;
}

/* ----- positions alone ----- */

typedef struct positions {
    int64_t k, *best; /* [rows][k] */
} positions;

static void write_positions(void *user, gf_best *b, int64_t at, int64_t row, int thread) {
    const positions *p = user;
    const int64_t count = gf_best_sort(b, at, p->k);
    (void)thread;
    for (int64_t i = 0; i < p->k; i++) p->best[row * p->k + i] = i < count ? gf_best_other(b->key[at * b->capacity + i]) : -1;
}

glofnd_status gf_nearest(gf_error *err, const gf_vectors *rows, const gf_vectors *cols, int k, const gf_sweep_job *job,
                         int64_t *best) {
    positions p = {k, best};
    gf_nearest_search s = {.rows = *rows, .cols = *cols, .k = k, .job = *job, .take = write_positions, .user = &p};
    FAIL_IF(err, k < 1 || k > 4096, GLOFND_E_ARGUMENT, "k is %d; it must be in [1, 4096]", k);
    if (s.job.threads < 1) s.job.threads = gf_parallel_default();
    return gf_nearest_each(err, &s);
}

/* strips.c - see strips.h.
 *
 * The symmetric sweep visits pairs of blocks in rounds in which no block occurs twice, as a tournament does: the last team plays
 * team `round`, the others sit around a table and play across. Within a pair the rows go panel by panel over the columns, so
 * that the panel and the strip of similarities stay in the cache.
 */
#include "pairs/strips.h"

#include <math.h>
#include <stdlib.h>

#include "cpu/kernels/tile.h"
#include "util/parallel.h"

/* ----- embeddings ----- */

size_t gf_panels_bytes(int64_t n, int64_t dim) { return (size_t)gf_pad(n) * (size_t)dim * sizeof(float); }

typedef struct packing {
    const float *x;
    const int32_t *row;
    gf_panels *to;
} packing;

static void pack_panel(void *arg, int64_t panel, int thread) {
    const packing *p = arg;
    const int64_t dim = p->to->dim;
    (void)thread;
    for (int64_t c = 0; c < GF_PANEL; c++) {
        const int64_t i = panel * GF_PANEL + c;
        float *to = p->to->x + panel * GF_PANEL * dim + c;
        const float *x = i < p->to->n ? p->x + (p->row ? p->row[i] : i) * dim : NULL;
        double sum = 0.0;
        for (int64_t k = 0; x && k < dim; k++) sum += (double)x[k] * (double)x[k];
        const double scale = sum > 0.0 ? 1.0 / sqrt(sum) : 0.0;
        for (int64_t k = 0; k < dim; k++) to[k * GF_PANEL] = x ? (float)(scale * (double)x[k]) : 0.0f;
    }
}

glofnd_status gf_panels_pack(gf_error *err, const float *x, int64_t dim, const int32_t *row, int64_t n, int threads,
                             gf_panels *out) {
    gf_panels p = {.n = n, .dim = dim};
    FAIL_IF(err, n < 1 || n > INT32_MAX || dim < 1 || dim > INT32_MAX / 4, GLOFND_E_ARGUMENT,
            "%lld embeddings of %lld numbers: both must be at least 1, and the embeddings fewer than 2^31", (long long)n,
            (long long)dim);
    p.x = aligned_alloc(64, gf_panels_bytes(n, dim));
    FAIL_IF(err, !p.x, GLOFND_E_MEMORY, "no memory for %lld x %lld embeddings", (long long)n, (long long)dim);
    packing job = {.x = x, .row = row, .to = &p};
    gf_parallel(threads, gf_pad(n) / GF_PANEL, pack_panel, &job);
    *out = p;
    return GLOFND_OK;
}

void gf_panels_free(gf_panels *p) {
    free(p->x);
    *p = (gf_panels){0};
}

/* ----- sweeps ----- */

typedef struct sweep {
    const gf_panels *q, *k;
    const gf_tile_ops *ops;
    gf_strip_visit visit;
    void *user;
    gf_job_progress watch;
    float *scratch; /* [threads][GF_PANEL][GF_STRIP_COLS] */
    int64_t block, blocks, round;
    _Atomic int64_t done; /* similarities */
    double total;
} sweep;

size_t gf_strips_bytes(int threads) { return (size_t)threads * GF_PANEL * GF_STRIP_COLS * sizeof(float); }

static int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }

static void strip(sweep *w, int64_t r0, int64_t c0, int64_t cols, int last, int thread) {
    const int64_t dim = w->k->dim;
    float *s = w->scratch + (int64_t)thread * GF_PANEL * GF_STRIP_COLS;
    const gf_strip t = {.r0 = r0,
                        .c0 = c0,
                        .rows = (int)smaller(GF_PANEL, w->q->n - r0),
                        .cols = (int)cols,
                        .last = last,
                        .s = s,
                        .ld = GF_STRIP_COLS};
    w->ops->product(s, t.ld, w->q->x + r0 * dim, 1, GF_PANEL, w->k->x + c0 * dim, GF_PANEL, GF_PANEL * (size_t)dim, GF_PANEL,
                    (int)gf_pad(cols), (int)dim, 0);
    w->visit(w->user, &t, thread);
}

/* Work of one task is done; thread 0 is the caller and may tell. */
static void advance(sweep *w, int64_t pairs, int thread) {
    const double done = (double)(atomic_fetch_add(&w->done, pairs) + pairs), share = done < w->total ? done / w->total : 1.0;
    if (thread == 0 && w->watch.progress) w->watch.progress(w->watch.user, w->watch.from + share * (w->watch.to - w->watch.from));
}

/* Blocks i <= j. On the diagonal a panel needs no columns before its own. */
static void pair_of_blocks(sweep *w, int64_t i, int64_t j, int thread) {
    const int64_t n = w->q->n, r_end = smaller((i + 1) * w->block, n), c_end = smaller((j + 1) * w->block, n);
    for (int64_t r0 = i * w->block; r0 < r_end && !gf_job_stopped(&w->watch); r0 += GF_PANEL) {
        const int64_t c0 = i == j ? r0 : j * w->block;
        strip(w, r0, c0, c_end - c0, 0, thread);
    }
    advance(w, (r_end - i * w->block) * (c_end - j * w->block) / (i == j ? 2 : 1), thread);
}

static void diagonal(void *arg, int64_t task, int thread) { pair_of_blocks(arg, task, task, thread); }

static void game(void *arg, int64_t task, int thread) {
    sweep *w = arg;
    const int64_t even = w->blocks + (w->blocks & 1), table = even - 1;
    const int64_t a = task > 0 ? (w->round + task) % table : table, b = task > 0 ? (w->round - task + table) % table : w->round;
    const int64_t i = smaller(a, b), j = a + b - i;
    if (j < w->blocks) pair_of_blocks(w, i, j, thread); /* odd number of blocks: somebody rests */
}

static void row_group(void *arg, int64_t task, int thread) {
    sweep *w = arg;
    const int64_t n = w->k->n, first = task * w->block, end = smaller(first + w->block, w->q->n);
    for (int64_t c0 = 0; c0 < n && !gf_job_stopped(&w->watch); c0 += GF_STRIP_COLS) {
        const int64_t cols = smaller(GF_STRIP_COLS, n - c0);
        for (int64_t r0 = first; r0 < end; r0 += GF_PANEL) strip(w, r0, c0, cols, c0 + cols == n, thread);
        advance(w, (end - first) * cols, thread);
    }
}

static glofnd_status begin(gf_error *err, sweep *w, int threads, const gf_job_progress *watch) {
    w->ops = gf_tile_ops_get();
    w->watch = gf_job_part(watch, 0.0, 1.0);
    w->scratch = aligned_alloc(64, gf_strips_bytes(threads));
    FAIL_IF(err, !w->scratch, GLOFND_E_MEMORY, "no memory for strips of similarities");
    return GLOFND_OK;
}

static glofnd_status end(gf_error *err, sweep *w) {
    free(w->scratch);
    FAIL_IF(err, gf_job_stopped(&w->watch), GLOFND_E_ARGUMENT, "stopped");
    return GLOFND_OK;
}

/* Small enough that every thread has games in a round, large enough that a panel is read often while it is in the cache. */
static int64_t chosen_block(int64_t n, int threads) {
    const int64_t fair = gf_pad((n + 4 * threads - 1) / (4 * threads));
    return smaller(fair, GF_STRIP_COLS);
}

glofnd_status gf_strips_symmetric(gf_error *err, const gf_panels *p, int64_t block, int threads, const gf_job_progress *watch,
                                  gf_strip_visit visit, void *user) {
    sweep w = {.q = p, .k = p, .visit = visit, .user = user, .total = 0.5 * (double)p->n * (double)p->n};
    w.block = block ? block : chosen_block(p->n, threads);
    w.blocks = (p->n + w.block - 1) / w.block;
    TRY(begin(err, &w, threads, watch));
    const int64_t even = w.blocks + (w.blocks & 1);
    gf_parallel(threads, w.blocks, diagonal, &w);
    for (w.round = 0; w.round < even - 1 && !gf_job_stopped(&w.watch); w.round++) gf_parallel(threads, even / 2, game, &w);
    return end(err, &w);
}

glofnd_status gf_strips_rows(gf_error *err, const gf_panels *q, const gf_panels *k, int64_t group, int threads,
                             const gf_job_progress *watch, gf_strip_visit visit, void *user) {
    sweep w = {.q = q, .k = k, .visit = visit, .user = user, .block = group, .total = (double)q->n * (double)k->n};
    FAIL_IF(err, q->dim != k->dim, GLOFND_E_ARGUMENT, "embeddings of %lld numbers against embeddings of %lld", (long long)q->dim,
            (long long)k->dim);
    TRY(begin(err, &w, threads, watch));
    gf_parallel(threads, (q->n + group - 1) / group, row_group, &w);
    return end(err, &w);
}

/* pairs_sweep.c - see pairs_sweep.h.
 *
 * The symmetric sweep visits pairs of blocks in rounds in which no block occurs twice: the round-robin schedule of a tournament,
 * with the last block fixed and the others rotating. Within a pair the rows go panel by panel over the columns, so that the panel
 * and the strip of similarities stay in the cache.
 */
#include "pairs/pairs_sweep.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cpu/kernels/cpu_kernels.h"
#include "cpu/kernels/int16_vector.h"
#include "util/array.h"
#include "util/parallel.h"

#define DEPTH 256                  /* dimensions in one call of the product: the panels it rereads stay in the nearest caches */
#define SHARED_FLOATS (256 * 1024) /* embeddings of a strip's columns, which the rows of a group share in the next cache */

/* ----- embeddings ----- */

size_t gf_panels_bytes(int64_t n, int64_t dim) { return (size_t)gf_pad(n) * (size_t)dim * sizeof(float); }

typedef struct packing {
    const gf_vectors *v;
    gf_panels *to;
    _Atomic int64_t bad; /* first vector that is not finite; v->n: none */
} packing;

static void note_bad(packing *p, int64_t i) {
    int64_t first = atomic_load(&p->bad);
    while (i < first && !atomic_compare_exchange_weak(&p->bad, &first, i)) continue;
}

double gf_vector_unit_scale(const float *x, int64_t dim, int *finite) {
    double sum = 0.0;
    for (int64_t k = 0; k < dim; k++) sum += (double)x[k] * (double)x[k];
    *finite = isfinite(sum) != 0; /* squares of floats do not overflow double */
    return sum > 0.0 ? 1.0 / sqrt(sum) : 0.0;
}

void gf_vector_write_unit(float *to, const float *x, int64_t dim, double scale) {
    for (int64_t k = 0; k < dim; k++) to[k * GF_PANEL] = (float)(scale * (double)x[k]);
}

static void pack_panel(void *arg, int64_t panel, int thread) {
    packing *p = arg;
    const gf_vectors *v = p->v;
    float *to = p->to->x + panel * GF_PANEL * v->dim;
    (void)thread;
    if ((panel + 1) * GF_PANEL > v->n) memset(to, 0, GF_PANEL * (size_t)v->dim * sizeof *to);
    for (int64_t i = panel * GF_PANEL; i < GF_MIN((panel + 1) * GF_PANEL, v->n); i++) {
        int finite;
        const double scale = gf_vector_unit_scale(gf_vector_at(v, i), v->dim, &finite);
        gf_vector_write_unit(to + i % GF_PANEL, gf_vector_at(v, i), v->dim, scale);
        if (!finite) note_bad(p, i);
    }
}

static void pack_panel_int16(void *arg, int64_t panel, int thread) {
    packing *p = arg;
    const gf_vectors *v = p->v;
    (void)thread;
    memset(p->to->word + panel * GF_PANEL * p->to->words, 0, GF_PANEL * (size_t)p->to->words * sizeof *p->to->word);
    for (int64_t i = panel * GF_PANEL; i < GF_MIN((panel + 1) * GF_PANEL, v->n); i++) {
        uint32_t *to = p->to->word + i / GF_PANEL * GF_PANEL * p->to->words + i % GF_PANEL;
        int finite;
        p->to->scale[i] = gf_vector_unit_scale(gf_vector_at(v, i), v->dim, &finite);
        if (finite) p->to->step[i] = gf_int16_round(to, GF_PANEL, gf_vector_at(v, i), v->dim, p->to->scale[i], &p->to->lost[i]);
        else note_bad(p, i);
    }
    for (int64_t i = GF_MIN((panel + 1) * GF_PANEL, v->n); i < (panel + 1) * GF_PANEL; i++) p->to->step[i] = 0.0f;
}

float gf_panels_error(const gf_panels *q, int64_t r, const gf_panels *k) {
    return gf_int16_error(q->lost[r], k->lost_max, k->dim);
}

static const char *name_of(const gf_vectors *v) { return v->name ? v->name : "embedding"; }

static glofnd_status check_vectors(gf_error *err, const gf_vectors *v, int threads) {
    FAIL_IF(err, v->n < 1 || v->n > INT32_MAX || v->dim < 1 || v->dim > INT32_MAX / 4 || threads < 1, GLOFND_E_ARGUMENT,
            "%s: %lld vectors of %lld numbers on %d threads; all must be at least 1, and the vectors fewer than 2^31", name_of(v),
            (long long)v->n, (long long)v->dim, threads);
    return GLOFND_OK;
}

/* Fills p, whose arrays were allocated if `enough_memory`, and hands it out. */
static glofnd_status pack(gf_error *err, const gf_vectors *v, int threads, int enough_memory, gf_task task, gf_panels *p,
                          gf_panels *out) {
    packing job = {.v = v, .to = p, .bad = v->n};
    if (enough_memory) gf_parallel(threads, gf_pad(v->n) / GF_PANEL, task, &job);
    if (enough_memory && job.bad == v->n) {
        *out = *p;
        return GLOFND_OK;
    }
    gf_panels_free(p);
    FAIL_IF(err, !enough_memory, GLOFND_E_MEMORY, "no memory for %lld x %lld embeddings", (long long)v->n, (long long)v->dim);
    GF_FAIL(err, GLOFND_E_NUMERIC, "%s %lld is not finite", name_of(v), (long long)job.bad);
}

glofnd_status gf_panels_pack(gf_error *err, const gf_vectors *v, int threads, gf_panels *out) {
    gf_panels p = {.n = v->n, .dim = v->dim};
    TRY(check_vectors(err, v, threads));
    p.x = aligned_alloc(64, gf_panels_bytes(v->n, v->dim));
    return pack(err, v, threads, p.x != NULL, pack_panel, &p, out);
}

glofnd_status gf_panels_pack_int16(gf_error *err, const gf_vectors *v, int threads, gf_panels *out) {
    gf_panels p = {.n = v->n, .dim = v->dim, .words = (v->dim + 1) / 2};
    TRY(check_vectors(err, v, threads));
    FAIL_IF(err, v->dim > GF_INT16_DEPTH, GLOFND_E_ARGUMENT, "%s: %lld numbers are too many for integers", name_of(v),
            (long long)v->dim);
    const size_t pad = (size_t)gf_pad(v->n);
    p.word = aligned_alloc(64, pad * (size_t)p.words * sizeof *p.word);
    p.step = malloc(pad * sizeof *p.step);
    p.scale = malloc(pad * sizeof *p.scale);
    p.lost = malloc(pad * sizeof *p.lost);
    TRY(pack(err, v, threads, p.word && p.step && p.scale && p.lost, pack_panel_int16, &p, out));
    for (int64_t i = 0; i < v->n; i++) out->lost_max = fmaxf(out->lost_max, out->lost[i]);
    return GLOFND_OK;
}

void gf_panels_free(gf_panels *p) {
    free(p->word), free(p->step), free(p->scale), free(p->lost);
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
    const atomic_int *enough;
    float *scratch; /* [threads][GF_PANEL][GF_STRIP_COLS] */
    int64_t block, blocks, round;
    int64_t cols;         /* columns of a strip of gf_sweep_rows */
    _Atomic int64_t done; /* similarities */
    double total;
} sweep;

size_t gf_sweep_bytes(int threads) { return (size_t)threads * GF_PANEL * GF_STRIP_COLS * sizeof(float); }

gf_sweep_job gf_sweep_stage(const gf_sweep_job *job, const char *stage) {
    gf_sweep_job named = *job;
    named.watch.stage = stage;
    return named;
}

void gf_panels_product(const gf_tile_ops *ops, const gf_panels *q, int64_t r0, const gf_panels *k, int64_t c0, int cols,
                       float *s) {
    const int64_t dim = k->dim;
    for (int64_t w = 0; w < k->words; w += DEPTH) {
        const gf_int16_words rows = {q->word + r0 * q->words + w * GF_PANEL, 1, GF_PANEL, q->step + r0};
        const gf_int16_words columns = {k->word + c0 * k->words + w * GF_PANEL, GF_PANEL * (size_t)k->words, GF_PANEL,
                                        k->step + c0};
        ops->product_int16(s, GF_STRIP_COLS, &rows, &columns, GF_PANEL, (int)gf_pad(cols), (int)GF_MIN(DEPTH, k->words - w),
                           w > 0);
    }
    for (int64_t d = 0; !k->words && d < dim; d += DEPTH)
        ops->product(s, GF_STRIP_COLS, q->x + r0 * dim + d * GF_PANEL, 1, GF_PANEL, k->x + c0 * dim + d * GF_PANEL, GF_PANEL,
                     GF_PANEL * (size_t)dim, GF_PANEL, (int)gf_pad(cols), (int)GF_MIN(DEPTH, dim - d), d > 0);
}

static void visit_strip(sweep *w, gf_strip t, int thread) {
    float *s = w->scratch + (int64_t)thread * GF_PANEL * GF_STRIP_COLS;
    t.rows = (int)GF_MIN(GF_PANEL, w->q->n - t.r0);
    t.s = s, t.ld = GF_STRIP_COLS, t.rounded = w->k->words > 0;
    gf_panels_product(w->ops, w->q, t.r0, w->k, t.c0, t.cols, s);
    w->visit(w->user, &t, thread);
}

/* A task is done; thread 0 is the caller's and may report. */
static void advance(sweep *w, int64_t pairs, int thread) {
    const double done = (double)(atomic_fetch_add(&w->done, pairs) + pairs);
    if (thread == 0) gf_job_report(&w->watch, done < w->total ? done / w->total : 1.0);
}

/* Blocks i <= j. On the diagonal a panel needs no columns before its own. */
static void pair_of_blocks(sweep *w, int64_t i, int64_t j, int thread) {
    const int64_t n = w->q->n, r_end = GF_MIN((i + 1) * w->block, n), c_end = GF_MIN((j + 1) * w->block, n);
    for (int64_t r0 = i * w->block; r0 < r_end && !gf_job_stopped(&w->watch); r0 += GF_PANEL) {
        const int64_t c0 = i == j ? r0 : j * w->block;
        visit_strip(w, (gf_strip){.r0 = r0, .c0 = c0, .cols = (int)(c_end - c0)}, thread);
    }
    advance(w, (r_end - i * w->block) * (c_end - j * w->block) / (i == j ? 2 : 1), thread);
}

static void diagonal(void *arg, int64_t task, int thread) { pair_of_blocks(arg, task, task, thread); }

static void pair_of_round(void *arg, int64_t task, int thread) {
    sweep *w = arg;
    const int64_t even = w->blocks + (w->blocks & 1), ring = even - 1;
    const int64_t a = task > 0 ? (w->round + task) % ring : ring, b = task > 0 ? (w->round - task + ring) % ring : w->round;
    const int64_t i = GF_MIN(a, b), j = a + b - i;
    if (j < w->blocks) pair_of_blocks(w, i, j, thread); /* with an odd number of blocks one has no partner */
}

static void row_group(void *arg, int64_t task, int thread) {
    sweep *w = arg;
    const int64_t n = w->k->n, first = task * w->block, end = GF_MIN(first + w->block, w->q->n);
    for (int64_t c0 = 0; c0 < n && !gf_job_stopped(&w->watch) && !(w->enough && atomic_load(w->enough)); c0 += w->cols) {
        const int64_t cols = GF_MIN(w->cols, n - c0);
        for (int64_t r0 = first; r0 < end; r0 += GF_PANEL)
            visit_strip(w, (gf_strip){.r0 = r0, .c0 = c0, .cols = (int)cols, .slot = (int)(r0 - first), .last = c0 + cols == n},
                        thread);
        advance(w, (end - first) * cols, thread);
    }
}

static glofnd_status begin_sweep(gf_error *err, sweep *w, const gf_sweep_job *job) {
    w->ops = gf_cpu_kernels_get()->tile;
    w->watch = job->watch;
    w->enough = job->enough;
    w->scratch = aligned_alloc(64, gf_sweep_bytes(job->threads));
    FAIL_IF(err, !w->scratch, GLOFND_E_MEMORY, "no memory for strips of similarities");
    return GLOFND_OK;
}

static glofnd_status end_sweep(gf_error *err, sweep *w) {
    free(w->scratch);
    FAIL_IF(err, gf_job_stopped(&w->watch), GLOFND_E_CANCELLED, "cancelled");
    return GLOFND_OK;
}

glofnd_status gf_sweep_symmetric_rounded(gf_error *err, const gf_panels *p, const gf_panels *integers, int64_t block,
                                         const gf_sweep_job *job, gf_strip_visit visit, void *user) {
    sweep w = {.q = p, .k = p, .visit = visit, .user = user, .total = 0.5 * (double)p->n * (double)p->n};
    /* Small enough that every thread has pairs of blocks in a round, large enough that a panel is read often while cached. */
    const int64_t fair = gf_pad((p->n + 4 * job->threads - 1) / (4 * job->threads));
    w.block = block ? block : GF_MIN(fair, GF_STRIP_COLS);
    w.blocks = (p->n + w.block - 1) / w.block;
    TRY(begin_sweep(err, &w, job));
    const int64_t even = w.blocks + (w.blocks & 1);
    gf_parallel(job->threads, w.blocks, diagonal, &w);
    if (integers) w.q = w.k = integers;
    for (w.round = 0; w.round < even - 1 && !gf_job_stopped(&w.watch); w.round++)
        gf_parallel(job->threads, even / 2, pair_of_round, &w);
    return end_sweep(err, &w);
}

glofnd_status gf_sweep_symmetric(gf_error *err, const gf_panels *p, int64_t block, const gf_sweep_job *job, gf_strip_visit visit,
                                 void *user) {
    return gf_sweep_symmetric_rounded(err, p, NULL, block, job, visit, user);
}

glofnd_status gf_sweep_rows(gf_error *err, const gf_panels *q, const gf_panels *k, int64_t group, const gf_sweep_job *job,
                            gf_strip_visit visit, void *user) {
    sweep w = {.q = q, .k = k, .visit = visit, .user = user, .block = group, .total = (double)q->n * (double)k->n};
    FAIL_IF(err, q->dim != k->dim, GLOFND_E_ARGUMENT, "embeddings of %lld numbers against embeddings of %lld", (long long)q->dim,
            (long long)k->dim);
    const int64_t fit = SHARED_FLOATS / (k->words ? k->words : k->dim) / GF_PANEL * GF_PANEL;
    w.cols = fit < 128 ? 128 : GF_MIN(fit, GF_STRIP_COLS);
    TRY(begin_sweep(err, &w, job));
    gf_parallel(job->threads, (q->n + group - 1) / group, row_group, &w);
    return end_sweep(err, &w);
}

glofnd_status gf_sweep_vectors(gf_error *err, const gf_vectors *rows, const gf_vectors *cols, const gf_sweep_job *job,
                               gf_strip_visit visit, void *user) {
    const int same = rows->x == cols->x && rows->row == cols->row && rows->n == cols->n && rows->dim == cols->dim;
    gf_panels q = {0}, k = {0};
    glofnd_status status = gf_panels_pack(err, cols, job->threads, &k);
    if (status == GLOFND_OK && !same) status = gf_panels_pack(err, rows, job->threads, &q);
    if (status == GLOFND_OK) status = gf_sweep_rows(err, same ? &k : &q, &k, GF_SWEEP_GROUP, job, visit, user);
    gf_panels_free(&q);
    gf_panels_free(&k);
    return status;
}

/* ----- rows that are read when they are needed ----- */

typedef struct asked_row {
    int32_t row, at; /* of the source; where it goes */
} asked_row;

static int by_row(const void *x, const void *y) {
    const asked_row *a = x, *b = y;
    if (a->row != b->row) return a->row < b->row ? -1 : 1;
    return (a->at > b->at) - (a->at < b->at);
}

static glofnd_status read_sorted(gf_error *err, const gf_row_source *s, const asked_row *a, int64_t count, float *x) {
    for (int64_t done = 0, run; done < count; done += run) {
        for (run = 1; done + run < count && a[done + run].row == a[done].row + run && a[done + run].at == a[done].at + run; run++)
            continue;
        TRY(s->read(err, s->user, a[done].row, run, x + a[done].at * s->dim));
    }
    return GLOFND_OK;
}

glofnd_status gf_row_source_gather(gf_error *err, const gf_row_source *s, const int32_t *row, int64_t count, float *x) {
    int64_t rising = 1;
    while (rising < count && row[rising - 1] < row[rising]) rising++;
    if (rising >= count) {
        /* Rows that follow each other, and go to places that do, with one call. */
        for (int64_t done = 0, run; done < count; done += run) {
            for (run = 1; done + run < count && row[done + run] == row[done] + run; run++) continue;
            TRY(s->read(err, s->user, row[done], run, x + done * s->dim));
        }
        return GLOFND_OK;
    }
    asked_row *a = malloc((size_t)count * sizeof *a);
    FAIL_IF(err, !a, GLOFND_E_MEMORY, "no memory to read %lld rows", (long long)count);
    for (int64_t i = 0; i < count; i++) a[i] = (asked_row){row[i], (int32_t)i};
    qsort(a, (size_t)count, sizeof *a, by_row);
    const glofnd_status status = read_sorted(err, s, a, count, x);
    free(a);
    return status;
}

static glofnd_status pack_pieces(gf_error *err, const gf_row_source *s, const int32_t *row, int64_t count, int64_t piece,
                                 float *x, int threads, gf_panels *p) {
    for (int64_t done = 0; done < count; done += piece) {
        const gf_vectors some = {.x = x, .n = GF_MIN(piece, count - done), .dim = s->dim};
        gf_panels packed = {0};
        TRY(gf_row_source_gather(err, s, row + done, some.n, x));
        TRY(gf_panels_pack(err, &some, threads, &packed));
        memcpy(p->x + done * s->dim, packed.x, gf_panels_bytes(some.n, s->dim));
        gf_panels_free(&packed);
    }
    return GLOFND_OK;
}

glofnd_status gf_row_source_pack(gf_error *err, const gf_row_source *s, const int32_t *row, int64_t count, int64_t piece,
                                 int threads, gf_panels *out) {
    gf_panels p = {.n = count, .dim = s->dim, .x = aligned_alloc(64, gf_panels_bytes(count, s->dim))};
    float *x = malloc((size_t)GF_MIN(piece, count) * (size_t)s->dim * sizeof *x);
    const glofnd_status status =
        p.x && x ? pack_pieces(err, s, row, count, piece, x, threads, &p)
                 : gf_fail(err, GLOFND_E_MEMORY, "no memory for %lld x %lld embeddings", (long long)count, (long long)s->dim);
    free(x);
    if (status == GLOFND_OK) *out = p;
    else gf_panels_free(&p);
    return status;
}

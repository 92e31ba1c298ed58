/* pairs_search_cpu.c - see pairs_search.h: discovery on the CPU.
 *
 * One pass: every similarity is computed once and offered to the lists of both anchors, which keep the best `rank` (or `top`) of
 * them; thresholds, pairs above them and mutual pairs are then read off the lists. Two passes, where the lists of all anchors do
 * not fit: thresholds row by row, with lists of the current rows only; then every similarity once more, against known thresholds,
 * with lists of `top`. Given thresholds need only the second of these passes.
 *
 * Where the CPU multiplies 16-bit integers twice as fast as floats, and lists are short, integers find the candidates: their
 * similarities are wrong by a known bound at most, and what can change a result is computed again, by the chain of the product:
 * its bits.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cpu/kernels/cpu_kernels.h"
#include "pairs/best.h"
#include "pairs/pairs_search.h"
#include "util/array.h"
#include "util/components.h"
#include "util/machine.h"
#include "util/parallel.h"
#include "util/rng.h"

enum {
    GROUP = 128, /* rows that share the columns while these are in the cache */
    PAYS = 400   /* columns per entry of a list from which integers gain more than the floats of candidates cost */
};
#define SLACK 0x1p-20f

typedef struct search {
    const gf_pairs_task *t;
    gf_pairs_found *f;
    const gf_tile_ops *ops;
    gf_best best;
    float *scan;                      /* [pad(n)] smallest similarity that can change a result of the anchor */
    const float *lambda;              /* known thresholds; NULL: read off the lists at the end */
    int32_t *mutual_root, *copy_root; /* [threads][n] */
    int64_t group;                    /* rows: lists of a thread */
    const float *unit;                /* [n][dim] by integers: the rows as floats */
    int64_t dim;
    float margin; /* by integers: what similarities are wrong by, at most; else 0 */
} search;

/* ----- both ends of a pair ----- */

static void set_scan(search *x, int64_t i) {
    const float min = fminf(x->best.limit[i], x->t->dup);
    x->scan[i] = (x->lambda ? fminf(min, x->lambda[i]) : min) - x->margin;
}

static void offer(search *x, int64_t i, float v, int64_t other) {
    if (v < x->best.limit[i]) return;
    const float before = x->best.limit[i];
    gf_best_push(&x->best, i, v, other);
    if (x->best.limit[i] != before) set_scan(x, i);
}

static void take_pair(search *x, int64_t i, int64_t j, float v, int thread) {
    offer(x, i, v, j);
    offer(x, j, v, i);
    if (x->lambda) {
        gf_pairs_found *f = x->f;
        const int32_t *label = x->t->label;
        const int from_i = v > x->lambda[i], from_j = v > x->lambda[j], same = label && label[i] >= 0 && label[i] == label[j];
        f->above[i] += from_i, f->above[j] += from_j;
        f->hits[i] += from_i && same, f->hits[j] += from_j && same;
        if (from_i && from_j) {
            f->mutual[i]++, f->mutual[j]++;
            gf_components_join(x->mutual_root + thread * f->n, (int32_t)i, (int32_t)j);
        }
    }
    if (v >= x->t->dup) {
        x->f->copies[i]++, x->f->copies[j]++;
        gf_components_join(x->copy_root + thread * x->f->n, (int32_t)i, (int32_t)j);
    }
}

static void visit_pairs(void *user, const gf_strip *t, int thread) {
    search *x = user;
    int32_t at[GF_STRIP_COLS];
    for (int r = 0; r < t->rows; r++) {
        const int64_t i = t->r0 + r;
        const float *s = t->s + (size_t)r * t->ld;
        int found = x->ops->reach(at, s, (int)gf_pad(t->cols), x->scan[i], x->scan + t->c0);
        while (found > 0 && at[found - 1] >= t->cols) found--; /* padding */
        if (t->rounded) {
            /* Columns [count] that may change a result of row i, or have one changed: their similarities as floats. */
            const int64_t c0 = t->c0;
            const float *row = x->unit + i * x->dim;
            for (int from = 0; from < found; from += GF_TILE_DOTS) {
                const float *others[GF_TILE_DOTS];
                float v[GF_TILE_DOTS];
                const int some = GF_MIN(GF_TILE_DOTS, found - from);
                for (int k = 0; k < GF_TILE_DOTS; k++) others[k] = x->unit + (c0 + at[from + GF_MIN(k, some - 1)]) * x->dim;
                x->ops->dots(v, row, others, x->dim);
                for (int k = 0; k < some; k++) take_pair(x, i, c0 + at[from + k], v[k], thread);
            }
        }
        for (int k = 0; k < found && !t->rounded; k++)
            if (t->c0 + at[k] > i) take_pair(x, i, t->c0 + at[k], s[at[k]], thread);
    }
}

/* ----- one row against all columns ----- */

static void visit_rows(void *user, const gf_strip *t, int thread) {
    search *x = user;
    int32_t at[GF_STRIP_COLS];
    for (int r = 0; r < t->rows; r++) {
        const int64_t i = t->r0 + r, list = thread * x->group + t->slot + r;
        const int64_t self = x->t->skip ? x->t->skip[i] : -1;
        const float *s = t->s + (size_t)r * t->ld;
        if (t->c0 == 0) gf_best_clear(&x->best, list);
        const int found = x->ops->reach(at, s, (int)gf_pad(t->cols), fminf(x->best.limit[list], x->t->dup), NULL);
        for (int k = 0; k < found && at[k] < t->cols; k++) {
            const int64_t j = t->c0 + at[k];
            const float v = s[at[k]];
            if (j == self) continue;
            if (v >= x->best.limit[list]) gf_best_push(&x->best, list, v, j);
            if (v >= x->t->dup && x->f->copies) x->f->copies[i]++;
        }
        if (t->last) {
            gf_pairs_found *f = x->f;
            const uint64_t *key = x->best.key + list * x->best.capacity;
            f->lambda[i] = gf_best_ranked(&x->best, list, GF_MIN(x->t->rank, x->best.count[list]));
            gf_lists_below(&x->best, list, f, i);
            for (int64_t k = 0; f->above && k < x->best.count[list]; k++) {
                const float v = gf_best_value(key[k]);
                if (!(v > f->lambda[i])) continue;
                f->above[i]++;
                f->mutual[i] += x->lambda && v > x->lambda[gf_best_other(key[k])];
            }
            if (f->above) gf_lists_top(&x->best, list, f, i);
        }
    }
}

static int64_t group_of(const gf_pairs_task *t, int64_t keep) {
    return gf_best_bytes((int64_t)t->threads * GROUP, keep) <= t->memory / 4 ? GROUP : GF_PANEL;
}

static glofnd_status search_rows(gf_error *err, const gf_panels *q, const gf_panels *k, const gf_pairs_task *t,
                                 gf_pairs_found *f) {
    const int64_t keep = GF_MAX(gf_lists_keep(t), f->top);
    search x = {.t = t, .f = f, .ops = gf_cpu_kernels_get()->tile, .lambda = t->lambda, .group = group_of(t, keep)};
    TRY(gf_best_alloc(err, &x.best, t->threads * x.group, keep));
    const gf_sweep_job job = {.threads = t->threads, .watch = t->watch};
    const glofnd_status status = gf_sweep_rows(err, q, k, x.group, &job, visit_rows, &x);
    gf_best_free(&x.best);
    return status;
}

/* ----- the table ----- */

static int64_t whole_keep(const gf_pairs_task *t) { return GF_MAX(gf_lists_keep(t), t->top); }

static int one_pass(int64_t n, const gf_pairs_task *t) { return t->lambda || gf_best_bytes(n, whole_keep(t)) <= t->memory; }

static int64_t list_keep(int64_t n, const gf_pairs_task *t) {
    return GF_MAX(t->lambda || !one_pass(n, t) ? t->top : whole_keep(t), 1);
}

/* Bytes of the rows as integers, and once more as floats. */
static size_t integer_bytes(int64_t n, int64_t dim) {
    return (size_t)gf_pad(n) * (size_t)dim * (sizeof(int16_t) + sizeof(float));
}

static int by_integers(int64_t n, int64_t dim, const gf_pairs_task *t) {
    const int pays = gf_cpu_kernels_get()->tile->int16_is_fast() && n / PAYS >= list_keep(n, t) && n >= 2 * GF_STRIP_COLS;
    return dim <= GF_INT16_DEPTH && integer_bytes(n, dim) <= t->memory / 2 && (t->integers ? t->integers > 0 : pays);
}

static gf_pairs_plan plan_search(int64_t n, int64_t dim, const gf_pairs_task *t) {
    gf_pairs_plan p = {.rows = gf_panels_bytes(n, dim), .passes = one_pass(n, t) ? 1 : 2};
    p.lists = gf_best_bytes(n, list_keep(n, t));
    if (p.passes == 2) p.lists += gf_best_bytes((int64_t)t->threads * group_of(t, whole_keep(t)), whole_keep(t));
    p.results = gf_pairs_found_bytes(n, t->top);
    if (by_integers(n, dim, t)) p.rows += integer_bytes(n, dim);
    p.scratch = gf_sweep_bytes(t->threads) + (size_t)n * ((size_t)t->threads * 2 * sizeof(int32_t) + sizeof(float));
    return p;
}

static glofnd_status open_rows(gf_error *err, const gf_vectors *rows, int threads, void **state) {
    gf_panels *p = malloc(sizeof *p);
    FAIL_IF(err, !p, GLOFND_E_MEMORY, "no memory for embeddings");
    const glofnd_status status = gf_panels_pack(err, rows, threads, p);
    if (status == GLOFND_OK) *state = p;
    else free(p);
    return status;
}

static void close_rows(void *state) {
    if (state) gf_panels_free(state);
    free(state);
}

/* All thresholds, with lists of the current rows only. */
static glofnd_status find_thresholds(gf_error *err, const gf_panels *p, const gf_pairs_task *t, const gf_pairs_found *f) {
    gf_pairs_found only = {.n = p->n,
                           .lambda = f->lambda,
                           .below = f->below,
                           .below_other = f->below_other,
                           .below_similarity = f->below_similarity};
    gf_pairs_task task = *t;
    int32_t *self = malloc((size_t)p->n * sizeof *self);
    FAIL_IF(err, !self, GLOFND_E_MEMORY, "no memory for %lld rows", (long long)p->n);
    gf_components_init(self, p->n);
    task.skip = self, task.lambda = NULL, task.dup = INFINITY;
    task.watch = gf_job_part(&t->watch, 0.0, 2.0 / 3.0);
    const glofnd_status status = search_rows(err, p, p, &task, &only);
    free(self);
    return status;
}

static glofnd_status alloc_search(gf_error *err, search *x) {
    const int64_t n = x->f->n;
    const size_t parts = (size_t)x->t->threads * (size_t)n * sizeof *x->mutual_root;
    x->scan = malloc((size_t)gf_pad(n) * sizeof *x->scan);
    x->mutual_root = malloc(parts);
    x->copy_root = malloc(parts);
    FAIL_IF(err, !x->scan || !x->mutual_root || !x->copy_root, GLOFND_E_MEMORY, "no memory for %lld anchors", (long long)n);
    TRY(gf_best_alloc(err, &x->best, n, list_keep(n, x->t)));
    for (int64_t i = 0; i < gf_pad(n); i++) {
        if (i < n) set_scan(x, i);
        else x->scan[i] = INFINITY;
    }
    for (int t = 0; t < x->t->threads; t++) {
        gf_components_init(x->mutual_root + t * n, n);
        gf_components_init(x->copy_root + t * n, n);
    }
    return GLOFND_OK;
}

/* ----- integers ----- */

typedef struct unpacking {
    const gf_panels *p;
    float *unit;
} unpacking;

static void unpack_panel(void *arg, int64_t panel, int thread) {
    const unpacking *u = arg;
    const int64_t dim = u->p->dim;
    const float *from = u->p->x + panel * GF_PANEL * dim;
    (void)thread;
    for (int64_t i = panel * GF_PANEL; i < GF_MIN((panel + 1) * GF_PANEL, u->p->n); i++, from++)
        for (int64_t k = 0; k < dim; k++) u->unit[i * dim + k] = from[k * GF_PANEL];
}

/* Unit vectors are scaled once more before they become integers, by 1 up to rounding: SLACK has room for that. */
static glofnd_status sweep_integers(gf_error *err, const gf_panels *p, search *x, const gf_sweep_job *job) {
    float *unit = malloc((size_t)p->n * (size_t)p->dim * sizeof *unit);
    gf_panels integers = {0};
    FAIL_IF(err, !unit, GLOFND_E_MEMORY, "no memory for %lld x %lld float32", (long long)p->n, (long long)p->dim);
    gf_parallel(x->t->threads, gf_pad(p->n) / GF_PANEL, unpack_panel, &(unpacking){p, unit});
    const gf_vectors rows = {.x = unit, .n = p->n, .dim = p->dim};
    glofnd_status status = gf_panels_pack_int16(err, &rows, x->t->threads, &integers);
    for (int64_t i = 0; i < p->n && status == GLOFND_OK; i++)
        x->margin = fmaxf(x->margin, gf_panels_error(&integers, i, &integers) + SLACK);
    x->unit = unit, x->dim = p->dim;
    if (status == GLOFND_OK) status = alloc_search(err, x);
    if (status == GLOFND_OK) status = gf_sweep_symmetric_rounded(err, p, &integers, x->t->block, job, visit_pairs, x);
    gf_panels_free(&integers);
    free(unit);
    return status;
}

static glofnd_status find_pairs(gf_error *err, void *state, const gf_pairs_task *t, gf_pairs_found *f) {
    const gf_panels *p = state;
    search x = {.t = t, .f = f, .ops = gf_cpu_kernels_get()->tile};
    const int two = !one_pass(p->n, t);
    TRY(gf_pairs_check_rank(err, t, p->n - 1));
    if (two) TRY(find_thresholds(err, p, t, f));
    for (int64_t i = 0; t->lambda && i < p->n; i++) f->lambda[i] = t->lambda[i];
    if (two || t->lambda) x.lambda = f->lambda;
    const gf_sweep_job job = {.threads = t->threads, .watch = gf_job_part(&t->watch, two ? 2.0 / 3.0 : 0.0, 1.0)};
    glofnd_status status;
    if (by_integers(p->n, p->dim, t)) {
        status = sweep_integers(err, p, &x, &job);
    } else {
        status = alloc_search(err, &x);
        if (status == GLOFND_OK) status = gf_sweep_symmetric(err, p, t->block, &job, visit_pairs, &x);
    }
    if (status == GLOFND_OK) {
        if (!x.lambda) {
            gf_lists_all_thresholds(&x.best, t, f);
            gf_lists_all_pairs(&x.best, t, f, x.mutual_root);
        }
        gf_lists_all_top(&x.best, t, f);
        gf_components_init(f->mutual_root, f->n);
        gf_components_init(f->copy_root, f->n);
        for (int thread = 0; thread < t->threads; thread++) {
            gf_components_merge(f->mutual_root, x.mutual_root + thread * f->n, f->n);
            gf_components_merge(f->copy_root, x.copy_root + thread * f->n, f->n);
        }
        gf_components_flatten(f->mutual_root, f->n);
        gf_components_flatten(f->copy_root, f->n);
    }
    gf_best_free(&x.best);
    free(x.scan);
    free(x.mutual_root);
    free(x.copy_root);
    return status;
}

static glofnd_status query_rows(gf_error *err, void *state, const gf_vectors *rows, const gf_pairs_task *t, gf_pairs_found *f) {
    const gf_panels *k = state;
    gf_panels q = {0};
    TRY(gf_pairs_check_query(err, t, k->n));
    TRY(gf_panels_pack(err, rows, t->threads, &q));
    const glofnd_status status = search_rows(err, &q, k, t, f);
    gf_panels_free(&q);
    return status;
}

/* ---------- expected time ---------- */

enum { PACE_LEAST = 1024, PACE_MOST = 8192, PACE_TIMES = 2 }; /* rows of a timed search; the fastest of so many counts */
#define PACE_WORK 4e9                                         /* multiplications of a thread in it */

typedef struct pace { /* seconds */
    double pair;      /* of a similarity */
    double entry;     /* of one that gets into a list */
} pace;

/* Entries of n lists that keep the best `keep` of similarities in random order. */
static double entries(double n, double keep) { return n * (keep < n ? keep * (1.0 + log(n / keep)) : n); }

static double time_search(const gf_vectors *rows, gf_pairs_task t, int64_t keep) {
    double least = INFINITY;
    t.rank = keep, t.top = GF_MIN(t.top, keep), t.memory = SIZE_MAX / 2;
    for (int k = 0; k < PACE_TIMES; k++) {
        gf_pairs_found f = {0};
        void *state = NULL;
        glofnd_status status = gf_pairs_found_alloc(NULL, &f, rows->n, t.top);
        if (status == GLOFND_OK) status = open_rows(NULL, rows, t.threads, &state);
        const double begun = gf_clock();
        if (status == GLOFND_OK) status = find_pairs(NULL, state, &t, &f);
        least = status == GLOFND_OK ? fmin(least, gf_clock() - begun) : NAN;
        close_rows(state);
        gf_pairs_found_free(&f);
    }
    return least;
}

/* Two searches of random rows, with short and with longer lists. Entries NAN: out of memory, or cancelled. */
static pace measure_pace(int64_t n, int64_t dim, const gf_pairs_task *t, int integers) {
    const double work = sqrt(PACE_WORK * (double)t->threads / (double)dim);
    const int64_t rows = GF_MIN(n, work < PACE_LEAST ? PACE_LEAST : GF_MIN((int64_t)work, PACE_MOST));
    const int64_t keep = GF_MAX(GF_MIN(whole_keep(t), rows / 8), 1);
    const gf_pairs_task task = {
        .top = t->top, .dup = INFINITY, .threads = t->threads, .watch.stop = t->watch.stop, .integers = integers};
    float *x = malloc((size_t)rows * (size_t)dim * sizeof *x);
    if (!x) return (pace){NAN, NAN};
    gf_rng r = gf_rng_at(0, GF_RNG_SHAPES, 0, 0, 0);
    for (int64_t i = 0; i < rows * dim; i++) x[i] = (float)gf_rng_u32(&r) - 0x1p31f;
    const gf_vectors v = {.x = x, .n = rows, .dim = dim};
    const double m = (double)rows, few = time_search(&v, task, 1), more = keep > 1 ? time_search(&v, task, keep) : few;
    free(x);
    return (pace){few / (0.5 * m * m), fmax(more - few, 0.0) / (entries(m, (double)keep) - entries(m, 1.0) + 1.0)};
}

static double find_seconds(int64_t n, int64_t dim, const gf_pairs_task *t) {
    const double pairs = 0.5 * (double)n * (double)n, rows = (double)n, keep = (double)GF_MAX(whole_keep(t), 1);
    const pace p = measure_pace(n, dim, t, by_integers(n, dim, t) ? 1 : -1);
    if (one_pass(n, t)) return p.pair * pairs + p.entry * entries(rows, keep);
    return 3.0 * p.pair * pairs + p.entry * (entries(rows, keep) + entries(rows, (double)GF_MAX(t->top, 1)));
}

const gf_pairs_search gf_pairs_search_cpu = {
    .name = "cpu",
    .plan = plan_search,
    .open = open_rows,
    .find = find_pairs,
    .query = query_rows,
    .close = close_rows,
    .seconds = find_seconds,
    .stream = &gf_stream_search_cpu,
};

/* ---------- rows that need not fit into memory ---------- */

typedef struct pairs_stream {
    const gf_row_source *source;
    const int32_t *row; /* [n] rows of the source that positions stand for, rising */
    int64_t n, dim, chunk;
    int threads;
    gf_panels columns; /* of the chunk in memory */
    int64_t first;     /* position of its first row; -1: none */
} pairs_stream;

enum { CHUNK_MIN = 1024, STREAM_GROUP = 128, FINISH = 64 }; /* rows: of chunks; that share columns; of a task */

_Static_assert(GF_ROW_PIECE % GF_PANEL == 0 && CHUNK_MIN % GF_PANEL == 0, "panels are packed piece by piece");

/* ----- rows ----- */

/* Unit vectors of positions [first, first + count). */
static glofnd_status pack_rows(gf_error *err, const pairs_stream *s, int64_t first, int64_t count, gf_panels *out) {
    return gf_row_source_pack(err, s->source, s->row + first, count, GF_ROW_PIECE, s->threads, out);
}

/* ----- sweeps of anchors ----- */

typedef struct stream_sweep {
    pairs_stream *s;
    const gf_pairs_task *t;
    const gf_tile_ops *ops;
    int64_t first; /* anchor */
    int64_t from;  /* first column of the chunk */
    gf_pairs_found *f;
    gf_best best;    /* [anchors] */
    int64_t *mutual; /* [anchors] */
    uint64_t *above; /* [anchors][rank - 1] or NULL */
    int32_t *root;   /* [threads][n] */
} stream_sweep;

static glofnd_status sweep_chunks(gf_error *err, stream_sweep *x, int64_t rows, gf_strip_visit visit) {
    pairs_stream *s = x->s;
    gf_panels own = {0};
    glofnd_status status = GLOFND_OK;
    if (s->chunk < s->n) status = pack_rows(err, s, x->first, rows, &own);
    for (x->from = 0; x->from < s->n && status == GLOFND_OK; x->from += s->chunk) {
        if (s->first != x->from) { /* another chunk is in memory */
            gf_panels_free(&s->columns);
            status = pack_rows(err, s, x->from, GF_MIN(s->chunk, s->n - x->from), &s->columns);
            s->first = status == GLOFND_OK ? x->from : -1;
        }
        if (status != GLOFND_OK) break;
        const gf_panels anchors = own.x ? own : (gf_panels){.n = rows, .dim = s->dim, .x = s->columns.x + x->first * s->dim};
        const double n = (double)s->n;
        const gf_sweep_job job = {.threads = s->threads,
                                  .watch = gf_job_part(&x->t->watch, (double)x->from / n,
                                                       (double)GF_MIN(x->from + s->chunk, s->n) / n)};
        status = gf_sweep_rows(err, &anchors, &s->columns, STREAM_GROUP, &job, visit, x);
    }
    gf_panels_free(&own);
    return status;
}

static glofnd_status make_roots(gf_error *err, stream_sweep *x) {
    const int64_t n = x->s->n;
    x->root = malloc((size_t)x->s->threads * (size_t)n * sizeof *x->root);
    FAIL_IF(err, !x->root, GLOFND_E_MEMORY, "no memory for %lld anchors", (long long)n);
    for (int t = 0; t < x->s->threads; t++) gf_components_init(x->root + t * n, n);
    return GLOFND_OK;
}

static void merge_roots(const stream_sweep *x, int32_t *root) {
    for (int t = 0; t < x->s->threads; t++) gf_components_merge(root, x->root + t * x->s->n, x->s->n);
}

/* ----- candidates ----- */

static void visit_candidates(void *user, const gf_strip *t, int thread) {
    stream_sweep *x = user;
    int32_t at[GF_STRIP_COLS];
    int32_t *root = x->root + thread * x->s->n;
    for (int r = 0; r < t->rows; r++) {
        const int64_t i = t->r0 + r, self = x->first + i;
        const float *s = t->s + (size_t)r * t->ld;
        const int found = x->ops->reach(at, s, (int)gf_pad(t->cols), fminf(x->best.limit[i], x->t->dup), NULL);
        for (int k = 0; k < found && at[k] < t->cols; k++) {
            const int64_t j = x->from + t->c0 + at[k];
            const float v = s[at[k]];
            if (j == self) continue;
            if (v >= x->best.limit[i]) gf_best_push(&x->best, i, v, j);
            if (!(v >= x->t->dup)) continue;
            x->f->copies[i]++;
            if (j > self) gf_components_join(root, (int32_t)self, (int32_t)j);
        }
    }
}

static void finish_rows(void *arg, int64_t task, int thread) {
    stream_sweep *x = arg;
    gf_pairs_found *f = x->f;
    const int32_t *label = x->t->label;
    (void)thread;
    for (int64_t i = task * FINISH; i < GF_MIN((task + 1) * FINISH, f->n); i++) {
        const uint64_t *key = x->best.key + i * x->best.capacity;
        const int32_t own = label ? label[x->first + i] : -1;
        f->lambda[i] = gf_best_ranked(&x->best, i, x->t->rank);
        gf_lists_below(&x->best, i, f, i);
        for (int64_t k = 0; k < x->best.count[i]; k++) {
            if (!(gf_best_value(key[k]) > f->lambda[i])) continue;
            if (x->above) x->above[i * (x->t->rank - 1) + f->above[i]] = key[k];
            f->above[i]++;
            f->hits[i] += own >= 0 && label[gf_best_other(key[k])] == own;
        }
        gf_lists_top(&x->best, i, f, i);
    }
}

/* ----- mutual pairs ----- */

static void visit_mutual(void *user, const gf_strip *t, int thread) {
    stream_sweep *x = user;
    int32_t at[GF_STRIP_COLS];
    int32_t *root = x->root + thread * x->s->n;
    const float *lambda = x->t->lambda;
    for (int r = 0; r < t->rows; r++) {
        const int64_t i = t->r0 + r, self = x->first + i;
        const float *s = t->s + (size_t)r * t->ld;
        const int found = x->ops->reach(at, s, (int)gf_pad(t->cols), lambda[self], NULL);
        for (int k = 0; k < found && at[k] < t->cols; k++) {
            const int64_t j = x->from + t->c0 + at[k];
            const float v = s[at[k]];
            if (j == self || !(v > lambda[self] && v > lambda[j])) continue;
            x->mutual[i]++;
            if (j > self) gf_components_join(root, (int32_t)self, (int32_t)j);
        }
    }
}

/* ----- the table ----- */

static glofnd_status open_stream(gf_error *err, const gf_row_source *source, const int32_t *row, int64_t n, size_t memory,
                                 int threads, void **state) {
    /* Chunks take `memory` bytes at most; all rows, if they fit. */
    const size_t fit = memory / ((size_t)source->dim * sizeof(float)) / GF_PANEL * GF_PANEL;
    pairs_stream *s = malloc(sizeof *s);
    FAIL_IF(err, !s, GLOFND_E_MEMORY, "no memory for rows");
    *s = (pairs_stream){.source = source, .row = row, .n = n, .dim = source->dim, .threads = threads, .first = -1};
    s->chunk = fit >= (size_t)n ? n : GF_MAX((int64_t)fit, CHUNK_MIN);
    *state = s;
    return GLOFND_OK;
}

static int64_t stream_chunks(const void *state) {
    const pairs_stream *s = state;
    return (s->n + s->chunk - 1) / s->chunk;
}

/* Anchors `first` (a multiple of GF_PANEL) and following ones; found [rows] is their result, but for mutual, mutual_root and
 * copy_root. copy_root [n]: joins them with their duplicates behind them. above [rows][rank - 1] or NULL: keys (best.h) of those
 * above the threshold of an anchor, found->above of them. */
static glofnd_status stream_thresholds(gf_error *err, void *state, const gf_pairs_task *t, int64_t first, int64_t rows,
                                       gf_pairs_found *found, int32_t *copy_root, uint64_t *above) {
    pairs_stream *s = state;
    stream_sweep x = {.s = s, .t = t, .ops = gf_cpu_kernels_get()->tile, .first = first, .f = found, .above = above};
    TRY(gf_pairs_check_rank(err, t, s->n - 1));
    glofnd_status status = gf_best_alloc(err, &x.best, rows, GF_MAX(GF_MAX(gf_lists_keep(t), t->top), 1));
    if (status == GLOFND_OK) status = make_roots(err, &x);
    if (status == GLOFND_OK) status = sweep_chunks(err, &x, rows, visit_candidates);
    if (status == GLOFND_OK) {
        gf_parallel(s->threads, (rows + FINISH - 1) / FINISH, finish_rows, &x);
        merge_roots(&x, copy_root);
    }
    gf_best_free(&x.best);
    free(x.root);
    return status;
}

/* count [rows]: pairs that are above the thresholds of both; root [n] joins them. */
static glofnd_status stream_mutual(gf_error *err, void *state, const gf_pairs_task *t, int64_t first, int64_t rows,
                                   int64_t *count, int32_t *root) {
    pairs_stream *s = state;
    stream_sweep x = {.s = s, .t = t, .ops = gf_cpu_kernels_get()->tile, .first = first, .mutual = count};
    memset(count, 0, (size_t)rows * sizeof *count);
    glofnd_status status = make_roots(err, &x);
    if (status == GLOFND_OK) status = sweep_chunks(err, &x, rows, visit_mutual);
    if (status == GLOFND_OK) merge_roots(&x, root);
    free(x.root);
    return status;
}

/* Rows that do not fit pass by each unit. */
static double stream_seconds(const gf_row_source *source, const gf_pairs_task *t, int64_t unit, double *again) {
    const double n = (double)source->n, pairs = n * n, keep = (double)GF_MAX(whole_keep(t), 1);
    const pace p = measure_pace(source->n, source->dim, t, -1);
    int32_t row[GF_ROW_PIECE];
    const int64_t some = GF_MIN(source->n, GF_ROW_PIECE);
    gf_panels piece = {0};
    gf_components_init(row, some); /* row i is i */
    const double begun = gf_clock();
    if (gf_row_source_pack(NULL, source, row, some, some, t->threads, &piece) != GLOFND_OK) return NAN;
    const double read = (gf_clock() - begun) / (double)some * n;
    gf_panels_free(&piece);
    const int fits = t->memory / ((size_t)source->dim * sizeof(float)) >= (size_t)source->n;
    const double passes = fits ? 1.0 : ceil(n / (double)unit);
    *again = p.pair * pairs + (fits ? 0.0 : read * passes);
    return p.pair * pairs + p.entry * entries(n, keep) + read * passes;
}

static void close_stream(void *state) {
    pairs_stream *s = state;
    if (s) gf_panels_free(&s->columns);
    free(s);
}

const gf_stream_search gf_stream_search_cpu = {.open = open_stream,
                                               .chunks = stream_chunks,
                                               .thresholds = stream_thresholds,
                                               .mutual = stream_mutual,
                                               .close = close_stream,
                                               .seconds = stream_seconds};

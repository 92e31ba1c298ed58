/* cell_recall.c - see cell_compare.h: some anchors against all rows, to measure what the nearest cells leave out. */
#include <stdlib.h>
#include <string.h>

#include "cpu/kernels/cpu_kernels.h"
#include "pairs/cell_compare.h"
#include "util/array.h"
#include "util/parallel.h"
#include "util/rng.h"

enum { SAMPLE = 1024, SEED = 1, COLUMNS = 1 << 16 }; /* anchors; columns of a task */

int64_t gf_cell_sample(int64_t n) { return GF_MIN(n, SAMPLE); }

typedef struct recall {
    gf_cell_search *x;
    gf_panels own;  /* the anchors */
    int32_t *place; /* [own.n] */
    gf_best best;   /* [threads][own.n] of the whole search */
    _Atomic int64_t done;
} recall;

static glofnd_status gather(gf_error *err, recall *r, int64_t first, int64_t count) {
    const gf_cells *c = r->x->c;
    r->own = (gf_panels){.n = count, .dim = c->dim, .x = aligned_alloc(64, gf_panels_bytes(count, c->dim))};
    r->place = malloc((size_t)count * sizeof *r->place);
    FAIL_IF(err, !r->own.x || !r->place, GLOFND_E_MEMORY, "no memory for %lld anchors", (long long)count);
    memset(r->own.x, 0, gf_panels_bytes(count, c->dim));
    for (int64_t i = 0; i < count; i++) {
        const int64_t place = gf_permute(SEED, 2, c->n, first + i);
        const float *from = r->x->points->x + place / GF_PANEL * GF_PANEL * c->dim + place % GF_PANEL;
        float *to = r->own.x + i / GF_PANEL * GF_PANEL * c->dim + i % GF_PANEL;
        r->place[i] = (int32_t)place;
        for (int64_t k = 0; k < c->dim; k++) to[k * GF_PANEL] = from[k * GF_PANEL];
    }
    return GLOFND_OK;
}

/* ----- all rows ----- */

/* Anchors from number `i` on against columns [c0, c0 + cols). */
static void take_strip(recall *r, int64_t i, int64_t c0, int cols, int thread) {
    const gf_cell_search *x = r->x;
    float *v = x->tree.strip + (int64_t)thread * GF_PANEL * GF_STRIP_COLS;
    int32_t at[GF_STRIP_COLS];
    gf_panels_product(x->ops, &r->own, i, x->points, c0, cols, v);
    for (int64_t a = i; a < GF_MIN(i + GF_PANEL, r->own.n); a++, v += GF_STRIP_COLS) {
        const int64_t list = (int64_t)thread * r->own.n + a;
        const int found = x->ops->reach(at, v, (int)gf_pad(cols), r->best.limit[list], NULL);
        for (int k = 0; k < found && at[k] < cols; k++)
            if (c0 + at[k] != r->place[a] && v[at[k]] >= r->best.limit[list])
                gf_best_add(&r->best, list, v[at[k]], x->c->order[c0 + at[k]]);
    }
}

static void sweep_columns(void *arg, int64_t task, int thread) {
    recall *r = arg;
    const int64_t n = r->x->c->n, end = GF_MIN((task + 1) * COLUMNS, n);
    if (gf_job_stopped(&r->x->t->watch)) return;
    for (int64_t c0 = task * COLUMNS; c0 < end; c0 += GF_STRIP_COLS)
        for (int64_t i = 0; i < r->own.n; i += GF_PANEL) take_strip(r, i, c0, (int)GF_MIN(GF_STRIP_COLS, end - c0), thread);
    const int64_t done = atomic_fetch_add(&r->done, end - task * COLUMNS) + end - task * COLUMNS;
    if (thread == 0) gf_job_report(&r->x->t->watch, (double)done / (double)n);
}

/* All lists of an anchor become the first one. */
static void merge_lists(recall *r) {
    gf_best *b = &r->best;
    for (int64_t list = r->own.n; list < b->lists; list++)
        for (int64_t k = 0; k < b->count[list]; k++) {
            const uint64_t key = b->key[list * b->capacity + k];
            gf_best_add(b, list % r->own.n, gf_best_value(key), gf_best_other(key));
        }
}

/* ----- what the search finds of it ----- */

/* at [n]: place of a position; near [probe] is scratch. */
static void count_anchors(recall *r, const int32_t *at, int32_t *near, int64_t from, int64_t rows, gf_pairs_found *found) {
    gf_cell_search *x = r->x;
    const gf_best *cells = &x->tree.near;
    gf_cell_near(x, &r->own, from, rows, 0, r->place + from, 0);
    for (int64_t i = 0; i < rows; i++) {
        const uint64_t *key = r->best.key + (from + i) * r->best.capacity;
        const int64_t count = gf_best_sort(&r->best, from + i, GF_MAX(x->t->rank - 1, 1));
        for (int64_t k = 0; k < x->probe; k++)
            near[k] = k < cells->count[i] ? gf_cell_piece(x, cells->key[i * cells->capacity + k]) : -1;
        for (int64_t k = 0; k < count; k++)
            found->recalled += gf_best_value(key[k]) >= x->t->dup || gf_cell_is_near(x, near, at[gf_best_other(key[k])]);
        found->wanted += count, found->sampled++;
    }
}

static glofnd_status measure(gf_error *err, recall *r, int64_t first, int64_t count, gf_pairs_found *found) {
    const gf_cells *c = r->x->c;
    const gf_pairs_task *t = r->x->t;
    TRY(gather(err, r, first, count));
    TRY(gf_best_alloc_for(err, &r->best, t->threads * count, GF_MAX(t->rank - 1, 1)));
    int32_t *at = malloc((size_t)c->n * sizeof *at), *near = malloc((size_t)r->x->probe * sizeof *near);
    const int there = at && near;
    if (there) {
        for (int64_t i = 0; i < c->n; i++) at[c->order[i]] = (int32_t)i;
        gf_parallel(t->threads, (c->n + COLUMNS - 1) / COLUMNS, sweep_columns, r);
        merge_lists(r);
        for (int64_t from = 0; from < count; from += r->x->block)
            count_anchors(r, at, near, from, GF_MIN(r->x->block, count - from), found);
    }
    free(at);
    free(near);
    FAIL_IF(err, !there, GLOFND_E_MEMORY, "no memory for %lld anchors", (long long)c->n);
    FAIL_IF(err, gf_job_stopped(&t->watch), GLOFND_E_ARGUMENT, "stopped");
    return GLOFND_OK;
}

glofnd_status gf_cell_recall(gf_error *err, gf_cell_search *x, int64_t first, int64_t count, gf_pairs_found *found) {
    recall r = {.x = x};
    const glofnd_status status = measure(err, &r, first, count, found);
    gf_panels_free(&r.own);
    gf_best_free(&r.best);
    free(r.place);
    return status;
}

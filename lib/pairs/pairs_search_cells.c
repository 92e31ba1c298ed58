/* pairs_search_cells.c - see pairs_search.h: a search that does not compare all pairs (cell_compare.h). Duplicates alone, exact;
 * or, with `probe`, everything, of the rows in the cells that are nearest to an anchor.
 *
 * Probed cells give no promise but for duplicates. So some anchors are compared with all rows, too: the recall is the share of
 * their pairs above the threshold that the probed cells gave. A pair that only one of its ends has found is mutual if it is above
 * both thresholds. cells_stream.h is the same of rows that are not in memory.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "pairs/cell_compare.h"
#include "pairs/pairs_lists.h"
#include "util/array.h"
#include "util/components.h"
#include "util/parallel.h"

typedef struct cell_search {
    gf_cell_search core;
    const gf_cells *c;
    const gf_pairs_task *t;
    gf_pairs_found *f;
    gf_cell_wanted *wanted; /* [threads][panels of a block] */
    int32_t *near;          /* [threads][block][probe] */
    int64_t blocks;
    gf_best best;         /* [threads][block]; with probe: none */
    gf_best all;          /* probe: [n] candidates, by position */
    _Atomic int64_t done; /* blocks */
} cell_search;

/* ----- probed cells ----- */

/* 1: the list, best first, has this entry. */
static int has_key(const gf_best *b, int64_t list, uint64_t key) {
    const uint64_t *v = b->key + list * b->capacity;
    int64_t low = 0, high = b->count[list];
    while (low < high) {
        const int64_t mid = low + (high - low) / 2;
        if (v[mid] > key) low = mid + 1;
        else high = mid;
    }
    return low < b->count[list] && v[low] == key;
}

static void sort_list(void *arg, int64_t i, int thread) {
    cell_search *x = arg;
    (void)thread;
    gf_best_sort(&x->all, i, x->all.keep);
}

/* Lists are sorted. Counts are the same whichever end has found the pair. */
static void count_pairs(void *arg, int64_t i, int thread) {
    cell_search *x = arg;
    (void)thread;
    gf_pairs_found *f = x->f;
    const int32_t *label = x->t->label;
    const uint64_t *key = x->all.key + i * x->all.capacity;
    for (int64_t k = 0; k < x->all.count[i] && gf_best_value(key[k]) > f->lambda[i]; k++) {
        const int64_t j = gf_best_other(key[k]);
        const float v = gf_best_value(key[k]);
        f->above[i]++;
        f->hits[i] += label && label[i] >= 0 && label[i] == label[j];
        if (!(v > f->lambda[j])) continue;
        __atomic_fetch_add(&f->mutual[i], 1, __ATOMIC_RELAXED);
        if (!has_key(&x->all, j, gf_best_key(v, i))) __atomic_fetch_add(&f->mutual[j], 1, __ATOMIC_RELAXED);
        gf_components_join_shared(f->mutual_root, (int32_t)i, (int32_t)j);
    }
}

static glofnd_status read_lists(gf_error *err, cell_search *x) {
    gf_pairs_found *f = x->f;
    gf_lists_all_thresholds(&x->all, x->t, f);
    gf_parallel(x->t->threads, f->n, sort_list, x);
    TRY(gf_cell_recall(err, &x->core, 0, gf_cell_sample(f->n), f));
    gf_parallel(x->t->threads, f->n, count_pairs, x);
    gf_lists_all_top(&x->all, x->t, f);
    gf_components_flatten(f->mutual_root, f->n);
    return GLOFND_OK;
}

/* ----- a block of rows ----- */

static void search_block(void *arg, int64_t number, int thread) {
    cell_search *x = arg;
    const int64_t place = number * x->core.block, probe = x->core.probe, own = (int64_t)thread * x->core.block;
    const gf_cell_lists to = {.best = probe ? &x->all : &x->best,
                              .first = probe ? -1 : own,
                              .copies = x->f->copies,
                              .by_position = 1};
    const gf_cell_block b = {.place = place,
                             .rows = GF_MIN(x->core.block, x->c->n - place),
                             .near = x->near + own * probe,
                             .wanted = x->wanted + own / GF_PANEL};
    if (gf_job_stopped(&x->t->watch)) return;
    for (int64_t i = 0; !probe && i < b.rows; i++) gf_best_clear(&x->best, own + i);
    gf_cell_mark(&x->core, &b, thread);
    gf_cell_compare(&x->core, &b, &to, thread);
    for (int64_t i = 0; !probe && i < b.rows; i++) gf_lists_top(&x->best, own + i, x->f, x->c->order[place + i]);
    const int64_t done = atomic_fetch_add(&x->done, 1) + 1;
    if (thread == 0) gf_job_report(&x->t->watch, (double)done / (double)x->blocks);
}

/* ----- the table ----- */

typedef struct cell_state {
    gf_cells c;
} cell_state;

static gf_pairs_plan plan(int64_t n, int64_t dim, const gf_pairs_task *t) {
    const gf_pairs_plan whole = gf_pairs_search_cpu.plan(n, dim, t);
    gf_pairs_plan p = {.rows = 2 * gf_panels_bytes(n, dim), .passes = 1, .results = whole.results};
    if (t->probe) p.lists = gf_best_bytes_for(n, gf_cell_keep(t));
    p.scratch = gf_sweep_bytes(t->threads) + (size_t)n * (size_t)t->threads / GF_PANEL + (size_t)n * 9 * sizeof(int32_t);
    return p;
}

static glofnd_status open_rows(gf_error *err, const gf_vectors *rows, int threads, void **state) {
    cell_state *s = calloc(1, sizeof *s);
    const gf_sweep_job job = {.threads = threads};
    FAIL_IF(err, !s, GLOFND_E_MEMORY, "no memory for cells");
    const glofnd_status status = gf_cells_make(err, rows, 0, &job, &s->c);
    if (status == GLOFND_OK) *state = s;
    else free(s);
    return status;
}

static void close_rows(void *state) {
    cell_state *s = state;
    if (s) gf_cells_free(&s->c);
    free(s);
}

static glofnd_status allocate(gf_error *err, cell_search *x) {
    const int threads = x->t->threads;
    TRY(gf_cell_search_init(err, &x->core, x->c, &x->c->points, x->t, x->f->copy_root));
    const size_t rows = (size_t)threads * (size_t)x->core.block;
    x->blocks = (x->c->n + x->core.block - 1) / x->core.block;
    x->wanted = calloc(rows / GF_PANEL, sizeof *x->wanted);
    x->near = malloc(rows * (size_t)GF_MAX(x->core.probe, 1) * sizeof *x->near);
    FAIL_IF(err, !x->wanted || !x->near, GLOFND_E_MEMORY, "no memory for %lld anchors", (long long)x->c->n);
    if (x->t->probe) return gf_best_alloc_for(err, &x->all, x->c->n, gf_cell_keep(x->t));
    return gf_best_alloc_for(err, &x->best, (int64_t)rows, gf_cell_keep(x->t));
}

static glofnd_status find(gf_error *err, void *state, const gf_pairs_task *t, gf_pairs_found *f) {
    cell_state *s = state;
    const int64_t n = s->c.n;
    cell_search x = {.c = &s->c, .t = t, .f = f};
    if (t->probe) TRY(gf_pairs_check_rank(err, t, n - 1));
    TRY(gf_cells_surround(err, &s->c, GF_MAX(t->probe, 1), t->threads));
    gf_pairs_found_none(f);
    glofnd_status status = allocate(err, &x);
    if (status == GLOFND_OK && (t->dup <= 2.0f || t->probe)) gf_parallel(t->threads, x.blocks, search_block, &x);
    if (status == GLOFND_OK) status = gf_cell_search_check(err, &x.core);
    if (status == GLOFND_OK && t->probe && !gf_job_stopped(&t->watch)) status = read_lists(err, &x);
    gf_components_flatten(f->copy_root, n);
    f->cells = s->c.count, f->compared = x.core.pairs;
    gf_cell_search_free(&x.core);
    gf_cell_wanted_free(x.wanted, t->threads * x.core.block / GF_PANEL);
    free(x.near);
    gf_best_free(&x.best);
    gf_best_free(&x.all);
    FAIL_IF(err, status == GLOFND_OK && gf_job_stopped(&t->watch), GLOFND_E_ARGUMENT, "stopped");
    return status;
}

static glofnd_status query(gf_error *err, void *state, const gf_vectors *rows, const gf_pairs_task *t, gf_pairs_found *f) {
    (void)state, (void)rows, (void)t, (void)f;
    GF_FAIL(err, GLOFND_E_UNSUPPORTED, "cells find duplicates among rows, not those of a query");
}

const gf_pairs_search gf_pairs_search_cells = {
    .name = "cells",
    .plan = plan,
    .open = open_rows,
    .find = find,
    .query = query,
    .close = close_rows,
};

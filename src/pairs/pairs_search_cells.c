/* pairs_search_cells.c - see pairs_search.h: a search that does not compare all pairs. Duplicates alone, exact; or, with `probe`,
 * everything, of the rows in the cells that are nearest to an anchor.
 *
 * With duplicates u and v at an angle of theta at most, and v in the cell of centroid b: angle(u, b) <= angle(v, b) + theta, and
 * angle(v, b) <= angle(v, a) <= angle(u, a) + theta, where a is the centroid of u. So only cells with
 * angle(u, b) <= angle(u, a) + 2 theta can hold duplicates of u; and of such a cell only members whose angle to b differs from
 * that of u by theta at most. Members lie by rising angle: a range of places. Ranges of the rows of a panel are joined in a map
 * of panels, so that each panel of columns is compared once. Angles have a margin for rounding errors: what is left out cannot
 * reach the limit, and the rest is compared as everywhere.
 *
 * Probed cells give no such promise: duplicates stay exact, the rest does not. So some anchors are compared with all rows, too:
 * the recall is the share of their pairs above the threshold that the probed cells gave. A pair that only one of its ends has
 * found is mutual if it is above both thresholds.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cpu/kernels/cpu_kernels.h"
#include "pairs/cells.h"
#include "pairs/pairs_lists.h"
#include "util/components.h"
#include "util/minmax.h"
#include "util/parallel.h"

typedef struct cell_search {
    const gf_cells *c;
    const gf_pairs_task *t;
    gf_pairs_found *f;
    const gf_tile_ops *ops;
    double theta, slack;
    int64_t panels;                         /* of points */
    uint8_t *wanted;                        /* [threads][panels] */
    float *strip;                           /* [threads][GF_PANEL][GF_STRIP_COLS] */
    gf_best best;                           /* [threads][GF_PANEL] */
    gf_best near;                           /* probe: [threads][GF_PANEL] nearest cells */
    gf_best all;                            /* probe: [n] candidates, by position */
    int32_t *root;                          /* [threads][n] */
    _Atomic int64_t done;                   /* panels of rows */
    _Atomic int64_t pairs;                  /* compared */
    _Atomic int64_t wanted_pairs, recalled; /* of the sample */
} cell_search;

/* First place in [from, to) whose angle is not below a. */
static int64_t place_of(const gf_cells *c, int64_t from, int64_t to, double a) {
    while (from < to) {
        const int64_t mid = from + (to - from) / 2;
        if ((double)c->angle[mid] < a) from = mid + 1;
        else to = mid;
    }
    return from;
}

/* Marks the panels with members of a cell that row u can have duplicates among; angle: between u and its centroid. */
static void mark_cell(const cell_search *x, uint8_t *wanted, int64_t cell, double angle) {
    const double reach = x->theta + 4.0 * x->slack;
    const int64_t from = place_of(x->c, x->c->start[cell], x->c->start[cell + 1], angle - reach);
    const int64_t to = place_of(x->c, from, x->c->start[cell + 1], angle + reach);
    for (int64_t p = from / GF_PANEL; from < to && p <= (to - 1) / GF_PANEL; p++) wanted[p] = 1;
}

/* Row r of the panel at r0, against centroids [c0, c0 + cols). */
static void mark_row(const cell_search *x, uint8_t *wanted, int64_t place, const float *s, int64_t c0, int cols) {
    int32_t at[GF_STRIP_COLS];
    const double far = (double)x->c->angle[place] + 2.0 * x->theta + 8.0 * x->slack;
    const float limit = far >= 3.14159 ? -2.0f : (float)(cos(far) - 1e-6);
    const int found = x->ops->reach(at, s, (int)gf_pad(cols), limit, NULL);
    for (int k = 0; k < found && at[k] < cols; k++) mark_cell(x, wanted, c0 + at[k], gf_cells_angle(s[at[k]]));
}

typedef struct row_lists { /* where candidates of a panel of rows go */
    gf_best *best;
    int64_t first;  /* list of the first row; -1: lists by position */
    float min;      /* less is no candidate */
    int duplicates; /* 1: count them */
} row_lists;

static void take_strip(cell_search *x, const row_lists *to, const float *s, int64_t r0, int rows, int64_t c0, int cols,
                       int thread) {
    int32_t at[GF_STRIP_COLS];
    const gf_cells *c = x->c;
    for (int r = 0; r < rows; r++) {
        const float *v = s + (size_t)r * GF_STRIP_COLS;
        const int32_t self = c->order[r0 + r];
        const int64_t list = to->first < 0 ? self : to->first + r;
        const float *limit = &to->best->limit[list];
        const int found = x->ops->reach(at, v, (int)gf_pad(cols), fminf(fmaxf(*limit, to->min), x->t->dup), NULL);
        for (int k = 0; k < found && at[k] < cols; k++) {
            const int32_t other = c->order[c0 + at[k]];
            if (other == self) continue;
            if (v[at[k]] >= fmaxf(*limit, to->min)) gf_best_push(to->best, list, v[at[k]], other);
            if (!to->duplicates || !(v[at[k]] >= x->t->dup)) continue;
            x->f->copies[self]++;
            if (other > self) gf_components_join(x->root + (int64_t)thread * c->n, self, other);
        }
    }
}

/* wanted [panels]; NULL: all. */
static void compare(cell_search *x, const row_lists *to, const uint8_t *wanted, int64_t r0, int rows, int thread) {
    const gf_cells *c = x->c;
    float *s = x->strip + (int64_t)thread * GF_PANEL * GF_STRIP_COLS;
    int64_t pairs = 0;
    for (int64_t p = 0, end; p < x->panels; p = end) {
        for (end = p; end < x->panels && (!wanted || wanted[end]) && (end - p) * GF_PANEL < GF_STRIP_COLS; end++) continue;
        if (end == p) {
            end = p + 1;
            continue;
        }
        const int cols = (int)(GF_MIN(end * GF_PANEL, c->n) - p * GF_PANEL);
        gf_panels_product(x->ops, &c->points, r0, &c->points, p * GF_PANEL, cols, s);
        take_strip(x, to, s, r0, rows, p * GF_PANEL, cols, thread);
        pairs += (int64_t)rows * cols;
    }
    if (wanted) atomic_fetch_add(&x->pairs, pairs);
}

/* ----- probed cells ----- */

static void offer_cells(cell_search *x, const float *s, int64_t list, int64_t c0, int cols) {
    int32_t at[GF_STRIP_COLS];
    const int found = x->ops->reach(at, s, (int)gf_pad(cols), x->near.limit[list], NULL);
    for (int k = 0; k < found && at[k] < cols; k++)
        if (s[at[k]] >= x->near.limit[list]) gf_best_push(&x->near, list, s[at[k]], c0 + at[k]);
}

static void mark_near(cell_search *x, uint8_t *wanted, int64_t list) {
    const int64_t count = gf_best_sort(&x->near, list, x->t->probe);
    for (int64_t k = 0; k < count; k++) {
        const int64_t cell = gf_best_other(x->near.key[list * x->near.capacity + k]);
        const int64_t from = x->c->start[cell], to = x->c->start[cell + 1];
        for (int64_t p = from / GF_PANEL; from < to && p <= (to - 1) / GF_PANEL; p++) wanted[p] = 1;
    }
}

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
        gf_components_join(x->root + (int64_t)thread * f->n, (int32_t)i, (int32_t)j);
    }
}

enum { SAMPLE = 32 }; /* panels of rows for the recall */

static int64_t sample_panels(const cell_search *x) { return GF_MIN(x->panels, SAMPLE); }

/* Compares a panel of the sample with all rows. */
static void measure_panel(void *arg, int64_t task, int thread) {
    cell_search *x = arg;
    const int64_t r0 = task * (x->panels / sample_panels(x)) * GF_PANEL, own = (int64_t)thread * GF_PANEL;
    const int rows = (int)GF_MIN(GF_PANEL, x->c->n - r0);
    const row_lists to = {.best = &x->best, .first = own, .min = -INFINITY};
    for (int r = 0; r < rows; r++) gf_best_clear(&x->best, own + r);
    compare(x, &to, NULL, r0, rows, thread);
    for (int r = 0; r < rows; r++) {
        const int64_t self = x->c->order[r0 + r], count = gf_best_sort(&x->best, own + r, GF_MAX(x->t->rank - 1, 1));
        const uint64_t *key = x->best.key + (own + r) * x->best.capacity;
        int64_t found = 0;
        for (int64_t k = 0; k < count; k++) found += has_key(&x->all, self, key[k]);
        atomic_fetch_add(&x->wanted_pairs, count);
        atomic_fetch_add(&x->recalled, found);
    }
}

static void read_lists(cell_search *x) {
    gf_pairs_found *f = x->f;
    gf_lists_all_thresholds(&x->all, x->t, f);
    gf_parallel(x->t->threads, f->n, sort_list, x);
    gf_parallel(x->t->threads, sample_panels(x), measure_panel, x);
    for (int t = 0; t < x->t->threads; t++) {
        gf_components_merge(f->copy_root, x->root + t * f->n, f->n);
        gf_components_init(x->root + t * f->n, f->n);
    }
    gf_parallel(x->t->threads, f->n, count_pairs, x);
    for (int t = 0; t < x->t->threads; t++) gf_components_merge(f->mutual_root, x->root + t * f->n, f->n);
    gf_lists_all_top(&x->all, x->t, f);
    gf_components_flatten(f->mutual_root, f->n);
    for (int64_t p = 0; p < sample_panels(x); p++)
        f->sampled += GF_MIN(GF_PANEL, x->c->n - p * (x->panels / sample_panels(x)) * GF_PANEL);
    f->wanted = x->wanted_pairs, f->recalled = x->recalled;
}

/* ----- a panel of rows ----- */

static void search_panel(void *arg, int64_t panel, int thread) {
    cell_search *x = arg;
    const gf_cells *c = x->c;
    const int64_t r0 = panel * GF_PANEL;
    const int rows = (int)GF_MIN(GF_PANEL, c->n - r0);
    float *s = x->strip + (int64_t)thread * GF_PANEL * GF_STRIP_COLS;
    uint8_t *wanted = x->wanted + (int64_t)thread * x->panels;
    if (gf_job_stopped(&x->t->watch)) return;
    const int64_t own = (int64_t)thread * GF_PANEL;
    const row_lists to = {.best = x->t->probe ? &x->all : &x->best,
                          .first = x->t->probe ? -1 : own,
                          .min = x->t->probe ? -INFINITY : x->t->dup,
                          .duplicates = 1};
    memset(wanted, 0, (size_t)x->panels);
    for (int r = 0; r < rows; r++) gf_best_clear(x->t->probe ? &x->near : &x->best, own + r);
    for (int64_t c0 = 0; c0 < c->count; c0 += GF_STRIP_COLS) {
        const int cols = (int)GF_MIN(GF_STRIP_COLS, c->count - c0);
        gf_panels_product(x->ops, &c->points, r0, &c->centres, c0, cols, s);
        for (int r = 0; r < rows; r++) {
            const float *row = s + (size_t)r * GF_STRIP_COLS;
            if (x->t->probe) offer_cells(x, row, own + r, c0, cols);
            if (x->t->dup <= 2.0f) mark_row(x, wanted, r0 + r, row, c0, cols);
        }
    }
    for (int r = 0; x->t->probe && r < rows; r++) mark_near(x, wanted, own + r);
    compare(x, &to, wanted, r0, rows, thread);
    for (int r = 0; !x->t->probe && r < rows; r++) gf_lists_top(&x->best, own + r, x->f, c->order[r0 + r]);
    const int64_t done = atomic_fetch_add(&x->done, 1) + 1;
    if (thread == 0) gf_job_report(&x->t->watch, (double)done / (double)x->panels);
}

/* ----- the table ----- */

typedef struct cell_state {
    gf_cells c;
} cell_state;

static int64_t keep_of(const gf_pairs_task *t) { return GF_MAX(GF_MAX(gf_lists_keep(t), t->top), 1); }

static gf_pairs_plan plan(int64_t n, int64_t dim, const gf_pairs_task *t) {
    const gf_pairs_plan whole = gf_pairs_search_cpu.plan(n, dim, t);
    gf_pairs_plan p = {.rows = 2 * gf_panels_bytes(n, dim), .passes = 1, .results = whole.results};
    if (t->probe) p.lists = gf_best_bytes(n, keep_of(t));
    p.scratch = gf_sweep_bytes(t->threads) + (size_t)n * (size_t)(t->threads + 7) * sizeof(int32_t);
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
    const int64_t n = x->c->n;
    const size_t threads = (size_t)x->t->threads;
    x->wanted = malloc(threads * (size_t)x->panels);
    x->strip = aligned_alloc(64, gf_sweep_bytes(x->t->threads));
    x->root = malloc(threads * (size_t)n * sizeof *x->root);
    FAIL_IF(err, !x->wanted || !x->strip || !x->root, GLOFND_E_MEMORY, "no memory for %lld anchors", (long long)n);
    for (int t = 0; t < x->t->threads; t++) gf_components_init(x->root + t * n, n);
    TRY(gf_best_alloc_roomy(err, &x->best, x->t->threads * GF_PANEL, x->t->probe ? keep_of(x->t) : GF_MAX(x->f->top, 1)));
    if (!x->t->probe) return GLOFND_OK;
    TRY(gf_best_alloc_roomy(err, &x->near, x->t->threads * GF_PANEL, x->t->probe));
    return gf_best_alloc(err, &x->all, n, keep_of(x->t));
}

static glofnd_status find(gf_error *err, void *state, const gf_pairs_task *t, gf_pairs_found *f) {
    const cell_state *s = state;
    const int64_t n = s->c.n;
    cell_search x = {.c = &s->c, .t = t, .f = f, .ops = gf_cpu_kernels_get()->tile, .panels = gf_pad(n) / GF_PANEL};
    x.theta = gf_cells_angle(t->dup), x.slack = gf_cells_slack(s->c.dim);
    if (t->probe) TRY(gf_pairs_check_rank(err, t, n - 1));
    glofnd_status status = allocate(err, &x);
    gf_pairs_found_none(f);
    if (status == GLOFND_OK && (t->dup <= 2.0f || t->probe)) gf_parallel(t->threads, x.panels, search_panel, &x);
    const int whole = status == GLOFND_OK && t->probe && !gf_job_stopped(&t->watch);
    if (whole) read_lists(&x);
    for (int k = 0; k < t->threads && status == GLOFND_OK && !whole; k++) gf_components_merge(f->copy_root, x.root + k * n, n);
    gf_components_flatten(f->copy_root, n);
    f->cells = s->c.count, f->compared = x.pairs;
    free(x.wanted);
    free(x.strip);
    free(x.root);
    gf_best_free(&x.best);
    gf_best_free(&x.near);
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

/* cell_compare.h - a panel of anchors, in the order of cells, against the panels that may hold their duplicates, or the rows of
 * their nearest cells.
 *
 *     gf_cell_search_init(err, &x, &cells, &task, root);
 *     gf_cell_mark(&x, &anchors, &wanted, thread);                          which panels
 *     gf_cell_compare(&x, &anchors, &wanted, &columns, &lists, thread);     once, or with columns that come by and by
 *     gf_cell_search_free(&x);
 * Panels of anchors are independent of each other; each thread has its own number. The work of a panel of anchors
 * grows with what it wants, not with the number of all rows.
 */
#pragma once

#include <stdatomic.h>

#include "pairs/best.h"
#include "pairs/cells/cells.h"
#include "pairs/pairs_search.h"

typedef struct gf_panel_range {
    int32_t from, to; /* panels [from, to) */
} gf_panel_range;

typedef struct gf_cell_wanted { /* what a panel of anchors is compared with; a zeroed one is empty */
    gf_panel_range *range;      /* [count] rising; they do not touch */
    size_t count, capacity;
} gf_cell_wanted;

typedef struct gf_cell_search {
    const gf_cells *c; /* its points are not used */
    const gf_pairs_task *t;
    const struct gf_tile_ops *ops;
    double theta, slack;
    int64_t panels;        /* of all points */
    float *strip;          /* [threads][GF_PANEL][GF_STRIP_COLS] */
    gf_best near;          /* probe: [threads][GF_PANEL] nearest cells */
    uint8_t *mark;         /* [threads][panels] of the panel of anchors at hand; else zeros */
    uint64_t *touched;     /* [threads][count / 64 + 1] cells that have marks, a bit each; else zeros */
    int32_t *root;         /* [n] joins duplicates, by position; NULL: no copies are counted */
    _Atomic int64_t pairs; /* compared */
    atomic_int no_memory;  /* 1: for what some panel of anchors wants */
} gf_cell_search;

typedef struct gf_cell_anchors {
    const gf_panels *p;
    int64_t at;    /* row of p where the panel begins */
    int64_t place; /* of its first anchor */
    int rows;
} gf_cell_anchors;

typedef struct gf_cell_columns {
    const gf_panels *p;   /* the panels, one after the other */
    const int32_t *panel; /* [count] which they are, rising; NULL: the first ones */
    int64_t count;
} gf_cell_columns;

typedef struct gf_cell_lists { /* where candidates of a panel of anchors go */
    gf_best *best;
    int64_t first;   /* list of the first anchor; -1: lists by position */
    float min;       /* less is no candidate */
    int64_t *copies; /* number of duplicates of each; NULL: not wanted, nor are they joined */
    int by_position; /* copies [n], else [rows] */
} gf_cell_lists;

glofnd_status gf_cell_search_init(gf_error *err, gf_cell_search *x, const gf_cells *c, const gf_pairs_task *t, int32_t *root);
void gf_cell_search_free(gf_cell_search *x); /* a zeroed one is fine */
/* Replaces *wanted. Where there is no memory it is cut, and x->no_memory is set. */
void gf_cell_mark(gf_cell_search *x, const gf_cell_anchors *a, gf_cell_wanted *wanted, int thread);
/* wanted NULL: all, which x->pairs does not count. */
void gf_cell_compare(gf_cell_search *x, const gf_cell_anchors *a, const gf_cell_wanted *wanted, const gf_cell_columns *columns,
                     const gf_cell_lists *to, int thread);
int gf_cell_wants(const gf_cell_wanted *wanted, int64_t panel);
void gf_cell_wanted_free(gf_cell_wanted *wanted, int64_t n);                /* [n] of them; NULL is fine */
glofnd_status gf_cell_search_check(gf_error *err, const gf_cell_search *x); /* E_MEMORY, if no_memory */

/* Entries of the list of an anchor. */
int64_t gf_cell_keep(const gf_pairs_task *t);
/* Panels whose recall is measured; the place where such a panel begins. */
int64_t gf_cell_sample(int64_t panels);
int64_t gf_cell_sample_place(int64_t panels, int64_t i);

/* cell_compare.h - anchors, in the order of cells, against the rows of their nearest cells, and against the panels that may hold
 * their duplicates.
 *
 *     gf_cell_search_init(err, &x, &cells, &task, root);
 *     gf_cell_mark(&x, &anchors, near, &wanted, thread);               a panel of anchors: which cells, which panels
 *     gf_cell_compare(&x, &block, &columns, &lists, thread);           a block of them; once, or with columns that come by and by
 *     gf_cell_search_free(&x);
 * Blocks are independent of each other; each thread has its own number. An anchor is compared with the rows of its own nearest
 * cells, whatever block it is in, and its work does not grow with the number of all rows.
 */
#pragma once

#include <stdatomic.h>

#include "pairs/best.h"
#include "pairs/cells/cells.h"
#include "pairs/pairs_search.h"

typedef struct gf_panel_range {
    int32_t from, to; /* panels [from, to) */
} gf_panel_range;

typedef struct gf_cell_wanted { /* panels that may hold duplicates of a panel of anchors; a zeroed one is empty */
    gf_panel_range *range;      /* [count] rising; they do not touch */
    size_t count, capacity;
} gf_cell_wanted;

typedef struct gf_cell_search {
    const gf_cells *c; /* its points are not used */
    const gf_pairs_task *t;
    const struct gf_tile_ops *ops;
    double theta, slack;
    int64_t panels;        /* of all points */
    int64_t probe;         /* nearest cells of an anchor; 0: only duplicates are searched */
    int64_t block;         /* anchors of a block, at most; a multiple of GF_PANEL */
    float *strip;          /* [threads][GF_PANEL][GF_STRIP_COLS] */
    gf_best near;          /* probe: [threads][GF_PANEL] nearest cells */
    uint64_t *request;     /* probe: [threads][block][probe] cell, and the anchor of the block that it is near to */
    float *gathered;       /* probe: [threads][dim][GF_PANEL] anchors that are near to one cell */
    uint8_t *mark;         /* [threads][panels] of the panel of anchors at hand; else zeros */
    uint64_t *touched;     /* [threads][count / 64 + 1] cells that have marks, a bit each; else zeros */
    int32_t *root;         /* [n] joins duplicates, by position; NULL: no copies are counted */
    _Atomic int64_t pairs; /* compared: of nearest cells, or without probe for duplicates */
    atomic_int no_memory;  /* 1: for what some panel of anchors wants */
} gf_cell_search;

typedef struct gf_cell_anchors { /* a panel of them */
    const gf_panels *p;
    int64_t at;    /* row of p where the panel begins */
    int64_t place; /* of its first anchor */
    int rows;
} gf_cell_anchors;

typedef struct gf_cell_block {
    const gf_panels *p;
    int64_t at, place;            /* of the first anchor, as above; at the beginning of a panel */
    int64_t rows;                 /* up to x->block */
    const int32_t *near;          /* [rows][probe] */
    const gf_cell_wanted *wanted; /* [panels of the block] */
} gf_cell_block;

typedef struct gf_cell_columns {
    const gf_panels *p;   /* the panels, one after the other */
    const int32_t *panel; /* [count] which they are, rising; NULL: the first ones */
    int64_t count;
} gf_cell_columns;

typedef struct gf_cell_lists { /* where candidates of a block of anchors go */
    gf_best *best;
    int64_t first;   /* list of the first anchor; -1: lists by position */
    int64_t *copies; /* number of duplicates of each; NULL: not wanted, nor are they joined */
    int by_position; /* copies [n], else [rows] */
} gf_cell_lists;

glofnd_status gf_cell_search_init(gf_error *err, gf_cell_search *x, const gf_cells *c, const gf_pairs_task *t, int32_t *root);
void gf_cell_search_free(gf_cell_search *x); /* a zeroed one is fine */
/* near [a->rows][x->probe]; *wanted is replaced. Where there is no memory it is cut, and x->no_memory is set. */
void gf_cell_mark(gf_cell_search *x, const gf_cell_anchors *a, int32_t *near, gf_cell_wanted *wanted, int thread);
void gf_cell_compare(gf_cell_search *x, const gf_cell_block *b, const gf_cell_columns *columns, const gf_cell_lists *to,
                     int thread);
/* A panel of anchors with all columns, whatever is near; x->pairs does not count it. */
void gf_cell_compare_all(gf_cell_search *x, const gf_cell_anchors *a, const gf_cell_columns *columns, const gf_cell_lists *to,
                         int thread);
/* 1: gf_cell_compare() gives an anchor with these nearest cells a pair of this similarity, to the row at `place`. */
int gf_cell_finds(const gf_cell_search *x, const int32_t *near, int64_t place, float similarity);
void gf_cell_wanted_free(gf_cell_wanted *wanted, int64_t n);                /* [n] of them; NULL is fine */
glofnd_status gf_cell_search_check(gf_error *err, const gf_cell_search *x); /* E_MEMORY, if no_memory */

/* Entries of the list of an anchor. */
int64_t gf_cell_keep(const gf_pairs_task *t);
/* Panels whose recall is measured; the place where such a panel begins. */
int64_t gf_cell_sample(int64_t panels);
int64_t gf_cell_sample_place(int64_t panels, int64_t i);

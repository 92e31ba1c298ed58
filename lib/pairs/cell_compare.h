/* cell_compare.h - anchors, in the order of cells, against the rows of their nearest cells, and against the panels that may
 * hold their duplicates.
 *
 *     gf_cell_search_init(err, &x, &cells, &points, &task, root);
 *     gf_cell_mark(&x, &block, thread);               which cells, which panels: for a block of anchors
 *     gf_cell_compare(&x, &block, &lists, thread);    compares them
 *     gf_cell_recall(err, &x, first, count, found);   with task.probe: of a sample
 *     gf_cell_search_free(&x);
 * Blocks are independent of each other; each thread has its own number. An anchor is compared with the rows of its own nearest
 * cells, whatever block it is in. Its work is bounded: large cells are cut into pieces, by angle to the centroid, and of
 * such a cell only the piece is taken that the anchor's own angle lies in.
 */
#pragma once

#include "pairs/cells.h"
#include "pairs/pairs_search.h"
#include "util/components.h"

typedef struct gf_panel_range {
    int32_t from, to; /* panels [from, to) */
} gf_panel_range;

typedef struct gf_cell_wanted { /* panels that may hold duplicates of a panel of anchors; a zeroed one is empty */
    gf_panel_range *range;      /* [count] rising; they do not touch */
    size_t count, capacity;
} gf_cell_wanted;

typedef struct gf_cell_search {
    const gf_cells *c;       /* its points are not used */
    const gf_panels *points; /* all rows, in the order of cells */
    const gf_pairs_task *t;
    const struct gf_tile_ops *ops;
    double theta, slack;
    int64_t panels;        /* of all points */
    int64_t probe;         /* nearest cells of an anchor; 0: only duplicates are searched */
    int64_t block;         /* anchors of a block, at most; a multiple of GF_PANEL */
    gf_tree_search tree;   /* nearest cells of a block; its strips serve all comparisons */
    float *around;         /* [threads][c->around][dim] centroids of the cells around the one at hand, in panels */
    int64_t pieces;        /* of all cells */
    int64_t *piece;        /* [pieces + 1] place where a piece begins */
    int64_t *piece_of;     /* [cells + 1] first piece of a cell */
    uint64_t *request;     /* probe: [threads][block][probe] piece, and the anchor of the block that is compared with it */
    uint8_t *mark;         /* [threads][panels] of the panel of anchors at hand; else zeros */
    uint64_t *touched;     /* [threads][cells / 64 + 1] cells that have marks, a bit each; else zeros */
    uint32_t *mask;        /* [threads][groups] anchors of the panel at hand that may have duplicates in the group; else zeros */
    int32_t *root;         /* [n] joins duplicates, by position; NULL: no copies are counted */
    gf_node_list *joined;  /* [threads] nodes of root that were joined; NULL: not wanted */
    _Atomic int64_t pairs; /* compared: of nearest cells, or without probe for duplicates */
    atomic_int no_memory;  /* 1: for what some anchors want */
} gf_cell_search;

typedef struct gf_cell_block { /* anchors that follow each other */
    int64_t place;             /* of the first one; at the beginning of a panel */
    int64_t rows;              /* up to x->block */
    int32_t *near;             /* [rows][probe] pieces; -1: none */
    gf_cell_wanted *wanted;    /* [panels of the block] */
} gf_cell_block;

typedef struct gf_cell_lists { /* where candidates of a block of anchors go */
    gf_best *best;
    int64_t first;   /* list of the first anchor; -1: lists by position */
    int64_t *copies; /* number of duplicates of each */
    int by_position; /* copies [n], else [rows] */
} gf_cell_lists;

/* c and points stay with the caller. */
glofnd_status gf_cell_search_init(gf_error *err, gf_cell_search *x, const gf_cells *c, const gf_panels *points,
                                  const gf_pairs_task *t, int32_t *root);
void gf_cell_search_free(gf_cell_search *x); /* a zeroed one is fine */
/* Sets near and wanted of the block. Where there is no memory they are cut, and x->no_memory is set. */
void gf_cell_mark(gf_cell_search *x, const gf_cell_block *b, int thread);
void gf_cell_compare(gf_cell_search *x, const gf_cell_block *b, const gf_cell_lists *to, int thread);
void gf_cell_wanted_free(gf_cell_wanted *wanted, int64_t n);                /* [n] of them; NULL is fine */
glofnd_status gf_cell_search_check(gf_error *err, const gf_cell_search *x); /* E_MEMORY, if no_memory */

/* Compares anchors [first, first + count) of the gf_cell_sample() ones with all rows: adds to found->sampled, wanted and
 * recalled the anchors, their pairs above the threshold, and those of these that the search finds. */
glofnd_status gf_cell_recall(gf_error *err, gf_cell_search *x, int64_t first, int64_t count, gf_pairs_found *found);
int64_t gf_cell_sample(int64_t n); /* random anchors whose recall is measured */

/* Entries of the list of an anchor. */
int64_t gf_cell_keep(const gf_pairs_task *t);

/* ----- inside ----- */

/* Piece of the cell of a near list's entry that an anchor is compared with. */
int32_t gf_cell_piece(const gf_cell_search *x, uint64_t key);
/* The nearest cells of rows [at, at + rows) of p, which begin at a panel: lists of x->tree.near from thread * x->block on.
 * The rows are those of places `place` and following ones; or row at + i is that of place places[i]. */
void gf_cell_near(gf_cell_search *x, const gf_panels *p, int64_t at, int64_t rows, int64_t place, const int32_t *places,
                  int thread);
/* The piece of a place. */
int64_t gf_cell_piece_at(const gf_cell_search *x, int64_t place);
int gf_cell_is_near(const gf_cell_search *x, const int32_t *near, int64_t place);
/* First place in [from, to) whose angle is not below a. */
int64_t gf_cell_place_of(const gf_cells *c, int64_t from, int64_t to, double a);

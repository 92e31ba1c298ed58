/* cell_tree.h - centroids of cells in two levels: some hundred groups, each with the centroids of its own cells. The nearest
 * cells of an embedding are looked for in the groups it is nearest to: with F cells that takes about the root of 32 F
 * products instead of F.
 *
 *     gf_tree_make(err, &sample, count, &job, numbers);           k-means: groups of a sample, then cells of each group
 *     gf_tree_open(err, numbers, count, dim, threads, &tree);     numbers can be kept in a file in between
 *     gf_tree_search_init(err, &s, &tree, probe, block, threads);
 *     gf_tree_near(&s, &points, at, rows, thread);                the nearest cells of a block of embeddings
 *     gf_tree_search_free(&s);
 *     gf_tree_free(&tree);
 */
#pragma once

#include "pairs/best.h"
#include "pairs/pairs_sweep.h"

typedef struct gf_cell_tree {
    int64_t count, dim; /* cells */
    int64_t groups;
    int64_t through;         /* groups that the cell of an embedding is looked for in: all, while there are few cells */
    gf_panels centres;       /* [count] of cells, those of a group together */
    gf_panels group_centres; /* [groups] */
    int64_t *first;          /* [groups + 1] first cell of a group */
} gf_cell_tree;

/* Numbers that describe a tree of so many cells. */
int64_t gf_tree_numbers(int64_t count, int64_t dim);
/* The same numbers for any number of threads. sample: at least one vector. */
glofnd_status gf_tree_make(gf_error *err, const gf_vectors *sample, int64_t count, const gf_sweep_job *job, float *numbers);
/* E_FORMAT: they describe no tree; E_NUMERIC: not finite. */
glofnd_status gf_tree_open(gf_error *err, const float *numbers, int64_t count, int64_t dim, int threads, gf_cell_tree *out);
void gf_tree_free(gf_cell_tree *t); /* a zeroed one is fine */
/* Groups that are looked into for `probe` nearest cells. */
int64_t gf_tree_through(const gf_cell_tree *t, int64_t probe);

/* ----- nearest cells ----- */

typedef struct gf_tree_search {
    const gf_cell_tree *t;
    const struct gf_tile_ops *ops;
    int threads;
    int64_t probe, through, block; /* cells; groups; embeddings of a block at most, a multiple of GF_PANEL */
    float *strip;                  /* [threads][GF_PANEL][GF_STRIP_COLS] */
    float *gathered;               /* [threads][dim][GF_PANEL] */
    gf_best group;                 /* [threads][GF_PANEL] nearest groups */
    gf_best near;                  /* [threads][block] nearest cells */
    int32_t *chosen;               /* [threads][block][through] nearest groups, best first; -1: none */
    int32_t *asked;                /* [threads][block][through] embeddings of the block, by group */
    int64_t *from;                 /* [threads][groups + 1] first of a group in `asked` */
} gf_tree_search;

glofnd_status gf_tree_search_init(gf_error *err, gf_tree_search *s, const gf_cell_tree *t, int64_t probe, int64_t block,
                                  int threads);
void gf_tree_search_free(gf_tree_search *s); /* a zeroed one is fine */
/* Rows [at, at + rows) of p, which begin at a panel: list thread * block + i of s->near gets the nearest cells of row at +
 * i, best first. */
void gf_tree_near(gf_tree_search *s, const gf_panels *p, int64_t at, int64_t rows, int thread);
/* The same for rows [i, i + rows) of the panel that begins at row `at` of p, with list `list` for row at + i: the nearest of
 * the cells that `centres` [pad(around) / GF_PANEL][dim][GF_PANEL] are the centroids of. */
void gf_tree_near_of(gf_tree_search *s, const gf_panels *p, int64_t at, int i, int rows, const int32_t *cell,
                     const gf_panels *centres, int64_t list, int thread);
/* The nearest groups of the panel that begins at row `at` of p: lists thread * GF_PANEL + i of s->group, best first, at least
 * t->through + 1 if there are as many. If the groups fit into a strip, it has the similarities afterwards. */
void gf_tree_groups(gf_tree_search *s, const gf_panels *p, int64_t at, int rows, int thread);

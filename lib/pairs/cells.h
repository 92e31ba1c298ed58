/* cells.h - embeddings in cells: each belongs to the centroid it is most similar to, of those in the groups of centroids
 * that it is nearest to (cell_tree.h). Angles obey the triangle inequality, so whole cells can be left out of a search
 * without a loss. */
#pragma once

#include "pairs/cell_tree.h"

typedef struct gf_cells {
    int64_t n, dim, count;
    gf_cell_tree tree; /* centroids [count] */
    gf_panels points;  /* [n] by cell, in a cell by rising angle to its centroid; or none */
    int32_t *order;    /* [n] position of the embedding at that place */
    int64_t *start;    /* [count + 1] place where a cell begins */
    float *angle;      /* [n] to the own centroid, by place */
    int64_t around;    /* 0, or as of gf_cells_surround() */
    int32_t *nearby;   /* [count][around] cells nearest to a cell, best first; -1: no more */
} gf_cells;

/* count 0: chosen. The same cells for any number of threads. */
glofnd_status gf_cells_make(gf_error *err, const gf_vectors *rows, int64_t count, const gf_sweep_job *job, gf_cells *out);
void gf_cells_free(gf_cells *c); /* a zeroed one is fine */
/* Angle of a similarity. Rounding errors of a similarity change it by gf_cells_slack(dim) at most. */
double gf_cells_angle(float similarity);
double gf_cells_slack(int64_t dim);

/* Finds the cells around each cell, among which `probe` nearest ones of its rows are then looked for: none, if those would
 * be too many. Needs the tree alone. Does nothing if it has been called. */
glofnd_status gf_cells_surround(gf_error *err, gf_cells *c, int64_t probe, int threads);
/* The cell of a place. */
int64_t gf_cells_at(const gf_cells *c, int64_t place);

/* ----- the same, step by step: for rows that are not in memory ----- */

typedef struct gf_cell_of { /* where an embedding belongs */
    float similarity;       /* to the centroid */
    int32_t cell;
} gf_cell_of;

int64_t gf_cells_count(int64_t n); /* as chosen */
/* Positions for k-means, in random order; returns their number. position [that number], or NULL. */
int64_t gf_cells_sample(int64_t n, int64_t count, int32_t *position);
/* of [points->n] */
glofnd_status gf_cells_assign(gf_error *err, const gf_panels *points, const gf_cell_tree *tree, const gf_sweep_job *job,
                              gf_cell_of *of);
/* Sets order, start and angle. of [c->n] by position. */
glofnd_status gf_cells_sort(gf_error *err, const gf_cell_of *of, int threads, gf_cells *c);

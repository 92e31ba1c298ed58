/* cells.h - embeddings in cells: each belongs to the centroid it is most similar to. Angles obey the triangle inequality, so
 * whole cells can be left out of a search without a loss. */
#pragma once

#include "pairs/pairs_sweep.h"

typedef struct gf_cells {
    int64_t n, dim, count;
    gf_panels centres; /* [count] */
    gf_panels points;  /* [n] by cell, in a cell by rising angle to its centroid */
    int32_t *order;    /* [n] position of the embedding at that place */
    int64_t *start;    /* [count + 1] place where a cell begins */
    float *angle;      /* [n] to the own centroid, by place */
} gf_cells;

/* count 0: chosen. The same cells for any number of threads. */
glofnd_status gf_cells_make(gf_error *err, const gf_vectors *rows, int64_t count, const gf_sweep_job *job, gf_cells *out);
void gf_cells_free(gf_cells *c); /* a zeroed one is fine */
/* Angle of a similarity. Rounding errors of a similarity change it by gf_cells_slack(dim) at most. */
double gf_cells_angle(float similarity);
double gf_cells_slack(int64_t dim);

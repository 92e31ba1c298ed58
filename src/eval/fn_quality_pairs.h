/* fn_quality_pairs.h - all cosine similarities between two sets of embeddings, tile by tile on all cores; never rows x cols. */
#ifndef GF_EVAL_FN_QUALITY_PAIRS_H
#define GF_EVAL_FN_QUALITY_PAIRS_H

#include "base/status.h"

#define GF_PAIR_ROWS 64         /* of a block: an even number, so that two views side by side stay together */

typedef struct gf_pairs {
    const float *row, *col;     /* [rows][dim], [cols][dim]; rows of any length, made unit inside; zeros stay zeros */
    int64_t rows, cols, dim;
    int threads;                /* at least 1 */
} gf_pairs;

typedef struct gf_pair_tile {
    int64_t r0, c0;
    int rows, cols;
    int last;                   /* no more columns for these rows */
    const float *s;             /* [rows][ld] */
    size_t ld;
} gf_pair_tile;

/* Gets every tile once. The tiles of a block of rows come one after another, by rising columns, on one thread; r0 is a multiple
 * of GF_PAIR_ROWS. Blocks may come in any order and at the same time: what is written must belong to the rows or to `thread`. */
typedef void (*gf_pair_visit)(void *user, const gf_pair_tile *t, int thread);

/* E_NUMERIC names the first row that is not finite. Memory: a copy of the columns and a tile per thread. */
glofnd_status gf_pairs_sweep(gf_error *err, const gf_pairs *p, gf_pair_visit visit, void *user);

#endif

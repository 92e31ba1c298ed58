/* tiles.h - all cosine similarities between two sets of embeddings, tile by tile on all cores; never rows x cols. */
#ifndef GF_PAIRS_TILES_H
#define GF_PAIRS_TILES_H

#include "util/status.h"

#define GF_PAIR_ROWS 64     /* of a block: an even number, so that two views side by side stay together */
#define GF_PAIR_COLUMNS 512 /* of a tile, at most */

typedef struct gf_pair_how { /* how a sweep is carried out */
    int threads;             /* at least 1 */
    const char *what;        /* told with the progress; functions that sweep set it where it is NULL */
    void (*progress)(void *user, const char *what, int64_t done, int64_t total); /* on the calling thread; may be NULL */
    void *user;
} gf_pair_how;

typedef struct gf_pairs {
    const float *row, *col; /* [rows][dim], [cols][dim]; rows of any length, made unit inside; zeros stay zeros */
    int64_t rows, cols, dim;
    const char *row_name, *col_name; /* for messages; NULL: "embedding" */
    gf_pair_how how;
} gf_pairs;

typedef struct gf_pair_tile {
    int64_t r0, c0;
    int rows, cols;
    int last;       /* no more columns for these rows */
    const float *s; /* [rows][ld] */
    size_t ld;
} gf_pair_tile;

/* Gets every tile once. The tiles of a block of rows come one after another, by rising columns, on one thread; r0 is a multiple
 * of GF_PAIR_ROWS. Blocks may come in any order and at the same time: what is written must belong to the rows or to `thread`. */
typedef void (*gf_pair_visit)(void *user, const gf_pair_tile *t, int thread);

/* The same, telling `what` unless it tells something already. */
gf_pair_how gf_pair_about(const gf_pair_how *how, const char *what);

/* E_NUMERIC names a row that is not finite. Memory: a copy of the columns and a tile per thread. */
glofnd_status gf_pairs_sweep(gf_error *err, const gf_pairs *p, gf_pair_visit visit, void *user);

#endif

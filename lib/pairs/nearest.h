/* nearest.h - the k most similar columns of every row; of equally similar ones the earlier. The one search of evaluations and
 * reports, whose rows are another set than the columns; discovery, within one set, is pairs_search.h.
 *
 * Where the CPU multiplies 16-bit integers twice as fast as floats, the similarities of all pairs are made of integers, with a
 * bound for their error. It leaves some columns more than k of each row, whose similarities are then computed as floats: the
 * result has the bits of a search that computes all as floats, at any number of threads. Memory beside it: packed copies of rows
 * and columns.
 */
#pragma once

#include "pairs/best.h"
#include "pairs/pairs_sweep.h"

typedef enum gf_nearest_by {
    GF_NEAREST_CHOSEN,
    GF_NEAREST_FLOATS,
    GF_NEAREST_INTEGERS
} gf_nearest_by; /* the result is the same */

typedef struct gf_nearest_search {
    gf_vectors rows, cols;
    int64_t k;
    const int32_t *label; /* [cols.n] columns of a negative one are left out; NULL: none is */
    gf_sweep_job job;     /* at least one thread */
    /* Gets each row, on any thread; some twice, with the same result: list `at` of b holds its nearest, at least k if there are
     * as many. It may sort the list. */
    void (*take)(void *user, gf_best *b, int64_t at, int64_t row, int thread);
    void *user;
    gf_nearest_by by;
} gf_nearest_search;

/* E_NUMERIC names a vector that is not finite. */
glofnd_status gf_nearest_each(gf_error *err, const gf_nearest_search *s);

/* best [rows->n][k]: columns, best first; -1 after the last where there are fewer than k. job->threads 0: all. */
glofnd_status gf_nearest(gf_error *err, const gf_vectors *rows, const gf_vectors *cols, int k, const gf_sweep_job *job,
                         int64_t *best);

/* nearest.h - the k most similar columns of every row, best first; of equally similar ones the earlier.
 *
 * The result has the same bits for any number of threads. Memory beside it: packed copies of rows and columns.
 */
#pragma once

#include "pairs/pairs_sweep.h"

/* best [rows->n][k]: columns; -1 after the last where there are fewer than k. job->threads 0: all. E_NUMERIC names a vector that
 * is not finite. */
glofnd_status gf_nearest(gf_error *err, const gf_vectors *rows, const gf_vectors *cols, int k, const gf_sweep_job *job,
                         int64_t *best);

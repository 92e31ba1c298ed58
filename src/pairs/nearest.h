/* nearest.h - the k most similar columns of every row, best first; of equally similar ones the earlier.
 *
 * Similarities are made in tiles and dropped: beside a packed copy of the columns, memory is the result's. The same bits for any
 * number of threads.
 */
#ifndef GF_PAIRS_NEAREST_H
#define GF_PAIRS_NEAREST_H

#include "pairs/tiles.h"

/* best [rows][k]: columns; -1 behind the last where there are fewer than k. p->how.threads 0: all. E_NUMERIC names a row that is
 * not finite. */
glofnd_status gf_nearest(gf_error *err, const gf_pairs *p, int k, int64_t *best);

#endif

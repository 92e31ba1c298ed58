/* substitute.h - samples that stand in for damaged ones.
 *
 * Which one it is depends on (seed, epoch, step), the place in the whole batch and the data alone: each of several ranks finds
 * those of its own places without asking the others, and they are the ones that one rank would find.
 *
 * A place has a row of substitutes: the same place in later batches, round to the begin, and in the rest after the last batch.
 * Rows have nothing in common, so ids in a batch stay different. Where all of a row is damaged (or there is none: the data hardly
 * fill one batch) what the rows of the others leave is given out, in the order of places and of positions after the batch; to
 * know what that is the whole batch has to be read.
 */
#ifndef GF_LOADER_SUBSTITUTE_H
#define GF_LOADER_SUBSTITUTE_H

#include "loader/prefetch.h"

/* Fills the gaps of s, sorted by item. E_FORMAT in s if too few samples can be read. Without the lock: s belongs to w. */
void gf_replace(gf_prefetch *p, gf_worker *w, gf_slot *s);

#endif

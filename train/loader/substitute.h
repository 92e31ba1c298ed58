/* substitute.h - the unreadable samples of a batch: noted, then replaced by others or, where samples come in order, left out.
 *
 * The substitute depends on (seed, epoch, step), the place in the global batch and the data alone: each of several ranks finds
 * those of its own places without asking the others, and they are the ones that a single rank would find.
 *
 * A place has a row of substitutes: the same place in later batches, wrapping around to the first, and in the rest after the last
 * batch. Rows have no sample in common, so ids in a batch stay different. Where all of a row is unreadable (or there is none: the
 * data hardly fill one batch) the samples that other rows leave over are given out, in the order of places and of positions after
 * the batch; finding these takes reading the whole global batch.
 */
#pragma once

#include "loader/make_sample.h"

/* Adds the outcome of sample `item` to s. With the loader's lock. */
void gf_slot_note(const gf_maker *m, gf_slot *s, int64_t item, const gf_made *made);
/* All samples were tried: replaces the unreadable ones, or leaves them out. E_FORMAT in s if too few samples are readable.
 * Without the lock: s belongs to w. */
void gf_slot_finish(const gf_maker *m, gf_worker *w, gf_slot *s);

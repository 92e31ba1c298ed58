/* anchors_parts.h - the anchors of several ranks in a checkpoint: a file per rank, beside the one with what belongs to none.
 *
 * "anchors.glofnd" is then a store without rows, with the ring and the shared lambda; "anchors.glofnd.00002-of-00004" holds the
 * anchors 2, 6, 10 ... of rank 2 of 4. A checkpoint of any number of ranks is read by any number.
 */
#ifndef GF_TRAIN_CHECKPOINT_ANCHORS_PARTS_H
#define GF_TRAIN_CHECKPOINT_ANCHORS_PARTS_H

#include "train/trainer.h"

void gf_parts_name(const char *anchors, int rank, int ranks, char *name, size_t bytes);
/* *ranks: how many wrote parts beside `anchors`; 0: none. E_FORMAT: parts of different numbers of ranks lie there; E_IO:
 * the folder cannot be read, so that there might be some. */
glofnd_status gf_parts_count(gf_error *err, const char *anchors, int *ranks);

/* Row k of `part` is anchor first + k * stride. */
typedef glofnd_status (*gf_parts_use)(gf_error *err, void *user, glofnd_ctx *c, const glofnd_store *part, int64_t first,
                                      int64_t stride);
/* Every file once, in memory: first the one that belongs to no rank to `whole` (with 0 and 1), then the parts to `part`. */
glofnd_status gf_parts_read(gf_error *err, glofnd_ctx *c, const char *anchors, gf_parts_use whole, gf_parts_use part, void *user);

/* Several ranks: the own anchors; ring and shared lambda. */
glofnd_status gf_parts_save_shard(gf_error *err, const gf_trainer *t, const char *anchors);
glofnd_status gf_parts_save_shared(gf_error *err, const gf_trainer *t, const char *anchors);
/* Several ranks: the own anchors out of all files, ring and shared lambda. */
glofnd_status gf_parts_load_shard(gf_error *err, gf_trainer *t, const char *anchors);
/* One rank: anchors of all parts into the store, which has been loaded from `anchors`. */
glofnd_status gf_parts_load_all(gf_error *err, gf_trainer *t, const char *anchors);

#endif

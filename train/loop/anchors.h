/* anchors.h - the anchors in a checkpoint: the store of one rank in GF_ANCHORS_FILE, or of several ranks in a file per rank
 * beside it, and the key file (anchor_keys.h).
 *
 * With several ranks "anchors.glofnd" is a store without rows, with the ring, the shared lambda and all averages;
 * "anchors.glofnd.00002-of-00004" holds the anchors 2, 6, 10 ... of rank 2 of 4. A checkpoint of any number of ranks is read by
 * any number.
 */
#pragma once

#include "loop/anchor_keys.h"
#include "loop/trainer.h"

/* The files `anchors` and `keys` of a checkpoint. Several ranks: the first one calls it, and each one gf_anchors_save_shard. */
glofnd_status gf_anchors_save(gf_error *err, const gf_trainer *t, const char *anchors, const char *keys);
glofnd_status gf_anchors_save_shard(gf_error *err, const gf_trainer *t, const char *anchors); /* the rank's own anchors */
/* With keys that differ from the data's: E_FORMAT that says how many are known, unless `remap`. A missing key file (a
 * checkpoint of an earlier version) counts as equal, if the numbers of samples are. `scratch`: name of a file to be made and
 * removed while re-mapping, or where the run remembers less than the checkpoint (fit_anchors.h); E_OPTION: it remembers more. */
glofnd_status gf_anchors_load(gf_error *err, gf_trainer *t, const char *anchors, const char *keys, const char *scratch, int remap,
                              gf_remap *out);

/* ----- files of ranks ----- */

void gf_anchors_part_name(const char *anchors, int rank, int ranks, char *name, size_t bytes);
/* *ranks: how many wrote parts beside `anchors`; 0: none. E_FORMAT: parts of different numbers of ranks; E_IO: the folder
 * cannot be read, so that there might be some. */
glofnd_status gf_anchors_part_count(gf_error *err, const char *anchors, int *ranks);

/* Row k of `part` is anchor first + k * stride. */
typedef glofnd_status (*gf_anchors_use)(gf_error *err, void *user, glofnd_ctx *c, const glofnd_store *part, int64_t first,
                                        int64_t stride);
/* Reads every file once, into memory: first `anchors` itself for `whole` (with 0 and 1), then the parts for `part`. */
glofnd_status gf_anchors_read(gf_error *err, glofnd_ctx *c, const char *anchors, gf_anchors_use whole, gf_anchors_use part,
                              void *user);

/* anchors.h - the state of the anchors in a checkpoint, the keys that say whose state it is, and the thresholds that a run has
 * learned.
 *
 * Row i of the store belongs to sample i of the dataset. If samples were added, removed or reordered since, rows are re-mapped by
 * key: an anchor follows its sample.
 */
#pragma once

#include "data/dataset.h"
#include "loop/trainer.h"
#include "method/store.h"
#include "run/config.h"

typedef struct gf_remap {      /* from the rows of a checkpoint to the samples of a dataset */
    int changed;               /* the keys differ; else kept = rows = all */
    int64_t rows;              /* of the checkpoint */
    int64_t kept, fresh, lost; /* rows found again; samples without state; state without sample */
    int64_t repeated;          /* samples with the key of an earlier sample */
} gf_remap;

/* The keys of a dataset, in order (FORMATS.md). */
glofnd_status gf_keys_save(gf_error *err, const gf_dataset *d, const char *path);
/* *same: `path` holds the keys of `d`. Allocates nothing. E_FORMAT: corrupt. */
glofnd_status gf_keys_same(gf_error *err, const gf_dataset *d, const char *path, int *same);
/* to[i]: the position in `d` of the sample that row i of the key file belongs to, -1 if it is missing; [out->rows], to be freed.
 * Of equal keys the first belongs to the first. */
glofnd_status gf_keys_map(gf_error *err, const gf_dataset *d, const char *path, int64_t **to, gf_remap *out);

/* Keys of drawn images and of CIFAR are numbers, which say less than a name: E_ARGUMENT if `d`, which was opened as `spec`, has
 * different pictures from the SPEC `before` under the same keys. GLOFND_OK where `before` cannot be opened any more. */
glofnd_status gf_keys_check_pictures(gf_error *err, const gf_dataset *d, const char *spec, const char *before);

/* ----- anchors in a checkpoint -----
 *
 * The anchors in a checkpoint: the store of one rank in GF_ANCHORS_FILE, or of several ranks in a file per rank beside it, and
 * the key file.
 *
 * With several ranks "anchors.glofnd" is a store without rows, with the ring, the shared lambda and all averages;
 * "anchors.glofnd.00002-of-00004" holds the anchors 2, 6, 10 ... of rank 2 of 4. A checkpoint of any number of ranks is read by
 * any number.
 *
 * A run may remember less than the one that wrote the checkpoint: embeddings of the learner ring and averages of similarity bank
 * are left out where its detector does not use them (run/resume.h). Its checkpoints then are those of a run of its own, byte for
 * byte. */

/* The files `anchors` and `keys` of a checkpoint. Several ranks: the first one calls it, and each one gf_anchors_save_shard. */
glofnd_status gf_anchors_save(gf_error *err, const gf_trainer *t, const char *anchors, const char *keys);
glofnd_status gf_anchors_save_shard(gf_error *err, const gf_trainer *t, const char *anchors); /* the rank's own anchors */
/* With keys that differ from the data's: E_FORMAT that says how many are known, unless `remap`. A missing key file (a
 * checkpoint of an earlier version) counts as equal, if the numbers of samples are. `scratch`: name of a file to be made and
 * removed while re-mapping, or where the run remembers less than the checkpoint; E_OPTION: it remembers more. */
glofnd_status gf_anchors_load(gf_error *err, gf_trainer *t, const char *anchors, const char *keys, const char *scratch, int remap,
                              gf_remap *out);

/* ----- anchors in a checkpoint: files of ranks ----- */

void gf_anchors_part_name(const char *anchors, int rank, int ranks, char *name, size_t bytes);
/* *ranks: how many wrote parts beside `anchors`; 0: none. E_FORMAT: parts of different numbers of ranks; E_IO: the folder
 * cannot be read, so that there might be some. */
glofnd_status gf_anchors_part_count(gf_error *err, const char *anchors, int *ranks);

/* Row k of `part` is anchor first + k * stride. */
typedef glofnd_status (*gf_anchors_use)(gf_error *err, void *user, glofnd_ctx *c, const glofnd_store *part, int64_t first,
                                        int64_t stride);

/* ----- learned thresholds -----
 *
 * The thresholds that a run has learned, read from its newest checkpoint, of one rank or several. Keys assign them to samples
 * where the order of the data is not that of the training. */

typedef struct gf_learned {
    int64_t n;           /* samples of the data; 0: nothing learned */
    int sides;           /* 1; image-text: 2, images and texts */
    int64_t step;        /* of the checkpoint; -1: there is none */
    float *at[2];        /* [n] in the order of the data; NaN: never visited, or not in the training */
    int64_t lost, fresh; /* samples of the training that are missing in the data, and the other way round */
} gf_learned;

/* partial: a tenth of the samples may be missing or new; else none. Thresholds in force at the newest checkpoint of RUN, whose
 * configuration is `c`, for the samples of `d`, which was opened as `spec`. Nothing where there is no checkpoint, or its
 * detector never started or learns none: any data will do then. Otherwise E_ARGUMENT: the run was trained on different data,
 * with more missing or new; or on a different order of it, and repeated keys make that ambiguous. */
glofnd_status gf_learned_read(gf_error *err, const char *run, const gf_config *c, const gf_dataset *d, const char *spec,
                              int partial, gf_learned *out);
void gf_learned_free(gf_learned *l); /* a zeroed one is fine */

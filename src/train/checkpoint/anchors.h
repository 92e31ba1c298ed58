/* anchors.h - the anchors in a checkpoint: their state, and a key per row that says whose state it is.
 *
 * Row i of the store belongs to sample i of the dataset. If samples were added, removed or put in another order since, rows are
 * re-mapped by key: an anchor follows its sample.
 */
#ifndef GF_TRAIN_CHECKPOINT_ANCHORS_H
#define GF_TRAIN_CHECKPOINT_ANCHORS_H

#include "run/layout.h"
#include "train/trainer.h"

typedef struct gf_remap {      /* what became of the anchors of a checkpoint */
    int changed;               /* the list of keys is another one; else kept = rows = all */
    int64_t rows;              /* of the checkpoint */
    int64_t kept, fresh, lost; /* found again; samples without state; state without sample */
    int64_t twins;             /* samples whose key another sample before them has, too */
} gf_remap;

/* The keys of a dataset, in order (docs/formats.md). */
glofnd_status gf_keys_save(gf_error *err, const gf_dataset *d, const char *path);
glofnd_status gf_keys_count(gf_error *err, const char *path, int64_t *n); /* of the file; E_FORMAT: damaged */
/* Whether `path` holds the keys of `d`; no memory of its size is taken. E_FORMAT: damaged. */
glofnd_status gf_keys_same(gf_error *err, const gf_dataset *d, const char *path, int *same);
/* to[i]: the position in `d` of the sample that row i of the key file belongs to, -1 if it is gone; [out->rows], to be freed.
 * Of equal keys the first belongs to the first. */
glofnd_status gf_keys_map(gf_error *err, const gf_dataset *d, const char *path, int64_t **to, gf_remap *out);

/* Keys of drawn images and of CIFAR are numbers, which say less than a name: E_ARGUMENT if `d`, which was opened as `spec`, has
 * other pictures under the same keys than the SPEC `before`. That one may be gone or have moved: then there is nothing to see. */
glofnd_status gf_keys_enough(gf_error *err, const gf_dataset *d, const char *spec, const char *before);

/* The files `anchors` and `keys` of a checkpoint. */
glofnd_status gf_anchors_save(gf_error *err, const gf_trainer *t, const char *anchors, const char *keys);
/* With other keys than the data has: E_FORMAT that says how many are there, unless `remap`. A key file that does not exist (a
 * checkpoint of an earlier version) counts as equal, if the numbers of samples are. `scratch`: name of a file to be made and
 * removed while re-mapping. */
glofnd_status gf_anchors_load(gf_error *err, gf_trainer *t, const char *anchors, const char *keys, const char *scratch, int remap,
                              gf_remap *out);

#endif

/* anchor_keys.h - the key file of a checkpoint: a key per row of the anchor store, which says whose state it is.
 *
 * Row i of the store belongs to sample i of the dataset. If samples were added, removed or reordered since, rows are re-mapped by
 * key: an anchor follows its sample.
 */
#pragma once

#include "data/dataset.h"

typedef struct gf_remap {      /* from the rows of a checkpoint to the samples of a dataset */
    int changed;               /* the keys differ; else kept = rows = all */
    int64_t rows;              /* of the checkpoint */
    int64_t kept, fresh, lost; /* rows found again; samples without state; state without sample */
    int64_t repeated;          /* samples with the key of an earlier sample */
} gf_remap;

/* The keys of a dataset, in order (docs/formats.md). */
glofnd_status gf_keys_save(gf_error *err, const gf_dataset *d, const char *path);
glofnd_status gf_keys_count(gf_error *err, const char *path, int64_t *n); /* of the file; E_FORMAT: corrupt */
/* *same: `path` holds the keys of `d`. Allocates nothing. E_FORMAT: corrupt. */
glofnd_status gf_keys_same(gf_error *err, const gf_dataset *d, const char *path, int *same);
/* to[i]: the position in `d` of the sample that row i of the key file belongs to, -1 if it is missing; [out->rows], to be freed.
 * Of equal keys the first belongs to the first. */
glofnd_status gf_keys_map(gf_error *err, const gf_dataset *d, const char *path, int64_t **to, gf_remap *out);

/* Keys of drawn images and of CIFAR are numbers, which say less than a name: E_ARGUMENT if `d`, which was opened as `spec`, has
 * different pictures from the SPEC `before` under the same keys. GLOFND_OK where `before` cannot be opened any more. */
glofnd_status gf_keys_check_pictures(gf_error *err, const gf_dataset *d, const char *spec, const char *before);

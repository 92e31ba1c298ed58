/* embed_files.h - files that `glofnd embed` writes: embeddings as .npy, .safetensors or .csv, by the suffix; labels, samples,
 * names. */
#pragma once

#include "data/dataset.h"
#include "eval/encode.h"

typedef struct embed_targets { /* files to write; NULL: not wanted */
    const char *out, *labels, *samples, *names;
} embed_targets;

typedef struct embed_rows {
    const gf_features *f;
    const int64_t *sample;  /* [f->n] whose image or caption a row is */
    const gf_dataset *data; /* names of samples */
} embed_rows;

/* E_OPTION: a suffix that says no format, or one file for two things. Fails before the work if no file can be written there. */
glofnd_status embed_targets_check(gf_error *err, const embed_targets *t);
glofnd_status embed_write(gf_error *err, const embed_targets *t, const embed_rows *r);

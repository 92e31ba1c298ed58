/* learned_thresholds.h - the thresholds that a run has learned, read from its newest checkpoint, of one rank or several. Keys
 * assign them to samples where the order of the data is not that of the training.
 */
#pragma once

#include "data/dataset.h"
#include "run/config.h"

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

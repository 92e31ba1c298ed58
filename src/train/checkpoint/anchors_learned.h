/* anchors_learned.h - the thresholds that a run has learned, from its newest checkpoint: of one rank or several, and each for its
 * own sample, by key, where the data has its samples in another order than in training. All who look at a run's thresholds from
 * outside read them here.
 */
#ifndef GF_TRAIN_CHECKPOINT_ANCHORS_LEARNED_H
#define GF_TRAIN_CHECKPOINT_ANCHORS_LEARNED_H

#include "train/checkpoint/checkpoint.h"

typedef struct gf_learned {
    int64_t n;    /* samples of the data; 0: nothing learned */
    int sides;    /* 1; image-text: 2, images and texts */
    float *at[2]; /* [n] in the order of the data; NaN: never visited */
} gf_learned;

/* Thresholds in force at the newest checkpoint of RUN, whose configuration is `c`, for the samples of `d`, which was opened as
 * `spec`. Nothing where there is no checkpoint, or its detector never started or learns none: any data will do then. Otherwise
 * E_ARGUMENT: the data is not what the run was trained on; or its order is another and keys that occur more than once do not say
 * which is which. */
glofnd_status gf_learned_read(gf_error *err, const char *run, const gf_config *c, const gf_dataset *d, const char *spec,
                              gf_learned *out);
void gf_learned_free(gf_learned *l); /* a zeroed one is fine */

#endif

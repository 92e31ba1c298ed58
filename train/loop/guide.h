/* guide.h - the guide of detectors fixed and fixed-mutual: embeddings of all samples of a dataset that stand still, from whatever network,
 * and a threshold of each. Both are .npy files, by position of the sample.
 */
#pragma once

#include "run/config.h"

typedef struct gf_guide { /* all zero: none */
    int64_t n, dim;
    float *x;         /* [n][dim] of any length but 0 */
    float *threshold; /* [n]; NAN: the sample flags nothing */
} gf_guide;

/* For a resolved configuration and n samples. No-op if its detector has no guide. */
glofnd_status gf_guide_open(gf_error *err, gf_guide *g, const gf_config *c, int64_t n);
void gf_guide_free(gf_guide *g);
uint64_t gf_guide_hash(const gf_guide *g);
/* Rows and thresholds of n samples: x [n][dim], threshold [n]. */
void gf_guide_gather(const gf_guide *g, const int64_t *id, int64_t n, float *x, float *threshold);

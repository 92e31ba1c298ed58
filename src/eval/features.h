/* features.h - what an encoder made of a dataset: one row per readable sample, in the order of the dataset. */
#ifndef GF_EVAL_FEATURES_H
#define GF_EVAL_FEATURES_H

#include "util/status.h"

typedef struct gf_features {
    int64_t n, dim;
    float *x;       /* [n][dim] */
    int32_t *label; /* [n]; -1: none */
} gf_features;

glofnd_status gf_features_alloc(gf_error *err, gf_features *f, int64_t n, int64_t dim);
void gf_features_free(gf_features *f);             /* NULL and a zeroed one are fine */
int32_t gf_features_classes(const gf_features *f); /* largest label + 1; 0: no labels */
/* Moves `share` of each class, rounded down, chosen by `seed`, to *held; both keep the order of the dataset. */
glofnd_status gf_features_hold_out(gf_error *err, gf_features *f, double share, uint64_t seed, gf_features *held);

/* Rows to length 1; rows of zeros stay. */
void gf_features_unit(gf_features *f);
/* Columns of `train` to mean 0 and deviation 1 (a constant one to 0), and the same shift and scale for `test` (may be NULL). */
glofnd_status gf_features_standardise(gf_error *err, gf_features *train, gf_features *test);

#endif

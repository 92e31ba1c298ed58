/* features.h - features of a dataset by an encoder: one row per readable sample, in the order of the dataset. */
#pragma once

#include "util/status.h"

typedef struct gf_features {
    int64_t n, dim;
    float *x;       /* [n][dim] */
    int32_t *label; /* [n]; -1: none */
} gf_features;

glofnd_status gf_features_alloc(gf_error *err, gf_features *f, int64_t n, int64_t dim);
void gf_features_free(gf_features *f);             /* accepts NULL and a zeroed struct */
int32_t gf_features_classes(const gf_features *f); /* largest label + 1; 0: no labels */
/* Moves `share` of each class, rounded down and chosen by `seed`, to *held; both keep the order of the dataset. */
glofnd_status gf_features_hold_out(gf_error *err, gf_features *f, double share, uint64_t seed, gf_features *held);

/* Scales rows to length 1; rows of zeros stay. */
void gf_features_unit(gf_features *f);
/* Shifts and scales the columns of `train` to mean 0 and standard deviation 1 (a constant column to 0), and those of `test`
 * (may be NULL) by the same numbers. */
glofnd_status gf_features_standardise(gf_error *err, gf_features *train, gf_features *test);

/* split.h - training and test samples of an evaluation: two SPECs, a dataset's own test split, or a held-out share of each class;
 * checked against each other. */
#pragma once

#include "data/dataset.h"

#define GF_SPLIT_NAME 4400

typedef struct gf_split_spec {
    const char *data, *test; /* SPECs; test NULL: the data's own test split, else `share` of each class of the data */
    double share;
    uint64_t seed; /* of the held-out share */
    int held_out;  /* 1: hold out even if the data has a test split */
    int several;   /* 1: images may have several classes (gf_dataset_several); then labels are positions in the dataset */
} gf_split_spec;

typedef struct gf_samples { /* labelled samples of a dataset */
    const gf_dataset *data;
    int64_t n;
    int64_t *id;    /* [n] rising positions in the dataset */
    int32_t *label; /* [n]; test samples: in the numbering of the training samples, see gf_split_init() */
} gf_samples;

typedef struct gf_split {
    gf_dataset *data, *test_data; /* test_data NULL: test samples are held out of data */
    gf_samples train, test;
    int32_t classes;               /* largest label of the training samples + 1; with `several`, all */
    int several;                   /* labels are positions: gf_dataset_several() has the classes */
    char test_name[GF_SPLIT_NAME]; /* SPEC of the test samples; "": held out */
} gf_split;

/* Where the classes of both have names, test labels follow the training set's numbering: a test set may lack classes, or have
 * them in a different order. E_ARGUMENT: no labels, or a test class without a training sample. */
glofnd_status gf_split_init(gf_error *err, const gf_split_spec *spec, gf_split *out);
void gf_split_free(gf_split *s); /* accepts NULL and a zeroed struct */

/* Moves `share` of each class of `from`, chosen by `seed`, to *to. stream: stratified_sample.h. */
glofnd_status gf_samples_hold_out(gf_error *err, gf_samples *from, double share, uint64_t seed, uint32_t stream, gf_samples *to);
/* Copies the samples of `from` with chosen[i] == want. */
glofnd_status gf_samples_choose(gf_error *err, const gf_samples *from, const uint8_t *chosen, int want, gf_samples *to);
void gf_samples_free(gf_samples *p);

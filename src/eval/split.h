/* split.h - which samples are for training and which for testing: two SPECs, a dataset's own test split, or a share of each class
 * held out; checked against each other. */
#ifndef GF_EVAL_SPLIT_H
#define GF_EVAL_SPLIT_H

#include "data/dataset.h"

#define GF_SPLIT_NAME 4400

typedef struct gf_split_spec {
    const char *data, *test; /* SPECs; test NULL: the data's own test split, else `share` of each class of the data */
    double share;
    uint64_t seed;                      /* of the share */
    int held_out;                       /* 1: hold out even if the data has a test split */
    const char *train_list, *test_list; /* files that name the training and the test samples of data; both, or NULL */
} gf_split_spec;

typedef struct gf_samples { /* samples of a dataset, with labels all of them */
    const gf_dataset *data;
    int64_t n;
    int64_t *id;    /* [n] rising positions in the dataset */
    int32_t *label; /* [n]; of test samples: what training calls them, see gf_split_init */
} gf_samples;

typedef struct gf_split {
    gf_dataset *data, *test_data; /* test_data NULL: test samples are held out of data */
    gf_samples train, test;
    int32_t classes;               /* largest label of the training samples + 1 */
    char test_name[GF_SPLIT_NAME]; /* SPEC of the test samples, or the file that names them; "": held out */
} gf_split;

/* Where the classes of both have names, test labels are numbered by the training set's: a test set may lack classes, or have them
 * in another order. E_ARGUMENT names what does not fit: no labels, a class of the test samples that has no training sample. */
glofnd_status gf_split_init(gf_error *err, const gf_split_spec *spec, gf_split *out);
void gf_split_free(gf_split *s); /* NULL and a zeroed one are fine */

/* Moves `share` of each class of `from`, chosen by `seed`, to *to. stream: stratified_sample.h. */
glofnd_status gf_samples_hold_out(gf_error *err, gf_samples *from, double share, uint64_t seed, uint32_t stream, gf_samples *to);
/* Copies those of `from` that are chosen[i] == want. */
glofnd_status gf_samples_choose(gf_error *err, const gf_samples *from, const uint8_t *chosen, int want, gf_samples *to);
/* Copies those of `from` that a file names, one per line: the whole name, or the end of it from a slash on ("class/file.jpg"); an
 * extension may be left out. E_FORMAT: a line that names no sample. */
glofnd_status gf_samples_named(gf_error *err, const gf_samples *from, const char *path, gf_samples *to);
void gf_samples_free(gf_samples *p);

#endif

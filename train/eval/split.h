/* split.h - training and test samples of an evaluation: two SPECs, a dataset's own test split, or a held-out share of each class;
 * checked against each other. */
#pragma once

#include <stdint.h>

#include "data/dataset.h"
#include "pairs/flag_stats.h"
#include "util/status.h"

#define GF_TEST_SPEC 4400

typedef struct gf_split_spec {
    const char *data, *test; /* SPECs; test NULL: the data's own test split, else `share` of each class of the data */
    double share;
    uint64_t seed; /* of the held-out share */
    int held_out;  /* 1: hold out even if the data has a test split */
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
    int32_t classes;              /* largest label of the training samples + 1 */
    char test_name[GF_TEST_SPEC]; /* SPEC of the test samples; "": held out */
} gf_split;

/* Where the classes of both have names, test labels follow the training set's numbering: a test set may lack classes, or have
 * them in a different order. E_ARGUMENT: no labels, or a test class without a training sample. */
glofnd_status gf_split_init(gf_error *err, const gf_split_spec *spec, gf_split *out);
void gf_split_free(gf_split *s); /* accepts NULL and a zeroed struct */

/* Moves `share` of each class of `from`, chosen by `seed`, to *to. stream: gf_stratified_stream, below. */
glofnd_status gf_samples_hold_out(gf_error *err, gf_samples *from, double share, uint64_t seed, uint32_t stream, gf_samples *to);
/* Copies the samples of `from` with chosen[i] == want. */
glofnd_status gf_samples_choose(gf_error *err, const gf_samples *from, const uint8_t *chosen, int want, gf_samples *to);
void gf_samples_free(gf_samples *p);

/* ----- the same share of every class, drawn by a seed ----- */

/* Purpose of a draw: different purposes are independent. */
enum gf_stratified_stream { GF_STRATIFIED_TEST, GF_STRATIFIED_LABELS, GF_STRATIFIED_VALIDATION };

typedef struct gf_stratified_sample {
    double share; /* in (0, 1] */
    uint64_t seed;
    uint32_t stream;
    int at_least_one; /* 1: of a class with too few samples for its share one is drawn, not none */
    /* results */
    int64_t count;   /* samples drawn */
    int32_t classes; /* classes with at least one sample */
    int32_t raised;  /* classes of which one sample was drawn in place of none */
} gf_stratified_sample;

/* chosen [n]: 1 for floor(share n_c) of the n_c samples of each class c, as in the authors' code, else 0; label [n], -1: none.
 * Of two shares under one seed, the smaller draw is a subset of the larger one. */
glofnd_status gf_stratified_draw(gf_error *err, gf_stratified_sample *d, const int32_t *label, int64_t n, uint8_t *chosen);

/* ----- protocol ----- */

/* Named protocols to train and score a classifier on frozen features. Every result carries the name of its
 * protocol. */

typedef struct gf_probe_protocol { /* linear evaluation */
    const char *name, *text;
    int adamw;       /* else SGD with momentum */
    double lr;       /* initial; decays to 0 by half a cosine over the epochs */
    int lr_by_batch; /* lr * batch / 256 */
    double momentum, weight_decay;
    int64_t batch;
    int64_t patience; /* stops after so many epochs without a better validation score */
} gf_probe_protocol;

const gf_probe_protocol *gf_probe_protocol_find(const char *name); /* NULL: unknown */
const gf_probe_protocol *gf_probe_protocol_at(int i);              /* NULL: past the last */
/* 90 sqrt(1 / share), at most 900: 90, 285, 900, 900 for 100, 10, 1, 0.1 % of the labels. */
int64_t gf_probe_epochs(double share);

typedef struct gf_transfer_protocol { /* logistic regression on other datasets */
    const char *name, *text;
    int unit, standard;     /* scale rows to length 1; then columns to mean 0 and standard deviation 1 */
    int inverse;            /* the range below is of 1 / l2 (scikit-learn's C) instead of l2 */
    double lowest, highest; /* GF_TRANSFER_STRENGTHS values, evenly spaced in the logarithm */
    int64_t iterations;
} gf_transfer_protocol;

#define GF_TRANSFER_STRENGTHS 10

const gf_transfer_protocol *gf_transfer_protocol_find(const char *name);
const gf_transfer_protocol *gf_transfer_protocol_at(int i);
/* l2 [GF_TRANSFER_STRENGTHS], strongest first: each solution is a good initial value for the next. */
void gf_transfer_strengths(const gf_transfer_protocol *p, double *l2);

/* ----- stats ----- */

/* Mean, standard deviation and the paired t-test over runs with different seeds.
 *
 * The test follows the paper: pairs of runs with the same seed, one-sided, "better than the baseline".
 */

double gf_mean(const double *x, int64_t n); /* NaN for n < 1 */
/* Sample standard deviation (divisor n - 1); NaN for n < 2. */
double gf_std(const double *x, int64_t n);

typedef struct gf_ttest {
    int64_t pairs;
    double difference;        /* mean of x - y */
    double t, df;             /* statistic and degrees of freedom */
    double p_greater, p_less; /* one-sided: probability of a t this large (small) under the null hypothesis */
} gf_ttest;

/* x [n] against the baseline y [n], pair by pair. t and p are NaN for n < 2 and where all differences are 0; equal nonzero
 * differences give an infinite t. */
gf_ttest gf_ttest_paired(const double *x, const double *y, int64_t n);

/* P(T > t) of Student's distribution with df > 0 degrees of freedom. */
double gf_student_tail(double t, double df);
/* Regularised incomplete beta function I_x(a, b), a, b > 0, x in [0, 1]; relative error below 1e-12 also in the tail near 0. */
double gf_incomplete_beta(double a, double b, double x);

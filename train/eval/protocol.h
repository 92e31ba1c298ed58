/* protocol.h - named protocols to train and score a classifier on frozen features. Every result carries the name of its
 * protocol. */
#pragma once

#include <stdint.h>

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

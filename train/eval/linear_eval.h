/* linear_eval.h - linear evaluation of an encoder with shares of the labels: features, computed once or in every epoch, then a
 * linear probe (linear_probe.h) for each share. The encoder only runs forward.
 *
 *     TRY(gf_linear_eval_create(err, &spec, 1.0, &l));    computes the features that shares up to 1.0 need
 *     TRY(gf_linear_eval_run(err, l, 0.1, &result));      with ten percent of the labels
 */
#pragma once

#include "eval/encode.h"
#include "eval/linear_probe.h"
#include "eval/split.h"

#define GF_AUGMENT_EVERY_EPOCH (-1)

typedef struct gf_linear_eval gf_linear_eval;

typedef struct gf_linear_eval_spec {
    gf_run_encoder *encoder;
    const gf_split *split;
    const gf_features *train, *test; /* in place of an encoder: ids of the split are rows of these; augment is 0 */
    const gf_probe_protocol *protocol;
    int64_t augment;   /* passes of random crops and flips, kept and used in turn; 0: one pass of centre crops;
                          GF_AUGMENT_EVERY_EPOCH: new ones in every epoch, as in the paper */
    int64_t epochs;    /* 0: the protocol's number for the share */
    double validation; /* share of the training samples for early stopping; 0: by the test samples, as in the paper */
    uint64_t seed;     /* of drawn labels, views, order and initial weights */
    int threads;
    void (*unreadable)(void *user, int64_t i, const char *message); /* the callbacks may be NULL */
    void (*encoding)(void *user, int64_t done, int64_t total);      /* samples */
    void (*training)(void *user, double share, int64_t epoch, int64_t epochs, double score);
    void *user;
} gf_linear_eval_spec;

typedef struct gf_linear_result {
    int32_t raised;          /* classes with too few samples for the share, of which one was taken */
    int64_t samples, epochs; /* drawn; planned */
    gf_probe probe;          /* with its results */
} gf_linear_result;

/* largest: upper limit of the shares to run. *spec is copied, the objects it points to are borrowed. */
glofnd_status gf_linear_eval_create(gf_error *err, const gf_linear_eval_spec *spec, double largest, gf_linear_eval **out);
void gf_linear_eval_free(gf_linear_eval *l);
glofnd_status gf_linear_eval_run(gf_error *err, gf_linear_eval *l, double share, gf_linear_result *out);

/* linear_eval.h - linear evaluation of an encoder from shares of the labels: features made once or anew in every epoch, then
 * linear_probe.h for each share. The encoder only ever runs forward.
 *
 *     TRY(gf_linear_eval_create(err, &spec, 1.0, &l));      features of all that shares up to 1.0 need
 *     TRY(gf_linear_eval_run(err, l, 0.1, &result));      ten percent of the labels
 */
#ifndef GF_EVAL_LINEAR_LINEAR_EVAL_H
#define GF_EVAL_LINEAR_LINEAR_EVAL_H

#include "eval/encode.h"
#include "eval/linear/linear_probe.h"
#include "eval/split.h"

#define GF_EVERY_EPOCH (-1)

typedef struct gf_linear_eval gf_linear_eval;

typedef struct gf_linear_eval_spec {
    gf_run_encoder *encoder;
    const gf_split *split;
    const gf_probe_protocol *protocol;
    int64_t augment;   /* passes of random crops and flips, kept and taken in turn; 0: one of centre crops;
                                   GF_EVERY_EPOCH: new ones in every epoch, as the paper does */
    int64_t epochs;    /* 0: the protocol's, by the share */
    double validation; /* share of the training samples that decides when to stop; 0: the test samples do, as in the
                                   paper */
    uint64_t seed;     /* of drawn labels, views, order and first weights */
    int threads;
    void (*damaged)(void *user, int64_t i, const char *message);
    void (*encoding)(void *user, int64_t done, int64_t total); /* samples; this and the next may be NULL */
    void (*training)(void *user, double share, int64_t epoch, int64_t epochs, double score);
    void *user;
} gf_linear_eval_spec;

typedef struct gf_linear_result {
    int32_t empty;           /* a class the share has no sample of: nothing was trained then; -1: none */
    int64_t samples, epochs; /* drawn; planned */
    gf_probe probe;          /* what it found */
} gf_linear_result;

/* `largest` share that will be asked for. *spec is copied, what it points to is borrowed. */
glofnd_status gf_linear_eval_create(gf_error *err, const gf_linear_eval_spec *spec, double largest, gf_linear_eval **out);
void gf_linear_eval_free(gf_linear_eval *l);
glofnd_status gf_linear_eval_run(gf_error *err, gf_linear_eval *l, double share, gf_linear_result *out);

#endif

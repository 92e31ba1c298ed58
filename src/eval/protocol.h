/* protocol.h - named ways to train and score a classifier on frozen features: one table each, so that a number never stands
 * without
 * the name of how it was made. */
#ifndef GF_EVAL_PROTOCOL_H
#define GF_EVAL_PROTOCOL_H

#include <stdint.h>

typedef struct gf_probe_protocol { /* of linear evaluation */
    const char *name, *text;
    int adamw;       /* else SGD with momentum */
    double lr;       /* at the start; half a cosine over the epochs down to 0 */
    int lr_by_batch; /* lr * batch / 256 */
    double momentum, weight_decay;
    int64_t batch;
    int64_t patience; /* epochs without a better validation score before it stops */
} gf_probe_protocol;

const gf_probe_protocol *gf_probe_protocol_find(const char *name); /* NULL: none of that name */
const gf_probe_protocol *gf_probe_protocol_at(int i);              /* NULL: beyond the last */
/* 90 sqrt(1 / share), at most 900: 90, 285, 900, 900 for 100, 10, 1, 0.1 % of the labels. */
int64_t gf_probe_epochs(double share);

typedef struct gf_transfer_protocol { /* of logistic regression on other datasets */
    const char *name, *text;
    int unit, standard;     /* features: rows to length 1; then columns to mean 0 and deviation 1 */
    int inverse;            /* the strengths below are 1 / l2 (scikit-learn's C) instead of l2 */
    double lowest, highest; /* 10 strengths, evenly spaced in the logarithm */
    int64_t iterations;
} gf_transfer_protocol;

#define GF_TRANSFER_STRENGTHS 10

const gf_transfer_protocol *gf_transfer_protocol_find(const char *name);
const gf_transfer_protocol *gf_transfer_protocol_at(int i);
/* l2 [GF_TRANSFER_STRENGTHS], from the strongest to the weakest: each solution is a good start for the next. */
void gf_transfer_strengths(const gf_transfer_protocol *p, double *l2);

typedef struct gf_transfer_dataset { /* how a dataset of the transfer table is scored */
    const char *name, *title;
    int mean_per_class;                          /* else top-1 */
    int held_out;                                /* it has no test split: 20 % of each class are drawn */
    const char *images, *train_list, *test_list; /* where its archive has them; NULL: not in files that can be read here */
} gf_transfer_dataset;

const gf_transfer_dataset *gf_transfer_dataset_find(const char *name);
const gf_transfer_dataset *gf_transfer_dataset_at(int i);

#endif

/* transfer_learning.h - transfer learning: logistic regression on the features of another dataset, over a range of strengths. */
#ifndef GF_EVAL_LINEAR_TRANSFER_LEARNING_H
#define GF_EVAL_LINEAR_TRANSFER_LEARNING_H

#include "eval/linear/logistic_regression.h"
#include "eval/protocol.h"

typedef struct gf_transfer {
    const gf_transfer_protocol *protocol;
    int mean_per_class; /* score: mean over classes of their accuracy; else top-1 */
    double validation;  /* share of each class of the training samples that chooses a strength; those fits see the rest */
    uint64_t seed;      /* of that share */
    double tolerance;   /* of the gradient; 0: 1e-4 */
    int threads;
    void (*progress)(void *user, int64_t fit, int64_t fits, int64_t iteration); /* may be NULL */
    void *user;
    /* found, from the strongest to the weakest */
    double l2[GF_TRANSFER_STRENGTHS], score[GF_TRANSFER_STRENGTHS], validation_score[GF_TRANSFER_STRENGTHS];
    int64_t classes;    /* of the training samples */
    int64_t unfinished; /* fits that ended by the protocol's number of iterations */
    int best;           /* highest test score: what the paper reports */
    int chosen;         /* highest validation score; -1: too few samples for a validation part */
} gf_transfer;

/* Scales and relabels the features in place. Each strength starts from the solution of the one before. */
glofnd_status gf_transfer_fit(gf_error *err, gf_transfer *t, gf_features *train, gf_features *test);

#endif

/* transfer.h - transfer learning: logistic regression on features of a different dataset, over a range of l2 strengths. */
#pragma once

#include "data/official/known_datasets.h"
#include "eval/linear.h"
#include "eval/split.h"

typedef struct gf_transfer {
    const gf_transfer_protocol *protocol;
    gf_scoring scoring; /* GF_SCORE_TOP1 or GF_SCORE_MEAN */
    double validation;  /* held-out share of each training class that chooses the strength */
    uint64_t seed;      /* of that share */
    double tolerance;   /* of the gradient; 0: 1e-4 */
    int threads;
    void (*progress)(void *user, int64_t fit, int64_t fits, int64_t iteration); /* may be NULL */
    void *user;
    /* results, strongest l2 first */
    double l2[GF_TRANSFER_STRENGTHS], score[GF_TRANSFER_STRENGTHS], validation_score[GF_TRANSFER_STRENGTHS];
    int64_t classes;    /* of the training samples */
    int64_t unfinished; /* fits that reached the protocol's limit of iterations */
    int best;           /* index of the highest test score, which the paper reports */
    int chosen;         /* index of the highest validation score; -1: too few samples to hold out */
} gf_transfer;

/* Scales and relabels the features in place. Each strength starts from the previous solution. */
glofnd_status gf_transfer_fit(gf_error *err, gf_transfer *t, gf_features *train, gf_features *test);
/* Images with several classes: a regression per class, scored by 11-point mAP. Marks [n][classes]: 1 has the class, 0 has not,
 * else not counted. Scales the features in place; their labels are not used. */
glofnd_status gf_transfer_fit_several(gf_error *err, gf_transfer *t, int64_t classes, gf_features *train,
                                      const uint8_t *train_mark, gf_features *test, const uint8_t *test_mark);

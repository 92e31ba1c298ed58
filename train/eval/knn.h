/* knn.h - k-nearest-neighbour classification by cosine similarity: the quality of features without any training on them.
 *
 * Memory: packed copies of the features, and lists of the neighbours of 64 test rows per thread. Predictions are the same for any
 * number of threads.
 */
#pragma once

#include "eval/features.h"
#include "pairs/pairs_sweep.h"

typedef struct gf_knn {
    int64_t k;          /* at most the number of training rows counts */
    double temperature; /* weight of a vote: exp(similarity / temperature); 0: every vote counts 1 */
    gf_sweep_job job;   /* threads 0: all */
} gf_knn;

/* predicted [test->n]: the class with the most votes; ties go to the smaller class. Of equally similar neighbours the earlier one
 * counts. Training rows without label do not vote. E_NUMERIC: a feature is not finite. */
glofnd_status gf_knn_classify(gf_error *err, const gf_knn *o, const gf_features *train, const gf_features *test,
                              int32_t *predicted);
/* Share of correct predictions among test rows with a label; NaN: no labels. */
double gf_top1(const gf_features *test, const int32_t *predicted);

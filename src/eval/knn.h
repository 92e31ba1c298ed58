/* knn.h - k-nearest-neighbour classification by cosine similarity: how good features are without training anything on them.
 *
 * Similarities are made in tiles and dropped: beside a packed copy of the training rows, memory is the same for any n.
 * Predictions are the same for any number of threads.
 */
#ifndef GF_EVAL_KNN_H
#define GF_EVAL_KNN_H

#include "eval/features.h"
#include "pairs/tiles.h"

typedef struct gf_knn {
    int64_t k;          /* more than there are training rows: all of them */
    double temperature; /* a neighbour votes exp(s / temperature); 0: every vote counts 1 */
    gf_pair_how how;    /* threads 0: all */
} gf_knn;

/* predicted [test->n]: the class with most votes, of equal ones the smaller. Of equally similar neighbours the earlier one is
 * taken. Training rows without label do not vote. E_NUMERIC: a feature is not finite. */
glofnd_status gf_knn_classify(gf_error *err, const gf_knn *o, const gf_features *train, const gf_features *test,
                              int32_t *predicted);
/* Share of right predictions among test rows with a label; NaN if there is none. */
double gf_top1(const gf_features *test, const int32_t *predicted);

#endif

/* knn.h - k-nearest-neighbour classification by cosine similarity: the quality of features without any training on them.
 *
 * Memory: packed copies of the features, and lists of the neighbours of 64 test rows per thread. Predictions are the same for any
 * number of threads.
 */
#pragma once

#include "eval/encode.h"
#include "loop/trainer.h"
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

/* ----- training ----- */

/* KNN accuracy of a network that is being trained (eval_every): images of the run's data vote, held-out ones are
 * classified. Which they are follows from data and seed. The evaluation has a network of its own, into which weights are copied:
 * training is not touched.
 */

typedef struct gf_training_knn gf_training_knn;

/* t: opened, not yet built. E_ARGUMENT: the data has no labels. */
glofnd_status gf_training_knn_create(gf_error *err, const gf_trainer *t, gf_training_knn **out);
void gf_training_knn_free(gf_training_knn *k); /* NULL is fine */
/* *top1: share of the held-out images that 20 neighbours classify as their label says. */
glofnd_status gf_training_knn_measure(gf_error *err, gf_training_knn *k, const gf_trainer *t, double *top1);
/* "2000 of SPEC, classified by 10000 of SPEC" */
void gf_training_knn_describe(const gf_training_knn *k, char *out, size_t bytes);

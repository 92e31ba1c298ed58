/* training_knn.h - kNN accuracy of a network that is being trained (eval_every): images of the run's data vote, held-out ones are
 * classified. Which they are follows from data and seed. The evaluation has a network of its own, into which weights are copied:
 * training is not touched.
 */
#pragma once

#include "loop/trainer.h"

typedef struct gf_training_knn gf_training_knn;

/* t: opened, not yet built. E_ARGUMENT: the data has no labels. */
glofnd_status gf_training_knn_create(gf_error *err, const gf_trainer *t, gf_training_knn **out);
void gf_training_knn_free(gf_training_knn *k); /* NULL is fine */
/* *top1: share of the held-out images that 20 neighbours classify as their label says. */
glofnd_status gf_training_knn_measure(gf_error *err, gf_training_knn *k, const gf_trainer *t, double *top1);
/* "2000 of SPEC, classified by 10000 of SPEC" */
void gf_training_knn_describe(const gf_training_knn *k, char *out, size_t bytes);

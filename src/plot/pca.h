/* pca.h - the two directions in which points differ most, for maps of embeddings. */
#ifndef GF_PLOT_PCA_H
#define GF_PLOT_PCA_H

#include "util/status.h"

/* y [n][2]: x [n][dim], centred, along its first two principal axes (the entry of an axis with the largest size is positive);
 * share [2]: of the variance along each. Points that do not differ lie at 0. The same bits for any number of threads. */
glofnd_status gf_pca(gf_error *err, const float *x, int64_t n, int64_t dim, double *y, double share[2]);

#endif

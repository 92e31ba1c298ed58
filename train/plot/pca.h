/* pca.h - the first two principal components of points, for maps of embeddings. */
#pragma once

#include "util/status.h"

/* y [n][2]: centred x [n][dim] along its first two principal axes (the largest entry of an axis by magnitude is positive);
 * share [2]: share of the variance. Equal points lie at 0. */
glofnd_status gf_pca(gf_error *err, const float *x, int64_t n, int64_t dim, double *y, double share[2]);

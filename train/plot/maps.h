/* maps.h - maps of embeddings by t-SNE, and densities of numbers. */
#pragma once

#include <stdint.h>

#include "util/status.h"

/* ----- t-SNE in two dimensions: exact for few points, Barnes-Hut for more -----
 *
 * Deterministic, with the same bits for any number of threads: it starts from the principal axes, and sums have a fixed order. */

#define GF_TSNE_EXACT 600 /* points up to which all pairs are computed */

typedef struct gf_tsne_spec { /* zeroed: defaults */
    double perplexity;        /* effective number of neighbours; 0: 30, at most (n - 1) / 3 */
    int iterations;           /* 0: 600 */
    double theta;             /* Barnes-Hut: cells of a smaller angle count as one point, at most 0.7; 0: by n; < 0: exact */
    int threads;              /* 0: all */
} gf_tsne_spec;

/* y [n][2] from finite x [n][dim], n >= 2. *divergence (may be NULL): Kullback-Leibler divergence of the result. */
glofnd_status gf_tsne(gf_error *err, const float *x, int64_t n, int64_t dim, const gf_tsne_spec *spec, double *y,
                      double *divergence);

/* ----- parts, for tests ----- */

typedef struct gf_affinity { /* symmetric sparse matrix without diagonal; its entries sum to 1 */
    int64_t n;
    int64_t *start; /* [n + 1] */
    int32_t *col;
    double *p;
} gf_affinity;

/* Affinities of each point to its `near` nearest (0 or >= n - 1: to all), by Gaussians of the given perplexity, symmetrised. */
glofnd_status gf_affinity_init(gf_error *err, const float *x, int64_t n, int64_t dim, double perplexity, int64_t near,
                               int threads, gf_affinity *out);
void gf_affinity_free(gf_affinity *a); /* accepts a zeroed struct */

typedef struct gf_tsne_tree gf_tsne_tree;     /* reused by all iterations */
gf_tsne_tree *gf_tsne_tree_create(int64_t n); /* NULL: no memory */
void gf_tsne_tree_free(gf_tsne_tree *t);
void gf_tsne_tree_build(gf_tsne_tree *t, const double *y, int64_t n);
/* Sums over all other points j, q = 1 / (1 + |y_i - y_j|^2): force [2] += q^2 (y_i - y_j); returns the sum of q. */
double gf_tsne_tree_repulsion(const gf_tsne_tree *t, const double *y, int64_t i, double theta, double force[2]);

typedef struct gf_tsne_field { /* input of a gradient */
    const gf_affinity *a;
    double exaggeration; /* of the affinities */
    double theta;        /* <= 0: exact */
    int threads;
    gf_tsne_tree *tree; /* may be NULL where theta <= 0 */
    double *scratch;    /* [3 n] */
} gf_tsne_field;

/* d KL / d y, [n][2]; *divergence (may be NULL) without exaggeration. */
void gf_tsne_gradient(const gf_tsne_field *f, const double *y, double *grad, double *divergence);

/* ----- the first two principal components of points, from which t-SNE starts ----- */

/* y [n][2]: centred x [n][dim] along its first two principal axes (the largest entry of an axis by magnitude is positive).
 * Equal points lie at 0. */
glofnd_status gf_pca(gf_error *err, const float *x, int64_t n, int64_t dim, double *y);

/* ----- kernel density estimate with Gaussian kernels, on a grid ----- */

/* Silverman's bandwidth, 0.9 min(std, IQR / 1.34) n^(-1/5), of the finite values of x [n]; 0: fewer than two different values. */
double gf_kde_bandwidth(const float *x, int64_t n);
/* out [points]: density of the finite values of x at low + i (high - low) / (points - 1); its integral over the real line is 1.
 * All zero without values. Each value is first split between the two nearest grid points, which is accurate for steps below half
 * a bandwidth. */
void gf_kde(const float *x, int64_t n, double bandwidth, double low, double high, int points, double *out);

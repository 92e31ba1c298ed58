/* tsne.h - a map of points in the plane that keeps neighbours together: t-SNE, exact for few points, Barnes-Hut above.
 *
 * The same bits for any number of threads and every time: it starts from the principal axes, and sums are added in a fixed order.
 */
#ifndef GF_PLOT_TSNE_H
#define GF_PLOT_TSNE_H

#include "util/status.h"

#define GF_TSNE_EXACT 600 /* points up to which all pairs are looked at */

typedef struct gf_tsne_spec { /* all zero: the usual values */
    double perplexity;        /* about so many neighbours count; 0: 30, at most (n - 1) / 3 */
    int iterations;           /* 0: 600 */
    double theta; /* cells seen smaller than this are one point, at most 0.7; 0: by the number of points; < 0: exact */
    int threads;  /* 0: as many as the machine has */
} gf_tsne_spec;

/* y [n][2] from x [n][dim], finite. *divergence (may be NULL): Kullback-Leibler, of the result. n >= 2. */
glofnd_status gf_tsne(gf_error *err, const float *x, int64_t n, int64_t dim, const gf_tsne_spec *spec, double *y,
                      double *divergence);

/* ----- its parts ----- */

typedef struct gf_affinity { /* symmetric, all entries add up to 1; without the diagonal */
    int64_t n;
    int64_t *start; /* [n + 1] */
    int32_t *col;
    double *p;
} gf_affinity;

/* Of each point to its `near` nearest (0 or >= n - 1: to all), by Gaussians of the given perplexity, made symmetric. */
glofnd_status gf_affinity_make(gf_error *err, const float *x, int64_t n, int64_t dim, double perplexity, int64_t near,
                               int threads, gf_affinity *out);
void gf_affinity_free(gf_affinity *a); /* a zeroed one is fine */

typedef struct gf_tsne_tree gf_tsne_tree;  /* reused from iteration to iteration */
gf_tsne_tree *gf_tsne_tree_new(int64_t n); /* NULL: no memory */
void gf_tsne_tree_free(gf_tsne_tree *t);
void gf_tsne_tree_build(gf_tsne_tree *t, const double *y, int64_t n);
/* Sums over all other points j, q = 1 / (1 + |y_i - y_j|^2): force [2] += q^2 (y_i - y_j); returns the sum of q. */
double gf_tsne_tree_push(const gf_tsne_tree *t, const double *y, int64_t i, double theta, double force[2]);

typedef struct gf_tsne_field { /* what a gradient is made from */
    const gf_affinity *a;
    double exaggeration; /* of the affinities */
    double theta;        /* <= 0: exact */
    int threads;
    gf_tsne_tree *tree; /* may be NULL where theta <= 0 */
    double *room;       /* [3 n] */
} gf_tsne_field;

/* d KL / d y, [n][2]; *divergence (may be NULL) without exaggeration. */
void gf_tsne_gradient(const gf_tsne_field *f, const double *y, double *grad, double *divergence);

#endif

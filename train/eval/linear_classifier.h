/* linear_classifier.h - a linear classifier on features: cross entropy, its gradient, ranks of the right classes; in
 * tiles, on all cores.
 *
 *     gf_linear *m;  TRY(gf_linear_create(err, dim, classes, threads, &m));
 *     const double loss = gf_linear_loss(m, &train, NULL, train.n);       then d_weight, d_bias hold its gradient
 *
 * Scores exist for 128 samples at a time. Bits do not depend on the number of threads: the parts of the samples depend on their
 * number alone, and gradients of the parts are added in order.
 */
#pragma once

#include "eval/features.h"

typedef struct gf_linear {
    int64_t dim, classes;
    int64_t ld, rows;            /* dim and classes, padded */
    float *weight;               /* [rows][ld], padding zero; starts as zeros */
    float *bias;                 /* [rows], padding zero */
    float *d_weight, *d_bias;    /* gradients of the last loss, the same shapes and padding */
    struct gf_linear_work *work; /* private */
} gf_linear;

glofnd_status gf_linear_create(gf_error *err, int64_t dim, int64_t classes, int threads, gf_linear **out);
void gf_linear_free(gf_linear *m);
/* Mean cross entropy over `count` rows of f: rows[0 .. count-1], or the first ones (NULL). Their labels are below `classes`. */
double gf_linear_loss(gf_linear *m, const gf_features *f, const int64_t *rows, int64_t count);
/* rank [f->n]: number of classes that score above the row's own (ties: the smaller class first); -1: no label, or one that is not
 * below `classes`. */
void gf_linear_rank(gf_linear *m, const gf_features *f, int32_t *rank);

/* Top-k accuracy of ranks (share below `top` among rows with a label), and mean over classes of the top-1. NaN: no labels. */
double gf_rank_top(const int32_t *rank, int64_t n, int32_t top);
glofnd_status gf_rank_mean_per_class(gf_error *err, const gf_features *f, const int32_t *rank, double *out);

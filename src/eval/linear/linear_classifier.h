/* linear_classifier.h - a linear classifier on features: cross entropy, its gradient, ranks of the right classes; in
 * tiles, on all cores.
 *
 *     gf_linear *m;  TRY(gf_linear_create(err, dim, classes, threads, &m));
 *     const double loss = gf_linear_loss(m, &train, NULL, train.n);       then d_weight, d_bias hold its gradient
 *
 * Scores are made for 128 samples at a time and dropped. The same bits for any number of threads: samples are cut into parts by
 * their number alone, and the parts' gradients are added in order.
 */
#ifndef GF_EVAL_LINEAR_LINEAR_CLASSIFIER_H
#define GF_EVAL_LINEAR_LINEAR_CLASSIFIER_H

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
/* Mean cross entropy over `count` rows of f: rows[0 .. count-1], or with rows NULL the first ones. All of them have labels below
 * `classes`. */
double gf_linear_loss(gf_linear *m, const gf_features *f, const int64_t *rows, int64_t count);
/* rank [f->n]: how many classes score above the row's own (of equal ones the smaller class first); -1 without label, or with one
 * beyond `classes`. */
void gf_linear_rank(gf_linear *m, const gf_features *f, int32_t *rank);

/* Of ranks: the share below `top` among rows with a label; and the mean over classes of the share that is 0. NaN: no labels. */
double gf_rank_top(const int32_t *rank, int64_t n, int32_t top);
glofnd_status gf_rank_mean_per_class(gf_error *err, const gf_features *f, const int32_t *rank, double *out);

#endif

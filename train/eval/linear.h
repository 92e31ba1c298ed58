/* linear.h - linear classifiers on frozen features: one classifier, a probe that trains it, shares of labels, logistic regression. */
#pragma once

#include "data/official/known_datasets.h"
#include "eval/encode.h"
#include "eval/split.h"
#include "util/parallel.h"

/* ----- classifier: cross entropy, its gradient, ranks of the right classes; in tiles, on all cores -----
 *
 *     gf_linear *m;  TRY(gf_linear_create(err, dim, classes, threads, &m));
 *     const double loss = gf_linear_loss(m, &train, NULL, train.n);       then d_weight, d_bias hold its gradient
 *
 * Scores exist for 128 samples at a time. Bits do not depend on the number of threads: the parts of the samples depend on their
 * number alone, and gradients of the parts are added in order.
 */

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

/* ----- probe ----- */

/* Linear probe: a linear classifier trained with mini-batches on frozen features; the best epoch is chosen on
 * validation features. It sees features only, so it cannot change a backbone. */

typedef struct gf_probe_rows { /* training samples of an epoch */
    const gf_features *f;
    const int64_t *rows; /* [n] which rows of f; NULL: the first n */
    int64_t n;
} gf_probe_rows;

typedef struct gf_probe {
    const gf_probe_protocol *protocol;
    int64_t classes;
    int64_t epochs;
    uint64_t seed; /* of initial weights and order */
    int threads;
    /* Training rows of epoch e (from 0), valid until the next call. */
    glofnd_status (*epoch)(gf_error *err, void *user, int64_t e, gf_probe_rows *out);
    void (*progress)(void *user, int64_t done, double score); /* after every epoch; may be NULL */
    void *user;
    const gf_features *validation; /* for the best epoch and early stopping; NULL: the test features */
    const gf_features *test;
    /* results */
    int64_t epochs_run, best_epoch;     /* from 1 */
    double top1, top5, validation_top1; /* at the best epoch */
    double last_top1, last_top5;        /* after the last epoch */
} gf_probe;

/* Labels of all rows are below `classes`. E_NUMERIC: the loss is not finite. */
glofnd_status gf_probe_fit(gf_error *err, gf_probe *p);

/* ----- eval ----- */

/* Linear evaluation of an encoder with shares of the labels: features, computed once or in every epoch, then a
 * linear probe for each share. The encoder only runs forward.
 *
 *     TRY(gf_linear_eval_create(err, &spec, 1.0, &l));    computes the features that shares up to 1.0 need
 *     TRY(gf_linear_eval_run(err, l, 0.1, &result));      with ten percent of the labels
 */

#define GF_AUGMENT_EVERY_EPOCH (-1)

typedef struct gf_linear_eval gf_linear_eval;

typedef struct gf_linear_eval_spec {
    gf_run_encoder *encoder;
    const gf_split *split;
    const gf_features *train, *test; /* in place of an encoder: ids of the split are rows of these; augment is 0 */
    const gf_probe_protocol *protocol;
    int64_t augment;   /* passes of random crops and flips, kept and used in turn; 0: one pass of centre crops;
                          GF_AUGMENT_EVERY_EPOCH: new ones in every epoch, as in the paper */
    int64_t epochs;    /* 0: the protocol's number for the share */
    double validation; /* share of the training samples for early stopping; 0: by the test samples, as in the paper */
    uint64_t seed;     /* of drawn labels, views, order and initial weights */
    int threads;
    void (*unreadable)(void *user, int64_t i, const char *message); /* the callbacks may be NULL */
    void (*encoding)(void *user, int64_t done, int64_t total);      /* samples */
    void (*training)(void *user, double share, int64_t epoch, int64_t epochs, double score);
    void *user;
} gf_linear_eval_spec;

typedef struct gf_linear_result {
    int32_t raised;          /* classes with too few samples for the share, of which one was taken */
    int64_t samples, epochs; /* drawn; planned */
    gf_probe probe;          /* with its results */
} gf_linear_result;

/* largest: upper limit of the shares to run. *spec is copied, the objects it points to are borrowed. */
glofnd_status gf_linear_eval_create(gf_error *err, const gf_linear_eval_spec *spec, double largest, gf_linear_eval **out);
void gf_linear_eval_free(gf_linear_eval *l);
glofnd_status gf_linear_eval_run(gf_error *err, gf_linear_eval *l, double share, gf_linear_result *out);

/* ----- logistic regression ----- */

/* L2-regularised multinomial logistic regression by L-BFGS.
 *
 * Minimises  mean cross entropy + l2 / (2 n) |W|^2  over weights W and biases; biases are not regularised. l2 is relative to the
 * sum over the samples: 1 / C in scikit-learn.
 */

typedef struct gf_logistic {
    double l2;
    double tolerance;    /* stops when no gradient entry is larger; scikit-learn: 1e-4 */
    int64_t iterations;  /* limit */
    const int64_t *rows; /* [count] rows of f to fit on; NULL: all */
    int64_t count;
    atomic_int *stop;                                /* not 0: E_CANCELLED; may be NULL */
    void (*progress)(void *user, int64_t iteration); /* after each; may be NULL */
    void *user;
    /* results */
    int64_t done, evaluations;
    double objective, gradient; /* at the end; largest entry of the gradient */
    int converged;              /* to the tolerance, or as far as single precision goes */
} gf_logistic;

/* Starts from the weights of m, such as the solution of a similar l2. Labels of all rows of f are below m->classes.
 * E_NUMERIC: a feature is not finite. E_UNSUPPORTED: built without liblbfgs. */
glofnd_status gf_logistic_fit(gf_error *err, gf_logistic *o, const gf_features *f, gf_linear *m);

/* ----- transfer: logistic regression on features of a different dataset, over a range of l2 strengths ----- */

typedef struct gf_transfer {
    const gf_transfer_protocol *protocol;
    gf_scoring scoring; /* GF_SCORE_TOP1 or GF_SCORE_MEAN */
    double validation;  /* held-out share of each training class that chooses the strength */
    uint64_t seed;      /* of that share */
    double tolerance;   /* of the gradient; 0: 1e-4 */
    int threads;
    void (*progress)(void *user, int64_t fit, int64_t fits, int64_t iteration); /* may be NULL */
    void *user;
    /* results, strongest l2 first */
    double l2[GF_TRANSFER_STRENGTHS], score[GF_TRANSFER_STRENGTHS], validation_score[GF_TRANSFER_STRENGTHS];
    int64_t classes;    /* of the training samples */
    int64_t unfinished; /* fits that reached the protocol's limit of iterations */
    int best;           /* index of the highest test score, which the paper reports */
    int chosen;         /* index of the highest validation score; -1: too few samples to hold out */
} gf_transfer;

/* Scales and relabels the features in place. Each strength starts from the previous solution. */
glofnd_status gf_transfer_fit(gf_error *err, gf_transfer *t, gf_features *train, gf_features *test);

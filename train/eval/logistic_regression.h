/* logistic_regression.h - l2-regularised multinomial logistic regression by L-BFGS.
 *
 * Minimises  mean cross entropy + l2 / (2 n) |W|^2  over weights W and biases; biases are not regularised. l2 is relative to the
 * sum over the samples: 1 / C in scikit-learn.
 */
#pragma once

#include "eval/linear_classifier.h"

typedef struct gf_logistic {
    double l2;
    double tolerance;                                /* stops when no gradient entry is larger; scikit-learn: 1e-4 */
    int64_t iterations;                              /* limit */
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

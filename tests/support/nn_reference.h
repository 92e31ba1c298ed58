/* nn_reference.h - layers of nets as plain loops in double, and gradients by central differences: what the engine is tested
 * against. Layouts as in ifc/nn_ops.h.
 */
#pragma once

#include "nn/nn_ops.h"

/* A window sliding over n square images (size 1: a linear layer), to be trained. */
static inline gf_nn_shape ref_shape(gf_nn_kind kind, gf_type type, int64_t n, int64_t size, int64_t in, int64_t out, int kernel,
                                    int stride, int pad) {
    return (gf_nn_shape){.kind = kind,
                         .type = type,
                         .n = n,
                         .h = size,
                         .w = size,
                         .in = in,
                         .out = out,
                         .kernel = kernel,
                         .stride = stride,
                         .pad = pad,
                         .training = 1,
                         .input_grad = 1};
}
static inline gf_nn_shape ref_forward_only(gf_nn_shape s) {
    s.training = s.input_grad = 0;
    return s;
}

int64_t ref_in_count(const gf_nn_shape *s); /* numbers of x, y, weight */
int64_t ref_out_count(const gf_nn_shape *s);
int64_t ref_weight_count(const gf_nn_shape *s);
void ref_op(double *y, const double *x, const double *w, const gf_nn_shape *s);

typedef struct ref_norm { /* rows x c; gamma, beta, residual may be NULL */
    int64_t rows, c;
    int relu;
    double *x, *residual, *gamma, *beta;
} ref_norm;
void ref_norm_moments(double *mean, double *var, const ref_norm *n); /* [c] each; var is biased */
void ref_norm_forward(double *y, const ref_norm *n);

/* grad[i] = d f / d at[i], by (f(at + h) - f(at - h)) / 2h. */
void ref_gradient(double *grad, double *at, int64_t count, double h, double (*f)(void *arg), void *arg);
/* |a - b| / |b| over whole arrays; |a| where b is all zero. The second takes a as a device of this type has it. */
double ref_distance(const float *a, const double *b, int64_t count);
double ref_distance_typed(const void *a, gf_type type, const double *b, int64_t count);
double ref_distance_floats(const float *a, const float *b, int64_t count);

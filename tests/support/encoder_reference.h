/* encoder_reference.h - the ops of image and text encoders, forward and backward, as plain loops in double: what a backend is
 * compared with. Formulas of ifc/nn_ops.h, nothing shared with any backend. */
#pragma once

#include "nn/nn_ops.h"

typedef struct tower_counts { /* numbers; 0: there is none */
    int64_t x, x2, y, weight, bias;
} tower_counts;

typedef struct tower_arrays {
    double *x, *x2, *weight, *bias, *dy;            /* tokens are doubles, too */
    double *y, *dx, *dx2, *weight_grad, *bias_grad; /* results */
} tower_arrays;

tower_counts tower_count(const gf_nn_shape *s);
/* The type of x, of x2 and of y. */
gf_type tower_type_x(const gf_nn_shape *s);
gf_type tower_type_x2(const gf_nn_shape *s);
gf_type tower_type_y(const gf_nn_shape *s);

void encoder_reference(const gf_nn_shape *s, const tower_arrays *a);

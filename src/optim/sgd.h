/* sgd.h - stochastic gradient descent with momentum; the weight decay is part of the gradient. */
#ifndef GF_OPTIM_SGD_H
#define GF_OPTIM_SGD_H

#include "optim/param.h"

typedef struct gf_sgd {
    double momentum; /* 0: none; state1 may then be NULL */
    double weight_decay;
    int nesterov; /* 1: the step looks ahead along the momentum */
} gf_sgd;

/* d = g + wd p;  mu = momentum mu + d;  p -= lr mu, or with nesterov p -= lr (d + momentum mu). */
void gf_sgd_step(const gf_sgd *o, double lr, const gf_param *tensors, size_t count);

#endif

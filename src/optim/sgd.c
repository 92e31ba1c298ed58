/* sgd.c - see sgd.h. */
#include "optim/sgd.h"

static void plain_step(double lr, double decay, const gf_param *t) {
    for (size_t i = 0; i < t->n; i++) t->p[i] = (float)(t->p[i] - lr * (t->g[i] + decay * t->p[i]));
}

static void momentum_step(const gf_sgd *o, double lr, double decay, const gf_param *t) {
    /* d + momentum mu (nesterov) or mu: one expression, a and b chosen outside the loop */
    const double a = o->nesterov ? 1.0 : 0.0, b = o->nesterov ? o->momentum : 1.0;
    for (size_t i = 0; i < t->n; i++) {
        const double d = t->g[i] + decay * t->p[i];
        const double mu = o->momentum * t->state1[i] + d;
        t->state1[i] = (float)mu;
        t->p[i] = (float)(t->p[i] - lr * (a * d + b * mu));
    }
}

void gf_sgd_step(const gf_sgd *o, double lr, const gf_param *tensors, size_t count) {
    for (size_t k = 0; k < count; k++) {
        const double decay = tensors[k].decay ? o->weight_decay : 0.0;
        if (o->momentum != 0.0) momentum_step(o, lr, decay, &tensors[k]);
        else plain_step(lr, decay, &tensors[k]);
    }
}

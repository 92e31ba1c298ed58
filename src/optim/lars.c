/* lars.c - see lars.h. */
#include "optim/lars.h"

static double trust_ratio(const gf_lars *o, double decay, const gf_param *t) {
    const double p = gf_param_norm(t->p, NULL, 0.0, t->n), d = gf_param_norm(t->g, t->p, decay, t->n);
    return p > 0.0 && d > 0.0 ? o->trust * p / d : 1.0;
}

/* The ratio may exceed what float32 holds (a gradient near zero); its product with that gradient does not. */
static void lars_tensor(const gf_lars *o, double lr, const gf_param *t) {
    const double decay = t->decay ? o->weight_decay : 0.0;
    const double ratio = t->adapt ? trust_ratio(o, decay, t) : 1.0;
    for (size_t i = 0; i < t->n; i++) {
        const double mu = o->momentum * t->state1[i] + ratio * (t->g[i] + decay * t->p[i]);
        t->state1[i] = (float)mu;
        t->p[i] = (float)(t->p[i] - lr * mu);
    }
}

void gf_lars_step(const gf_lars *o, double lr, const gf_param *tensors, size_t count) {
    for (size_t k = 0; k < count; k++) lars_tensor(o, lr, &tensors[k]);
}

/* optim_rule.h - the formulas of the optimizers for one number, once for all devices; train/optim and nn/cuda loop over them.
 *
 * Storage is float32, arithmetic float64. `decay` is the weight decay of the tensor, 0 where it has none.
 */
#pragma once

#include <math.h>
#include <stddef.h>
#include <stdint.h>

#include "util/host_device.h"

typedef struct gf_param {
    float *p;      /* [n] weights, updated */
    float *g;      /* [n] gradient; clipping shortens it */
    float *state1; /* [n] momentum; AdamW: first moment */
    float *state2; /* [n] AdamW: second moment; else NULL */
    size_t n;
    int decay; /* 1: weight decay applies */
    int adapt; /* 1: LARS trust ratio applies */
} gf_param;

typedef enum gf_optim_kind { GF_OPTIM_LARS, GF_OPTIM_SGD, GF_OPTIM_ADAMW } gf_optim_kind;

typedef struct gf_optim_rule {
    gf_optim_kind kind;
    double momentum, weight_decay;
    double trust;             /* LARS */
    int nesterov;             /* SGD: the step looks ahead along the momentum */
    double beta1, beta2, eps; /* AdamW; eps is added outside the root, after the bias correction */
    double clip;              /* SGD, AdamW: largest norm of the gradient of all tensors together; 0: no limit */
    int threads;              /* on the host; 0: the runtime's default. Results do not depend on it */
} gf_optim_rule;

typedef struct gf_optim_scalars { /* the numbers that change from step to step */
    double lr;
    double rate1, scale2; /* AdamW, with its bias corrections: lr / (1 - beta1^step), 1 / (1 - beta2^step) */
} gf_optim_scalars;

/* step = 1, 2, ... */
static inline gf_optim_scalars gf_optim_scalars_at(const gf_optim_rule *o, double lr, int64_t step) {
    const double bias1 = 1.0 - pow(o->beta1, (double)step), bias2 = 1.0 - pow(o->beta2, (double)step);
    const gf_optim_scalars now = {lr, lr / bias1, 1.0 / bias2};
    return now;
}

/* Factor for a gradient of this norm so that it is no longer than `clip`, as torch's clip_grad_norm_. */
GF_HD double gf_rule_clip(const gf_optim_rule *o, double norm) {
    return o->clip > 0.0 && norm + 1e-6 > o->clip ? o->clip / (norm + 1e-6) : 1.0;
}

/* LARS: r = trust |p| / |g + decay p| where both norms are positive, else 1. It may exceed the range of float32 (a gradient near
 * zero); its product with that gradient does not. The learning rate stays outside mu. */
GF_HD double gf_rule_ratio(const gf_optim_rule *o, double p, double d) { return p > 0.0 && d > 0.0 ? o->trust * p / d : 1.0; }

/* mu = momentum mu + ratio (g + decay p);  p -= lr mu */
GF_HD void gf_rule_lars(const gf_optim_rule *o, double lr, double ratio, double decay, float *p, float g, float *mu) {
    const double m = o->momentum * *mu + ratio * (g + decay * *p);
    *mu = (float)m;
    *p = (float)(*p - lr * m);
}

/* d = g + decay p;  mu = momentum mu + d;  p -= lr mu, or with nesterov p -= lr (d + momentum mu). mu may be NULL without it. */
GF_HD void gf_rule_sgd(const gf_optim_rule *o, double lr, double decay, float *p, float g, float *mu) {
    const double d = g + decay * *p;
    if (o->momentum == 0.0) {
        *p = (float)(*p - lr * d);
        return;
    }
    const double m = o->momentum * *mu + d;
    *mu = (float)m;
    *p = (float)(*p - lr * (o->nesterov ? d + o->momentum * m : m));
}

/* p *= 1 - lr decay;  m = b1 m + (1-b1) g;  v = b2 v + (1-b2) g^2;  p -= lr (m / bias1) / (sqrt(v / bias2) + eps), where bias1 =
 * 1 - b1^step, bias2 = 1 - b2^step. A division in float64 costs as much as all the rest: one is enough. */
GF_HD void gf_rule_adamw(const gf_optim_rule *o, const gf_optim_scalars *now, double decay, float *p, float g, float *m,
                         float *v) {
    const double grad = g, first = o->beta1 * *m + (1.0 - o->beta1) * grad;
    const double second = o->beta2 * *v + (1.0 - o->beta2) * grad * grad;
    *m = (float)first;
    *v = (float)second;
    const double step = now->rate1 * first / (sqrt(now->scale2 * second) + o->eps);
    *p = (float)(*p * (1.0 - now->lr * decay) - step);
}

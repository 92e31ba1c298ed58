/* lars.c - see lars.h. */
#include "optim/lars.h"

void gf_lars_step(const gf_lars *o, double lr, const gf_param *tensors, size_t count) {
    const gf_optim_rule rule = {.kind = GF_OPTIM_LARS, .momentum = o->momentum, .trust = o->trust};
    for (size_t k = 0; k < count; k++) {
        const gf_param *t = &tensors[k];
        const double decay = t->decay ? o->weight_decay : 0.0;
        const double norm = t->adapt ? gf_param_norm(t->p, NULL, 0.0, t->n) : 0.0;
        const double ratio = t->adapt ? gf_rule_ratio(&rule, norm, gf_param_norm(t->g, t->p, decay, t->n)) : 1.0;
        for (size_t i = 0; i < t->n; i++) gf_rule_lars(&rule, lr, ratio, decay, &t->p[i], t->g[i], &t->state1[i]);
    }
}

/* sgd.c - see sgd.h. */
#include "optim/sgd.h"

void gf_sgd_step(const gf_sgd *o, double lr, const gf_param *tensors, size_t count) {
    const gf_optim_rule rule = {.kind = GF_OPTIM_SGD, .momentum = o->momentum, .nesterov = o->nesterov};
    for (size_t k = 0; k < count; k++) {
        const gf_param *t = &tensors[k];
        const double decay = t->decay ? o->weight_decay : 0.0;
        if (o->momentum != 0.0)
            for (size_t i = 0; i < t->n; i++) gf_rule_sgd(&rule, lr, decay, &t->p[i], t->g[i], &t->state1[i]);
        else
            for (size_t i = 0; i < t->n; i++) gf_rule_sgd(&rule, lr, decay, &t->p[i], t->g[i], NULL);
    }
}

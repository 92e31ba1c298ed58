/* adamw.c - see adamw.h. */
#include "optim/adamw.h"

void gf_adamw_step(const gf_adamw *o, double lr, int64_t step, const gf_param *tensors, size_t count) {
    const gf_optim_rule rule = {.kind = GF_OPTIM_ADAMW, .beta1 = o->beta1, .beta2 = o->beta2, .eps = o->eps};
    const gf_optim_now now = {lr, 1.0 - pow(o->beta1, (double)step), 1.0 - pow(o->beta2, (double)step)};
    for (size_t k = 0; k < count; k++) {
        const gf_param *t = &tensors[k];
        const double decay = t->decay ? o->weight_decay : 0.0;
        for (size_t i = 0; i < t->n; i++) gf_rule_adamw(&rule, &now, decay, &t->p[i], t->g[i], &t->state1[i], &t->state2[i]);
    }
}

/* temperature.c - see temperature.h. */
#include "loop/temperature.h"

#include <math.h>

#include "nn/optim_rule.h"
#include "optim/schedule.h"

gf_learned_tau gf_learned_tau_start(const gf_config *c) { return (gf_learned_tau){.log_scale = (float)-log(c->method.tau)}; }

double gf_learned_tau_value(const gf_learned_tau *t) { return exp(-(double)t->log_scale); }

static double rate(const gf_learned_tau *t, const gf_config *c, double lr) {
    if (c->scale_lr < 0.0) return lr;
    return gf_lr_tau_threshold(c->scale_lr, c->scale_lr_ratio, c->scale_lr_below, (double)t->log_scale);
}

void gf_learned_tau_move(gf_learned_tau *t, const gf_config *c, double grad_scale, double lr, int64_t step) {
    const gf_optim_rule rule = {.kind = GF_OPTIM_ADAMW, .beta1 = c->beta1, .beta2 = c->beta2, .eps = c->adam_eps};
    const gf_optim_scalars now = gf_optim_scalars_at(&rule, rate(t, c, lr), step);
    const double grad = grad_scale * exp((double)t->log_scale);
    gf_rule_adamw(&rule, &now, 0.0, &t->log_scale, (float)grad, &t->m, &t->v);
    t->log_scale = (float)gf_clamp_log_scale((double)t->log_scale, c->scale_max);
}

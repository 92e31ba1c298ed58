/* temperature.h - one temperature for all samples, learned with the weights as log(1/tau): an Adam step without decay, a
 * learning rate of its own that falls where tau is small, and bounds.
 */
#pragma once

#include "run/config.h"

typedef struct gf_learned_tau {
    float log_scale; /* log(1/tau) */
    float m, v;      /* moments of its gradient */
} gf_learned_tau;

gf_learned_tau gf_learned_tau_start(const gf_config *c);
double gf_learned_tau_value(const gf_learned_tau *t);
/* Update number `step` = 1, 2, ...; grad_scale is d loss / d (1/tau), lr the present rate of the weights. */
void gf_learned_tau_move(gf_learned_tau *t, const gf_config *c, double grad_scale, double lr, int64_t step);

/* scale.h - one temperature for all, learned with the weights as log(1/tau): an Adam step without decay, a rate of its own
 * that falls where tau is small, and bounds.
 */
#ifndef GF_TRAIN_SCALE_H
#define GF_TRAIN_SCALE_H

#include "train/config.h"

typedef struct gf_scale {
    float log_scale;            /* log(1/tau) */
    float m, v;                 /* moments of its gradient */
} gf_scale;

gf_scale gf_scale_start(const gf_config *c);
double gf_scale_tau(const gf_scale *t);
/* Update number `step` = 1, 2, ...; grad_scale is d loss / d (1/tau), lr the present rate of the weights. */
void gf_scale_move(gf_scale *t, const gf_config *c, double grad_scale, double lr, int64_t step);

#endif

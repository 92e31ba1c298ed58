/* adamw.c - see adamw.h. */
#include "optim/adamw.h"

#include <math.h>

static void adamw_tensor(const gf_adamw *o, double lr, double correct1, double correct2, const gf_param *t) {
    const double shrink = t->decay ? 1.0 - lr * o->weight_decay : 1.0;
    for (size_t i = 0; i < t->n; i++) {
        const double g = t->g[i];
        const double m = o->beta1 * t->state1[i] + (1.0 - o->beta1) * g;
        const double v = o->beta2 * t->state2[i] + (1.0 - o->beta2) * g * g;
        t->state1[i] = (float)m;
        t->state2[i] = (float)v;
        t->p[i] = (float)(t->p[i] * shrink - lr * (m / correct1) / (sqrt(v / correct2) + o->eps));
    }
}

void gf_adamw_step(const gf_adamw *o, double lr, int64_t step, const gf_param *tensors, size_t count) {
    const double correct1 = 1.0 - pow(o->beta1, (double)step), correct2 = 1.0 - pow(o->beta2, (double)step);
    for (size_t k = 0; k < count; k++) adamw_tensor(o, lr, correct1, correct2, &tensors[k]);
}

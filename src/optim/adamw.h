/* adamw.h - Adam with decoupled weight decay. */
#ifndef GF_OPTIM_ADAMW_H
#define GF_OPTIM_ADAMW_H

#include "optim/param.h"

typedef struct gf_adamw {
    double beta1, beta2;
    double eps; /* added outside the root, after the bias correction */
    double weight_decay;
} gf_adamw;

/* Update number `step` = 1, 2, ...: p *= 1 - lr wd (where decay is set), then
 * m = b1 m + (1-b1) g;  v = b2 v + (1-b2) g^2;  p -= lr (m / (1-b1^step)) / (sqrt(v / (1-b2^step)) + eps). */
void gf_adamw_step(const gf_adamw *o, double lr, int64_t step, const gf_param *tensors, size_t count);

#endif

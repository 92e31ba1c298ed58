/* lars.h - layer-wise adaptive rate scaling: SGD with momentum whose step per tensor follows the tensor's own norm. */
#ifndef GF_OPTIM_LARS_H
#define GF_OPTIM_LARS_H

#include "optim/param.h"

typedef struct gf_lars {
    double momentum, weight_decay;
    double trust; /* trust coefficient */
} gf_lars;

/* d = g + wd p (where decay is set);  r = trust |p| / |d| (where adapt is set and both norms are positive, else 1);
 * mu = momentum mu + r d;  p -= lr mu. The learning rate stays outside mu. */
void gf_lars_step(const gf_lars *o, double lr, const gf_param *tensors, size_t count);

#endif

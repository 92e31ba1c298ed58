/* loss_global.c - the global contrastive loss of SogCLR, and its image-text forms as the paper writes them.
 *
 *     l_i = -align + tau log(c u),   u <- (1-gamma) u + gamma ghat,   ghat = (1/c) sum exp(S/tau)
 * u stands for the mean over the whole dataset; it is a constant for the gradient, so a pair weighs tau grad(ghat) / u.
 */
#include <math.h>

#include "fnd/loss.h"

static double averaged(const gf_loss_in *x, double log_g) {
    if (x->fresh || x->gamma >= 1.0) return log_g;
    return gf_log_add(log1p(-x->gamma) + x->log_u, log(x->gamma) + log_g);
}

gf_loss_out gf_loss_global(const glofnd_options *o, const gf_loss_in *x) {
    const int temperature = o->loss == GLOFND_LOSS_FASTCLIP || o->loss == GLOFND_LOSS_ISOGCLR;
    const double log_c = log(x->weight), log_g = x->log_sum - log_c, log_u = averaged(x, log_g);
    gf_loss_out y = {.log_u = log_u, .log_w = -log(x->batch) - log_c - log_u, .pull = 1.0 / x->batch};
    if (temperature) {
        y.loss = (-x->align + x->tau * (log_u + o->rho)) / x->batch;
        y.grad_tau = log_u + o->rho - exp(log_g - log_u) * x->mean_s / x->tau;
        y.grad_scale = -x->tau * x->tau * y.grad_tau / x->batch;
    } else if (o->compat == GLOFND_COMPAT_OFFICIAL) {   /* the authors log a surrogate whose gradient is the right one */
        y.loss = -x->align / x->batch + exp(y.log_w + x->log_sum) * x->mean_s;
    } else {
        y.loss = (-x->align + x->tau * (log_c + log_u)) / x->batch;
    }
    return y;
}

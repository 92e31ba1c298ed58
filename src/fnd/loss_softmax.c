/* loss_softmax.c - SimCLR (NT-Xent) and CLIP: a softmax over the positive and the kept negatives of the batch.
 *
 *     l_r = log D - align/tau,   D = (n/c) sum_kept exp(S/tau) + exp(S_pos/tau)
 * The kept negatives are scaled up to the full count. SimCLR sums its two views, CLIP averages its two sides.
 */
#include <math.h>

#include "fnd/loss.h"

gf_loss_out gf_loss_softmax(const glofnd_options *o, const gf_loss_in *x) {
    const double half = o->loss == GLOFND_LOSS_CLIP ? 0.5 : 1.0, share = half / x->batch, k = 1.0 / x->tau;
    const double log_scale = log(x->negatives / x->weight);
    const double log_d = gf_log_add(log_scale + x->log_sum, k * x->positive);
    const double p_positive = exp(k * x->positive - log_d), p_negative = exp(log_scale + x->log_sum - log_d);
    return (gf_loss_out){
        .log_u = -INFINITY,
        .log_w = log_scale - log_d + log(share * k),
        .pull = share * k,
        .push = share * k * p_positive,
        .loss = share * (log_d - k * x->align),
        .grad_scale = share * (p_negative * x->mean_s + p_positive * x->positive - x->align),
    };
}

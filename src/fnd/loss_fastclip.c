/* loss_fastclip.c - the image-text losses as the authors' code computes them (compat OFFICIAL).
 *
 * Here the positive stands inside the exponent, ghat = (1/c) sum exp((S_ij - S_ii)/tau), and so inside u; a small constant is
 * added to u; SOGCLR2 ("v1") is not multiplied by tau. What differs from the paper is listed in docs/method.md.
 */
#include <math.h>

#include "fnd/loss.h"

#define LOG_EPS (-32.236191301916641)       /* log(1e-14), added to u */
#define LOG_TINY (-80.590478254791605)      /* log(1e-35): a u below it counts as never set */

static double averaged(const gf_loss_in *x, double log_g) {
    if (x->gamma >= 1.0 || x->log_u < LOG_TINY || !isfinite(x->log_u)) return log_g;
    return gf_log_add(log1p(-x->gamma) + x->log_u, log(x->gamma) + log_g);
}

gf_loss_out gf_loss_fastclip(const glofnd_options *o, const gf_loss_in *x) {
    const double k = 1.0 / x->tau, log_c = log(x->weight), log_g = x->log_sum - log_c - k * x->align;
    const double log_u = averaged(x, log_g), log_ue = gf_log_add(log_u, LOG_EPS);
    const double ratio = exp(log_g - log_ue), slope = ratio * (x->mean_s - x->align);
    const double scale = o->loss == GLOFND_LOSS_SOGCLR2 ? 1.0 : x->tau;
    gf_loss_out y = {
        .log_u = log_u,
        .log_w = -k * x->align - log_c - log_ue + log(k * scale / x->batch),
        .pull = k * scale / x->batch * ratio,
        .rank_part = scale * ratio / x->batch,
        .rank_part_scale = scale * slope / x->batch,
        .grad_tau = log_ue + o->rho - k * slope,
    };
    if (o->loss == GLOFND_LOSS_ISOGCLR) {
        y.loss = x->tau * (log_ue + o->rho) / x->batch;
        y.rank_part = y.rank_part_scale = 0.0;
        return y;
    }
    const double tail = o->loss == GLOFND_LOSS_FASTCLIP ? 0.5 * (o->rho + log_ue) / x->batch : 0.0;
    y.loss = y.rank_part + x->tau * tail;
    y.grad_scale = y.rank_part_scale - x->tau * x->tau * tail;
    return y;
}

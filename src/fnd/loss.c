/* loss.c - which family a loss belongs to, and what they share. */
#include "fnd/loss.h"

#include <math.h>

double gf_log_add(double a, double b) {
    const double top = a > b ? a : b, low = a > b ? b : a;
    if (isnan(a) || isnan(b)) return NAN;
    return isinf(top) && top < 0.0 ? top : top + log1p(exp(low - top));
}

gf_loss_row gf_loss_of(const glofnd_options *o) {
    const int official = o->compat == GLOFND_COMPAT_OFFICIAL;
    if (o->loss == GLOFND_LOSS_SIMCLR || o->loss == GLOFND_LOSS_CLIP) return gf_loss_softmax;
    return official && o->loss != GLOFND_LOSS_SOGCLR ? gf_loss_fastclip : gf_loss_global;
}

int gf_loss_needs_mean(const glofnd_options *o) {
    const int plain = o->loss == GLOFND_LOSS_SIMCLR || o->loss == GLOFND_LOSS_SOGCLR || o->loss == GLOFND_LOSS_SOGCLR2;
    return !plain || (o->compat == GLOFND_COMPAT_OFFICIAL && o->loss != GLOFND_LOSS_SIMCLR);
}

/* learner.c - the lambda update (paper, equation "update lambda_i"; docs/method.md). */
#include "fnd/learner.h"

#include <math.h>

gf_learner gf_learner_of(const glofnd_options *o, int image_text, int32_t epoch) {
    const int official = o->compat == GLOFND_COMPAT_OFFICIAL;
    const int epoch_clock = o->learner == GLOFND_LEARN_ADAM_OFFICIAL || (official && o->learner == GLOFND_LEARN_ADAM);
    return (gf_learner){
        .alpha = o->alpha, .lr = o->lambda_lr, .beta1 = o->lambda_beta1, .beta2 = o->lambda_beta2,
        .eps = o->lambda_eps > 0.0 ? o->lambda_eps : official && image_text ? 1e-14 : 1e-8,
        .clip = o->alpha * o->lambda_clip,
        .normalize = o->lambda_normalize,
        .sgd = o->learner == GLOFND_LEARN_SGD,
        .epoch_clock = epoch_clock ? (int64_t)epoch + 1 : 0,
        .init_visits = o->lambda_init == GLOFND_INIT_QUANTILE,
    };
}

/* The subgradient of the quantile objective: alpha - share, with the authors' two options. */
static double gradient(const gf_learner *l, double share) {
    double g = l->alpha - share;
    if (l->normalize) g /= l->alpha;
    if (l->clip > 0.0) g = fmax(-l->clip, fmin(l->clip, g));
    return g;
}

static double project(double lambda) { return fmax(-1.0, fmin(1.0, lambda)); }

/* State after one Adam (or SGD) step with gradient g; the visit is not counted here. */
static glofnd_row moved(const gf_learner *l, const glofnd_row *row, double g) {
    glofnd_row next = *row;
    if (l->sgd) {
        next.lambda = (float)project((double)row->lambda - l->lr * g);
        return next;
    }
    const double visits = (double)row->clock + 1.0 - l->init_visits;
    const double t = l->epoch_clock ? (double)l->epoch_clock : fmax(1.0, visits);
    const double m = l->beta1 * (double)row->m + (1.0 - l->beta1) * g;
    const double v = l->beta2 * (double)row->v + (1.0 - l->beta2) * g * g;
    const double m_hat = m / (1.0 - pow(l->beta1, t)), v_hat = v / (1.0 - pow(l->beta2, t));
    next.m = (float)m;
    next.v = (float)v;
    next.lambda = (float)project((double)row->lambda - l->lr * m_hat / (sqrt(v_hat) + l->eps));
    return next;
}

void gf_learner_move(const gf_learner *l, glofnd_row *row, double share) {
    *row = moved(l, row, gradient(l, share));
    row->clock++;
}

void gf_learner_start(glofnd_row *row, double quantile) {
    row->lambda = (float)project(quantile);
    row->clock++;
}

void gf_learner_average(const glofnd_options *o, glofnd_row *row, double quantile) {
    const double rate = fmax(1.0 / ((double)row->clock + 1.0), o->ring_rate);
    row->lambda = (float)project((1.0 - rate) * (double)row->lambda + rate * quantile);
    row->clock++;
}

/* Adam's step (a + b g) / sqrt(c + e g^2) has one inner extremum, at g = b c / (a e). Rounding and eps are covered by a margin,
 * and the step checks the result: a bound that fails costs a second pass, never a wrong number. */
void gf_learner_range(const gf_learner *l, const glofnd_row *row, float *lo, float *hi) {
    const double ends[2] = {gradient(l, 1.0), gradient(l, 0.0)};
    double least = (double)row->lambda, most = (double)row->lambda;
    double g[3] = {ends[0], ends[1], ends[0]};
    const double slope = l->beta1 * (double)row->m * (1.0 - l->beta2);
    if (!l->sgd && slope != 0.0) {
        const double inner = (1.0 - l->beta1) * l->beta2 * (double)row->v / slope;
        if (inner > ends[0] && inner < ends[1]) g[2] = inner;
    }
    for (int i = 0; i < 3; i++) {
        const double lambda = (double)moved(l, row, g[i]).lambda;
        least = fmin(least, lambda);
        most = fmax(most, lambda);
    }
    *lo = (float)(least - 1e-6);
    *hi = (float)(most + 1e-6);
}

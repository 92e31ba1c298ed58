/* lambda.h - the update of a threshold lambda: one stochastic step on the lower-level problem of the paper (equation
 * "update lambda_i"; docs/method.md).
 *
 * Pure functions of (options, anchor state, negatives above lambda). A step uses gf_lambda_open at the begin of an anchor's visit
 * and gf_lambda_update when its negatives are counted, and before that gf_lambda_range, the bounds of the new lambda: so the pass
 * that counts can already sum. SHRINKAGE flags with the lambda before the update, as its counts would not be fair otherwise: a
 * negative that was counted raises lambda, perhaps above itself.
 */
#pragma once

#include <math.h>

#include "method/formulas/settings.h"
#include "util/host_device.h"

typedef struct gf_learner {
    double alpha, lr, beta1, beta2, eps;
    double decay; /* lr counts min(1, decay / visits); 0: lr is constant */
    int sgd;
    int64_t epoch_clock; /* > 0: bias correction by this instead of the anchor's visits */
    int init_visits;     /* 1: the first visit sets lambda, it is not an Adam step */
    int shrinks;         /* SHRINKAGE */
    double per_spread;   /* SHRINKAGE: scale of the tail above the quantile, as a share of the spread */
} gf_learner;

static inline gf_learner gf_learner_of(const glofnd_options *o, int image_text, int32_t epoch) {
    const int official = o->compat == GLOFND_COMPAT_OFFICIAL;
    const glofnd_learner rule = gf_learner_rule(o);
    const int epoch_clock = rule == GLOFND_LEARN_ADAM_OFFICIAL || (official && rule == GLOFND_LEARN_ADAM);
    gf_learner l;
    l.alpha = o->alpha, l.lr = o->lambda_lr, l.beta1 = o->lambda_beta1, l.beta2 = o->lambda_beta2;
    l.eps = official && image_text ? 1e-14 : 1e-8;
    l.decay = o->lambda_decay;
    l.sgd = rule == GLOFND_LEARN_SGD;
    l.shrinks = rule == GLOFND_LEARN_SHRINKAGE;
    l.per_spread = o->alpha > 0.0 ? 1.0 / (1.0 - log(o->alpha)) : 0.0;
    l.epoch_clock = epoch_clock ? (int64_t)epoch + 1 : 0;
    l.init_visits = gf_starts_at_quantile(o);
    return l;
}

/* base to the power of an integer >= 0. On a GPU pow takes as long as everything else of an anchor together. */
GF_HD double gf_power(double base, double exponent) {
#ifdef __CUDA_ARCH__
    double product = 1.0;
    for (uint64_t n = (uint64_t)exponent; n > 0; n >>= 1, base *= base)
        if (n & 1) product *= base;
    return product;
#else
    return pow(base, exponent);
#endif
}

/* The subgradient of the quantile objective, from the share of negatives above lambda. */
GF_HD double gf_lambda_gradient(const gf_learner *l, double share) { return l->alpha - share; }

GF_HD double gf_lambda_project(double lambda) { return fmax(-1.0, fmin(1.0, lambda)); }

/* Step size and Adam's bias corrections at this visit: they do not depend on the gradient. */
typedef struct gf_lambda_visit {
    double lr, m, v;
} gf_lambda_visit;

GF_HD gf_lambda_visit gf_lambda_visit_of(const gf_learner *l, const glofnd_anchor *row) {
    const double visits = fmax(1.0, (double)row->clock + 1.0 - l->init_visits);
    const double t = l->epoch_clock ? (double)l->epoch_clock : visits;
    gf_lambda_visit visit;
    visit.lr = l->decay > 0.0 ? l->lr * fmin(1.0, l->decay / visits) : l->lr;
    visit.m = l->sgd ? 1.0 : 1.0 - gf_power(l->beta1, t);
    visit.v = l->sgd ? 1.0 : 1.0 - gf_power(l->beta2, t);
    return visit;
}

/* State after one Adam (or SGD) step with gradient g; the visit is not counted here. */
GF_HD glofnd_anchor gf_lambda_moved(const gf_learner *l, const gf_lambda_visit *visit, const glofnd_anchor *row, double g) {
    glofnd_anchor next = *row;
    if (l->sgd) {
        next.lambda = (float)gf_lambda_project((double)row->lambda - visit->lr * g);
        return next;
    }
    const double m = l->beta1 * (double)row->m + (1.0 - l->beta1) * g;
    const double v = l->beta2 * (double)row->v + (1.0 - l->beta2) * g * g;
    const double m_hat = m / visit->m, v_hat = v / visit->v;
    next.m = (float)m;
    next.v = (float)v;
    next.lambda = (float)gf_lambda_project((double)row->lambda - visit->lr * m_hat / (sqrt(v_hat) + l->eps));
    return next;
}

/* ----- SHRINKAGE -----
 *
 * The number of negatives above lambda is Poisson with mean alpha n exp((q - lambda) / h): q the anchor's quantile, h the scale of
 * the tail. A Gamma prior of weight K on exp((q - lambda) / h) gives the estimate lambda + h log((above + K) / (alpha n + K)):
 * a Robbins-Monro step with K counts in its memory, for lambda of an anchor and for that of the pool, all anchors together.
 * An anchor starts at the pool's lambda and follows it between its visits; its own counts learn the difference. h is a gain only:
 * it does not move the fixpoint.
 *
 *           lambda          m                                  -v
 *   pool    of all anchors  mean (S - lambda)^2 of some pairs  expected counts remembered (the shared row of a store)
 *   anchor  its own         the pool's lambda at this visit    expected counts remembered
 */
#define GF_PRIOR_COUNTS 2.0   /* weight of the prior of an anchor that was never seen, in counts */
#define GF_MEMORY_COUNTS 32.0 /* an anchor remembers so many counts, or this many visits if these have more */
#define GF_MEMORY_VISITS 3.0
#define GF_POOL_MEMORY_COUNTS 256.0 /* the same for the pool, and its steps */
#define GF_POOL_MEMORY_STEPS 8.0
#define GF_LARGEST_LOG 2.0          /* of a ratio: bounds a step */
#define GF_SPREAD_RATE (1.0 / 32.0) /* smallest weight of a step in m of the pool */
#define GF_SPREAD_ROWS 16           /* every so many rows one pair is looked at for m of the pool */

GF_HD double gf_remembered(const glofnd_anchor *row) { return row->v < 0.0f ? -(double)row->v : 0.0; }

GF_HD double gf_pool_scale(const gf_learner *l, const glofnd_anchor *pool) {
    return l->per_spread * sqrt(fmax((double)pool->m, 1e-12));
}

GF_HD double gf_counts_step(double scale, double above, double expected, double prior) {
    return scale * fmin(GF_LARGEST_LOG, log((above + prior) / (expected + prior)));
}

/* Counts of the prior at this visit, in which `expected` are above a right threshold. */
GF_HD double gf_anchor_prior(const glofnd_anchor *row, double expected) {
    return GF_PRIOR_COUNTS + expected + gf_remembered(row);
}
GF_HD double gf_pool_prior(const glofnd_anchor *pool, double expected) { return 1.0 + expected + gf_remembered(pool); }

/* The pool starts: it never did, or the shared row is that of another learner. */
GF_HD int gf_pool_starts(const glofnd_anchor *pool) { return pool->clock == 0 || pool->v >= 0.0f; }

/* Rounded, so that sums over rows do not depend on their order. */
GF_HD double gf_pool_round(double x) { return rint(x * 0x1p30) * 0x1p-30; }

/* The pool starts where the rows' similarities above lambda are as many as expected. Of a row that expects one or more one knows the
 * quantile, of others the largest similarity; the number above lambda follows from the tail's scale. */
GF_HD double gf_pool_weight(double value, double lambda, double scale, double expected) {
    if (expected < 1.0 && value <= lambda) return 0.0;
    return gf_pool_round(fmax(expected, 1.0) * exp(fmin((value - lambda) / scale, 10.0)));
}

#define GF_POOL_HALVINGS 32 /* of [-1, 1] find it */

/* `sum` of the weights at the middle over all rows. */
GF_HD void gf_pool_halve(double *lo, double *hi, double sum, double expected) {
    *(sum >= fmax(expected, 1.0) ? lo : hi) = 0.5 * (*lo + *hi);
}

/* `expected` negatives of all rows above lambda; m is set. */
GF_HD void gf_pool_start(const gf_learner *l, glofnd_anchor *pool, double lambda, double expected) {
    if (expected < 1.0) lambda += gf_pool_scale(l, pool) * log(1.0 / expected); /* beyond all similarities of the batch */
    pool->lambda = (float)gf_lambda_project(lambda);
    pool->v = (float)-fmax(expected, 1e-6);
    pool->clock = 1;
}

/* A step of the pool with `above` of `pairs` negatives above the thresholds of their anchors. square: mean (S - lambda)^2. */
GF_HD void gf_pool_move(const gf_learner *l, glofnd_anchor *pool, double above, double pairs, double square) {
    const double expected = l->alpha * pairs, rate = fmax(1.0 / ((double)pool->clock + 1.0), GF_SPREAD_RATE);
    const double step = gf_counts_step(gf_pool_scale(l, pool), above, expected, gf_pool_prior(pool, expected));
    pool->lambda = (float)gf_lambda_project((double)pool->lambda + step);
    pool->m = (float)((1.0 - rate) * (double)pool->m + rate * square);
    pool->v = (float)-fmin(gf_remembered(pool) + expected, GF_POOL_MEMORY_COUNTS + GF_POOL_MEMORY_STEPS * expected);
    pool->clock++;
}

GF_HD double gf_pool_square(double s, double lambda) { return gf_pool_round((s - lambda) * (s - lambda)); }

/* ----- one visit of an anchor ----- */

/* The state that an anchor comes with, for this learner. SHRINKAGE: lambda follows the pool's since the last visit, or starts
 * there. What another learner left beside lambda is dropped. */
GF_HD void gf_lambda_open(const gf_learner *l, const glofnd_anchor *pool, glofnd_anchor *row) {
    if (!l->shrinks) {
        if (row->v < 0.0f) row->m = row->v = 0.0f;
        return;
    }
    if (row->clock == 0) row->lambda = pool->lambda;
    else if (row->v < 0.0f) row->lambda = (float)gf_lambda_project((double)row->lambda + (double)pool->lambda - (double)row->m);
    else row->v = 0.0f;
    row->m = pool->lambda;
}

/* One update with `above` of the anchor's n negatives above lambda; counts the visit. By gradients: of all learners but SHRINKAGE. */
GF_HD void gf_lambda_descend(const gf_learner *l, glofnd_anchor *row, double above, double n) {
    const gf_lambda_visit visit = gf_lambda_visit_of(l, row);
    *row = gf_lambda_moved(l, &visit, row, gf_lambda_gradient(l, above / n));
    row->clock++;
}

/* The same by SHRINKAGE. `pool`: as the step found it. */
GF_HD void gf_lambda_shrink(const gf_learner *l, const glofnd_anchor *pool, glofnd_anchor *row, double above, double n) {
    const double expected = l->alpha * n;
    const double step = gf_counts_step(gf_pool_scale(l, pool), above, expected, gf_anchor_prior(row, expected));
    row->lambda = (float)gf_lambda_project((double)row->lambda + step);
    row->v = (float)-fmin(gf_remembered(row) + expected, GF_MEMORY_COUNTS + GF_MEMORY_VISITS * expected);
    row->clock++;
}

/* The same by any learner; only SHRINKAGE reads `pool`. */
GF_HD void gf_lambda_update(const gf_learner *l, const glofnd_anchor *pool, glofnd_anchor *row, double above, double n) {
    if (l->shrinks) gf_lambda_shrink(l, pool, row, above, n);
    else gf_lambda_descend(l, row, above, n);
}

/* lambda set to a quantile by lambda_init; counts the visit. */
GF_HD void gf_lambda_start(glofnd_anchor *row, double quantile) {
    row->lambda = (float)gf_lambda_project(quantile);
    row->clock++;
}

#define GF_RING_RATE 0.3 /* smallest weight of a new quantile */

/* RING: lambda averaged with an exact quantile; counts the visit. */
GF_HD void gf_lambda_average(glofnd_anchor *row, double quantile) {
    const double rate = fmax(1.0 / ((double)row->clock + 1.0), GF_RING_RATE);
    row->lambda = (float)gf_lambda_project((1.0 - rate) * (double)row->lambda + rate * quantile);
    row->clock++;
}

/* The threshold that similarities are compared with. lambda = 1 flags nothing, although the cosine of two equal rows may round to
 * just above 1. */
GF_HD float gf_lambda_threshold(float lambda) { return lambda >= 1.0f ? INFINITY : lambda; }

/* What gf_lambda_foreseen needs of a learner, in float: it only has to be near. */
typedef struct gf_foresight {
    float top;                                         /* gradient of the share 0, the largest */
    float lr, eps, beta1, beta2, log_beta1, log_beta2; /* logarithms to base 2 */
    float epoch_clock, init_visits, decay;
    int sgd;
} gf_foresight;

static inline gf_foresight gf_foresight_of(const gf_learner *l) {
    gf_foresight f;
    f.top = (float)gf_lambda_gradient(l, 0.0);
    f.lr = (float)l->lr, f.eps = (float)l->eps, f.beta1 = (float)l->beta1, f.beta2 = (float)l->beta2;
    f.log_beta1 = log2f(f.beta1), f.log_beta2 = log2f(f.beta2);
    f.epoch_clock = (float)l->epoch_clock, f.init_visits = (float)l->init_visits, f.decay = (float)l->decay;
    f.sgd = l->sgd;
    return f;
}

/* A bound that gf_lambda_update hardly ever moves lambda below: for gradients up to six deviations above their mean, both by
 * Adam's moments, and never above that of the share 0. */
GF_HD float gf_lambda_foreseen(const gf_foresight *f, const glofnd_anchor *row) {
    const float visits = fmaxf(1.0f, (float)row->clock + 1.0f - f->init_visits);
    const float lr = f->decay > 0.0f ? f->lr * fminf(1.0f, f->decay / visits) : f->lr;
    if (f->sgd) return row->lambda - lr * f->top - 1e-5f;
    const float before = f->epoch_clock > 0.0f ? f->epoch_clock : (float)row->clock - f->init_visits;
    const float t = f->epoch_clock > 0.0f ? before : fmaxf(1.0f, before + 1.0f);
    float g = f->top;
    if (before > 0.0f && row->v > 0.0f) {
        const float mean = row->m / (1.0f - exp2f(before * f->log_beta1)),
                    square = row->v / (1.0f - exp2f(before * f->log_beta2));
        const float inner = (1.0f - f->beta1) * f->beta2 * row->v / (f->beta1 * row->m * (1.0f - f->beta2)); /* gf_lambda_range */
        g = fminf(g, mean + 6.0f * sqrtf(fmaxf(square - mean * mean, 0.0f)));
        if (row->m > 0.0f && inner < g) g = inner;
    }
    const float m = (f->beta1 * row->m + (1.0f - f->beta1) * g) / (1.0f - exp2f(t * f->log_beta1));
    const float v = (f->beta2 * row->v + (1.0f - f->beta2) * g * g) / (1.0f - exp2f(t * f->log_beta2));
    return row->lambda - fmaxf(0.0f, 1.001f * lr * m / (sqrtf(v) + f->eps)) - 1e-5f;
}

/* Bounds of lambda after gf_lambda_update for any share in [0, 1], widened to hold the present lambda.
 * Adam's step (a + b g) / sqrt(c + e g^2) has one inner extremum, at g = b c / (a e). Rounding and eps are covered by a margin,
 * and the step checks the result: a bound that fails costs a second pass, but never gives a wrong number. */
GF_HD void gf_lambda_range(const gf_learner *l, const glofnd_anchor *row, float *lo, float *hi) {
    const double ends[2] = {gf_lambda_gradient(l, 1.0), gf_lambda_gradient(l, 0.0)};
    double low = (double)row->lambda, high = (double)row->lambda;
    double g[3] = {ends[0], ends[1], ends[0]};
    const gf_lambda_visit visit = gf_lambda_visit_of(l, row);
    const double slope = l->beta1 * (double)row->m * (1.0 - l->beta2);
    if (!l->sgd && slope != 0.0) {
        const double inner = (1.0 - l->beta1) * l->beta2 * (double)row->v / slope;
        if (inner > ends[0] && inner < ends[1]) g[2] = inner;
    }
    for (int i = 0; i < 3; i++) {
        const double lambda = (double)gf_lambda_moved(l, &visit, row, g[i]).lambda;
        low = fmin(low, lambda);
        high = fmax(high, lambda);
    }
    *lo = (float)(low - 1e-6);
    *hi = (float)(high + 1e-6);
}

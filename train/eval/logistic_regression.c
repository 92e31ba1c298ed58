/* logistic_regression.c - see logistic_regression.h. liblbfgs moves the weights in double; loss and gradient come from
 * linear_classifier.h.
 *
 * Its vector holds [rows][ld] weights and [rows] biases, padding included: padding has no gradient, so it stays zero, and the
 * length is a multiple of what vectorised builds of the library need.
 */
#include "eval/logistic_regression.h"

#include <limits.h>
#include <math.h>

#ifdef GF_HAVE_LBFGS
#include <lbfgs.h>

#define HISTORY 10 /* pairs of steps and gradients, as in scikit-learn */
#define STOP 1     /* return value that stops liblbfgs */

typedef struct search {
    gf_logistic *o;
    const gf_features *f;
    gf_linear *m;
    int64_t plane; /* weights of the vector */
    int not_finite;
} search;

static void set_weights(const search *s, const double *x) {
    for (int64_t i = 0; i < s->plane; i++) s->m->weight[i] = (float)x[i];
    for (int64_t c = 0; c < s->m->rows; c++) s->m->bias[c] = (float)x[s->plane + c];
}

static double objective(void *user, const double *x, double *g, const int n, const double step) {
    search *s = user;
    const double l2 = s->o->l2 / (double)s->f->n;
    double square = 0.0;
    (void)step;
    set_weights(s, x);
    const double loss = gf_linear_loss(s->m, s->f, NULL, s->f->n);
    for (int64_t i = 0; i < s->plane; i++) {
        square += x[i] * x[i];
        g[i] = (double)s->m->d_weight[i] + l2 * x[i];
    }
    for (int64_t c = 0; c < s->m->rows; c++) g[s->plane + c] = (double)s->m->d_bias[c];
    for (int64_t i = s->plane + s->m->rows; i < n; i++) g[i] = 0.0;
    s->o->evaluations++;
    s->not_finite |= !isfinite(loss);
    return loss + 0.5 * l2 * square;
}

static double max_norm(const double *g, int n) {
    double max = 0.0;
    for (int i = 0; i < n; i++) max = fmax(max, fabs(g[i]));
    return max;
}

/* Called after every iteration; a nonzero value stops the search. */
static int after_iteration(void *user, const double *x, const double *g, const double f, const double x_norm, const double g_norm,
                           const double step, int n, int k, int trials) {
    const search *s = user;
    (void)x, (void)x_norm, (void)g_norm, (void)step, (void)trials;
    s->o->done = k;
    s->o->objective = f;
    s->o->gradient = max_norm(g, n);
    if (s->o->progress) s->o->progress(s->o->user, k);
    return s->o->gradient <= s->o->tolerance || s->not_finite ? STOP : 0;
}

/* Codes of a search that rounding keeps from descending further: it has converged. */
static int stopped_by_rounding(int code) {
    return code == LBFGSERR_ROUNDING_ERROR || code == LBFGSERR_MINIMUMSTEP || code == LBFGSERR_MAXIMUMLINESEARCH ||
           code == LBFGSERR_WIDTHTOOSMALL || code == LBFGSERR_INCREASEGRADIENT;
}

static glofnd_status minimise(gf_error *err, search *s, double *x, int n) {
    lbfgs_parameter_t p;
    double f = 0.0;
    lbfgs_parameter_init(&p);
    p.m = HISTORY;
    p.epsilon = 0.0; /* after_iteration() decides */
    p.max_iterations = (int)s->o->iterations;
    for (int64_t i = 0; i < s->plane; i++) x[i] = (double)s->m->weight[i];
    for (int64_t c = 0; c < s->m->rows; c++) x[s->plane + c] = (double)s->m->bias[c];
    for (int64_t i = s->plane + s->m->rows; i < n; i++) x[i] = 0.0;
    const int code = lbfgs(n, x, &f, objective, after_iteration, s, &p);
    FAIL_IF(err, s->not_finite, GLOFND_E_NUMERIC, "the loss of the logistic regression is not finite: a feature is not finite");
    FAIL_IF(err, code == LBFGSERR_OUTOFMEMORY, GLOFND_E_MEMORY, "no memory for L-BFGS over %d weights", n);
    FAIL_IF(err, code < 0 && code != LBFGSERR_MAXIMUMITERATION && !stopped_by_rounding(code), GLOFND_E_NUMERIC,
            "L-BFGS failed with code %d", code);
    set_weights(s, x);
    s->o->converged = code != LBFGSERR_MAXIMUMITERATION;
    if (s->o->done == 0) s->o->objective = f;
    return GLOFND_OK;
}

static glofnd_status fit(gf_error *err, gf_logistic *o, const gf_features *f, gf_linear *m) {
    search s = {.o = o, .f = f, .m = m, .plane = m->rows * m->ld};
    const int64_t n = s.plane + (m->rows + 15) / 16 * 16;
    FAIL_IF(err, n > INT_MAX, GLOFND_E_ARGUMENT, "%lld weights are too many for L-BFGS", (long long)n);
    double *x = lbfgs_malloc((int)n);
    FAIL_IF(err, !x, GLOFND_E_MEMORY, "no memory for L-BFGS over %lld weights", (long long)n);
    const glofnd_status status = minimise(err, &s, x, (int)n);
    lbfgs_free(x);
    return status;
}
#else

#include "util/machine.h"

static glofnd_status fit(gf_error *err, gf_logistic *o, const gf_features *f, gf_linear *m) {
    (void)o, (void)f, (void)m;
    GF_FAIL(err, GLOFND_E_UNSUPPORTED, "logistic regression needs L-BFGS: " GF_LEFT_OUT("liblbfgs", "liblbfgs-dev"));
}
#endif

glofnd_status gf_logistic_fit(gf_error *err, gf_logistic *o, const gf_features *f, gf_linear *m) {
    FAIL_IF(err, !(o->l2 >= 0.0 && o->l2 < INFINITY), GLOFND_E_OPTION, "l2 is %g; expected 0 or more", o->l2);
    FAIL_IF(err, !(o->tolerance >= 0.0) || o->iterations < 1 || o->iterations > INT_MAX, GLOFND_E_OPTION,
            "tolerance is %g and iterations %lld; expected at least 0 and 1", o->tolerance, (long long)o->iterations);
    FAIL_IF(err, f->dim != m->dim || f->n < 1, GLOFND_E_ARGUMENT,
            "%lld rows of %lld features do not fit a classifier on %lld features", (long long)f->n, (long long)f->dim,
            (long long)m->dim);
    for (int64_t i = 0; i < f->n; i++)
        FAIL_IF(err, f->label[i] < 0 || f->label[i] >= m->classes, GLOFND_E_ARGUMENT,
                "row %lld has label %d; expected one in [0, %lld)", (long long)i, (int)f->label[i], (long long)m->classes);
    o->done = o->evaluations = 0;
    o->objective = o->gradient = NAN;
    o->converged = 0;
    return fit(err, o, f, m);
}

/* transfer.c - see linear.h: logistic regression, then transfer to other datasets. */
#include "eval/linear.h"

#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "eval/split.h"

/* ----- logistic regression: liblbfgs moves the weights in double; loss and gradient come from linear.h -----
 *
 * Its vector holds [rows][ld] weights and [rows] biases, padding included: padding has no gradient, so it stays zero, and the
 * length is a multiple of what vectorised builds of the library need.
 */

#ifdef GF_HAVE_LBFGS
#include <lbfgs.h>

typedef struct search {
    gf_logistic *o;
    const gf_features *f;
    gf_linear *m;
    int64_t count; /* rows of f to fit on */
    int64_t plane; /* weights of the vector */
    int not_finite;
} search;

static void set_weights(const search *s, const double *x) {
    for (int64_t i = 0; i < s->plane; i++) s->m->weight[i] = (float)x[i];
    for (int64_t c = 0; c < s->m->rows; c++) s->m->bias[c] = (float)x[s->plane + c];
}

static double objective(void *user, const double *x, double *g, const int n, const double step) {
    search *s = user;
    const double l2 = s->o->l2 / (double)s->count;
    double square = 0.0;
    (void)step;
    set_weights(s, x);
    const double loss = gf_linear_loss(s->m, s->f, s->o->rows, s->count);
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

/* Called after every iteration; a nonzero value stops the search. */
static int after_iteration(void *user, const double *x, const double *g, const double f, const double x_norm, const double g_norm,
                           const double step, int n, int k, int trials) {
    const search *s = user;
    (void)x, (void)x_norm, (void)g_norm, (void)step, (void)trials;
    s->o->done = k;
    s->o->objective = f;
    double max = 0.0;
    for (int i = 0; i < n; i++) max = fmax(max, fabs(g[i]));
    s->o->gradient = max;
    if (s->o->progress) s->o->progress(s->o->user, k);
    return s->o->gradient <= s->o->tolerance || s->not_finite || (s->o->stop && atomic_load(s->o->stop));
}

static glofnd_status minimise(gf_error *err, search *s, double *x, int n) {
    lbfgs_parameter_t p;
    double f = 0.0;
    lbfgs_parameter_init(&p);
    p.m = 10;        /* pairs of steps and gradients, as in scikit-learn */
    p.epsilon = 0.0; /* after_iteration() decides */
    p.max_iterations = (int)s->o->iterations;
    for (int64_t i = 0; i < s->plane; i++) x[i] = (double)s->m->weight[i];
    for (int64_t c = 0; c < s->m->rows; c++) x[s->plane + c] = (double)s->m->bias[c];
    for (int64_t i = s->plane + s->m->rows; i < n; i++) x[i] = 0.0;
    const int code = lbfgs(n, x, &f, objective, after_iteration, s, &p);
    FAIL_IF(err, s->not_finite, GLOFND_E_NUMERIC, "the loss of the logistic regression is not finite: a feature is not finite");
    FAIL_IF(err, s->o->stop && atomic_load(s->o->stop), GLOFND_E_CANCELLED, "cancelled");
    FAIL_IF(err, code == LBFGSERR_OUTOFMEMORY, GLOFND_E_MEMORY, "no memory for L-BFGS over %d weights", n);
    /* Rounding keeps a search from descending further: it has converged. */
    const int rounded = code == LBFGSERR_ROUNDING_ERROR || code == LBFGSERR_MINIMUMSTEP || code == LBFGSERR_MAXIMUMLINESEARCH ||
                        code == LBFGSERR_WIDTHTOOSMALL || code == LBFGSERR_INCREASEGRADIENT;
    FAIL_IF(err, code < 0 && code != LBFGSERR_MAXIMUMITERATION && !rounded, GLOFND_E_NUMERIC, "L-BFGS failed with code %d", code);
    set_weights(s, x);
    s->o->converged = code != LBFGSERR_MAXIMUMITERATION;
    if (s->o->done == 0) s->o->objective = f;
    return GLOFND_OK;
}

static glofnd_status fit_lbfgs(gf_error *err, gf_logistic *o, const gf_features *f, gf_linear *m) {
    search s = {.o = o, .f = f, .m = m, .count = o->rows ? o->count : f->n, .plane = m->rows * m->ld};
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

static glofnd_status fit_lbfgs(gf_error *err, gf_logistic *o, const gf_features *f, gf_linear *m) {
    (void)o, (void)f, (void)m;
    GF_FAIL(err, GLOFND_E_UNSUPPORTED, "logistic regression needs L-BFGS: " GF_LEFT_OUT("liblbfgs", "liblbfgs-dev"));
}
#endif

glofnd_status gf_logistic_fit(gf_error *err, gf_logistic *o, const gf_features *f, gf_linear *m) {
    FAIL_IF(err, !(o->l2 >= 0.0 && o->l2 < INFINITY), GLOFND_E_OPTION, "l2 is %g; expected 0 or more", o->l2);
    FAIL_IF(err, !(o->tolerance >= 0.0) || o->iterations < 1 || o->iterations > INT_MAX, GLOFND_E_OPTION,
            "tolerance is %g and iterations %lld; expected at least 0 and 1", o->tolerance, (long long)o->iterations);
    FAIL_IF(err, f->dim != m->dim || f->n < 1 || (o->rows && o->count < 1), GLOFND_E_ARGUMENT,
            "%lld rows of %lld features do not fit a classifier on %lld features", (long long)f->n, (long long)f->dim,
            (long long)m->dim);
    for (int64_t i = 0; i < f->n; i++)
        FAIL_IF(err, f->label[i] < 0 || f->label[i] >= m->classes, GLOFND_E_ARGUMENT,
                "row %lld has label %d; expected one in [0, %lld)", (long long)i, (int)f->label[i], (long long)m->classes);
    o->done = o->evaluations = 0;
    o->objective = o->gradient = NAN;
    o->converged = 0;
    return fit_lbfgs(err, o, f, m);
}

/* ----- fits at all strengths ----- */

typedef struct fit_progress {
    const gf_transfer *t;
    int64_t fit, fits;
} fit_progress;

static void report_iteration(void *user, int64_t iteration) {
    const fit_progress *w = user;
    if (w->t->progress) w->t->progress(w->t->user, w->fit, w->fits, iteration);
}

/* Fits on `train` at every strength and scores on `test`. */
static glofnd_status fit_all(gf_error *err, gf_transfer *t, fit_progress *w, const gf_features *train, const gf_features *test,
                             double *score) {
    gf_linear *m = NULL;
    int32_t *rank = malloc((size_t)test->n * sizeof *rank);
    FAIL_IF(err, !rank, GLOFND_E_MEMORY, "no memory for %lld ranks", (long long)test->n);
    glofnd_status status = gf_linear_create(err, train->dim, t->classes, t->threads, &m);
    for (int i = 0; i < GF_TRANSFER_STRENGTHS && status == GLOFND_OK; i++) {
        gf_logistic o = {
            .l2 = t->l2[i],
            .tolerance = t->tolerance > 0.0 ? t->tolerance : 1e-4,
            .iterations = t->protocol->iterations,
            .progress = report_iteration,
            .user = w,
        };
        status = gf_logistic_fit(err, &o, train, m); /* from the weights of m, the solution of the strength before */
        if (status != GLOFND_OK) break;
        t->unfinished += !o.converged;
        w->fit++;
        gf_linear_rank(m, test, rank);
        if (t->scoring == GF_SCORE_MEAN) status = gf_rank_mean_per_class(err, test, rank, &score[i]);
        else score[i] = gf_rank_top(rank, test->n, 1);
    }
    gf_linear_free(m);
    free(rank);
    return status;
}

static int argmax(const double *score) {
    int best = 0;
    for (int i = 1; i < GF_TRANSFER_STRENGTHS; i++) best = score[i] > score[best] ? i : best;
    return best;
}

glofnd_status gf_transfer_fit(gf_error *err, gf_transfer *t, gf_features *train, gf_features *test) {
    gf_features held = {0};
    t->unfinished = 0;
    t->best = t->chosen = -1;
    FAIL_IF(err, train->dim != test->dim, GLOFND_E_ARGUMENT, "training rows have %lld features, test rows %lld",
            (long long)train->dim, (long long)test->dim);
    for (int64_t i = 0; i < train->n; i++)
        FAIL_IF(err, train->label[i] < 0, GLOFND_E_ARGUMENT, "training row %lld has no label", (long long)i);
    /* Numbers the classes of the training samples 0, 1, ...: a class without samples would have no weights to fit. */
    const int32_t labels = gf_features_classes(train);
    int32_t *number = malloc(((size_t)labels + 1) * sizeof *number);
    FAIL_IF(err, !number, GLOFND_E_MEMORY, "no memory for %d classes", (int)labels);
    for (int32_t c = 0; c < labels; c++) number[c] = -1;
    for (int64_t i = 0; i < train->n; i++) number[train->label[i]] = 0;
    t->classes = 0;
    for (int32_t c = 0; c < labels; c++)
        if (number[c] == 0) number[c] = (int32_t)t->classes++;
    for (int64_t i = 0; i < train->n; i++) train->label[i] = number[train->label[i]];
    for (int64_t i = 0; i < test->n; i++) {
        const int32_t label = test->label[i];
        test->label[i] = label >= 0 && label < labels ? number[label] : -1;
    }
    free(number);
    if (t->protocol->unit) gf_features_unit(train), gf_features_unit(test);
    if (t->protocol->standard) TRY(gf_features_standardise(err, train, test));
    gf_transfer_strengths(t->protocol, t->l2);
    /* True if at least one sample can be held out. */
    gf_stratified_sample d = {.share = t->validation, .seed = t->seed, .stream = GF_STRATIFIED_TEST};
    uint8_t *chosen = malloc((size_t)train->n + 1);
    const int validate =
        chosen && t->validation > 0.0 && gf_stratified_draw(NULL, &d, train->label, train->n, chosen) == GLOFND_OK && d.count > 0;
    free(chosen);
    fit_progress w = {.t = t, .fits = GF_TRANSFER_STRENGTHS * (validate ? 2 : 1)};
    TRY(fit_all(err, t, &w, train, test, t->score));
    t->best = argmax(t->score);
    if (!validate) return GLOFND_OK;
    glofnd_status status = gf_features_hold_out(err, train, t->validation, t->seed, &held);
    if (status == GLOFND_OK) status = fit_all(err, t, &w, train, &held, t->validation_score);
    if (status == GLOFND_OK) t->chosen = argmax(t->validation_score);
    gf_features_free(&held);
    return status;
}

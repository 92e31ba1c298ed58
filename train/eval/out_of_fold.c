/* out_of_fold.c - see linear.h: class probabilities of rows by logistic regressions that have not seen them.
 *
 * The rows of each class are dealt to the folds in a seeded order, so that every fold has its share of every class. A regression on the
 * other folds then predicts the rows of a fold.
 */
#include <stdlib.h>
#include <string.h>

#include "eval/linear.h"
#include "util/rng.h"

typedef struct folding {
    const gf_out_of_fold *o;
    const gf_features *f;
    uint8_t *fold; /* [n] */
    int64_t *rows; /* [n] those of the other folds, then those of the fold itself */
    gf_logistic fit;
    int64_t now;
} folding;

static glofnd_status deal_rows(gf_error *err, folding *x) {
    int64_t *next = calloc((size_t)x->o->classes, sizeof *next);
    FAIL_IF(err, !next, GLOFND_E_MEMORY, "no memory for %lld classes", (long long)x->o->classes);
    for (int64_t c = 0; c < x->o->classes; c++) next[c] = c; /* classes smaller than the folds do not all begin with the first */
    for (int64_t i = 0; i < x->f->n; i++) {
        const int64_t row = gf_permute(x->o->seed, 0, x->f->n, i);
        x->fold[row] = (uint8_t)(next[x->f->label[row]]++ % GF_FOLDS);
    }
    free(next);
    return GLOFND_OK;
}

static void report_iteration(void *user, int64_t iteration) {
    const folding *x = user;
    const double share = (double)iteration / (double)x->fit.iterations;
    gf_job_report(&x->o->watch, ((double)x->now + share) / GF_FOLDS);
}

static glofnd_status predict_folds(gf_error *err, folding *x, gf_linear *m, float *probability) {
    for (x->now = 0; x->now < GF_FOLDS; x->now++) {
        int64_t learned = 0, held = 0;
        for (int64_t i = 0; i < x->f->n; i++)
            if (x->fold[i] != x->now) x->rows[learned++] = i;
        for (int64_t i = 0; i < x->f->n; i++)
            if (x->fold[i] == x->now) x->rows[learned + held++] = i;
        if (!held) continue;
        x->fit.rows = x->rows, x->fit.count = learned;
        memset(m->weight, 0, (size_t)(m->rows * m->ld) * sizeof *m->weight); /* nothing of a fit that knew the held rows */
        memset(m->bias, 0, (size_t)m->rows * sizeof *m->bias);
        TRY(gf_logistic_fit(err, &x->fit, x->f, m));
        gf_linear_probabilities(m, x->f, x->rows + learned, held, probability);
    }
    return GLOFND_OK;
}

glofnd_status gf_out_of_fold_probabilities(gf_error *err, const gf_out_of_fold *o, const gf_features *f, float *probability) {
    folding x = {.o = o, .f = f, .fit = {.l2 = 1.0, .tolerance = 1e-4, .iterations = 200, .stop = o->watch.stop}};
    gf_linear *m = NULL;
    FAIL_IF(err, f->n < GF_FOLDS || o->classes < 2, GLOFND_E_ARGUMENT,
            "%lld rows of %lld classes; a cross-validated classifier needs %d rows and 2 classes", (long long)f->n,
            (long long)o->classes, GF_FOLDS);
    x.fit.progress = report_iteration, x.fit.user = &x;
    x.fold = malloc((size_t)f->n);
    x.rows = malloc((size_t)f->n * sizeof *x.rows);
    glofnd_status status =
        x.fold && x.rows ? GLOFND_OK : gf_fail(err, GLOFND_E_MEMORY, "no memory for folds of %lld rows", (long long)f->n);
    if (status == GLOFND_OK) status = deal_rows(err, &x);
    if (status == GLOFND_OK) status = gf_linear_create(err, f->dim, o->classes, o->threads, &m);
    if (status == GLOFND_OK) status = predict_folds(err, &x, m, probability);
    gf_linear_free(m);
    free(x.fold);
    free(x.rows);
    return status;
}

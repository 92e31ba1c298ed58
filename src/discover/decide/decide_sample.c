/* decide_sample.c - a diverse subset by greedy k-centre; see decide.h.
 *
 * The first centre is the kept row most similar to the mean direction of all kept rows. Each further one is the row whose most
 * similar centre is least similar; of equal ones the lowest row. So the first N of a larger subset are the subset of N rows.
 */
#include <math.h>
#include <stdlib.h>

#include "discover/decide/decide.h"
#include "util/minmax.h"
#include "util/parallel.h"

enum { BLOCK = 1024, LANES = 8 };

typedef struct cover {
    const gf_discover_data *d;
    int64_t n;
    int32_t *position; /* [n] kept ones */
    double *scale;     /* [n] 1 / length of the row */
    double *near;      /* [n] similarity to the most similar centre */
    double *centre;    /* [dim] of length 1 */
    int first;         /* the mean is no centre: near is overwritten */
} cover;

static const float *row_at(const cover *x, int64_t i) { return x->d->x + (int64_t)x->d->good[x->position[i]] * x->d->dim; }

/* Sums in a fixed order, in lanes that the compiler can keep in vectors. */
static double dot(const float *row, const double *centre, int64_t dim) {
    double sum[LANES] = {0}, rest = 0.0;
    int64_t k = 0;
    for (; k + LANES <= dim; k += LANES)
        for (int l = 0; l < LANES; l++) sum[l] += (double)row[k + l] * centre[k + l];
    for (; k < dim; k++) rest += (double)row[k] * centre[k];
    for (int l = 0; l < LANES; l++) rest += sum[l];
    return rest;
}

static void compare(void *arg, int64_t task, int thread) {
    cover *x = arg;
    (void)thread;
    for (int64_t i = task * BLOCK; i < GF_MIN((task + 1) * BLOCK, x->n); i++) {
        const double v = dot(row_at(x, i), x->centre, x->d->dim) * x->scale[i];
        x->near[i] = x->first ? v : fmax(x->near[i], v);
    }
}

static void set_scale(void *arg, int64_t task, int thread) {
    cover *x = arg;
    (void)thread;
    for (int64_t i = task * BLOCK; i < GF_MIN((task + 1) * BLOCK, x->n); i++) {
        const float *row = row_at(x, i);
        double sum = 0.0;
        for (int64_t k = 0; k < x->d->dim; k++) sum += (double)row[k] * (double)row[k];
        x->scale[i] = 1.0 / sqrt(sum);
    }
}

static void set_mean(cover *x) {
    for (int64_t k = 0; k < x->d->dim; k++) x->centre[k] = 0.0;
    for (int64_t i = 0; i < x->n; i++)
        for (int64_t k = 0; k < x->d->dim; k++) x->centre[k] += (double)row_at(x, i)[k] * x->scale[i];
}

static int64_t extreme(const cover *x, double sign) {
    int64_t best = 0;
    for (int64_t i = 1; i < x->n; i++)
        if (sign * x->near[i] > sign * x->near[best]) best = i;
    return best;
}

static glofnd_status pick(gf_error *err, cover *x, const gf_discover_spec *s, gf_decisions *out) {
    const int64_t blocks = (x->n + BLOCK - 1) / BLOCK;
    gf_parallel(s->threads, blocks, set_scale, x);
    set_mean(x);
    x->first = 1;
    gf_parallel(s->threads, blocks, compare, x);
    int64_t next = extreme(x, 1.0);
    for (int64_t k = 0; k < out->samples; k++) {
        out->sample[k] = x->position[next];
        for (int64_t m = 0; m < x->d->dim; m++) x->centre[m] = (double)row_at(x, next)[m] * x->scale[next];
        x->first = k == 0;
        gf_parallel(s->threads, blocks, compare, x);
        x->near[next] = INFINITY; /* not chosen again, whatever rounding says */
        next = extreme(x, -1.0);
        FAIL_IF(err, gf_job_stopped(&s->watch), GLOFND_E_ARGUMENT, "stopped");
    }
    out->sample_reach = fmin(x->near[next], 1.0);
    return GLOFND_OK;
}

glofnd_status gf_decide_sample(gf_error *err, const gf_decide_spec *c, const gf_discover_spec *s, const gf_discover_data *d,
                               gf_decisions *out) {
    if (!c->sample) return GLOFND_OK;
    FAIL_IF(err, !d->x, GLOFND_E_ARGUMENT, "--sample needs the embeddings");
    cover x = {.d = d};
    x.position = malloc((size_t)out->keep * sizeof *x.position);
    x.scale = malloc((size_t)out->keep * sizeof *x.scale);
    x.near = malloc((size_t)out->keep * sizeof *x.near);
    x.centre = malloc((size_t)d->dim * sizeof *x.centre);
    out->samples = GF_MIN(c->sample, out->keep);
    out->sample = malloc((size_t)out->samples * sizeof *out->sample);
    glofnd_status status = GLOFND_OK;
    if (!x.position || !x.scale || !x.near || !x.centre || !out->sample)
        status = gf_fail(err, GLOFND_E_MEMORY, "no memory for a subset of %lld rows", (long long)out->keep);
    for (int64_t i = 0; status == GLOFND_OK && i < d->good_n; i++)
        if (out->kept[i] == i) x.position[x.n++] = (int32_t)i;
    if (status == GLOFND_OK) status = pick(err, &x, s, out);
    free(x.position);
    free(x.scale);
    free(x.near);
    free(x.centre);
    return status;
}

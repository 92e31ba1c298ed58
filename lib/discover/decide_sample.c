/* decide_sample.c - a diverse subset by greedy k-centre; see decide.h.
 *
 * The first centre is the kept row most similar to the mean direction of all kept rows. Each further one is the row whose most
 * similar centre is least similar; of equal ones the lowest row. So the first N of a larger subset are the subset of N rows.
 */
#include <math.h>
#include <stdlib.h>

#include "discover/decide_rows.h"
#include "util/array.h"
#include "util/parallel.h"

enum { BLOCK = 1024, LANES = 8 };

typedef struct cover {
    const gf_decide_spec *c;
    const gf_discover_spec *s;
    const gf_discover_data *d;
    const int32_t *kept; /* [good_n] its own position: kept */
    double *scale;       /* [good_n] 1 / length of the row */
    double *near;        /* [good_n] similarity to the most similar centre; INFINITY: not kept, or chosen */
    double *centre;      /* [dim] of length 1 */
    float *row;          /* [dim] */
    int first;           /* the mean is no centre: near is overwritten */
    const gf_row_piece *piece;
} cover;

static int is_kept(const cover *x, int64_t i) { return x->kept[i] == i; }

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
    const gf_row_piece *p = x->piece;
    (void)thread;
    for (int64_t i = p->first + task * BLOCK; i < p->first + GF_MIN((task + 1) * BLOCK, p->count); i++) {
        if (!is_kept(x, i)) continue;
        const double v = dot(gf_piece_row(p, i), x->centre, x->d->dim) * x->scale[i];
        x->near[i] = x->first ? v : fmax(x->near[i], v);
    }
}

static void set_scale(void *arg, int64_t task, int thread) {
    cover *x = arg;
    const gf_row_piece *p = x->piece;
    (void)thread;
    for (int64_t i = p->first + task * BLOCK; i < p->first + GF_MIN((task + 1) * BLOCK, p->count); i++) {
        const float *row = gf_piece_row(p, i);
        double sum = 0.0;
        for (int64_t k = 0; k < x->d->dim; k++) sum += (double)row[k] * (double)row[k];
        x->scale[i] = 1.0 / sqrt(sum);
    }
}

static int64_t blocks_of(const gf_row_piece *p) { return (p->count + BLOCK - 1) / BLOCK; }

static void compare_piece(void *user, const gf_row_piece *p) {
    cover *x = user;
    x->piece = p;
    gf_parallel(x->s->threads, blocks_of(p), compare, x);
}

/* Scales, and the sum of the kept rows in x->centre. */
static void add_piece(void *user, const gf_row_piece *p) {
    cover *x = user;
    x->piece = p;
    gf_parallel(x->s->threads, blocks_of(p), set_scale, x);
    for (int64_t i = p->first; i < p->first + p->count; i++)
        for (int64_t k = 0; is_kept(x, i) && k < x->d->dim; k++) x->centre[k] += (double)gf_piece_row(p, i)[k] * x->scale[i];
}

/* The kept row whose similarity is largest (sign 1) or smallest (-1). */
static int64_t extreme(const cover *x, double sign) {
    int64_t best = -1;
    for (int64_t i = 0; i < x->d->good_n; i++)
        if (is_kept(x, i) && (best < 0 || sign * x->near[i] > sign * x->near[best])) best = i;
    return best;
}

static glofnd_status pass(gf_error *err, cover *x, gf_row_visit *visit) {
    return gf_decide_visit_rows(err, x->c, x->s, x->d, visit, x);
}

static glofnd_status pick(gf_error *err, cover *x, gf_decisions *out) {
    for (int64_t k = 0; k < x->d->dim; k++) x->centre[k] = 0.0;
    TRY(pass(err, x, add_piece));
    x->first = 1;
    TRY(pass(err, x, compare_piece));
    int64_t next = extreme(x, 1.0);
    for (int64_t k = 0; k < out->samples; k++) {
        out->sample[k] = (int32_t)next;
        TRY(gf_decide_read_row(err, x->c, x->d, next, x->row));
        for (int64_t m = 0; m < x->d->dim; m++) x->centre[m] = (double)x->row[m] * x->scale[next];
        x->first = k == 0;
        TRY(pass(err, x, compare_piece));
        x->near[next] = INFINITY; /* not chosen again, whatever rounding says */
        next = extreme(x, -1.0);
        FAIL_IF(err, gf_job_stopped(&x->s->watch), GLOFND_E_ARGUMENT, "stopped");
    }
    out->sample_reach = fmin(x->near[next], 1.0);
    return GLOFND_OK;
}

/* d with its rows in memory, if they fit: N passes over them are not N passes over files. */
static glofnd_status load_rows(gf_error *err, cover *x, gf_discover_data *loaded) {
    const double bytes = 4.0 * (double)x->d->n * (double)x->d->dim;
    *loaded = *x->d;
    if (x->d->x || bytes > (double)x->s->memory) return GLOFND_OK;
    loaded->x = malloc((size_t)bytes);
    if (!loaded->x) return GLOFND_OK; /* it works without */
    const glofnd_status status = x->c->rows->read(err, x->c->rows->user, 0, x->d->n, loaded->x);
    x->d = loaded;
    return status;
}

glofnd_status gf_decide_sample(gf_error *err, const gf_decide_spec *c, const gf_discover_spec *s, const gf_discover_data *d,
                               gf_decisions *out) {
    gf_discover_data loaded = {0};
    if (!c->sample) return GLOFND_OK;
    FAIL_IF(err, !d->x && !c->rows, GLOFND_E_ARGUMENT, "--sample needs the embeddings");
    cover x = {.c = c, .s = s, .d = d, .kept = out->kept};
    x.scale = malloc((size_t)d->good_n * sizeof *x.scale);
    x.near = malloc((size_t)d->good_n * sizeof *x.near);
    x.centre = malloc((size_t)d->dim * sizeof *x.centre);
    x.row = malloc((size_t)d->dim * sizeof *x.row);
    out->samples = GF_MIN(c->sample, out->keep);
    out->sample = malloc((size_t)out->samples * sizeof *out->sample);
    glofnd_status status = GLOFND_OK;
    if (!x.scale || !x.near || !x.centre || !x.row || !out->sample)
        status = gf_fail(err, GLOFND_E_MEMORY, "no memory for a subset of %lld rows", (long long)out->keep);
    if (status == GLOFND_OK) status = load_rows(err, &x, &loaded);
    if (status == GLOFND_OK) status = pick(err, &x, out);
    if (loaded.x != d->x) free(loaded.x);
    free(x.scale);
    free(x.near);
    free(x.centre);
    free(x.row);
    return status;
}

/* optim.c - see optim.h. */
#include "optim/optim.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "optim/adamw.h"
#include "optim/lars.h"
#include "optim/sgd.h"
#include "util/parallel.h"

#define PIECE ((size_t)1 << 16) /* numbers that a thread moves at a time */

struct gf_optim {
    const gf_nn_backend *backend;
    gf_nn_optim *device; /* NULL: on the host, by what follows */
    gf_optim_rule rule;
    double lr, norm;
    int64_t step;
    int threads;
    int64_t piece_count;
    gf_param *piece; /* the tensors, cut up where each number moves by itself */
    double *norms;   /* [count] of tensors */
    int count;
    gf_param params[];
};

/* Pieces of tensor t, written to `out` unless that is NULL; how many there are. */
static int64_t cut(const gf_optim_rule *rule, const gf_param *t, gf_param *out) {
    const size_t step = rule->kind == GF_OPTIM_LARS && t->n ? t->n : PIECE; /* LARS looks at whole tensors */
    int64_t count = 0;
    for (size_t from = 0; from < t->n; from += step, count++) {
        if (!out) continue;
        out[count] = *t;
        out[count].n = t->n - from < step ? t->n - from : step;
        out[count].p += from, out[count].g += from;
        if (t->state1) out[count].state1 += from;
        if (t->state2) out[count].state2 += from;
    }
    return count;
}

static glofnd_status make_pieces(gf_error *err, gf_optim *o) {
    int64_t n = 0;
    for (int k = 0; k < o->count; k++) n += cut(&o->rule, &o->params[k], NULL);
    o->threads = o->rule.threads > 0 ? o->rule.threads : gf_parallel_default();
    o->piece = calloc((size_t)n + 1, sizeof *o->piece);
    o->norms = calloc((size_t)o->count + 1, sizeof *o->norms);
    FAIL_IF(err, !o->piece || !o->norms, GLOFND_E_MEMORY, "no memory for an optimizer of %d tensors", o->count);
    for (int k = 0; k < o->count; k++) o->piece_count += cut(&o->rule, &o->params[k], o->piece + o->piece_count);
    return GLOFND_OK;
}

glofnd_status gf_optim_create(gf_error *err, const gf_nn_backend *backend, gf_nn_engine *engine, const gf_optim_rule *rule,
                              const gf_param *params, int count, gf_optim **out) {
    gf_optim *o = calloc(1, sizeof *o + (size_t)count * sizeof *params);
    FAIL_IF(err, !o, GLOFND_E_MEMORY, "no memory for an optimizer of %d tensors", count);
    o->backend = backend;
    o->rule = *rule;
    o->count = count;
    memcpy(o->params, params, (size_t)count * sizeof *params);
    const glofnd_status status =
        backend->optim_create ? backend->optim_create(err, engine, rule, params, count, &o->device) : make_pieces(err, o);
    if (status == GLOFND_OK) *out = o;
    else gf_optim_free(o);
    return status;
}

void gf_optim_free(gf_optim *o) {
    if (!o) return;
    free(o->piece);
    free(o->norms);
    free(o);
}

glofnd_status gf_optim_set(gf_error *err, gf_optim *o, double lr, int64_t step) {
    o->lr = lr;
    o->step = step;
    const gf_optim_now now = {lr, 1.0 - pow(o->rule.beta1, (double)step), 1.0 - pow(o->rule.beta2, (double)step)};
    return o->device ? o->backend->optim_set(err, o->device, &now) : GLOFND_OK;
}

/* ----- on the host: a task per piece or tensor, each with numbers of its own ----- */

static void move_piece(void *arg, int64_t task, int thread) {
    (void)thread;
    const gf_optim *o = arg;
    const gf_optim_rule *r = &o->rule;
    const gf_param *t = &o->piece[task];
    switch (r->kind) {
    case GF_OPTIM_LARS: gf_lars_step(&(gf_lars){r->momentum, r->weight_decay, r->trust}, o->lr, t, 1); break;
    case GF_OPTIM_SGD: gf_sgd_step(&(gf_sgd){r->momentum, r->weight_decay, r->nesterov}, o->lr, t, 1); break;
    case GF_OPTIM_ADAMW: gf_adamw_step(&(gf_adamw){r->beta1, r->beta2, r->eps, r->weight_decay}, o->lr, o->step, t, 1); break;
    }
}

static void shrink_piece(void *arg, int64_t task, int thread) {
    (void)thread;
    const gf_optim *o = arg;
    const double by = gf_rule_shrink(&o->rule, o->norm);
    const gf_param *t = &o->piece[task];
    for (size_t i = 0; i < t->n; i++) t->g[i] = (float)(by * t->g[i]);
}

static void measure_tensor(void *arg, int64_t task, int thread) {
    (void)thread;
    const gf_optim *o = arg;
    o->norms[task] = gf_param_norm(o->params[task].g, NULL, 0.0, o->params[task].n);
}

static double norm_of_all(gf_optim *o) {
    double square = 0.0;
    gf_parallel(o->threads, o->count, measure_tensor, o);
    for (int k = 0; k < o->count; k++) square += o->norms[k] * o->norms[k];
    return sqrt(square);
}

glofnd_status gf_optim_step(gf_error *err, gf_optim *o) {
    if (o->device) return o->backend->optim_step(err, o->device);
    o->norm = norm_of_all(o);
    if (!isfinite(o->norm)) return GLOFND_OK;
    if (gf_rule_shrink(&o->rule, o->norm) != 1.0) gf_parallel(o->threads, o->piece_count, shrink_piece, o);
    gf_parallel(o->threads, o->piece_count, move_piece, o);
    return GLOFND_OK;
}

glofnd_status gf_optim_norm(gf_error *err, gf_optim *o, double *norm) {
    if (o->device) TRY(o->backend->optim_norm(err, o->device, &o->norm));
    *norm = o->norm;
    return GLOFND_OK;
}

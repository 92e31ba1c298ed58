/* optim.c - see optim.h. */
#include "optim/optim.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "optim/adamw.h"
#include "optim/lars.h"
#include "optim/sgd.h"

struct gf_optim {
    const gf_nn_backend *backend;
    gf_nn_optim *device;        /* NULL: on the host, by what follows */
    gf_optim_rule rule;
    double lr, norm;
    int64_t step;
    int count;
    gf_param params[];
};

glofnd_status gf_optim_create(gf_error *err, const gf_nn_backend *backend, gf_nn_engine *engine, const gf_optim_rule *rule,
                              const gf_param *params, int count, gf_optim **out) {
    gf_optim *o = calloc(1, sizeof *o + (size_t)count * sizeof *params);
    FAIL_IF(err, !o, GLOFND_E_MEMORY, "no memory for an optimizer of %d tensors", count);
    o->backend = backend;
    o->rule = *rule;
    o->count = count;
    memcpy(o->params, params, (size_t)count * sizeof *params);
    const glofnd_status status =
        backend->optim_create ? backend->optim_create(err, engine, rule, params, count, &o->device) : GLOFND_OK;
    if (status == GLOFND_OK) *out = o;
    else gf_optim_free(o);
    return status;
}

void gf_optim_free(gf_optim *o) { free(o); }

glofnd_status gf_optim_set(gf_error *err, gf_optim *o, double lr, int64_t step) {
    o->lr = lr;
    o->step = step;
    const gf_optim_now now = {lr, 1.0 - pow(o->rule.beta1, (double)step), 1.0 - pow(o->rule.beta2, (double)step)};
    return o->device ? o->backend->optim_set(err, o->device, &now) : GLOFND_OK;
}

static void host_step(const gf_optim *o) {
    const gf_optim_rule *r = &o->rule;
    const size_t count = (size_t)o->count;
    switch (r->kind) {
    case GF_OPTIM_LARS: gf_lars_step(&(gf_lars){r->momentum, r->weight_decay, r->trust}, o->lr, o->params, count); break;
    case GF_OPTIM_SGD: gf_sgd_step(&(gf_sgd){r->momentum, r->weight_decay, r->nesterov}, o->lr, o->params, count); break;
    case GF_OPTIM_ADAMW:
        gf_adamw_step(&(gf_adamw){r->beta1, r->beta2, r->eps, r->weight_decay}, o->lr, o->step, o->params, count);
        break;
    }
}

static void shrink(const gf_optim *o) {
    const double by = gf_rule_shrink(&o->rule, o->norm);
    for (int k = 0; by != 1.0 && k < o->count; k++)
        for (size_t i = 0; i < o->params[k].n; i++) o->params[k].g[i] = (float)(by * o->params[k].g[i]);
}

glofnd_status gf_optim_step(gf_error *err, gf_optim *o) {
    if (o->device) return o->backend->optim_step(err, o->device);
    double square = 0.0;
    for (int i = 0; i < o->count; i++) {
        const double norm = gf_param_norm(o->params[i].g, NULL, 0.0, o->params[i].n);
        square += norm * norm;
    }
    o->norm = sqrt(square);
    if (!isfinite(o->norm)) return GLOFND_OK;
    shrink(o);
    host_step(o);
    return GLOFND_OK;
}

glofnd_status gf_optim_norm(gf_error *err, gf_optim *o, double *norm) {
    if (o->device) TRY(o->backend->optim_norm(err, o->device, &o->norm));
    *norm = o->norm;
    return GLOFND_OK;
}

/* run_optim.c - golden cases of optimizers and schedules; needs src/optim and src/io, not the library. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "optim/optim.h"
#include "run.h"

/* ----- optimizers ----------------------------------------------------------------------------------------------- */

typedef struct tensor { /* p<i> of a case */
    char name[24];
    const gf_npy *grad; /* [steps][n] */
    gf_param param;
    float *g; /* gradient of the current step */
} tensor;

static int open_tensor(tensor *x, const golden_case *c, int index, int64_t steps, message *m) {
    char name[40];
    int64_t dims[GF_NPY_MAX_RANK + 1] = {steps};
    const gf_npy *init = NULL;
    snprintf(x->name, sizeof x->name, "p%d", index);
    snprintf(name, sizeof name, "%s_init", x->name);
    init = golden_find(c, name);
    SAY_IF(m, !init, REPLAY_UNREADABLE, "%s: manifest.tsv lists no array '%s'", c->id, name);
    SAY_IF(m, init->rank >= GF_NPY_MAX_RANK, REPLAY_UNREADABLE, "%s: array '%s' has too many axes", c->id, name);
    for (int k = 0; k < init->rank; k++) dims[k + 1] = init->shape[k];
    snprintf(name, sizeof name, "%s_grad", x->name);
    PASS(golden_array(c, name, init->rank + 1, dims, &x->grad, m));
    const size_t n = (size_t)init->count;
    float *p = grab(n, sizeof *p);
    for (size_t i = 0; i < n; i++) p[i] = (float)gf_npy_f64(init, (int64_t)i);
    x->g = grab(n, sizeof *x->g);
    x->param = (gf_param){.p = p,
                          .g = x->g,
                          .state1 = grab(n, sizeof(float)),
                          .state2 = grab(n, sizeof(float)),
                          .n = n,
                          .decay = gf_param_decays(init->rank, NULL),
                          .adapt = gf_param_adapts(init->rank)};
    return REPLAY_OK;
}

static void close_tensor(tensor *x) {
    free(x->param.p);
    free(x->g);
    free(x->param.state1);
    free(x->param.state2);
}

static void load_gradient(tensor *x, int64_t t) {
    const int64_t n = (int64_t)x->param.n;
    for (int64_t i = 0; i < n; i++) x->g[i] = (float)gf_npy_f64(x->grad, t * n + i);
}

static int lars_tensor(const golden_case *c, outputs *o, const gf_optim_rule *lars, const gf_npy *lr, int index, message *m) {
    char momentum[24];
    tensor x = {.g = NULL};
    int code = open_tensor(&x, c, index, lr->count, m);
    snprintf(momentum, sizeof momentum, "mu%d", index);
    for (int64_t t = 0; t < lr->count && code == REPLAY_OK; t++) {
        const int64_t n = (int64_t)x.param.n;
        load_gradient(&x, t);
        const gf_optim_scalars now = {.lr = gf_npy_f64(lr, t)};
        gf_optim_update(lars, &now, &x.param, 1);
        outputs_float(o, x.name, t * n, x.param.p, n);
        outputs_float(o, momentum, t * n, x.param.state1, n);
    }
    close_tensor(&x);
    return code;
}

/* Any number of tensors p0, p1, ...; one axis: neither decay nor trust ratio. */
int run_lars(const golden_case *c, outputs *o, message *m) {
    gf_optim_rule lars = {.kind = GF_OPTIM_LARS};
    int64_t steps = 0;
    const gf_npy *lr = NULL;
    char name[24] = "p0_init";
    PASS(golden_number(c, "momentum", &lars.momentum, m));
    PASS(golden_number(c, "weight_decay", &lars.weight_decay, m));
    PASS(golden_number(c, "trust_coefficient", &lars.trust, m));
    PASS(golden_integer(c, "steps", 1, 1 << 30, &steps, m));
    PASS(golden_array(c, "lr", 1, &steps, &lr, m));
    for (int i = 0; i == 0 || golden_find(c, name); snprintf(name, sizeof name, "p%d_init", ++i))
        PASS(lars_tensor(c, o, &lars, lr, i, m));
    return REPLAY_OK;
}

/* p3 is the log scale: its own rate, no decay, and bounds. */
static int adamw_tensor(const golden_case *c, outputs *o, const gf_optim_rule *adam, const gf_npy *lr, double scale_max,
                        int index, message *m) {
    tensor x = {.g = NULL};
    int code = open_tensor(&x, c, index, lr->count, m);
    x.param.decay = 1; /* the case gives the decay of each tensor by itself */
    for (int64_t t = 0; t < lr->count && code == REPLAY_OK; t++) {
        const int64_t n = (int64_t)x.param.n;
        load_gradient(&x, t);
        const gf_optim_scalars now = gf_optim_scalars_at(adam, gf_npy_f64(lr, t), t + 1);
        gf_optim_update(adam, &now, &x.param, 1);
        for (int64_t i = 0; index == 3 && i < n; i++) x.param.p[i] = (float)gf_clamp_log_scale(x.param.p[i], scale_max);
        outputs_float(o, x.name, t * n, x.param.p, n);
    }
    close_tensor(&x);
    return code;
}

int run_adamw(const golden_case *c, outputs *o, message *m) {
    gf_optim_rule adam = {.kind = GF_OPTIM_ADAMW};
    int64_t steps = 0;
    double decay[2], scale_max = 0.0;
    const gf_npy *lr = NULL, *lr_tau = NULL;
    PASS(golden_number(c, "beta1", &adam.beta1, m));
    PASS(golden_number(c, "beta2", &adam.beta2, m));
    PASS(golden_number(c, "eps", &adam.eps, m));
    PASS(golden_number(c, "weight_decay_p0_p1", &decay[0], m));
    PASS(golden_number(c, "weight_decay_p2_p3", &decay[1], m));
    PASS(golden_number(c, "logit_scale_bound", &scale_max, m));
    PASS(golden_integer(c, "steps", 1, 1 << 30, &steps, m));
    PASS(golden_array(c, "lr", 1, &steps, &lr, m));
    PASS(golden_array(c, "lr_tau", 1, &steps, &lr_tau, m));
    for (int i = 0; i < 4; i++) {
        adam.weight_decay = decay[i / 2];
        PASS(adamw_tensor(c, o, &adam, i == 3 ? lr_tau : lr, scale_max, i, m));
    }
    return REPLAY_OK;
}

/* ----- schedules ------------------------------------------------------------------------------------------------ */

int run_lr_unimodal(const golden_case *c, outputs *o, message *m) {
    double lr = 0.0, warmup = 0.0, epochs = 0.0;
    const int64_t any = -1;
    const gf_npy *epoch = NULL;
    PASS(golden_number(c, "lr", &lr, m));
    PASS(golden_number(c, "warmup_epochs", &warmup, m));
    PASS(golden_number(c, "epochs", &epochs, m));
    PASS(golden_array(c, "epoch", 1, &any, &epoch, m));
    for (int64_t t = 0; t < epoch->count; t++)
        outputs_one(o, "lr", t, gf_lr_cosine_epochs(lr, gf_npy_f64(epoch, t), warmup, epochs));
    return REPLAY_OK;
}

int run_lr_cosine(const golden_case *c, outputs *o, message *m) {
    double lr = 0.0, lr_min = 0.0;
    int64_t warmup = 0, total = 0;
    const int64_t any = -1;
    const gf_npy *step = NULL;
    PASS(golden_number(c, "base_lr", &lr, m));
    PASS(golden_number(c, "lr_min", &lr_min, m));
    PASS(golden_integer(c, "warmup_steps", 0, INT64_C(1) << 53, &warmup, m));
    PASS(golden_integer(c, "total_steps", 0, INT64_C(1) << 53, &total, m));
    PASS(golden_array(c, "step", 1, &any, &step, m));
    for (int64_t t = 0; t < step->count; t++)
        outputs_one(o, "lr", t, gf_lr_cosine_steps(lr, lr_min, gf_npy_i64(step, t), warmup, total));
    return REPLAY_OK;
}

int run_lr_tau(const golden_case *c, outputs *o, message *m) {
    double lr = 0.0, ratio = 0.0, threshold = 0.0;
    const int64_t any = -1;
    const gf_npy *log_scale = NULL;
    PASS(golden_number(c, "base_lr", &lr, m));
    PASS(golden_number(c, "ratio", &ratio, m));
    PASS(golden_number(c, "threshold", &threshold, m));
    PASS(golden_array(c, "log_scale", 1, &any, &log_scale, m));
    for (int64_t t = 0; t < log_scale->count; t++)
        outputs_one(o, "lr", t, gf_lr_tau_threshold(lr, ratio, threshold, gf_npy_f64(log_scale, t)));
    return REPLAY_OK;
}

int run_gamma(const golden_case *c, outputs *o, message *m) {
    double gamma_min = 0.0, decay = 0.0;
    const char *schedule = "cosine";
    const int64_t any = -1;
    const gf_npy *epoch = NULL;
    if (golden_has(c, "schedule")) PASS(golden_text(c, "schedule", &schedule, m));
    const int cosine = strcmp(schedule, "cosine") == 0;
    PASS(golden_number(c, "gamma_min", &gamma_min, m));
    if (cosine) PASS(golden_number(c, "gamma_decay_epochs", &decay, m));
    PASS(golden_array(c, "epoch", 1, &any, &epoch, m));
    for (int64_t t = 0; t < epoch->count; t++)
        outputs_one(o, "gamma", t, cosine ? gf_gamma_cosine(gamma_min, gf_npy_i64(epoch, t), decay) : gamma_min);
    return REPLAY_OK;
}

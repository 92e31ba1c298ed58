/* linear_probe.c - see linear_probe.h. */
#include "eval/linear_probe.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "optim/optim.h"
#include "optim/schedule.h"
#include "util/array.h"
#include "util/rng.h"

#define INIT_STD 0.01 /* of the initial weights; biases start at 0 */

typedef struct trainer {
    gf_probe *p;
    gf_linear *m;
    float *state; /* two moments each of weights and biases */
    gf_param params[2];
    int64_t step;
    int64_t *batch; /* [protocol batch] rows of a step */
    int32_t *rank;  /* [test or validation rows] */
} trainer;

/* ----- set-up ----- */

static void init_weights(gf_linear *m, uint64_t seed) {
    for (int64_t c = 0; c < m->classes; c++) {
        gf_rng r = gf_rng_at(seed, GF_RNG_INIT, 0, (uint64_t)c, 0);
        for (int64_t a = 0; a < m->dim; a++) m->weight[c * m->ld + a] = (float)(INIT_STD * gf_rng_normal(&r));
    }
}

static gf_param param(float *p, float *g, float *state, int64_t n, int decay) {
    return (gf_param){.p = p, .g = g, .state1 = state, .state2 = state + n, .n = (size_t)n, .decay = decay};
}

static glofnd_status init_trainer(gf_error *err, trainer *t) {
    const gf_probe *p = t->p;
    const int64_t checked = p->validation ? p->validation->n : 0, max = GF_MAX(checked, p->test->n);
    TRY(gf_linear_create(err, p->test->dim, p->classes, p->threads, &t->m));
    const int64_t plane = t->m->rows * t->m->ld;
    t->state = calloc((size_t)(2 * (plane + t->m->rows)), sizeof *t->state);
    t->batch = malloc((size_t)p->protocol->batch * sizeof *t->batch);
    t->rank = malloc((size_t)max * sizeof *t->rank);
    FAIL_IF(err, !t->state || !t->batch || !t->rank, GLOFND_E_MEMORY, "no memory for linear evaluation");
    t->params[0] = param(t->m->weight, t->m->d_weight, t->state, plane, 1);
    t->params[1] = param(t->m->bias, t->m->d_bias, t->state + 2 * plane, t->m->rows, 0);
    init_weights(t->m, p->seed);
    return GLOFND_OK;
}

static void free_trainer(trainer *t) {
    gf_linear_free(t->m);
    free(t->state);
    free(t->batch);
    free(t->rank);
}

/* ----- training ----- */

static void update(trainer *t, double lr) {
    const gf_probe_protocol *q = t->p->protocol;
    const gf_optim_rule rule = {.kind = q->adamw ? GF_OPTIM_ADAMW : GF_OPTIM_SGD,
                                .momentum = q->momentum,
                                .weight_decay = q->weight_decay,
                                .beta1 = q->momentum,
                                .beta2 = 0.999,
                                .eps = 1e-8};
    const gf_optim_scalars now = gf_optim_scalars_at(&rule, lr, ++t->step);
    gf_optim_update(&rule, &now, t->params, 2);
}

/* The learning rate changes by epoch, as in the authors' script; the last batch may be smaller. */
static glofnd_status train_epoch(gf_error *err, trainer *t, int64_t epoch) {
    const gf_probe_protocol *q = t->p->protocol;
    const double peak = q->lr_by_batch ? gf_lr_scaled_linear(q->lr, q->batch) : q->lr;
    const double lr = gf_lr_cosine_epochs(peak, (double)epoch, 0.0, (double)t->p->epochs);
    gf_probe_rows rows;
    TRY(t->p->epoch(err, t->p->user, epoch, &rows));
    FAIL_IF(err, rows.n < 1, GLOFND_E_ARGUMENT, "epoch %lld has no training sample", (long long)epoch + 1);
    for (int64_t first = 0; first < rows.n; first += q->batch) {
        const int64_t n = rows.n - first < q->batch ? rows.n - first : q->batch;
        for (int64_t i = 0; i < n; i++) {
            const int64_t at = gf_permute(t->p->seed, (uint32_t)epoch, rows.n, first + i);
            t->batch[i] = rows.rows ? rows.rows[at] : at;
        }
        const double loss = gf_linear_loss(t->m, rows.f, t->batch, n);
        FAIL_IF(err, !isfinite(loss), GLOFND_E_NUMERIC, "the loss of linear evaluation is not finite in epoch %lld",
                (long long)epoch + 1);
        update(t, lr);
    }
    return GLOFND_OK;
}

/* ----- scoring ----- */

/* Scores after `epoch` (from 1). */
static void score_epoch(trainer *t, int64_t epoch) {
    gf_probe *p = t->p;
    double score = NAN;
    if (p->validation) {
        gf_linear_rank(t->m, p->validation, t->rank);
        score = gf_rank_top(t->rank, p->validation->n, 1);
    }
    gf_linear_rank(t->m, p->test, t->rank);
    p->last_top1 = gf_rank_top(t->rank, p->test->n, 1);
    p->last_top5 = gf_rank_top(t->rank, p->test->n, 5);
    p->epochs_run = epoch;
    if (!p->validation) score = p->last_top1;
    if (p->best_epoch && !(score > p->validation_top1)) return;
    p->best_epoch = epoch;
    p->validation_top1 = score;
    p->top1 = p->last_top1;
    p->top5 = p->last_top5;
}

static glofnd_status train(gf_error *err, trainer *t) {
    gf_probe *p = t->p;
    for (int64_t epoch = 0; epoch < p->epochs; epoch++) {
        TRY(train_epoch(err, t, epoch));
        score_epoch(t, epoch + 1);
        if (p->progress) p->progress(p->user, epoch + 1, p->validation_top1);
        if (p->epochs_run - p->best_epoch >= p->protocol->patience) break;
    }
    return GLOFND_OK;
}

glofnd_status gf_probe_fit(gf_error *err, gf_probe *p) {
    trainer t = {.p = p};
    FAIL_IF(err, p->epochs < 1, GLOFND_E_OPTION, "epochs is %lld; expected at least 1", (long long)p->epochs);
    p->epochs_run = p->best_epoch = 0;
    p->top1 = p->top5 = p->last_top1 = p->last_top5 = p->validation_top1 = NAN;
    glofnd_status status = init_trainer(err, &t);
    if (status == GLOFND_OK) status = train(err, &t);
    free_trainer(&t);
    return status;
}

/* step_ranks.c - see step_ranks.h. */
#include "dist/step_ranks.h"

#include <stdlib.h>

#include "device/averages.h"
#include "method/step.h"
#include "util/status.h"

/* ----- life ----- */

glofnd_status gf_step_ranks_open(gf_error *err, gf_comm *host, gf_comm *device, const gf_shard_spec *spec, gf_step_ranks *out) {
    const size_t cols = (size_t)spec->rows * (size_t)host->ranks;
    *out = (gf_step_ranks){.host = host,
                           .device = device,
                           .rows = spec->rows,
                           .cols = (int64_t)cols,
                           .row0 = spec->rows * host->rank,
                           .bank_dim = spec->bank_dim};
    out->id = malloc(sizeof *out->id * cols);
    out->label = malloc(sizeof *out->label * cols);
    out->group = malloc(sizeof *out->group * cols);
    glofnd_status status = GLOFND_OK;
    if (!out->id || !out->label || !out->group) status = gf_fail(err, GLOFND_E_MEMORY, "no memory for a batch of %zu ids", cols);
    if (status == GLOFND_OK) status = gf_shard_create(err, host, spec, &out->shard);
    if (status != GLOFND_OK) gf_step_ranks_close(out);
    return status;
}

void gf_step_ranks_close(gf_step_ranks *t) {
    gf_shard_free(t->shard);
    free(t->id);
    free(t->label);
    free(t->group);
    *t = (gf_step_ranks){0};
}

/* ----- a step ----- */

static glofnd_status gather(gf_error *err, gf_comm *c, const void *part, size_t bytes, void *all) {
    return part ? c->ops->gather(err, c, part, bytes, all) : GLOFND_OK;
}

glofnd_status gf_step_ranks_draw(gf_error *err, gf_step_ranks *t, const int64_t *id, const int32_t *label, const int32_t *group,
                                 glofnd_ctx *c, glofnd_store *work) {
    const size_t rows = (size_t)t->rows;
    TRY(gather(err, t->host, id, rows * sizeof *id, t->id));
    TRY(gather(err, t->host, label, rows * sizeof *label, t->label));
    TRY(gather(err, t->host, group, rows * sizeof *group, t->group));
    return gf_shard_fetch(err, t->shard, t->id, c, work);
}

/* x [cols][dim]: the rows of all ranks */
static glofnd_status gather_rows(gf_error *err, const gf_step_ranks *t, const float *x, int64_t dim) {
    float *all = (float *)(uintptr_t)x;
    return gather(err, t->device, all + t->row0 * dim, sizeof(float) * (size_t)(t->rows * dim), all);
}

/* Memory for the averages of the batch, of side i; NULL: there are none. */
static uint16_t *averages(const gf_step_ranks *t, const glofnd_batch *q, int i) {
    return t->bank_dim ? (uint16_t *)(uintptr_t)(i ? q->bank_b : q->bank_a) : NULL;
}

/* Those before the step, from the own store. */
static glofnd_status read_averages(gf_error *err, const gf_step_ranks *t, glofnd_ctx *c, glofnd_store *work,
                                   const glofnd_batch *q) {
    for (int i = 0; i < 2; i++)
        if (averages(t, q, i)) TRY(gf_ctx_status(err, c, gf_averages_move(c, work, 0, i, q->id, t->cols, averages(t, q, i))));
    return GLOFND_OK;
}

/* A step writes those of the own samples; those of the other ranks' follow. */
static glofnd_status share_averages(gf_error *err, const gf_step_ranks *t, glofnd_ctx *c, glofnd_store *work,
                                    const glofnd_batch *q) {
    const size_t bytes = sizeof(uint16_t) * (size_t)(t->rows * t->bank_dim);
    for (int i = 0; i < 2; i++) {
        uint16_t *all = averages(t, q, i), *own = all ? all + t->row0 * t->bank_dim : NULL;
        if (!all) continue;
        TRY(gf_ctx_status(err, c, gf_averages_move(c, work, 0, i, q->id + t->row0, t->rows, own)));
        TRY(gather(err, t->device, own, bytes, all));
        TRY(gf_ctx_status(err, c, gf_averages_move(c, work, 1, i, q->id, t->cols, all)));
    }
    return GLOFND_OK;
}

glofnd_status gf_step_ranks_step(gf_error *err, gf_step_ranks *t, glofnd_ctx *c, glofnd_store *work, const glofnd_batch *q,
                                 void *links, float *grad_a, float *grad_b, glofnd_stats *stats) {
    char *own = (char *)links + GLOFND_LINK_BYTES * t->row0;
    glofnd_batch mine = *q;
    mine.rows = t->rows, mine.cols = t->cols, mine.row0 = t->row0;
    TRY(read_averages(err, t, c, work, q));
    TRY(gather_rows(err, t, q->a, q->dim));
    TRY(gather_rows(err, t, q->b, q->dim));
    if (c->o.detector == GLOFND_DETECT_COMPONENTS)
        TRY(gf_ctx_status(err, c, gf_batch_components(c, &mine, (int32_t *)(uintptr_t)q->group)));
    TRY(gf_ctx_status(err, c, glofnd_step_rows(c, work, &mine, own, stats)));
    TRY(gather(err, t->device, own, GLOFND_LINK_BYTES * (size_t)t->rows, links));
    TRY(gf_ctx_status(err, c, glofnd_step_grad(c, &mine, links, grad_a, grad_b, stats)));
    return share_averages(err, t, c, work, q);
}

/* Sums over ranks, and means of numbers that every rank's rows have the same share in. NaN stays NaN. */
static glofnd_status total(gf_error *err, gf_comm *c, glofnd_stats *s) {
    double *const sums[] = {&s->loss, &s->grad_tau, &s->grad_scale};
    double *const means[] = {&s->kept_share, &s->detector_share, &s->lambda_mean, &s->quantile_mean, &s->log_u_mean,
                             &s->tau_mean,   &s->precision,      &s->recall,      &s->neighbours};
    int64_t *const counts[] = {&s->pairs, &s->flagged, &s->same, &s->hits, &s->rescued, &s->repeats};
    enum { SUMS = 3, MEANS = 9, COUNTS = 6 };
    double x[SUMS + MEANS + COUNTS];
    for (int i = 0; i < SUMS; i++) x[i] = *sums[i];
    for (int i = 0; i < MEANS; i++) x[SUMS + i] = *means[i] / c->ranks;
    for (int i = 0; i < COUNTS; i++) x[SUMS + MEANS + i] = (double)*counts[i];
    TRY(c->ops->sum(err, c, x, SUMS + MEANS + COUNTS));
    for (int i = 0; i < SUMS; i++) *sums[i] = x[i];
    for (int i = 0; i < MEANS; i++) *means[i] = x[SUMS + i];
    for (int i = 0; i < COUNTS; i++) *counts[i] = (int64_t)x[SUMS + MEANS + i];
    return GLOFND_OK;
}

glofnd_status gf_step_ranks_finish(gf_error *err, gf_step_ranks *t, glofnd_ctx *c, glofnd_store *work, glofnd_stats *stats) {
    TRY(gf_shard_return(err, t->shard, t->id, c, work));
    return total(err, t->host, stats);
}

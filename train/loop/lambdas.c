/* lambdas.c - see lambdas.h. Each rank writes the thresholds of its own anchors to their places, and zeros elsewhere: the sum
 * over ranks is that of all, without rounding. */
#include "loop/lambdas.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static glofnd_status reserve(gf_error *err, const gf_trainer *t, int64_t stride, gf_lambdas *x) {
    x->count = (t->info.n + stride - 1) / stride;
    for (int k = 0; k < t->encoders.count && !x->side[k]; k++) {
        x->side[k] = malloc(sizeof(float) * (size_t)x->count);
        FAIL_IF(err, !x->side[k], GLOFND_E_MEMORY, "no memory for %lld thresholds", (long long)x->count);
    }
    return GLOFND_OK;
}

static glofnd_status get(gf_error *err, glofnd_ctx *c, const glofnd_store *s, int side, const int64_t *id, int64_t n,
                         glofnd_anchor *row) {
    const glofnd_status status = glofnd_anchors_get(c, s, side, id, n, row);
    FAIL_IF(err, status != GLOFND_OK, status, "thresholds cannot be read: %s", glofnd_ctx_error(c));
    return GLOFND_OK;
}

/* This rank's anchors among every stride-th. In parts, since every call may go to a device. */
static glofnd_status take_own(gf_error *err, const gf_trainer *t, int side, int64_t stride, int64_t count, float *out) {
    enum { PART = 512 };
    const int rank = t->comm ? t->comm->rank : 0, ranks = t->comm ? t->comm->ranks : 1;
    const gf_shard *own = gf_loss_stage_shard(t->loss);
    glofnd_ctx *whole = gf_loss_stage_ctx(t->loss);
    glofnd_ctx *c = own ? gf_shard_ctx(own) : whole;
    const glofnd_store *store = own ? gf_shard_store(own) : gf_loss_stage_store(t->loss);
    const int64_t shared_id = GLOFND_SHARED;
    glofnd_anchor row[PART], shared;
    int64_t id[PART], place[PART];
    TRY(get(err, whole, gf_loss_stage_store(t->loss), side, &shared_id, 1, &shared));
    for (int64_t k = 0; k < count;) {
        int64_t n = 0;
        for (; n < PART && k < count; k++)
            if (k * stride % ranks == rank) id[n] = k * stride / ranks, place[n++] = k;
        if (n > 0) TRY(get(err, c, store, side, id, n, row));
        for (int64_t i = 0; i < n; i++) out[place[i]] = row[i].clock > 0 || shared.clock == 0 ? row[i].lambda : shared.lambda;
    }
    return GLOFND_OK;
}

glofnd_status gf_lambdas_take(gf_error *err, const gf_trainer *t, int64_t max, gf_lambdas *x) {
    const int64_t stride = (t->info.n + max - 1) / max;
    TRY(reserve(err, t, stride, x));
    for (int k = 0; k < t->encoders.count; k++) {
        memset(x->side[k], 0, sizeof(float) * (size_t)x->count);
        TRY(take_own(err, t, k, stride, x->count, x->side[k]));
        if (t->comm) TRY(t->comm->ops->sum_floats(err, t->comm, x->side[k], x->count));
    }
    return GLOFND_OK;
}

void gf_lambdas_free(gf_lambdas *x) {
    for (int k = 0; k < 2; k++) free(x->side[k]);
    *x = (gf_lambdas){0};
}

double gf_lambdas_mean(const gf_lambdas *x, int side) {
    double sum = 0.0;
    for (int64_t i = 0; x->side[side] && i < x->count; i++) sum += (double)x->side[side][i];
    return x->side[side] && x->count > 0 ? sum / (double)x->count : NAN;
}

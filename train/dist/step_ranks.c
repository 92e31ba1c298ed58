/* step_ranks.c - see step_ranks.h. */
#include "dist/step_ranks.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "method/step.h"
#include "util/status.h"

struct gf_shard {
    gf_comm *comm;
    gf_shard_spec spec;
    int sides; /* modalities of an anchor */
    glofnd_ctx *ctx;
    glofnd_store *store;          /* own anchors: row i div R */
    int64_t *slot;                /* [rows] 0, 1, ... */
    int64_t *mine;                /* [ranks * rows] rows of `store` that ranks draw, in the order of ranks */
    int64_t *from;                /* [rows] rows of the working store: own samples ordered by their owner */
    size_t *out_bytes, *in_bytes; /* [ranks] */
    glofnd_anchor *out, *in;      /* [modalities][...] rows on their way */
    glofnd_anchor *side;          /* [ranks * rows] of one modality */
};

/* ----- the anchors of all ranks ----- */

static glofnd_status make_store(gf_error *err, gf_shard *s) {
    const int64_t own = gf_shard_size(s->spec.n, s->comm->rank, s->comm->ranks);
    const glofnd_store_spec spec = {.size = sizeof spec, .n = own > 0 ? own : 1};
    glofnd_store_info info = {.size = sizeof info};
    glofnd_options plain;
    gf_method_options_init(&plain);
    plain.loss = s->spec.loss, plain.pairing = s->spec.pairing;
    TRY(gf_ctx_create(err, &plain, &s->ctx));
    TRY(gf_ctx_status(err, s->ctx, glofnd_store_create(s->ctx, &spec, &s->store)));
    TRY(glofnd_store_describe(s->store, &info));
    s->sides = info.modalities;
    return GLOFND_OK;
}

static glofnd_status make_buffers(gf_error *err, gf_shard *s) {
    const size_t ranks = (size_t)s->comm->ranks, rows = (size_t)s->spec.rows, all = ranks * rows;
    s->slot = malloc(sizeof *s->slot * rows);
    s->mine = malloc(sizeof *s->mine * all);
    s->from = malloc(sizeof *s->from * rows);
    s->out_bytes = malloc(sizeof *s->out_bytes * ranks);
    s->in_bytes = malloc(sizeof *s->in_bytes * ranks);
    s->out = malloc(sizeof *s->out * all * (size_t)s->sides);
    s->in = malloc(sizeof *s->in * all * (size_t)s->sides);
    s->side = malloc(sizeof *s->side * all);
    FAIL_IF(err, !s->slot || !s->mine || !s->from || !s->out_bytes || !s->in_bytes || !s->out || !s->in || !s->side,
            GLOFND_E_MEMORY, "no memory for the state of %zu samples", all);
    for (int64_t i = 0; i < s->spec.rows; i++) s->slot[i] = i;
    return GLOFND_OK;
}

/* NULL is fine */
static void shard_free(gf_shard *s) {
    if (!s) return;
    glofnd_store_free(s->store);
    glofnd_ctx_free(s->ctx);
    void *const all[] = {s->slot, s->mine, s->from, s->out_bytes, s->in_bytes, s->out, s->in, s->side};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) free(all[i]);
    free(s);
}

static glofnd_status shard_create(gf_error *err, gf_comm *c, const gf_shard_spec *spec, gf_shard **out) {
    gf_shard *s = calloc(1, sizeof *s);
    *out = NULL;
    FAIL_IF(err, !s, GLOFND_E_MEMORY, "no memory for a shard");
    s->comm = c;
    s->spec = *spec;
    glofnd_status status = make_store(err, s);
    if (status == GLOFND_OK) status = make_buffers(err, s);
    if (status == GLOFND_OK) *out = s;
    else shard_free(s);
    return status;
}

const int64_t *gf_shard_slots(const gf_shard *s) { return s->spec.bank_dim ? NULL : s->slot; }
glofnd_ctx *gf_shard_ctx(const gf_shard *s) { return s->ctx; }
glofnd_store *gf_shard_store(const gf_shard *s) { return s->store; }

/* ----- the anchors of all ranks: a step ----- */

/* mine: rows of the own store that each rank draws; from: own samples by owner. Bytes per rank: drawn[r] of mine, kept[r] of
 * from. */
static int64_t sort_out(gf_shard *s, const int64_t *id, size_t *drawn, size_t *kept) {
    const int ranks = s->comm->ranks, me = s->comm->rank;
    const int64_t rows = s->spec.rows;
    const size_t row = sizeof(glofnd_anchor) * (size_t)s->sides;
    int64_t count = 0, own = 0;
    for (int r = 0; r < ranks; r++) {
        const int64_t before = count, own_before = own;
        for (int64_t i = r * rows; i < (r + 1) * rows; i++)
            if (id[i] % ranks == me) s->mine[count++] = id[i] / ranks;
        for (int64_t i = 0; i < rows; i++)
            if (id[me * rows + i] % ranks == r) s->from[own++] = s->spec.bank_dim ? id[me * rows + i] : i;
        drawn[r] = row * (size_t)(count - before);
        kept[r] = row * (size_t)(own - own_before);
    }
    return count;
}

/* Rows `at` [n] of a store, all modalities of a row side by side in `rows`. */
static glofnd_status read_rows(gf_error *err, gf_shard *s, glofnd_ctx *c, const glofnd_store *store, const int64_t *at, int64_t n,
                               glofnd_anchor *rows) {
    const int sides = s->sides;
    for (int side = 0; side < sides; side++) {
        TRY(gf_ctx_status(err, c, glofnd_anchors_get(c, store, side, at, n, s->side)));
        for (int64_t i = 0; i < n; i++) rows[i * sides + side] = s->side[i];
    }
    return GLOFND_OK;
}

static glofnd_status write_rows(gf_error *err, gf_shard *s, glofnd_ctx *c, glofnd_store *store, const int64_t *at, int64_t n,
                                const glofnd_anchor *rows) {
    const int sides = s->sides;
    for (int side = 0; side < sides; side++) {
        for (int64_t i = 0; i < n; i++) s->side[i] = rows[i * sides + side];
        TRY(gf_ctx_status(err, c, glofnd_anchors_put(c, store, side, at, n, s->side)));
    }
    return GLOFND_OK;
}

/* id [ranks * rows]: of the whole batch, in the order of ranks. State of the own samples to rows 0 .. (with averages: to the rows
 * of their ids) of `work`, a store of context c, before the step. */
static glofnd_status shard_fetch(gf_error *err, gf_shard *s, const int64_t *id, glofnd_ctx *c, glofnd_store *work) {
    const int64_t drawn = sort_out(s, id, s->out_bytes, s->in_bytes);
    TRY(read_rows(err, s, s->ctx, s->store, s->mine, drawn, s->out));
    TRY(s->comm->ops->exchange(err, s->comm, s->out, s->out_bytes, s->in, s->in_bytes));
    return write_rows(err, s, c, work, s->from, s->spec.rows, s->in);
}

/* And back to its owners, after the step. */
static glofnd_status shard_return(gf_error *err, gf_shard *s, const int64_t *id, glofnd_ctx *c, glofnd_store *work) {
    const int64_t drawn = sort_out(s, id, s->in_bytes, s->out_bytes);
    TRY(read_rows(err, s, c, work, s->from, s->spec.rows, s->out));
    if (s->spec.bank_dim) {
        /* Rows of the working store become those of anchors never seen. */
        for (int64_t i = 0; i < s->spec.rows; i++) s->side[i] = (glofnd_anchor){.lambda = 1.0f, .log_u = -INFINITY};
        for (int side = 0; side < s->sides; side++)
            TRY(gf_ctx_status(err, c, glofnd_anchors_put(c, work, side, s->from, s->spec.rows, s->side)));
    }
    TRY(s->comm->ops->exchange(err, s->comm, s->out, s->out_bytes, s->in, s->in_bytes));
    return write_rows(err, s, s->ctx, s->store, s->mine, drawn, s->in);
}

/* ----- the anchors of all ranks: checkpoints ----- */

glofnd_status gf_shard_adopt(gf_error *err, gf_shard *s, glofnd_ctx *c, const glofnd_store *from, int64_t first, int64_t stride) {
    const int ranks = s->comm->ranks, me = s->comm->rank;
    glofnd_store_info info = {.size = sizeof info};
    glofnd_store_describe(from, &info);
    for (int64_t k = 0; k < info.n && first + k * stride < s->spec.n; k++) {
        const int64_t id = first + k * stride, place = id / ranks;
        if (id % ranks != me) continue;
        TRY(read_rows(err, s, c, from, &k, 1, s->out));
        TRY(write_rows(err, s, s->ctx, s->store, &place, 1, s->out));
    }
    return GLOFND_OK;
}

/* ----- the step ----- */

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
    if (status == GLOFND_OK) status = shard_create(err, host, spec, &out->shard);
    if (status != GLOFND_OK) gf_step_ranks_close(out);
    return status;
}

void gf_step_ranks_close(gf_step_ranks *r) {
    shard_free(r->shard);
    free(r->id);
    free(r->label);
    free(r->group);
    *r = (gf_step_ranks){0};
}

static glofnd_status gather_part(gf_error *err, gf_comm *c, const void *part, size_t bytes, void *all) {
    return part ? c->ops->gather(err, c, part, bytes, all) : GLOFND_OK;
}

glofnd_status gf_step_ranks_draw(gf_error *err, gf_step_ranks *r, const int64_t *id, const int32_t *label, const int32_t *group,
                                 glofnd_ctx *c, glofnd_store *work) {
    const size_t rows = (size_t)r->rows;
    TRY(gather_part(err, r->host, id, rows * sizeof *id, r->id));
    TRY(gather_part(err, r->host, label, rows * sizeof *label, r->label));
    TRY(gather_part(err, r->host, group, rows * sizeof *group, r->group));
    return shard_fetch(err, r->shard, r->id, c, work);
}

/* x [cols][dim]: the rows of all ranks */
static glofnd_status gather_rows(gf_error *err, const gf_step_ranks *r, const float *x, int64_t dim) {
    float *all = (float *)(uintptr_t)x;
    return gather_part(err, r->device, all + r->row0 * dim, sizeof(float) * (size_t)(r->rows * dim), all);
}

/* Memory for the averages of the batch, of side i; NULL: there are none. */
static uint16_t *averages(const gf_step_ranks *r, const glofnd_batch *q, int i) {
    return r->bank_dim ? (uint16_t *)(uintptr_t)(i ? q->extra->bank_b : q->extra->bank_a) : NULL;
}

glofnd_status gf_step_ranks_step(gf_error *err, gf_step_ranks *r, glofnd_ctx *c, glofnd_store *work, const glofnd_batch *q,
                                 const int64_t *slot, void *links, float *grad_a, float *grad_b, glofnd_stats *stats) {
    char *own_links = (char *)links + GLOFND_LINK_BYTES * r->row0;
    const glofnd_own_rows own = {.size = sizeof own, .first = r->row0, .rows = r->rows, .slot = slot};
    /* Averages as they were before the step, from the own store. */
    for (int i = 0; i < 2; i++)
        if (averages(r, q, i)) TRY(gf_ctx_status(err, c, gf_averages_move(c, work, 0, i, q->id, r->cols, averages(r, q, i))));
    TRY(gather_rows(err, r, q->a, q->dim));
    TRY(gather_rows(err, r, q->b, q->dim));
    if (c->o.detector == GLOFND_DETECT_COMPONENTS)
        TRY(gf_ctx_status(err, c, gf_batch_components(c, q, &own, (int32_t *)(uintptr_t)q->group)));
    TRY(gf_ctx_status(err, c, glofnd_step_rows(c, work, q, &own, own_links, stats)));
    TRY(gather_part(err, r->device, own_links, GLOFND_LINK_BYTES * (size_t)r->rows, links));
    TRY(gf_ctx_status(err, c, glofnd_step_grad(c, q, &own, links, grad_a, grad_b, stats)));
    /* A step writes the averages of the own samples; those of the other ranks' follow. */
    const size_t bytes = sizeof(uint16_t) * (size_t)(r->rows * r->bank_dim);
    for (int i = 0; i < 2; i++) {
        uint16_t *all = averages(r, q, i), *part = all ? all + r->row0 * r->bank_dim : NULL;
        if (!all) continue;
        TRY(gf_ctx_status(err, c, gf_averages_move(c, work, 0, i, q->id + r->row0, r->rows, part)));
        TRY(gather_part(err, r->device, part, bytes, all));
        TRY(gf_ctx_status(err, c, gf_averages_move(c, work, 1, i, q->id, r->cols, all)));
    }
    return GLOFND_OK;
}

glofnd_status gf_step_ranks_finish(gf_error *err, gf_step_ranks *r, glofnd_ctx *c, glofnd_store *work, glofnd_stats *stats,
                                   glofnd_counters *counters) {
    TRY(shard_return(err, r->shard, r->id, c, work));
    /* Sums over ranks, and means of numbers that every rank's rows have the same share in. NaN stays NaN. */
    double *const sums[] = {&stats->loss, &stats->grad_tau, &stats->grad_scale, &stats->grad_bias};
    double *const means[] = {&stats->kept_share,           &stats->detector_share,    &stats->lambda_mean,
                             &stats->quantile_mean,        &stats->log_u_mean,        &stats->tau_mean,
                             &stats->precision_per_anchor, &stats->recall_per_anchor, &counters->neighbours};
    int64_t *const counts[] = {&stats->pairs, &stats->flagged, &stats->same, &stats->hits, &stats->rescued, &counters->repeats};
    enum { SUMS = 4, MEANS = 9, COUNTS = 6 };
    double x[SUMS + MEANS + COUNTS];
    for (int i = 0; i < SUMS; i++) x[i] = *sums[i];
    for (int i = 0; i < MEANS; i++) x[SUMS + i] = *means[i] / r->host->ranks;
    for (int i = 0; i < COUNTS; i++) x[SUMS + MEANS + i] = (double)*counts[i];
    TRY(r->host->ops->sum(err, r->host, x, SUMS + MEANS + COUNTS));
    for (int i = 0; i < SUMS; i++) *sums[i] = x[i];
    for (int i = 0; i < MEANS; i++) *means[i] = x[SUMS + i];
    for (int i = 0; i < COUNTS; i++) *counts[i] = (int64_t)x[SUMS + MEANS + i];
    gf_stats_pool(stats);
    return GLOFND_OK;
}

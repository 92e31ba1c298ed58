/* shard.c - see shard.h. */
#include "dist/shard.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

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
    glofnd_row *out, *in;         /* [modalities][...] rows on their way */
    glofnd_row *side;             /* [ranks * rows] of one modality */
};

/* ----- life ----- */

static glofnd_status make_store(gf_error *err, gf_shard *s) {
    const int64_t own = gf_shard_size(s->spec.n, s->comm->rank, s->comm->ranks);
    const glofnd_store_spec spec = {.size = sizeof spec, .n = own > 0 ? own : 1};
    glofnd_store_info info = {.size = sizeof info};
    glofnd_options plain;
    gf_method_options_init(&plain);
    plain.loss = s->spec.loss;
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

glofnd_status gf_shard_create(gf_error *err, gf_comm *c, const gf_shard_spec *spec, gf_shard **out) {
    gf_shard *s = calloc(1, sizeof *s);
    *out = NULL;
    FAIL_IF(err, !s, GLOFND_E_MEMORY, "no memory for a shard");
    s->comm = c;
    s->spec = *spec;
    glofnd_status status = make_store(err, s);
    if (status == GLOFND_OK) status = make_buffers(err, s);
    if (status == GLOFND_OK) *out = s;
    else gf_shard_free(s);
    return status;
}

void gf_shard_free(gf_shard *s) {
    if (!s) return;
    glofnd_store_free(s->store);
    glofnd_ctx_free(s->ctx);
    void *const all[] = {s->slot, s->mine, s->from, s->out_bytes, s->in_bytes, s->out, s->in, s->side};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) free(all[i]);
    free(s);
}

const int64_t *gf_shard_slots(const gf_shard *s) { return s->spec.bank_dim ? NULL : s->slot; }
glofnd_ctx *gf_shard_ctx(const gf_shard *s) { return s->ctx; }
glofnd_store *gf_shard_store(const gf_shard *s) { return s->store; }

/* ----- a step ----- */

/* mine: rows of the own store that each rank draws; from: own samples by owner. Bytes per rank: drawn[r] of mine, kept[r] of
 * from. */
static int64_t sort_out(gf_shard *s, const int64_t *id, size_t *drawn, size_t *kept) {
    const int ranks = s->comm->ranks, me = s->comm->rank;
    const int64_t rows = s->spec.rows;
    const size_t row = sizeof(glofnd_row) * (size_t)s->sides;
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
                               glofnd_row *rows) {
    const int sides = s->sides;
    for (int side = 0; side < sides; side++) {
        TRY(gf_ctx_status(err, c, glofnd_rows_get(c, store, side, at, n, s->side)));
        for (int64_t i = 0; i < n; i++) rows[i * sides + side] = s->side[i];
    }
    return GLOFND_OK;
}

static glofnd_status write_rows(gf_error *err, gf_shard *s, glofnd_ctx *c, glofnd_store *store, const int64_t *at, int64_t n,
                                const glofnd_row *rows) {
    const int sides = s->sides;
    for (int side = 0; side < sides; side++) {
        for (int64_t i = 0; i < n; i++) s->side[i] = rows[i * sides + side];
        TRY(gf_ctx_status(err, c, glofnd_rows_put(c, store, side, at, n, s->side)));
    }
    return GLOFND_OK;
}

/* Rows `at` [n] of the working store become those of anchors never seen. */
static glofnd_status forget_rows(gf_error *err, gf_shard *s, glofnd_ctx *c, glofnd_store *work, const int64_t *at, int64_t n) {
    for (int64_t i = 0; i < n; i++) s->side[i] = (glofnd_row){.lambda = 1.0f, .log_u = -INFINITY};
    for (int side = 0; side < s->sides; side++) TRY(gf_ctx_status(err, c, glofnd_rows_put(c, work, side, at, n, s->side)));
    return GLOFND_OK;
}

glofnd_status gf_shard_fetch(gf_error *err, gf_shard *s, const int64_t *id, glofnd_ctx *c, glofnd_store *work) {
    const int64_t drawn = sort_out(s, id, s->out_bytes, s->in_bytes);
    TRY(read_rows(err, s, s->ctx, s->store, s->mine, drawn, s->out));
    TRY(s->comm->ops->exchange(err, s->comm, s->out, s->out_bytes, s->in, s->in_bytes));
    return write_rows(err, s, c, work, s->from, s->spec.rows, s->in);
}

glofnd_status gf_shard_return(gf_error *err, gf_shard *s, const int64_t *id, glofnd_ctx *c, glofnd_store *work) {
    const int64_t drawn = sort_out(s, id, s->in_bytes, s->out_bytes);
    TRY(read_rows(err, s, c, work, s->from, s->spec.rows, s->out));
    if (s->spec.bank_dim) TRY(forget_rows(err, s, c, work, s->from, s->spec.rows));
    TRY(s->comm->ops->exchange(err, s->comm, s->out, s->out_bytes, s->in, s->in_bytes));
    return write_rows(err, s, s->ctx, s->store, s->mine, drawn, s->in);
}

/* ----- checkpoints ----- */

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

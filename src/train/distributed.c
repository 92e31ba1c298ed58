/* distributed.c - see distributed.h. */
#include "train/distributed.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ifc/comm_device.h"

/* Gradients per message. The GPU's are larger: its links need more to be at their speed, and each message takes a few small
 * launches; the last one, which backward does not hide, is no larger than it. */
#define BUCKET (1 << 20)     /* 4 MB */
#define BUCKET_GPU (2 << 20) /* 8 MB */

static int on_device(const gf_config *c) { return c->method.device == GLOFND_DEVICE_CUDA; }

glofnd_status gf_distributed_check(gf_error *err, const gf_config *c, int ranks) {
    FAIL_IF(err, c->batch % ranks != 0, GLOFND_E_OPTION, "batch: %lld samples cannot be divided among %d ranks",
            (long long)c->batch, ranks);
    FAIL_IF(err, c->batch / ranks < 2, GLOFND_E_OPTION, "batch: %lld samples on %d ranks leave fewer than 2 for each",
            (long long)c->batch, ranks);
    FAIL_IF(err, c->micro_batch > 0 && c->batch / ranks % c->micro_batch != 0, GLOFND_E_OPTION,
            "micro_batch: %lld does not divide the %lld samples of a rank", (long long)c->micro_batch,
            (long long)c->batch / ranks);
    FAIL_IF(err, c->store == GF_STORE_FILE, GLOFND_E_OPTION,
            "store: with several ranks each holds its share in memory; set store = memory");
    return GLOFND_OK;
}

/* ----- hooks of the nets ----- */

static glofnd_status sum_norm(gf_error *err, void *user, double *x, int64_t n) {
    gf_distributed *w = user;
    return w->wire->kind->sum(err, w->wire, x, n);
}

static void gradients_final(void *user, gf_net *net, int64_t first) {
    gf_distributed *w = user;
    int64_t n;
    float *block = gf_net_gradients(net, &n);
    if (first == n) gf_reducer_begin(w->reducer, block, n);
    else gf_reducer_ready(w->reducer, first);
}

static glofnd_status on_all(gf_error *err, void *user, int *yes) {
    gf_distributed *w = user;
    double without = !*yes;
    TRY(w->host->kind->sum(err, w->host, &without, 1));
    *yes = without == 0.0;
    return GLOFND_OK;
}

void gf_distributed_begin(gf_distributed *w, gf_comm *host) {
    *w = (gf_distributed){.host = host, .wire = host};
    w->hooks = (gf_sync_norm){.count = host->ranks, .user = w, .sum = sum_norm, .agree = on_all};
}

/* ----- making ----- */

static int sum_shared(void *user, double *x, int n) {
    gf_distributed *w = user;
    return w->host->kind->sum(NULL, w->host, x, n) != GLOFND_OK;
}

static glofnd_status make_arrays(gf_error *err, gf_distributed *w, gf_encoders *t, const gf_config *c) {
    const size_t batch = (size_t)c->batch, bytes = batch * (size_t)t->dim * sizeof(float);
    gf_net *net = t->at[0].net;
    for (int i = 0; i < 2; i++) w->all[i] = gf_net_alloc(net, bytes);
    w->links = gf_net_alloc(net, batch * GLOFND_LINK_BYTES);
    w->slots = gf_net_alloc(net, (size_t)t->batch * sizeof *w->slots);
    w->content = calloc(batch, sizeof *w->content);
    FAIL_IF(err, !w->all[0] || !w->all[1] || !w->links || !w->slots || !w->content, GLOFND_E_MEMORY,
            "no memory for the %zu samples of all ranks", batch);
    return gf_net_write(err, net, w->slots, gf_shard_slots(w->team.shard), (size_t)t->batch * sizeof *w->slots);
}

glofnd_status gf_distributed_make(gf_error *err, gf_distributed *w, gf_encoders *t, glofnd_ctx *ctx, const gf_config *c,
                                  int64_t n) {
    const gf_shard_spec spec = {.n = n, .loss = c->method.loss, .rows = t->batch};
    w->ctx = ctx;
    w->in_parts = t->part < t->batch;
    if (on_device(c)) TRY(gf_device_comm_open(err, w->host, gf_net_stream(t->at[0].net), &w->wire));
    TRY(gf_reducer_create(err, w->wire, on_device(c) ? BUCKET_GPU : BUCKET, &w->reducer));
    w->hooks.bucket = on_device(c) ? BUCKET_GPU : 0;
    w->hooks.ready = w->in_parts ? NULL : gradients_final;
    const glofnd_status status = glofnd_ctx_reduce(ctx, sum_shared, w);
    FAIL_IF(err, status != GLOFND_OK, status, "%s", glofnd_ctx_error(ctx));
    TRY(gf_step_ranks_open(err, w->host, w->wire, &spec, &w->team));
    return make_arrays(err, w, t, c);
}

void gf_distributed_free(gf_distributed *w, gf_encoders *t) {
    void *const there[] = {w->all[0], w->all[1], w->links, w->slots};
    /* ncclCommDestroy polls until no graph is left that holds calls of its communicator: commDestroySync in NCCL's sources. */
    if (t->count > 0) gf_net_forget(t->at[0].net);
    for (size_t i = 0; t->count > 0 && i < sizeof there / sizeof *there; i++) gf_net_release(t->at[0].net, there[i]);
    free(w->content);
    free(w->damage);
    gf_step_ranks_close(&w->team);
    gf_reducer_free(w->reducer);
    if (w->wire && w->wire != w->host) w->wire->kind->close(w->wire);
    *w = (gf_distributed){0};
}

/* ----- a step ----- */

glofnd_status gf_distributed_draw(gf_error *err, gf_distributed *w, const gf_batch *b, glofnd_store *work) {
    const size_t bytes = (size_t)w->team.rows * sizeof *w->content;
    if (b->content) TRY(gf_comm_gather(err, w->host, b->content, bytes, w->content));
    return gf_step_ranks_draw(err, &w->team, b->id, b->label, NULL, w->ctx, work);
}

/* Own embeddings to their places among everyone's. */
static void place(gf_distributed *w, const gf_encoders *t) {
    gf_net *net = t->at[0].net;
    for (int i = 0; i < 2; i++)
        gf_net_backend(net)->cast(gf_net_engine(net), GF_TYPE_F32, w->all[i] + w->team.row0 * t->dim, gf_encoders_side(t, i),
                                  w->team.rows * t->dim);
}

glofnd_status gf_distributed_step(gf_error *err, gf_distributed *w, gf_encoders *t, glofnd_store *work, glofnd_batch q,
                                  glofnd_stats *stats) {
    place(w, t);
    q.a = w->all[0], q.b = w->all[1], q.slot = w->slots;
    return gf_step_ranks_step(err, &w->team, w->ctx, work, &q, w->links, gf_encoders_side_grad(t, 0), gf_encoders_side_grad(t, 1),
                              stats);
}

glofnd_status gf_distributed_gradients(gf_error *err, gf_distributed *w, gf_encoders *t) {
    int64_t n;
    for (int k = 0; w->in_parts && k < t->count; k++) { /* else backward has handed them over on its way */
        gf_net_gradients(t->at[k].net, &n);
        if (t->at[k].param_count > 0) gf_reducer_start(w->reducer, t->at[k].sum, n);
    }
    return gf_reducer_wait(err, w->reducer);
}

/* ----- damaged samples: the first rank logs them all ----- */

static glofnd_status make_room(gf_error *err, gf_distributed *w, int64_t count) {
    if (count <= w->damage_room) return GLOFND_OK;
    gf_unreadable *grown = realloc(w->damage, (size_t)(2 * count) * sizeof *grown);
    FAIL_IF(err, !grown, GLOFND_E_MEMORY, "no memory to note %lld damaged samples", (long long)count);
    w->damage = grown;
    w->damage_room = 2 * count;
    return GLOFND_OK;
}

glofnd_status gf_distributed_damaged(gf_error *err, gf_distributed *w, int64_t id, const char *message) {
    TRY(make_room(err, w, w->damages + 1));
    gf_unreadable *d = &w->damage[w->damages++];
    *d = (gf_unreadable){.id = id};
    snprintf(d->why.text, sizeof d->why.text, "%s", message);
    return GLOFND_OK;
}

/* Everyone's as `most` places of each rank, those in use first; then without the others. */
static glofnd_status gather_damage(gf_error *err, gf_distributed *w, int64_t *count, int64_t most) {
    const int ranks = w->host->ranks;
    TRY(make_room(err, w, most * ranks));
    gf_unreadable *own = calloc((size_t)most, sizeof *own);
    FAIL_IF(err, !own, GLOFND_E_MEMORY, "no memory to tell of %lld damaged samples", (long long)most);
    memcpy(own, w->damage, (size_t)w->damages * sizeof *own);
    const glofnd_status status = gf_comm_gather(err, w->host, own, (size_t)most * sizeof *own, w->damage);
    free(own);
    w->damages = 0;
    for (int r = 0; r < ranks; r++)
        for (int64_t i = 0; i < count[r]; i++) w->damage[w->damages++] = w->damage[r * most + i];
    return status;
}

static glofnd_status share_damage(gf_error *err, gf_distributed *w) {
    const int ranks = w->host->ranks;
    int64_t *count = malloc((size_t)ranks * sizeof *count), most = 0;
    FAIL_IF(err, !count, GLOFND_E_MEMORY, "no memory for the answers of %d ranks", ranks);
    glofnd_status status = gf_comm_gather(err, w->host, &w->damages, sizeof w->damages, count);
    for (int r = 0; r < ranks && status == GLOFND_OK; r++) most = count[r] > most ? count[r] : most;
    if (status == GLOFND_OK) status = gather_damage(err, w, count, most);
    free(count);
    return status;
}

glofnd_status gf_distributed_settle(gf_error *err, gf_distributed *w, glofnd_store *work, glofnd_stats *stats) {
    double x[2] = {w->stop, (double)w->damages};
    TRY(w->host->kind->sum(err, w->host, x, 2));
    w->stop = x[0] > 0.0;
    if (x[1] > 0.0) TRY(share_damage(err, w));
    return gf_step_ranks_settle(err, &w->team, w->ctx, work, stats);
}

/* distributed.c - see distributed.h. */
#include "loop/distributed.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dist/comm.h"
#include "util/array.h"

/* Gradients per message. On a GPU messages are larger: its links need more to reach their speed, and each message takes a few
 * small launches; the last one, which backward does not hide, is no larger than the others. */
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
    gf_distributed *d = user;
    return d->wire->ops->sum(err, d->wire, x, n);
}

static void gradients_final(void *user, gf_net *net, int64_t first) {
    gf_distributed *d = user;
    int64_t n;
    float *block = gf_net_gradients(net, &n);
    if (first == n) gf_reducer_begin(d->reducer, block, n);
    else gf_reducer_ready(d->reducer, first);
}

static glofnd_status agree_on(gf_error *err, void *user, int *yes) {
    gf_distributed *d = user;
    double without = !*yes;
    TRY(d->host->ops->sum(err, d->host, &without, 1));
    *yes = without == 0.0;
    return GLOFND_OK;
}

static glofnd_status largest_of(gf_error *err, void *user, int64_t *x) {
    gf_distributed *d = user;
    TRY(gf_comm_gather(err, d->host, x, sizeof *x, d->lengths));
    for (int r = 0; r < d->host->ranks; r++) *x = d->lengths[r] > *x ? d->lengths[r] : *x;
    return GLOFND_OK;
}

void gf_distributed_begin(gf_distributed *d, gf_comm *host) {
    *d = (gf_distributed){.host = host, .wire = host};
    d->hooks = (gf_sync_norm){.count = host->ranks, .user = d, .sum = sum_norm, .agree = agree_on};
}

/* ----- creating ----- */

glofnd_status gf_distributed_connect(gf_error *err, gf_distributed *d, const gf_encoders *e, const gf_config *c) {
    d->in_parts = e->part < e->batch;
    d->lengths = calloc((size_t)d->host->ranks, sizeof *d->lengths);
    FAIL_IF(err, !d->lengths, GLOFND_E_MEMORY, "no memory for the answers of %d ranks", d->host->ranks);
    d->hooks.largest = largest_of;
    if (on_device(c)) TRY(gf_device_comm_open(err, d->host, gf_net_stream(e->at[0].net), &d->wire));
    TRY(gf_reducer_create(err, d->wire, on_device(c) ? BUCKET_GPU : BUCKET, &d->reducer));
    d->hooks.bucket = on_device(c) ? BUCKET_GPU : 0;
    d->hooks.ready = d->in_parts ? NULL : gradients_final;
    return GLOFND_OK;
}

void gf_distributed_free(gf_distributed *d, gf_encoders *e) {
    /* ncclCommDestroy polls until no graph is left that holds calls of its communicator: commDestroySync in NCCL's sources. */
    if (e->count > 0) gf_net_forget(e->at[0].net);
    free(d->lengths);
    free(d->unreadable);
    gf_reducer_free(d->reducer);
    if (d->wire && d->wire != d->host) d->wire->ops->close(d->wire);
    *d = (gf_distributed){0};
}

/* ----- a step ----- */

glofnd_status gf_distributed_gradients(gf_error *err, gf_distributed *d, gf_encoders *e) {
    int64_t n;
    for (int k = 0; d->in_parts && k < e->count; k++) { /* else backward has handed them over on its way */
        gf_net_gradients(e->at[k].net, &n);
        if (e->at[k].param_count > 0) gf_reducer_start(d->reducer, e->at[k].sum, n);
    }
    return gf_reducer_wait(err, d->reducer);
}

/* ----- unreadable samples: the first rank logs those of all ----- */

static glofnd_status reserve(gf_error *err, gf_distributed *d, int64_t count) {
    FAIL_IF(err, !gf_grow(&d->unreadable, &d->unreadable_capacity, (size_t)count, sizeof *d->unreadable), GLOFND_E_MEMORY,
            "no memory for %lld unreadable samples", (long long)count);
    return GLOFND_OK;
}

glofnd_status gf_distributed_unreadable(gf_error *err, gf_distributed *d, int64_t id, const char *message) {
    TRY(reserve(err, d, d->unreadable_count + 1));
    gf_unreadable *u = &d->unreadable[d->unreadable_count++];
    *u = (gf_unreadable){.id = id};
    snprintf(u->why.text, sizeof u->why.text, "%s", message);
    return GLOFND_OK;
}

/* Gathers `max` entries of each rank, those in use first; then closes the gaps. count [ranks]: entries in use. */
static glofnd_status gather_unreadable(gf_error *err, gf_distributed *d, const int64_t *count, int64_t max) {
    const int ranks = d->host->ranks;
    TRY(reserve(err, d, max * ranks));
    gf_unreadable *own = calloc((size_t)max, sizeof *own);
    FAIL_IF(err, !own, GLOFND_E_MEMORY, "no memory for %lld unreadable samples", (long long)max);
    memcpy(own, d->unreadable, (size_t)d->unreadable_count * sizeof *own);
    const glofnd_status status = gf_comm_gather(err, d->host, own, (size_t)max * sizeof *own, d->unreadable);
    free(own);
    d->unreadable_count = 0;
    for (int r = 0; r < ranks; r++)
        for (int64_t i = 0; i < count[r]; i++) d->unreadable[d->unreadable_count++] = d->unreadable[r * max + i];
    return status;
}

static glofnd_status share_unreadable(gf_error *err, gf_distributed *d) {
    const int ranks = d->host->ranks;
    int64_t *count = malloc((size_t)ranks * sizeof *count), max = 0;
    FAIL_IF(err, !count, GLOFND_E_MEMORY, "no memory for the answers of %d ranks", ranks);
    glofnd_status status = gf_comm_gather(err, d->host, &d->unreadable_count, sizeof d->unreadable_count, count);
    for (int r = 0; r < ranks && status == GLOFND_OK; r++) max = count[r] > max ? count[r] : max;
    if (status == GLOFND_OK) status = gather_unreadable(err, d, count, max);
    free(count);
    return status;
}

glofnd_status gf_distributed_share(gf_error *err, gf_distributed *d) {
    double x[2] = {d->stop, (double)d->unreadable_count};
    TRY(d->host->ops->sum(err, d->host, x, 2));
    d->stop = x[0] > 0.0;
    return x[1] > 0.0 ? share_unreadable(err, d) : GLOFND_OK;
}

/* ranks.c - see ranks.h. */
#include "loop/ranks.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "dist/comm.h"
#include "io/file.h"
#include "loop/trainer.h"
#include "run/run_folder.h"
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

static glofnd_status reserve_unreadable(gf_error *err, gf_distributed *d, int64_t count) {
    FAIL_IF(err, !gf_grow(&d->unreadable, &d->unreadable_capacity, (size_t)count, sizeof *d->unreadable), GLOFND_E_MEMORY,
            "no memory for %lld unreadable samples", (long long)count);
    return GLOFND_OK;
}

glofnd_status gf_distributed_unreadable(gf_error *err, gf_distributed *d, int64_t id, const char *message) {
    TRY(reserve_unreadable(err, d, d->unreadable_count + 1));
    gf_unreadable *u = &d->unreadable[d->unreadable_count++];
    *u = (gf_unreadable){.id = id};
    snprintf(u->why.text, sizeof u->why.text, "%s", message);
    return GLOFND_OK;
}

/* Gathers `max` entries of each rank, those in use first; then closes the gaps. count [ranks]: entries in use. */
static glofnd_status gather_unreadable(gf_error *err, gf_distributed *d, const int64_t *count, int64_t max) {
    const int ranks = d->host->ranks;
    TRY(reserve_unreadable(err, d, max * ranks));
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

glofnd_status gf_distributed_share(gf_error *err, gf_distributed *d) {
    double x[2] = {d->stop, (double)d->unreadable_count};
    TRY(d->host->ops->sum(err, d->host, x, 2));
    d->stop = x[0] > 0.0;
    if (!(x[1] > 0.0)) return GLOFND_OK;
    const int ranks = d->host->ranks;
    int64_t *count = malloc((size_t)ranks * sizeof *count), max = 0;
    FAIL_IF(err, !count, GLOFND_E_MEMORY, "no memory for the answers of %d ranks", ranks);
    glofnd_status status = gf_comm_gather(err, d->host, &d->unreadable_count, sizeof d->unreadable_count, count);
    for (int r = 0; r < ranks && status == GLOFND_OK; r++) max = count[r] > max ? count[r] : max;
    if (status == GLOFND_OK) status = gather_unreadable(err, d, count, max);
    free(count);
    return status;
}

/* ----- checks before ranks train together ----- */

static uint64_t hash_of(const char *text, uint64_t h) {
    for (; *text; text++) h = (h ^ (unsigned char)*text) * 0x100000001b3u;
    return h;
}

static uint64_t start_of_hash(void) { return 0xcbf29ce484222325u; }

/* *key: of option i; NULL at the end. */
static uint64_t value_hash(const gf_config *c, int i, const char **key) {
    char value[1100];
    *key = gf_config_value(c, i, value, sizeof value);
    return *key ? hash_of(value, hash_of(*key, start_of_hash())) : 0;
}

glofnd_status gf_check_ranks_equal(gf_error *err, gf_comm *c, const gf_trainer *t, const char *from) {
    /* One message if all are equal; else one per key, on every rank, to find the key that differs. */
    const char *key = "";
    uint64_t values = 0;
    for (int i = 0; key; i++) values = values * 31 + value_hash(&t->config, i, &key);
    if (gf_comm_check_equal(err, c, "configuration", values) != GLOFND_OK) {
        for (int i = 0; gf_config_option(i, &(int){0}); i++) {
            char what[80];
            const uint64_t hash = value_hash(&t->config, i, &key);
            snprintf(what, sizeof what, "value of '%s'", key);
            TRY(gf_comm_check_equal(err, c, what, hash));
        }
        return GLOFND_E_ARGUMENT; /* the transport failed: its text is in err */
    }
    /* Hash of the first and last keys. */
    const gf_dataset *d = t->data;
    const int64_t n = gf_dataset_describe(d).n;
    uint64_t h = (uint64_t)n;
    for (int64_t i = 0; i < 1024 && i < n; i++) h = (h ^ gf_dataset_key(d, i) ^ gf_dataset_key(d, n - 1 - i)) * 0x100000001b3u;
    TRY(gf_comm_check_equal(err, c, "dataset", h));
    TRY(gf_comm_check_equal(err, c, "file of groups", gf_sample_groups_hash(&t->groups)));
    TRY(gf_comm_check_equal(err, c, "guide", gf_guide_hash(&t->guide)));
    return gf_comm_check_equal(err, c, "newest checkpoint", hash_of(from, start_of_hash()));
}

/* ----- checks: the run folder ----- */

/* The same new name on all ranks: from the first rank's clock. */
static glofnd_status name_probe(gf_error *err, gf_comm *c, const char *run, char path[PATH_MAX]) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    const uint64_t own = (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
    uint64_t *all = malloc(sizeof *all * (size_t)c->ranks);
    FAIL_IF(err, !all, GLOFND_E_MEMORY, "no memory for the answers of %d ranks", c->ranks);
    const glofnd_status status = gf_comm_gather(err, c, &own, sizeof own, all);
    const int n = snprintf(path, PATH_MAX, "%s/" GF_RANKS_PROBE "%016llx", run, (unsigned long long)all[0]);
    free(all);
    TRY(status);
    FAIL_IF(err, n < 0 || n >= PATH_MAX, GLOFND_E_ARGUMENT, "the path of the run folder is too long");
    return GLOFND_OK;
}

static glofnd_status make_probe(gf_error *err, const char *path) {
    const int fd = gf_open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    FAIL_IF(err, fd < 0, GLOFND_E_IO, "%s cannot be written: %s", path, strerror(errno));
    close(fd);
    return GLOFND_OK;
}

static glofnd_status find_probe(gf_error *err, const char *run, const char *path) {
    FAIL_IF(err, access(run, F_OK) != 0, GLOFND_E_IO, "%s is missing: all machines must share the run folder of rank 0", run);
    FAIL_IF(err, access(path, F_OK) != 0, GLOFND_E_IO,
            "%s is a different folder from that of rank 0: all machines must share the run folder", run);
    FAIL_IF(err, access(run, W_OK | X_OK) != 0, GLOFND_E_IO, "%s cannot be written to: %s", run, strerror(errno));
    return GLOFND_OK;
}

glofnd_status gf_check_ranks_folder(gf_error *err, gf_comm *c, const char *run) {
    char path[PATH_MAX];
    TRY(gf_comm_agree(err, c, name_probe(err, c, run, path)));
    TRY(gf_comm_agree(err, c, c->rank == 0 ? make_probe(err, path) : GLOFND_OK));
    const glofnd_status status = gf_comm_agree(err, c, c->rank == 0 ? GLOFND_OK : find_probe(err, run, path));
    if (c->rank == 0) unlink(path);
    return status;
}

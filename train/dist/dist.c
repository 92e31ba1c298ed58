/* dist.c - see dist.h: detection of ranks, the transport of a single one, agreement between them, sums of gradients, and ranks
 * that never join. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "dist/dist.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "dist/comm.h"
#include "util/machine.h"
#include "util/parallel.h"

/* ----- a single rank ----- */

static glofnd_status single_gather(gf_error *err, gf_comm *c, const void *part, size_t bytes, void *all) {
    (void)err, (void)c;
    if (all != part) memcpy(all, part, bytes);
    return GLOFND_OK;
}

static glofnd_status single_exchange(gf_error *err, gf_comm *c, const void *send, const size_t *send_bytes, void *recv,
                                     const size_t *recv_bytes) {
    FAIL_IF(err, send_bytes[0] != recv_bytes[0], GLOFND_E_ARGUMENT, "%zu bytes sent, %zu expected", send_bytes[0], recv_bytes[0]);
    return single_gather(err, c, send, send_bytes[0], recv);
}

static glofnd_status single_sum(gf_error *err, gf_comm *c, double *x, int64_t n) {
    (void)err, (void)c, (void)x, (void)n;
    return GLOFND_OK;
}

static glofnd_status single_sum_floats(gf_error *err, gf_comm *c, float *x, int64_t n) {
    (void)err, (void)c, (void)x, (void)n;
    return GLOFND_OK;
}

static glofnd_status open_single(gf_error *err, gf_comm **out);

static glofnd_status single_duplicate(gf_error *err, gf_comm *c, gf_comm **out) {
    (void)c;
    return open_single(err, out);
}

static void close_single(gf_comm *c) { free(c); }

static const gf_comm_ops single_ops = {
    "single", single_gather, single_exchange, single_sum, single_sum_floats, single_duplicate, close_single, NULL, NULL};

static glofnd_status open_single(gf_error *err, gf_comm **out) {
    gf_comm *c = calloc(1, sizeof *c);
    FAIL_IF(err, !c, GLOFND_E_MEMORY, "no memory for a rank");
    *c = (gf_comm){.ops = &single_ops, .ranks = 1};
    *out = c;
    return GLOFND_OK;
}

/* ----- opening ----- */

int gf_dist_launched(char *(*get_variable)(const char *name)) {
    static const char *const traces[] = {"OMPI_COMM_WORLD_SIZE", "PMIX_RANK", "PMI_RANK", "PMI_SIZE"};
    for (size_t i = 0; i < sizeof traces / sizeof *traces; i++)
        if (get_variable(traces[i])) return 1;
    /* srun without --mpi=pmix: MPI reports it. Otherwise every task would start a run of its own. */
    const char *tasks = get_variable("SLURM_STEP_NUM_TASKS");
    return tasks && strcmp(tasks, "1") != 0;
}

glofnd_status gf_dist_open(gf_error *err, gf_ranks ranks, int launched, gf_comm **out) {
    *out = NULL;
    if (ranks == GF_RANKS_SINGLE || (ranks == GF_RANKS_AUTO && !launched)) return open_single(err, out);
    return gf_mpi_open(err, out);
}

void gf_dist_close(gf_comm *c) {
    if (c) c->ops->close(c);
}

void gf_dist_abort(gf_comm *c, int code) {
    if (c && c->ranks > 1) gf_mpi_abort(code);
}

glofnd_status gf_dist_watch(gf_error *err, gf_comm *c, double seconds, void (*lost)(void *user, const char *text), void *user) {
    return c->ranks > 1 ? gf_mpi_watch(err, c, seconds, lost, user) : GLOFND_OK;
}

void gf_dist_describe(char *text, size_t bytes) { gf_mpi_describe(text, bytes); }

/* ----- agreement ----- */

glofnd_status gf_comm_gather(gf_error *err, gf_comm *c, const void *part, size_t bytes, void *all) {
    return c->ops->gather(err, c, part, bytes, all);
}

typedef struct outcome {
    int32_t status;
    gf_error error;
} outcome;

static glofnd_status first_failure(gf_error *err, const gf_comm *c, const outcome *all, glofnd_status mine) {
    for (int r = 0; r < c->ranks; r++)
        if (all[r].status != GLOFND_OK) {
            if (c->ranks == 1) return mine;                  /* err has its text */
            if (strncmp(all[r].error.text, "rank ", 5) == 0) /* it names a rank already */
                return gf_fail(err, (glofnd_status)all[r].status, "%s", all[r].error.text);
            return gf_fail(err, (glofnd_status)all[r].status, "rank %d: %.480s", r, all[r].error.text);
        }
    return GLOFND_OK;
}

glofnd_status gf_comm_agree(gf_error *err, gf_comm *c, glofnd_status mine) {
    outcome own = {.status = (int32_t)mine};
    if (mine != GLOFND_OK) own.error = *err;
    outcome *all = malloc(sizeof *all * (size_t)c->ranks);
    FAIL_IF(err, !all, GLOFND_E_MEMORY, "no memory for the answers of %d ranks", c->ranks);
    glofnd_status status = c->ops->gather(err, c, &own, sizeof own, all);
    if (status == GLOFND_OK) status = first_failure(err, c, all, mine);
    free(all);
    return status;
}

glofnd_status gf_comm_check_equal(gf_error *err, gf_comm *c, const char *what, uint64_t hash) {
    uint64_t *all = malloc(sizeof *all * (size_t)c->ranks);
    FAIL_IF(err, !all, GLOFND_E_MEMORY, "no memory for the answers of %d ranks", c->ranks);
    glofnd_status status = c->ops->gather(err, c, &hash, sizeof hash, all);
    for (int r = 1; r < c->ranks && status == GLOFND_OK; r++)
        if (all[r] != all[0])
            status = gf_fail(err, GLOFND_E_ARGUMENT,
                             "rank %d has a different %s from rank 0; start all ranks with the same settings", r, what);
    free(all);
    return status;
}

glofnd_status gf_comm_check_builds(gf_error *err, gf_comm *c) {
    enum { BYTES = 256 };
    char own[BYTES];
    snprintf(own, sizeof own, "%s", glofnd_build_info());
    char *all = calloc((size_t)c->ranks, BYTES);
    FAIL_IF(err, !all, GLOFND_E_MEMORY, "no memory for the answers of %d ranks", c->ranks);
    glofnd_status status = gf_comm_gather(err, c, own, sizeof own, all);
    for (int r = 1; r < c->ranks && status == GLOFND_OK; r++)
        if (strcmp(all, all + (size_t)r * BYTES) != 0)
            status = gf_fail(err, GLOFND_E_ARGUMENT,
                             "rank %d has a different build of glofnd, or a different type of CPU, from rank 0: "
                             "\"%.160s\", not \"%.160s\"",
                             r, all + (size_t)r * BYTES, all);
    free(all);
    return status;
}

/* ----- sums of gradients -----
 *
 * Gradients are summed over ranks during the backward pass, bucket by bucket, in the order they were started: by a second
 * thread or, on a device, in a second queue (gf_comm_ops.fork), which needs no thread and can be recorded. */

enum { PENDING_MAX = 4096 }; /* buckets; starting more waits */

typedef struct bucket {
    float *x;
    int64_t n;
} bucket;

struct gf_reducer {
    gf_comm *comm; /* a duplicate */
    int has_thread;
    int64_t size; /* numbers per bucket */
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t change;
    bucket queue[PENDING_MAX]; /* started - done of them, a ring */
    int64_t started, done;
    int stop;
    glofnd_status status; /* of the first that failed */
    gf_error error;
    float *block; /* gf_reducer_begin */
    int64_t left; /* numbers of the block that are not started */
};

static int take_bucket(gf_reducer *r, bucket *b) {
    pthread_mutex_lock(&r->lock);
    while (r->done == r->started && !r->stop) pthread_cond_wait(&r->change, &r->lock);
    const int some = r->done < r->started;
    if (some) *b = r->queue[r->done % PENDING_MAX];
    pthread_mutex_unlock(&r->lock);
    return some;
}

static void *sum_buckets(void *reducer) {
    gf_reducer *r = reducer;
    bucket b;
    while (take_bucket(r, &b)) {
        gf_error error;
        const glofnd_status status = r->comm->ops->sum_floats(&error, r->comm, b.x, b.n);
        pthread_mutex_lock(&r->lock);
        if (status != GLOFND_OK && r->status == GLOFND_OK) r->status = status, r->error = error;
        r->done++;
        pthread_cond_broadcast(&r->change);
        pthread_mutex_unlock(&r->lock);
    }
    return NULL;
}

static int only_queues(const gf_reducer *r) { return r->comm->ops->join != NULL; }

glofnd_status gf_reducer_create(gf_error *err, gf_comm *c, int64_t size, gf_reducer **out) {
    gf_reducer *r = calloc(1, sizeof *r);
    *out = NULL;
    FAIL_IF(err, !r, GLOFND_E_MEMORY, "no memory to sum gradients");
    r->size = size > 0 ? size : 1;
    const glofnd_status status = c->ops->duplicate(err, c, &r->comm);
    if (status != GLOFND_OK) free(r);
    TRY(status);
    pthread_mutex_init(&r->lock, NULL);
    pthread_cond_init(&r->change, NULL);
    r->has_thread = !only_queues(r) && pthread_create(&r->thread, NULL, sum_buckets, r) == 0;
    if (!r->has_thread && !only_queues(r)) {
        gf_reducer_free(r);
        GF_FAIL(err, GLOFND_E_MEMORY, "no thread to sum gradients");
    }
    *out = r;
    return GLOFND_OK;
}

void gf_reducer_free(gf_reducer *r) {
    if (!r) return;
    if (r->has_thread) {
        pthread_mutex_lock(&r->lock);
        r->stop = 1;
        pthread_cond_broadcast(&r->change);
        pthread_mutex_unlock(&r->lock);
        pthread_join(r->thread, NULL);
    }
    pthread_cond_destroy(&r->change);
    pthread_mutex_destroy(&r->lock);
    r->comm->ops->close(r->comm);
    free(r);
}

void gf_reducer_start(gf_reducer *r, float *x, int64_t n) {
    if (n <= 0) return;
    if (only_queues(r)) {
        /* Called by one thread alone, as gf_reducer_wait is then: without the lock. */
        const gf_comm_ops *k = r->comm->ops;
        if (r->status == GLOFND_OK) r->status = k->fork(&r->error, r->comm);
        if (r->status == GLOFND_OK) r->started++, r->status = k->sum_floats(&r->error, r->comm, x, n);
        return;
    }
    pthread_mutex_lock(&r->lock);
    while (r->started - r->done == PENDING_MAX) pthread_cond_wait(&r->change, &r->lock);
    r->queue[r->started++ % PENDING_MAX] = (bucket){x, n};
    pthread_cond_broadcast(&r->change);
    pthread_mutex_unlock(&r->lock);
}

glofnd_status gf_reducer_wait(gf_error *err, gf_reducer *r) {
    if (only_queues(r)) {
        gf_error *const error = r->status == GLOFND_OK ? &r->error : NULL; /* the first one is reported */
        const glofnd_status joined = r->done < r->started ? r->comm->ops->join(error, r->comm) : GLOFND_OK;
        if (r->status == GLOFND_OK) r->status = joined;
        r->done = r->started;
    }
    pthread_mutex_lock(&r->lock);
    while (r->done < r->started) pthread_cond_wait(&r->change, &r->lock);
    const glofnd_status status = r->status;
    if (status != GLOFND_OK && err) *err = r->error;
    r->status = GLOFND_OK;
    pthread_mutex_unlock(&r->lock);
    return status;
}

void gf_reducer_begin(gf_reducer *r, float *block, int64_t n) {
    r->block = block;
    r->left = n;
}

/* Full buckets; the rest at the very end. */
void gf_reducer_ready(gf_reducer *r, int64_t first) {
    while (r->left - first >= r->size || (first == 0 && r->left > 0)) {
        const int64_t n = r->left < r->size ? r->left : r->size;
        r->left -= n;
        gf_reducer_start(r, r->block + r->left, n);
    }
}

/* ----- ranks that never join -----
 *
 * Sockets have names in Linux's abstract namespace: no file, and no trace of a process that was killed. */

#define LATER 5.0      /* seconds: the first joined rank of a machine speaks, others only if it could not */
#define RANKS_MAX 4096 /* that are looked for */

struct gf_join {
    double seconds;
    int64_t rank, ranks, here; /* of the launcher: own number, all, those on this machine; -1: unknown */
    char job[64];              /* differs between runs */
    void (*lost)(void *user, const char *text);
    void *user;
    int socket[GF_JOIN_STAGES]; /* -1: not reached */
    gf_join_stage stage;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    unsigned changes; /* stages reached, and the end */
    int stop;
};

static int64_t find_number(char *(*get_variable)(const char *name), const char *const *names) {
    for (; *names; names++) {
        const char *text = get_variable(*names);
        char *end = NULL;
        errno = 0;
        const long long n = text ? strtoll(text, &end, 10) : -1;
        if (text && end > text && *end == 0 && errno == 0 && n >= 0) return n;
    }
    return -1;
}

/* A socket of the name of this rank and stage; -1: another process has it, or there is none to be had (*taken tells). */
static int take_name(const gf_join *j, int64_t rank, gf_join_stage stage, int *taken) {
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    const int n = snprintf(a.sun_path + 1, sizeof a.sun_path - 1, "glofnd/%s/%lld/%d", j->job, (long long)rank, (int)stage);
    const int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    const socklen_t bytes = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)n);
    if (fd >= 0 && bind(fd, (struct sockaddr *)&a, bytes) == 0) return fd;
    *taken = errno == EADDRINUSE;
    if (fd >= 0) close(fd);
    return -1;
}

static int has_reached(const gf_join *j, int64_t rank, gf_join_stage stage) {
    int taken = 0;
    const int fd = take_name(j, rank, stage, &taken);
    if (fd >= 0) close(fd);
    return taken;
}

typedef struct census {
    char present[200], missing[200]; /* numbers of ranks, cut where there are many */
    int64_t found, first;            /* of this machine */
} census;

/* 1: the stage did not change in this time. With the lock. */
static int times_out(gf_join *j, double seconds) {
    const unsigned before = j->changes;
    const double until = gf_clock() + seconds;
    for (double left = seconds; j->changes == before && left > 0.0; left = until - gf_clock())
        gf_timed_cond_wait(&j->changed, &j->lock, left);
    return j->changes == before;
}

static void *watch_join(void *join) {
    gf_join *j = join;
    char text[700];
    pthread_mutex_lock(&j->lock);
    while (!j->stop) {
        if (!times_out(j, j->seconds)) continue;
        census c = {.first = j->rank};
        for (int64_t r = 0; r < j->ranks && r < RANKS_MAX; r++) {
            const int there = r == j->rank || has_reached(j, r, j->stage);
            char *list = there ? c.present : c.missing;
            const size_t used = strlen(list);
            if (used + 24 < sizeof c.present)
                snprintf(list + used, sizeof c.present - used, "%s%lld", used ? ", " : "", (long long)r);
            if (there && c.found++ == 0) c.first = r;
        }
        if (c.first != j->rank && !times_out(j, LATER)) continue;
        static const char *const doing[] = {"started", "finished its checks"};
        const int several = strchr(c.missing, ',') != NULL, named = c.missing[0] && (j->here < 0 || j->here == j->ranks);
        if (named)
            snprintf(text, sizeof text,
                     "rank%s %s of %lld %s not %s within %.0f seconds (rank_timeout): look whether %s processes run or hang "
                     "(a stopped process, a disk that does not answer)",
                     several ? "s" : "", c.missing, (long long)j->ranks, several ? "have" : "has", doing[j->stage], j->seconds,
                     several ? "their" : "its");
        else
            snprintf(
                text, sizeof text,
                "not all ranks have %s within %.0f seconds (rank_timeout); on this machine, %s of %lld ranks have: the others "
                "hang, were stopped, or cannot be reached",
                doing[j->stage], j->seconds, c.present[0] ? c.present : "an unknown number", (long long)j->ranks);
        pthread_mutex_unlock(&j->lock);
        return j->lost(j->user, text), NULL;
    }
    pthread_mutex_unlock(&j->lock);
    return NULL;
}

glofnd_status gf_join_begin(gf_error *err, double seconds, char *(*get_variable)(const char *name),
                            void (*lost)(void *user, const char *text), void *user, gf_join **out) {
    *out = NULL;
    if (!(seconds > 0.0)) return GLOFND_OK;
    gf_join *j = calloc(1, sizeof *j);
    FAIL_IF(err, !j, GLOFND_E_MEMORY, "no memory to wait for ranks");
    j->seconds = seconds;
    j->lost = lost, j->user = user;
    static const char *const rank[] = {"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "SLURM_PROCID", NULL};
    static const char *const ranks[] = {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_STEP_NUM_TASKS", NULL};
    static const char *const here[] = {"OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS", NULL};
    static const char *const job[] = {"PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid", "PMI_JOBID", "SLURM_JOB_ID", NULL};
    j->rank = find_number(get_variable, rank);
    j->ranks = find_number(get_variable, ranks);
    j->here = find_number(get_variable, here);
    for (int i = 0; job[i] && !j->job[0]; i++)
        if (get_variable(job[i])) snprintf(j->job, sizeof j->job, "%s", get_variable(job[i]));
    for (int i = 0; i < GF_JOIN_STAGES; i++) j->socket[i] = -1;
    pthread_mutex_init(&j->lock, NULL);
    const int timed = gf_timed_cond_init(&j->changed);
    gf_join_reach(j, GF_JOIN_STARTED);
    if (!timed || !gf_thread_start(&j->thread, watch_join, j)) {
        if (j->socket[GF_JOIN_STARTED] >= 0) close(j->socket[GF_JOIN_STARTED]);
        if (timed) pthread_cond_destroy(&j->changed);
        pthread_mutex_destroy(&j->lock);
        free(j);
        GF_FAIL(err, GLOFND_E_MEMORY, "no thread to wait for ranks");
    }
    *out = j;
    return GLOFND_OK;
}

void gf_join_reach(gf_join *j, gf_join_stage stage) {
    int taken = 0;
    if (!j) return;
    pthread_mutex_lock(&j->lock);
    j->stage = stage;
    if (j->socket[stage] < 0) j->socket[stage] = take_name(j, j->rank, stage, &taken);
    j->changes++;
    pthread_cond_signal(&j->changed);
    pthread_mutex_unlock(&j->lock);
}

void gf_join_end(gf_join *j) {
    if (!j) return;
    pthread_mutex_lock(&j->lock);
    j->stop = 1;
    j->changes++;
    pthread_cond_signal(&j->changed);
    pthread_mutex_unlock(&j->lock);
    pthread_join(j->thread, NULL);
    for (int i = 0; i < GF_JOIN_STAGES; i++)
        if (j->socket[i] >= 0) close(j->socket[i]);
    pthread_cond_destroy(&j->changed);
    pthread_mutex_destroy(&j->lock);
    free(j);
}

/* join.c - see join.h. Sockets have names in Linux's abstract namespace: no file, and no trace of a process that was killed. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "dist/join.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "util/machine.h"
#include "util/parallel.h"

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

static void read_launcher(gf_join *j, char *(*get_variable)(const char *name)) {
    static const char *const rank[] = {"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "SLURM_PROCID", NULL};
    static const char *const ranks[] = {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_STEP_NUM_TASKS", NULL};
    static const char *const here[] = {"OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS", NULL};
    static const char *const job[] = {"PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid", "PMI_JOBID", "SLURM_JOB_ID", NULL};
    j->rank = find_number(get_variable, rank);
    j->ranks = find_number(get_variable, ranks);
    j->here = find_number(get_variable, here);
    for (int i = 0; job[i] && !j->job[0]; i++)
        if (get_variable(job[i])) snprintf(j->job, sizeof j->job, "%s", get_variable(job[i]));
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

static void add_number(char *list, size_t bytes, int64_t n) {
    const size_t used = strlen(list);
    if (used + 24 < bytes) snprintf(list + used, bytes - used, "%s%lld", used ? ", " : "", (long long)n);
}

static census look_around(const gf_join *j) {
    census c = {.first = j->rank};
    for (int64_t r = 0; r < j->ranks && r < RANKS_MAX; r++) {
        const int there = r == j->rank || has_reached(j, r, j->stage);
        add_number(there ? c.present : c.missing, sizeof c.present, r);
        if (there && c.found++ == 0) c.first = r;
    }
    return c;
}

static void describe(const gf_join *j, const census *c, char *text, size_t bytes) {
    static const char *const doing[] = {"started", "finished its checks"};
    const int several = strchr(c->missing, ',') != NULL, named = c->missing[0] && (j->here < 0 || j->here == j->ranks);
    if (named)
        snprintf(text, bytes,
                 "rank%s %s of %lld %s not %s within %.0f seconds (rank_timeout): look whether %s processes run or hang "
                 "(a stopped process, a disk that does not answer)",
                 several ? "s" : "", c->missing, (long long)j->ranks, several ? "have" : "has", doing[j->stage], j->seconds,
                 several ? "their" : "its");
    else
        snprintf(text, bytes,
                 "not all ranks have %s within %.0f seconds (rank_timeout); on this machine, %s of %lld ranks have: the others "
                 "hang, were stopped, or cannot be reached",
                 doing[j->stage], j->seconds, c->present[0] ? c->present : "an unknown number", (long long)j->ranks);
}

/* 1: the stage did not change in this time. With the lock. */
static int times_out(gf_join *j, double seconds) {
    const unsigned before = j->changes;
    const double until = gf_clock() + seconds;
    for (double left = seconds; j->changes == before && left > 0.0; left = until - gf_clock())
        gf_timed_cond_wait(&j->changed, &j->lock, left);
    return j->changes == before;
}

static void *watch(void *join) {
    gf_join *j = join;
    char text[700];
    pthread_mutex_lock(&j->lock);
    while (!j->stop) {
        if (!times_out(j, j->seconds)) continue;
        const census c = look_around(j);
        if (c.first != j->rank && !times_out(j, LATER)) continue;
        describe(j, &c, text, sizeof text);
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
    read_launcher(j, get_variable);
    for (int i = 0; i < GF_JOIN_STAGES; i++) j->socket[i] = -1;
    pthread_mutex_init(&j->lock, NULL);
    const int timed = gf_timed_cond_init(&j->changed);
    gf_join_reach(j, GF_JOIN_STARTED);
    if (!timed || !gf_thread_start(&j->thread, watch, j)) {
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

/* heartbeat.c - see heartbeat.h. Compiled only where MPI is there. */
#ifdef GF_HAVE_MPI

#include "dist/heartbeat.h"
#include "util/clock.h"

#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { ALIVE, BYE }; /* what is said */

struct gf_heartbeat {
    MPI_Comm comm;
    int rank, before, after;           /* in the ring */
    char host[MPI_MAX_PROCESSOR_NAME]; /* of the one before */
    double limit, pause;               /* seconds: of silence; between two words */
    void (*lost)(void *user, const char *text);
    void *user;
    int said, heard; /* words under way */
    MPI_Request saying, hearing;
    int gone;      /* the one before has said good-bye */
    double silent; /* seconds */
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t woken;
    int stop;
};

/* Until the pause is over, or the end of it all; 1: it is the end. */
static int rest(gf_heartbeat *h, double seconds) {
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    const int64_t at = (int64_t)until.tv_nsec + (int64_t)(1e9 * seconds);
    until.tv_sec += (time_t)(at / 1000000000);
    until.tv_nsec = (long)(at % 1000000000);
    pthread_mutex_lock(&h->lock);
    if (!h->stop) pthread_cond_timedwait(&h->woken, &h->lock, &until);
    const int stop = h->stop;
    pthread_mutex_unlock(&h->lock);
    return stop;
}

/* One word at a time: one that nobody takes is not followed by more. */
static int say(gf_heartbeat *h, int word) {
    int free_to = 0;
    if (MPI_Test(&h->saying, &free_to, MPI_STATUS_IGNORE) != MPI_SUCCESS || !free_to) return 0;
    h->said = word;
    return MPI_Isend(&h->said, 1, MPI_INT, h->after, 0, h->comm, &h->saying) == MPI_SUCCESS;
}

static void hear(gf_heartbeat *h, double passed) {
    int came = 0;
    h->silent += passed;
    while (!h->gone && MPI_Test(&h->hearing, &came, MPI_STATUS_IGNORE) == MPI_SUCCESS && came) {
        h->silent = 0.0;
        h->gone = h->heard == BYE;
        if (!h->gone) MPI_Irecv(&h->heard, 1, MPI_INT, h->before, 0, h->comm, &h->hearing);
    }
}

static void give_up(const gf_heartbeat *h) {
    char text[400];
    snprintf(text, sizeof text,
             "rank %d on '%.100s' has not been heard of for %.0f seconds (rank_timeout): its machine or the "
             "network is gone, or it was stopped",
             h->before, h->host, h->silent);
    h->lost(h->user, text);
}

static void *run(void *heartbeat) {
    gf_heartbeat *h = heartbeat;
    int stop = 0, parted = 0;
    for (double last = gf_clock(); !parted || !h->gone;) {
        const double at = gf_clock(), passed = at - last;
        last = at;
        hear(h, passed < 4.0 * h->pause ? passed : 4.0 * h->pause);
        if (!parted) parted = say(h, stop ? BYE : ALIVE) && stop;
        if (h->limit > 0.0 && !h->gone && h->silent > h->limit) return give_up(h), NULL;
        if (!stop) stop = rest(h, h->pause);
        else nanosleep(&(struct timespec){0, 1000000}, NULL);
    }
    MPI_Wait(&h->saying, MPI_STATUS_IGNORE);
    return NULL;
}

/* Who is next to me, and where. */
static glofnd_status join_ring(gf_error *err, gf_heartbeat *h, MPI_Comm comm) {
    int ranks = 0, length = 0;
    char own[MPI_MAX_PROCESSOR_NAME] = "";
    FAIL_IF(err, MPI_Comm_dup(comm, &h->comm) != MPI_SUCCESS, GLOFND_E_IO, "a channel between ranks cannot be made");
    MPI_Comm_rank(comm, &h->rank);
    MPI_Comm_size(comm, &ranks);
    h->before = (h->rank + ranks - 1) % ranks;
    h->after = (h->rank + 1) % ranks;
    MPI_Get_processor_name(own, &length);
    FAIL_IF(err,
            MPI_Sendrecv(own, sizeof own, MPI_CHAR, h->after, 1, h->host, sizeof h->host, MPI_CHAR, h->before, 1, h->comm,
                         MPI_STATUS_IGNORE) != MPI_SUCCESS ||
                MPI_Irecv(&h->heard, 1, MPI_INT, h->before, 0, h->comm, &h->hearing) != MPI_SUCCESS,
            GLOFND_E_IO, "rank %d cannot talk to its neighbours", h->rank);
    return GLOFND_OK;
}

/* Signals are for the program's own threads. */
static int start_thread(gf_heartbeat *h) {
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    const int failed = pthread_create(&h->thread, NULL, run, h);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return !failed;
}

glofnd_status gf_heartbeat_start(gf_error *err, MPI_Comm comm, double seconds, void (*lost)(void *user, const char *text),
                                 void *user, gf_heartbeat **out) {
    gf_heartbeat *h = calloc(1, sizeof *h);
    *out = NULL;
    FAIL_IF(err, !h, GLOFND_E_MEMORY, "no memory for a heartbeat");
    h->limit = seconds;
    h->pause = seconds > 0.0 ? fmin(1.0, seconds / 10.0) : 1.0;
    h->lost = lost, h->user = user;
    h->saying = MPI_REQUEST_NULL;
    pthread_mutex_init(&h->lock, NULL);
    pthread_cond_init(&h->woken, NULL);
    glofnd_status status = join_ring(err, h, comm);
    if (status == GLOFND_OK && !start_thread(h)) status = gf_fail(err, GLOFND_E_MEMORY, "no thread for a heartbeat");
    if (status == GLOFND_OK) *out = h;
    else free(h);
    return status;
}

void gf_heartbeat_stop(gf_heartbeat *h) {
    if (!h) return;
    MPI_Barrier(h->comm); /* nobody falls silent while others still work: they would miss him */
    pthread_mutex_lock(&h->lock);
    h->stop = 1;
    pthread_cond_signal(&h->woken);
    pthread_mutex_unlock(&h->lock);
    pthread_join(h->thread, NULL);
    MPI_Comm_free(&h->comm);
    pthread_cond_destroy(&h->woken);
    pthread_mutex_destroy(&h->lock);
    free(h);
}

#else
typedef int gf_heartbeat_is_empty;
#endif

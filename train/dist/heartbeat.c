/* heartbeat.c - see heartbeat.h. Empty in builds without MPI. */
#ifdef GF_HAVE_MPI

#include "dist/heartbeat.h"
#include "util/machine.h"
#include "util/parallel.h"

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { ALIVE, BYE }; /* messages */

struct gf_heartbeat {
    MPI_Comm comm;
    int rank, before, after;           /* in the ring */
    char host[MPI_MAX_PROCESSOR_NAME]; /* of rank `before` */
    double limit, pause;               /* seconds: of silence; between two messages */
    void (*lost)(void *user, const char *text);
    void *user;
    int sent, received; /* messages in flight */
    MPI_Request sending, receiving;
    int gone;      /* the previous rank has sent BYE */
    double silent; /* seconds */
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t woken;
    int stop;
};

/* Sleeps until the pause is over or gf_heartbeat_stop; 1: the latter. */
static int pause_or_stop(gf_heartbeat *h, double seconds) {
    pthread_mutex_lock(&h->lock);
    if (!h->stop) gf_timed_cond_wait(&h->woken, &h->lock, seconds);
    const int stop = h->stop;
    pthread_mutex_unlock(&h->lock);
    return stop;
}

/* One message at a time: a pending one is not followed by more. 1: sent. */
static int send_message(gf_heartbeat *h, int message) {
    int done = 0;
    if (gf_mpi.Test(&h->sending, &done, MPI_STATUS_IGNORE) != MPI_SUCCESS || !done) return 0;
    h->sent = message;
    return gf_mpi.Isend(&h->sent, 1, MPI_INT, h->after, 0, h->comm, &h->sending) == MPI_SUCCESS;
}

static void receive_messages(gf_heartbeat *h, double passed) {
    int arrived = 0;
    h->silent += passed;
    while (!h->gone && gf_mpi.Test(&h->receiving, &arrived, MPI_STATUS_IGNORE) == MPI_SUCCESS && arrived) {
        h->silent = 0.0;
        h->gone = h->received == BYE;
        if (!h->gone) gf_mpi.Irecv(&h->received, 1, MPI_INT, h->before, 0, h->comm, &h->receiving);
    }
}

static void report_lost(const gf_heartbeat *h) {
    char text[400];
    snprintf(text, sizeof text,
             "rank %d on '%.100s' has not been heard of for %.0f seconds (rank_timeout): its machine or the "
             "network is gone, or it was stopped",
             h->before, h->host, h->silent);
    h->lost(h->user, text);
}

static void *run(void *heartbeat) {
    gf_heartbeat *h = heartbeat;
    int stop = 0, said_bye = 0;
    for (double last = gf_clock(); !said_bye || !h->gone;) {
        const double at = gf_clock(), passed = at - last;
        last = at;
        receive_messages(h, passed < 4.0 * h->pause ? passed : 4.0 * h->pause);
        if (!said_bye) said_bye = send_message(h, stop ? BYE : ALIVE) && stop;
        if (h->limit > 0.0 && !h->gone && h->silent > h->limit) return report_lost(h), NULL;
        if (!stop) stop = pause_or_stop(h, h->pause);
        else nanosleep(&(struct timespec){0, 1000000}, NULL);
    }
    gf_mpi.Wait(&h->sending, MPI_STATUS_IGNORE);
    return NULL;
}

/* Finds both neighbours, and the machine of the previous one. */
static glofnd_status join_ring(gf_error *err, gf_heartbeat *h, MPI_Comm comm) {
    int ranks = 0, length = 0;
    char own[MPI_MAX_PROCESSOR_NAME] = "";
    FAIL_IF(err, gf_mpi.Comm_dup(comm, &h->comm) != MPI_SUCCESS, GLOFND_E_IO, "MPI_Comm_dup failed for the heartbeat");
    gf_mpi.Comm_rank(comm, &h->rank);
    gf_mpi.Comm_size(comm, &ranks);
    h->before = (h->rank + ranks - 1) % ranks;
    h->after = (h->rank + 1) % ranks;
    gf_mpi.Get_processor_name(own, &length);
    FAIL_IF(err,
            gf_mpi.Sendrecv(own, sizeof own, MPI_CHAR, h->after, 1, h->host, sizeof h->host, MPI_CHAR, h->before, 1, h->comm,
                            MPI_STATUS_IGNORE) != MPI_SUCCESS ||
                gf_mpi.Irecv(&h->received, 1, MPI_INT, h->before, 0, h->comm, &h->receiving) != MPI_SUCCESS,
            GLOFND_E_IO, "rank %d cannot reach its neighbours", h->rank);
    return GLOFND_OK;
}

glofnd_status gf_heartbeat_start(gf_error *err, MPI_Comm comm, double seconds, void (*lost)(void *user, const char *text),
                                 void *user, gf_heartbeat **out) {
    gf_heartbeat *h = calloc(1, sizeof *h);
    *out = NULL;
    FAIL_IF(err, !h, GLOFND_E_MEMORY, "no memory for a heartbeat");
    h->limit = seconds;
    h->pause = seconds > 0.0 ? fmin(1.0, seconds / 10.0) : 1.0;
    h->lost = lost, h->user = user;
    h->sending = MPI_REQUEST_NULL;
    pthread_mutex_init(&h->lock, NULL);
    glofnd_status status = join_ring(err, h, comm);
    if (status == GLOFND_OK && !gf_timed_cond_init(&h->woken)) status = gf_fail(err, GLOFND_E_MEMORY, "no clock for a heartbeat");
    if (status == GLOFND_OK && !gf_thread_start(&h->thread, run, h))
        status = gf_fail(err, GLOFND_E_MEMORY, "no thread for a heartbeat");
    if (status == GLOFND_OK) *out = h;
    else free(h);
    return status;
}

void gf_heartbeat_stop(gf_heartbeat *h) {
    if (!h) return;
    gf_mpi.Barrier(h->comm); /* no rank falls silent while others still watch it */
    pthread_mutex_lock(&h->lock);
    h->stop = 1;
    pthread_cond_signal(&h->woken);
    pthread_mutex_unlock(&h->lock);
    pthread_join(h->thread, NULL);
    gf_mpi.Comm_free(&h->comm);
    pthread_cond_destroy(&h->woken);
    pthread_mutex_destroy(&h->lock);
    free(h);
}

#else
typedef int gf_heartbeat_is_empty;
#endif

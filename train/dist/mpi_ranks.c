/* mpi_ranks.c - ranks over MPI, on host memory: its library, the heartbeat that detects lost ranks, and the transport
 * (comm.h).
 *
 * The library is opened at run time: the program starts where it is missing, and says so when it is asked for ranks. It
 * stays open until the process ends. In builds without MPI opening fails with E_UNSUPPORTED.
 *
 * Sums do not use MPI's reductions: each rank receives all parts of its piece of the array, adds them in the order of ranks,
 * and the pieces are gathered. This moves as many bytes as a ring would, and all ranks get the same bits, in every run. */
#include <stdio.h>

#include "dist/comm.h"
#include "util/machine.h"

#ifdef GF_HAVE_MPI

#include <limits.h>
#include <math.h>
#include <mpi.h>
#include <pthread.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "util/parallel.h"

/* ----- the library ----- */

/* clang-format off */
#define GF_MPI_FUNCTIONS(X) \
    X(Abort) X(Allgather) X(Allgatherv) X(Alltoallv) X(Barrier) X(Comm_dup) X(Comm_free) X(Comm_rank) \
    X(Comm_set_errhandler) X(Comm_size) X(Comm_split_type) X(Error_string) X(Finalize) X(Get_library_version) \
    X(Get_processor_name) X(Iallgatherv) X(Ialltoallv) X(Init_thread) X(Irecv) X(Isend) X(Sendrecv) X(Test) X(Wait)

/* Constants of Open MPI are addresses of objects in its library; those of others (MPICH) are numbers. */
#ifdef OPEN_MPI
#define GF_MPI_OBJECTS(X) \
    X(ompi_mpi_comm_world) X(ompi_mpi_byte) X(ompi_mpi_char) X(ompi_mpi_int) X(ompi_mpi_int64_t) X(ompi_mpi_float) \
    X(ompi_mpi_double) X(ompi_mpi_datatype_null) X(ompi_mpi_info_null) X(ompi_mpi_errors_return) X(ompi_request_null)
#undef OMPI_PREDEFINED_GLOBAL
#define OMPI_PREDEFINED_GLOBAL(type, global) ((type)gf_mpi.global)
#else
#define GF_MPI_OBJECTS(X)
#endif
/* clang-format on */

typedef struct mpi_lib {
#define GF_X(name) __typeof__(MPI_##name) *name;
    GF_MPI_FUNCTIONS(GF_X)
#undef GF_X
#define GF_X(name) void *name;
    GF_MPI_OBJECTS(GF_X)
#undef GF_X
} mpi_lib;

#ifdef OPEN_MPI
#define NAME "Open MPI"
#define PACKAGE "openmpi-bin"
#else
#define NAME "MPI"
#define PACKAGE "mpich"
#endif

static mpi_lib gf_mpi; /* after open_mpi_library */

static glofnd_status load_mpi_library(gf_error *err) {
    static const char *const names[] = {GF_MPI_SONAME, NULL};
    void *lib = gf_shared_lib_open(names, 1); /* its plugins look for its symbols */
    FAIL_IF(err, !lib, GLOFND_E_UNSUPPORTED,
            "several ranks need " NAME ", which cannot be opened (%.200s): install it (Debian: " PACKAGE
            "), or put its folder into LD_LIBRARY_PATH",
            gf_shared_lib_error());
#define GF_X(name)                                                                           \
    FAIL_IF(err, !gf_shared_lib_find(lib, "MPI_" #name, &gf_mpi.name), GLOFND_E_UNSUPPORTED, \
            GF_MPI_SONAME " has no MPI_" #name ": a newer " NAME " is needed");
    GF_MPI_FUNCTIONS(GF_X)
#undef GF_X
#define GF_X(name)                                                                    \
    FAIL_IF(err, !gf_shared_lib_find(lib, #name, &gf_mpi.name), GLOFND_E_UNSUPPORTED, \
            GF_MPI_SONAME " has no " #name ": a newer " NAME " is needed");
    GF_MPI_OBJECTS(GF_X)
#undef GF_X
    return GLOFND_OK;
}

static pthread_once_t library_once = PTHREAD_ONCE_INIT;
static glofnd_status library_status;
static gf_error library_error;

static void load_once(void) { library_status = load_mpi_library(&library_error); }

/* Once per process; later calls return the same status and text. E_UNSUPPORTED: not found. */
static glofnd_status open_mpi_library(gf_error *err) {
    pthread_once(&library_once, load_once);
    FAIL_IF(err, library_status != GLOFND_OK, library_status, "%s", library_error.text);
    return GLOFND_OK;
}

/* ----- the heartbeat -----
 *
 * Ranks form a ring: on a separate thread each sends a message to the next one at intervals, and receives those of the one
 * before it. A rank falls silent when its machine or the network is lost or it is stopped, not because it computes, reads or
 * waits; and the next one knows which rank it is. Time counts only while this rank itself runs: a job that was suspended as
 * a whole continues when it is resumed. */

enum { ALIVE, BYE }; /* messages */

typedef struct heartbeat {
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
} heartbeat;

static void *beat(void *user) {
    heartbeat *h = user;
    int stop = 0, said_bye = 0;
    for (double last = gf_clock(); !said_bye || !h->gone;) {
        const double at = gf_clock(), passed = at - last;
        last = at;
        int arrived = 0;
        h->silent += passed < 4.0 * h->pause ? passed : 4.0 * h->pause;
        while (!h->gone && gf_mpi.Test(&h->receiving, &arrived, MPI_STATUS_IGNORE) == MPI_SUCCESS && arrived) {
            h->silent = 0.0;
            h->gone = h->received == BYE;
            if (!h->gone) gf_mpi.Irecv(&h->received, 1, MPI_INT, h->before, 0, h->comm, &h->receiving);
        }
        /* One message at a time: a pending one is not followed by more. */
        int sent = 0;
        if (!said_bye && gf_mpi.Test(&h->sending, &sent, MPI_STATUS_IGNORE) == MPI_SUCCESS && sent) {
            h->sent = stop ? BYE : ALIVE;
            said_bye = gf_mpi.Isend(&h->sent, 1, MPI_INT, h->after, 0, h->comm, &h->sending) == MPI_SUCCESS && stop;
        }
        if (h->limit > 0.0 && !h->gone && h->silent > h->limit) {
            char text[400];
            snprintf(text, sizeof text,
                     "rank %d on '%.100s' has not been heard of for %.0f seconds (rank_timeout): its machine or the "
                     "network is gone, or it was stopped",
                     h->before, h->host, h->silent);
            h->lost(h->user, text);
            return NULL;
        }
        if (!stop) {
            pthread_mutex_lock(&h->lock);
            if (!h->stop) gf_timed_cond_wait(&h->woken, &h->lock, h->pause);
            stop = h->stop;
            pthread_mutex_unlock(&h->lock);
        } else nanosleep(&(struct timespec){0, 1000000}, NULL);
    }
    gf_mpi.Wait(&h->sending, MPI_STATUS_IGNORE);
    return NULL;
}

/* Finds both neighbours, and the machine of the previous one. */
static glofnd_status join_ring(gf_error *err, heartbeat *h, MPI_Comm comm) {
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

/* Collective. After `seconds` of silence (0: no limit) lost(user, text) is called, on that thread, once: the text names rank,
 * machine and duration; the callee must end the process. */
static glofnd_status start_heartbeat(gf_error *err, MPI_Comm comm, double seconds, void (*lost)(void *user, const char *text),
                                     void *user, heartbeat **out) {
    heartbeat *h = calloc(1, sizeof *h);
    *out = NULL;
    FAIL_IF(err, !h, GLOFND_E_MEMORY, "no memory for a heartbeat");
    h->limit = seconds;
    h->pause = seconds > 0.0 ? fmin(1.0, seconds / 10.0) : 1.0;
    h->lost = lost, h->user = user;
    h->sending = MPI_REQUEST_NULL;
    pthread_mutex_init(&h->lock, NULL);
    glofnd_status status = join_ring(err, h, comm);
    if (status == GLOFND_OK && !gf_timed_cond_init(&h->woken)) status = gf_fail(err, GLOFND_E_MEMORY, "no clock for a heartbeat");
    if (status == GLOFND_OK && !gf_thread_start(&h->thread, beat, h))
        status = gf_fail(err, GLOFND_E_MEMORY, "no thread for a heartbeat");
    if (status == GLOFND_OK) *out = h;
    else free(h);
    return status;
}

/* Collective; returns when the previous rank has stopped, too. NULL is fine. */
static void stop_heartbeat(heartbeat *h) {
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

/* ----- the transport ----- */

typedef struct mpi_comm {
    gf_comm head;
    MPI_Comm comm;
    int first;       /* 1: it started MPI, and ends it */
    int patient;     /* a duplicate: its thread sleeps while it waits, since other threads need the core */
    heartbeat *beat; /* of the first, after gf_mpi_watch */
    int *count, *at; /* [2 ranks] of the calls that take lists */
    char *scratch;   /* parts of a sum from all ranks; grows */
    size_t scratch_bytes;
} mpi_comm;

static glofnd_status check_call(gf_error *err, const gf_comm *c, int code, const char *what) {
    char text[MPI_MAX_ERROR_STRING] = "";
    int length = 0;
    if (code == MPI_SUCCESS) return GLOFND_OK;
    gf_mpi.Error_string(code, text, &length);
    GF_FAIL(err, GLOFND_E_IO, "rank %d: %s between ranks failed: %.300s", c->rank, what, text);
}

static glofnd_status need_scratch(gf_error *err, mpi_comm *m, size_t bytes) {
    if (bytes <= m->scratch_bytes) return GLOFND_OK;
    char *more = realloc(m->scratch, bytes);
    FAIL_IF(err, !more, GLOFND_E_MEMORY, "no memory for %zu MB of communication between ranks", bytes >> 20);
    m->scratch = more;
    m->scratch_bytes = bytes;
    return GLOFND_OK;
}

static glofnd_status mpi_gather(gf_error *err, gf_comm *c, const void *part, size_t bytes, void *all) {
    mpi_comm *m = (mpi_comm *)c;
    const int in_place = part == (char *)all + bytes * (size_t)c->rank;
    /* MPI counts in int: more bytes are sent as words of 8. */
    const int words = bytes > INT_MAX && bytes % 8 == 0;
    const MPI_Datatype unit = words ? MPI_INT64_T : MPI_BYTE;
    FAIL_IF(err, bytes / (words ? 8 : 1) > INT_MAX, GLOFND_E_UNSUPPORTED, "%zu MB in one message are too many", bytes >> 20);
    const int count = (int)(bytes / (words ? 8 : 1));
    return check_call(err, c, gf_mpi.Allgather(in_place ? MPI_IN_PLACE : part, count, unit, all, count, unit, m->comm),
                      "a gather");
}

/* Lengths to (count, place); `which`: 0 sent, 1 received. */
static glofnd_status set_counts(gf_error *err, mpi_comm *m, const size_t *bytes, int which) {
    const int ranks = m->head.ranks;
    size_t at = 0;
    for (int r = 0; r < ranks; r++) {
        FAIL_IF(err, bytes[r] > INT_MAX || at > INT_MAX, GLOFND_E_UNSUPPORTED, "more than 2 GB between ranks in one call");
        m->count[which * ranks + r] = (int)bytes[r];
        m->at[which * ranks + r] = (int)at;
        at += bytes[r];
    }
    return GLOFND_OK;
}

static glofnd_status mpi_exchange(gf_error *err, gf_comm *c, const void *send, const size_t *send_bytes, void *recv,
                                  const size_t *recv_bytes) {
    mpi_comm *m = (mpi_comm *)c;
    const int ranks = c->ranks;
    TRY(set_counts(err, m, send_bytes, 0));
    TRY(set_counts(err, m, recv_bytes, 1));
    return check_call(err, c,
                      gf_mpi.Alltoallv(send, m->count, m->at, MPI_BYTE, recv, m->count + ranks, m->at + ranks, MPI_BYTE, m->comm),
                      "an exchange");
}

/* Sleeps between tests: MPI's own waiting calls keep a core busy. */
static int await(MPI_Request *request) {
    int done = 0, code = MPI_SUCCESS;
    for (long nap = 20000; !done && code == MPI_SUCCESS; nap = nap < 400000 ? 2 * nap : nap) {
        code = gf_mpi.Test(request, &done, MPI_STATUS_IGNORE);
        if (!done) nanosleep(&(struct timespec){0, nap}, NULL);
    }
    return code;
}

/* ----- the transport: sums ----- */

typedef struct number { /* type of the summands */
    MPI_Datatype type;
    size_t bytes;
    void (*add)(void *to, const void *from, int64_t n);
} number;

static void add_doubles(void *to, const void *from, int64_t n) {
    double *x = to;
    const double *y = from;
    for (int64_t i = 0; i < n; i++) x[i] += y[i];
}

static void add_floats(void *to, const void *from, int64_t n) {
    float *x = to;
    const float *y = from;
    for (int64_t i = 0; i < n; i++) x[i] += y[i];
}

/* The scratch holds this rank's piece [n] from every rank, in order: sums them into the first. */
static void add_parts(const mpi_comm *m, const number *k, int64_t n) {
    for (int r = 1; r < m->head.ranks; r++) k->add(m->scratch, m->scratch + (size_t)r * (size_t)n * k->bytes, n);
}

static glofnd_status sum_small(gf_error *err, mpi_comm *m, const number *k, void *x, int64_t n) {
    const size_t bytes = (size_t)n * k->bytes;
    TRY(need_scratch(err, m, bytes * (size_t)m->head.ranks));
    TRY(mpi_gather(err, &m->head, x, bytes, m->scratch));
    add_parts(m, k, n);
    memcpy(x, m->scratch, bytes);
    return GLOFND_OK;
}

static int64_t piece_start(int64_t n, int rank, int ranks) { return n / ranks * rank + (rank < n % ranks ? rank : n % ranks); }

/* n, at: counts and places of the pieces of x; to, to_at: of this rank's piece from every rank. */
static int scatter_pieces(mpi_comm *m, MPI_Datatype type, const void *x, const int *n, const int *at, const int *to,
                          const int *to_at) {
    MPI_Request request;
    if (!m->patient) return gf_mpi.Alltoallv(x, n, at, type, m->scratch, to, to_at, type, m->comm);
    const int code = gf_mpi.Ialltoallv(x, n, at, type, m->scratch, to, to_at, type, m->comm, &request);
    return code == MPI_SUCCESS ? await(&request) : code;
}

static int gather_pieces(mpi_comm *m, MPI_Datatype type, void *x, const int *n, const int *at) {
    MPI_Request request;
    if (!m->patient) return gf_mpi.Allgatherv(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, x, n, at, type, m->comm);
    const int code = gf_mpi.Iallgatherv(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, x, n, at, type, m->comm, &request);
    return code == MPI_SUCCESS ? await(&request) : code;
}

static glofnd_status sum_pieces(gf_error *err, mpi_comm *m, const number *k, void *x, int64_t n) {
    const int ranks = m->head.ranks, rank = m->head.rank;
    const int64_t first = piece_start(n, rank, ranks), mine = piece_start(n, rank + 1, ranks) - first;
    int *all = m->count, *all_at = m->at, *own = m->count + ranks, *own_at = m->at + ranks;
    for (int r = 0; r < ranks; r++) {
        all_at[r] = (int)piece_start(n, r, ranks);
        all[r] = (int)piece_start(n, r + 1, ranks) - all_at[r];
        own[r] = (int)mine;
        own_at[r] = (int)(mine * r);
    }
    TRY(need_scratch(err, m, (size_t)mine * (size_t)ranks * k->bytes + 1));
    TRY(check_call(err, &m->head, scatter_pieces(m, k->type, x, all, all_at, own, own_at), "a sum"));
    add_parts(m, k, mine);
    memcpy((char *)x + (size_t)first * k->bytes, m->scratch, (size_t)mine * k->bytes);
    return check_call(err, &m->head, gather_pieces(m, k->type, x, all, all_at), "a sum");
}

/* In portions whose places fit into MPI's int. */
static glofnd_status sum_any(gf_error *err, mpi_comm *m, const number *k, void *x, int64_t n) {
    const int64_t max = INT_MAX / 2;
    if (n <= 64 * (int64_t)m->head.ranks) return sum_small(err, m, k, x, n);
    for (int64_t i = 0; i < n; i += max) TRY(sum_pieces(err, m, k, (char *)x + (size_t)i * k->bytes, n - i < max ? n - i : max));
    return GLOFND_OK;
}

static glofnd_status mpi_sum(gf_error *err, gf_comm *c, double *x, int64_t n) {
    const number k = {MPI_DOUBLE, sizeof *x, add_doubles};
    return sum_any(err, (mpi_comm *)c, &k, x, n);
}

static glofnd_status mpi_sum_floats(gf_error *err, gf_comm *c, float *x, int64_t n) {
    const number k = {MPI_FLOAT, sizeof *x, add_floats};
    return sum_any(err, (mpi_comm *)c, &k, x, n);
}

/* ----- the transport: opening and closing ----- */

static void close_mpi(gf_comm *c) {
    mpi_comm *m = (mpi_comm *)c;
    stop_heartbeat(m->beat);
    if (!m->first) gf_mpi.Comm_free(&m->comm);
    free(m->count);
    free(m->at);
    free(m->scratch);
    if (m->first) gf_mpi.Finalize();
    free(m);
}

static glofnd_status mpi_duplicate(gf_error *err, gf_comm *c, gf_comm **out);

static const gf_comm_ops ops = {"mpi", mpi_gather, mpi_exchange, mpi_sum, mpi_sum_floats, mpi_duplicate, close_mpi, NULL, NULL};

static glofnd_status new_comm(gf_error *err, MPI_Comm comm, mpi_comm **out) {
    mpi_comm *m = calloc(1, sizeof *m);
    FAIL_IF(err, !m, GLOFND_E_MEMORY, "no memory for a rank");
    m->head.ops = &ops;
    m->comm = comm;
    gf_mpi.Comm_rank(comm, &m->head.rank);
    gf_mpi.Comm_size(comm, &m->head.ranks);
    m->count = calloc(2 * (size_t)m->head.ranks, sizeof *m->count);
    m->at = calloc(2 * (size_t)m->head.ranks, sizeof *m->at);
    *out = m;
    FAIL_IF(err, !m->count || !m->at, GLOFND_E_MEMORY, "no memory for %d ranks", m->head.ranks);
    gf_mpi.Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    return GLOFND_OK;
}

static glofnd_status mpi_duplicate(gf_error *err, gf_comm *c, gf_comm **out) {
    MPI_Comm comm;
    mpi_comm *m = NULL;
    TRY(check_call(err, c, gf_mpi.Comm_dup(((mpi_comm *)c)->comm, &comm), "a second channel"));
    const glofnd_status status = new_comm(err, comm, &m);
    if (m) m->head.local_rank = c->local_rank, m->head.local_ranks = c->local_ranks, m->patient = 1;
    if (status == GLOFND_OK) *out = &m->head;
    else if (m) close_mpi(&m->head);
    return status;
}

glofnd_status gf_mpi_open(gf_error *err, gf_comm **out) {
    int level = 0;
    mpi_comm *m = NULL;
    TRY(open_mpi_library(err));
    FAIL_IF(err, gf_mpi.Init_thread(NULL, NULL, MPI_THREAD_MULTIPLE, &level) != MPI_SUCCESS, GLOFND_E_IO,
            "MPI cannot be started");
    FAIL_IF(err, level < MPI_THREAD_MULTIPLE, GLOFND_E_UNSUPPORTED,
            "this MPI does not support calls from several threads (MPI_THREAD_MULTIPLE); use one that does, e.g. Open MPI 4");
    TRY(new_comm(err, MPI_COMM_WORLD, &m));
    m->first = 1;
    gf_comm *c = &m->head;
    MPI_Comm here;
    if (gf_mpi.Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, c->rank, MPI_INFO_NULL, &here) == MPI_SUCCESS) {
        gf_mpi.Comm_rank(here, &c->local_rank);
        gf_mpi.Comm_size(here, &c->local_ranks);
        gf_mpi.Comm_free(&here);
    }
    *out = &m->head;
    return GLOFND_OK;
}

glofnd_status gf_mpi_watch(gf_error *err, gf_comm *c, double seconds, void (*lost)(void *user, const char *text), void *user) {
    mpi_comm *m = (mpi_comm *)c;
    return start_heartbeat(err, m->comm, seconds, lost, user, &m->beat);
}

void gf_mpi_abort(int code) { gf_mpi.Abort(MPI_COMM_WORLD, code); }

void gf_mpi_describe(char *text, size_t bytes) {
    char version[MPI_MAX_LIBRARY_VERSION_STRING] = "";
    int length = 0;
    gf_error err;
    if (open_mpi_library(&err) != GLOFND_OK) {
        snprintf(text, bytes, "nothing: %s", err.text);
        return;
    }
    gf_mpi.Get_library_version(version, &length);
    snprintf(text, bytes, "%.*s", (int)strcspn(version, ","), version);
}

#else

glofnd_status gf_mpi_open(gf_error *err, gf_comm **out) {
    *out = NULL;
    GF_FAIL(err, GLOFND_E_UNSUPPORTED, "several ranks need MPI: " GF_LEFT_OUT("MPI", "libopenmpi-dev"));
}

glofnd_status gf_mpi_watch(gf_error *err, gf_comm *c, double seconds, void (*lost)(void *user, const char *text), void *user) {
    (void)err, (void)c, (void)seconds, (void)lost, (void)user;
    return GLOFND_OK;
}

void gf_mpi_abort(int code) { (void)code; }

void gf_mpi_describe(char *text, size_t bytes) { snprintf(text, bytes, GF_LEFT_OUT("MPI", "libopenmpi-dev")); }

#endif

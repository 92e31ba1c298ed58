/* mpi_transport.c - see mpi_transport.h.
 *
 * Sums do not use MPI's reductions: each rank receives all parts of its piece of the array, adds them in the order of ranks, and
 * the pieces are gathered. This moves as many bytes as a ring would, and all ranks get the same bits, in every run.
 */
#include "dist/mpi_transport.h"

#include <stdio.h>

#ifdef GF_HAVE_MPI

#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "dist/heartbeat.h"
#include "dist/mpi_lib.h"

typedef struct mpi_comm {
    gf_comm head;
    MPI_Comm comm;
    int first;          /* 1: it started MPI, and ends it */
    int patient;        /* a duplicate: its thread sleeps while it waits, since other threads need the core */
    gf_heartbeat *beat; /* of the first, after gf_mpi_watch */
    int *count, *at;    /* [2 ranks] of the calls that take lists */
    char *scratch;      /* parts of a sum from all ranks; grows */
    size_t scratch_bytes;
} mpi_comm;

static glofnd_status check(gf_error *err, const gf_comm *c, int code, const char *what) {
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

/* MPI counts in int: more bytes are sent as words of 8. */
static glofnd_status unit_of(gf_error *err, size_t bytes, MPI_Datatype *unit, int *count) {
    const int words = bytes > INT_MAX && bytes % 8 == 0;
    *unit = words ? MPI_INT64_T : MPI_BYTE;
    FAIL_IF(err, bytes / (words ? 8 : 1) > INT_MAX, GLOFND_E_UNSUPPORTED, "%zu MB in one message are too many", bytes >> 20);
    *count = (int)(bytes / (words ? 8 : 1));
    return GLOFND_OK;
}

static glofnd_status gather(gf_error *err, gf_comm *c, const void *part, size_t bytes, void *all) {
    mpi_comm *m = (mpi_comm *)c;
    MPI_Datatype unit;
    int count = 0;
    const int in_place = part == (char *)all + bytes * (size_t)c->rank;
    TRY(unit_of(err, bytes, &unit, &count));
    return check(err, c, gf_mpi.Allgather(in_place ? MPI_IN_PLACE : part, count, unit, all, count, unit, m->comm), "a gather");
}

/* Lengths to (count, place); `which`: 0 sent, 1 received. */
static glofnd_status lay_out(gf_error *err, mpi_comm *m, const size_t *bytes, int which) {
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

static glofnd_status exchange(gf_error *err, gf_comm *c, const void *send, const size_t *send_bytes, void *recv,
                              const size_t *recv_bytes) {
    mpi_comm *m = (mpi_comm *)c;
    const int ranks = c->ranks;
    TRY(lay_out(err, m, send_bytes, 0));
    TRY(lay_out(err, m, recv_bytes, 1));
    return check(err, c,
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

/* ----- sums ----- */

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
    TRY(gather(err, &m->head, x, bytes, m->scratch));
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
    TRY(check(err, &m->head, scatter_pieces(m, k->type, x, all, all_at, own, own_at), "a sum"));
    add_parts(m, k, mine);
    memcpy((char *)x + (size_t)first * k->bytes, m->scratch, (size_t)mine * k->bytes);
    return check(err, &m->head, gather_pieces(m, k->type, x, all, all_at), "a sum");
}

/* In portions whose places fit into MPI's int. */
static glofnd_status sum_any(gf_error *err, mpi_comm *m, const number *k, void *x, int64_t n) {
    const int64_t max = INT_MAX / 2;
    if (n <= 64 * (int64_t)m->head.ranks) return sum_small(err, m, k, x, n);
    for (int64_t i = 0; i < n; i += max) TRY(sum_pieces(err, m, k, (char *)x + (size_t)i * k->bytes, n - i < max ? n - i : max));
    return GLOFND_OK;
}

static glofnd_status sum(gf_error *err, gf_comm *c, double *x, int64_t n) {
    const number k = {MPI_DOUBLE, sizeof *x, add_doubles};
    return sum_any(err, (mpi_comm *)c, &k, x, n);
}

static glofnd_status sum_floats(gf_error *err, gf_comm *c, float *x, int64_t n) {
    const number k = {MPI_FLOAT, sizeof *x, add_floats};
    return sum_any(err, (mpi_comm *)c, &k, x, n);
}

/* ----- life ----- */

static void close_mpi(gf_comm *c) {
    mpi_comm *m = (mpi_comm *)c;
    gf_heartbeat_stop(m->beat);
    if (!m->first) gf_mpi.Comm_free(&m->comm);
    free(m->count);
    free(m->at);
    free(m->scratch);
    if (m->first) gf_mpi.Finalize();
    free(m);
}

static glofnd_status duplicate(gf_error *err, gf_comm *c, gf_comm **out);

static const gf_comm_ops ops = {"mpi", gather, exchange, sum, sum_floats, duplicate, close_mpi, NULL, NULL};

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

static glofnd_status duplicate(gf_error *err, gf_comm *c, gf_comm **out) {
    MPI_Comm comm;
    mpi_comm *m = NULL;
    TRY(check(err, c, gf_mpi.Comm_dup(((mpi_comm *)c)->comm, &comm), "a second channel"));
    const glofnd_status status = new_comm(err, comm, &m);
    if (m) m->head.local_rank = c->local_rank, m->head.local_ranks = c->local_ranks, m->patient = 1;
    if (status == GLOFND_OK) *out = &m->head;
    else if (m) close_mpi(&m->head);
    return status;
}

static void find_local_rank(gf_comm *c) {
    MPI_Comm here;
    if (gf_mpi.Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, c->rank, MPI_INFO_NULL, &here) != MPI_SUCCESS) return;
    gf_mpi.Comm_rank(here, &c->local_rank);
    gf_mpi.Comm_size(here, &c->local_ranks);
    gf_mpi.Comm_free(&here);
}

glofnd_status gf_mpi_open(gf_error *err, gf_comm **out) {
    int level = 0;
    mpi_comm *m = NULL;
    TRY(gf_mpi_lib_open(err));
    FAIL_IF(err, gf_mpi.Init_thread(NULL, NULL, MPI_THREAD_MULTIPLE, &level) != MPI_SUCCESS, GLOFND_E_IO,
            "MPI cannot be started");
    FAIL_IF(err, level < MPI_THREAD_MULTIPLE, GLOFND_E_UNSUPPORTED,
            "this MPI does not support calls from several threads (MPI_THREAD_MULTIPLE); use one that does, e.g. Open MPI 4");
    TRY(new_comm(err, MPI_COMM_WORLD, &m));
    m->first = 1;
    find_local_rank(&m->head);
    *out = &m->head;
    return GLOFND_OK;
}

glofnd_status gf_mpi_watch(gf_error *err, gf_comm *c, double seconds, void (*lost)(void *user, const char *text), void *user) {
    mpi_comm *m = (mpi_comm *)c;
    return gf_heartbeat_start(err, m->comm, seconds, lost, user, &m->beat);
}

void gf_mpi_abort(int code) { gf_mpi.Abort(MPI_COMM_WORLD, code); }

void gf_mpi_describe(char *text, size_t bytes) {
    char version[MPI_MAX_LIBRARY_VERSION_STRING] = "";
    int length = 0;
    gf_error err;
    if (gf_mpi_lib_open(&err) != GLOFND_OK) {
        snprintf(text, bytes, "nothing: %s", err.text);
        return;
    }
    gf_mpi.Get_library_version(version, &length);
    snprintf(text, bytes, "%.*s", (int)strcspn(version, ","), version);
}

#else

#include "util/machine.h"

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

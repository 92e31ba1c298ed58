/* comm.h - communication between ranks: a table of functions per transport (single, mpi; nccl for device memory).
 *
 * Every call is collective: all ranks make the same calls in the same order, with the same sizes. A failure of the transport is
 * fatal for the run; an error of one rank alone is shared by gf_comm_agree, so that all of them stop together.
 *
 * Sums give every rank the same bits: parts are added in the order of ranks, whatever the transport's own order would be (NCCL
 * promises the same bits on all ranks, not the order). So weights stay equal on all ranks without ever being compared.
 */
#pragma once

#include "util/status.h"

typedef struct gf_comm gf_comm;

typedef struct gf_comm_ops {
    const char *name;
    /* all [ranks][bytes] = the parts of all ranks; part may lie in its place in `all`. */
    glofnd_status (*gather)(gf_error *err, gf_comm *c, const void *part, size_t bytes, void *all);
    /* send_bytes[r] of `send` go to rank r, recv_bytes[r] of `recv` come from it, both in the order of ranks. Host memory. */
    glofnd_status (*exchange)(gf_error *err, gf_comm *c, const void *send, const size_t *send_bytes, void *recv,
                              const size_t *recv_bytes);
    glofnd_status (*sum)(gf_error *err, gf_comm *c, double *x, int64_t n);       /* in place */
    glofnd_status (*sum_floats)(gf_error *err, gf_comm *c, float *x, int64_t n); /* in place, large */
    /* A second one between the same ranks, for a second thread; on a device for a second queue. Collective. */
    glofnd_status (*duplicate)(gf_error *err, gf_comm *c, gf_comm **out);
    void (*close)(gf_comm *c);
    /* For a duplicate on a device, where calls only queue. fork: work queued on the origin's stream so far is done before calls
     * of the duplicate from now on. join: the duplicate's calls so far are done before work queued there from now on. NULL: calls
     * return when they are done. */
    glofnd_status (*fork)(gf_error *err, gf_comm *c);
    glofnd_status (*join)(gf_error *err, gf_comm *c);
} gf_comm_ops;

struct gf_comm { /* head of every transport's own struct */
    const gf_comm_ops *ops;
    int rank, ranks;
    int local_rank;  /* among the ranks of this machine: index of its GPU */
    int local_ranks; /* how many these are; 0: not known */
};

/* ----- device memory -----
 *
 * Communication between ranks from device memory. Without CUDA these fail with E_UNSUPPORTED. */

/* Collective over `host`. Calls are queued on `stream` (cudaStream_t); pointers are device memory; exchange is missing. Close it
 * before the host's, and its duplicates before it. */
glofnd_status gf_device_comm_open(gf_error *err, gf_comm *host, void *stream, gf_comm **out);
/* Makes the GPU of this rank the current one; E_DEVICE if the machine has more ranks than GPUs. */
glofnd_status gf_device_choose(gf_error *err, int local_rank);
/* The same for ranks that may share a GPU: local_ranks of them on this machine, dealt out over its GPUs. *sharing: those on the
 * GPU of this one; each takes an equal part of the memory that is free. */
glofnd_status gf_device_share(gf_error *err, int local_rank, int local_ranks, int *sharing);
void gf_device_comm_describe(char *text, size_t bytes);

/* ----- MPI -----
 *
 * Ranks over MPI, on host memory; for dist.c. Without MPI opening fails with E_UNSUPPORTED. */

glofnd_status gf_mpi_open(gf_error *err, gf_comm **out);
glofnd_status gf_mpi_watch(gf_error *err, gf_comm *c, double seconds, void (*lost)(void *user, const char *text), void *user);
void gf_mpi_abort(int code);
void gf_mpi_describe(char *text, size_t bytes);

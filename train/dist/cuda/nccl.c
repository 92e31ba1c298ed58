/* nccl.c - ranks over NCCL, on device memory: every call is queued on one stream, and may be recorded in a CUDA graph.
 *
 * The library is opened at run time, so a build with CUDA runs where it is missing, and reports that when several GPUs are used.
 *
 * Gradients use a duplicate: a second communicator with its own stream. NCCL runs the calls of one communicator one after the
 * other on any streams, so with one communicator every sum of a batch norm, which backward waits for, would queue behind
 * megabytes of gradients, which it does not wait for. Kernels of both are then on the device at once, each waiting for its
 * counterpart on the other ranks, which ends only if all ranks start them in the same order. NCCL ensures that from 2.26 on, with
 * NCCL_LAUNCH_ORDER_IMPLICIT and if one thread makes the calls of both in an order that all ranks share: here it goes over the
 * layers, in an order that follows from the network alone. With an older NCCL the duplicate is the original, and sums of
 * gradients wait their turn.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <nccl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cuda/cuda_device.h"
#include "dist/comm.h"
#include "util/machine.h"

#define GF_NCCL_FUNCTIONS(X)  \
    X(ncclGetUniqueId)        \
    X(ncclCommInitRankConfig) \
    X(ncclCommDestroy) X(ncclAllGather) X(ncclAllReduce) X(ncclGetErrorString) X(ncclCommGetAsyncError) X(ncclGetVersion)

enum {
    DUPLICATE_BLOCKS = 16, /* multiprocessors of the duplicate's kernels, at most; the network has the rest */
    IN_ORDER = 22600       /* first version that starts kernels of several communicators in the order of calls */
};

typedef struct nccl_library {
    void *handle;
#define GF_X(name) __typeof__(name) *name;
    GF_NCCL_FUNCTIONS(GF_X)
#undef GF_X
} nccl_library;

typedef struct nccl_comm {
    gf_comm head;
    nccl_library lib;
    ncclComm_t comm;
    gf_comm *host;       /* borrowed: the transport between hosts */
    cudaStream_t stream; /* borrowed; the duplicate owns its stream */
    int is_duplicate;
    int borrowed;        /* comm belongs to the original */
    cudaStream_t origin; /* duplicate: stream of the original */
    cudaEvent_t forked, joined;
} nccl_comm;

/* ----- the library ----- */

/* NCCL reads the launch order from the environment only; a value set by the user stays. The loader's threads begin later. */
static glofnd_status open_library(gf_error *err, nccl_library *l) {
    static const char *const names[] = {"libnccl.so.2", NULL};
    setenv("NCCL_LAUNCH_ORDER_IMPLICIT", "1", 0);
    l->handle = gf_shared_lib_open(names, 0);
    FAIL_IF(err, !l->handle, GLOFND_E_UNSUPPORTED,
            "NCCL was not found (libnccl.so.2), and several GPUs need it: install it or put its folder into LD_LIBRARY_PATH");
#define GF_X(name)                                                                      \
    FAIL_IF(err, !gf_shared_lib_find(l->handle, #name, &l->name), GLOFND_E_UNSUPPORTED, \
            "this NCCL has no %s: version 2.17 is needed", #name);
    GF_NCCL_FUNCTIONS(GF_X)
#undef GF_X
    return GLOFND_OK;
}

static glofnd_status check_nccl(gf_error *err, const nccl_comm *n, ncclResult_t code, const char *what) {
    FAIL_IF(err, code != ncclSuccess, GLOFND_E_DEVICE, "rank %d: NCCL, %s: %s", n->head.rank, what,
            n->lib.ncclGetErrorString(code));
    return GLOFND_OK;
}

static glofnd_status check_cuda(gf_error *err, const nccl_comm *n, cudaError_t code, const char *what) {
    FAIL_IF(err, code != cudaSuccess, GLOFND_E_DEVICE, "rank %d: %s: %s", n->head.rank, what, cudaGetErrorString(code));
    return GLOFND_OK;
}

/* ----- the table ----- */

static glofnd_status nccl_gather(gf_error *err, gf_comm *c, const void *part, size_t bytes, void *all) {
    nccl_comm *n = (nccl_comm *)c;
    return check_nccl(err, n, n->lib.ncclAllGather(part, all, bytes, ncclInt8, n->comm, n->stream), "a gather");
}

static glofnd_status nccl_exchange(gf_error *err, gf_comm *c, const void *send, const size_t *send_bytes, void *recv,
                                   const size_t *recv_bytes) {
    (void)c, (void)send, (void)send_bytes, (void)recv, (void)recv_bytes;
    GF_FAIL(err, GLOFND_E_UNSUPPORTED, "exchanges go through host memory");
}

static glofnd_status nccl_sum(gf_error *err, gf_comm *c, double *x, int64_t count) {
    nccl_comm *n = (nccl_comm *)c;
    return check_nccl(err, n, n->lib.ncclAllReduce(x, x, (size_t)count, ncclDouble, ncclSum, n->comm, n->stream), "a sum");
}

static glofnd_status nccl_sum_floats(gf_error *err, gf_comm *c, float *x, int64_t count) {
    nccl_comm *n = (nccl_comm *)c;
    return check_nccl(err, n, n->lib.ncclAllReduce(x, x, (size_t)count, ncclFloat, ncclSum, n->comm, n->stream),
                      "a sum of gradients");
}

/* `behind` waits for the work queued on `ahead` so far. Also in a capture, where this joins the streams of a step. */
static glofnd_status follow(gf_error *err, const nccl_comm *n, cudaStream_t ahead, cudaEvent_t event, cudaStream_t behind) {
    TRY(check_cuda(err, n, cudaEventRecord(event, ahead), "an event"));
    return check_cuda(err, n, cudaStreamWaitEvent(behind, event, 0), "an event");
}

static glofnd_status fork_off(gf_error *err, gf_comm *c) {
    const nccl_comm *n = (nccl_comm *)c;
    return n->is_duplicate ? follow(err, n, n->origin, n->forked, n->stream) : GLOFND_OK;
}

static glofnd_status join_again(gf_error *err, gf_comm *c) {
    const nccl_comm *n = (nccl_comm *)c;
    return n->is_duplicate ? follow(err, n, n->stream, n->joined, n->origin) : GLOFND_OK;
}

static void close_nccl(gf_comm *c) {
    nccl_comm *n = (nccl_comm *)c;
    if (n->comm && !n->borrowed) n->lib.ncclCommDestroy(n->comm);
    if (n->forked) cudaEventDestroy(n->forked);
    if (n->joined) cudaEventDestroy(n->joined);
    if (n->is_duplicate && n->stream) cudaStreamDestroy(n->stream);
    free(n); /* the library stays open: its threads may still run */
}

static glofnd_status nccl_duplicate(gf_error *err, gf_comm *c, gf_comm **out);

static const gf_comm_ops kind = {"nccl",         nccl_gather, nccl_exchange, nccl_sum,  nccl_sum_floats,
                                 nccl_duplicate, close_nccl,  fork_off,      join_again};

/* ----- opening ----- */

typedef struct offer { /* gathered from every rank before the start */
    ncclUniqueId id;   /* of rank 0 */
    int32_t status;    /* of the rank so far: the others must not wait for one that failed */
} offer;

static glofnd_status start_communicator(gf_error *err, nccl_comm *n, gf_comm *host, const offer *own, offer *all) {
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    if (n->is_duplicate) config.maxCTAs = DUPLICATE_BLOCKS;
    TRY(host->ops->gather(err, host, own, sizeof *own, all));
    for (int r = 0; r < host->ranks; r++)
        FAIL_IF(err, all[r].status != GLOFND_OK && r != host->rank, (glofnd_status)all[r].status, "rank %d cannot use NCCL", r);
    return check_nccl(err, n, n->lib.ncclCommInitRankConfig(&n->comm, host->ranks, all[0].id, host->rank, &config), "start");
}

/* Rank 0 makes the id; the host's transport spreads it. `status`: of this rank so far. */
static glofnd_status enter_nccl(gf_error *err, nccl_comm *n, glofnd_status status) {
    gf_comm *host = n->host;
    offer own, *all = malloc(sizeof *all * (size_t)host->ranks);
    FAIL_IF(err, !all, GLOFND_E_MEMORY, "no memory for %d ranks", host->ranks);
    memset(&own, 0, sizeof own);
    if (status == GLOFND_OK && host->rank == 0) status = check_nccl(err, n, n->lib.ncclGetUniqueId(&own.id), "start");
    own.status = (int32_t)status;
    gf_error others = {""};
    const glofnd_status met = status == GLOFND_OK ? start_communicator(err, n, host, &own, all)
                                                  : host->ops->gather(&others, host, &own, sizeof own, all);
    free(all);
    return status == GLOFND_OK ? met : status;
}

/* A new communicator of the ranks of `host`. `status`: of this rank so far. */
static glofnd_status give(gf_error *err, nccl_comm *n, glofnd_status status, gf_comm **out) {
    status = enter_nccl(err, n, status);
    if (status == GLOFND_OK) *out = &n->head;
    else close_nccl(&n->head);
    return status;
}

static nccl_comm *new_comm(gf_comm *host) {
    nccl_comm *n = calloc(1, sizeof *n);
    if (!n) return NULL;
    n->head = (gf_comm){&kind, host->rank, host->ranks, host->local_rank, host->local_ranks};
    n->host = host;
    return n;
}

/* The stream has priority where multiprocessors become free: sums that begin early end early. */
static glofnd_status open_side(gf_error *err, nccl_comm *n) {
    int lowest = 0, highest = 0;
    TRY(check_cuda(err, n, cudaDeviceGetStreamPriorityRange(&lowest, &highest), "a stream"));
    TRY(check_cuda(err, n, cudaStreamCreateWithPriority(&n->stream, cudaStreamNonBlocking, highest), "a stream"));
    TRY(check_cuda(err, n, cudaEventCreateWithFlags(&n->forked, cudaEventDisableTiming), "an event"));
    return check_cuda(err, n, cudaEventCreateWithFlags(&n->joined, cudaEventDisableTiming), "an event");
}

static glofnd_status nccl_duplicate(gf_error *err, gf_comm *c, gf_comm **out) {
    const nccl_comm *n = (nccl_comm *)c;
    nccl_comm *t = new_comm(n->host);
    *out = NULL;
    FAIL_IF(err, !t, GLOFND_E_MEMORY, "no memory for a rank");
    t->lib = n->lib;
    int version = 0;
    if (!(n->lib.ncclGetVersion(&version) == ncclSuccess && version >= IN_ORDER)) {
        t->comm = n->comm, t->stream = n->stream, t->borrowed = 1;
        *out = &t->head;
        return GLOFND_OK;
    }
    t->is_duplicate = 1;
    t->origin = n->stream;
    return give(err, t, open_side(err, t), out);
}

glofnd_status gf_device_comm_open(gf_error *err, gf_comm *host, void *stream, gf_comm **out) {
    nccl_comm *n = new_comm(host);
    *out = NULL;
    FAIL_IF(err, !n, GLOFND_E_MEMORY, "no memory for a rank");
    n->stream = (cudaStream_t)stream;
    return give(err, n, open_library(err, &n->lib), out);
}

/* *count: GPUs of this machine. */
static glofnd_status choose_device(gf_error *err, int local_rank, int *count) {
    cudaError_t e = cudaGetDeviceCount(count);
    if (e == cudaSuccess && *count > 0) e = cudaSetDevice(local_rank % *count);
    FAIL_IF(err, e != cudaSuccess || *count == 0, GLOFND_E_DEVICE, "no GPU for local rank %d: %s; use device = cpu", local_rank,
            e == cudaSuccess ? "there is none" : cudaGetErrorString(e));
    return GLOFND_OK;
}

glofnd_status gf_device_share(gf_error *err, int local_rank, int local_ranks, int *sharing) {
    int count = 0;
    TRY(choose_device(err, local_rank, &count));
    const int ranks = local_ranks > local_rank ? local_ranks : local_rank + 1, own = local_rank % count;
    *sharing = (ranks - own + count - 1) / count;
    gf_cuda_set_sharing(*sharing);
    return GLOFND_OK;
}

glofnd_status gf_device_choose(gf_error *err, int local_rank) {
    int count = 0;
    TRY(choose_device(err, local_rank, &count));
    FAIL_IF(err, local_rank >= count, GLOFND_E_DEVICE,
            "local rank %d, but this machine has %d GPU%s: start as many ranks as GPUs", local_rank, count,
            count == 1 ? "" : "s");
    return GLOFND_OK;
}

void gf_device_comm_describe(char *text, size_t bytes) {
    gf_error err = {""};
    nccl_library lib = {0};
    int version = 0;
    if (open_library(&err, &lib) == GLOFND_OK && lib.ncclGetVersion(&version) == ncclSuccess)
        snprintf(text, bytes, "NCCL %d.%d.%d", version / 10000, version / 100 % 100, version % 100);
    else snprintf(text, bytes, "%s", err.text);
}

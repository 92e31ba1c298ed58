/* gpu_transport.h - a transport between ranks on CUDA for tests without a second GPU. gf_device_comm_open below replaces the
 * library's, so NCCL is not used: include this once in a program. Its ranks are threads; their streams wait for each other's
 * events, as NCCL's kernels would. */
#pragma once

#include <cuda_runtime_api.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "dist/comm.h"
#include "nn/nn_ops.h"
#include "support/thread_ranks.h"

enum { PIECES_MAX = 64 };

typedef enum habit {
    DOUBLE, /* one rank that counts for two: sums are doubled; the transport is slow */
    SPOIL,  /* one rank; sums are garbage for some milliseconds, then right */
    PLAIN,  /* one rank; sums are what is there */
    SHARE   /* ranks are threads, and sum */
} habit;

typedef struct piece {
    float *x;
    int64_t n;
    int norms; /* sums of batch norm that came before it */
} piece;

typedef struct notes { /* of one rank */
    piece piece[PIECES_MAX];
    int pieces, norms, forks, joins;
    float *first; /* gradients as they were handed over, at the place of the first number of a block */
    float *copy;
} notes;

static struct { /* kind of the transports that are opened */
    habit habit;
    notes *notes; /* DOUBLE, SPOIL */
} next;

typedef struct wire {
    gf_comm head;
    gf_comm *host; /* borrowed */
    habit habit;
    notes *notes;
    gf_nn_engine *engine; /* of a duplicate: its stream */
    cudaStream_t stream, origin;
    cudaEvent_t event, arrived, copied;
    char *gathered; /* SHARE: numbers of all ranks */
    size_t gathered_bytes;
} wire;

static void must(cudaError_t e) {
    if (e == cudaSuccess) return;
    fprintf(stderr, "CUDA: %s\n", cudaGetErrorString(e));
    abort();
}

/* A capture cannot hold the work of other threads: this ends it, and the step continues without. */
static int spoils_recording(wire *w) {
    enum cudaStreamCaptureStatus now;
    must(cudaStreamIsCapturing(w->stream, &now));
    if (now == cudaStreamCaptureStatusNone) return 0;
    cudaStreamSynchronize(w->stream);
    cudaGetLastError();
    return 1;
}

static void make_room(wire *w, size_t bytes) {
    if (bytes <= w->gathered_bytes) return;
    must(cudaStreamSynchronize(w->stream));
    must(cudaFree(w->gathered));
    must(cudaMalloc((void **)&w->gathered, bytes));
    w->gathered_bytes = bytes;
}

typedef struct visit { /* published by a rank */
    const void *x;
    cudaEvent_t arrived, copied;
} visit;

/* Gathers `bytes` of every rank into `all`, on this stream; x may change afterwards. */
static void fetch(wire *w, const void *x, size_t bytes, char *all) {
    visit mine = {x, w->arrived, w->copied};
    must(cudaEventRecord(w->arrived, w->stream));
    void *const *at = thread_ranks_show(w->host, &mine);
    for (int r = 0; r < w->head.ranks; r++) {
        const visit *v = at[r];
        must(cudaStreamWaitEvent(w->stream, v->arrived, 0));
        char *to = all + (size_t)r * bytes;
        if (to != v->x) must(cudaMemcpyAsync(to, v->x, bytes, cudaMemcpyDeviceToDevice, w->stream));
    }
    must(cudaEventRecord(w->copied, w->stream));
    thread_ranks_meet(w->host);
    for (int r = 0; r < w->head.ranks; r++) must(cudaStreamWaitEvent(w->stream, ((const visit *)at[r])->copied, 0));
    thread_ranks_meet(w->host);
}

static glofnd_status gather(gf_error *err, gf_comm *c, const void *part, size_t bytes, void *all) {
    wire *w = (wire *)c;
    (void)err;
    if (w->habit == SHARE) {
        if (!spoils_recording(w)) fetch(w, part, bytes, all);
    } else if (part != all) {
        must(cudaMemcpyAsync(all, part, bytes, cudaMemcpyDeviceToDevice, w->stream));
    }
    return GLOFND_OK;
}

/* In the order of ranks, by the host. */
static void share_sum(wire *w, void *x, int64_t n, size_t size) {
    const size_t bytes = (size_t)n * size;
    if (spoils_recording(w)) return;
    make_room(w, bytes * (size_t)w->head.ranks);
    fetch(w, x, bytes, w->gathered);
    char *all = malloc(bytes * (size_t)w->head.ranks);
    must(cudaMemcpyAsync(all, w->gathered, bytes * (size_t)w->head.ranks, cudaMemcpyDeviceToHost, w->stream));
    must(cudaStreamSynchronize(w->stream));
    for (int r = 1; r < w->head.ranks; r++)
        for (int64_t i = 0; i < n; i++)
            if (size == sizeof(double)) ((double *)all)[i] += ((double *)all)[r * n + i];
            else ((float *)all)[i] += ((float *)all)[r * n + i];
    must(cudaMemcpyAsync(x, all, bytes, cudaMemcpyHostToDevice, w->stream));
    must(cudaStreamSynchronize(w->stream));
    free(all);
}

static glofnd_status sum(gf_error *err, gf_comm *c, double *x, int64_t n) {
    wire *w = (wire *)c;
    (void)err;
    if (w->habit == SHARE) share_sum(w, x, n, sizeof *x);
    else if (w->notes) w->notes->norms++;
    return GLOFND_OK;
}

static void dawdle(void *none) {
    (void)none;
    usleep(3000);
}

static glofnd_status sum_floats(gf_error *err, gf_comm *c, float *x, int64_t n) {
    wire *w = (wire *)c;
    (void)err;
    if (w->habit == SHARE) {
        share_sum(w, x, n, sizeof *x);
        return GLOFND_OK;
    }
    if (w->habit == PLAIN) return GLOFND_OK;
    float *copy = w->notes->copy + (x - w->notes->first);
    const size_t bytes = (size_t)n * sizeof *x;
    if (w->notes->pieces < PIECES_MAX) w->notes->piece[w->notes->pieces] = (piece){x, n, w->notes->norms};
    w->notes->pieces++;
    must(cudaMemcpyAsync(copy, x, bytes, cudaMemcpyDeviceToDevice, w->stream));
    if (w->habit == SPOIL) must(cudaMemsetAsync(x, 0xff, bytes, w->stream)); /* NaN */
    if (w->habit == SPOIL) must(cudaLaunchHostFunc(w->stream, dawdle, NULL));
    if (w->habit == SPOIL) must(cudaMemcpyAsync(x, copy, bytes, cudaMemcpyDeviceToDevice, w->stream));
    else gf_nn_backend_cuda.add(w->engine, GF_TYPE_F32, x, copy, n);
    return GLOFND_OK;
}

static glofnd_status fork_off(gf_error *err, gf_comm *c) {
    wire *w = (wire *)c;
    (void)err;
    if (w->notes) w->notes->forks++;
    must(cudaEventRecord(w->event, w->origin));
    must(cudaStreamWaitEvent(w->stream, w->event, 0));
    if (w->habit == DOUBLE) must(cudaLaunchHostFunc(w->origin, dawdle, NULL));
    return GLOFND_OK;
}

static glofnd_status join_again(gf_error *err, gf_comm *c) {
    wire *w = (wire *)c;
    (void)err;
    if (w->notes) w->notes->joins++;
    must(cudaEventRecord(w->event, w->stream));
    must(cudaStreamWaitEvent(w->origin, w->event, 0));
    return GLOFND_OK;
}

static void close_wire(gf_comm *c) {
    wire *w = (wire *)c;
    must(cudaFree(w->gathered));
    must(cudaEventDestroy(w->event)), must(cudaEventDestroy(w->arrived)), must(cudaEventDestroy(w->copied));
    if (w->engine) gf_nn_backend_cuda.close(w->engine);
    free(w);
}

static glofnd_status duplicate(gf_error *err, gf_comm *c, gf_comm **out);
static const gf_comm_ops kind = {"test", gather, NULL, sum, sum_floats, duplicate, close_wire, fork_off, join_again};

static wire *new_wire(gf_comm *host, cudaStream_t stream) {
    wire *w = calloc(1, sizeof *w);
    *w = (wire){.head = {&kind, host->rank, host->ranks, 0}, .host = host, .stream = stream};
    must(cudaEventCreateWithFlags(&w->event, cudaEventDisableTiming));
    must(cudaEventCreateWithFlags(&w->arrived, cudaEventDisableTiming));
    must(cudaEventCreateWithFlags(&w->copied, cudaEventDisableTiming));
    return w;
}

static glofnd_status duplicate(gf_error *err, gf_comm *c, gf_comm **out) {
    const wire *from = (wire *)c;
    gf_nn_engine *engine = NULL;
    TRY(gf_nn_backend_cuda.open(err, 1, &engine));
    wire *w = new_wire(from->host, gf_nn_backend_cuda.stream(engine));
    w->engine = engine;
    w->habit = from->habit, w->notes = from->notes;
    w->origin = from->stream;
    *out = &w->head;
    return GLOFND_OK;
}

glofnd_status gf_device_comm_open(gf_error *err, gf_comm *host, void *stream, gf_comm **out) {
    (void)err;
    wire *w = new_wire(host, (cudaStream_t)stream);
    w->habit = next.habit, w->notes = next.notes;
    *out = &w->head;
    return GLOFND_OK;
}

glofnd_status gf_device_choose(gf_error *err, int local_rank) {
    (void)err, (void)local_rank;
    return GLOFND_OK;
}

void gf_device_comm_describe(char *text, size_t bytes) { snprintf(text, bytes, "a test's"); }

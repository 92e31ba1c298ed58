/* cuda_nccl.c - NCCL on one GPU: one rank and its duplicate, by calls and captured; the error for two ranks on one GPU. Training
 * with several ranks is tested in cuda_ranks.c and, over MPI on the CPU, in mpi_train.c. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "support/test.h"

#include <cuda_runtime_api.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "dist/comm.h"
#include "dist/dist.h"
#include "support/cuda_main.h"
#include "support/gpu_runs.h"
#include "support/thread_ranks.h"

enum { COUNT = 1 << 16 };

static void good(cudaError_t e) {
    if (e != cudaSuccess) fail_msg("%s", cudaGetErrorString(e));
}

typedef struct line { /* a stream, numbers on the device, one rank and its duplicate */
    cudaStream_t stream;
    float *x, *host;
    gf_comm *ranks, *wire, *duplicate;
} line;

/* Skips where NCCL is missing. */
static line open_line(void) {
    gf_error err = {""};
    line l = {0};
    good(cudaStreamCreateWithFlags(&l.stream, cudaStreamNonBlocking));
    good(cudaMalloc((void **)&l.x, COUNT * sizeof *l.x));
    good(cudaMallocHost((void **)&l.host, 2 * COUNT * sizeof *l.host));
    trial_fine(gf_dist_open(&err, GF_RANKS_SINGLE, 0, &l.ranks), &err);
    const glofnd_status status = gf_device_comm_open(&err, l.ranks, l.stream, &l.wire);
    if (status == GLOFND_E_UNSUPPORTED) {
        print_message("%s\n", err.text);
        skip();
    }
    trial_fine(status, &err);
    trial_fine(l.wire->ops->duplicate(&err, l.wire, &l.duplicate), &err);
    return l;
}

static void close_line(line *l) {
    l->duplicate->ops->close(l->duplicate);
    l->wire->ops->close(l->wire);
    l->ranks->ops->close(l->ranks);
    good(cudaFree(l->x));
    good(cudaFreeHost(l->host));
    good(cudaStreamDestroy(l->stream));
}

static void dawdle(void *none) {
    (void)none;
    usleep(20000);
}

/* Slowly on the stream: x becomes host [0]; then the duplicate sums it, and the stream reads it to host [1]. */
static void there_and_back(line *l) {
    gf_error err = {""};
    const gf_comm_ops *k = l->duplicate->ops;
    good(cudaLaunchHostFunc(l->stream, dawdle, NULL));
    good(cudaMemcpyAsync(l->x, l->host, COUNT * sizeof *l->x, cudaMemcpyHostToDevice, l->stream));
    trial_fine(k->fork(&err, l->duplicate), &err);
    trial_fine(k->sum_floats(&err, l->duplicate, l->x, COUNT), &err);
    trial_fine(k->join(&err, l->duplicate), &err);
    good(cudaMemcpyAsync(l->host + COUNT, l->x, COUNT * sizeof *l->x, cudaMemcpyDeviceToHost, l->stream));
}

static void expect_numbers(line *l, float first) {
    good(cudaStreamSynchronize(l->stream));
    for (int i = 0; i < COUNT; i++) assert_true(l->host[COUNT + i] == first + (float)i);
}

TEST(a_duplicate_works_beside_its_original) {
    line l = open_line();
    assert_true(l.wire->ops->fork && l.wire->ops->join);
    for (int i = 0; i < COUNT; i++) l.host[i] = 1 + (float)i;
    there_and_back(&l);
    expect_numbers(&l, 1);
    close_line(&l);
}

TEST(both_can_be_recorded) {
    cudaGraph_t graph;
    cudaGraphExec_t record;
    line l = open_line();
    there_and_back(&l);
    good(cudaStreamSynchronize(l.stream));
    good(cudaStreamBeginCapture(l.stream, cudaStreamCaptureModeRelaxed));
    there_and_back(&l);
    good(cudaStreamEndCapture(l.stream, &graph));
    good(cudaGraphInstantiate(&record, graph, 0));
    for (int again = 0; again < 3; again++) {
        for (int i = 0; i < COUNT; i++) l.host[i] = (float)(5 * again + i);
        good(cudaGraphLaunch(record, l.stream));
        expect_numbers(&l, (float)(5 * again));
    }
    good(cudaGraphExecDestroy(record)); /* before the ranks close: NCCL waits for it */
    good(cudaGraphDestroy(graph));
    close_line(&l);
}

/* ----- training ------------------------------------------------------------------------------------------------------- */

static void trains_as_none(const trial_setting *run, const trial_setting *more) {
    gf_error err = {""};
    gf_comm *ranks;
    trial_fine(gf_dist_open(&err, GF_RANKS_SINGLE, 0, &ranks), &err);
    gf_trainer *a = trial_make(run, more, (trial_place){0}), *b = trial_make(run, more, (trial_place){.comm = ranks});
    trial_steps(a, 16), trial_steps(b, 16); /* an epoch has twelve */
    assert_true(a->stats.loss == b->stats.loss && a->grad_norm == b->grad_norm);
    assert_true(!more || (a->counters.neighbours > 0 && a->counters.neighbours == b->counters.neighbours));
    gpu_same_weights(a, b);
    gf_trainer_free(a), gf_trainer_free(b);
    ranks->ops->close(ranks);
}

/* A single rank gives the bits of a run without ranks, captured steps included. Not in bf16: on Hopper convolutions make the sums
 * of batch norms where there are no ranks, and round differently. */
TEST(one_rank_trains_as_none) {
    static const trial_setting run[] = {{"data", "shapes:n=192,classes=3,size=32"},
                                        {"arch", "resnet18"},
                                        {"stem", "1"},
                                        {"head_hidden", "64"},
                                        {"head_out", "32"},
                                        {"batch", "16"},
                                        {"epochs", "2"},
                                        {"start_epoch", "1"},
                                        {"threads", "2"},
                                        {"precision", "fp32"},
                                        {"alpha", "0.1"},
                                        {"warmup_epochs", "1"},
                                        {"device", "cuda"},
                                        {"deterministic", "2"},
                                        {NULL, NULL}};
    static const trial_setting averages[] = {{"similarity", "bank"},
                                             {"neighbours", "3"},
                                             {"neighbour_share", "0.5"},
                                             {NULL, NULL}};
    trains_as_none(run, NULL);
    trains_as_none(run, averages);
}

/* ----- two ranks on one GPU ------------------------------------------------------------------------------------------- */

typedef struct member {
    gf_comm *host;
    glofnd_status status;
    gf_error err;
} member;

static void *join_in(void *user) {
    member *m = user;
    gf_comm *wire = NULL;
    m->status = gf_device_comm_open(&m->err, m->host, NULL, &wire);
    if (wire) wire->ops->close(wire);
    return NULL;
}

/* Fails once a later NCCL allows it: cuda_ranks.c can then use NCCL instead of its own transport. */
TEST(two_ranks_cannot_share_a_gpu) {
    gf_comm *host[2];
    member m[2] = {0};
    void *user[2] = {&m[0], &m[1]};
    thread_ranks_open(2, host);
    for (int r = 0; r < 2; r++) m[r].host = host[r];
    thread_ranks_run(2, join_in, user);
    for (int r = 0; r < 2; r++) host[r]->ops->close(host[r]);
    if (m[0].status == GLOFND_E_UNSUPPORTED) skip();
    print_message("%s\n", m[0].err.text);
    for (int r = 0; r < 2; r++) {
        assert_int_equal(m[r].status, GLOFND_E_DEVICE);
        assert_non_null(strstr(m[r].err.text, "NCCL"));
    }
}

TEST_NEEDS(no_cuda_device)
TEST_GROUP(trial_enter, trial_leave)

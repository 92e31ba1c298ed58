/* cuda_fault.c - a training run whose CUDA calls fail: every allocation once (out of memory), and calls that detect a lost
 * device. Each failure is reported as a status and a text with a remedy, everything can be freed after it, and an earlier
 * checkpoint continues to the weights of an undisturbed run.
 *
 * The calls are wrapped at link time (tests/CMakeLists.txt); the device itself is fine.
 */
#include "support/test.h"

#include "support/cuda_main.h"

#include <cuda_runtime_api.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "cuda/cuda_device.h"
#include "support/trial.h"

/* ----- calls that fail ----- */

typedef enum kind { ALLOCATIONS, WORK, KINDS } kind;

static long seen[KINDS];               /* calls since arm() */
static long fail_at[KINDS] = {-1, -1}; /* this one fails, counted from 0 */
static int lost;                       /* the device is lost: everything after it fails too */

static void arm(kind k, long at) {
    memset(seen, 0, sizeof seen);
    lost = 0;
    for (int i = 0; i < KINDS; i++) fail_at[i] = i == (int)k ? at : -1;
}

static cudaError_t failure(kind k) {
    const int now = seen[k]++ == fail_at[k];
    if (now && k == ALLOCATIONS) return cudaErrorMemoryAllocation;
    lost |= now;
    return lost ? cudaErrorECCUncorrectable : cudaSuccess;
}

#define WRAP(call, k, parameters, arguments)                   \
    cudaError_t __real_##call parameters;                      \
    cudaError_t __wrap_##call parameters;                      \
    cudaError_t __wrap_##call parameters {                     \
        const cudaError_t e = failure(k);                      \
        return e == cudaSuccess ? __real_##call arguments : e; \
    }

WRAP(cudaMalloc, ALLOCATIONS, (void **p, size_t bytes), (p, bytes))
WRAP(cudaMallocHost, ALLOCATIONS, (void **p, size_t bytes), (p, bytes))
WRAP(cudaMemcpyAsync, WORK, (void *to, const void *from, size_t bytes, enum cudaMemcpyKind way, cudaStream_t s),
     (to, from, bytes, way, s))
WRAP(cudaStreamSynchronize, WORK, (cudaStream_t s), (s))
WRAP(cudaGraphLaunch, WORK, (cudaGraphExec_t graph, cudaStream_t s), (graph, s))

/* ----- a run ----- */

enum { SAVED = 4, STEPS = 8, WEIGHTS = 64 }; /* a checkpoint after SAVED steps; weights that are compared */

static const trial_setting settings[] = {
    {"data", "shapes:n=64,classes=4,size=16,seed=2"},
    {"arch", "resnet8"},
    {"head_hidden", "32"},
    {"head_out", "16"},
    {"batch", "16"},
    {"epochs", "3"},
    {"start_epoch", "1"},
    {"threads", "1"},
    {"device", "cuda"},
    {"deterministic", "2"},
    {NULL, NULL},
};

static gf_config config_of_run(void) {
    gf_error err = {""};
    gf_config c;
    trial_fine(gf_config_init(&err, &c), &err);
    for (const trial_setting *s = settings; s->key; s++) trial_fine(gf_config_set(&err, &c, s->key, s->value), &err);
    trial_fine(gf_config_resolve(&err, &c), &err);
    return c;
}

static long work_until_saved; /* calls of WORK until the checkpoint was complete */

static glofnd_status go(gf_error *err, gf_trainer *t, const char *run) {
    TRY(gf_trainer_build(err, t, NULL, NULL));
    for (int i = 0; i < STEPS; i++) {
        TRY(gf_trainer_step(err, t));
        if (t->step != SAVED) continue;
        TRY(gf_checkpoint_save(err, t, run, (gf_log_marks){0, 0}));
        work_until_saved = seen[WORK];
    }
    return GLOFND_OK;
}

static void first_weights(gf_trainer *t, float weights[WEIGHTS]) {
    gf_error err = {""};
    gf_tensor *list;
    gf_net *net = t->encoders.at[0].net;
    gf_net_tensors(net, &list);
    float all[8192];
    assert_true(list[0].count >= WEIGHTS && list[0].count <= 8192);
    trial_fine(gf_net_get(&err, net, &list[0], list[0].value, all), &err);
    memcpy(weights, all, WEIGHTS * sizeof *weights);
}

/* A run from its beginning to its end or its failure, after `steps`; weights: of one that ended; both may be NULL. */
static glofnd_status run_once(gf_error *err, const char *run, float weights[WEIGHTS], int64_t *steps) {
    const gf_config c = config_of_run();
    gf_trainer *t = NULL;
    err->text[0] = '\0';
    mkdir(run, 0777);
    trial_fine(gf_trainer_open(err, &c, &t), err);
    const glofnd_status status = go(err, t, run);
    if (status == GLOFND_OK && weights) first_weights(t, weights);
    if (steps) *steps = t->step;
    gf_trainer_free(t);
    return status;
}

static float whole[WEIGHTS]; /* of an undisturbed run */
static long calls[KINDS];    /* that it makes */

TEST(without_failures) {
    gf_error err;
    arm(ALLOCATIONS, -1);
    trial_fine(run_once(&err, "whole", whole, NULL), &err);
    memcpy(calls, seen, sizeof calls);
    print_message("%ld allocations, %ld copies, waits and recorded steps\n", calls[ALLOCATIONS], calls[WORK]);
    assert_true(calls[ALLOCATIONS] > 20 && calls[WORK] > 2 * STEPS);
}

/* Continues the run from its checkpoint to its end; 0: there is none. */
static int resumes(const char *run) {
    gf_error err = {""};
    char path[PATH_MAX];
    float weights[WEIGHTS];
    arm(ALLOCATIONS, -1);
    trial_fine(gf_checkpoint_latest(&err, run, path), &err);
    if (!*path) return 0;
    gf_trainer *t = trial_make(settings, NULL, (trial_place){0});
    trial_load(t, run);
    assert_int_equal(t->step, SAVED);
    trial_steps(t, STEPS - SAVED);
    first_weights(t, weights);
    gf_trainer_free(t);
    assert_memory_equal(weights, whole, sizeof whole);
    return 1;
}

static void expect_text(const gf_error *err, long at, const char *what) {
    if (!strstr(err->text, what)) fail_msg("failure %ld: \"%s\" is not in \"%s\"", at, what, err->text);
}

TEST(every_allocation_may_fail) {
    gf_error err;
    long failed = 0;
    for (long at = 0; at < calls[ALLOCATIONS]; at++) {
        char run[40];
        snprintf(run, sizeof run, "memory-%ld", at);
        arm(ALLOCATIONS, at);
        const glofnd_status status = run_once(&err, run, NULL, NULL);
        arm(ALLOCATIONS, -1);
        if (status == GLOFND_OK) continue; /* optional memory */
        failed++;
        expect_text(&err, at, "memory");
        if (status != GLOFND_E_MEMORY) fail_msg("failure %ld: status %d: %s", at, (int)status, err.text);
    }
    assert_true(failed > calls[ALLOCATIONS] / 2);
    trial_fine(run_once(&err, "after", NULL, NULL), &err);
}

/* At calls some way apart until there is a checkpoint, closer after it. Set-up that is under way when the device is
 * lost may report a different reason; a step never does. */
TEST(a_device_may_be_lost) {
    gf_error err;
    const long until = work_until_saved;
    int64_t steps;
    int went_on = 0;
    for (long at = 0; at < calls[WORK]; at += at < until ? until / 10 + 1 : 4) {
        char run[40];
        snprintf(run, sizeof run, "lost-%ld", at);
        arm(WORK, at);
        const glofnd_status status = run_once(&err, run, NULL, &steps);
        arm(WORK, -1);
        assert_true(status == GLOFND_OK || strlen(err.text) > 10);
        if (status != GLOFND_OK && steps > 0) {
            assert_int_equal(status, GLOFND_E_DEVICE);
            expect_text(&err, at, "the GPU failed");
            expect_text(&err, at, "device=cpu");
        }
        went_on += resumes(run);
    }
    print_message("%d checkpoints from before a failure\n", went_on);
    assert_true(went_on > 2);
}

TEST_NEEDS(no_cuda_device)
TEST_GROUP(trial_enter, trial_leave)

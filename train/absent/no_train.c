/* no_train.c - stubs of the training system for builds without CUDA: every call fails with a message, or finds no device. */
#include <stdio.h>

#include "dist/comm.h"
#include "loader/cuda/cuda_feed.h"

#define WITHOUT(err) GF_FAIL(err, GLOFND_E_UNSUPPORTED, "built without CUDA: use device = cpu, or build where nvcc is found")

static void describe_absent(char *text, size_t bytes) { snprintf(text, bytes, "built without CUDA"); }

/* ----- networks ----- */

static glofnd_status open_engine(gf_error *err, int threads, gf_nn_engine **out) {
    (void)threads, (void)out;
    WITHOUT(err);
}

const gf_nn_backend gf_nn_backend_cuda = {.name = "none", .describe = describe_absent, .open = open_engine};

/* ----- ranks ----- */

glofnd_status gf_device_comm_open(gf_error *err, gf_comm *host, void *stream, gf_comm **out) {
    (void)host, (void)stream;
    *out = NULL;
    WITHOUT(err);
}

glofnd_status gf_device_choose(gf_error *err, int local_rank) {
    (void)local_rank;
    WITHOUT(err);
}

glofnd_status gf_device_share(gf_error *err, int local_rank, int local_ranks, int *sharing) {
    (void)local_rank, (void)local_ranks, (void)sharing;
    WITHOUT(err);
}

void gf_device_comm_describe(char *text, size_t bytes) { describe_absent(text, bytes); }

/* ----- views: never called, as there is no network on a device ----- */

glofnd_status gf_cuda_feed_create(gf_error *err, const gf_cuda_feed_spec *spec, gf_cuda_feed **out) {
    (void)spec, (void)out;
    WITHOUT(err);
}

void gf_cuda_feed_free(gf_cuda_feed *f) { (void)f; }

glofnd_status gf_cuda_feed_keep(gf_error *err, gf_cuda_feed *f, const uint8_t *pixels, size_t bytes) {
    (void)f, (void)pixels, (void)bytes;
    WITHOUT(err);
}

glofnd_status gf_cuda_feed_put(gf_error *err, gf_cuda_feed *f, const gf_view_job *jobs, const gf_pixels *runs, int count) {
    (void)f, (void)jobs, (void)runs, (void)count;
    WITHOUT(err);
}

void gf_cuda_feed_wait(gf_cuda_feed *f) { (void)f; }

glofnd_status gf_cuda_feed_take(gf_error *err, gf_cuda_feed *f, void *input) {
    (void)f, (void)input;
    WITHOUT(err);
}

size_t gf_cuda_feed_held(const gf_cuda_feed *f) { return (void)f, 0; }
void *gf_cuda_pinned_alloc(size_t bytes) { return (void)bytes, NULL; }
void gf_cuda_pinned_free(void *memory) { (void)memory; }

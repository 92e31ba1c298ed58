/* no_backend.c - what stands in for a backend that was not built, for want of oneDNN or of CUDA: it says so. */
#include <stdio.h>

#include "base/nn_backend.h"

#ifndef GF_HAVE_CUDA

static void describe_no_cuda(char *text, size_t bytes) { snprintf(text, bytes, "built without CUDA"); }

static glofnd_status open_no_cuda(gf_error *err, int threads, gf_nn_engine **out) {
    (void)threads;
    (void)out;
    GF_FAIL(err, GLOFND_E_UNSUPPORTED, "built without CUDA: use device = cpu, or build where nvcc is found");
}

const gf_nn_backend gf_nn_backend_cuda = {
    .version = GF_NN_BACKEND_VERSION, .name = "none", .describe = describe_no_cuda, .open = open_no_cuda};

#endif

#ifndef GF_HAVE_DNNL

static void describe_nothing(char *text, size_t bytes) { snprintf(text, bytes, "no nets: built without oneDNN"); }

static glofnd_status open_nothing(gf_error *err, int threads, gf_nn_engine **out) {
    (void)threads;
    (void)out;
    GF_FAIL(err, GLOFND_E_UNSUPPORTED,
            "built without oneDNN, so there are no nets: install it (Debian: libdnnl-dev) and build again");
}

const gf_nn_backend gf_nn_backend_cpu = {
    .version = GF_NN_BACKEND_VERSION, .name = "none", .describe = describe_nothing, .open = open_nothing};

#endif

/* no_backend.c - stub of the CPU's backend for builds without oneDNN: every call fails with a message that names the library. */
#include <stdio.h>

#include "nn/nn_ops.h"
#include "util/machine.h"

#ifndef GF_HAVE_DNNL

static void describe_nothing(char *text, size_t bytes) {
    snprintf(text, bytes, "no nets: " GF_LEFT_OUT("oneDNN", "libdnnl-dev"));
}

static glofnd_status open_nothing(gf_error *err, int threads, gf_nn_engine **out) {
    (void)threads;
    (void)out;
    GF_FAIL(err, GLOFND_E_UNSUPPORTED, "networks on the CPU need oneDNN: " GF_LEFT_OUT("oneDNN", "libdnnl-dev"));
}

const gf_nn_backend gf_nn_backend_cpu = {.name = "none", .describe = describe_nothing, .open = open_nothing};

#endif

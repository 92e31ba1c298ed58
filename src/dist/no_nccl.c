/* no_nccl.c - in a build without CUDA: says so. */
#include <stdio.h>

#include "base/comm_device.h"

#ifndef GF_HAVE_CUDA

glofnd_status gf_device_comm_open(gf_error *err, gf_comm *host, void *stream, gf_comm **out) {
    (void)host, (void)stream;
    *out = NULL;
    GF_FAIL(err, GLOFND_E_UNSUPPORTED, "built without CUDA: use device = cpu");
}

glofnd_status gf_device_choose(gf_error *err, int local_rank) {
    (void)local_rank;
    GF_FAIL(err, GLOFND_E_UNSUPPORTED, "built without CUDA: use device = cpu");
}

void gf_device_comm_describe(char *text, size_t bytes) { snprintf(text, bytes, "built without CUDA"); }

#endif

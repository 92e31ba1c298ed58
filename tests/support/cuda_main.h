/* cuda_main.h - tests that need a CUDA device: TEST_NEEDS(no_cuda_device). */
#pragma once

#include <stdio.h>

#include "cuda/cuda_device.h"

static inline const char *no_cuda_device(void) {
    static char reason[200];
    char why[160];
    if (gf_cuda_devices(why, sizeof why) > 0) return NULL;
    snprintf(reason, sizeof reason, "no CUDA device (%s)", why);
    return reason;
}

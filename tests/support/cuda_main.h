/* cuda_main.h - the main program of tests that compare a CUDA device with the CPU. Include cmocka.h before it. */
#pragma once

#include <stdio.h>

#include "cuda/cuda_device.h"

enum { CUDA_MAIN_SKIPPED = 77 }; /* exit status, as in CTest's SKIP_RETURN_CODE */

/* argv[1]: only tests whose name fits this pattern. */
static inline int cuda_main(int argc, char **argv, const struct CMUnitTest *tests, size_t count) {
    char why[160];
    if (argc > 1) cmocka_set_test_filter(argv[1]);
    if (gf_cuda_devices(why, sizeof why) == 0) {
        printf("skipped: no CUDA device (%s)\n", why);
        return CUDA_MAIN_SKIPPED;
    }
    return _cmocka_run_group_tests("tests", tests, count, NULL, NULL);
}

static inline int cuda_main_without_dnnl(void) {
    puts("skipped: built without oneDNN, which the device is compared with");
    return CUDA_MAIN_SKIPPED;
}

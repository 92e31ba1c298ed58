/* cuda_device.h - CUDA devices of this machine, and failures of CUDA calls as status and text. */
#pragma once

#include <cuda_runtime_api.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif
#include "util/status.h"

/* Number of usable devices; 0: none, and `why` (may be NULL) gets the reason. */
int gf_cuda_devices(char *why, size_t bytes);

/* Status and text of the failure e != cudaSuccess. `at`: the operation; of a call as written only the part before "(" counts. */
glofnd_status gf_cuda_fail(gf_error *err, cudaError_t e, const char *at);

/* Returns that failure from the function, unless the call succeeds; `at`: the operation in words. */
#define CUDA_TRY_AS(err, call, at)                                                 \
    do {                                                                           \
        const cudaError_t cuda_try_ = (call);                                      \
        if (cuda_try_ != cudaSuccess) return gf_cuda_fail((err), cuda_try_, (at)); \
    } while (0)

/* The same, named by the call itself. */
#define CUDA_TRY(err, call) CUDA_TRY_AS(err, call, #call)

/* This process shares its GPU with others: `ranks` in all (1). */
void gf_cuda_set_sharing(int ranks);
/* Its part of the memory that is free on the current device. */
cudaError_t gf_cuda_memory_left(size_t *bytes);

/* Raises the kernel's limit of shared memory to the maximum of a block. Always the same amount: the limit is global, and a lower
 * one, set for a small launch, would fail a large launch of a different thread. */
cudaError_t gf_cuda_allow_shared(const void *kernel);

#ifdef __cplusplus
}
#endif

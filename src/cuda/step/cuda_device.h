/* cuda_device.h - what CUDA finds on this machine, and what it says when something fails. */
#ifndef GF_CUDA_STEP_CUDA_DEVICE_H
#define GF_CUDA_STEP_CUDA_DEVICE_H

#include <cuda_runtime_api.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif
#include "util/status.h"

/* Devices that can be used; 0: none, and `why` (may be NULL) says what the driver says. */
int gf_cuda_devices(char *why, size_t bytes);

/* The failure e != cudaSuccess of a call, as text and status. `at`: what was to be done; of a call as written, up to its "(". */
glofnd_status gf_cuda_fail(gf_error *err, cudaError_t e, const char *at);

/* Lets a kernel have all shared memory that a block can: always the same amount, since the limit is one for all threads, and one
 * that was lowered for a small launch would fail another thread's large one. */
cudaError_t gf_cuda_allow_shared(const void *kernel);

#ifdef __cplusplus
}
#endif

#endif

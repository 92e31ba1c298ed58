/* few_processors.h - a GPU that says it has few multiprocessors: kernels for large batches then serve small ones, which a
 * sanitizer gets through. For programs in which cudaDeviceGetAttribute is wrapped: tests/CMakeLists.txt.
 */
#pragma once

#include <cuda_runtime_api.h>

static int processors; /* it says it has; 0: as many as it has */

cudaError_t __real_cudaDeviceGetAttribute(int *value, enum cudaDeviceAttr what, int device);
cudaError_t __wrap_cudaDeviceGetAttribute(int *value, enum cudaDeviceAttr what, int device);

cudaError_t __wrap_cudaDeviceGetAttribute(int *value, enum cudaDeviceAttr what, int device) {
    const cudaError_t e = __real_cudaDeviceGetAttribute(value, what, device);
    if (what == cudaDevAttrMultiProcessorCount && processors > 0) *value = processors;
    return e;
}

static int all_processors(void **state) { /* at the end of a test */
    (void)state;
    processors = 0;
    return 0;
}

/* little_memory.h - a device that seems to have little memory left. To take what it has would take it from every other program on
 * it too. For programs in which cudaMalloc and cudaMemGetInfo are wrapped: tests/CMakeLists.txt.
 */
#pragma once

#include <cuda_runtime_api.h>
#include <stddef.h>
#include <stdint.h>

static size_t memory_left = SIZE_MAX; /* bytes; to be set by the test */

cudaError_t __real_cudaMalloc(void **p, size_t bytes);
cudaError_t __wrap_cudaMalloc(void **p, size_t bytes);
cudaError_t __real_cudaMemGetInfo(size_t *left, size_t *all);
cudaError_t __wrap_cudaMemGetInfo(size_t *left, size_t *all);

cudaError_t __wrap_cudaMalloc(void **p, size_t bytes) {
    return bytes > memory_left ? cudaErrorMemoryAllocation : __real_cudaMalloc(p, bytes);
}

cudaError_t __wrap_cudaMemGetInfo(size_t *left, size_t *all) {
    const cudaError_t e = __real_cudaMemGetInfo(left, all);
    if (e == cudaSuccess && *left > memory_left) *left = memory_left;
    return e;
}

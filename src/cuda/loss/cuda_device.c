/* cuda_device.c - what CUDA finds on this machine. */
#include "cuda/loss/cuda_device.h"

#include <cuda_runtime_api.h>
#include <stdio.h>

int gf_cuda_devices(char *why, size_t bytes) {
    int count = 0;
    const cudaError_t e = cudaGetDeviceCount(&count);
    if (e == cudaSuccess && count > 0) return count;
    if (why) snprintf(why, bytes, "%s", e == cudaSuccess ? "no CUDA device" : cudaGetErrorString(e));
    return 0;
}

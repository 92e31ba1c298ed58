/* cuda_dtype.cuh - types of the caller's embeddings and gradients: loads and stores as float32, kernels per type. */
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "glofnd.h"

__device__ __forceinline__ float gf_load(const float *x) { return __ldg(x); }
__device__ __forceinline__ float gf_load(const __nv_bfloat16 *x) { return __bfloat162float(__ldg(x)); }
__device__ __forceinline__ float gf_load(const __half *x) { return __half2float(__ldg(x)); }

/* Round to nearest, ties to even. */
__device__ __forceinline__ void gf_store(float *x, float v) { *x = v; }
__device__ __forceinline__ void gf_store(__nv_bfloat16 *x, float v) { *x = __float2bfloat16_rn(v); }
__device__ __forceinline__ void gf_store(__half *x, float v) { *x = __float2half_rn(v); }

/* Calls launch(T()) with the type of these numbers, which the caller of the library has checked. */
template <class Launch> static inline void gf_with_dtype(glofnd_dtype dtype, Launch launch) {
    if (dtype == GLOFND_BF16) launch(__nv_bfloat16());
    else if (dtype == GLOFND_F16) launch(__half());
    else launch(float());
}

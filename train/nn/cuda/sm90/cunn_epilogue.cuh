/* cunn_epilogue.cuh - shared by the convolutions of Hopper that have batch norm in their epilogue: numbers in registers, and the
 * block that adds up the sums of all. */
#pragma once

#include "cuda/sm90/tile_wgmma.cuh"
#include "nn/cuda/cunn_norm.cuh"

/* The two warpgroups that multiply wait for each other. */
__device__ __forceinline__ void epilogue_sync() { asm volatile("bar.sync 1, 256;" ::: "memory"); }

/* Sums of products stay in registers from here on: the compiler may not move code across. */
template <int NT> __device__ __forceinline__ void epilogue_pin(float (&d)[NT][4]) {
#pragma unroll
    for (int i = 0; i < 4 * NT; i++) asm volatile("" : "+f"(d[i / 4][i % 4])::"memory");
}

/* Two numbers of bf16. */
__device__ __forceinline__ float2 epilogue_floats(uint32_t two) {
    return make_float2(__uint_as_float(two << 16), __uint_as_float(two & 0xffff0000u));
}

__device__ __forceinline__ uint32_t epilogue_pack(float a, float b) {
    const __nv_bfloat162 two = __floats2bfloat162_rn(a, b);
    return *reinterpret_cast<const uint32_t *>(&two);
}

/* True in all threads of the last block of the strip, which has `blocks` of them. */
template <class Space, class Args>
__device__ __forceinline__ bool epilogue_comes_last(const Space &s, const Args &p, int strip, int blocks) {
    __threadfence();
    epilogue_sync();
    if (threadIdx.x == 0) {
        const unsigned before = atomicAdd(p.tickets + strip, 1u);
        s.tail->last = before == (unsigned)blocks - 1;
        if (s.tail->last) p.tickets[strip] = 0;
    }
    epilogue_sync();
    __threadfence();
    return s.tail->last != 0;
}

struct epilogue_totals {
    double v[3];
};

__device__ __forceinline__ void epilogue_back_line(const gf_nn_norm &n, int64_t i, double sum, double product) {
    const float2 coef = coef_of_sums(n, i, sum, product, (double)n.rows);
    own_gradients(n, i, sum, product);
    n.coef[i] = coef.x, n.coef[n.c + i] = coef.y;
}

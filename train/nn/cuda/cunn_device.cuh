/* cunn_device.cuh - shared by the kernels of networks: numbers of a row several at a time, and products on tensor cores. */
#pragma once

#include <cuda_bf16.h>
#include <stdint.h>

#include "nn/cuda/cunn_kernels.h"

/* ----- Rows of numbers ------------------------------------------------------------------------------------------- */

/* V neighbouring channels in one access: 8 of bf16 or 4 of float are 16 bytes; 1 where a row is no multiple. */

typedef __nv_bfloat16 bf16;

template <typename T, int V> struct lanes; /* as loaded: registers, not yet floats */

template <> struct lanes<bf16, 8> {
    uint4 raw;
    __device__ static lanes load(const bf16 *p) { return {*reinterpret_cast<const uint4 *>(p)}; }
    __device__ void floats(float (&x)[8]) const {
        const uint32_t w[4] = {raw.x, raw.y, raw.z, raw.w};
#pragma unroll
        for (int i = 0; i < 4; i++) {
            x[2 * i] = __uint_as_float(w[i] << 16);
            x[2 * i + 1] = __uint_as_float(w[i] & 0xffff0000u);
        }
    }
    __device__ static void store(bf16 *p, const float (&x)[8]) {
        uint32_t w[4];
#pragma unroll
        for (int i = 0; i < 4; i++) {
            const __nv_bfloat162 two = __floats2bfloat162_rn(x[2 * i], x[2 * i + 1]);
            w[i] = *reinterpret_cast<const uint32_t *>(&two);
        }
        *reinterpret_cast<uint4 *>(p) = make_uint4(w[0], w[1], w[2], w[3]);
    }
};

template <> struct lanes<float, 4> {
    float4 raw;
    __device__ static lanes load(const float *p) { return {*reinterpret_cast<const float4 *>(p)}; }
    __device__ void floats(float (&x)[4]) const { x[0] = raw.x, x[1] = raw.y, x[2] = raw.z, x[3] = raw.w; }
    __device__ static void store(float *p, const float (&x)[4]) {
        *reinterpret_cast<float4 *>(p) = make_float4(x[0], x[1], x[2], x[3]);
    }
};

template <typename T> struct lanes<T, 1> {
    T raw;
    __device__ static lanes load(const T *p) { return {*p}; }
    __device__ void floats(float (&x)[1]) const { x[0] = (float)raw; }
    __device__ static void store(T *p, const float (&x)[1]) { *p = (T)x[0]; }
};

/* Calls f<T, V>() for the type and the widest access that rows of c numbers allow. */
#define GF_LANES(type, c, f, ...)                                            \
    do {                                                                     \
        if ((type) == GF_TYPE_BF16 && (c) % 8 == 0) f<bf16, 8>(__VA_ARGS__); \
        else if ((type) == GF_TYPE_BF16) f<bf16, 1>(__VA_ARGS__);            \
        else if ((c) % 4 == 0) f<float, 4>(__VA_ARGS__);                     \
        else f<float, 1>(__VA_ARGS__);                                       \
    } while (0)

static inline int gf_lanes(gf_type type, int64_t c) { return type == GF_TYPE_BF16 ? (c % 8 == 0 ? 8 : 1) : (c % 4 == 0 ? 4 : 1); }

/* ----- Products of bf16 (mma.sync 16 x 8 x 16, float32 sums), and copies into shared memory ---------------------- */

/* A fragment of 16 rows: thread 4 g + t has rows g and g + 8 and, of every 8 columns, 2 t and 2 t + 1. */

__device__ static inline uint32_t pack(float a, float b) {
    const __nv_bfloat162 two = __floats2bfloat162_rn(a, b);
    return *reinterpret_cast<const uint32_t *>(&two);
}

__device__ static inline void multiply(float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

/* Four 8 x 8 matrices; thread i names row i % 8 of matrix i / 8. */
template <bool TURNED> __device__ static inline void load_four(uint32_t (&r)[4], const bf16 *row) {
    const uint32_t at = (uint32_t)__cvta_generic_to_shared(row);
    if (TURNED)
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
                     : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                     : "r"(at));
    else
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                     : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                     : "r"(at));
}

/* Starts to copy 8 or 16 bytes to shared memory, or zeros if they are not `inside`. */
template <int BYTES> __device__ static inline void copy_start(bf16 *to, const bf16 *from, bool inside) {
    const uint32_t at = (uint32_t)__cvta_generic_to_shared(to);
    if (BYTES == 16) asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(at), "l"(from), "r"(inside ? 16 : 0));
    else asm volatile("cp.async.ca.shared.global [%0], [%1], 8, %2;" ::"r"(at), "l"(from), "r"(inside ? 8 : 0));
}

__device__ static inline void copy_commit() { asm volatile("cp.async.commit_group;"); }

/* Waits for all copies but the last PENDING groups, and for the other threads of the block. */
template <int PENDING> __device__ static inline void copy_wait() {
    asm volatile("cp.async.wait_group %0;" ::"n"(PENDING) : "memory");
    __syncthreads();
}

/* cunn_lanes.cuh - V neighbouring channels in one access: 8 of bf16 or 4 of float are 16 bytes; 1 where a row is no multiple. */
#pragma once

#include <cuda_bf16.h>
#include <stdint.h>

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

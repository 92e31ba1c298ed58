/* cuda_order.cuh - floats as unsigned integers of the same order. */
#pragma once

/* Larger floats have larger keys; -0 and 0 are one value. No NaN. */
__device__ __forceinline__ unsigned gf_order_key(float v) {
    const unsigned u = __float_as_uint(v + 0.0f);
    return u & 0x80000000u ? ~u : u | 0x80000000u;
}

__device__ __forceinline__ float gf_order_value(unsigned key) {
    return __uint_as_float(key & 0x80000000u ? key & 0x7fffffffu : ~key);
}

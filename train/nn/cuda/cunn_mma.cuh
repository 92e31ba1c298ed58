/* cunn_mma.cuh - products of bf16 on tensor cores (mma.sync 16 x 8 x 16, float32 sums) and copies into shared memory.
 *
 * A fragment of 16 rows: thread 4 g + t has rows g and g + 8 and, of every 8 columns, 2 t and 2 t + 1.
 */
#pragma once

#include "nn/cuda/cunn_lanes.cuh"

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

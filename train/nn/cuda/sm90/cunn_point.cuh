/* cunn_point.cuh - 1 x 1 convolutions as products [rows][sum] x [sum][columns] on Hopper, with batch norm in the epilogue: shared
 * memory, rings and products. sm_90a only.
 *
 * A thread block keeps the weights of BN columns in shared memory and walks over tiles of 128 rows. One warp fetches, 128 rows of
 * 64 numbers at a time (a slot of 16 KB with the 128-byte swizzle), all operands through one ring in the order of their use; two
 * warpgroups of 64 rows each multiply and compute the epilogue, which leaves results in one of two buffers as they are to lie in
 * memory, 64 columns at a time; two more warps store them. So the copy engine is never idle, and memory is the bound.
 *
 * A thread keeps its columns from tile to tile, so the sums of a batch norm stay in registers until the end. Tiles of a block
 * follow from the shape alone, and the last block adds the sums of all in order: same bits every time.
 */
#pragma once

#include "cuda/sm90/tile_wgmma.cuh"
#include "nn/cuda/cunn.h"
#include "nn/cuda/cunn_norm_line.cuh"

enum {
    POINT_ROWS = 128,              /* of a tile */
    POINT_STEP = 64,               /* columns of a slot */
    POINT_SLOT = POINT_ROWS * 128, /* bytes */
    POINT_SLOTS = 11,              /* at most */
    POINT_OUTS = 2,
    POINT_WORKERS = 256,
    POINT_THREADS = POINT_WORKERS + 128,
    POINT_TAIL = 3072 /* bytes of point_tail, rounded up */
};

struct point_args {
    CUtensorMap a, w, out, dy, x, x2; /* w: boxes of BN rows forward, of 64 backward; others 128 rows */
    gf_nn_norm n, m;                  /* the norm of the epilogue; backward: of its shortcut */
    unsigned *tickets;
    int tiles, chunks, slots;   /* of rows; of the sum, 64 each; in the ring */
    int strips, parts, columns; /* blocks side by side; blocks that share a strip; all columns */
};

struct point_tail { /* what shared memory holds beside weights, results and slots */
    uint64_t full[POINT_SLOTS], empty[POINT_SLOTS], out_full[POINT_OUTS], out_empty[POINT_OUTS], weights_full;
    float line[2][128]; /* per column: forward the value of the first row, backward the means */
    int last;
};
static_assert(sizeof(point_tail) <= POINT_TAIL, "tail");

struct point_space { /* addresses in shared memory */
    uint32_t weights, outs, slots;
    point_tail *tail;
};

template <int BN> __device__ __forceinline__ point_space point_layout(unsigned char *base, const point_args &p) {
    point_space s;
    s.weights = gf_shared_address(base);
    s.outs = s.weights + p.chunks * BN * 128;
    s.slots = s.outs + POINT_OUTS * POINT_SLOT;
    s.tail = reinterpret_cast<point_tail *>(base + (s.slots - s.weights) + p.slots * POINT_SLOT);
    return s;
}

struct point_place { /* position in the ring */
    int slot, lap;

    __device__ __forceinline__ void advance(int slots) {
        if (++slot == slots) slot = 0, lap ^= 1;
    }
};

/* ----- copies ------------------------------------------------------------------------------------------------------ */

__device__ __forceinline__ void point_store_box(const CUtensorMap *map, uint32_t src, int d0, int r0) {
    asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%0, {%1, %2}], [%3];" ::"l"(map), "r"(d0), "r"(r0),
                 "r"(src)
                 : "memory");
    asm volatile("cp.async.bulk.commit_group;" ::: "memory");
}

__device__ __forceinline__ void point_fetch(const point_space &s, point_place &at, int slots, const CUtensorMap *map, int d0,
                                            int r0) {
    const uint32_t ready = gf_shared_address(&s.tail->full[at.slot]);
    gf_barrier_wait(gf_shared_address(&s.tail->empty[at.slot]), at.lap ^ 1);
    gf_barrier_expect(ready, POINT_SLOT);
    gf_copy_box(s.slots + at.slot * POINT_SLOT, map, d0, r0, ready);
    at.advance(slots);
}

/* This warp no longer reads the slot. */
__device__ __forceinline__ void point_release(const point_space &s, int slot) {
    __syncwarp();
    if (threadIdx.x % 32 == 0) gf_barrier_arrive(gf_shared_address(&s.tail->empty[slot]));
}

__device__ __forceinline__ void point_await(const point_space &s, const point_place &at) {
    gf_barrier_wait(gf_shared_address(&s.tail->full[at.slot]), at.lap);
}

/* All warpgroups that multiply. */
__device__ __forceinline__ void point_sync() { asm volatile("bar.sync 1, 256;" ::: "memory"); }

/* ----- products ---------------------------------------------------------------------------------------------------- */

template <int NT> __device__ __forceinline__ void point_pin(float (&d)[NT][4]) {
#pragma unroll
    for (int i = 0; i < 4 * NT; i++) asm volatile("" : "+f"(d[i / 4][i % 4])::"memory");
}

__device__ __forceinline__ void point_product(float (&d)[16][4], uint64_t a, uint64_t b, int add, bool across) {
    if (across) gf_wg_product_across(d, a, b, add);
    else gf_wg_product(d, a, b, add);
}

__device__ __forceinline__ void point_product(float (&d)[8][4], uint64_t a, uint64_t b, int add, bool) {
    asm volatile("{\n.reg .pred add;\nsetp.ne.b32 add, %34, 0;\n"
                 "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 "
                 "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, "
                 "%24, %25, %26, %27, %28, %29, %30, %31}, %32, %33, add, 1, 1, 0, 0;\n}"
                 : GF_WG_QUAD("+f", d, 0), GF_WG_QUAD("+f", d, 1), GF_WG_QUAD("+f", d, 2), GF_WG_QUAD("+f", d, 3),
                   GF_WG_QUAD("+f", d, 4), GF_WG_QUAD("+f", d, 5), GF_WG_QUAD("+f", d, 6), GF_WG_QUAD("+f", d, 7)
                 : "l"(a), "l"(b), "r"(add));
}

/* d = rows of the next slots times the weights. ACROSS: the weights lie as [sum][columns], in boxes of 64 x 64. */
template <int BN, bool ACROSS>
__device__ __forceinline__ void point_multiply(float (&d)[BN / 8][4], const point_space &s, point_place &at, const point_args &p,
                                               int group) {
    int before = 0;
    point_pin(d);
    for (int c = 0; c < p.chunks; c++) {
        point_await(s, at);
        const uint64_t left = gf_operand_at(s.slots + at.slot * POINT_SLOT + group * 64 * 128, 16);
        const uint64_t right = gf_operand_at(s.weights + c * BN * 128, ACROSS ? 64 * 128 : 16);
        gf_wg_begin();
#pragma unroll
        for (int k = 0; k < 4; k++)
            point_product(d, gf_operand_on(left, 32 * k), gf_operand_on(right, (ACROSS ? 2048 : 32) * k), c > 0 || k > 0, ACROSS);
        gf_wg_commit();
        if (c > 0) {
            gf_wg_wait<1>();
            point_release(s, before);
        }
        before = at.slot;
        at.advance(p.slots);
    }
    gf_wg_wait<0>();
    point_pin(d);
    point_release(s, before);
}

/* ----- numbers of a slot ------------------------------------------------------------------------------------------- */

__device__ __forceinline__ uint32_t point_read(uint32_t at) {
    uint32_t w;
    asm volatile("ld.shared.u32 %0, [%1];" : "=r"(w) : "r"(at) : "memory");
    return w;
}

__device__ __forceinline__ void point_write(uint32_t at, uint32_t w) {
    asm volatile("st.shared.u32 [%0], %1;" ::"r"(at), "r"(w) : "memory");
}

__device__ __forceinline__ float2 point_floats(uint32_t two) {
    return make_float2(__uint_as_float(two << 16), __uint_as_float(two & 0xffff0000u));
}

__device__ __forceinline__ uint32_t point_pack(float a, float b) {
    const __nv_bfloat162 two = __floats2bfloat162_rn(a, b);
    return *reinterpret_cast<const uint32_t *>(&two);
}

/* ----- launchers, on the host -------------------------------------------------------------------------------------- */

/* The kernel of one kind; 0: it does not fit. */
template <int BN> int point_slots(int64_t sum, size_t shared) {
    const int64_t left = (int64_t)shared - sum * BN * 2 - POINT_OUTS * POINT_SLOT - POINT_TAIL;
    const int64_t slots = left / POINT_SLOT;
    return slots < 4 ? 0 : slots > POINT_SLOTS ? POINT_SLOTS : (int)slots;
}

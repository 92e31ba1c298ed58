/* tile_wide.cuh - tiles of 128 x 128 sums over many dimensions on Hopper: two warpgroups of 64 rows each; the copy engine fetches
 * both operands, 64 dimensions at a time. sm_90a only.
 *
 * An operand lies in shared memory as [128][64] bf16 with the 128-byte swizzle where its rows are summed along, or as
 * [2][64][64] where they are summed across (`Z` of P Z: 64 rows, 128 dimensions in two halves).
 */
#pragma once

#include "cuda/passes/tile_wgmma.cuh"

#define GF_WIDE 128     /* rows and columns of a tile */
#define GF_WIDE_STEP 64 /* dimensions that are fetched at a time */
#define GF_WIDE_STAGES 6
#define GF_WIDE_BYTES (GF_WIDE * 128) /* of one operand of a stage */
#define GF_WIDE_WORKERS 256

typedef gf_mma_shape<128, 1, 8, 1, 1, 16> gf_wide_shape; /* layout of the sums */

struct gf_wide_shared {
    unsigned char left[GF_WIDE_STAGES][GF_WIDE_BYTES], right[GF_WIDE_STAGES][GF_WIDE_BYTES];
    uint64_t full[GF_WIDE_STAGES], empty[GF_WIDE_STAGES];
};

struct gf_wide_place { /* position in the ring of stages; producer and consumers each have one */
    int stage, lap;

    __device__ __forceinline__ void advance() {
        if (++stage == GF_WIDE_STAGES) stage = 0, lap ^= 1;
    }
};

__device__ __forceinline__ void gf_wide_begin(gf_wide_shared &sm) {
    if (threadIdx.x == 0) {
        for (int i = 0; i < GF_WIDE_STAGES; i++) {
            gf_barrier_init(gf_shared_address(&sm.full[i]), 1);
            gf_barrier_init(gf_shared_address(&sm.empty[i]), GF_WIDE_WORKERS / 32);
        }
        asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    }
    __syncthreads();
}

/* One thread: waits until the next stage is free. Copies into it may then be started; they complete `full`. */
__device__ __forceinline__ uint32_t gf_wide_next(gf_wide_shared &sm, const gf_wide_place &at) {
    const uint32_t ready = gf_shared_address(&sm.full[at.stage]);
    gf_barrier_wait(gf_shared_address(&sm.empty[at.stage]), at.lap ^ 1);
    gf_barrier_expect(ready, 2 * GF_WIDE_BYTES);
    return ready;
}

/* This warp no longer reads the stage. */
__device__ __forceinline__ void gf_wide_release(gf_wide_shared &sm, int stage) {
    __syncwarp();
    if (threadIdx.x % 32 == 0) gf_barrier_arrive(gf_shared_address(&sm.empty[stage]));
}

/* s = sums over `steps` stages of the ring. ACROSS: layout of the right operand. */
template <bool ACROSS>
__device__ __forceinline__ void gf_wide_sums(float (&s)[16][4], gf_wide_shared &sm, gf_wide_place &at, int steps) {
    int last = 0;
    gf_wg_pin(s);
    for (int i = 0; i < steps; i++) {
        const uint32_t left = gf_shared_address(sm.left[at.stage]) + threadIdx.x / 128 * 64 * 128;
        const uint32_t right = gf_shared_address(sm.right[at.stage]);
        gf_barrier_wait(gf_shared_address(&sm.full[at.stage]), at.lap);
        gf_wg_begin();
#pragma unroll
        for (int k = 0; k < 4; k++) {
            const uint64_t a = gf_operand_at(left + 32 * k, 16);
            if (ACROSS) gf_wg_product_across(s, a, gf_operand_at(right + 2048 * k, GF_WIDE_BYTES / 2), i > 0 || k > 0);
            else gf_wg_product(s, a, gf_operand_at(right + 32 * k, 16), i > 0 || k > 0);
        }
        gf_wg_commit();
        if (i > 0) {
            gf_wg_wait<1>();
            gf_wide_release(sm, last);
        }
        last = at.stage;
        at.advance();
    }
    gf_wg_wait<0>();
    gf_wg_pin(s);
    gf_wide_release(sm, last);
}

/* The warp's first row in a tile. */
__device__ __forceinline__ int gf_wide_row() { return threadIdx.x / 32 * 16; }

/* A map of x [rows][width], read in boxes of `box` rows and 64 numbers. */
cudaError_t gf_wide_map(CUtensorMap *map, const __nv_bfloat16 *x, int rows, int width, int box);

/* A map of x of up to 4 dimensions, bf16, side by side, read in boxes whose first dimension has 64 numbers; size and box begin
 * with the dimension whose numbers are neighbours. */
cudaError_t gf_box_map(CUtensorMap *map, const void *x, int rank, const int64_t *size, const int *box);

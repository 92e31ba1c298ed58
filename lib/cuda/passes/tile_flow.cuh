/* tile_flow.cuh - tiles of 128 x 128 similarities over many dimensions on Hopper, whose sums are used while the products of the
 * next tile run: two warpgroups of 64 rows each, sm_90a only.
 *
 * A thread has two sets of sums. While the tensor cores fill one, it uses the other in GF_FLOW_PARTS parts, one after each 64
 * dimensions whose products it has started. Tiles of 128 x 256 (tile_large.cuh) need fewer bytes per product, but a thread has
 * no registers for a second set of their sums, so that the tensor cores wait while it uses the first.
 */
#pragma once

#include "cuda/passes/tile_large.cuh"

#define GF_FLOW_PARTS 8                            /* of two blocks of 8 columns each */
#define GF_FLOW_LD (GF_FLOW_PARTS * GF_LARGE_STEP) /* the fewest dimensions, with a part for every 64 */

struct gf_flow_ring {
    static constexpr int STAGES = 6;
    unsigned char left[STAGES][GF_WIDE_BYTES], right[STAGES][GF_WIDE_BYTES];
    uint64_t full[STAGES], empty[STAGES];
};

/* Fetches 64 dimensions from d on of 128 rows and 128 columns; one thread. */
__device__ __forceinline__ void gf_flow_fetch(gf_flow_ring &sm, gf_large_place &at, const gf_large_maps &m, int d, int r0,
                                              int c0) {
    const uint32_t ready = gf_shared_address(&sm.full[at.stage]), right = gf_shared_address(sm.right[at.stage]);
    gf_barrier_wait(gf_shared_address(&sm.empty[at.stage]), at.lap ^ 1);
    gf_barrier_expect(ready, 2 * GF_WIDE_BYTES);
    gf_copy_box(gf_shared_address(sm.left[at.stage]), &m.rows[0], d, r0, ready);
    gf_copy_box(right, &m.columns[0], d, c0, ready);
    at.advance(gf_flow_ring::STAGES);
}

/* d += a b, both from shared memory, 16 dimensions. */
__device__ __forceinline__ void gf_flow_product(float (&d)[16][4], uint64_t a, uint64_t b) {
    asm volatile("{\n.reg .pred add;\nsetp.eq.b32 add, 0, 0;\n"
                 "wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 " GF_WG_NAMES ", %64, %65, add, 1, 1, 0, 0;\n}"
                 : GF_WG_SUMS(d)
                 : "l"(a), "l"(b));
}

/* Starts the products of the next stage. */
__device__ __forceinline__ void gf_flow_start(float (&s)[16][4], gf_flow_ring &sm, const gf_large_place &at, bool first) {
    gf_barrier_wait(gf_shared_address(&sm.full[at.stage]), at.lap);
    const uint32_t left = gf_shared_address(sm.left[at.stage]) + gf_wg_index() * (GF_WIDE_BYTES / 2);
    const uint32_t right = gf_shared_address(sm.right[at.stage]);
    gf_wg_begin();
#pragma unroll
    for (int k = 0; k < 4; k++) {
        const uint64_t a = gf_operand_at(left + 32 * k, 16), b = gf_operand_at(right + 32 * k, 16);
        if (first && k == 0) gf_wg_first_product(s, a, b);
        else gf_flow_product(s, a, b);
    }
    gf_wg_commit();
}

/* s = similarities of 64 rows of each warpgroup, over `steps` stages, GF_FLOW_PARTS or more; meanwhile use(p) for every part, in
 * their order. */
template <class Use>
__device__ __forceinline__ void gf_flow_scores(float (&s)[16][4], gf_flow_ring &sm, gf_large_place &at, int steps, Use use) {
    int last = 0;
    const auto advance = [&](bool first) { /* the stage before is free */
                                           if (!first) {
                                               gf_wg_wait<1>();
                                               gf_large_release<1>(sm, last);
                                           }
                                           last = at.stage;
                                           at.advance(gf_flow_ring::STAGES);
    };
#pragma unroll
    for (int p = 0; p < GF_FLOW_PARTS; p++) {
        gf_flow_start(s, sm, at, p == 0);
        use(p);
        advance(p == 0);
    }
    for (int i = GF_FLOW_PARTS; i < steps; i++) {
        gf_flow_start(s, sm, at, false);
        advance(false);
    }
    gf_wg_wait<0>();
    gf_wg_pin(s);
    gf_large_release<1>(sm, last);
}

/* Tile j + apart into `next`, while tile j is used; false, after that use, if there is none. */
template <class Work>
__device__ __forceinline__ bool gf_flow_on(Work &work, float (&s)[1][16][4], float (&next)[1][16][4], gf_flow_ring &sm,
                                           gf_large_place &at, int steps, int &j, int end, int apart) {
    if (j + apart >= end) {
#pragma unroll
        for (int p = 0; p < GF_FLOW_PARTS; p++) work.part(s[0], p);
        work.close(j);
        return false;
    }
    work.begin(j + apart);
    gf_flow_scores(next[0], sm, at, steps, [&](int p) {
        work.part(s[0], p);
        if (p == GF_FLOW_PARTS - 1) work.close(j);
    });
    j += apart;
    work.end(next, j);
    return true;
}

/* All tiles of a thread block, so many apart, from `j` on. `Work` has
 *     begin(j)        before the products of tile j
 *     end(s, j)       after them
 *     part(s, p)      one part of the tile that ended last
 *     close(j)        after its last part
 * Two copies of the body, each with constant sets of sums: the compiler runs the products of a loop that swaps them one after the
 * other. */
template <class Work>
__device__ __forceinline__ void gf_flow_tiles(Work &work, gf_flow_ring &sm, int steps, int j, int end, int apart) {
    float s[2][1][16][4];
    gf_large_place at = {0, 0};
    work.begin(j);
    gf_flow_scores(s[0][0], sm, at, steps, [](int) {});
    work.end(s[0], j);
    while (gf_flow_on(work, s[0], s[1], sm, at, steps, j, end, apart) &&
           gf_flow_on(work, s[1], s[0], sm, at, steps, j, end, apart))
        continue;
}

/* The body of a kernel: warpgroups that work on the tiles of the block, from `first` to `end`, so many apart, and a thread that
 * fetches them. A `Work` is made of (x, sm, end), and has finish() after the last tile. r0, c0: the first row and column of all
 * tiles. */
template <class Work, class Job, class Shared>
__device__ __forceinline__ void gf_flow_run(const Job &x, Shared &sm, const gf_large_maps &maps, int r0, int c0, int first,
                                            int end, int apart) {
    gf_large_begin<1>(sm.tiles);
    gf_large_wait_for_inputs();
    if (gf_is_off(x.a)) return;
    if (threadIdx.x < GF_LARGE_WORKERS) {
        gf_wg_take_registers<240>();
        if (first >= end) return;
        Work work(x, sm, end);
        gf_flow_tiles(work, sm.tiles, x.a.ld / GF_LARGE_STEP, first, end, apart);
        work.finish();
    } else {
        gf_wg_give_registers();
        gf_large_place at = {0, 0};
        for (int j = first; threadIdx.x == GF_LARGE_WORKERS && j < end; j += apart)
            for (int d = 0; d < x.a.ld; d += GF_LARGE_STEP) gf_flow_fetch(sm.tiles, at, maps, d, r0, c0 + j * GF_WIDE);
    }
}

/* Maps of rows and columns. */
static inline cudaError_t gf_flow_map(gf_large_maps *m, const gf_tile_args &a) {
    const cudaError_t e = gf_wide_map(&m->rows[0], a.q.hi, a.q.rows, a.ld, GF_WIDE);
    return e == cudaSuccess ? gf_wide_map(&m->columns[0], a.k.hi, a.k.rows, a.ld, GF_WIDE) : e;
}

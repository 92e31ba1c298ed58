/* tile_wgmma.cuh - products of warpgroups on Hopper, whose operands the copy engine fetches: tiles of 64 x 128 similarities of 128
 * dimensions, and tiles of 128 x 128 sums over many. sm_90a only. */
#pragma once

#include <cuda.h>

#include "cuda/passes/tile_mma.cuh"

/* ---------- A warpgroup of 4 warps and its tile of 64 x 128 similarities ----------
 *
 * Operands lie in shared memory as the copy engine puts them with its 128-byte swizzle: [2][rows][64] bf16, half of the
 * dimensions after the other. The same tile of columns is read by rows for S = Q Z' and across for P Z.
 * The accumulators are laid out as in tile_mma.cuh, with MT = 1, NT = 16; so the same code works on them.
 */

#define GF_WG_COLS 128                /* columns of a tile */
#define GF_WG_HALF (GF_WG_COLS * 128) /* bytes of a tile's first 64 dimensions */
#define GF_WG_TILE (2 * GF_WG_HALF)

/* ---- barriers in shared memory ---- */

__device__ __forceinline__ void gf_barrier_init(uint32_t at, int count) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(at), "r"(count) : "memory");
}

__device__ __forceinline__ void gf_barrier_arrive(uint32_t at) {
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(at) : "memory");
}

__device__ __forceinline__ void gf_barrier_expect(uint32_t at, int bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(at), "r"(bytes) : "memory");
}

__device__ __forceinline__ void gf_barrier_wait(uint32_t at, int parity) {
    uint32_t done;
    do {
        asm volatile("{\n.reg .pred done;\nmbarrier.try_wait.parity.shared::cta.b64 done, [%1], %2;\nselp.u32 %0, 1, 0, done;\n}"
                     : "=r"(done)
                     : "r"(at), "r"(parity)
                     : "memory");
    } while (!done);
}

/* 64 dimensions from d0 of the rows from r0 (as many as the map's box has; zeros past the last). */
__device__ __forceinline__ void gf_copy_box(uint32_t dst, const CUtensorMap *map, int d0, int r0, uint32_t barrier) {
    asm volatile(
        "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];" ::"r"(dst),
        "l"(map), "r"(d0), "r"(r0), "r"(barrier)
        : "memory");
}

/* Barrier of all threads of a cluster that have not ended. */
__device__ __forceinline__ void gf_cluster_sync() {
    asm volatile("barrier.cluster.arrive.release;\nbarrier.cluster.wait.acquire;" ::: "memory");
}

/* ---- products ---- */

/* Descriptor of an operand for the tensor cores: 128-byte swizzle, rows in groups of 8 (1024 bytes); `far`: bytes to the other 64
 * dimensions, for an operand that is read across. */
__device__ __forceinline__ uint64_t gf_operand_at(uint32_t address, int far) {
    return static_cast<uint64_t>((address & 0x3ffff) >> 4) | static_cast<uint64_t>(far >> 4) << 16 | uint64_t{1024 >> 4} << 32 |
           1ull << 62;
}

/* The operand `bytes` further: its 32 upper bits stay. */
__device__ __forceinline__ uint64_t gf_operand_on(uint64_t operand, int bytes) {
    return (operand & 0xffffffff00000000ull) | static_cast<uint32_t>(static_cast<uint32_t>(operand) + (bytes >> 4));
}

__device__ __forceinline__ void gf_wg_begin() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ __forceinline__ void gf_wg_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }

template <int PENDING> __device__ __forceinline__ void gf_wg_wait() {
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(PENDING) : "memory");
}

/* The compiler must not move uses of d across this: products in flight own it. */
__device__ __forceinline__ void gf_wg_pin(float (&d)[16][4]) {
#pragma unroll
    for (int i = 0; i < 64; i++) asm volatile("" : "+f"(d[i / 4][i % 4])::"memory");
}

/* The 64 sums of a thread as operands 0 to 63 of an instruction. */
#define GF_WG_NAMES                                                                                                   \
    "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, " \
    "%24, %25, %26, %27, %28, %29, %30, %31, %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, "  \
    "%46, %47, %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63}"
#define GF_WG_QUAD(how, d, i) how(d[i][0]), how(d[i][1]), how(d[i][2]), how(d[i][3])
#define GF_WG_EACH(how, d)                                                                                                      \
    GF_WG_QUAD(how, d, 0), GF_WG_QUAD(how, d, 1), GF_WG_QUAD(how, d, 2), GF_WG_QUAD(how, d, 3), GF_WG_QUAD(how, d, 4),          \
        GF_WG_QUAD(how, d, 5), GF_WG_QUAD(how, d, 6), GF_WG_QUAD(how, d, 7), GF_WG_QUAD(how, d, 8), GF_WG_QUAD(how, d, 9),      \
        GF_WG_QUAD(how, d, 10), GF_WG_QUAD(how, d, 11), GF_WG_QUAD(how, d, 12), GF_WG_QUAD(how, d, 13), GF_WG_QUAD(how, d, 14), \
        GF_WG_QUAD(how, d, 15)
#define GF_WG_SUMS(d) GF_WG_EACH("+f", d)

/* d (+)= a b, both from shared memory, 16 dimensions. */
__device__ __forceinline__ void gf_wg_product(float (&d)[16][4], uint64_t a, uint64_t b, int add) {
    asm volatile("{\n.reg .pred add;\nsetp.ne.b32 add, %66, 0;\n"
                 "wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 " GF_WG_NAMES ", %64, %65, add, 1, 1, 0, 0;\n}"
                 : GF_WG_SUMS(d)
                 : "l"(a), "l"(b), "r"(add));
}

/* d = a b: does not wait for the old content of d. */
__device__ __forceinline__ void gf_wg_first_product(float (&d)[16][4], uint64_t a, uint64_t b) {
    asm volatile("{\n.reg .pred add;\nsetp.ne.b32 add, 0, 0;\n"
                 "wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 " GF_WG_NAMES ", %64, %65, add, 1, 1, 0, 0;\n}"
                 : GF_WG_EACH("=f", d)
                 : "l"(a), "l"(b));
}

/* d (+)= a b with b read across. */
__device__ __forceinline__ void gf_wg_product_across(float (&d)[16][4], uint64_t a, uint64_t b, int add) {
    asm volatile("{\n.reg .pred add;\nsetp.ne.b32 add, %66, 0;\n"
                 "wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 " GF_WG_NAMES ", %64, %65, add, 1, 1, 0, 1;\n}"
                 : GF_WG_SUMS(d)
                 : "l"(a), "l"(b), "r"(add));
}

/* d += a b, a from registers, b read across. */
__device__ __forceinline__ void gf_wg_weighted(float (&d)[16][4], const uint32_t (&a)[4], uint64_t b) {
    asm volatile("{\n.reg .pred add;\nsetp.eq.b32 add, 0, 0;\n"
                 "wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 " GF_WG_NAMES
                 ", {%64, %65, %66, %67}, %68, add, 1, 1, 1;\n}"
                 : GF_WG_SUMS(d)
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
}

/* Starts S of the warpgroup's 64 rows at q and the 128 columns at z; their second 64 dimensions are `far` bytes further. */
__device__ __forceinline__ void gf_wg_scores(float (&s)[16][4], uint32_t q, int q_far, uint32_t z, int z_far) {
    const uint64_t left = gf_operand_at(q, 16), right = gf_operand_at(z, 16);
    gf_wg_pin(s);
    gf_wg_begin();
#pragma unroll
    for (int step = 0; step < 8; step++) {
        const int half = step / 4, at = step % 4 * 32;
        gf_wg_product(s, gf_operand_on(left, half * q_far + at), gf_operand_on(right, half * z_far + at), step > 0);
    }
    gf_wg_commit();
}

/* The same into accumulators that are free, while products into others are in flight. */
__device__ __forceinline__ void gf_wg_scores_anew(float (&s)[16][4], uint32_t q, int q_far, uint32_t z, int z_far) {
    const uint64_t left = gf_operand_at(q, 16), right = gf_operand_at(z, 16);
    gf_wg_begin();
    gf_wg_first_product(s, left, right);
#pragma unroll
    for (int step = 1; step < 8; step++) {
        const int half = step / 4, at = step % 4 * 32;
        gf_wg_product(s, gf_operand_on(left, half * q_far + at), gf_operand_on(right, half * z_far + at), 1);
    }
    gf_wg_commit();
}

/* Starts out += P Z; p: P as gf_round_weights leaves it. */
__device__ __forceinline__ void gf_wg_sums(float (&out)[16][4], const uint32_t (&p)[8][4], uint32_t z) {
    const uint64_t across = gf_operand_at(z, GF_WG_HALF);
    gf_wg_pin(out);
    gf_wg_begin();
#pragma unroll
    for (int step = 0; step < 8; step++) gf_wg_weighted(out, p[step], gf_operand_on(across, step * 2048));
    gf_wg_commit();
}

/* ---- the block: GM x GN warpgroups, of which GN share 64 rows and take turns with the columns, and one that fetches ---- */

#define GF_WG_STAGES 4

template <int GM_, int GN_> struct gf_wg_shape : gf_mma_shape<128, 1, 4 * GM_, GN_, 1, 16> { /* layout of sums and accumulators */
    static constexpr int GM = GM_, GN = GN_, WORKERS = 128 * GM * GN, ALL = WORKERS + 128;
};

template <class C> struct gf_wg_shared {
    unsigned char columns[GF_WG_STAGES][GF_WG_TILE], rows[2 * C::BM * 128];
    float w[GF_WG_STAGES][GF_WG_COLS], theta[GF_WG_STAGES][GF_WG_COLS]; /* of the columns; grad only */
    uint64_t full[GF_WG_STAGES], empty[GF_WG_STAGES], rows_full;
    int32_t label[GF_WG_STAGES][GF_WG_COLS]; /* of the columns; grad with GF_QUALITY only */
};

/* The computing warpgroups take the registers that the fetching one gives up. */
template <int COUNT> __device__ __forceinline__ void gf_wg_take_registers() {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(COUNT));
}
__device__ __forceinline__ void gf_wg_give_registers() { asm volatile("setmaxnreg.dec.sync.aligned.u32 24;"); }

/* The thread's warpgroup, computed so that the compiler knows it is uniform in the warp: addresses made of it need no copies. */
__device__ __forceinline__ int gf_wg_index() { return __shfl_sync(0xffffffffu, threadIdx.x / 128, 0); }

/* The first of the warp's 16 rows in the block, and the index of its warpgroup among the GN of these rows. */
template <class C> __device__ __forceinline__ int gf_wg_row() {
    return threadIdx.x / 128 % C::GM * 64 + threadIdx.x % 128 / 32 * 16;
}
template <class C> __device__ __forceinline__ int gf_wg_turn() { return gf_wg_index() / C::GM; }

/* Initializes the barriers and starts fetching the rows. `fillers`: arrivals that complete a tile of columns. */
template <class C>
__device__ __forceinline__ void gf_wg_start(gf_wg_shared<C> &sm, const CUtensorMap *rows, int r0, int fillers) {
    if (threadIdx.x == 0) {
        for (int i = 0; i < GF_WG_STAGES; i++) {
            gf_barrier_init(gf_shared_address(&sm.full[i]), fillers);
            gf_barrier_init(gf_shared_address(&sm.empty[i]), 4 * C::GM);
        }
        const uint32_t ready = gf_shared_address(&sm.rows_full), at = gf_shared_address(sm.rows);
        gf_barrier_init(ready, 1);
        asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
        gf_barrier_expect(ready, 2 * C::BM * 128);
        gf_copy_box(at, rows, 0, r0, ready);
        gf_copy_box(at + C::BM * 128, rows, 64, r0, ready);
    }
    __syncthreads();
}

/* Fetches a tile of the columns, the j-th that is fetched; one thread. */
template <class C> __device__ __forceinline__ void gf_wg_fetch(gf_wg_shared<C> &sm, const CUtensorMap *columns, int j, int tile) {
    const int stage = j % GF_WG_STAGES;
    const uint32_t ready = gf_shared_address(&sm.full[stage]), at = gf_shared_address(sm.columns[stage]);
    gf_barrier_expect(ready, GF_WG_TILE);
    gf_copy_box(at, columns, 0, tile * GF_WG_COLS, ready);
    gf_copy_box(at + GF_WG_HALF, columns, 64, tile * GF_WG_COLS, ready);
}

template <class C> __device__ __forceinline__ void gf_wg_wait_empty(gf_wg_shared<C> &sm, int j) {
    if (j >= GF_WG_STAGES) gf_barrier_wait(gf_shared_address(&sm.empty[j % GF_WG_STAGES]), (j / GF_WG_STAGES - 1) & 1);
}

/* This warp no longer reads tile j. */
template <class C> __device__ __forceinline__ void gf_wg_release(gf_wg_shared<C> &sm, int j) {
    __syncwarp();
    if (threadIdx.x % 32 == 0) gf_barrier_arrive(gf_shared_address(&sm.empty[j % GF_WG_STAGES]));
}

/* Starts S of the `which`-th 64 rows with tile j. */
template <class C>
__device__ __forceinline__ void gf_wg_start_scores(float (&s)[16][4], gf_wg_shared<C> &sm, unsigned j, int which) {
    const int stage = j % GF_WG_STAGES;
    gf_barrier_wait(gf_shared_address(&sm.full[stage]), j / GF_WG_STAGES & 1);
    gf_wg_scores(s, gf_shared_address(sm.rows) + which * 64 * 128, C::BM * 128, gf_shared_address(sm.columns[stage]), GF_WG_HALF);
}

/* ---- on the host ---- */

/* A map of x [rows][128], read in boxes of `box` rows and 64 dimensions. */
cudaError_t gf_wg_map(CUtensorMap *map, const __nv_bfloat16 *x, int rows, int box);

/* A kernel with maps of its rows and columns. */
template <class C>
static cudaError_t gf_wg_launch(void (*kernel)(gf_tile_args, CUtensorMap, CUtensorMap), const gf_tile_args &a,
                                cudaStream_t stream) {
    CUtensorMap rows, columns;
    const int bytes = sizeof(gf_wg_shared<C>);
    cudaError_t e = gf_wg_map(&rows, a.q.hi, a.q.rows, C::BM);
    if (e == cudaSuccess) e = gf_wg_map(&columns, a.k.hi, a.k.rows, GF_WG_COLS);
    if (e == cudaSuccess) e = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
    if (e != cudaSuccess) return e;
    kernel<<<(a.q.rows + C::BM - 1) / C::BM, C::ALL, bytes, stream>>>(a, rows, columns);
    return cudaGetLastError();
}

/* ---------- Tiles of 128 x 128 sums over many dimensions ----------
 *
 * Two warpgroups of 64 rows each; the copy engine fetches both operands, 64 dimensions at a time.
 *
 * An operand lies in shared memory as [128][64] bf16 with the 128-byte swizzle where its rows are summed along, or as
 * [2][64][64] where they are summed across (`Z` of P Z: 64 rows, 128 dimensions in two halves).
 */

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

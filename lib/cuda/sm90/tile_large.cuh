/* tile_large.cuh - tiles of 128 x 256 sums over many numbers on Hopper, or of 128 x 128 in halves: two warpgroups of 64 rows
 * each, sm_90a only.
 *
 * Tiles this large need half as many bytes from the cache per product as those of 128 x 128 (tile_wgmma.cuh). CLUSTER: thread blocks that
 * share the right operand, 1 or 2; each of two fetches one half of it for both.
 *
 * An operand lies in shared memory with the 128-byte swizzle, 64 numbers at a time: [rows][64] bf16 where its rows are summed
 * along, or as boxes [64][64] where they are summed across (`Z` of P Z, `P` of P'Z).
 *
 * HALVES 2: operands are hi + lo, one after the other in a stage. The three chains of a similarity (tile_mma.cuh) have sums of
 * their own, so that each half is fetched once; a thread has registers for 128 columns of them.
 */
#pragma once

#include "cuda/sm90/tile_wgmma.cuh"

#define GF_LARGE_ROWS 128
#define GF_LARGE_COLS 256
#define GF_LARGE_STEP 64 /* numbers that are fetched at a time */
#define GF_LARGE_STAGES 4
#define GF_LARGE_LEFT (GF_LARGE_ROWS * 128) /* bytes of an operand in a stage; of a half of the left one */
#define GF_LARGE_RIGHT (GF_LARGE_COLS * 128)
#define GF_LARGE_BOX (64 * 128) /* bytes of 64 x 64 numbers */
#define GF_LARGE_WORKERS 256

template <int HALVES> struct gf_large_ring { /* of stages */
    static constexpr int STAGES = HALVES == 1 ? GF_LARGE_STAGES : 3, COLS = GF_LARGE_COLS / HALVES, NT = COLS / 8;
    static constexpr int LEFT = HALVES * GF_LARGE_LEFT;
    typedef gf_mma_shape<128, 1, 8, 1, 1, NT> shape; /* layout of the sums */
    unsigned char left[STAGES][LEFT], right[STAGES][GF_LARGE_RIGHT];
    uint64_t full[STAGES], empty[STAGES];
};
typedef gf_large_ring<1> gf_large_shared;

struct gf_large_place { /* position in the ring of stages; producer and consumers each have one */
    int stage, lap;

    __device__ __forceinline__ void advance(int stages = GF_LARGE_STAGES) {
        if (++stage == stages) stage = 0, lap ^= 1;
    }
};

struct gf_large_maps { /* of embeddings, hi and lo: boxes of 128 rows */
    CUtensorMap rows[2], columns[2];
};

/* ---- clusters ---- */

/* All threads; the barriers of both blocks of a cluster are ready afterwards. */
template <int CLUSTER, class Ring> __device__ __forceinline__ void gf_large_begin(Ring &sm) {
    if (threadIdx.x == 0) {
        for (int i = 0; i < Ring::STAGES; i++) {
            gf_barrier_init(gf_shared_address(&sm.full[i]), 1);
            gf_barrier_init(gf_shared_address(&sm.empty[i]), CLUSTER * GF_LARGE_WORKERS / 32);
        }
        asm volatile("fence.mbarrier_init.release.cluster;\nfence.proxy.async.shared::cta;" ::: "memory");
    }
    __syncthreads();
    if (CLUSTER > 1) gf_cluster_sync();
}

/* The next kernel of the stream may be set up while this one runs; it waits here until all memory is as this one leaves it. */
__device__ __forceinline__ void gf_large_wait_for_inputs() {
    asm volatile("griddepcontrol.wait;\ngriddepcontrol.launch_dependents;" ::: "memory");
}

/* All threads, at the end: the other block of the cluster may still write to this one's shared memory, or arrive there. */
template <int CLUSTER> __device__ __forceinline__ void gf_large_end() {
    if (CLUSTER == 1) return;
    __syncwarp();
    gf_cluster_sync();
}

template <int CLUSTER> __device__ __forceinline__ int gf_large_rank() { return CLUSTER == 1 ? 0 : blockIdx.x % CLUSTER; }

/* As gf_copy_box, to the same place in every block of the cluster. */
template <int CLUSTER>
__device__ __forceinline__ void gf_copy_shared_box(uint32_t dst, const CUtensorMap *map, int d0, int r0, uint32_t barrier) {
    if (CLUSTER == 1) {
        gf_copy_box(dst, map, d0, r0, barrier);
        return;
    }
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster "
                 "[%0], [%1, {%2, %3}], [%4], %5;" ::"r"(dst),
                 "l"(map), "r"(d0), "r"(r0), "r"(barrier), "h"(static_cast<uint16_t>((1 << CLUSTER) - 1))
                 : "memory");
}

/* ---- the ring of stages ---- */

/* One thread: waits until the next stage is free, in all blocks of the cluster. Copies into it may then be started. */
template <class Ring> __device__ __forceinline__ uint32_t gf_large_next(Ring &sm, const gf_large_place &at) {
    const uint32_t ready = gf_shared_address(&sm.full[at.stage]);
    gf_barrier_wait(gf_shared_address(&sm.empty[at.stage]), at.lap ^ 1);
    gf_barrier_expect(ready, Ring::LEFT + GF_LARGE_RIGHT);
    return ready;
}

/* This warp no longer reads the stage. */
template <int CLUSTER, class Ring> __device__ __forceinline__ void gf_large_release(Ring &sm, int stage) {
    const uint32_t at = gf_shared_address(&sm.empty[stage]), lane = threadIdx.x % 32;
    __syncwarp();
    if (lane >= CLUSTER) return;
    if (CLUSTER == 1) gf_barrier_arrive(at);
    else
        asm volatile("{\n.reg .b32 there;\nmapa.shared::cluster.u32 there, %0, %1;\n"
                     "mbarrier.arrive.shared::cluster.b64 _, [there];\n}" ::"r"(at),
                     "r"(lane)
                     : "memory");
}

/* Fetches 64 dimensions from d on of 128 rows and 256 columns. */
template <int CLUSTER>
__device__ __forceinline__ void gf_large_fetch_along(gf_large_shared &sm, const gf_large_place &at, const CUtensorMap *rows,
                                                     const CUtensorMap *columns, int d, int r0, int c0) {
    const uint32_t ready = gf_large_next(sm, at), right = gf_shared_address(sm.right[at.stage]);
    gf_copy_box(gf_shared_address(sm.left[at.stage]), rows, d, r0, ready);
#pragma unroll
    for (int i = 0; i < 2 / CLUSTER; i++) {
        const int half = i + gf_large_rank<CLUSTER>();
        gf_copy_shared_box<CLUSTER>(right + half * (GF_LARGE_RIGHT / 2), columns, d, c0 + half * (GF_LARGE_COLS / 2), ready);
    }
}

/* The same for similarities, of 256 columns, or of 128 in halves: then the right operand's boxes are hi and lo of the same
 * columns. */
template <int CLUSTER, int HALVES>
__device__ __forceinline__ void gf_large_fetch_scores(gf_large_ring<HALVES> &sm, gf_large_place &at, const gf_large_maps &m,
                                                      int d, int r0, int c0) {
    if constexpr (HALVES == 1) {
        gf_large_fetch_along<CLUSTER>(sm, at, &m.rows[0], &m.columns[0], d, r0, c0);
    } else {
        const uint32_t ready = gf_large_next(sm, at), left = gf_shared_address(sm.left[at.stage]);
        gf_copy_box(left, &m.rows[0], d, r0, ready);
        gf_copy_box(left + GF_LARGE_LEFT, &m.rows[1], d, r0, ready);
#pragma unroll
        for (int i = 0; i < 2 / CLUSTER; i++) {
            const int half = i + gf_large_rank<CLUSTER>();
            gf_copy_shared_box<CLUSTER>(gf_shared_address(sm.right[at.stage]) + half * (GF_LARGE_RIGHT / 2), &m.columns[half], d,
                                        c0, ready);
        }
    }
    at.advance(gf_large_ring<HALVES>::STAGES);
}

/* The right operand of a stage across: 256 dimensions from d0 on of 64 rows. */
template <int CLUSTER>
__device__ __forceinline__ void gf_large_fetch_across(uint32_t right, const CUtensorMap *z, int d0, int row, uint32_t ready) {
#pragma unroll
    for (int i = 0; i < 4 / CLUSTER; i++) {
        const int box = i + gf_large_rank<CLUSTER>() * (4 / CLUSTER);
        gf_copy_shared_box<CLUSTER>(right + box * GF_LARGE_BOX, z, d0 + 64 * box, row, ready);
    }
}

/* ---- products ---- */

__device__ __forceinline__ void gf_large_pin(float (&d)[32][4]) {
#pragma unroll
    for (int i = 0; i < 128; i++) asm volatile("" : "+f"(d[i / 4][i % 4])::"memory");
}

#define GF_LARGE_SUMS(d)                                                                                               \
    GF_WG_SUMS(d), GF_WG_QUAD("+f", d, 16), GF_WG_QUAD("+f", d, 17), GF_WG_QUAD("+f", d, 18), GF_WG_QUAD("+f", d, 19), \
        GF_WG_QUAD("+f", d, 20), GF_WG_QUAD("+f", d, 21), GF_WG_QUAD("+f", d, 22), GF_WG_QUAD("+f", d, 23),            \
        GF_WG_QUAD("+f", d, 24), GF_WG_QUAD("+f", d, 25), GF_WG_QUAD("+f", d, 26), GF_WG_QUAD("+f", d, 27),            \
        GF_WG_QUAD("+f", d, 28), GF_WG_QUAD("+f", d, 29), GF_WG_QUAD("+f", d, 30), GF_WG_QUAD("+f", d, 31)
#define GF_LARGE_NAMES                                                                                                \
    "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, " \
    "%24, %25, %26, %27, %28, %29, %30, %31, %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, "  \
    "%46, %47, %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63, %64, %65, %66, %67, "  \
    "%68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, %80, %81, %82, %83, %84, %85, %86, %87, %88, %89, "  \
    "%90, %91, %92, %93, %94, %95, %96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, "  \
    "%110, %111, %112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, %125, %126, %127}"

/* d (+)= a b, 16 numbers; each operand is read along or across. */
template <bool LEFT_ACROSS, bool RIGHT_ACROSS>
__device__ __forceinline__ void gf_large_product(float (&d)[32][4], uint64_t a, uint64_t b, int add) {
    asm volatile("{\n.reg .pred add;\nsetp.ne.b32 add, %130, 0;\n"
                 "wgmma.mma_async.sync.aligned.m64n256k16.f32.bf16.bf16 " GF_LARGE_NAMES ", %128, %129, add, 1, 1, %131, %132;\n}"
                 : GF_LARGE_SUMS(d)
                 : "l"(a), "l"(b), "r"(add), "n"(LEFT_ACROSS ? 1 : 0), "n"(RIGHT_ACROSS ? 1 : 0));
}

#define GF_LARGE_LEAD 1 /* steps that the first warpgroup is ahead of the second, at the beginning */

/* Barrier 1: the second warpgroup starts after the first has had its lead, so that one's sums are used while the tensor cores
 * work for the other. */
__device__ __forceinline__ void gf_large_follow(int group) {
    if (group == 1) asm volatile("bar.sync 1, 256;" ::: "memory");
}
__device__ __forceinline__ void gf_large_lead(int group) {
    if (group == 0) asm volatile("bar.arrive 1, 256;" ::: "memory");
}

/* Products of `steps` stages of the ring: products(left, right, first) starts those of one, whose operands lie there for this
 * warpgroup. Before and after, the caller pins the sums. lead: gf_large_lead after this step; -1: never. */
template <int CLUSTER, class Ring, class Products>
__device__ __forceinline__ void gf_large_stages(Ring &sm, gf_large_place &at, int steps, int lead, Products products) {
    const int group = gf_wg_index();
    int last = 0;
    for (int i = 0; i < steps; i++) {
        gf_barrier_wait(gf_shared_address(&sm.full[at.stage]), at.lap);
        gf_wg_begin();
        products(gf_shared_address(sm.left[at.stage]) + group * (GF_LARGE_LEFT / 2), gf_shared_address(sm.right[at.stage]),
                 i == 0);
        gf_wg_commit();
        if (i > 0) {
            gf_wg_wait<1>();
            gf_large_release<CLUSTER>(sm, last);
        }
        if (i == lead) gf_large_lead(group);
        last = at.stage;
        at.advance(Ring::STAGES);
    }
    gf_wg_wait<0>();
    gf_large_release<CLUSTER>(sm, last);
}

/* s = sums over `steps` stages. */
template <int CLUSTER, bool LEFT_ACROSS, bool RIGHT_ACROSS>
__device__ __forceinline__ void gf_large_sums(float (&s)[32][4], gf_large_shared &sm, gf_large_place &at, int steps,
                                              int lead = -1) {
    gf_large_pin(s);
    gf_large_stages<CLUSTER>(sm, at, steps, lead, [&](uint32_t left, uint32_t right, bool first) {
#pragma unroll
        for (int k = 0; k < 4; k++) {
            const uint64_t a = gf_operand_at(left + (LEFT_ACROSS ? 2048 : 32) * k, LEFT_ACROSS ? GF_LARGE_BOX : 16);
            const uint64_t b = gf_operand_at(right + (RIGHT_ACROSS ? 2048 : 32) * k, RIGHT_ACROSS ? GF_LARGE_BOX : 16);
            gf_large_product<LEFT_ACROSS, RIGHT_ACROSS>(s, a, b, !first || k > 0);
        }
    });
    gf_large_pin(s);
}

/* One stage of the three chains: x += hi lo, y += lo hi, z += hi hi. */
__device__ __forceinline__ void gf_large_add_halves(float (&x)[16][4], float (&y)[16][4], float (&z)[16][4], uint32_t left,
                                                    uint32_t right, bool first) {
#pragma unroll
    for (int k = 0; k < 4; k++) {
        const uint64_t hi = gf_operand_at(left + 32 * k, 16), lo = gf_operand_at(left + GF_LARGE_LEFT + 32 * k, 16);
        const uint64_t hi_c = gf_operand_at(right + 32 * k, 16), lo_c = gf_operand_at(right + GF_LARGE_RIGHT / 2 + 32 * k, 16);
        const int add = !first || k > 0;
        gf_wg_product(x, hi, lo_c, add);
        gf_wg_product(y, lo, hi_c, add);
        gf_wg_product(z, hi, hi_c, add);
    }
}

/* Similarities of 64 rows of each warpgroup; arguments as those of gf_large_sums. */
template <int CLUSTER, int HALVES>
__device__ __forceinline__ void gf_large_scores(float (&s)[gf_large_ring<HALVES>::NT][4], gf_large_ring<HALVES> &sm,
                                                gf_large_place &at, int steps, int lead) {
    if constexpr (HALVES == 1) {
        gf_large_sums<CLUSTER, false, false>(s, sm, at, steps, lead);
    } else {
        float y[16][4], z[16][4];
        gf_wg_pin(s), gf_wg_pin(y), gf_wg_pin(z);
        gf_large_stages<CLUSTER>(sm, at, steps, lead, [&](uint32_t left, uint32_t right, bool first) {
            gf_large_add_halves(s, y, z, left, right, first);
        });
        gf_wg_pin(s), gf_wg_pin(y), gf_wg_pin(z);
#pragma unroll
        for (int i = 0; i < 64; i++) s[i / 4][i % 4] = (s[i / 4][i % 4] + y[i / 4][i % 4]) + z[i / 4][i % 4];
    }
}

/* Entries i and i + 1 of x [n]; past its end any other. Without a branch: all loads of a tile can be in flight at once. */
__device__ __forceinline__ float2 gf_large_two(const float *x, int i, int n) {
    return make_float2(__ldg(x + min(i, n - 1)), __ldg(x + min(i + 1, n - 1)));
}

/* ---- on the host ---- */

#define GF_LARGE_ENOUGH 0.9 /* for gf_large_turns: tiles of 128 x 256, and those in flow */
#define GF_FLOW_ENOUGH 0.98

static inline int gf_large_tiles(int64_t n, int size) { return static_cast<int>((n + size - 1) / size); }

/* Thread blocks along x, a multiple of the cluster. */
static inline unsigned gf_large_grid(int64_t rows, int cluster) {
    return static_cast<unsigned>((gf_large_tiles(rows, GF_LARGE_ROWS) + cluster - 1) / cluster * cluster);
}

/* Thread blocks that take turns with the columns of 128 rows: at least `least`, up to 16, and the fewest that use the share
 * `enough` of all multiprocessors; else those that use the most. */
static inline int gf_large_turns(unsigned row_tiles, int column_tiles, int least, int processors,
                                 double enough = GF_LARGE_ENOUGH) {
    const int first = least > 16 ? 16 : least > 1 ? least : 1;
    int best = first;
    double most = 0.0;
    for (int turns = first; turns <= 16 && turns <= column_tiles && most < enough; turns++) {
        const int64_t blocks = static_cast<int64_t>(row_tiles) * turns, waves = (blocks + processors - 1) / processors;
        const double rounds = static_cast<double>((column_tiles + turns - 1) / turns * turns) / column_tiles;
        const double used = static_cast<double>(blocks) / (static_cast<double>(waves) * processors * rounds);
        if (used > most) best = turns, most = used;
    }
    return best;
}

template <class Kernel, class... Args>
static cudaError_t gf_large_launch(Kernel kernel, dim3 grid, int cluster, size_t shared, cudaStream_t stream,
                                   const Args &...args) {
    cudaLaunchConfig_t config = {};
    cudaLaunchAttribute attributes[2] = {};
    attributes[0].id = cudaLaunchAttributeClusterDimension;
    attributes[0].val.clusterDim.x = static_cast<unsigned>(cluster);
    attributes[0].val.clusterDim.y = attributes[0].val.clusterDim.z = 1;
    attributes[1].id = cudaLaunchAttributeProgrammaticStreamSerialization;
    attributes[1].val.programmaticStreamSerializationAllowed = 1;
    config.gridDim = grid, config.blockDim = dim3(GF_LARGE_WORKERS + 128), config.dynamicSmemBytes = shared;
    config.stream = stream, config.attrs = attributes, config.numAttrs = 2;
    const cudaError_t e = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(shared));
    return e == cudaSuccess ? cudaLaunchKernelEx(&config, kernel, args...) : e;
}

/* Maps of rows and columns of similarities. */
static inline cudaError_t gf_large_map(gf_large_maps *m, const gf_tile_args &a, int halves) {
    cudaError_t e = cudaSuccess;
    for (int i = 0; e == cudaSuccess && i < halves; i++) {
        e = gf_wide_map(&m->rows[i], i ? a.q.lo : a.q.hi, a.q.rows, a.ld, GF_LARGE_ROWS);
        if (e == cudaSuccess) e = gf_wide_map(&m->columns[i], i ? a.k.lo : a.k.hi, a.k.rows, a.ld, GF_LARGE_COLS / 2);
    }
    return e;
}

/* ---------- Tiles in flow ----------
 *
 * Tiles of 128 x 128 similarities, whose sums are used while the products of the next tile run: two warpgroups of 64 rows each.
 *
 * A thread has two sets of sums. While the tensor cores fill one, it uses the other in GF_FLOW_PARTS parts, one after each 64
 * dimensions whose products it has started. Tiles of 128 x 256 (tile_large.cuh) need fewer bytes per product, but a thread has
 * no registers for a second set of their sums, so that the tensor cores wait while it uses the first.
 */

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

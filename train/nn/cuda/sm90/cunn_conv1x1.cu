/* cunn_conv1x1.cu - 1 x 1 convolutions as products [rows][sum] x [sum][columns] on Hopper, with batch norm in the epilogue.
 * sm_90a only.
 *
 * A thread block keeps the weights of BN columns in shared memory and walks over tiles of 128 rows. One warp fetches, 128 rows of
 * 64 numbers at a time (a slot of 16 KB with the 128-byte swizzle), all operands through one ring in the order of their use; two
 * warpgroups of 64 rows each multiply and compute the epilogue, which leaves results in one of two buffers as they are to lie in
 * memory, 64 columns at a time; two more warps store them. So the copy engine is never idle, and memory is the bound.
 *
 * A thread keeps its columns from tile to tile, so the sums of a batch norm stay in registers until the end. Tiles of a block
 * follow from the shape alone, and the last block adds the sums of all in order: same bits every time. */
#include "nn/cuda/sm90/cunn_epilogue.cuh"

/* ----- Shared memory, rings and products ------------------------------------------------------------------------- */

enum {
    CONV1X1_ROWS = 128,                /* of a tile */
    CONV1X1_STEP = 64,                 /* columns of a slot */
    CONV1X1_SLOT = CONV1X1_ROWS * 128, /* bytes */
    CONV1X1_SLOTS = 11,                /* at most */
    CONV1X1_OUTS = 2,
    CONV1X1_WORKERS = 256,
    CONV1X1_THREADS = CONV1X1_WORKERS + 128,
    CONV1X1_TAIL = 3072 /* bytes of conv1x1_tail, rounded up */
};

struct conv1x1_args {
    CUtensorMap a, w, out, dy, x, x2; /* w: boxes of BN rows forward, of 64 backward; others 128 rows */
    gf_nn_norm n, m;                  /* the norm of the epilogue; backward: of its shortcut */
    unsigned *tickets;
    int tiles, chunks, slots;   /* of rows; of the sum, 64 each; in the ring */
    int strips, parts, columns; /* blocks side by side; blocks that share a strip; all columns */
};

struct conv1x1_tail { /* what shared memory holds beside weights, results and slots */
    uint64_t full[CONV1X1_SLOTS], empty[CONV1X1_SLOTS], out_full[CONV1X1_OUTS], out_empty[CONV1X1_OUTS], weights_full;
    float line[2][128]; /* per column: forward the value of the first row, backward the means */
    int last;
};
static_assert(sizeof(conv1x1_tail) <= CONV1X1_TAIL, "tail");

struct conv1x1_space { /* addresses in shared memory */
    uint32_t weights, outs, slots;
    conv1x1_tail *tail;
};

template <int BN> __device__ __forceinline__ conv1x1_space conv1x1_layout(unsigned char *base, const conv1x1_args &p) {
    conv1x1_space s;
    s.weights = gf_shared_address(base);
    s.outs = s.weights + p.chunks * BN * 128;
    s.slots = s.outs + CONV1X1_OUTS * CONV1X1_SLOT;
    s.tail = reinterpret_cast<conv1x1_tail *>(base + (s.slots - s.weights) + p.slots * CONV1X1_SLOT);
    return s;
}

struct conv1x1_place { /* position in the ring */
    int slot, lap;

    __device__ __forceinline__ void advance(int slots) {
        if (++slot == slots) slot = 0, lap ^= 1;
    }
};

/* ----- copies ------------------------------------------------------------------------------------------------------ */

__device__ __forceinline__ void conv1x1_store_box(const CUtensorMap *map, uint32_t src, int d0, int r0) {
    asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%0, {%1, %2}], [%3];" ::"l"(map), "r"(d0), "r"(r0),
                 "r"(src)
                 : "memory");
    asm volatile("cp.async.bulk.commit_group;" ::: "memory");
}

__device__ __forceinline__ void conv1x1_fetch(const conv1x1_space &s, conv1x1_place &at, int slots, const CUtensorMap *map,
                                              int d0, int r0) {
    const uint32_t ready = gf_shared_address(&s.tail->full[at.slot]);
    gf_barrier_wait(gf_shared_address(&s.tail->empty[at.slot]), at.lap ^ 1);
    gf_barrier_expect(ready, CONV1X1_SLOT);
    gf_copy_box(s.slots + at.slot * CONV1X1_SLOT, map, d0, r0, ready);
    at.advance(slots);
}

/* This warp no longer reads the slot. */
__device__ __forceinline__ void conv1x1_release(const conv1x1_space &s, int slot) {
    __syncwarp();
    if (threadIdx.x % 32 == 0) gf_barrier_arrive(gf_shared_address(&s.tail->empty[slot]));
}

__device__ __forceinline__ void conv1x1_await(const conv1x1_space &s, const conv1x1_place &at) {
    gf_barrier_wait(gf_shared_address(&s.tail->full[at.slot]), at.lap);
}

/* All warpgroups that multiply. */
/* ----- products ---------------------------------------------------------------------------------------------------- */

__device__ __forceinline__ void conv1x1_product(float (&d)[16][4], uint64_t a, uint64_t b, int add, bool across) {
    if (across) gf_wg_product_across(d, a, b, add);
    else gf_wg_product(d, a, b, add);
}

__device__ __forceinline__ void conv1x1_product(float (&d)[8][4], uint64_t a, uint64_t b, int add, bool) {
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
__device__ __forceinline__ void conv1x1_multiply(float (&d)[BN / 8][4], const conv1x1_space &s, conv1x1_place &at,
                                                 const conv1x1_args &p, int group) {
    int before = 0;
    epilogue_pin(d);
    for (int c = 0; c < p.chunks; c++) {
        conv1x1_await(s, at);
        const uint64_t left = gf_operand_at(s.slots + at.slot * CONV1X1_SLOT + group * 64 * 128, 16);
        const uint64_t right = gf_operand_at(s.weights + c * BN * 128, ACROSS ? 64 * 128 : 16);
        gf_wg_begin();
#pragma unroll
        for (int k = 0; k < 4; k++)
            conv1x1_product(d, gf_operand_on(left, 32 * k), gf_operand_on(right, (ACROSS ? 2048 : 32) * k), c > 0 || k > 0,
                            ACROSS);
        gf_wg_commit();
        if (c > 0) {
            gf_wg_wait<1>();
            conv1x1_release(s, before);
        }
        before = at.slot;
        at.advance(p.slots);
    }
    gf_wg_wait<0>();
    epilogue_pin(d);
    conv1x1_release(s, before);
}

/* ----- numbers of a slot ------------------------------------------------------------------------------------------- */

__device__ __forceinline__ uint32_t conv1x1_read(uint32_t at) {
    uint32_t w;
    asm volatile("ld.shared.u32 %0, [%1];" : "=r"(w) : "r"(at) : "memory");
    return w;
}

__device__ __forceinline__ void conv1x1_write(uint32_t at, uint32_t w) {
    asm volatile("st.shared.u32 [%0], %1;" ::"r"(at), "r"(w) : "memory");
}

/* ----- launchers, on the host -------------------------------------------------------------------------------------- */

/* The kernel of one kind; 0: it does not fit. */
template <int BN> int conv1x1_slots(int64_t sum, size_t shared) {
    const int64_t left = (int64_t)shared - sum * BN * 2 - CONV1X1_OUTS * CONV1X1_SLOT - CONV1X1_TAIL;
    const int64_t slots = left / CONV1X1_SLOT;
    return slots < 4 ? 0 : slots > CONV1X1_SLOTS ? CONV1X1_SLOTS : (int)slots;
}

/* ----- The convolution ------------------------------------------------------------------------------------------- */

/* 1 x 1 convolutions whose epilogue does a part of a batch norm (cunn_conv1x1.cu):
 *   forward   y = x w', and the statistics of the batch norm that follows;
 *   backward  g = (dy w + the other part of the gradient) where ReLU let pass: the gradient of the sum before a block's end,
 *             written over that other part, with the sums of the batch norm's backward, and of its shortcut's.
 *
 * Bytes per number of the result in bf16, without those of the other operand: forward 2, where convolution and sums have 4;
 * backward 6 and a bit (8 with a shortcut) where they have 10 (12). */

/* ----- the epilogue ------------------------------------------------------------------------------------------------ */

template <int BN, bool BACK, bool PAIR> struct conv1x1_work { /* of a thread of the warpgroups that multiply */
    static constexpr int SUMS = PAIR ? 3 : 2, NT = BN / 8;
    float d[NT][4], sum[SUMS][2 * NT];
    int group, warp, lane;
    uint32_t at;   /* bytes from the start of a slot to the thread's numbers: row lane / 4, columns of lane % 4 */
    uint4 bits[2]; /* rows lane / 4 and lane / 4 + 8 */
};

template <int BN> __device__ __forceinline__ float2 conv1x1_line(const conv1x1_space &s, int which, int column) {
    return *reinterpret_cast<const float2 *>(&s.tail->line[which][column]);
}

/* Forward: of the first tile, the first row: sums are of differences from it. */
template <int BN, class Work> __device__ __forceinline__ void conv1x1_take_pivots(const Work &k, const conv1x1_space &s) {
    if (k.group == 0 && k.warp == 0 && k.lane < 4)
#pragma unroll
        for (int j = 0; j < BN / 8; j++) {
            const float2 v = epilogue_floats(epilogue_pack(k.d[j][0], k.d[j][1]));
            s.tail->line[0][8 * j + 2 * k.lane] = v.x, s.tail->line[0][8 * j + 2 * k.lane + 1] = v.y;
        }
    epilogue_sync();
}

/* 64 columns from 64 h on, forward. */
template <int BN, class Work>
__device__ __forceinline__ void conv1x1_forward_half(Work &k, const conv1x1_space &s, uint32_t out, int h) {
#pragma unroll
    for (int j = 0; j < 8; j++) {
        const int t = 8 * h + j;
        const float2 pivot = conv1x1_line<BN>(s, 0, 8 * t + k.lane % 4 * 2);
        const uint32_t to = out + k.at + ((j ^ (k.lane >> 2)) << 4);
#pragma unroll
        for (int r = 0; r < 2; r++) {
            const uint32_t two = epilogue_pack(k.d[t][2 * r], k.d[t][2 * r + 1]);
            const float2 v = epilogue_floats(two);
            const float a = v.x - pivot.x, b = v.y - pivot.y;
            conv1x1_write(to + r * 1024, two);
            k.sum[0][2 * t] += a, k.sum[0][2 * t + 1] += b;
            k.sum[1][2 * t] = fmaf(a, a, k.sum[1][2 * t]), k.sum[1][2 * t + 1] = fmaf(b, b, k.sum[1][2 * t + 1]);
        }
    }
}

/* The same backward; dy, x and x2: slots. */
template <int BN, bool PAIR, class Work>
__device__ __forceinline__ void conv1x1_back_half(Work &k, const conv1x1_space &s, uint32_t out, int h, uint32_t dy, uint32_t x,
                                                  uint32_t x2) {
#pragma unroll
    for (int j = 0; j < 8; j++) {
        const int t = 8 * h + j;
        const uint32_t at = k.at + ((j ^ (k.lane >> 2)) << 4);
        const float2 mean = conv1x1_line<BN>(s, 0, 8 * t + k.lane % 4 * 2);
        const float2 mean2 = PAIR ? conv1x1_line<BN>(s, 1, 8 * t + k.lane % 4 * 2) : mean;
#pragma unroll
        for (int r = 0; r < 2; r++) {
            const uint32_t words[4] = {k.bits[r].x, k.bits[r].y, k.bits[r].z, k.bits[r].w};
            const uint32_t pass = words[2 * h + j / 4] >> (j % 4 * 8); /* already moved by the thread's columns */
            const float2 other = epilogue_floats(conv1x1_read(dy + at + r * 1024));
            const float2 v = epilogue_floats(conv1x1_read(x + at + r * 1024));
            const float a = pass & 1u ? k.d[t][2 * r] + other.x : 0.0f, b = pass & 2u ? k.d[t][2 * r + 1] + other.y : 0.0f;
            const uint32_t two = epilogue_pack(a, b);
            const float2 g = epilogue_floats(two);
            conv1x1_write(out + at + r * 1024, two);
            k.sum[0][2 * t] += g.x, k.sum[0][2 * t + 1] += g.y;
            k.sum[1][2 * t] = fmaf(g.x, v.x - mean.x, k.sum[1][2 * t]);
            k.sum[1][2 * t + 1] = fmaf(g.y, v.y - mean.y, k.sum[1][2 * t + 1]);
            if (PAIR) {
                const float2 u = epilogue_floats(conv1x1_read(x2 + at + r * 1024));
                k.sum[Work::SUMS - 1][2 * t] = fmaf(g.x, u.x - mean2.x, k.sum[Work::SUMS - 1][2 * t]);
                k.sum[Work::SUMS - 1][2 * t + 1] = fmaf(g.y, u.y - mean2.y, k.sum[Work::SUMS - 1][2 * t + 1]);
            }
        }
    }
}

/* The bits of a row's BN columns, so that bits 0 and 1 of each byte are the thread's. */
template <class Work> __device__ __forceinline__ void conv1x1_load_bits(Work &k, const conv1x1_args &p, int64_t row, int64_t n0) {
#pragma unroll
    for (int r = 0; r < 2; r++) {
        const uint4 b = __ldg(reinterpret_cast<const uint4 *>(p.n.positive + ((row + 8 * r) * p.columns + n0) / 8));
        const int by = k.lane % 4 * 2;
        k.bits[r] = make_uint4(b.x >> by, b.y >> by, b.z >> by, b.w >> by);
    }
}

/* ----- the end: sums of all blocks of a strip ------------------------------------------------------------------------ */

/* Sums of the block's columns go to scratch [part][3][columns]: forward the third is the pivot. */
template <int BN, bool BACK, class Work>
__device__ __forceinline__ void conv1x1_keep_sums(Work &k, const conv1x1_space &s, const conv1x1_args &p, float *shared, int part,
                                                  int n0) {
    constexpr int SUMS = Work::SUMS;
    epilogue_sync(); /* slots are free */
#pragma unroll
    for (int i = 0; i < SUMS; i++)
#pragma unroll
        for (int j = 0; j < 2 * Work::NT; j++) {
            float v = k.sum[i][j];
            v += __shfl_xor_sync(0xffffffffu, v, 4);
            v += __shfl_xor_sync(0xffffffffu, v, 8);
            v += __shfl_xor_sync(0xffffffffu, v, 16);
            if (k.lane < 4) shared[((4 * k.group + k.warp) * SUMS + i) * BN + j / 2 * 8 + 2 * k.lane + j % 2] = v;
        }
    epilogue_sync();
    float *to = (float *)p.n.scratch + (int64_t)part * 3 * p.columns + n0;
    for (int i = threadIdx.x; i < SUMS * BN; i += CONV1X1_WORKERS) {
        float v = 0.0f;
#pragma unroll
        for (int w = 0; w < 8; w++) v += shared[w * SUMS * BN + i];
        __stcg(to + (int64_t)(i / BN) * p.columns + i % BN, v);
    }
    if (!BACK && threadIdx.x < BN) __stcg(to + (int64_t)2 * p.columns + threadIdx.x, s.tail->line[0][threadIdx.x]);
}

/* Of one column, over parts from..to - 1. Forward: sum x and sum x^2 from differences. */
template <bool BACK, int SUMS>
static __device__ __forceinline__ epilogue_totals conv1x1_add(const conv1x1_args &p, int column, int from, int to) {
    epilogue_totals t = {{0.0, 0.0, 0.0}};
#pragma unroll 4
    for (int i = from; i < to; i++) {
        const float *at = (const float *)p.n.scratch + (int64_t)i * 3 * p.columns + column;
        const double a = __ldcg(at), b = __ldcg(at + p.columns), c = !BACK || SUMS == 3 ? __ldcg(at + 2 * p.columns) : 0.0f;
        if (BACK) {
            t.v[0] += a, t.v[1] += b, t.v[2] += c;
        } else {
            const double rows = (double)((p.tiles - i + p.parts - 1) / p.parts) * CONV1X1_ROWS;
            t.v[0] += a + rows * c;
            t.v[1] += b + 2 * c * a + rows * c * c;
        }
    }
    return t;
}

template <int BN, bool BACK, bool PAIR>
static __device__ __forceinline__ void conv1x1_finish(const conv1x1_args &p, double *shared, int n0) {
    constexpr int SLICES = CONV1X1_WORKERS / BN, SUMS = PAIR ? 3 : 2;
    const int slice = threadIdx.x / BN, column = threadIdx.x % BN, share = (p.parts + SLICES - 1) / SLICES;
    const epilogue_totals mine =
        conv1x1_add<BACK, SUMS>(p, n0 + column, min(slice * share, p.parts), min((slice + 1) * share, p.parts));
#pragma unroll
    for (int i = 0; i < SUMS; i++) shared[(slice * SUMS + i) * BN + column] = mine.v[i];
    epilogue_sync();
    if (slice > 0) return;
    epilogue_totals t = {{0.0, 0.0, 0.0}};
    for (int k = 0; k < SLICES; k++)
#pragma unroll
        for (int i = 0; i < SUMS; i++) t.v[i] += shared[(k * SUMS + i) * BN + column];
    const int64_t at = n0 + column;
    if (BACK) {
        epilogue_back_line(p.n, at, t.v[0], t.v[1]);
        if (PAIR) epilogue_back_line(p.m, at, t.v[0], t.v[2]);
    } else {
        keep_line(p.n, at, line_of_sums(p.n, at, t.v[0], t.v[1], (double)p.n.rows), (double)p.n.rows);
    }
}

/* ----- the kernel -------------------------------------------------------------------------------------------------- */

static __device__ __forceinline__ void conv1x1_begin(const conv1x1_space &s, int slots) {
    if (threadIdx.x == 0) {
        for (int i = 0; i < slots; i++) {
            gf_barrier_init(gf_shared_address(&s.tail->full[i]), 1);
            gf_barrier_init(gf_shared_address(&s.tail->empty[i]), CONV1X1_WORKERS / 32);
        }
        for (int i = 0; i < CONV1X1_OUTS; i++) {
            gf_barrier_init(gf_shared_address(&s.tail->out_full[i]), CONV1X1_WORKERS / 32);
            gf_barrier_init(gf_shared_address(&s.tail->out_empty[i]), 1);
        }
        gf_barrier_init(gf_shared_address(&s.tail->weights_full), 1);
        asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    }
    __syncthreads();
}

/* One thread. */
template <int BN, bool BACK, bool PAIR>
static __device__ __forceinline__ void conv1x1_load(const conv1x1_args &p, const conv1x1_space &s, int part, int n0) {
    const uint32_t ready = gf_shared_address(&s.tail->weights_full);
    gf_barrier_expect(ready, p.chunks * BN * 128);
    for (int c = 0; c < p.chunks; c++)
        if (!BACK) gf_copy_box(s.weights + c * BN * 128, &p.w, 64 * c, n0, ready);
        else
            for (int b = 0; b < BN / 64; b++) gf_copy_box(s.weights + c * BN * 128 + b * 8192, &p.w, n0 + 64 * b, 64 * c, ready);
    conv1x1_place at = {0, 0};
    for (int tile = part; tile < p.tiles; tile += p.parts) {
        const int row = tile * CONV1X1_ROWS;
        for (int c = 0; c < p.chunks; c++) conv1x1_fetch(s, at, p.slots, &p.a, 64 * c, row);
        for (int h = 0; h < BN / 64 && BACK; h++) {
            conv1x1_fetch(s, at, p.slots, &p.dy, n0 + 64 * h, row);
            conv1x1_fetch(s, at, p.slots, &p.x, n0 + 64 * h, row);
            if (PAIR) conv1x1_fetch(s, at, p.slots, &p.x2, n0 + 64 * h, row);
        }
    }
}

/* One thread; `which` of the two result buffers. */
template <int BN>
static __device__ __forceinline__ void conv1x1_store(const conv1x1_args &p, const conv1x1_space &s, int part, int n0, int which) {
    constexpr int HALVES = BN / 64;
    const int count = (p.tiles - part + p.parts - 1) / p.parts * HALVES;
    for (int piece = which; piece < count; piece += CONV1X1_OUTS) {
        gf_barrier_wait(gf_shared_address(&s.tail->out_full[which]), piece / CONV1X1_OUTS & 1);
        conv1x1_store_box(&p.out, s.outs + which * CONV1X1_SLOT, n0 + 64 * (piece % HALVES),
                          (part + piece / HALVES * p.parts) * CONV1X1_ROWS);
        asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
        gf_barrier_arrive(gf_shared_address(&s.tail->out_empty[which]));
    }
    asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
}

template <int BN, bool BACK, bool PAIR>
static __device__ __forceinline__ void conv1x1_compute(const conv1x1_args &p, const conv1x1_space &s, float *shared, int part,
                                                       int strip) {
    const int n0 = strip * BN;
    conv1x1_work<BN, BACK, PAIR> k;
    k.group = gf_wg_index(), k.warp = threadIdx.x % 128 / 32, k.lane = threadIdx.x % 32;
    k.at = (k.group * 64 + k.warp * 16 + k.lane / 4) * 128 + k.lane % 4 * 4;
#pragma unroll
    for (int i = 0; i < k.SUMS * 2 * k.NT; i++) k.sum[i / (2 * k.NT)][i % (2 * k.NT)] = 0.0f;
    if (BACK) {
        if (threadIdx.x < BN) s.tail->line[0][threadIdx.x] = p.n.mean[n0 + threadIdx.x];
        if (PAIR && threadIdx.x < BN) s.tail->line[1][threadIdx.x] = p.m.mean[n0 + threadIdx.x];
        epilogue_sync();
    }
    gf_barrier_wait(gf_shared_address(&s.tail->weights_full), 0);
    conv1x1_place at = {0, 0};
    int piece = 0;
    for (int tile = part; tile < p.tiles; tile += p.parts) {
        if constexpr (BACK) conv1x1_load_bits(k, p, (int64_t)tile * CONV1X1_ROWS + k.at / 128, n0);
        conv1x1_multiply<BN, BACK>(k.d, s, at, p, k.group);
        if (!BACK && tile == part) conv1x1_take_pivots<BN>(k, s);
#pragma unroll
        for (int h = 0; h < BN / 64; h++, piece++) {
            const int buffer = piece % CONV1X1_OUTS;
            const uint32_t out = s.outs + buffer * CONV1X1_SLOT;
            gf_barrier_wait(gf_shared_address(&s.tail->out_empty[buffer]), (piece / CONV1X1_OUTS & 1) ^ 1);
            if constexpr (BACK) {
                uint32_t slot[3] = {0, 0, 0};
                int which[3] = {0, 0, 0};
#pragma unroll
                for (int i = 0; i < (PAIR ? 3 : 2); i++) {
                    conv1x1_await(s, at);
                    which[i] = at.slot, slot[i] = s.slots + at.slot * CONV1X1_SLOT;
                    at.advance(p.slots);
                }
                conv1x1_back_half<BN, PAIR>(k, s, out, h, slot[0], slot[1], slot[2]);
#pragma unroll
                for (int i = 0; i < (PAIR ? 3 : 2); i++) conv1x1_release(s, which[i]);
            } else {
                conv1x1_forward_half<BN>(k, s, out, h);
            }
            asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
            __syncwarp();
            if (k.lane == 0) gf_barrier_arrive(gf_shared_address(&s.tail->out_full[buffer]));
        }
    }
    conv1x1_keep_sums<BN, BACK>(k, s, p, shared, part, n0);
    if (epilogue_comes_last(s, p, strip, p.parts)) conv1x1_finish<BN, BACK, PAIR>(p, reinterpret_cast<double *>(shared), n0);
}

template <int BN, bool BACK, bool PAIR>
static __global__ void __launch_bounds__(CONV1X1_THREADS, 1) conv1x1_kernel(const __grid_constant__ conv1x1_args p) {
    extern __shared__ __align__(1024) unsigned char base[];
    const conv1x1_space s = conv1x1_layout<BN>(base, p);
    const int strip = blockIdx.x % p.strips, part = blockIdx.x / p.strips;
    conv1x1_begin(s, p.slots);
    if (gf_wg_index() == CONV1X1_WORKERS / 128) {
        asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");
        if (threadIdx.x == CONV1X1_WORKERS) conv1x1_load<BN, BACK, PAIR>(p, s, part, strip * BN);
        if (threadIdx.x == CONV1X1_WORKERS + 32) conv1x1_store<BN>(p, s, part, strip * BN, 0);
        if (threadIdx.x == CONV1X1_WORKERS + 64) conv1x1_store<BN>(p, s, part, strip * BN, 1);
    } else {
        gf_wg_take_registers<232>();
        conv1x1_compute<BN, BACK, PAIR>(p, s, reinterpret_cast<float *>(base + (s.slots - s.weights)), part, strip);
    }
}

/* ----- launchers --------------------------------------------------------------------------------------------------- */

static int64_t conv1x1_rows(const gf_nn_shape *s) { return s->n * s->h * s->w; }

/* Columns of a strip; 0: not of this shape. */
static int conv1x1_strip(int64_t columns) { return columns % 128 == 0 ? 128 : columns == 64 ? 64 : 0; }

static int conv1x1_ring(int strip, int64_t sum, size_t shared) {
    return strip == 128 ? conv1x1_slots<128>(sum, shared) : strip == 64 ? conv1x1_slots<64>(sum, shared) : 0;
}

static int is_conv1x1(const gf_nn_engine *s, const gf_nn_shape *c) {
    return s->hopper && c->kind == GF_NN_CONV && c->type == GF_TYPE_BF16 && c->kernel == 1 && c->stride == 1 && c->pad == 0 &&
           c->in % 64 == 0 && c->out % 64 == 0 && conv1x1_rows(c) % CONV1X1_ROWS == 0 && conv1x1_rows(c) < (1 << 30);
}

int gf_cunn_conv1x1_fits(const gf_nn_engine *s, const gf_nn_shape *c) {
    return is_conv1x1(s, c) && c->out / 64 <= GF_CUNN_TICKETS && conv1x1_ring(conv1x1_strip(c->out), c->in, s->shared) > 0;
}

int gf_cunn_conv1x1_back_fits(const gf_nn_engine *s, const gf_nn_shape *c) {
    return is_conv1x1(s, c) && c->in % 128 == 0 && c->in / 64 <= GF_CUNN_TICKETS && conv1x1_ring(128, c->out, s->shared) > 0;
}

/* Sizes of the launch; rows [rows][sum] times [sum][columns]. */
static conv1x1_args conv1x1_sizes(const gf_nn_engine *s, int64_t rows, int64_t sum, int64_t columns, int strip) {
    conv1x1_args p = {};
    p.tickets = s->tickets;
    p.tiles = (int)(rows / CONV1X1_ROWS), p.chunks = (int)(sum / CONV1X1_STEP), p.slots = conv1x1_ring(strip, sum, s->shared);
    p.columns = (int)columns, p.strips = (int)(columns / strip);
    p.parts = s->multiprocessors / p.strips;
    if (p.parts < 1) p.parts = 1;
    if (p.parts > p.tiles) p.parts = p.tiles;
    return p;
}

static cudaError_t conv1x1_map(CUtensorMap *map, const void *x, int64_t rows, int64_t columns, int box) {
    return gf_wide_map(map, (const __nv_bfloat16 *)x, (int)rows, (int)columns, box);
}

template <int BN, bool BACK, bool PAIR> static void conv1x1_launch(gf_nn_engine *s, const conv1x1_args &p, cudaError_t e) {
    const int bytes = p.chunks * BN * 128 + (CONV1X1_OUTS + p.slots) * CONV1X1_SLOT + CONV1X1_TAIL;
    if (e == cudaSuccess)
        e = cudaFuncSetAttribute(conv1x1_kernel<BN, BACK, PAIR>, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
    if (e == cudaSuccess) {
        conv1x1_kernel<BN, BACK, PAIR><<<(unsigned)(p.strips * p.parts), CONV1X1_THREADS, (size_t)bytes, s->stream>>>(p);
        e = cudaGetLastError();
    }
    gf_cunn_note(s, e, "convolution with batch norm");
}

void gf_cunn_conv1x1_forward(gf_nn_engine *s, const gf_nn_shape *c, const gf_nn_args *a) {
    const int64_t rows = conv1x1_rows(c);
    const int strip = conv1x1_strip(c->out);
    conv1x1_args p = conv1x1_sizes(s, rows, c->in, c->out, strip);
    p.n = *a->norm;
    cudaError_t e = conv1x1_map(&p.a, a->x, rows, c->in, CONV1X1_ROWS);
    if (e == cudaSuccess) e = conv1x1_map(&p.w, a->packed, c->out, c->in, strip);
    if (e == cudaSuccess) e = conv1x1_map(&p.out, a->y, rows, c->out, CONV1X1_ROWS);
    if (strip == 128) conv1x1_launch<128, false, false>(s, p, e);
    else conv1x1_launch<64, false, false>(s, p, e);
}

void gf_cunn_conv1x1_back(gf_nn_engine *s, const gf_nn_shape *c, const gf_nn_args *a) {
    const int64_t rows = conv1x1_rows(c);
    const gf_nn_norm *n = a->before;
    conv1x1_args p = conv1x1_sizes(s, rows, c->out, c->in, 128);
    p.n = *n;
    if (n->shortcut) p.m = *n->shortcut;
    cudaError_t e = conv1x1_map(&p.a, a->dy, rows, c->out, CONV1X1_ROWS);
    if (e == cudaSuccess) e = conv1x1_map(&p.w, a->packed, c->out, c->in, CONV1X1_STEP);
    if (e == cudaSuccess) e = conv1x1_map(&p.out, n->dy, rows, c->in, CONV1X1_ROWS);
    if (e == cudaSuccess) e = conv1x1_map(&p.x, n->x, rows, c->in, CONV1X1_ROWS);
    if (e == cudaSuccess && n->shortcut) e = conv1x1_map(&p.x2, n->shortcut->x, rows, c->in, CONV1X1_ROWS);
    p.dy = p.out;
    if (n->shortcut) conv1x1_launch<128, true, true>(s, p, e);
    else conv1x1_launch<128, true, false>(s, p, e);
}

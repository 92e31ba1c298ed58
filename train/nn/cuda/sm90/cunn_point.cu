/* cunn_point.cu - 1 x 1 convolutions whose epilogue does a part of a batch norm (cunn_point.cuh):
 *   forward   y = x w', and the statistics of the batch norm that follows;
 *   backward  g = (dy w + the other part of the gradient) where ReLU let pass: the gradient of the sum before a block's end,
 *             written over that other part, with the sums of the batch norm's backward, and of its shortcut's.
 *
 * Bytes per number of the result in bf16, without those of the other operand: forward 2, where convolution and sums have 4;
 * backward 6 and a bit (8 with a shortcut) where they have 10 (12).
 */
#include "nn/cuda/sm90/cunn_point.cuh"

/* ----- the epilogue ------------------------------------------------------------------------------------------------ */

template <int BN, bool BACK, bool PAIR> struct point_work { /* of a thread of the warpgroups that multiply */
    static constexpr int SUMS = PAIR ? 3 : 2, NT = BN / 8;
    float d[NT][4], sum[SUMS][2 * NT];
    int group, warp, lane;
    uint32_t at;   /* bytes from the start of a slot to the thread's numbers: row lane / 4, columns of lane % 4 */
    uint4 bits[2]; /* rows lane / 4 and lane / 4 + 8 */
};

template <int BN> __device__ __forceinline__ float2 point_line(const point_space &s, int which, int column) {
    return *reinterpret_cast<const float2 *>(&s.tail->line[which][column]);
}

/* Forward: of the first tile, the first row: sums are of differences from it. */
template <int BN, class Work> __device__ __forceinline__ void point_take_pivots(const Work &k, const point_space &s) {
    if (k.group == 0 && k.warp == 0 && k.lane < 4)
#pragma unroll
        for (int j = 0; j < BN / 8; j++) {
            const float2 v = point_floats(point_pack(k.d[j][0], k.d[j][1]));
            s.tail->line[0][8 * j + 2 * k.lane] = v.x, s.tail->line[0][8 * j + 2 * k.lane + 1] = v.y;
        }
    point_sync();
}

/* 64 columns from 64 h on, forward. */
template <int BN, class Work>
__device__ __forceinline__ void point_forward_half(Work &k, const point_space &s, uint32_t out, int h) {
#pragma unroll
    for (int j = 0; j < 8; j++) {
        const int t = 8 * h + j;
        const float2 pivot = point_line<BN>(s, 0, 8 * t + k.lane % 4 * 2);
        const uint32_t to = out + k.at + ((j ^ (k.lane >> 2)) << 4);
#pragma unroll
        for (int r = 0; r < 2; r++) {
            const uint32_t two = point_pack(k.d[t][2 * r], k.d[t][2 * r + 1]);
            const float2 v = point_floats(two);
            const float a = v.x - pivot.x, b = v.y - pivot.y;
            point_write(to + r * 1024, two);
            k.sum[0][2 * t] += a, k.sum[0][2 * t + 1] += b;
            k.sum[1][2 * t] = fmaf(a, a, k.sum[1][2 * t]), k.sum[1][2 * t + 1] = fmaf(b, b, k.sum[1][2 * t + 1]);
        }
    }
}

/* The same backward; dy, x and x2: slots. */
template <int BN, bool PAIR, class Work>
__device__ __forceinline__ void point_back_half(Work &k, const point_space &s, uint32_t out, int h, uint32_t dy, uint32_t x,
                                                uint32_t x2) {
#pragma unroll
    for (int j = 0; j < 8; j++) {
        const int t = 8 * h + j;
        const uint32_t at = k.at + ((j ^ (k.lane >> 2)) << 4);
        const float2 mean = point_line<BN>(s, 0, 8 * t + k.lane % 4 * 2);
        const float2 mean2 = PAIR ? point_line<BN>(s, 1, 8 * t + k.lane % 4 * 2) : mean;
#pragma unroll
        for (int r = 0; r < 2; r++) {
            const uint32_t words[4] = {k.bits[r].x, k.bits[r].y, k.bits[r].z, k.bits[r].w};
            const uint32_t pass = words[2 * h + j / 4] >> (j % 4 * 8); /* already moved by the thread's columns */
            const float2 other = point_floats(point_read(dy + at + r * 1024));
            const float2 v = point_floats(point_read(x + at + r * 1024));
            const float a = pass & 1u ? k.d[t][2 * r] + other.x : 0.0f, b = pass & 2u ? k.d[t][2 * r + 1] + other.y : 0.0f;
            const uint32_t two = point_pack(a, b);
            const float2 g = point_floats(two);
            point_write(out + at + r * 1024, two);
            k.sum[0][2 * t] += g.x, k.sum[0][2 * t + 1] += g.y;
            k.sum[1][2 * t] = fmaf(g.x, v.x - mean.x, k.sum[1][2 * t]);
            k.sum[1][2 * t + 1] = fmaf(g.y, v.y - mean.y, k.sum[1][2 * t + 1]);
            if (PAIR) {
                const float2 u = point_floats(point_read(x2 + at + r * 1024));
                k.sum[Work::SUMS - 1][2 * t] = fmaf(g.x, u.x - mean2.x, k.sum[Work::SUMS - 1][2 * t]);
                k.sum[Work::SUMS - 1][2 * t + 1] = fmaf(g.y, u.y - mean2.y, k.sum[Work::SUMS - 1][2 * t + 1]);
            }
        }
    }
}

/* The bits of a row's BN columns, so that bits 0 and 1 of each byte are the thread's. */
template <class Work> __device__ __forceinline__ void point_load_bits(Work &k, const point_args &p, int64_t row, int64_t n0) {
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
__device__ __forceinline__ void point_keep_sums(Work &k, const point_space &s, const point_args &p, float *shared, int part,
                                                int n0) {
    constexpr int SUMS = Work::SUMS;
    point_sync(); /* slots are free */
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
    point_sync();
    float *to = (float *)p.n.scratch + (int64_t)part * 3 * p.columns + n0;
    for (int i = threadIdx.x; i < SUMS * BN; i += POINT_WORKERS) {
        float v = 0.0f;
#pragma unroll
        for (int w = 0; w < 8; w++) v += shared[w * SUMS * BN + i];
        __stcg(to + (int64_t)(i / BN) * p.columns + i % BN, v);
    }
    if (!BACK && threadIdx.x < BN) __stcg(to + (int64_t)2 * p.columns + threadIdx.x, s.tail->line[0][threadIdx.x]);
}

/* True in all threads of the last block of the strip. */
static __device__ __forceinline__ bool point_comes_last(const point_space &s, const point_args &p, int strip) {
    __threadfence();
    point_sync();
    if (threadIdx.x == 0) {
        const unsigned before = atomicAdd(p.tickets + strip, 1u);
        s.tail->last = before == (unsigned)p.parts - 1;
        if (s.tail->last) p.tickets[strip] = 0;
    }
    point_sync();
    __threadfence();
    return s.tail->last != 0;
}

struct point_totals {
    double v[3];
};

/* Of one column, over parts from..to - 1. Forward: sum x and sum x^2 from differences. */
template <bool BACK, int SUMS>
static __device__ __forceinline__ point_totals point_add(const point_args &p, int column, int from, int to) {
    point_totals t = {{0.0, 0.0, 0.0}};
#pragma unroll 4
    for (int i = from; i < to; i++) {
        const float *at = (const float *)p.n.scratch + (int64_t)i * 3 * p.columns + column;
        const double a = __ldcg(at), b = __ldcg(at + p.columns), c = !BACK || SUMS == 3 ? __ldcg(at + 2 * p.columns) : 0.0f;
        if (BACK) {
            t.v[0] += a, t.v[1] += b, t.v[2] += c;
        } else {
            const double rows = (double)((p.tiles - i + p.parts - 1) / p.parts) * POINT_ROWS;
            t.v[0] += a + rows * c;
            t.v[1] += b + 2 * c * a + rows * c * c;
        }
    }
    return t;
}

static __device__ __forceinline__ void point_back_line(const gf_nn_norm &n, int64_t i, double sum, double product) {
    const float2 coef = coef_of_sums(n, i, sum, product, (double)n.rows);
    own_gradients(n, i, sum, product);
    n.coef[i] = coef.x, n.coef[n.c + i] = coef.y;
}

template <int BN, bool BACK, bool PAIR>
static __device__ __forceinline__ void point_finish(const point_args &p, double *shared, int n0) {
    constexpr int SLICES = POINT_WORKERS / BN, SUMS = PAIR ? 3 : 2;
    const int slice = threadIdx.x / BN, column = threadIdx.x % BN, share = (p.parts + SLICES - 1) / SLICES;
    const point_totals mine =
        point_add<BACK, SUMS>(p, n0 + column, min(slice * share, p.parts), min((slice + 1) * share, p.parts));
#pragma unroll
    for (int i = 0; i < SUMS; i++) shared[(slice * SUMS + i) * BN + column] = mine.v[i];
    point_sync();
    if (slice > 0) return;
    point_totals t = {{0.0, 0.0, 0.0}};
    for (int k = 0; k < SLICES; k++)
#pragma unroll
        for (int i = 0; i < SUMS; i++) t.v[i] += shared[(k * SUMS + i) * BN + column];
    const int64_t at = n0 + column;
    if (BACK) {
        point_back_line(p.n, at, t.v[0], t.v[1]);
        if (PAIR) point_back_line(p.m, at, t.v[0], t.v[2]);
    } else {
        keep_line(p.n, at, line_of_sums(p.n, at, t.v[0], t.v[1], (double)p.n.rows), (double)p.n.rows);
    }
}

/* ----- the kernel -------------------------------------------------------------------------------------------------- */

static __device__ __forceinline__ void point_begin(const point_space &s, int slots) {
    if (threadIdx.x == 0) {
        for (int i = 0; i < slots; i++) {
            gf_barrier_init(gf_shared_address(&s.tail->full[i]), 1);
            gf_barrier_init(gf_shared_address(&s.tail->empty[i]), POINT_WORKERS / 32);
        }
        for (int i = 0; i < POINT_OUTS; i++) {
            gf_barrier_init(gf_shared_address(&s.tail->out_full[i]), POINT_WORKERS / 32);
            gf_barrier_init(gf_shared_address(&s.tail->out_empty[i]), 1);
        }
        gf_barrier_init(gf_shared_address(&s.tail->weights_full), 1);
        asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    }
    __syncthreads();
}

/* One thread. */
template <int BN, bool BACK, bool PAIR>
static __device__ __forceinline__ void point_load(const point_args &p, const point_space &s, int part, int n0) {
    const uint32_t ready = gf_shared_address(&s.tail->weights_full);
    gf_barrier_expect(ready, p.chunks * BN * 128);
    for (int c = 0; c < p.chunks; c++)
        if (!BACK) gf_copy_box(s.weights + c * BN * 128, &p.w, 64 * c, n0, ready);
        else
            for (int b = 0; b < BN / 64; b++) gf_copy_box(s.weights + c * BN * 128 + b * 8192, &p.w, n0 + 64 * b, 64 * c, ready);
    point_place at = {0, 0};
    for (int tile = part; tile < p.tiles; tile += p.parts) {
        const int row = tile * POINT_ROWS;
        for (int c = 0; c < p.chunks; c++) point_fetch(s, at, p.slots, &p.a, 64 * c, row);
        for (int h = 0; h < BN / 64 && BACK; h++) {
            point_fetch(s, at, p.slots, &p.dy, n0 + 64 * h, row);
            point_fetch(s, at, p.slots, &p.x, n0 + 64 * h, row);
            if (PAIR) point_fetch(s, at, p.slots, &p.x2, n0 + 64 * h, row);
        }
    }
}

/* One thread; `which` of the two result buffers. */
template <int BN>
static __device__ __forceinline__ void point_store(const point_args &p, const point_space &s, int part, int n0, int which) {
    constexpr int HALVES = BN / 64;
    const int count = (p.tiles - part + p.parts - 1) / p.parts * HALVES;
    for (int piece = which; piece < count; piece += POINT_OUTS) {
        gf_barrier_wait(gf_shared_address(&s.tail->out_full[which]), piece / POINT_OUTS & 1);
        point_store_box(&p.out, s.outs + which * POINT_SLOT, n0 + 64 * (piece % HALVES),
                        (part + piece / HALVES * p.parts) * POINT_ROWS);
        asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
        gf_barrier_arrive(gf_shared_address(&s.tail->out_empty[which]));
    }
    asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
}

template <int BN, bool BACK, bool PAIR>
static __device__ __forceinline__ void point_compute(const point_args &p, const point_space &s, float *shared, int part,
                                                     int strip) {
    const int n0 = strip * BN;
    point_work<BN, BACK, PAIR> k;
    k.group = gf_wg_index(), k.warp = threadIdx.x % 128 / 32, k.lane = threadIdx.x % 32;
    k.at = (k.group * 64 + k.warp * 16 + k.lane / 4) * 128 + k.lane % 4 * 4;
#pragma unroll
    for (int i = 0; i < k.SUMS * 2 * k.NT; i++) k.sum[i / (2 * k.NT)][i % (2 * k.NT)] = 0.0f;
    if (BACK) {
        if (threadIdx.x < BN) s.tail->line[0][threadIdx.x] = p.n.mean[n0 + threadIdx.x];
        if (PAIR && threadIdx.x < BN) s.tail->line[1][threadIdx.x] = p.m.mean[n0 + threadIdx.x];
        point_sync();
    }
    gf_barrier_wait(gf_shared_address(&s.tail->weights_full), 0);
    point_place at = {0, 0};
    int piece = 0;
    for (int tile = part; tile < p.tiles; tile += p.parts) {
        if constexpr (BACK) point_load_bits(k, p, (int64_t)tile * POINT_ROWS + k.at / 128, n0);
        point_multiply<BN, BACK>(k.d, s, at, p, k.group);
        if (!BACK && tile == part) point_take_pivots<BN>(k, s);
#pragma unroll
        for (int h = 0; h < BN / 64; h++, piece++) {
            const int buffer = piece % POINT_OUTS;
            const uint32_t out = s.outs + buffer * POINT_SLOT;
            gf_barrier_wait(gf_shared_address(&s.tail->out_empty[buffer]), (piece / POINT_OUTS & 1) ^ 1);
            if constexpr (BACK) {
                uint32_t slot[3] = {0, 0, 0};
                int which[3] = {0, 0, 0};
#pragma unroll
                for (int i = 0; i < (PAIR ? 3 : 2); i++) {
                    point_await(s, at);
                    which[i] = at.slot, slot[i] = s.slots + at.slot * POINT_SLOT;
                    at.advance(p.slots);
                }
                point_back_half<BN, PAIR>(k, s, out, h, slot[0], slot[1], slot[2]);
#pragma unroll
                for (int i = 0; i < (PAIR ? 3 : 2); i++) point_release(s, which[i]);
            } else {
                point_forward_half<BN>(k, s, out, h);
            }
            asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
            __syncwarp();
            if (k.lane == 0) gf_barrier_arrive(gf_shared_address(&s.tail->out_full[buffer]));
        }
    }
    point_keep_sums<BN, BACK>(k, s, p, shared, part, n0);
    if (point_comes_last(s, p, strip)) point_finish<BN, BACK, PAIR>(p, reinterpret_cast<double *>(shared), n0);
}

template <int BN, bool BACK, bool PAIR>
static __global__ void __launch_bounds__(POINT_THREADS, 1) point_kernel(const __grid_constant__ point_args p) {
    extern __shared__ __align__(1024) unsigned char base[];
    const point_space s = point_layout<BN>(base, p);
    const int strip = blockIdx.x % p.strips, part = blockIdx.x / p.strips;
    point_begin(s, p.slots);
    if (gf_wg_index() == POINT_WORKERS / 128) {
        asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");
        if (threadIdx.x == POINT_WORKERS) point_load<BN, BACK, PAIR>(p, s, part, strip * BN);
        if (threadIdx.x == POINT_WORKERS + 32) point_store<BN>(p, s, part, strip * BN, 0);
        if (threadIdx.x == POINT_WORKERS + 64) point_store<BN>(p, s, part, strip * BN, 1);
    } else {
        gf_wg_take_registers<232>();
        point_compute<BN, BACK, PAIR>(p, s, reinterpret_cast<float *>(base + (s.slots - s.weights)), part, strip);
    }
}

/* ----- launchers --------------------------------------------------------------------------------------------------- */

static int64_t point_rows(const gf_nn_shape *s) { return s->n * s->h * s->w; }

/* Columns of a strip; 0: not of this shape. */
static int point_strip(int64_t columns) { return columns % 128 == 0 ? 128 : columns == 64 ? 64 : 0; }

static int point_ring(int strip, int64_t sum, size_t shared) {
    return strip == 128 ? point_slots<128>(sum, shared) : strip == 64 ? point_slots<64>(sum, shared) : 0;
}

static int is_point(const gf_nn_engine *s, const gf_nn_shape *c) {
    return s->hopper && c->kind == GF_NN_CONV && c->type == GF_TYPE_BF16 && c->kernel == 1 && c->stride == 1 && c->pad == 0 &&
           c->in % 64 == 0 && c->out % 64 == 0 && point_rows(c) % POINT_ROWS == 0 && point_rows(c) < (1 << 30);
}

int gf_cunn_point_fits(const gf_nn_engine *s, const gf_nn_shape *c) {
    return is_point(s, c) && c->out / 64 <= GF_CUNN_TICKETS && point_ring(point_strip(c->out), c->in, s->shared) > 0;
}

int gf_cunn_point_back_fits(const gf_nn_engine *s, const gf_nn_shape *c) {
    return is_point(s, c) && c->in % 128 == 0 && c->in / 64 <= GF_CUNN_TICKETS && point_ring(128, c->out, s->shared) > 0;
}

/* Sizes of the launch; rows [rows][sum] times [sum][columns]. */
static point_args point_sizes(const gf_nn_engine *s, int64_t rows, int64_t sum, int64_t columns, int strip) {
    point_args p = {};
    p.tickets = s->tickets;
    p.tiles = (int)(rows / POINT_ROWS), p.chunks = (int)(sum / POINT_STEP), p.slots = point_ring(strip, sum, s->shared);
    p.columns = (int)columns, p.strips = (int)(columns / strip);
    p.parts = s->multiprocessors / p.strips;
    if (p.parts < 1) p.parts = 1;
    if (p.parts > p.tiles) p.parts = p.tiles;
    return p;
}

static cudaError_t point_map(CUtensorMap *map, const void *x, int64_t rows, int64_t columns, int box) {
    return gf_wide_map(map, (const __nv_bfloat16 *)x, (int)rows, (int)columns, box);
}

template <int BN, bool BACK, bool PAIR> static void point_launch(gf_nn_engine *s, const point_args &p, cudaError_t e) {
    const int bytes = p.chunks * BN * 128 + (POINT_OUTS + p.slots) * POINT_SLOT + POINT_TAIL;
    if (e == cudaSuccess)
        e = cudaFuncSetAttribute(point_kernel<BN, BACK, PAIR>, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
    if (e == cudaSuccess) {
        point_kernel<BN, BACK, PAIR><<<(unsigned)(p.strips * p.parts), POINT_THREADS, (size_t)bytes, s->stream>>>(p);
        e = cudaGetLastError();
    }
    gf_cunn_note(s, e, "convolution with batch norm");
}

void gf_cunn_point_forward(gf_nn_engine *s, const gf_nn_shape *c, const gf_nn_args *a) {
    const int64_t rows = point_rows(c);
    const int strip = point_strip(c->out);
    point_args p = point_sizes(s, rows, c->in, c->out, strip);
    p.n = *a->norm;
    cudaError_t e = point_map(&p.a, a->x, rows, c->in, POINT_ROWS);
    if (e == cudaSuccess) e = point_map(&p.w, a->packed, c->out, c->in, strip);
    if (e == cudaSuccess) e = point_map(&p.out, a->y, rows, c->out, POINT_ROWS);
    if (strip == 128) point_launch<128, false, false>(s, p, e);
    else point_launch<64, false, false>(s, p, e);
}

void gf_cunn_point_back(gf_nn_engine *s, const gf_nn_shape *c, const gf_nn_args *a) {
    const int64_t rows = point_rows(c);
    const gf_nn_norm *n = a->before;
    point_args p = point_sizes(s, rows, c->out, c->in, 128);
    p.n = *n;
    if (n->shortcut) p.m = *n->shortcut;
    cudaError_t e = point_map(&p.a, a->dy, rows, c->out, POINT_ROWS);
    if (e == cudaSuccess) e = point_map(&p.w, a->packed, c->out, c->in, POINT_STEP);
    if (e == cudaSuccess) e = point_map(&p.out, n->dy, rows, c->in, POINT_ROWS);
    if (e == cudaSuccess) e = point_map(&p.x, n->x, rows, c->in, POINT_ROWS);
    if (e == cudaSuccess && n->shortcut) e = point_map(&p.x2, n->shortcut->x, rows, c->in, POINT_ROWS);
    p.dy = p.out;
    if (n->shortcut) point_launch<128, true, true>(s, p, e);
    else point_launch<128, true, false>(s, p, e);
}

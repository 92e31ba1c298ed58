/* pairs_strips.cu - strips of similarities on the GPU, and what comes from them: see pairs_kernels.h. */
#include <cuda_fp16.h>
#include <math_constants.h>

#include "cuda/pairs/pairs_device.cuh"
#include "cuda/passes/tile_exact.cuh"

/* ---------- Embeddings and forests ----------
 *
 * Unit vectors with the CPU's bits, float16 copies.
 */

enum { THREADS = 256 };

static unsigned blocks_of(int64_t n) { return static_cast<unsigned>((n + THREADS - 1) / THREADS); }

/* One thread per row: squares are added in the order of the CPU. */
static __global__ void __launch_bounds__(THREADS) lengths(const float *raw, int64_t rows, int dim, double *scale) {
    const int64_t r = blockIdx.x * static_cast<int64_t>(THREADS) + threadIdx.x;
    if (r >= rows) return;
    double sum = 0.0;
    for (int d = 0; d < dim; d++) {
        const double x = raw[r * dim + d];
        sum = __dadd_rn(sum, __dmul_rn(x, x));
    }
    scale[r] = sum > 0.0 ? 1.0 / sqrt(sum) : 0.0;
}

/* One block per row. */
static __global__ void __launch_bounds__(THREADS)
    scale_rows(const float *raw, const double *scale, int64_t first, gf_pairs_side to) {
    __shared__ float parts[THREADS / 32];
    const int64_t r = blockIdx.x;
    float *x = to.x + (first + r) * to.ld;
    __half *half = to.half ? static_cast<__half *>(to.half) + (first + r) * to.ld : NULL;
    float lost = 0.0f;
    for (int d = threadIdx.x; d < to.ld; d += THREADS) {
        const float v = d < to.dim ? static_cast<float>(__dmul_rn(scale[r], raw[r * to.dim + d])) : 0.0f;
        x[d] = v;
        if (!half) continue;
        half[d] = __float2half_rn(v);
        const float gap = v - __half2float(half[d]);
        lost = fmaf(gap, gap, lost);
    }
    for (int lanes = 16; lanes > 0; lanes /= 2) lost += __shfl_xor_sync(0xffffffffu, lost, lanes);
    if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = lost;
    __syncthreads();
    if (threadIdx.x > 0) return;
    for (int w = 1; w < THREADS / 32; w++) lost += parts[w];
    to.lost[first + r] = 1.001f * sqrtf(lost) + 1e-8f;
}

cudaError_t gf_pairs_unit(const float *raw, int64_t rows, int64_t first, const gf_pairs_side *to, cudaStream_t stream) {
    double *scale = NULL;
    cudaError_t e = cudaMallocAsync(reinterpret_cast<void **>(&scale), static_cast<size_t>(rows) * sizeof *scale, stream);
    if (e != cudaSuccess) return e;
    lengths<<<blocks_of(rows), THREADS, 0, stream>>>(raw, rows, to->dim, scale);
    scale_rows<<<static_cast<unsigned>(rows), THREADS, 0, stream>>>(raw, scale, first, *to);
    e = cudaGetLastError();
    const cudaError_t freed = cudaFreeAsync(scale, stream);
    return e != cudaSuccess ? e : freed;
}

/* Non-negative floats compare like their bits. */
static __global__ void __launch_bounds__(THREADS) largest(const float *lost, int64_t n, float *max) {
    float x = 0.0f;
    const int64_t step = gridDim.x * static_cast<int64_t>(THREADS);
    for (int64_t i = blockIdx.x * static_cast<int64_t>(THREADS) + threadIdx.x; i < n; i += step) x = fmaxf(x, lost[i]);
    for (int lanes = 16; lanes > 0; lanes /= 2) x = fmaxf(x, __shfl_xor_sync(0xffffffffu, x, lanes));
    if (threadIdx.x % 32 == 0) atomicMax(reinterpret_cast<int *>(max), __float_as_int(x));
}

cudaError_t gf_pairs_largest(const float *lost, int64_t n, float *max, cudaStream_t stream) {
    const unsigned blocks = n < 512 * THREADS ? blocks_of(n) : 512;
    largest<<<blocks, THREADS, 0, stream>>>(lost, n, max);
    return cudaGetLastError();
}

static __global__ void __launch_bounds__(THREADS) set_slack(gf_pairs_job a) {
    const int r = static_cast<int>(blockIdx.x * THREADS + threadIdx.x);
    if (r < a.rows) a.slack[r] = a.q.half ? 1.01f * (a.q.lost[a.row0 + r] + a.lost_max) + a.chain : 0.0f;
}

cudaError_t gf_pairs_slack(const gf_pairs_job *a, cudaStream_t stream) {
    set_slack<<<blocks_of(a->rows), THREADS, 0, stream>>>(*a);
    return cudaGetLastError();
}

static __global__ void __launch_bounds__(THREADS) init_forest(int32_t *root, int64_t n) {
    const int64_t i = blockIdx.x * static_cast<int64_t>(THREADS) + threadIdx.x;
    if (i < n) root[i] = static_cast<int32_t>(i);
}

cudaError_t gf_pairs_forest(int32_t *root, int64_t n, cudaStream_t stream) {
    init_forest<<<blocks_of(n), THREADS, 0, stream>>>(root, n);
    return cudaGetLastError();
}

static __global__ void __launch_bounds__(THREADS) flatten(int32_t *root, int64_t n) {
    const int64_t i = blockIdx.x * static_cast<int64_t>(THREADS) + threadIdx.x;
    if (i >= n) return;
    volatile int32_t *r = root; /* without path halving: every value written is a final root */
    int32_t top = static_cast<int32_t>(i);
    for (int32_t up = r[top]; up != top; up = r[top]) top = up;
    r[i] = top;
}

cudaError_t gf_pairs_flatten(int32_t *root, int64_t n, cudaStream_t stream) {
    flatten<<<blocks_of(n), THREADS, 0, stream>>>(root, n);
    return cudaGetLastError();
}

/* ---------- What rounded similarities decide ----------
 *
 * Brackets of thresholds, certain counts, and lists of the rest.
 *
 * One block per row. Let l be the rank-th largest of a row's rounded similarities: the float32 one is at most `slack` away, and
 * so is each of them. A similarity more than 2 slack above l is therefore above the threshold for any rounding, and one more than
 * 2 slack below is not.
 */

enum { BIN_THREADS = 512, BINS = 4096, BINS_EACH = BINS / BIN_THREADS };
#define BIN_SLOP 1e-6f /* float32 arithmetic on the borders of bins */

/* Bins of 1/2048 over [-1, 1]; increases with v. */
__device__ __forceinline__ int bin_of(float v) {
    const int b = static_cast<int>(fmaf(v, BINS / 2, BINS / 2));
    return b < 0 ? 0 : b >= BINS ? BINS - 1 : b;
}
/* Values in the first and the last bin may lie outside [-1, 1] by roundings. */
__device__ __forceinline__ float bin_low(int b) { return b == 0 ? -4.0f : b / (BINS / 2.0f) - 1.0f - BIN_SLOP; }
__device__ __forceinline__ float bin_high(int b) { return b == BINS - 1 ? 4.0f : (b + 1) / (BINS / 2.0f) - 1.0f + BIN_SLOP; }

/* Calls f(column, s) for every pair of the row. */
template <class F> __device__ __forceinline__ void each_pair(const gf_pairs_job &a, int row, F f) {
    const float *s = a.s + row * a.pitch;
    const int64_t skip = gf_pairs_skipped(a, row), n = a.k.n;
    for (int64_t c = 4 * threadIdx.x; c < n; c += 4 * BIN_THREADS) {
        const float4 v = __ldcs(reinterpret_cast<const float4 *>(s + c));
        const float values[4] = {v.x, v.y, v.z, v.w};
#pragma unroll
        for (int i = 0; i < 4; i++)
            if (c + i < n && c + i != skip) f(c + i, values[i]);
    }
}

static __global__ void __launch_bounds__(BIN_THREADS) brackets(gf_pairs_job a) {
    __shared__ int bins[BINS], warps[BIN_THREADS / 32];
    const int row = static_cast<int>(blockIdx.x);
    const float slack = a.slack[row];
    for (int b = threadIdx.x; b < BINS; b += BIN_THREADS) bins[b] = 0;
    if (threadIdx.x == 0) a.low[row] = a.high[row] = a.top_low[row] = CUDART_INF_F;
    __syncthreads();
    each_pair(a, row, [&](int64_t, float v) { atomicAdd(&bins[bin_of(v)], 1); });
    __syncthreads();
    int mine = 0;
    for (int i = 0; i < BINS_EACH; i++) mine += bins[BINS - 1 - (threadIdx.x * BINS_EACH + i)];
    int64_t seen = gf_pairs_before(mine, warps);
    for (int i = 0; i < BINS_EACH; i++) {
        const int b = BINS - 1 - (threadIdx.x * BINS_EACH + i);
        if (seen < a.rank && seen + bins[b] >= a.rank) a.high[row] = bin_high(b) + 2.0f * slack;
        if (seen < a.reach && seen + bins[b] >= a.reach) a.low[row] = bin_low(b) - 2.0f * slack;
        if (seen < a.top && seen + bins[b] >= a.top) a.top_low[row] = bin_low(b) - 2.0f * slack;
        seen += bins[b];
    }
}

static __global__ void __launch_bounds__(BIN_THREADS) gather(gf_pairs_job a) {
    __shared__ int listed, above, hits, copies;
    const int row = static_cast<int>(blockIdx.x);
    const int64_t at = a.row0 + row;
    const float low = a.low[row], high = a.high[row], top_low = a.top_low[row], slack = a.slack[row];
    const float min = fminf(fminf(low, top_low), a.dup - slack);
    int my_above = 0, my_hits = 0, my_copies = 0;
    if (threadIdx.x == 0) listed = above = hits = copies = 0;
    __syncthreads();
    each_pair(a, row, [&](int64_t col, float v) {
        if (v < min) return;
        if ((v >= low && v <= high) || v >= top_low || fabsf(v - a.dup) <= slack) {
            const int place = atomicAdd(&listed, 1);
            if (place < a.cap) a.list[row * static_cast<int64_t>(a.cap) + place] = static_cast<uint64_t>(col);
            return;
        }
        if (v > high) my_above++, my_hits += gf_pairs_same(a, at, col);
        if (v < a.dup) return;
        my_copies++;
        if (a.copy_root) gf_pairs_join(a.copy_root, static_cast<int32_t>(at), static_cast<int32_t>(col));
    });
    gf_pairs_add(&above, my_above);
    gf_pairs_add(&hits, my_hits);
    gf_pairs_add(&copies, my_copies);
    __syncthreads();
    if (threadIdx.x > 0) return;
    a.above[at] = above, a.hits[at] = hits, a.copies[at] = copies;
    a.list_n[row] = listed;
    if (listed > a.cap && atomicExch(&a.dense[at / GF_PAIRS_GROUP], 1) == 0) atomicAdd(a.dense_n, 1);
}

cudaError_t gf_pairs_brackets(const gf_pairs_job *a, cudaStream_t stream) {
    brackets<<<static_cast<unsigned>(a->rows), BIN_THREADS, 0, stream>>>(*a);
    return cudaGetLastError();
}

cudaError_t gf_pairs_gather(const gf_pairs_job *a, cudaStream_t stream) {
    gather<<<static_cast<unsigned>(a->rows), BIN_THREADS, 0, stream>>>(*a);
    return cudaGetLastError();
}

/* ---------- Float32 similarities decide the rest ----------
 *
 * Threshold, counts and most similar ones of a row: of its list, or of all pairs.
 */

/* ----- sources of keys; 0: none ----- */

struct list_keys {
    const uint64_t *key;
    int64_t count;
    __device__ uint64_t operator()(int64_t i) const { return key[i]; }
};

struct row_keys { /* s of a complete row */
    const float *s;
    int64_t count, skip;
    __device__ uint64_t operator()(int64_t i) const { return i == skip ? 0 : gf_pairs_key(s[i], i); }
};

/* ----- a row ----- */

struct row_shared {
    gf_kth c;
    int above, hits, copies, taken;
    uint64_t best[GF_PAIRS_TOP];
};

/* Counts the keys above the threshold, and duplicates. */
template <class K> __device__ void count_keys(const gf_pairs_job &a, int64_t at, const K &keys, float lambda, row_shared &sm) {
    int above = 0, hits = 0, copies = 0;
    for (int64_t i = threadIdx.x; i < keys.count; i += blockDim.x) {
        const uint64_t key = keys(i);
        if (!key) continue;
        const float v = gf_pairs_value(key);
        const int64_t col = gf_pairs_col(key);
        if (a.rank > 0 && v > lambda) above++, hits += gf_pairs_same(a, at, col);
        if (v < a.dup) continue;
        copies++;
        if (a.copy_root) gf_pairs_join(a.copy_root, static_cast<int32_t>(at), static_cast<int32_t>(col));
    }
    gf_pairs_add(&sm.above, above);
    gf_pairs_add(&sm.hits, hits);
    gf_pairs_add(&sm.copies, copies);
}

template <class K> __device__ void put_top(const gf_pairs_job &a, int row, const K &keys, row_shared &sm) {
    const uint64_t last = gf_kth_key(keys, a.top, 0, sm.c);
    for (int64_t i = threadIdx.x; i < keys.count; i += blockDim.x) {
        const uint64_t key = keys(i);
        if (key >= last) sm.best[atomicAdd(&sm.taken, 1)] = key; /* keys are distinct: exactly `top` of them */
    }
    __syncthreads();
    gf_sort_best(sm.best, a.top);
    for (int i = threadIdx.x; i < a.top; i += blockDim.x)
        gf_put_cell(a.other, a.similarity, row * static_cast<int64_t>(a.top) + i, sm.best[i]);
}

/* The keys from place `above` on, up to the reach. */
template <class K>
__device__ void put_below(const gf_pairs_job &a, int row, const K &keys, int64_t above, int64_t certain, row_shared &sm) {
    for (int e = 0; e < a.below; e++) {
        const int64_t place = above + 1 + e;
        const bool exists = certain + place <= a.k.n - (gf_pairs_skipped(a, row) >= 0);
        const uint64_t key = exists ? gf_kth_key(keys, place, 0, sm.c) : 0;
        if (threadIdx.x == 0) gf_put_cell(a.below_other, a.below_similarity, row * static_cast<int64_t>(a.below) + e, key);
        __syncthreads();
    }
}

/* keys: all pairs that were not counted before; `certain` others are above. */
template <class K> __device__ void select_row(const gf_pairs_job &a, int row, const K &keys, int64_t certain, row_shared &sm) {
    const int64_t at = a.row0 + row;
    float lambda = 0.0f;
    if (threadIdx.x == 0) sm.above = sm.hits = sm.copies = sm.taken = 0;
    if (a.rank > 0) lambda = gf_pairs_value(gf_kth_key(keys, a.rank - certain, 32, sm.c));
    __syncthreads();
    count_keys(a, at, keys, lambda, sm);
    if (a.top > 0) put_top(a, row, keys, sm);
    __syncthreads();
    if (a.below > 0) put_below(a, row, keys, sm.above, certain, sm);
    if (threadIdx.x > 0) return;
    if (a.rank > 0) a.lambda[at] = lambda;
    a.above[at] += sm.above, a.hits[at] += sm.hits, a.copies[at] += sm.copies;
}

static __global__ void __launch_bounds__(THREADS) select_lists(gf_pairs_job a) {
    __shared__ row_shared sm;
    const int row = static_cast<int>(blockIdx.x), count = a.list_n[row];
    uint64_t *key = a.list + row * static_cast<int64_t>(a.cap);
    if (count > a.cap) return;
    for (int i = threadIdx.x; i < count; i += THREADS) {
        const int64_t col = static_cast<int64_t>(key[i]);
        key[i] = gf_pairs_key(gf_pairs_similarity(a, row, col), col);
    }
    __syncthreads();
    const list_keys keys = {key, count};
    select_row(a, row, keys, a.above[a.row0 + row], sm);
}

static __global__ void __launch_bounds__(4 * THREADS) select_dense(gf_pairs_job a) {
    __shared__ row_shared sm;
    const int row = static_cast<int>(blockIdx.x);
    if (a.list_n[row] <= a.cap) return;
    if (threadIdx.x == 0) a.above[a.row0 + row] = a.hits[a.row0 + row] = a.copies[a.row0 + row] = 0;
    const row_keys keys = {a.s + row * a.pitch, a.k.n, gf_pairs_skipped(a, row)};
    select_row(a, row, keys, 0, sm);
}

cudaError_t gf_pairs_select(const gf_pairs_job *a, int dense, cudaStream_t stream) {
    if (dense) select_dense<<<static_cast<unsigned>(a->rows), 4 * THREADS, 0, stream>>>(*a);
    else select_lists<<<static_cast<unsigned>(a->rows), THREADS, 0, stream>>>(*a);
    return cudaGetLastError();
}

/* ----- similarities in float32 ----- */

static __global__ void __launch_bounds__(GF_EXACT_THREADS) exact_tiles(gf_pairs_job a, int all) {
    __shared__ gf_exact_shared sm;
    const int r0 = static_cast<int>(blockIdx.y) * GF_EXACT_TILE;
    const int64_t c0 = a.col0 + static_cast<int64_t>(blockIdx.x) * GF_EXACT_TILE;
    if (!all && !a.dense[(a.row0 + r0) / GF_PAIRS_GROUP]) return;
    gf_operand q = {}, k = {};
    q.f32 = a.q.x + a.row0 * a.q.ld, q.rows = a.rows;
    k.f32 = a.k.x + c0 * a.k.ld, k.rows = static_cast<int>(a.k.n - c0 < GF_EXACT_TILE ? a.k.n - c0 : GF_EXACT_TILE);
    float acc[4][4];
    gf_exact_product(acc, q, r0, k, 0, a.k.ld, sm);
    const int r = r0 + static_cast<int>(threadIdx.x) / 16 * 4;
    const int64_t c = c0 - a.col0 + threadIdx.x % 16 * 4;
    for (int i = 0; i < 4 && r + i < a.rows; i++) {
        *reinterpret_cast<float4 *>(a.s + (r + i) * a.pitch + c) = make_float4(acc[i][0], acc[i][1], acc[i][2], acc[i][3]);
        if (c == 0) a.slack[r + i] = 0.0f;
    }
}

cudaError_t gf_pairs_exact(const gf_pairs_job *a, int all, cudaStream_t stream) {
    const int64_t cols = a->k.n - a->col0;
    const dim3 grid(static_cast<unsigned>((cols + GF_EXACT_TILE - 1) / GF_EXACT_TILE),
                    static_cast<unsigned>((a->rows + GF_EXACT_TILE - 1) / GF_EXACT_TILE));
    exact_tiles<<<grid, GF_EXACT_THREADS, 0, stream>>>(*a, all);
    return cudaGetLastError();
}

/* ---------- Pairs against known thresholds of both anchors ----------
 *
 * One block per row. Pairs that the rounded similarities leave open are queued in shared memory; all threads compute their
 * float32 similarities together as soon as the queue is long enough.
 */

enum { STEP = 4 * THREADS, QUEUE = STEP + THREADS };

struct row_counts { /* of one thread for its row */
    const gf_pairs_job *a;
    int64_t at;
    float lambda;
    int above, hits, mutual;

    /* v lies on the same side of both thresholds as the float32 similarity. */
    __device__ void take(int64_t col, float v) {
        if (!(v > lambda)) return;
        if (a->recount) above++, hits += gf_pairs_same(*a, at, col);
        if (!(v > a->col_lambda[col])) return;
        mutual++;
        if (a->half) atomicAdd(&a->mutual[col], 1);
        if (a->mutual_root)
            gf_pairs_join(a->mutual_root, static_cast<int32_t>(a->row_position + at),
                          static_cast<int32_t>(a->col_position + col));
    }
};

static __global__ void __launch_bounds__(THREADS) compare(gf_pairs_job a) {
    __shared__ int queue[QUEUE]; /* columns */
    __shared__ int queued, above, hits, mutual;
    const int row = static_cast<int>(blockIdx.x);
    row_counts it = {&a, a.row0 + row, a.lambda[a.row0 + row], 0, 0, 0};
    const float slack = a.slack[row], *s = a.s + row * a.pitch;
    const int64_t skip = gf_pairs_skipped(a, row), n = a.k.n - a.col0;
    const int64_t first = a.half ? (it.at + 1 - a.col0) / 4 * 4 : 0; /* blocks of four columns */
    if (threadIdx.x == 0) queued = above = hits = mutual = 0;
    __syncthreads();
    for (int64_t c0 = first; c0 < n; c0 += STEP) {
        const int64_t c = c0 + 4 * threadIdx.x;
        float values[4] = {-4.0f, -4.0f, -4.0f, -4.0f};
        if (c < n) {
            const float4 v = __ldcs(reinterpret_cast<const float4 *>(s + c));
            values[0] = v.x, values[1] = v.y, values[2] = v.z, values[3] = v.w;
        }
#pragma unroll
        for (int i = 0; i < 4; i++) {
            const int64_t col = a.col0 + c + i;
            const float v = values[i];
            if (v < it.lambda - slack || col >= a.k.n || col == skip || (a.half && col <= it.at)) continue;
            const float other = a.col_lambda[col];
            const bool open = slack > 0.0f && (fabsf(v - it.lambda) <= slack || fabsf(v - other) <= slack);
            if (!open) it.take(col, v);
            else if (a.recount || v >= other - slack) queue[atomicAdd(&queued, 1)] = static_cast<int>(col);
        }
        __syncthreads();
        const int waiting = queued;
        if (waiting >= THREADS || (c0 + STEP >= n && waiting > 0)) {
            for (int i = threadIdx.x; i < waiting; i += THREADS) it.take(queue[i], gf_pairs_similarity(a, row, queue[i]));
            __syncthreads();
            if (threadIdx.x == 0) queued = 0;
        }
        __syncthreads();
    }
    gf_pairs_add(&above, it.above);
    gf_pairs_add(&hits, it.hits);
    gf_pairs_add(&mutual, it.mutual);
    __syncthreads();
    if (threadIdx.x > 0) return;
    if (a.recount) a.above[it.at] = above, a.hits[it.at] = hits;
    if (mutual) atomicAdd(&a.mutual[it.at], mutual);
}

cudaError_t gf_pairs_compare(const gf_pairs_job *a, cudaStream_t stream) {
    compare<<<static_cast<unsigned>(a->rows), THREADS, 0, stream>>>(*a);
    return cudaGetLastError();
}

/* pairs_select.cu - threshold, counts and most similar ones of a row, from float32 similarities: of its list, or of all pairs. */
#include "cuda/pairs/pairs_kth.cuh"
#include "cuda/passes/tile_exact.cuh"

enum { THREADS = 256 };

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
__device__ void put_edge(const gf_pairs_job &a, int row, const K &keys, int64_t above, int64_t certain, row_shared &sm) {
    for (int e = 0; e < a.edge; e++) {
        const int64_t place = above + 1 + e;
        const bool exists = certain + place <= a.k.n - (gf_pairs_skipped(a, row) >= 0);
        const uint64_t key = exists ? gf_kth_key(keys, place, 0, sm.c) : 0;
        if (threadIdx.x == 0) gf_put_cell(a.edge_other, a.edge_similarity, row * static_cast<int64_t>(a.edge) + e, key);
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
    if (a.edge > 0) put_edge(a, row, keys, sm.above, certain, sm);
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

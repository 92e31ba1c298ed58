/* pairs_compare.cu - pairs against known thresholds of both anchors.
 *
 * One block per row. Pairs that the rounded similarities leave open are queued in shared memory; all threads compute their
 * float32 similarities together as soon as the queue is long enough.
 */
#include "cuda/pairs/pairs_device.cuh"

enum { THREADS = 256, STEP = 4 * THREADS, QUEUE = STEP + THREADS };

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

/* cuda_positives.cu - several positives of a sample (batch.positives), as method/positives.c: the passes leave these pairs out, as pairs of
 * one key; here one warp per row makes them one by one. Steps without them queue none of this.
 */
#include "cuda/cuda_step.cuh"

#define THREADS 128
#define WARPS (THREADS / 32)

/* The first sample whose embeddings are positives of sample j, itself among them; then gf_next_positive. */
static __device__ __forceinline__ int64_t first_positive(const gf_cuda_step &x, int64_t j) {
    const int32_t key = x.side[0].key[j * x.plan.per_sample];
    return x.positives[j] < 0 || key < 0 ? j : key;
}

static __device__ __forceinline__ int64_t next_positive(const gf_cuda_step &x, int64_t j) { return x.next_positive[j]; }

/* One warp per sample of the batch: the next one of its group; -1: none. */
static __global__ void __launch_bounds__(THREADS) link_positives(const gf_cuda_step x, int32_t *next) {
    const gf_plan &p = x.plan;
    const int64_t j = int64_t(blockIdx.x) * WARPS + threadIdx.x / 32;
    if (j >= p.cols) return;
    const int32_t *key = x.side[0].key;
    const int mine = x.positives[j] < 0 ? -1 : key[j * p.per_sample];
    if (threadIdx.x % 32 == 0) next[j] = -1;
    for (int64_t c0 = j + 1; mine >= 0 && c0 < p.cols; c0 += 32) {
        const int64_t c = c0 + threadIdx.x % 32;
        const unsigned same = __ballot_sync(0xffffffffu, c < p.cols && key[c * p.per_sample] == mine);
        if (!same) continue;
        if (threadIdx.x % 32 == 0) next[j] = int(c0) + __ffs(int(same)) - 1;
        return;
    }
}

cudaError_t gf_cuda_link_positives(const gf_cuda_step *x, int32_t *next, cudaStream_t stream) {
    link_positives<<<static_cast<unsigned>((x->plan.cols + WARPS - 1) / WARPS), THREADS, 0, stream>>>(*x, next);
    return cudaGetLastError();
}

/* Similarity of two unit rows, by a warp. */
static __device__ __forceinline__ double similarity(const float *a, const float *b, int64_t dim) {
    double s = 0.0;
    for (int64_t d = threadIdx.x % 32; d < dim; d += 32) s += double(a[d]) * double(b[d]);
    return gf_warp_sum(s);
}

/* One warp per own row: sums over the positives of other samples. */
static __global__ void __launch_bounds__(THREADS) sum_positives(const gf_cuda_step x) {
    const gf_plan &p = x.plan;
    const int i = blockIdx.y, per = p.per_sample;
    const int64_t r = int64_t(blockIdx.x) * WARPS + threadIdx.x / 32, at = x.row0 * per + r, sample = at / per;
    if (r >= p.own || i >= p.anchored) return;
    const gf_cuda_side &side = x.side[i];
    const gf_cuda_matrix &q = side.z.f32, &k = x.side[p.sides == 2 ? 1 - i : 0].z.f32;
    const double inv_tau = double(side.own.inv_tau[r]), bias = x.bias ? double(*x.bias) : p.bias;
    gf_others t;
    gf_others_init(&t);
    for (int64_t j = first_positive(x, sample); j >= 0; j = next_positive(x, j))
        for (int64_t c = j * per; c < (j + 1) * per && j != sample; c++)
            gf_others_add(&p, &t, similarity(q.row + at * q.ld, k.row + c * k.ld, x.dim), inv_tau, bias);
    if (threadIdx.x % 32 == 0) side.others[r] = t;
}

cudaError_t gf_cuda_sum_positives(const gf_cuda_step *x, cudaStream_t stream) {
    sum_positives<<<dim3(static_cast<unsigned>((x->plan.own + WARPS - 1) / WARPS), x->plan.sides), THREADS, 0, stream>>>(*x);
    return cudaGetLastError();
}

/* Sides beyond `anchored` have rows that weigh nothing. */
static __device__ __forceinline__ float weight_of(const gf_cuda_step &x, int i, int64_t r, float s) {
    const gf_cuda_rows &y = x.side[i].every;
    if (i >= x.plan.anchored) return 0.0f;
    return gf_others_weight(&x.plan, s, y.inv_tau[r], y.log_w[r], y.attract[r], x.side[i].pos[r]);
}

/* One warp per own row, after pass C: pairs with its positives, the one of its own sample too. */
static __global__ void __launch_bounds__(THREADS) positives_gradient(const gf_cuda_step x) {
    const gf_plan &p = x.plan;
    const int i = blockIdx.y, per = p.per_sample, o = p.sides == 2 ? 1 - i : 0;
    const int64_t r = int64_t(blockIdx.x) * WARPS + threadIdx.x / 32, at = x.row0 * per + r, sample = at / per;
    if (r >= p.own) return;
    const gf_cuda_matrix &q = x.side[i].z.f32, &k = x.side[o].z.f32;
    float *grad = x.side[i].every.grad + r * q.ld;
    for (int64_t j = first_positive(x, sample); j >= 0; j = next_positive(x, j))
        for (int64_t c = j * per; c < (j + 1) * per; c++) {
            if (p.sides == 1 && c == at) continue; /* itself */
            const float *z = k.row + c * k.ld;
            const float s = float(similarity(q.row + at * q.ld, z, x.dim)), w = weight_of(x, i, at, s) + weight_of(x, o, c, s);
            for (int64_t d = threadIdx.x % 32; d < x.dim; d += 32) grad[d] += w * z[d];
        }
}

cudaError_t gf_cuda_positives_gradient(const gf_cuda_step *x, cudaStream_t stream) {
    const dim3 blocks(static_cast<unsigned>((x->plan.own + WARPS - 1) / WARPS), x->plan.sides);
    positives_gradient<<<blocks, THREADS, 0, stream>>>(*x);
    cudaError_t e = cudaGetLastError();
    for (int i = 0; e == cudaSuccess && i < x->plan.sides; i++) /* what `write` would add */
        e = cudaMemsetAsync(x->side[i].pos, 0, sizeof(float) * static_cast<size_t>(x->plan.all), stream);
    return e;
}

/* cuda_step_write.cu - the end of the second half: from dZ through the normalisation to the caller's gradients, one warp per
 * sample; and the statistics of the second half. */
#include <math_constants.h>

#include "cuda/cuda_step.cuh"

#define WARPS 4
#define THREADS 128
#define FIELDS 6 /* of gf_totals, from precision on */

static __global__ void __launch_bounds__(THREADS) unpack(const gf_cuda_step x) {
    const int64_t r = int64_t(blockIdx.x) * THREADS + threadIdx.x;
    const int i = blockIdx.y;
    if (r >= x.plan.cols * x.plan.per_sample) return;
    gf_put_link(x, i, r, x.links[gf_link_place(x, i, r)]);
    x.side[i].every.align[r] = float(x.side[i].positive[r]); /* for the official per-rank loss */
}

cudaError_t gf_cuda_unpack(const gf_cuda_step *x, cudaStream_t stream) {
    const int64_t all = x->plan.cols * x->plan.per_sample;
    unpack<<<dim3(static_cast<unsigned>((all + THREADS - 1) / THREADS), x->plan.sides), THREADS, 0, stream>>>(*x);
    return cudaGetLastError();
}

/* ----- gradients ----- */

/* dh = (dz - z (z . dz)) / |h|, with the positive's part in dz. */
template <class T>
static __device__ void write_row(const gf_cuda_step &x, const float *z, const float *positive, double pull, const float *dz,
                                 double norm, T *out) {
    const double scale = x.plan.authors_ranks ? 0.5 * double(x.plan.cols) / double(x.plan.rows) : 1.0;
    const int lane = threadIdx.x % 32, dim = static_cast<int>(x.dim);
    double along = 0.0;
    if (x.plan.o.normalize)
#pragma unroll 4
        for (int d = lane; d < dim; d += 32) along += double(z[d]) * (double(dz[d]) + pull * double(positive[d]));
    along = gf_warp_sum(along);
#pragma unroll 4
    for (int d = lane; d < dim; d += 32)
        gf_store(out + d, float(scale * (double(dz[d]) + pull * double(positive[d]) - along * double(z[d])) / norm));
}

/* The blocks from `first_sum` on add up the totals. */
template <class T, bool PLAIN>
static __global__ void __launch_bounds__(32 * WARPS) write(const gf_cuda_step x, const unsigned first_sum) {
    if (blockIdx.x >= first_sum) {
        gf_sum_rows<PLAIN>(x, blockIdx.x - first_sum, gridDim.x - first_sum);
        return;
    }
    const int64_t i = int64_t(blockIdx.x) * WARPS + threadIdx.x / 32;
    if (i >= x.plan.rows) return;
    const int per_sample = x.plan.per_sample, last = x.plan.sides - 1;
    const gf_cuda_side &a = x.side[0], &b = x.side[last];
    const int64_t ld = a.z.f32.ld, ra = (x.row0 + i) * per_sample, rb = ra + 1 - last, skip = x.row0 * per_sample;
    const float *za = a.z.f32.row + ra * ld, *zb = b.z.f32.row + rb * ld;
    T *grad_a = static_cast<T *>(x.grad_a) + i * x.grad_stride[0], *grad_b = static_cast<T *>(x.grad_b) + i * x.grad_stride[1];
    const double pull = double(a.pos[ra]) + double(b.pos[rb]);
    write_row(x, za, zb, pull, a.every.grad + (ra - skip) * ld, double(a.norm[ra]), grad_a);
    write_row(x, zb, za, pull, b.every.grad + (rb - skip) * ld, double(b.norm[rb]), grad_b);
}

cudaError_t gf_cuda_write(const gf_cuda_step *x, int sums_rows, cudaStream_t stream) {
    const unsigned blocks = static_cast<unsigned>((x->plan.rows + WARPS - 1) / WARPS);
    const unsigned sums = sums_rows ? gf_sum_rows_blocks(x) : 0;
    gf_with_dtype(x->grad_dtype, [&](auto zero) {
        auto *const made = gf_is_plain(x) ? write<decltype(zero), true> : write<decltype(zero), false>;
        made<<<blocks + sums, 32 * WARPS, 0, stream>>>(*x, blocks);
    });
    return cudaGetLastError();
}

/* One warp per candidate. */
template <class T> static __global__ void __launch_bounds__(32 * WARPS) write_extra(const gf_cuda_step x, const int i, T *out) {
    const int64_t c = int64_t(blockIdx.x) * WARPS + threadIdx.x / 32, all = x.plan.cols * x.plan.per_sample;
    const gf_cuda_side &side = x.side[i];
    const int64_t ld = side.z.f32.ld;
    if (c >= x.plan.candidates[i]) return;
    const float *z = side.z.f32.row + (all + c) * ld;
    write_row(x, z, z, 0.0, side.extra_grad + c * ld, double(side.norm[all + c]), out + c * x.dim);
}

cudaError_t gf_cuda_write_candidates(const gf_cuda_step *x, int i, void *grad, cudaStream_t stream) {
    const unsigned blocks = static_cast<unsigned>((x->plan.candidates[i] + WARPS - 1) / WARPS);
    gf_with_dtype(x->grad_dtype, [&](auto zero) {
        write_extra<decltype(zero)><<<blocks, 32 * WARPS, 0, stream>>>(*x, i, static_cast<decltype(zero) *>(grad));
    });
    return cudaGetLastError();
}

/* ----- statistics ----- */

template <bool PLAIN> static __global__ void __launch_bounds__(GF_SUM_THREADS) sum_rows(const gf_cuda_step x) {
    gf_sum_rows<PLAIN>(x, blockIdx.x, gridDim.x);
}

cudaError_t gf_cuda_sum_rows(const gf_cuda_step *x, cudaStream_t stream) {
    auto *const made = gf_is_plain(x) ? sum_rows<true> : sum_rows<false>;
    made<<<gf_sum_rows_blocks(x), GF_SUM_THREADS, 0, stream>>>(*x);
    return cudaGetLastError();
}

static __global__ void move_pool(const gf_cuda_step x) { gf_move_pool(x); }

cudaError_t gf_cuda_move_pool(const gf_cuda_step *x, cudaStream_t stream) {
    move_pool<<<1, 1, 0, stream>>>(*x);
    return cudaGetLastError();
}

/* Per anchor, rows pooled; 0/0 counts as 1, as in the authors' code. */
static __device__ void add_quality(const gf_cuda_step &x, int i, int64_t a, double (&t)[FIELDS]) {
    int64_t same = 0, hits = 0, flagged = 0;
    for (int v = 0; v < x.plan.per_sample; v++) {
        const int64_t r = a * x.plan.per_sample + v, every = x.row0 * x.plan.per_sample + r;
        same += x.side[i].own.same[r], hits += x.side[i].own.hits[r];
        flagged += gf_cuda_row_negatives(x, i, r) - x.links[gf_link_place(x, i, every)].kept;
    }
    t[0] = (double(hits) + 1e-9) / (double(flagged) + 1e-9);
    t[1] = (double(hits) + 1e-9) / (double(same) + 1e-9);
    t[2] = double(same), t[3] = double(hits);
}

static __global__ void __launch_bounds__(THREADS) sum_grad(const gf_cuda_step x) {
    const int64_t a = int64_t(blockIdx.x) * THREADS + threadIdx.x;
    const int i = blockIdx.y;
    double t[FIELDS] = {};
    if (a < x.plan.rows && x.plan.flags & GF_QUALITY && i < x.plan.anchored) add_quality(x, i, a, t);
    if (a < x.plan.rows && x.plan.authors_ranks)
        t[4] = x.side[i].own.col_sum[a], t[5] = x.side[i].own.col_moment[a]; /* one row each */
    gf_block_sum<FIELDS, THREADS>(t, x.partial + (size_t(blockIdx.y) * gridDim.x + blockIdx.x) * FIELDS);
    const unsigned blocks = gridDim.x * gridDim.y;
    if (gf_is_last_block(x.control, blocks)) gf_sum_blocks<FIELDS, THREADS>(x.partial, blocks, &x.control->sum.precision);
}

cudaError_t gf_cuda_sum_grad(const gf_cuda_step *x, cudaStream_t stream) {
    sum_grad<<<dim3(static_cast<unsigned>((x->plan.rows + THREADS - 1) / THREADS), x->plan.sides), THREADS, 0, stream>>>(*x);
    return cudaGetLastError();
}

static __global__ void put_loss(const gf_cuda_control *c, const gf_plan plan, const int graded, float *loss, float *grad_tau,
                                float *grad_bias, int32_t *noticed) {
    const gf_loss_totals y = gf_totals_loss(&plan, &c->sum, c->sum.tau_used, graded);
    const bool failed = gf_failed(c);
    if (loss) *loss = failed ? CUDART_NAN_F : float(y.loss);
    if (grad_tau) *grad_tau = failed ? CUDART_NAN_F : float(y.grad_tau);
    if (grad_bias) *grad_bias = failed ? CUDART_NAN_F : float(c->sum.grad_bias);
    if (failed) *noticed = 1;
}

cudaError_t gf_cuda_put_loss(const gf_device_ctx *d, const gf_plan *plan, int graded, float *loss, float *grad_tau,
                             float *grad_bias) {
    put_loss<<<1, 1, 0, d->stream>>>(d->control, *plan, graded, loss, grad_tau, grad_bias, d->noticed);
    return cudaGetLastError();
}

/* ----- inspection ----- */

static __global__ void __launch_bounds__(THREADS) by_view(uint8_t *keep, const uint8_t *mask, int64_t cols) {
    const int64_t j = int64_t(blockIdx.x) * THREADS + threadIdx.x, at = int64_t(blockIdx.y) * 2 * cols;
    if (j >= cols) return;
    keep[at + j] = mask[at + 2 * j];
    keep[at + cols + j] = mask[at + 2 * j + 1];
}

cudaError_t gf_cuda_by_view(uint8_t *keep, const uint8_t *mask, int64_t rows, int64_t cols, cudaStream_t stream) {
    by_view<<<dim3(static_cast<unsigned>((cols + THREADS - 1) / THREADS), static_cast<unsigned>(rows)), THREADS, 0, stream>>>(
        keep, mask, cols);
    return cudaGetLastError();
}

/* ----- positions ----- */

static __global__ void __launch_bounds__(THREADS) iota(int64_t *out, int64_t n) {
    const int64_t i = int64_t(blockIdx.x) * THREADS + threadIdx.x;
    if (i < n) out[i] = i;
}

cudaError_t gf_cuda_iota(int64_t *out, int64_t n, cudaStream_t stream) {
    iota<<<static_cast<unsigned>((n + THREADS - 1) / THREADS), THREADS, 0, stream>>>(out, n);
    return cudaGetLastError();
}

/* cunn_optim_kernels.cu - one optimizer step over all tensors in three launches: sums of squares per chunk; ratios of LARS and
 * the norm of the gradient from them, in a fixed order; then every weight. Rates are read from device memory, so that a captured
 * step can be replayed with different ones. A gradient that is not finite changes nothing. */
#include "cuda/nn/cunn_optim.h"

enum { THREADS = 256, WARPS = 32 };

/* Sum over the block, the same in thread 0 every time. */
__device__ static double block_sum(double x) {
    __shared__ double warp[THREADS / 32];
    for (int step = 16; step; step >>= 1) x += __shfl_down_sync(0xffffffffu, x, step);
    __syncthreads();
    if (threadIdx.x % 32 == 0) warp[threadIdx.x / 32] = x;
    __syncthreads();
    double sum = 0.0;
    for (int i = 0; i < THREADS / 32; i++) sum += warp[i];
    return sum;
}

static __global__ void __launch_bounds__(THREADS) sums_kernel(gf_cunn_steps t, gf_optim_rule rule) {
    const gf_cunn_chunk chunk = t.chunks[blockIdx.x];
    const gf_param p = t.params[chunk.tensor];
    const double decay = p.decay ? rule.weight_decay : 0.0;
    const int64_t to = min(chunk.from + GF_CUNN_CHUNK, (int64_t)p.n);
    const bool adapt = rule.kind == GF_OPTIM_LARS && p.adapt;
    double gg = 0.0, pp = 0.0, dd = 0.0;
    for (int64_t i = chunk.from + threadIdx.x; i < to; i += THREADS) {
        const double g = p.g[i];
        gg += g * g;
        if (!adapt) continue;
        const double w = p.p[i], d = g + decay * w;
        pp += w * w;
        dd += d * d;
    }
    gg = block_sum(gg);
    if (adapt) pp = block_sum(pp), dd = block_sum(dd);
    if (threadIdx.x) return;
    t.sums[3 * blockIdx.x] = gg, t.sums[3 * blockIdx.x + 1] = pp, t.sums[3 * blockIdx.x + 2] = dd;
}

/* One block, one warp per tensor at a time. */
static __global__ void __launch_bounds__(32 * WARPS) ratios_kernel(gf_cunn_steps t, gf_optim_rule rule) {
    __shared__ double squares[WARPS];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    double all = 0.0;
    for (int k = warp; k < t.count; k += WARPS) {
        double sum[3] = {0.0, 0.0, 0.0};
        for (int i = t.first[k] + lane; i < t.first[k + 1]; i += 32)
            for (int j = 0; j < 3; j++) sum[j] += t.sums[3 * i + j];
        for (int step = 16; step; step >>= 1)
            for (int j = 0; j < 3; j++) sum[j] += __shfl_down_sync(0xffffffffu, sum[j], step);
        all += sum[0];
        if (lane) continue;
        t.ratio[k] = t.params[k].adapt ? gf_rule_ratio(&rule, sqrt(sum[1]), sqrt(sum[2])) : 1.0;
    }
    if (lane == 0) squares[warp] = all;
    __syncthreads();
    if (threadIdx.x) return;
    double sum = 0.0;
    for (int i = 0; i < WARPS; i++) sum += squares[i];
    *t.norm = sqrt(sum);
}

static __global__ void __launch_bounds__(THREADS) step_kernel(gf_cunn_steps t, gf_optim_rule rule) {
    if (!isfinite(*t.norm)) return;
    const gf_cunn_chunk chunk = t.chunks[blockIdx.x];
    const gf_param p = t.params[chunk.tensor];
    const gf_optim_scalars now = *t.now;
    const double decay = p.decay ? rule.weight_decay : 0.0, ratio = rule.kind == GF_OPTIM_LARS ? t.ratio[chunk.tensor] : 1.0;
    const double shrink = gf_rule_clip(&rule, *t.norm);
    const int64_t to = min(chunk.from + GF_CUNN_CHUNK, (int64_t)p.n);
    for (int64_t i = chunk.from + threadIdx.x; i < to; i += THREADS) {
        const float g = (float)(shrink * p.g[i]);
        switch (rule.kind) {
        case GF_OPTIM_LARS: gf_rule_lars(&rule, now.lr, ratio, decay, &p.p[i], p.g[i], &p.state1[i]); break;
        case GF_OPTIM_SGD: gf_rule_sgd(&rule, now.lr, decay, &p.p[i], g, p.state1 ? &p.state1[i] : nullptr); break;
        case GF_OPTIM_ADAMW: gf_rule_adamw(&rule, &now, decay, &p.p[i], g, &p.state1[i], &p.state2[i]); break;
        }
    }
}

static __global__ void now_kernel(gf_optim_scalars *dst, gf_optim_scalars value) { *dst = value; }

void gf_cunn_optim_now(gf_nn_engine *s, gf_optim_scalars *dst, gf_optim_scalars value) {
    now_kernel<<<1, 1, 0, s->stream>>>(dst, value);
    gf_cunn_note(s, cudaGetLastError(), "optimizer");
}

void gf_cunn_optim_run(gf_nn_engine *s, const gf_cunn_steps *t, const gf_optim_rule *rule) {
    sums_kernel<<<t->chunk_count, THREADS, 0, s->stream>>>(*t, *rule);
    ratios_kernel<<<1, 32 * WARPS, 0, s->stream>>>(*t, *rule);
    step_kernel<<<t->chunk_count, THREADS, 0, s->stream>>>(*t, *rule);
    gf_cunn_note(s, cudaGetLastError(), "optimizer");
}

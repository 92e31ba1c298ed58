/* cunn_optim.cu - one optimizer step over all tensors in three launches: sums of squares per chunk; ratios of LARS and
 * the norm of the gradient from them, in a fixed order; then every weight. Rates are read from device memory, so that a captured
 * step can be replayed with different ones. A gradient that is not finite changes nothing. */
#include "nn/cuda/cunn_kernels.h"

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

/* Four numbers in one access where all arrays of a tensor allow it. */
__device__ static bool in_fours(const gf_param &p) {
    const uintptr_t all = (uintptr_t)p.p | (uintptr_t)p.g | (uintptr_t)p.state1 | (uintptr_t)p.state2;
    return all % sizeof(float4) == 0;
}

struct squares { /* of g, p and g + decay p */
    double gg, pp, dd;
};

__device__ static void add_squares(squares &s, bool adapt, double decay, float grad, float weight) {
    const double g = grad, w = weight, d = g + decay * w;
    s.gg += g * g;
    if (!adapt) return;
    s.pp += w * w;
    s.dd += d * d;
}

static __global__ void __launch_bounds__(THREADS) sums_kernel(gf_cunn_steps t, gf_optim_rule rule) {
    const gf_cunn_chunk chunk = t.chunks[blockIdx.x];
    const gf_param p = t.params[chunk.tensor];
    const double decay = p.decay ? rule.weight_decay : 0.0;
    const int64_t to = min(chunk.from + GF_CUNN_CHUNK, (int64_t)p.n);
    const bool adapt = rule.kind == GF_OPTIM_LARS && p.adapt;
    const int64_t fours = in_fours(p) ? (to - chunk.from) / 4 : 0;
    const float4 *g = (const float4 *)(p.g + chunk.from), *w = (const float4 *)(p.p + chunk.from);
    squares sum = {0.0, 0.0, 0.0};
#pragma unroll 4
    for (int64_t i = threadIdx.x; i < fours; i += THREADS) {
        const float4 a = g[i], b = adapt ? w[i] : make_float4(0.0f, 0.0f, 0.0f, 0.0f);
        add_squares(sum, adapt, decay, a.x, b.x), add_squares(sum, adapt, decay, a.y, b.y);
        add_squares(sum, adapt, decay, a.z, b.z), add_squares(sum, adapt, decay, a.w, b.w);
    }
    for (int64_t i = chunk.from + 4 * fours + threadIdx.x; i < to; i += THREADS)
        add_squares(sum, adapt, decay, p.g[i], adapt ? p.p[i] : 0.0f);
    sum.gg = block_sum(sum.gg);
    if (adapt) sum.pp = block_sum(sum.pp), sum.dd = block_sum(sum.dd);
    if (threadIdx.x) return;
    t.sums[3 * blockIdx.x] = sum.gg, t.sums[3 * blockIdx.x + 1] = sum.pp, t.sums[3 * blockIdx.x + 2] = sum.dd;
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

struct step_numbers { /* of a tensor */
    gf_optim_scalars now;
    double decay, ratio, shrink;
};

/* KIND: gf_optim_kind. m and v: the states; those that a rule does not have stay as they are. */
template <int KIND>
__device__ static void move_weight(const gf_optim_rule &rule, const step_numbers &n, float &p, float gradient, float &m,
                                   float &v) {
    const float g = n.shrink == 1.0 ? gradient : (float)(n.shrink * gradient);
    if (KIND == GF_OPTIM_LARS) gf_rule_lars(&rule, n.now.lr, n.ratio, n.decay, &p, gradient, &m);
    if (KIND == GF_OPTIM_SGD) gf_rule_sgd(&rule, n.now.lr, n.decay, &p, g, &m);
    if (KIND == GF_OPTIM_ADAMW) gf_rule_adamw(&rule, &n.now, n.decay, &p, g, &m, &v);
}

template <int KIND> static __global__ void __launch_bounds__(THREADS) step_kernel(gf_cunn_steps t, gf_optim_rule rule) {
    if (!isfinite(*t.norm)) return;
    const gf_cunn_chunk chunk = t.chunks[blockIdx.x];
    const gf_param p = t.params[chunk.tensor];
    const step_numbers n = {*t.now, p.decay ? rule.weight_decay : 0.0, KIND == GF_OPTIM_LARS ? t.ratio[chunk.tensor] : 1.0,
                            gf_rule_clip(&rule, *t.norm)};
    const int64_t to = min(chunk.from + GF_CUNN_CHUNK, (int64_t)p.n), fours = in_fours(p) ? (to - chunk.from) / 4 : 0;
    const bool first = p.state1 != nullptr, second = KIND == GF_OPTIM_ADAMW;
    float4 *w = (float4 *)(p.p + chunk.from), *m = first ? (float4 *)(p.state1 + chunk.from) : nullptr;
    float4 *v = second ? (float4 *)(p.state2 + chunk.from) : nullptr;
    const float4 *g = (const float4 *)(p.g + chunk.from), zero = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    for (int64_t i = threadIdx.x; i < fours; i += THREADS) {
        float4 a = w[i], b = first ? m[i] : zero, c = second ? v[i] : zero;
        const float4 d = g[i];
        move_weight<KIND>(rule, n, a.x, d.x, b.x, c.x), move_weight<KIND>(rule, n, a.y, d.y, b.y, c.y);
        move_weight<KIND>(rule, n, a.z, d.z, b.z, c.z), move_weight<KIND>(rule, n, a.w, d.w, b.w, c.w);
        w[i] = a;
        if (first) m[i] = b;
        if (second) v[i] = c;
    }
    for (int64_t i = chunk.from + 4 * fours + threadIdx.x; i < to; i += THREADS) {
        float none = 0.0f;
        move_weight<KIND>(rule, n, p.p[i], p.g[i], first ? p.state1[i] : none, second ? p.state2[i] : none);
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
    switch (rule->kind) {
    case GF_OPTIM_LARS: step_kernel<GF_OPTIM_LARS><<<t->chunk_count, THREADS, 0, s->stream>>>(*t, *rule); break;
    case GF_OPTIM_SGD: step_kernel<GF_OPTIM_SGD><<<t->chunk_count, THREADS, 0, s->stream>>>(*t, *rule); break;
    case GF_OPTIM_ADAMW: step_kernel<GF_OPTIM_ADAMW><<<t->chunk_count, THREADS, 0, s->stream>>>(*t, *rule); break;
    }
    gf_cunn_note(s, cudaGetLastError(), "optimizer");
}

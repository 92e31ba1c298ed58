/* cunn_norm_whole_pair.cu - backward of a batch norm and that of its shortcut in one launch: three sums, then dx and dx2; x, x2
 * and g kept on the chip in between. See cunn_norm_whole.cu, and cunn_norm_pair.cu for what is computed. */
#include "nn/cuda/cunn_norm_line.cuh"
#include "nn/cuda/cunn_norm_whole.cuh"

enum { AT_ONCE = 2 };

struct both_row { /* as loaded */
    wide_lanes x, x2, dy, dy2;
    unsigned bits;
};

/* Sums of rows from .. to - 1 of the thread. g replaces dy where it is read again. */
template <int TWO, int KEEP>
__device__ static void sum_both(float (&part)[3 * V], const float (&mean)[2][V], const gf_nn_norm &n, const gf_nn_norm &m,
                                const whole &w, uint4 *held, int64_t base, int from, int to, int loose) {
#pragma unroll 1
    for (int k = from; k < to; k += AT_ONCE) {
        both_row row[AT_ONCE];
#pragma unroll
        for (int j = 0; j < AT_ONCE; j++) {
            const int64_t at = base + (int64_t)(k + j) * w.step;
            if (k + j >= to) break;
            row[j].x = load_row<KEEP>((const bf16 *)n.x + at), row[j].x2 = load_row<KEEP>((const bf16 *)m.x + at);
            row[j].dy = load_row<1>((const bf16 *)n.dy + at);
            if (TWO) row[j].dy2 = load_row<1>((const bf16 *)n.dy2 + at);
            row[j].bits = n.relu ? n.positive[at / V] : 255;
        }
#pragma unroll
        for (int j = 0; j < AT_ONCE; j++) {
            if (k + j >= to) break;
            float v[V], u[V], g[V], h[V];
            row[j].x.floats(v);
            row[j].x2.floats(u);
            row[j].dy.floats(g);
            if (TWO) row[j].dy2.floats(h);
#pragma unroll
            for (int i = 0; i < V; i++) {
                if (TWO) g[i] = (float)(bf16)(g[i] + h[i]);
                if (!(row[j].bits >> i & 1u)) g[i] = 0.0f;
                part[i] += g[i];
                part[V + i] = fmaf(g[i], v[i] - mean[0][i], part[V + i]);
                part[2 * V + i] = fmaf(g[i], u[i] - mean[1][i], part[2 * V + i]);
            }
            uint4 *const place = held + 3 * (k + j - loose) * THREADS;
            if (!KEEP) wide_lanes::store((bf16 *)n.dy + base + (int64_t)(k + j) * w.step, g);
            if (KEEP) place[0] = row[j].x.raw, place[THREADS] = row[j].x2.raw;
            if (KEEP) wide_lanes::store((bf16 *)(place + 2 * THREADS), g);
        }
    }
}

struct both_lines { /* of a thread's channels: dx = scale g + a x + b */
    float a[V], b[V], scale[V];
};

__device__ static void write_one(bf16 *dx, const both_lines &l, const wide_lanes &x, const float (&g)[V]) {
    float v[V];
    x.floats(v);
#pragma unroll
    for (int i = 0; i < V; i++) v[i] = fmaf(l.scale[i], g[i], fmaf(l.a[i], v[i], l.b[i]));
    wide_lanes::store(dx, v);
}

template <int FROM_CHIP>
__device__ static void write_both(const both_lines (&line)[2], const gf_nn_norm &n, const gf_nn_norm &m, const whole &w,
                                  const uint4 *held, int64_t base, int from, int to, int loose) {
#pragma unroll 1
    for (int k = to - 1; k >= from; k -= AT_ONCE) {
        wide_lanes in[AT_ONCE], in2[AT_ONCE], grad[AT_ONCE];
#pragma unroll
        for (int j = 0; j < AT_ONCE; j++) {
            if (k - j < from) break;
            const int64_t at = base + (int64_t)(k - j) * w.step;
            const uint4 *const place = held + 3 * (k - j - loose) * THREADS;
            in[j] = FROM_CHIP ? wide_lanes{place[0]} : wide_lanes::load((const bf16 *)n.x + at);
            in2[j] = FROM_CHIP ? wide_lanes{place[THREADS]} : wide_lanes::load((const bf16 *)m.x + at);
            grad[j] = FROM_CHIP ? wide_lanes{place[2 * THREADS]} : wide_lanes::load((const bf16 *)n.dy + at);
        }
#pragma unroll
        for (int j = 0; j < AT_ONCE; j++) {
            if (k - j < from) break;
            const int64_t at = base + (int64_t)(k - j) * w.step;
            float g[V];
            grad[j].floats(g);
            write_one((bf16 *)n.dx + at, line[0], in[j], g);
            write_one((bf16 *)m.dx + at, line[1], in2[j], g);
        }
    }
}

/* lines [3][channels of the tile]: a, b, scale of one of the norms. */
__device__ static void set_coefs(const gf_nn_norm &n, float *lines, int channels, int64_t i, double sum, double product,
                                 bool keeps) {
    const float2 coef = coef_of_sums(n, i, sum, product, (double)n.rows);
    lines[threadIdx.x] = coef.x;
    lines[channels + threadIdx.x] = fmaf(-coef.x, n.mean[i], coef.y);
    lines[2 * channels + threadIdx.x] = n.scale[i];
    if (keeps) own_gradients(n, i, sum, product);
}

template <int TWO>
static __global__ void __launch_bounds__(THREADS, PER_SM) both_kernel(gf_nn_norm n, gf_nn_norm m, whole w, unsigned *tickets) {
    const area r = area_of<3, 3>(w);
    const share s = share_of(n, w);
    const int channels = w.gx * V;
    for (int tile = s.team, round = 1; tile < w.tiles; tile += w.teams, round++) {
        const int64_t at = ((int64_t)tile * w.gx + s.column) * V, base = s.first * n.c + at;
        float part[3 * V] = {0.0f}, mean[2][V];
#pragma unroll
        for (int i = 0; i < V; i++) mean[0][i] = n.mean[at + i], mean[1][i] = m.mean[at + i];
        sum_both<TWO, 0>(part, mean, n, m, w, r.held, base, 0, s.loose, s.loose);
        sum_both<TWO, 1>(part, mean, n, m, w, r.held, base, s.loose, s.count, s.loose);
        add_team<3>(part, n, w, r, tile, round, tickets);
        if (threadIdx.x < channels) {
            const int64_t i = (int64_t)tile * channels + threadIdx.x;
            const double sum = r.wide[threadIdx.x];
            const bool keeps = blockIdx.x % w.size == 0;
            set_coefs(n, r.line, channels, i, sum, r.wide[channels + threadIdx.x], keeps);
            set_coefs(m, r.line + 3 * channels, channels, i, sum, r.wide[2 * channels + threadIdx.x], keeps);
        }
        __syncthreads();
        both_lines line[2];
#pragma unroll
        for (int k = 0; k < 2; k++)
#pragma unroll
            for (int i = 0; i < V; i++) {
                const float *const from = r.line + 3 * k * channels + s.column * V + i;
                line[k].a[i] = from[0], line[k].b[i] = from[channels], line[k].scale[i] = from[2 * channels];
            }
        write_both<1>(line, n, m, w, r.held, base, s.loose, s.count, s.loose);
        write_both<0>(line, n, m, w, r.held, base, 0, s.loose, s.loose);
    }
    leave_team(w, tickets);
}

int gf_cunn_norm_pair_back_whole(gf_nn_engine *s, const gf_nn_norm *n) {
    whole w;
    if ((n->relu && !n->positive) || !whole_of(s, n, 3, 3, &w)) return 0;
    return launch_whole(s, n->dy2 ? both_kernel<1> : both_kernel<0>, n, &w, 3, 3, "batch norm with a shortcut, backward");
}

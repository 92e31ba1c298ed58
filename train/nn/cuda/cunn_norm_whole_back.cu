/* cunn_norm_whole_back.cu - backward of batch norm in one launch: sums of g and g (x - mean), then dx. See cunn_norm_whole.cu. */
#include "nn/cuda/cunn_norm_line.cuh"
#include "nn/cuda/cunn_norm_whole.cuh"

enum { ALL, BY_X, BY_BITS }; /* which gradients ReLU lets through */

struct back_lines { /* of a thread's channels; a, b: dx = scale g + a x + b */
    float mean[V], scale[V], shift[V], a[V], b[V];
};

struct back_row { /* as loaded */
    wide_lanes x, dy, dy2;
    unsigned bits;
};

template <int MASK, int TWO, int KEEP> __device__ static back_row load_back(const gf_nn_norm &n, int64_t at) {
    back_row r;
    r.x = load_row<KEEP>((const bf16 *)n.x + at);
    r.dy = load_row<KEEP>((const bf16 *)n.dy + at);
    if (TWO) r.dy2 = load_row<1>((const bf16 *)n.dy2 + at);
    if (MASK == BY_BITS) r.bits = n.positive[at / V];
    return r;
}

/* The sums of rows from .. to - 1 of the thread. g replaces dy where it is the gradient of a residual; and where it is a sum
 * that would have to be made again. */
template <int MASK, int TWO, int KEEP>
__device__ static void sum_back(float (&part)[2 * V], const back_lines &line, const gf_nn_norm &n, const whole &w, uint4 *held,
                                int64_t base, int from, int to, int loose) {
    constexpr int AT_ONCE = TWO ? 2 : MASK == BY_X ? 3 : 4; /* as many as registers hold */
#pragma unroll 1
    for (int k = from; k < to; k += AT_ONCE) {
        back_row row[AT_ONCE];
#pragma unroll
        for (int j = 0; j < AT_ONCE; j++)
            if (k + j < to) row[j] = load_back<MASK, TWO, KEEP>(n, base + (int64_t)(k + j) * w.step);
#pragma unroll
        for (int j = 0; j < AT_ONCE; j++) {
            if (k + j >= to) break;
            float v[V], g[V], h[V];
            row[j].x.floats(v);
            row[j].dy.floats(g);
            if (TWO) row[j].dy2.floats(h);
#pragma unroll
            for (int i = 0; i < V; i++) {
                if (TWO) g[i] = (float)(bf16)(g[i] + h[i]);
                if (MASK == BY_X && !(fmaf(line.scale[i], v[i], line.shift[i]) > 0.0f)) g[i] = 0.0f;
                if (MASK == BY_BITS && !(row[j].bits >> i & 1u)) g[i] = 0.0f;
                part[i] += g[i];
                part[V + i] = fmaf(g[i], v[i] - line.mean[i], part[V + i]);
            }
            if (n.residual || (TWO && !KEEP)) wide_lanes::store((bf16 *)n.dy + base + (int64_t)(k + j) * w.step, g);
            if (KEEP) held[2 * (k + j - loose) * THREADS] = row[j].x.raw;
            if (KEEP) wide_lanes::store((bf16 *)(held + (2 * (k + j - loose) + 1) * THREADS), g);
        }
    }
}

/* dx of rows to - 1 down to from; g from the chip, or as sum_back left dy. */
template <int MASK, int FROM_CHIP>
__device__ static void write_back(const back_lines &line, const gf_nn_norm &n, const whole &w, const uint4 *held, int64_t base,
                                  int from, int to, int loose) {
    constexpr int AT_ONCE = 4;
#pragma unroll 1
    for (int k = to - 1; k >= from; k -= AT_ONCE) {
        wide_lanes in[AT_ONCE], grad[AT_ONCE];
#pragma unroll
        for (int j = 0; j < AT_ONCE; j++) {
            if (k - j < from) break;
            const int64_t at = base + (int64_t)(k - j) * w.step;
            const uint4 *const place = held + 2 * (k - j - loose) * THREADS;
            in[j] = FROM_CHIP ? wide_lanes{place[0]} : wide_lanes::load((const bf16 *)n.x + at);
            grad[j] = FROM_CHIP ? wide_lanes{place[THREADS]} : wide_lanes::load((const bf16 *)n.dy + at);
        }
#pragma unroll
        for (int j = 0; j < AT_ONCE; j++) {
            if (k - j < from) break;
            float v[V], g[V];
            in[j].floats(v);
            grad[j].floats(g);
#pragma unroll
            for (int i = 0; i < V; i++) {
                if (MASK == BY_X && !FROM_CHIP && !(fmaf(line.scale[i], v[i], line.shift[i]) > 0.0f)) g[i] = 0.0f;
                g[i] = fmaf(line.scale[i], g[i], fmaf(line.a[i], v[i], line.b[i]));
            }
            wide_lanes::store((bf16 *)n.dx + base + (int64_t)(k - j) * w.step, g);
        }
    }
}

/* m.line [3][channels of the tile]: a, b, scale. The first block of the team keeps the gradients of gamma and beta. */
__device__ static void set_coefs(const gf_nn_norm &n, const whole &w, const area &m, int tile) {
    const int channels = w.gx * V;
    if (threadIdx.x < channels) {
        const int64_t i = (int64_t)tile * channels + threadIdx.x;
        const double sum = m.wide[threadIdx.x], product = m.wide[channels + threadIdx.x];
        const float2 coef = coef_of_sums(n, i, sum, product, (double)n.rows);
        m.line[threadIdx.x] = coef.x;
        m.line[channels + threadIdx.x] = fmaf(-coef.x, n.mean[i], coef.y);
        m.line[2 * channels + threadIdx.x] = n.scale[i];
        if (blockIdx.x % w.size == 0) own_gradients(n, i, sum, product);
    }
    __syncthreads();
}

template <int MASK, int TWO>
static __global__ void __launch_bounds__(THREADS, PER_SM) backward_kernel(gf_nn_norm n, gf_nn_norm, whole w, unsigned *tickets) {
    const area m = area_of<2, 2>(w);
    const share s = share_of(n, w);
    for (int tile = s.team, round = 1; tile < w.tiles; tile += w.teams, round++) {
        const int64_t at = ((int64_t)tile * w.gx + s.column) * V, base = s.first * n.c + at;
        float part[2 * V] = {0.0f};
        back_lines line;
#pragma unroll
        for (int i = 0; i < V; i++) {
            line.mean[i] = n.mean[at + i];
            if (MASK == BY_X) line.scale[i] = n.scale[at + i], line.shift[i] = n.shift[at + i];
        }
        sum_back<MASK, TWO, 0>(part, line, n, w, m.held, base, 0, s.loose, s.loose);
        sum_back<MASK, TWO, 1>(part, line, n, w, m.held, base, s.loose, s.count, s.loose);
        add_team<2>(part, n, w, m, tile, round, tickets);
        set_coefs(n, w, m, tile);
#pragma unroll
        for (int i = 0; i < V; i++) {
            line.a[i] = m.line[s.column * V + i], line.b[i] = m.line[(w.gx + s.column) * V + i];
            line.scale[i] = m.line[(2 * w.gx + s.column) * V + i];
        }
        write_back<MASK, 1>(line, n, w, m.held, base, s.loose, s.count, s.loose);
        write_back<TWO ? ALL : MASK, 0>(line, n, w, m.held, base, 0, s.loose, s.loose);
    }
    leave_team(w, tickets);
}

template <int MASK> static int launch(gf_nn_engine *s, const gf_nn_norm *n, const whole *w) {
    return launch_whole(s, n->dy2 ? backward_kernel<MASK, 1> : backward_kernel<MASK, 0>, n, w, 2, 2, "batch norm, backward");
}

int gf_cunn_norm_backward_whole(gf_nn_engine *s, const gf_nn_norm *n) {
    whole w;
    if ((n->relu && n->residual && !n->positive) || !whole_of(s, n, 2, 2, &w)) return 0;
    if (!n->relu) return launch<ALL>(s, n, &w);
    return n->residual ? launch<BY_BITS>(s, n, &w) : launch<BY_X>(s, n, &w);
}

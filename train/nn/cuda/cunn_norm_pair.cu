/* cunn_norm_pair.cu - a batch norm and that of its shortcut, their sum and ReLU:
 *   y = max(0, scale x + shift + scale2 x2 + shift2)
 * The output of the second norm is never written. Backward is two launches for both: three sums (of g, g (x - mean) and
 * g (x2 - mean2)), then dx and dx2; g replaces dy in the first, dx2 replaces g in the second.
 *
 * Bytes per number in bf16: forward 6 and a bit; backward 10 (with a second part of the gradient) and 10. */
#include "nn/cuda/cunn_norm_line.cuh"
#include "nn/cuda/cunn_norm_sums.cuh"

/* ----- forward ----------------------------------------------------------------------------------------------------- */

template <typename T, int V>
static __global__ void __launch_bounds__(PASS_THREADS, PASS_BLOCKS) pair_kernel(gf_nn_norm n, gf_nn_norm m, walk w) {
    const int64_t c = n.c, at = ((int64_t)blockIdx.x * w.gx + threadIdx.x) * V;
    if (at >= c) return;
    float scale[V], scale2[V], shift[V], shift2[V];
    load_line(scale, n.scale + at);
    load_line(scale2, m.scale + at);
    load_line(shift, n.shift + at);
    load_line(shift2, m.shift + at);
#pragma unroll
    for (int i = 0; i < V; i++) shift[i] += shift2[i];
    for (int64_t chunk = w.chunks - 1 - blockIdx.y; chunk >= 0; chunk -= gridDim.y) {
        const int64_t r = chunk * w.chunk_rows + threadIdx.y, last = n.rows;
        lanes<T, V> in[PASS_ROUNDS], in2[PASS_ROUNDS];
#pragma unroll
        for (int k = 0; k < PASS_ROUNDS; k++) {
            const int64_t row = r + k * w.ry;
            if (row >= last) break;
            in[k] = lanes<T, V>::load((const T *)n.x + row * c + at), in2[k] = lanes<T, V>::load((const T *)m.x + row * c + at);
        }
#pragma unroll
        for (int k = 0; k < PASS_ROUNDS; k++) {
            const int64_t row = r + k * w.ry;
            if (row >= last) break;
            float v[V], u[V];
            in[k].floats(v);
            in2[k].floats(u);
#pragma unroll
            for (int i = 0; i < V; i++) v[i] = fmaf(scale[i], v[i], fmaf(scale2[i], u[i], shift[i]));
            write_y<T, V>(n, row * c + at, v);
        }
    }
}

/* ----- backward: sums ---------------------------------------------------------------------------------------------- */

enum { AT_ONCE = 2 }; /* rows of a thread */

template <typename T, int V> struct pair_row { /* as loaded */
    lanes<T, V> x, x2, dy, dy2, y;
    unsigned bits;
};

template <typename T, int V> __device__ static pair_row<T, V> load_pair(const gf_nn_norm &n, const gf_nn_norm &m, int64_t at) {
    pair_row<T, V> r;
    r.x = lanes<T, V>::load((const T *)n.x + at);
    r.x2 = lanes<T, V>::load((const T *)m.x + at);
    r.dy = lanes<T, V>::load((const T *)n.dy + at);
    if (n.dy2) r.dy2 = lanes<T, V>::load((const T *)n.dy2 + at);
    if (n.relu && V == 8 && n.positive) r.bits = n.positive[at / 8];
    else if (n.relu) r.y = lanes<T, V>::load((const T *)n.y + at);
    return r;
}

/* g, as it is written. */
template <typename T, int V> __device__ static void pair_gradient(float (&g)[V], const pair_row<T, V> &r, const gf_nn_norm &n) {
    float h[V];
    r.dy.floats(g);
    if (n.dy2) {
        r.dy2.floats(h);
#pragma unroll
        for (int i = 0; i < V; i++) g[i] += h[i];
    }
    const bool by_bits = V == 8 && n.positive;
    if (n.relu && !by_bits) r.y.floats(h);
#pragma unroll
    for (int i = 0; i < V; i++) {
        if (n.relu && !(by_bits ? (r.bits >> i & 1u) != 0 : h[i] > 0.0f)) g[i] = 0.0f;
        g[i] = (float)(T)g[i];
    }
}

template <typename T, int V>
static __global__ void __launch_bounds__(SUM_THREADS) pair_sums_kernel(gf_nn_norm n, gf_nn_norm m, walk w, unsigned *tickets) {
    const int64_t c = n.c, at = ((int64_t)blockIdx.x * w.gx + threadIdx.x) * V;
    const int64_t last = at < c ? min((blockIdx.y + 1) * w.chunk_rows, n.rows) : 0;
    float part[3 * V] = {0.0f}, mean[V], mean2[V];
#pragma unroll
    for (int i = 0; i < V && at < c; i++) mean[i] = n.mean[at + i], mean2[i] = m.mean[at + i];
    for (int64_t r = blockIdx.y * w.chunk_rows + threadIdx.y; r < last; r += AT_ONCE * w.ry) {
        pair_row<T, V> row[AT_ONCE];
#pragma unroll
        for (int k = 0; k < AT_ONCE; k++)
            if (r + k * w.ry < last) row[k] = load_pair<T, V>(n, m, (r + k * w.ry) * c + at);
#pragma unroll
        for (int k = 0; k < AT_ONCE; k++) {
            if (r + k * w.ry >= last) break;
            float g[V], v[V], u[V];
            pair_gradient<T, V>(g, row[k], n);
            lanes<T, V>::store((T *)n.dy + (r + k * w.ry) * c + at, g);
            row[k].x.floats(v);
            row[k].x2.floats(u);
#pragma unroll
            for (int i = 0; i < V; i++) {
                part[i] += g[i];
                part[V + i] = fmaf(g[i], v[i] - mean[i], part[V + i]);
                part[2 * V + i] = fmaf(g[i], u[i] - mean2[i], part[2 * V + i]);
            }
        }
    }
    reduce_block<V, 3>(n, w, part);
    if (!comes_last(w, tickets + blockIdx.x)) return;
    add_chunks<V, 3>(n, w, [&](int64_t i, const double(&total)[3]) {
        const float2 a = coef_of_sums(n, i, total[0], total[1], (double)n.rows);
        const float2 b = coef_of_sums(m, i, total[0], total[2], (double)n.rows);
        own_gradients(n, i, total[0], total[1]);
        own_gradients(m, i, total[0], total[2]);
        n.coef[i] = a.x, n.coef[n.c + i] = a.y;
        m.coef[i] = b.x, m.coef[n.c + i] = b.y;
    });
}

/* ----- backward: dx, dx2 ------------------------------------------------------------------------------------------- */

template <typename T, int V>
static __global__ void __launch_bounds__(PASS_THREADS, PASS_BLOCKS) pair_back_kernel(gf_nn_norm n, gf_nn_norm m, walk w) {
    const int64_t c = n.c, at = ((int64_t)blockIdx.x * w.gx + threadIdx.x) * V;
    if (at >= c) return;
    const back_line<V> line = back_line_at<V>(n, at), line2 = back_line_at<V>(m, at);
    for (int64_t chunk = w.chunks - 1 - blockIdx.y; chunk >= 0; chunk -= gridDim.y) {
        const int64_t r = chunk * w.chunk_rows + threadIdx.y, last = n.rows;
        lanes<T, V> x[AT_ONCE], x2[AT_ONCE], grad[AT_ONCE];
#pragma unroll
        for (int k = 0; k < AT_ONCE; k++) {
            const int64_t from = (r + k * w.ry) * c + at;
            if (r + k * w.ry >= last) break;
            x[k] = lanes<T, V>::load((const T *)n.x + from), x2[k] = lanes<T, V>::load((const T *)m.x + from);
            grad[k] = lanes<T, V>::load((const T *)n.dy + from);
        }
#pragma unroll
        for (int k = 0; k < AT_ONCE; k++) {
            const int64_t to = (r + k * w.ry) * c + at;
            float g[V], v[V], u[V];
            if (r + k * w.ry >= last) break;
            grad[k].floats(g);
            x[k].floats(v);
            x2[k].floats(u);
            write_dx<T, V>((T *)n.dx + to, line, v, g);
            write_dx<T, V>((T *)m.dx + to, line2, u, g);
        }
    }
}

/* ----- launchers --------------------------------------------------------------------------------------------------- */

template <typename T, int V> static void pair(gf_nn_engine *s, const gf_nn_norm *n) {
    const walk w = pass_walk(n->rows, n->c, V, PASS_ROUNDS);
    pair_kernel<T, V><<<pass_grid(s, w), dim3(w.gx, w.ry), 0, s->stream>>>(*n, *n->shortcut, w);
    gf_cunn_note(s, cudaGetLastError(), "batch norm with a shortcut");
}

template <typename T, int V> static void pair_back_apply(gf_nn_engine *s, const gf_nn_norm *n) {
    const walk w = pass_walk(n->rows, n->c, V, AT_ONCE);
    pair_back_kernel<T, V><<<pass_grid(s, w), dim3(w.gx, w.ry), 0, s->stream>>>(*n, *n->shortcut, w);
    gf_cunn_note(s, cudaGetLastError(), "batch norm with a shortcut, backward");
}

template <typename T, int V> static void pair_back(gf_nn_engine *s, const gf_nn_norm *n) {
    const walk sum = sums_walk(n->rows, n->c, V);
    pair_sums_kernel<T, V>
        <<<dim3(sum.tiles, sum.chunks), dim3(sum.gx, sum.ry), shared_bytes(sum, V, 3), s->stream>>>(*n, *n->shortcut, sum,
                                                                                                    s->tickets);
    pair_back_apply<T, V>(s, n);
}

void gf_cunn_norm_pair(gf_nn_engine *s, const gf_nn_norm *n) { GF_LANES(n->type, n->c, pair, s, n); }
void gf_cunn_norm_pair_back_apply(gf_nn_engine *s, const gf_nn_norm *n) { GF_LANES(n->type, n->c, pair_back_apply, s, n); }
void gf_cunn_norm_pair_back(gf_nn_engine *s, const gf_nn_norm *n) { GF_LANES(n->type, n->c, pair_back, s, n); }

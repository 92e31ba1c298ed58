/* cunn_norm.cu - batch norm, the passes that write activations: forward y = max(0, scale x + shift + residual), backward
 * dx = scale g + coef0 (x - mean) + coef1. Statistics are in cunn_norm_stats.cu.
 *
 * Bytes per number in bf16: forward 4 (6 with a residual, and a bit: y is above 0), backward 6. */
#include "nn/cuda/cunn_norm.cuh"

template <typename T, int V>
static __global__ void __launch_bounds__(PASS_THREADS, PASS_BLOCKS) apply_kernel(gf_nn_norm n, walk w) {
    const int64_t c = n.c, group = (int64_t)blockIdx.x * w.gx + threadIdx.x;
    if (group * V >= c) return;
    const int64_t at = group * V;
    const T *x = (const T *)n.x + at, *residual = n.residual ? (const T *)n.residual + at : nullptr;
    float scale[V], shift[V];
    load_line(scale, n.scale + at);
    load_line(shift, n.shift + at);
    for (int64_t chunk = w.chunks - 1 - blockIdx.y; chunk >= 0; chunk -= gridDim.y) {
        const int64_t r = chunk * w.chunk_rows + threadIdx.y, last = n.rows;
        lanes<T, V> in[PASS_ROUNDS], add[PASS_ROUNDS];
#pragma unroll
        for (int k = 0; k < PASS_ROUNDS; k++) {
            const int64_t row = r + k * w.ry;
            if (row < last) in[k] = lanes<T, V>::load(x + row * c);
            if (row < last && residual) add[k] = lanes<T, V>::load(residual + row * c);
        }
#pragma unroll
        for (int k = 0; k < PASS_ROUNDS; k++) {
            const int64_t row = r + k * w.ry;
            if (row >= last) break;
            float v[V], res[V];
            in[k].floats(v);
            if (residual) add[k].floats(res);
#pragma unroll
            for (int i = 0; i < V; i++) {
                v[i] = fmaf(scale[i], v[i], shift[i]);
                if (residual) v[i] += res[i];
            }
            write_y<T, V>(n, row * c + at, v);
        }
    }
}

/* g: dy itself where the statistics have written g there; else masked here again by the sign of ReLU's input. */
template <typename T, int V>
static __global__ void __launch_bounds__(PASS_THREADS, PASS_BLOCKS) back_apply_kernel(gf_nn_norm n, walk w, int masked) {
    const int64_t c = n.c, group = (int64_t)blockIdx.x * w.gx + threadIdx.x;
    if (group * V >= c) return;
    const int64_t at = group * V;
    const T *x = (const T *)n.x + at, *dy = (const T *)n.dy + at;
    T *dx = (T *)n.dx + at;
    const back_line<V> line = back_line_at<V>(n, at);
    float shift[V];
    load_line(shift, n.shift + at);
    for (int64_t chunk = w.chunks - 1 - blockIdx.y; chunk >= 0; chunk -= gridDim.y) {
        const int64_t r = chunk * w.chunk_rows + threadIdx.y, last = n.rows;
        lanes<T, V> in[PASS_ROUNDS], grad[PASS_ROUNDS];
#pragma unroll
        for (int k = 0; k < PASS_ROUNDS; k++) {
            const int64_t row = r + k * w.ry;
            if (row < last) in[k] = lanes<T, V>::load(x + row * c), grad[k] = lanes<T, V>::load(dy + row * c);
        }
#pragma unroll
        for (int k = 0; k < PASS_ROUNDS; k++) {
            const int64_t row = r + k * w.ry;
            if (row >= last) break;
            float v[V], g[V];
            in[k].floats(v);
            grad[k].floats(g);
#pragma unroll
            for (int i = 0; i < V; i++)
                if (masked && !(fmaf(line.scale[i], v[i], shift[i]) > 0.0f)) g[i] = 0.0f;
            write_dx<T, V>(dx + row * c, line, v, g);
        }
    }
}

template <typename T, int V> static void apply(gf_nn_engine *s, const gf_nn_norm *n) {
    const walk w = pass_walk(n->rows, n->c, V, PASS_ROUNDS);
    apply_kernel<T, V><<<pass_grid(s, w), dim3(w.gx, w.ry), 0, s->stream>>>(*n, w);
    gf_cunn_note(s, cudaGetLastError(), "batch norm");
}

template <typename T, int V> static void back_apply(gf_nn_engine *s, const gf_nn_norm *n, int masked) {
    const walk w = pass_walk(n->rows, n->c, V, PASS_ROUNDS);
    back_apply_kernel<T, V><<<pass_grid(s, w), dim3(w.gx, w.ry), 0, s->stream>>>(*n, w, masked);
    gf_cunn_note(s, cudaGetLastError(), "batch norm, backward");
}

size_t gf_cunn_norm_bits(gf_type type, int64_t rows, int64_t c) { return gf_lanes(type, c) == 8 ? (size_t)(rows * c / 8) : 0; }

void gf_cunn_norm_apply(gf_nn_engine *s, const gf_nn_norm *n) {
    if (n->shortcut) gf_cunn_norm_pair(s, n);
    else GF_LANES(n->type, n->c, apply, s, n);
}

void gf_cunn_norm_back_apply(gf_nn_engine *s, const gf_nn_norm *n) {
    if (n->counted) return; /* done by the convolution */
    const int masked = n->relu && !gf_nn_norm_sums_up(n) && !n->dy2;
    GF_LANES(n->type, n->c, back_apply, s, n, masked);
}

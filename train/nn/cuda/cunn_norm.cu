/* cunn_norm.cu - batch norm in separate launches: the sums over rows, and the passes that write activations. */
#include "nn/cuda/cunn_norm.cuh"
#include "util/array.h"

/* ----- Passes that write ----------------------------------------------------------------------------------------- */

/* Forward y = max(0, scale x + shift + residual), backward dx = scale g + coef0 (x - mean) + coef1.
 *
 * Bytes per number in bf16: forward 4 (6 with a residual, and a bit: y is above 0), backward 6. */

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

/* ----- A norm and that of its shortcut, their sum and ReLU ------------------------------------------------------- */

/* Y = max(0, scale x + shift + scale2 x2 + shift2)
 * The output of the second norm is never written. Backward is two launches for both: three sums (of g, g (x - mean) and
 * g (x2 - mean2)), then dx and dx2; g replaces dy in the first, dx2 replaces g in the second.
 *
 * Bytes per number in bf16: forward 6 and a bit; backward 10 (with a second part of the gradient) and 10. */

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

enum { PAIR_ROUNDS = 2 }; /* rows of a thread */

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
    for (int64_t r = blockIdx.y * w.chunk_rows + threadIdx.y; r < last; r += PAIR_ROUNDS * w.ry) {
        pair_row<T, V> row[PAIR_ROUNDS];
#pragma unroll
        for (int k = 0; k < PAIR_ROUNDS; k++)
            if (r + k * w.ry < last) row[k] = load_pair<T, V>(n, m, (r + k * w.ry) * c + at);
#pragma unroll
        for (int k = 0; k < PAIR_ROUNDS; k++) {
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
        lanes<T, V> x[PAIR_ROUNDS], x2[PAIR_ROUNDS], grad[PAIR_ROUNDS];
#pragma unroll
        for (int k = 0; k < PAIR_ROUNDS; k++) {
            const int64_t from = (r + k * w.ry) * c + at;
            if (r + k * w.ry >= last) break;
            x[k] = lanes<T, V>::load((const T *)n.x + from), x2[k] = lanes<T, V>::load((const T *)m.x + from);
            grad[k] = lanes<T, V>::load((const T *)n.dy + from);
        }
#pragma unroll
        for (int k = 0; k < PAIR_ROUNDS; k++) {
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
    const walk w = pass_walk(n->rows, n->c, V, PAIR_ROUNDS);
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

/* ----- Statistics ------------------------------------------------------------------------------------------------ */

/* Batch norm, the sums over rows: forward of x and x^2, backward of g and g (x - mean).
 *
 * One launch: every block sums its chunk of rows in float, the last block to finish adds the chunks' sums in double and in
 * order, and (for one rank) finishes: mean, deviation, scale, running averages; backward, gradients of gamma and beta and the
 * coefficients of dx. Forward sums differences from the first row, which stays exact where the mean is far from 0.
 * Bytes per number in bf16: forward 2; backward 4, and 4 to 6 more where there is a second gradient and g is written. */

enum { SUM_ROUNDS = 4 };

/* ----- forward ----------------------------------------------------------------------------------------------------- */

/* count 0: n.sums only, for ranks to add. */
template <typename T, int V>
static __global__ void __launch_bounds__(SUM_THREADS) sums_kernel(gf_nn_norm n, walk w, double count, unsigned *tickets) {
    const int64_t c = n.c, group = (int64_t)blockIdx.x * w.gx + threadIdx.x, at = group * V;
    const int64_t last = min((blockIdx.y + 1) * w.chunk_rows, n.rows);
    float part[2 * V] = {0.0f}, pivot[V] = {0.0f};
    if (at < c) {
        const T *x = (const T *)n.x + at;
        lanes<T, V>::load(x).floats(pivot);
        for (int64_t r = blockIdx.y * w.chunk_rows + threadIdx.y; r < last; r += SUM_ROUNDS * w.ry) {
            lanes<T, V> in[SUM_ROUNDS];
#pragma unroll
            for (int k = 0; k < SUM_ROUNDS; k++)
                if (r + k * w.ry < last) in[k] = lanes<T, V>::load(x + (r + k * w.ry) * c);
#pragma unroll
            for (int k = 0; k < SUM_ROUNDS; k++) {
                if (r + k * w.ry >= last) break;
                float v[V];
                in[k].floats(v);
#pragma unroll
                for (int i = 0; i < V; i++) {
                    const float d = v[i] - pivot[i];
                    part[i] += d;
                    part[V + i] = fmaf(d, d, part[V + i]);
                }
            }
        }
    }
    reduce_block<V, 2>(n, w, part);
    if (!comes_last(w, tickets + blockIdx.x)) return;
    add_chunks<V, 2>(n, w, [&](int64_t i, const double(&total)[2]) {
        const double first = (double)(float)((const T *)n.x)[i], rows = (double)n.rows, s1 = total[0];
        const double sum = s1 + rows * first, square = total[1] + 2 * first * s1 + rows * first * first;
        n.sums[i] = sum;
        n.sums[n.c + i] = square;
        if (count > 0) keep_line(n, i, line_of_sums(n, i, sum, square, count), count);
    });
}

/* ----- backward ---------------------------------------------------------------------------------------------------- */

/* Gradient of one number through ReLU. */
enum { ALL, BY_X, BY_BITS, BY_Y };

template <typename T, int V> struct grad_row { /* inputs of one row for the sums, as loaded */
    lanes<T, V> x, dy, dy2, y;
    unsigned bits;
};

template <typename T, int V> struct grad_lines { /* of a thread's channels */
    float mean[V], scale[V], shift[V];
};

template <typename T, int V, int MASK, int TWO> __device__ static grad_row<T, V> load_row(const gf_nn_norm &n, int64_t at) {
    grad_row<T, V> r;
    r.x = lanes<T, V>::load((const T *)n.x + at);
    r.dy = lanes<T, V>::load((const T *)n.dy + at);
    if (TWO) r.dy2 = lanes<T, V>::load((const T *)n.dy2 + at);
    if (MASK == BY_Y) r.y = lanes<T, V>::load((const T *)n.y + at);
    if (MASK == BY_BITS) r.bits = n.positive[at / 8];
    return r;
}

/* part += g, g (x - mean); keep: g is written over dy, and exactly the written value is summed. */
template <typename T, int V, int MASK, int TWO>
__device__ static void sum_row(float (&part)[2 * V], const grad_row<T, V> &r, const grad_lines<T, V> &line, T *dy, int keep) {
    float v[V], g[V], h[V];
    r.x.floats(v);
    r.dy.floats(g);
    if (TWO) {
        r.dy2.floats(h);
#pragma unroll
        for (int i = 0; i < V; i++) g[i] += h[i];
    }
    if (MASK == BY_Y) r.y.floats(h);
#pragma unroll
    for (int i = 0; i < V; i++) {
        if (MASK == BY_X && !(fmaf(line.scale[i], v[i], line.shift[i]) > 0.0f)) g[i] = 0.0f;
        if (MASK == BY_BITS && !(r.bits >> i & 1u)) g[i] = 0.0f;
        if (MASK == BY_Y && !(h[i] > 0.0f)) g[i] = 0.0f;
    }
    if (keep) lanes<T, V>::store(dy, g);
#pragma unroll
    for (int i = 0; i < V; i++) {
        if (keep) g[i] = (float)(T)g[i];
        part[i] += g[i];
        part[V + i] = fmaf(g[i], v[i] - line.mean[i], part[V + i]);
    }
}

static __device__ inline void keep_coef(const gf_nn_norm &n, int64_t i, float2 coef) {
    n.coef[i] = coef.x;
    n.coef[n.c + i] = coef.y;
}

/* MASK as above; TWO: there is a second part of the gradient. */
template <typename T, int V, int MASK, int TWO>
static __global__ void __launch_bounds__(SUM_THREADS)
    back_sums_kernel(gf_nn_norm n, walk w, int keep, double count, unsigned *tickets) {
    constexpr int AT_ONCE = TWO || MASK == BY_Y ? 2 : 4;
    const int64_t c = n.c, at = ((int64_t)blockIdx.x * w.gx + threadIdx.x) * V;
    const int64_t last = at < c ? min((blockIdx.y + 1) * w.chunk_rows, n.rows) : 0;
    float part[2 * V] = {0.0f};
    grad_lines<T, V> line;
#pragma unroll
    for (int i = 0; i < V && at < c; i++) {
        line.mean[i] = n.mean[at + i];
        if (MASK == BY_X) line.scale[i] = n.scale[at + i], line.shift[i] = n.shift[at + i];
    }
    for (int64_t r = blockIdx.y * w.chunk_rows + threadIdx.y; r < last; r += AT_ONCE * w.ry) {
        grad_row<T, V> row[AT_ONCE];
#pragma unroll
        for (int k = 0; k < AT_ONCE; k++)
            if (r + k * w.ry < last) row[k] = load_row<T, V, MASK, TWO>(n, (r + k * w.ry) * c + at);
#pragma unroll
        for (int k = 0; k < AT_ONCE; k++)
            if (r + k * w.ry < last) sum_row<T, V, MASK, TWO>(part, row[k], line, (T *)n.dy + (r + k * w.ry) * c + at, keep);
    }
    reduce_block<V, 2>(n, w, part);
    if (!comes_last(w, tickets + blockIdx.x)) return;
    add_chunks<V, 2>(n, w, [&](int64_t i, const double(&total)[2]) {
        const double sum = total[0], product = total[1];
        n.sums[i] = sum;
        n.sums[n.c + i] = product;
        own_gradients(n, i, sum, product);
        if (count > 0) keep_coef(n, i, coef_of_sums(n, i, sum, product, count));
    });
}

/* ----- single steps, for several ranks and for eval mode ----------------------------------------------------------- */

enum { FINISH, BACK_FINISH, EVAL };

static __global__ void channel_kernel(gf_nn_norm n, int what, double count) {
    const int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n.c) return;
    if (what == FINISH) keep_line(n, i, line_of_sums(n, i, n.sums[i], n.sums[n.c + i], count), count);
    if (what == BACK_FINISH) keep_coef(n, i, coef_of_sums(n, i, n.sums[i], n.sums[n.c + i], count));
    if (what != EVAL) return;
    const norm_line l = line_of(n, i, (double)n.running_mean[i], (double)n.running_var[i]);
    n.scale[i] = l.scale, n.shift[i] = l.shift;
}

static void channels(gf_nn_engine *s, const gf_nn_norm *n, int what, double count) {
    channel_kernel<<<(unsigned)((n->c + 255) / 256), 256, 0, s->stream>>>(*n, what, count);
    gf_cunn_note(s, cudaGetLastError(), "batch norm");
}

/* ----- launchers --------------------------------------------------------------------------------------------------- */

template <typename T, int V> static void sums(gf_nn_engine *s, const gf_nn_norm *n, double count) {
    const walk w = sums_walk(n->rows, n->c, V);
    sums_kernel<T, V><<<dim3(w.tiles, w.chunks), dim3(w.gx, w.ry), shared_bytes(w, V, 2), s->stream>>>(*n, w, count, s->tickets);
    gf_cunn_note(s, cudaGetLastError(), "statistics of batch norm");
}

template <typename T, int V, int MASK> static void back_sums_by(gf_nn_engine *s, const gf_nn_norm *n, double count) {
    const walk w = sums_walk(n->rows, n->c, V);
    const dim3 grid(w.tiles, w.chunks), block(w.gx, w.ry);
    if (n->dy2) back_sums_kernel<T, V, MASK, 1><<<grid, block, shared_bytes(w, V, 2), s->stream>>>(*n, w, 1, count, s->tickets);
    else
        back_sums_kernel<T, V, MASK, 0>
            <<<grid, block, shared_bytes(w, V, 2), s->stream>>>(*n, w, gf_nn_norm_sums_up(n) || n->counted, count, s->tickets);
    gf_cunn_note(s, cudaGetLastError(), "statistics of batch norm, backward");
}

template <typename T, int V> static void back_sums(gf_nn_engine *s, const gf_nn_norm *n, double count) {
    if (!n->relu) back_sums_by<T, V, ALL>(s, n, count);
    else if (!gf_nn_norm_sums_up(n)) back_sums_by<T, V, BY_X>(s, n, count);
    else if (V == 8 && n->positive) back_sums_by<T, V, BY_BITS>(s, n, count);
    else back_sums_by<T, V, BY_Y>(s, n, count);
}

/* Three sums per channel: a norm with a shortcut has them. */
static size_t chunk_bytes(int64_t rows, int64_t c, int v) {
    return sizeof(float) * 3 * (size_t)c * (size_t)sums_walk(rows, c, v).chunks;
}

size_t gf_cunn_norm_scratch(int64_t rows, int64_t c) {
    const size_t a = chunk_bytes(rows, c, gf_lanes(GF_TYPE_BF16, c)), b = chunk_bytes(rows, c, gf_lanes(GF_TYPE_F32, c));
    const int64_t blocks = GF_MIN(rows / 16 + 1, GF_CUNN_TEAM_BLOCKS);
    return GF_MAX(GF_MAX(a, b), sizeof(float) * 3 * (size_t)(c * blocks)); /* the latter: cunn_norm_whole.cuh */
}

static void sums_or_stem(gf_nn_engine *s, const gf_nn_norm *n, double count) {
    if (n->counted) gf_cunn_stem_stats(s, n, count);
    else GF_LANES(n->type, n->c, sums, s, n, count);
}

void gf_cunn_norm_sums(gf_nn_engine *s, const gf_nn_norm *n) { sums_or_stem(s, n, 0.0); }
void gf_cunn_norm_stats(gf_nn_engine *s, const gf_nn_norm *n) {
    if (!n->summed) sums_or_stem(s, n, (double)gf_nn_norm_count(n));
}
void gf_cunn_norm_finish(gf_nn_engine *s, const gf_nn_norm *n, double count) { channels(s, n, FINISH, count); }
void gf_cunn_norm_eval(gf_nn_engine *s, const gf_nn_norm *n) { channels(s, n, EVAL, 0.0); }
void gf_cunn_norm_back_sums(gf_nn_engine *s, const gf_nn_norm *n) { GF_LANES(n->type, n->c, back_sums, s, n, 0.0); }
void gf_cunn_norm_back_finish(gf_nn_engine *s, const gf_nn_norm *n, double count) { channels(s, n, BACK_FINISH, count); }

/* ----- one rank: statistics and the pass that writes ----------------------------------------------------------------- */

/* One launch instead of two pays up to a size that is a multiple of all shared memory, less where more arrays pass through the
 * cache; and from there on costs, since tiles of 128 bytes are slower to read than whole rows (research/2026-11). */
#define PAYS 2.25
#define PAYS_WITH_SUM 1.75
#define PAYS_WITH_SHORTCUT 0.85

static int pays(const gf_nn_engine *s, const gf_nn_norm *n) {
    const double shared = (double)s->team_blocks * (double)s->team_shared, bytes = (double)(n->rows * n->c) * sizeof(bf16);
    return bytes <= shared * (n->shortcut ? PAYS_WITH_SHORTCUT : n->residual ? PAYS_WITH_SUM : PAYS);
}

void gf_cunn_norm_forward(gf_nn_engine *s, const gf_nn_norm *n) {
    if (!n->shortcut && !n->counted && !n->summed && pays(s, n) && gf_cunn_norm_forward_whole(s, n)) return;
    gf_cunn_norm_stats(s, n);
    gf_cunn_norm_apply(s, n);
}

void gf_cunn_norm_backward(gf_nn_engine *s, const gf_nn_norm *n) {
    if (n->back_summed) {
        (n->shortcut ? gf_cunn_norm_pair_back_apply : gf_cunn_norm_back_apply)(s, n);
        return;
    }
    if (n->shortcut) {
        if (!pays(s, n) || !gf_cunn_norm_pair_back_whole(s, n)) gf_cunn_norm_pair_back(s, n);
        return;
    }
    if (!n->counted && pays(s, n) && gf_cunn_norm_backward_whole(s, n)) return;
    GF_LANES(n->type, n->c, back_sums, s, n, (double)gf_nn_norm_count(n));
    gf_cunn_norm_back_apply(s, n);
}

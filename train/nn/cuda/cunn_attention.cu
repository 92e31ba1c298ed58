/* cunn_attention.cu - attention in float32: heads that tensor cores do not take, and attention that pools. */
#include <math.h>

#include "nn/cuda/cunn_device.cuh"
#include "nn/cuda/cunn_kernels.h"

/* ----- Many queries ---------------------------------------------------------------------------------------------- */

/* Attention with products and sums in float32, for heads of up to 96 numbers. See cunn_attention.h.
 *
 * Block: 16 own rows of one head, 4 per warp; 32 other rows at a time in shared memory. For scores each lane has one other row;
 * for sums every lane has all of them, in columns lane, lane + 32, lane + 64. Backward has two passes, as with tensor cores. */

enum { WARPS = 4, EACH = 4, ROWS = WARPS * EACH, OTHERS = 32 };

template <int C> struct widths {                           /* C columns per lane */
    static constexpr int own = 32 * C, other = 32 * C + 4; /* lanes read 16 bytes of rows of their own: no two in one bank */
};

struct spot {      /* one head of one image */
    int64_t first; /* position */
    int column;
    float *log_sums;
};

/* t.length becomes that of a packed text. */
__device__ static spot spot_of(gf_cunn_attention &t) {
    const int64_t image = blockIdx.x / (unsigned)t.heads;
    const int head = (int)(blockIdx.x % (unsigned)t.heads);
    int64_t first = image * t.length;
    if (t.first) first = t.first[image], t.length = t.first[image + 1] - (int)first;
    return {first, head * t.dim, t.log_sums + first * t.heads + (int64_t)head * t.length};
}

template <typename T> __device__ static float number(const gf_cunn_heads &h, const spot &p, int row, int d) {
    return (float)static_cast<const T *>(h.at)[(p.first + row) * h.step + p.column + d];
}

/* `rows` rows from `from` on into shared memory, `wide` numbers apart; 0 beyond the last row and beyond the head. */
template <typename T, int C>
__device__ static void copy_rows(float *to, int wide, int rows, const gf_cunn_attention &t, const gf_cunn_heads &h, const spot &p,
                                 int from) {
    for (int i = threadIdx.x; i < rows * 32 * C; i += blockDim.x) {
        const int r = i / (32 * C), d = i % (32 * C);
        to[r * wide + d] = from + r < t.length && d < t.dim ? number<T>(h, p, from + r, d) : 0.0f;
    }
}

/* Own rows of this warp times the other row of this lane. */
template <int C> __device__ static void products(float (&x)[EACH], const float *own, const float *others) {
    const float *other = others + threadIdx.x % 32 * widths<C>::other;
#pragma unroll
    for (int r = 0; r < EACH; r++) x[r] = 0.0f;
#pragma unroll 8
    for (int d = 0; d < 32 * C; d += 4) {
        const float4 b = *reinterpret_cast<const float4 *>(other + d);
#pragma unroll
        for (int r = 0; r < EACH; r++) {
            const float4 a = *reinterpret_cast<const float4 *>(own + r * widths<C>::own + d);
            x[r] = fmaf(a.x, b.x, fmaf(a.y, b.y, fmaf(a.z, b.z, fmaf(a.w, b.w, x[r]))));
        }
    }
}

/* sum [EACH][this lane's columns] += weights [EACH][one per lane] others. */
template <int C> __device__ static void weighted(float (&sum)[EACH][C], const float (&weight)[EACH], const float *others) {
    const float *mine = others + threadIdx.x % 32;
#pragma unroll 4
    for (int k = 0; k < OTHERS; k++) {
        float b[C];
#pragma unroll
        for (int c = 0; c < C; c++) b[c] = mine[k * widths<C>::other + 32 * c];
#pragma unroll
        for (int r = 0; r < EACH; r++) {
            const float w = __shfl_sync(~0u, weight[r], k);
#pragma unroll
            for (int c = 0; c < C; c++) sum[r][c] = fmaf(w, b[c], sum[r][c]);
        }
    }
}

__device__ static float over_warp(float x) {
#pragma unroll
    for (int i = 16; i > 0; i /= 2) x += __shfl_xor_sync(~0u, x, i);
    return x;
}

__device__ static float largest_of_warp(float x) {
#pragma unroll
    for (int i = 16; i > 0; i /= 2) x = fmaxf(x, __shfl_xor_sync(~0u, x, i));
    return x;
}

__device__ static float log_factor(const gf_cunn_attention &t) { return t.scale * 1.44269504f; }

__device__ static int last_key(const gf_cunn_attention &t, int row0) { /* one past it, for ROWS queries */
    return t.causal && row0 + ROWS < t.length ? row0 + ROWS : t.length;
}

template <typename T, int C>
__device__ static void store_row(const gf_cunn_attention &t, const gf_cunn_heads &h, const spot &p, int row, const float (&x)[C],
                                 float factor) {
    if (row >= t.length) return;
#pragma unroll
    for (int c = 0; c < C; c++) {
        const int d = 32 * c + (int)threadIdx.x % 32;
        if (d < t.dim) static_cast<T *>(h.at)[(p.first + row) * h.step + p.column + d] = (T)(x[c] * factor);
    }
}

/* ----- forward ----------------------------------------------------------------------------------------------------- */

template <typename T, int C> static __global__ void __launch_bounds__(32 * WARPS) forward_kernel(gf_cunn_attention t) {
    __shared__ __align__(16) float q[ROWS * widths<C>::own], k[OTHERS * widths<C>::other], v[OTHERS * widths<C>::other];
    const spot p = spot_of(t);
    const int row0 = (int)blockIdx.y * ROWS, mine = (int)threadIdx.x / 32 * EACH, lane = (int)threadIdx.x % 32;
    if (row0 >= t.length) return;
    const float factor = log_factor(t);
    float y[EACH][C] = {}, peak[EACH], total[EACH] = {}, w[EACH];
#pragma unroll
    for (int r = 0; r < EACH; r++) peak[r] = -INFINITY;
    copy_rows<T, C>(q, widths<C>::own, ROWS, t, t.q, p, row0);
    for (int base = 0; base < last_key(t, row0); base += OTHERS) {
        __syncthreads();
        copy_rows<T, C>(k, widths<C>::other, OTHERS, t, t.k, p, base);
        copy_rows<T, C>(v, widths<C>::other, OTHERS, t, t.v, p, base);
        __syncthreads();
        products<C>(w, q + mine * widths<C>::own, k);
#pragma unroll
        for (int r = 0; r < EACH; r++) {
            const int key = base + lane, query = row0 + mine + r;
            if (key >= t.length || (t.causal && key > query)) w[r] = -INFINITY;
            const float now = fmaxf(peak[r], largest_of_warp(w[r])), fade = exp2f((peak[r] - now) * factor);
            peak[r] = now; /* finite: the first others hold key 0, which every query sees */
            w[r] = exp2f((w[r] - now) * factor);
            total[r] = total[r] * fade + w[r];
#pragma unroll
            for (int c = 0; c < C; c++) y[r][c] *= fade;
        }
        weighted<C>(y, w, v);
    }
#pragma unroll
    for (int r = 0; r < EACH; r++) {
        const int row = row0 + mine + r;
        const float sum = over_warp(total[r]);
        store_row<T, C>(t, t.y, p, row, y[r], 1.0f / sum);
        if (t.log_sums && lane == 0 && row < t.length) p.log_sums[row] = peak[r] * factor + log2f(sum);
    }
}

/* ----- backward ---------------------------------------------------------------------------------------------------- */

template <int C> struct tiles {
    float own[2][ROWS * widths<C>::own];       /* queries and dy, or keys and values */
    float other[2][OTHERS * widths<C>::other]; /* the other way round */
    float log_sum[OTHERS], delta[OTHERS];      /* of the queries among them; ROWS or OTHERS */
};

/* Queries from `from` on: logarithms, infinite where there is none, which makes weights 0; and delta = sum of dy y. */
template <typename T, int C>
__device__ static void query_sums(tiles<C> &m, const gf_cunn_attention &t, const spot &p, int from, int count) {
    for (int r = (int)threadIdx.x / 32; r < count; r += WARPS) {
        const int inside = from + r < t.length;
        float sum = 0.0f;
        for (int d = (int)threadIdx.x % 32; d < t.dim && inside; d += 32)
            sum = fmaf(number<T>(t.y, p, from + r, d), number<T>(t.dy, p, from + r, d), sum);
        sum = over_warp(sum);
        if (threadIdx.x % 32) continue;
        m.delta[r] = sum;
        m.log_sum[r] = inside ? p.log_sums[from + r] : INFINITY;
    }
}

template <int C, bool KEYS_OWN>
__device__ static void back_step(float (&da)[EACH][C], float (&db)[EACH][C], const tiles<C> &m, const gf_cunn_attention &t,
                                 int row0, int base) {
    const int mine = (int)threadIdx.x / 32 * EACH, lane = (int)threadIdx.x % 32;
    float w[EACH], dw[EACH];
    products<C>(w, m.own[0] + mine * widths<C>::own, m.other[0]);
    products<C>(dw, m.own[1] + mine * widths<C>::own, m.other[1]);
#pragma unroll
    for (int r = 0; r < EACH; r++) {
        const int own = row0 + mine + r, other = base + lane, at = KEYS_OWN ? lane : mine + r;
        const int query = KEYS_OWN ? other : own, key = KEYS_OWN ? own : other;
        const bool seen = key < t.length && !(t.causal && key > query);
        w[r] = seen ? exp2f(fmaf(w[r], log_factor(t), -m.log_sum[at])) : 0.0f;
        dw[r] = w[r] * (dw[r] - m.delta[at]);
    }
    weighted<C>(da, dw, m.other[0]);
    if (KEYS_OWN) weighted<C>(db, w, m.other[1]);
}

template <typename T, int C, bool KEYS_OWN>
__device__ static void back_pass(tiles<C> &m, const gf_cunn_attention &t, const spot &p) {
    const int row0 = (int)blockIdx.y * ROWS, mine = (int)threadIdx.x / 32 * EACH;
    const int begin = KEYS_OWN && t.causal ? row0 / OTHERS * OTHERS : 0, end = KEYS_OWN ? t.length : last_key(t, row0);
    float da[EACH][C] = {}, db[EACH][C] = {};
    __syncthreads();
    copy_rows<T, C>(m.own[0], widths<C>::own, ROWS, t, KEYS_OWN ? t.k : t.q, p, row0);
    copy_rows<T, C>(m.own[1], widths<C>::own, ROWS, t, KEYS_OWN ? t.v : t.dy, p, row0);
    if (!KEYS_OWN) query_sums<T, C>(m, t, p, row0, ROWS);
    for (int base = begin; base < end; base += OTHERS) {
        __syncthreads();
        copy_rows<T, C>(m.other[0], widths<C>::other, OTHERS, t, KEYS_OWN ? t.q : t.k, p, base);
        copy_rows<T, C>(m.other[1], widths<C>::other, OTHERS, t, KEYS_OWN ? t.dy : t.v, p, base);
        if (KEYS_OWN) query_sums<T, C>(m, t, p, base, OTHERS);
        __syncthreads();
        back_step<C, KEYS_OWN>(da, db, m, t, row0, base);
    }
#pragma unroll
    for (int r = 0; r < EACH; r++) {
        store_row<T, C>(t, KEYS_OWN ? t.dk : t.dq, p, row0 + mine + r, da[r], t.scale);
        if (KEYS_OWN) store_row<T, C>(t, t.dv, p, row0 + mine + r, db[r], 1.0f);
    }
}

template <typename T, int C> static __global__ void __launch_bounds__(32 * WARPS) back_kernel(gf_cunn_attention t) {
    __shared__ __align__(16) tiles<C> m;
    const spot p = spot_of(t);
    if ((int)blockIdx.y * ROWS >= t.length) return;
    back_pass<T, C, false>(m, t, p);
    back_pass<T, C, true>(m, t, p);
}

/* ----- launches ---------------------------------------------------------------------------------------------------- */

static dim3 grid_of(const gf_cunn_attention *t) {
    return dim3((unsigned)(t->n * t->heads), (unsigned)((t->length + ROWS - 1) / ROWS));
}

template <typename T> static void forward(gf_nn_engine *s, const gf_cunn_attention *t) {
    const dim3 grid = grid_of(t);
    if (t->dim <= 32) forward_kernel<T, 1><<<grid, 32 * WARPS, 0, s->stream>>>(*t);
    else if (t->dim <= 64) forward_kernel<T, 2><<<grid, 32 * WARPS, 0, s->stream>>>(*t);
    else forward_kernel<T, 3><<<grid, 32 * WARPS, 0, s->stream>>>(*t);
    gf_cunn_note(s, cudaGetLastError(), "attention");
}

template <typename T> static void backward(gf_nn_engine *s, const gf_cunn_attention *t) {
    const dim3 grid = grid_of(t);
    if (t->dim <= 32) back_kernel<T, 1><<<grid, 32 * WARPS, 0, s->stream>>>(*t);
    else if (t->dim <= 64) back_kernel<T, 2><<<grid, 32 * WARPS, 0, s->stream>>>(*t);
    else back_kernel<T, 3><<<grid, 32 * WARPS, 0, s->stream>>>(*t);
    gf_cunn_note(s, cudaGetLastError(), "attention, backward");
}

void gf_cunn_attention_fma(gf_nn_engine *s, const gf_cunn_attention *t) {
    if (t->type == GF_TYPE_BF16) forward<bf16>(s, t);
    else forward<float>(s, t);
}

void gf_cunn_attention_fma_back(gf_nn_engine *s, const gf_cunn_attention *t) {
    if (t->type == GF_TYPE_BF16) backward<bf16>(s, t);
    else backward<float>(s, t);
}

/* ----- One query per image --------------------------------------------------------------------------------------- */

/* Attention of one query per image, float32 but for keys and values. See cunn_attention.h.
 *
 * One warp per head of an image: lanes are neighbouring numbers of the head, keys follow one another; each number is read once.
 * The weights are few, so they are kept instead of the logarithm of their sum. */

enum { POOL_WARPS = 4, COLUMNS = GF_CUNN_ATTENTION_DIM / 32 };

struct one {       /* place of this warp */
    int64_t head;  /* of all images */
    int64_t first; /* position of keys and values */
    int column, lane;
};

__device__ static one one_of(const gf_cunn_attention &t) {
    const int64_t head = (int64_t)blockIdx.x * POOL_WARPS + threadIdx.x / 32;
    return {head, head / t.heads * t.length, (int)(head % t.heads) * t.dim, (int)threadIdx.x % 32};
}

/* This lane's numbers of row `row`; 0 beyond the head. */
template <typename T>
__device__ static void load(float (&x)[COLUMNS], const gf_cunn_heads &h, int64_t row, const one &w, int dim) {
#pragma unroll
    for (int c = 0; c < COLUMNS; c++) {
        const int d = 32 * c + w.lane;
        x[c] = d < dim ? (float)static_cast<const T *>(h.at)[row * h.step + w.column + d] : 0.0f;
    }
}

template <typename T>
__device__ static void store(const gf_cunn_heads &h, int64_t row, const one &w, int dim, const float (&x)[COLUMNS],
                             float factor) {
#pragma unroll
    for (int c = 0; c < COLUMNS; c++) {
        const int d = 32 * c + w.lane;
        if (d < dim) static_cast<T *>(h.at)[row * h.step + w.column + d] = (T)(x[c] * factor);
    }
}

__device__ static float product(const float (&a)[COLUMNS], const float (&b)[COLUMNS]) {
    float x = 0.0f;
#pragma unroll
    for (int c = 0; c < COLUMNS; c++) x = fmaf(a[c], b[c], x);
#pragma unroll
    for (int i = 16; i > 0; i /= 2) x += __shfl_xor_sync(~0u, x, i);
    return x;
}

__device__ static void add_times(float (&sum)[COLUMNS], const float (&x)[COLUMNS], float w) {
#pragma unroll
    for (int c = 0; c < COLUMNS; c++) sum[c] = fmaf(w, x[c], sum[c]);
}

/* Scores go to `weights` first, and become weights when their maximum and their sum are known. */
template <typename T>
static __global__ void __launch_bounds__(32 * POOL_WARPS) pool_kernel(const gf_cunn_attention t, float *weights) {
    const one w = one_of(t);
    if (w.head >= t.n * t.heads) return;
    float q[COLUMNS], x[COLUMNS], y[COLUMNS] = {0.0f}, peak = -INFINITY, total = 0.0f;
    float *mine = weights + w.head * t.length;
    load<float>(q, t.q, w.head / t.heads, w, t.dim);
    for (int k = 0; k < t.length; k++) {
        load<T>(x, t.k, w.first + k, w, t.dim);
        const float score = product(q, x) * t.scale;
        peak = fmaxf(peak, score);
        if (w.lane == 0) mine[k] = score;
    }
    __syncwarp();
    for (int k = 0; k < t.length; k++) total += expf(mine[k] - peak);
    for (int k = 0; k < t.length; k++) {
        load<T>(x, t.v, w.first + k, w, t.dim);
        add_times(y, x, expf(mine[k] - peak) / total);
    }
    __syncwarp();
    for (int k = w.lane; k < t.length; k += 32) mine[k] = expf(mine[k] - peak) / total;
    store<float>(t.y, w.head / t.heads, w, t.dim, y, 1.0f);
}

template <typename T>
static __global__ void __launch_bounds__(32 * POOL_WARPS) pool_back_kernel(const gf_cunn_attention t, const float *weights) {
    const one w = one_of(t);
    if (w.head >= t.n * t.heads) return;
    float q[COLUMNS], y[COLUMNS], dy[COLUMNS], x[COLUMNS], dq[COLUMNS] = {0.0f};
    const float *mine = weights + w.head * t.length;
    load<float>(q, t.q, w.head / t.heads, w, t.dim);
    load<float>(y, t.y, w.head / t.heads, w, t.dim);
    load<float>(dy, t.dy, w.head / t.heads, w, t.dim);
    const float delta = product(y, dy);
    for (int k = 0; k < t.length; k++) {
        load<T>(x, t.v, w.first + k, w, t.dim);
        const float dscore = mine[k] * (product(dy, x) - delta) * t.scale;
        store<T>(t.dv, w.first + k, w, t.dim, dy, mine[k]);
        load<T>(x, t.k, w.first + k, w, t.dim);
        add_times(dq, x, dscore);
        store<T>(t.dk, w.first + k, w, t.dim, q, dscore);
    }
    store<float>(t.dq, w.head / t.heads, w, t.dim, dq, 1.0f);
}

static unsigned blocks_of(const gf_cunn_attention *t) { return (unsigned)((t->n * t->heads + POOL_WARPS - 1) / POOL_WARPS); }

void gf_cunn_attention_one(gf_nn_engine *s, const gf_cunn_attention *t, float *weights) {
    if (t->type == GF_TYPE_BF16) pool_kernel<bf16><<<blocks_of(t), 32 * POOL_WARPS, 0, s->stream>>>(*t, weights);
    else pool_kernel<float><<<blocks_of(t), 32 * POOL_WARPS, 0, s->stream>>>(*t, weights);
    gf_cunn_note(s, cudaGetLastError(), "attention of one query");
}

void gf_cunn_attention_one_back(gf_nn_engine *s, const gf_cunn_attention *t, const float *weights) {
    if (t->type == GF_TYPE_BF16) pool_back_kernel<bf16><<<blocks_of(t), 32 * POOL_WARPS, 0, s->stream>>>(*t, weights);
    else pool_back_kernel<float><<<blocks_of(t), 32 * POOL_WARPS, 0, s->stream>>>(*t, weights);
    gf_cunn_note(s, cudaGetLastError(), "attention of one query, backward");
}

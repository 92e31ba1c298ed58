/* cunn_window_norm.cuh - the part of a batch norm that 3 x 3 convolutions do (cunn_window.cu): the epilogue of a patch, and at
 * the end the sums of all blocks. sm_90a only. */
#pragma once

#include "nn/cuda/sm90/cunn_window.cuh"

/* ----- the epilogue ------------------------------------------------------------------------------------------------ */

template <int NT, bool SHARED, int MODE> struct window_work { /* of a thread of the warpgroups that multiply */
    static constexpr int PATCHES = SHARED ? 2 : 1;
    static constexpr int SUMS = MODE == WINDOW_PAIR ? 3 : 2;
    static constexpr bool BACK = MODE != WINDOW_FORWARD, BITS = MODE >= WINDOW_END, OTHER = MODE >= WINDOW_OTHER;
    static constexpr int EXTRA = MODE == WINDOW_FORWARD ? 0 : MODE == WINDOW_INNER ? 1 : MODE == WINDOW_PAIR ? 3 : 2;
    float d[PATCHES][NT][4], sum[SUMS][2];     /* channels lane / 4 and lane / 4 + 8 of the warp's 16 */
    float pivot[2], mean2[2];                  /* forward the first number, backward the mean; of the shortcut */
    float scale[2], shift[2];                  /* without bits */
    uint32_t bits[PATCHES][BITS ? NT / 4 : 1]; /* of pixel 32 i + lane, the warp's 16 channels */
    int group, warp, lane;
    uint32_t at; /* bytes from the start of a slot to the lane's row of a block of 8 x 8 */
};

template <class Work> __device__ __forceinline__ void window_add(Work &k, int half, float a, float b) {
    k.sum[0][half] += a, k.sum[0][half] += b;
    k.sum[1][half] = fmaf(a, a, k.sum[1][half]), k.sum[1][half] = fmaf(b, b, k.sum[1][half]);
}

/* Forward, of patch q; out: its place in the slot. */
template <int NT, class Work> __device__ __forceinline__ void window_forward_out(Work &k, int q, uint32_t out) {
#pragma unroll
    for (int j = 0; j < NT; j += 2) {
        uint32_t four[4];
#pragma unroll
        for (int i = 0; i < 4; i++) {
            four[i] = window_pack(k.d[q][j + i / 2][i % 2 * 2], k.d[q][j + i / 2][i % 2 * 2 + 1]);
            const float2 v = window_floats(four[i]);
            window_add(k, i % 2, v.x - k.pivot[i % 2], v.y - k.pivot[i % 2]);
        }
        window_write(four, out + k.at + j * 1024);
    }
}

/* Backward, of patch q, over what lies at `out`: the other part of the gradient, or x. */
template <int NT, class Work>
__device__ __forceinline__ void window_back_out(Work &k, int q, uint32_t out, uint32_t x, uint32_t x2) {
#pragma unroll
    for (int j = 0; j < NT; j += 2) {
        uint32_t four[4], xs[4], others[4], seconds[4];
        window_read(xs, x + k.at + j * 1024);
        if (Work::OTHER) window_read(others, out + k.at + j * 1024);
        if (Work::SUMS == 3) window_read(seconds, x2 + k.at + j * 1024);
#pragma unroll
        for (int i = 0; i < 4; i++) {
            const int t = j + i / 2, half = i % 2;
            const float2 v = window_floats(xs[i]), other = Work::OTHER ? window_floats(others[i]) : make_float2(0.0f, 0.0f);
            bool pass[2];
            if constexpr (Work::BITS) {
#pragma unroll
                for (int e = 0; e < 2; e++) /* both halves of the warp's channels lie in one word */
                    pass[e] =
                        __shfl_sync(0xffffffffu, k.bits[q][t / 4], t % 4 * 8 + k.lane % 4 * 2 + e) >> (8 * half + k.lane / 4) &
                        1u;
            } else {
                pass[0] = fmaf(k.scale[half], v.x, k.shift[half]) > 0.0f;
                pass[1] = fmaf(k.scale[half], v.y, k.shift[half]) > 0.0f;
            }
            four[i] =
                window_pack(pass[0] ? k.d[q][t][2 * half] + other.x : 0.0f, pass[1] ? k.d[q][t][2 * half + 1] + other.y : 0.0f);
            const float2 g = window_floats(four[i]);
            k.sum[0][half] += g.x, k.sum[0][half] += g.y;
            k.sum[1][half] = fmaf(g.x, v.x - k.pivot[half], k.sum[1][half]);
            k.sum[1][half] = fmaf(g.y, v.y - k.pivot[half], k.sum[1][half]);
            if (Work::SUMS == 3) {
                const float2 u = window_floats(seconds[i]);
                float &sum = k.sum[Work::SUMS - 1][half];
                sum = fmaf(g.x, u.x - k.mean2[half], sum);
                sum = fmaf(g.y, u.y - k.mean2[half], sum);
            }
        }
        window_write(four, out + k.at + j * 1024);
    }
}

/* The bits of the patches' pixels for the warp's 16 channels. */
template <int NT, class Work>
__device__ __forceinline__ void window_load_bits(Work &k, const window_args &p, const window_patch &at, int column) {
    if constexpr (Work::BITS) {
#pragma unroll
        for (int i = 0; i < Work::PATCHES * NT / 4; i++) {
            const int q = i / (NT / 4), pixel = i % (NT / 4) * 32 + k.lane;
            const int64_t row = ((int64_t)at.image * p.image_h + at.y + pixel / 8) * p.image_w + at.x + 8 * q + pixel % 8;
            k.bits[q][i % (NT / 4)] =
                __ldg(reinterpret_cast<const unsigned short *>(p.n.positive + (row * p.columns + column) / 8) + k.warp);
        }
    }
}

/* ----- the end: sums of all blocks of a strip ------------------------------------------------------------------------ */

/* All warpgroups that multiply. */
static __device__ __forceinline__ void window_sync() { asm volatile("bar.sync 1, 256;" ::: "memory"); }

/* Sums of the warpgroup's columns go to scratch [part][3][columns]: forward the third is the pivot. */
template <class Work>
__device__ __forceinline__ void window_keep_sums(const Work &k, const window_args &p, int part, int column) {
    float *to = (float *)p.n.scratch + (int64_t)part * 3 * p.columns + column + 16 * k.warp + k.lane / 4;
#pragma unroll
    for (int i = 0; i < 3; i++)
#pragma unroll
        for (int half = 0; half < 2; half++) {
            if (i == Work::SUMS && Work::BACK) continue;
            float v = i < Work::SUMS ? k.sum[i < Work::SUMS ? i : 0][half] : k.pivot[half];
            if (i < Work::SUMS) {
                v += __shfl_xor_sync(0xffffffffu, v, 1);
                v += __shfl_xor_sync(0xffffffffu, v, 2);
            }
            if (k.lane % 4 == 0) __stcg(to + (int64_t)i * p.columns + 8 * half, v);
        }
}

/* True in all threads of the last block of the strip. */
static __device__ __forceinline__ bool window_comes_last(const window_space &s, const window_args &p, int strip) {
    __threadfence();
    window_sync();
    if (threadIdx.x == 0) {
        const unsigned before = atomicAdd(p.tickets + strip, 1u);
        s.tail->last = before == (unsigned)p.blocks - 1;
        if (s.tail->last) p.tickets[strip] = 0;
    }
    window_sync();
    __threadfence();
    return s.tail->last != 0;
}

struct window_totals {
    double v[3];
};

/* Of one column, over parts from..to - 1. Forward: sum x and sum x^2 from differences. */
template <class Work>
static __device__ __forceinline__ window_totals window_sum(const window_args &p, int column, int from, int to) {
    window_totals t = {{0.0, 0.0, 0.0}};
#pragma unroll 4
    for (int i = from; i < to; i++) {
        const float *at = (const float *)p.n.scratch + (int64_t)i * 3 * p.columns + column;
        const double a = __ldcg(at), b = __ldcg(at + p.columns),
                     c = !Work::BACK || Work::SUMS == 3 ? __ldcg(at + 2 * p.columns) : 0.0f;
        if (Work::BACK) {
            t.v[0] += a, t.v[1] += b, t.v[2] += c;
        } else {
            const double rows = (double)((p.units - i + p.parts - 1) / p.parts) * (p.step * p.high);
            t.v[0] += a + rows * c;
            t.v[1] += b + 2 * c * a + rows * c * c;
        }
    }
    return t;
}

static __device__ __forceinline__ void window_back_line(const gf_nn_norm &n, int64_t i, double sum, double product) {
    const float2 coef = coef_of_sums(n, i, sum, product, (double)n.rows);
    own_gradients(n, i, sum, product);
    n.coef[i] = coef.x, n.coef[n.c + i] = coef.y;
}

/* The last block: columns n0 .. n0 + BN - 1. */
template <int BN, class Work> static __device__ __forceinline__ void window_finish(const window_args &p, double *shared, int n0) {
    constexpr int SLICES = WINDOW_WORKERS / BN;
    const int slice = threadIdx.x / BN, column = threadIdx.x % BN, share = (p.parts + SLICES - 1) / SLICES;
    const window_totals mine = window_sum<Work>(p, n0 + column, min(slice * share, p.parts), min((slice + 1) * share, p.parts));
#pragma unroll
    for (int i = 0; i < Work::SUMS; i++) shared[(slice * Work::SUMS + i) * BN + column] = mine.v[i];
    window_sync();
    if (slice > 0) return;
    window_totals t = {{0.0, 0.0, 0.0}};
    for (int k = 0; k < SLICES; k++)
#pragma unroll
        for (int i = 0; i < Work::SUMS; i++) t.v[i] += shared[(k * Work::SUMS + i) * BN + column];
    const int64_t at = n0 + column;
    if (Work::BACK) {
        window_back_line(p.n, at, t.v[0], t.v[1]);
        if (Work::SUMS == 3) window_back_line(p.m, at, t.v[0], t.v[2]);
    } else {
        keep_line(p.n, at, line_of_sums(p.n, at, t.v[0], t.v[1], (double)p.n.rows), (double)p.n.rows);
    }
}

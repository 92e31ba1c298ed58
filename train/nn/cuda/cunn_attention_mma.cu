/* cunn_attention_mma.cu - attention of bf16 on tensor cores (mma.sync 16 x 8 x 16, float32 sums). See cunn_attention.h.
 *
 * Block: one head of one image, up to 8 warps of 16 own rows each; the other rows are streamed through shared memory, up to 128
 * at a time. So a context of up to 128 is read once; backward, all its rows stay there. Forward's own rows are queries, the
 * others keys. Backward has two passes of one shape:
 *   queries own   w = exp(q k' - log sum),  dw = w (dy v' - delta)      dq = sum of dw k
 *   keys own      the same two, transposed                              dk = sum of dw' q,  dv = sum of w' dy
 * with delta = sum dy y of a query. Weights and their gradients are rounded to bf16 on their way into the next product.
 *
 * Packed texts: blocks have rows for a text of twice the mean length, and more blocks than most texts need. */
#include <math.h>

#include "nn/cuda/cunn_device.cuh"
#include "nn/cuda/cunn_kernels.h"

enum { WARPS = 8, ROWS = 16, OTHERS = 128, STEP = 32, PAD = 8 }; /* PAD: rows 16 bytes apart in banks */

/* ----- pieces ------------------------------------------------------------------------------------------------------ */

/* c [16][16] = a [16][D] rows' with 16 rows [D] in shared memory. */
template <int D> __device__ static void scores(float (&c)[2][4], const uint32_t (&a)[D / 16][4], const bf16 *rows) {
    const int lane = threadIdx.x % 32;
    const bf16 *mine = rows + (lane / 16 * 8 + lane % 8) * (D + PAD) + lane / 8 % 2 * 8;
#pragma unroll
    for (int i = 0; i < 4; i++) c[0][i] = c[1][i] = 0.0f;
#pragma unroll
    for (int k = 0; k < D / 16; k++) {
        uint32_t b[4];
        load_four<false>(b, mine + 16 * k);
        multiply(c[0], a[k], b[0], b[1]);
        multiply(c[1], a[k], b[2], b[3]);
    }
}

/* c [16][D] += w [16][16] rows with 16 rows [D] in shared memory. */
template <int D> __device__ static void weighted(float (&c)[D / 8][4], const float (&w)[2][4], const bf16 *rows) {
    const int lane = threadIdx.x % 32;
    const bf16 *mine = rows + (lane / 8 % 2 * 8 + lane % 8) * (D + PAD) + lane / 16 * 8;
    const uint32_t a[4] = {pack(w[0][0], w[0][1]), pack(w[0][2], w[0][3]), pack(w[1][0], w[1][1]), pack(w[1][2], w[1][3])};
#pragma unroll
    for (int d = 0; d < D / 16; d++) {
        uint32_t b[4];
        load_four<true>(b, mine + 16 * d);
        multiply(c[2 * d], a, b[0], b[1]);
        multiply(c[2 * d + 1], a, b[2], b[3]);
    }
}

struct place {     /* one head of one image */
    int64_t first; /* position */
    int column;
    float *log_sums;
    __device__ bf16 *row(const gf_cunn_heads &h, int r) const {
        return static_cast<bf16 *>(h.at) + (first + r) * h.step + column;
    }
};

/* t.length becomes that of a packed text. */
__device__ static place place_of(gf_cunn_attention &t) {
    const int64_t image = blockIdx.x / (unsigned)t.heads;
    const int head = (int)(blockIdx.x % (unsigned)t.heads);
    int64_t first = image * t.length;
    if (t.first) first = t.first[image], t.length = t.first[image + 1] - (int)first;
    return {first, head * t.dim, t.log_sums + first * t.heads + (int64_t)head * t.length};
}

/* First own row of this block. */
__device__ static int block_row() { return (int)(blockIdx.y * (blockDim.x / 32)) * ROWS; }

/* Starts to copy rows from .. from + count to shared memory; what lies beyond `length` becomes 0. */
template <int D> __device__ static void fetch(bf16 *to, const gf_cunn_heads &h, const place &p, int from, int count, int length) {
    constexpr int PIECES = D / 8;
    for (int i = threadIdx.x; i < count * PIECES; i += blockDim.x) {
        const int r = i / PIECES, c = i % PIECES * 8, inside = from + r < length;
        copy_start<16>(to + r * (D + PAD) + c, p.row(h, inside ? from + r : 0) + c, inside);
    }
    copy_commit();
}

/* Rows row0 + g and row0 + g + 8 as the left factor. */
template <int D>
__device__ static void own_rows(uint32_t (&a)[D / 16][4], const gf_cunn_heads &h, const place &p, int row0, int length) {
    const int r = row0 + (int)threadIdx.x % 32 / 4, c = threadIdx.x % 4 * 2;
#pragma unroll
    for (int half = 0; half < 2; half++) {
        const bool inside = r + 8 * half < length;
        const uint32_t *from = reinterpret_cast<const uint32_t *>(p.row(h, inside ? r + 8 * half : 0) + c);
#pragma unroll
        for (int k = 0; k < D / 16; k++) {
            a[k][half] = inside ? from[8 * k] : 0;
            a[k][half + 2] = inside ? from[8 * k + 4] : 0;
        }
    }
}

/* The same of 16 rows in shared memory. */
template <int D> __device__ static void own_rows(uint32_t (&a)[D / 16][4], const bf16 *rows) {
    const int lane = threadIdx.x % 32;
#pragma unroll
    for (int k = 0; k < D / 16; k++) load_four<false>(a[k], rows + lane % 16 * (D + PAD) + lane / 16 * 8 + 16 * k);
}

/* stage: shared memory for 16 rows of this warp, to write them in complete lines. */
template <int D>
__device__ static void store_rows(const gf_cunn_heads &h, const place &p, int row0, int length, const float (&c)[D / 8][4],
                                  float low, float high, bf16 *stage) {
    constexpr int PIECES = D / 8;
    const int lane = threadIdx.x % 32;
    uint32_t *mine = reinterpret_cast<uint32_t *>(stage + lane / 4 * (D + PAD) + lane % 4 * 2);
    __syncwarp();
#pragma unroll
    for (int d = 0; d < D / 8; d++) {
        mine[4 * d] = pack(c[d][0] * low, c[d][1] * low);
        mine[4 * d + 8 * (D + PAD) / 2] = pack(c[d][2] * high, c[d][3] * high);
    }
    __syncwarp();
#pragma unroll
    for (int i = lane; i < ROWS * PIECES; i += 32) {
        const int r = i / PIECES, at = i % PIECES * 8;
        if (row0 + r < length)
            *reinterpret_cast<uint4 *>(p.row(h, row0 + r) + at) = *reinterpret_cast<const uint4 *>(stage + r * (D + PAD) + at);
    }
}

__device__ static float over_four(float x) { /* of the threads of a row */
    x += __shfl_xor_sync(~0u, x, 1);
    return x + __shfl_xor_sync(~0u, x, 2);
}

__device__ static float largest_of_four(float x) {
    x = fmaxf(x, __shfl_xor_sync(~0u, x, 1));
    return fmaxf(x, __shfl_xor_sync(~0u, x, 2));
}

__device__ static float log_factor(const gf_cunn_attention &t) { return t.scale * 1.44269504f; }

/* ----- forward ----------------------------------------------------------------------------------------------------- */

template <int D> struct sums { /* of 16 queries */
    float y[D / 8][4], peak[2], total[2];
};

/* STEP keys from `key` on, in shared memory; those from `end` on do not exist. */
template <int D>
__device__ static void forward_step(sums<D> &o, const uint32_t (&q)[D / 16][4], const bf16 *k, const bf16 *v, int key, int end,
                                    int row, bool causal, float factor) {
    float s[STEP / 16][2][4];
    float peak[2] = {o.peak[0], o.peak[1]};
#pragma unroll
    for (int j = 0; j < STEP / 16; j++) {
        const int first = key + 16 * j;
        if (first < end) scores<D>(s[j], q, k + 16 * j * (D + PAD));
#pragma unroll
        for (int b = 0; b < 2; b++)
#pragma unroll
            for (int i = 0; i < 4; i++) {
                const int col = first + 8 * b + (int)threadIdx.x % 4 * 2 + i % 2;
                if (col >= end || (causal && col > row + i / 2 * 8)) s[j][b][i] = -INFINITY;
                peak[i / 2] = fmaxf(peak[i / 2], s[j][b][i]);
            }
    }
#pragma unroll
    for (int i = 0; i < 2; i++) {
        peak[i] = largest_of_four(peak[i]);
        const float fade = exp2f((o.peak[i] - peak[i]) * factor);
        o.peak[i] = peak[i];
        o.total[i] *= fade;
#pragma unroll
        for (int d = 0; d < D / 8; d++) o.y[d][2 * i] *= fade, o.y[d][2 * i + 1] *= fade;
    }
#pragma unroll
    for (int j = 0; j < STEP / 16; j++) {
        if (key + 16 * j >= end) break;
#pragma unroll
        for (int b = 0; b < 2; b++)
#pragma unroll
            for (int i = 0; i < 4; i++) {
                s[j][b][i] = exp2f((s[j][b][i] - o.peak[i / 2]) * factor);
                o.total[i / 2] += s[j][b][i];
            }
        weighted<D>(o.y, s[j], v + 16 * j * (D + PAD));
    }
}

/* First own row of this warp. */
__device__ static int own_row() { return (int)(blockIdx.y * (blockDim.x / 32) + threadIdx.x / 32) * ROWS; }

/* One past the last key that `count` queries from row0 on may see. */
__device__ static int last_key(const gf_cunn_attention &t, int row0, int count) {
    return t.causal && row0 + count < t.length ? row0 + count : t.length;
}

template <int D> static __global__ void __launch_bounds__(32 * WARPS, 2) forward_kernel(gf_cunn_attention t, int others) {
    extern __shared__ uint4 memory[];
    bf16 *const k = reinterpret_cast<bf16 *>(memory), *const v = k + others * (D + PAD);
    const place p = place_of(t);
    if (block_row() >= t.length) return;
    const int row0 = own_row(), row = row0 + (int)threadIdx.x % 32 / 4;
    const int end = row0 < t.length ? last_key(t, row0, ROWS) : 0;
    const int block_rows = (int)blockDim.x / 32 * ROWS, block_end = last_key(t, (int)blockIdx.y * block_rows, block_rows);
    const float factor = log_factor(t);
    uint32_t q[D / 16][4];
    sums<D> o = {};
    o.peak[0] = o.peak[1] = -INFINITY;
    own_rows<D>(q, t.q, p, row0, t.length);
    for (int base = 0; base < block_end; base += others) {
        if (base > 0) __syncthreads();
        fetch<D>(k, t.k, p, base, others, t.length);
        fetch<D>(v, t.v, p, base, others, t.length);
        copy_wait<0>();
        for (int at = 0; at < others && base + at < end; at += STEP)
            forward_step<D>(o, q, k + at * (D + PAD), v + at * (D + PAD), base + at, min(end, base + others), row, t.causal,
                            factor);
    }
    __syncthreads(); /* keys are no longer needed: their memory takes the results */
    if (row0 >= t.length) return;
#pragma unroll
    for (int i = 0; i < 2; i++) {
        o.total[i] = over_four(o.total[i]);
        if (t.log_sums && threadIdx.x % 4 == 0 && row + 8 * i < t.length)
            p.log_sums[row + 8 * i] = o.peak[i] * factor + log2f(o.total[i]);
    }
    store_rows<D>(t.y, p, row0, t.length, o.y, 1.0f / o.total[0], 1.0f / o.total[1],
                  k + (int)threadIdx.x / 32 * ROWS * (D + PAD));
}

/* ----- backward ---------------------------------------------------------------------------------------------------- */

struct rows {               /* in shared memory */
    bf16 *a, *b;            /* keys and values, or queries and dy */
    float *log_sum, *delta; /* of queries */
};

/* 16 others; x: the scores, w: the weights, both of 16 own rows. */
template <int D, bool KEYS_OWN>
__device__ static void back_step(float (&da)[D / 8][4], float (&db)[D / 8][4], const uint32_t (&a)[D / 16][4],
                                 const uint32_t (&b)[D / 16][4], const rows &o, int at, int other, int row,
                                 const gf_cunn_attention &t, const float (&log_sum)[2], const float (&delta)[2]) {
    float w[2][4], dw[2][4];
    scores<D>(w, a, o.a + at * (D + PAD));
    scores<D>(dw, b, o.b + at * (D + PAD));
#pragma unroll
    for (int j = 0; j < 2; j++)
#pragma unroll
        for (int i = 0; i < 4; i++) {
            const int in = 8 * j + (int)threadIdx.x % 4 * 2 + i % 2, col = other + in, mine = row + i / 2 * 8;
            const int query = KEYS_OWN ? col : mine, key = KEYS_OWN ? mine : col;
            const float from = KEYS_OWN ? o.log_sum[at + in] : log_sum[i / 2], less = KEYS_OWN ? o.delta[at + in] : delta[i / 2];
            const bool seen = key < t.length && !(t.causal && key > query);
            w[j][i] = seen ? exp2f(fmaf(w[j][i], log_factor(t), -from)) : 0.0f;
            dw[j][i] = w[j][i] * (dw[j][i] - less);
        }
    weighted<D>(da, dw, o.a + at * (D + PAD));
    if (KEYS_OWN) weighted<D>(db, w, o.b + at * (D + PAD));
}

/* Delta of the own queries from fragments of dy, and the logarithm; infinite where there is no query, which makes weights 0. */
template <int D>
__device__ static void own_sums(float (&log_sum)[2], float (&delta)[2], const uint32_t (&dy)[D / 16][4],
                                const gf_cunn_attention &t, const place &p, int row0) {
    uint32_t y[D / 16][4];
    own_rows<D>(y, t.y, p, row0, t.length);
#pragma unroll
    for (int half = 0; half < 2; half++) {
        const int r = row0 + (int)threadIdx.x % 32 / 4 + 8 * half;
        float sum = 0.0f;
#pragma unroll
        for (int k = 0; k < D / 16; k++)
#pragma unroll
            for (int i = half; i < 4; i += 2) {
                sum = fmaf(__uint_as_float(y[k][i] << 16), __uint_as_float(dy[k][i] << 16), sum);
                sum = fmaf(__uint_as_float(y[k][i] & 0xffff0000u), __uint_as_float(dy[k][i] & 0xffff0000u), sum);
            }
        delta[half] = over_four(sum);
        log_sum[half] = r < t.length ? p.log_sums[r] : INFINITY;
    }
}

/* The same of `count` queries from `from` on, into shared memory, where their dy is on its way: waits for it. D / 8 threads per
 * query, and y of up to EARLY queries of each loaded meanwhile. */
template <int D>
__device__ static void query_sums(const rows &o, const gf_cunn_attention &t, const place &p, int from, int count) {
    constexpr int TEAM = D / 8, EARLY = 4;
    const int teams = (int)blockDim.x / TEAM, c = (int)threadIdx.x % TEAM * 8, mine = (int)threadIdx.x / TEAM;
    for (int base = 0; base < count; base += EARLY * teams) { /* complete warps, for the shuffles */
        lanes<bf16, 8> early[EARLY];
        float log_sum[EARLY];
#pragma unroll
        for (int k = 0; k < EARLY; k++) {
            const int r = base + k * teams + mine, inside = r < count && from + r < t.length;
            early[k] = inside ? lanes<bf16, 8>::load(p.row(t.y, from + r) + c) : lanes<bf16, 8>{};
            log_sum[k] = inside ? p.log_sums[from + r] : INFINITY;
        }
        if (base == 0) copy_wait<0>();
#pragma unroll
        for (int k = 0; k < EARLY; k++) {
            const int r = base + k * teams + mine;
            float sum = 0.0f, y[8], dy[8];
            early[k].floats(y);
            lanes<bf16, 8>::load(o.b + (r < count ? r : 0) * (D + PAD) + c).floats(dy);
#pragma unroll
            for (int i = 0; i < 8; i++) sum = fmaf(y[i], dy[i], sum);
#pragma unroll
            for (int i = 1; i < TEAM; i *= 2) sum += __shfl_xor_sync(~0u, sum, i);
            if (c == 0 && r < count) o.delta[r] = sum, o.log_sum[r] = log_sum[k];
        }
    }
    __syncthreads();
}

/* One of the two passes over all others. WHOLE: all rows are in shared memory, `own` and `other`; else only a part of the others
 * at a time, in `other`. */
template <int D, bool KEYS_OWN, bool WHOLE>
__device__ static void back_pass(const gf_cunn_attention &t, const place &p, const rows &own, const rows &other, int others,
                                 bf16 *stage) {
    const int row0 = own_row(), row = row0 + (int)threadIdx.x % 32 / 4, block_rows = (int)blockDim.x / 32 * ROWS;
    const int at0 = (row0 - block_row()) * (D + PAD);
    const int block_end = KEYS_OWN ? t.length : last_key(t, block_row(), block_rows);
    const int end = row0 >= t.length ? 0 : KEYS_OWN ? t.length : last_key(t, row0, ROWS);
    const int begin = KEYS_OWN && t.causal ? row0 : 0, block_begin = KEYS_OWN && t.causal ? block_row() / others * others : 0;
    uint32_t a[D / 16][4], b[D / 16][4];
    float da[D / 8][4] = {}, db[D / 8][4] = {}, log_sum[2], delta[2];
    if (WHOLE) own_rows<D>(a, own.a + at0), own_rows<D>(b, own.b + at0);
    else own_rows<D>(a, KEYS_OWN ? t.k : t.q, p, row0, t.length), own_rows<D>(b, KEYS_OWN ? t.v : t.dy, p, row0, t.length);
    if (!KEYS_OWN && WHOLE)
        for (int i = 0; i < 2; i++) log_sum[i] = own.log_sum[row + 8 * i], delta[i] = own.delta[row + 8 * i];
    else if (!KEYS_OWN) own_sums<D>(log_sum, delta, b, t, p, row0);
    for (int base = block_begin; base < block_end; base += others) {
        if (!WHOLE) {
            __syncthreads();
            fetch<D>(other.a, KEYS_OWN ? t.q : t.k, p, base, others, t.length);
            fetch<D>(other.b, KEYS_OWN ? t.dy : t.v, p, base, others, t.length);
            if (KEYS_OWN) query_sums<D>(other, t, p, base, others);
            else copy_wait<0>();
        }
        for (int at = max(0, begin - base); at < others && base + at < end; at += 16)
            back_step<D, KEYS_OWN>(da, db, a, b, other, at, base + at, row, t, log_sum, delta);
    }
    if (row0 >= t.length) return;
    store_rows<D>(KEYS_OWN ? t.dk : t.dq, p, row0, t.length, da, t.scale, t.scale, stage);
    if (KEYS_OWN) store_rows<D>(t.dv, p, row0, t.length, db, 1.0f, 1.0f, stage);
}
template <int D, bool WHOLE>
static __global__ void __launch_bounds__(32 * WARPS, 2) back_kernel(gf_cunn_attention t, int others) {
    extern __shared__ uint4 memory[];
    const int each = others * (D + PAD);
    const place p = place_of(t);
    if (block_row() >= t.length) return;
    bf16 *const at = reinterpret_cast<bf16 *>(memory), *const stage = at + (WHOLE ? 4 : 2) * each;
    float *const sums = reinterpret_cast<float *>(stage + (int)blockDim.x / 32 * ROWS * (D + PAD));
    bf16 *const mine = stage + (int)threadIdx.x / 32 * ROWS * (D + PAD);
    const rows keys = {at, at + each, NULL, NULL},
               queries = {WHOLE ? at + 2 * each : at, WHOLE ? at + 3 * each : at + each, sums, sums + others};
    if (WHOLE) {
        fetch<D>(keys.a, t.k, p, 0, others, t.length);
        fetch<D>(keys.b, t.v, p, 0, others, t.length);
        fetch<D>(queries.a, t.q, p, 0, others, t.length);
        fetch<D>(queries.b, t.dy, p, 0, others, t.length);
        query_sums<D>(queries, t, p, 0, others);
    }
    back_pass<D, false, WHOLE>(t, p, queries, keys, others, mine);
    back_pass<D, true, WHOLE>(t, p, keys, queries, others, mine);
}

/* ----- launches ---------------------------------------------------------------------------------------------------- */

static int whole(int64_t count, int of) { return (int)((count + of - 1) / of); }

struct layout {
    dim3 grid;
    int threads, others;
    size_t forward, backward; /* bytes of shared memory */
};

static layout layout_of(const gf_cunn_attention *t) {
    layout l;
    const int all = whole(t->length, ROWS), usual = t->first ? whole(2 * t->mean, ROWS) : all, tiles = usual < all ? usual : all;
    const int warps = whole(tiles, whole(tiles, WARPS)), blocks = whole(all, warps);
    const size_t row = sizeof(bf16) * (size_t)(t->dim + PAD);
    l.threads = 32 * warps;
    l.others = tiles * ROWS < OTHERS ? tiles * ROWS : OTHERS;
    l.grid = dim3((unsigned)(t->n * t->heads), (unsigned)blocks);
    l.forward = (size_t)l.others * 2 * row;
    l.backward = (size_t)l.others * ((blocks == 1 ? 4 : 2) * row + 2 * sizeof(float)) + (size_t)(l.threads / 32 * ROWS) * row;
    return l;
}

static bool whole_pieces(const gf_cunn_heads *h) { return (uintptr_t)h->at % 16 == 0 && h->step % 8 == 0; }

/* Packed sequences with heads of 32 go to the float kernels until a GPU has compared them here. */
int gf_cunn_attention_mma_fits(const gf_cunn_attention *t) {
    return t->type == GF_TYPE_BF16 && (t->dim == 64 || (t->dim == 32 && !t->first)) && whole_pieces(&t->q) &&
           whole_pieces(&t->k) && whole_pieces(&t->v) && whole_pieces(&t->y) && whole_pieces(&t->dq) && whole_pieces(&t->dk) &&
           whole_pieces(&t->dv) && whole_pieces(&t->dy);
}

void gf_cunn_attention_mma(gf_nn_engine *s, const gf_cunn_attention *t) {
    const layout l = layout_of(t);
    if (t->dim == 32) forward_kernel<32><<<l.grid, l.threads, l.forward, s->stream>>>(*t, l.others);
    else forward_kernel<64><<<l.grid, l.threads, l.forward, s->stream>>>(*t, l.others);
    gf_cunn_note(s, cudaGetLastError(), "attention");
}

template <int D, bool WHOLE> static void backward(gf_nn_engine *s, const gf_cunn_attention *t, const layout &l) {
    gf_cunn_note(s, gf_cuda_allow_shared((const void *)back_kernel<D, WHOLE>), "attention, backward");
    back_kernel<D, WHOLE><<<l.grid, l.threads, l.backward, s->stream>>>(*t, l.others);
    gf_cunn_note(s, cudaGetLastError(), "attention, backward");
}

void gf_cunn_attention_mma_back(gf_nn_engine *s, const gf_cunn_attention *t) {
    const layout l = layout_of(t);
    const bool one = l.grid.y == 1;
    if (t->dim == 32) one ? backward<32, true>(s, t, l) : backward<32, false>(s, t, l);
    else one ? backward<64, true>(s, t, l) : backward<64, false>(s, t, l);
}

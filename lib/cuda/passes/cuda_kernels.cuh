/* cuda_kernels.cuh - arguments of the kernels of a pass, by value, and their launchers. */
#pragma once

#include <cuda_bf16.h>
#include <math_constants.h>

#include "cuda/passes/cuda_pass.h"

/* ---------- Arguments ----------
 *
 * Positions fit int: a batch has at most 2^24 samples.
 */

#define GF_ABOVE 0x40000000u /* gf_tile_args.flags: stats only counts the pairs above mid */

struct gf_operand {   /* one side of a product */
    const float *f32; /* [rows][ld] */
    const __nv_bfloat16 *hi, *lo;
    int rows;
};

struct gf_tile_args {
    gf_operand q, k, score, col_score; /* score.f32 NULL: S itself scores */
    int dim, ld;
    int q0, shift;
    const int32_t *row_key, *col_key; /* NULL, or for the kernels of GF_ANY_KEYED */
    gf_cuda_rows row, col;
    int col_role;
    unsigned flags;
    float omega, bias;
    const float *bias_at; /* NULL: it is `bias` */
    void *buffer;         /* of gf_cuda_pass */
    size_t buffer_bytes;
    int fixed; /* GF_SHIFT: kernels may use the fixed peak */
    int when;  /* 1: they run only if 1/tau, on the device, is within GF_FIXED_LIMIT; -1: only if not; 0: always */
};

/* The largest exponent is then 70, so that a row of 10^7 numbers has a finite sum; similarities down to 1 - 157 tau count. */
__device__ __forceinline__ float gf_fixed_peak(float inv_tau) { return fmaxf(0.0f, inv_tau - 70.0f); }

/* w of a row or a column. */
__device__ __forceinline__ float gf_fixed_weight(float log_w, float inv_tau) {
    return expf(fminf(log_w + gf_fixed_peak(inv_tau), 88.0f));
}

__device__ __forceinline__ bool gf_is_off(const gf_tile_args &a) {
    return a.when != 0 && (a.row.inv_tau[0] <= GF_FIXED_LIMIT) != (a.when > 0);
}

static inline gf_operand gf_operand_of(const gf_cuda_embed *e) {
    gf_operand x = {};
    if (!e) return x;
    x.f32 = e->f32.row;
    x.hi = static_cast<const __nv_bfloat16 *>(e->hi);
    x.lo = static_cast<const __nv_bfloat16 *>(e->lo);
    x.rows = static_cast<int>(e->f32.rows);
    return x;
}

/* FLAGS of a kernel: constant flags, or any. GF_SIGMOID has kernels of its own: its code would slow down those of other losses. */
#define GF_ANY_FLAGS 0xffffffffu   /* without GF_SIGMOID */
#define GF_ANY_SIGMOID 0x7fffffffu /* with it */
#define GF_ANY_KEYED 0xdfffffffu   /* with or without it, and with keys: likewise */

constexpr bool gf_is_any(unsigned flags) { return flags == GF_ANY_FLAGS || flags == GF_ANY_SIGMOID || flags == GF_ANY_KEYED; }

template <unsigned FLAGS> __device__ __forceinline__ unsigned gf_flags_of(const gf_tile_args &a) {
    if (!gf_is_any(FLAGS)) return FLAGS;
    if (FLAGS == GF_ANY_KEYED) return a.flags;
    return FLAGS == GF_ANY_FLAGS ? a.flags & ~unsigned(GF_SIGMOID) : (a.flags & ~unsigned(GF_SHIFT)) | GF_SIGMOID;
}

static inline gf_tile_args gf_tile_args_of(const gf_cuda_pass *p) {
    gf_tile_args a = {};
    a.q = gf_operand_of(p->q), a.k = gf_operand_of(p->k);
    a.score = gf_operand_of(p->score), a.col_score = gf_operand_of(p->col_score);
    a.dim = static_cast<int>(p->k->f32.dim), a.ld = static_cast<int>(p->k->f32.ld);
    a.q0 = static_cast<int>(p->q0), a.shift = p->shift;
    a.row_key = p->row_key, a.col_key = p->col_key;
    a.row = *p->row;
    if (p->col) a.col = *p->col;
    a.col_role = p->col_role;
    a.flags = p->flags;
    a.omega = p->omega, a.bias = p->bias, a.bias_at = p->bias_at;
    a.buffer = p->buffer, a.buffer_bytes = p->buffer_bytes;
    return a;
}

/* Rows r and c of different samples, both inside the batch. */
__device__ __forceinline__ bool gf_is_pair(const gf_tile_args &a, int r, int c) {
    if (r >= a.q.rows || c >= a.k.rows) return false;
    return a.shift < 0 || (a.q0 + r) >> a.shift != c >> a.shift;
}

/* Row keys and column keys that are equal mean one anchor; negative: a row that shares its anchor with none. */
__device__ __forceinline__ bool gf_one_anchor(const int32_t *row_key, const int32_t *col_key, int r, int c) {
    return row_key[r] >= 0 && row_key[r] == col_key[c];
}

/* gf_is_pair of the kernels with these FLAGS. */
template <unsigned FLAGS> __device__ __forceinline__ bool gf_is_pair_of(const gf_tile_args &a, int r, int c) {
    return gf_is_pair(a, r, c) && !(FLAGS == GF_ANY_KEYED && gf_one_anchor(a.row_key, a.col_key, r, c));
}

/* True if rows [r0, r0 + m) and columns [c0, c0 + n) hold an entry that is no pair. Rows past the end do not count. */
__device__ __forceinline__ bool gf_has_blanks(const gf_tile_args &a, int r0, int m, int c0, int n) {
    if (c0 + n > a.k.rows) return true;
    if (a.shift < 0) return false;
    const int first = (a.q0 + r0) >> a.shift << a.shift, last = a.q0 + r0 + m + (1 << a.shift);
    return c0 < last && c0 + n > first;
}

/* ---------- Launchers ---------- */

cudaError_t gf_stats_exact(const gf_tile_args &a, cudaStream_t stream);
cudaError_t gf_grad_exact(const gf_tile_args &a, cudaStream_t stream);

/* On tensor cores. cudaErrorNotSupported where there is no kernel for the dimension. */
cudaError_t gf_stats_bf16(const gf_tile_args &a, cudaStream_t stream);
cudaError_t gf_stats_split(const gf_tile_args &a, cudaStream_t stream);
cudaError_t gf_grad_bf16(const gf_tile_args &a, cudaStream_t stream);
cudaError_t gf_grad_split(const gf_tile_args &a, cudaStream_t stream);
cudaError_t gf_stats_keyed(const gf_tile_args &a, int halves, cudaStream_t stream);
cudaError_t gf_grad_keyed(const gf_tile_args &a, int halves, cudaStream_t stream);

static inline int gf_device_attribute(cudaDeviceAttr what) {
    int device = 0, value = 0;
    if (cudaGetDevice(&device) != cudaSuccess || cudaDeviceGetAttribute(&value, what, device) != cudaSuccess) return 0;
    return value;
}

/* Rows of a tensor-core block: as many as keep all multiprocessors busy; 16, 32, 64, 128 or 256. */
static inline int gf_block_rows(int rows) {
    const int count = gf_device_attribute(cudaDevAttrMultiProcessorCount);
    return rows <= 16 * count ? 16 : rows <= 32 * count ? 32 : rows <= 64 * count ? 64 : rows <= 128 * count ? 128 : 256;
}

/* Writes similarities of rows [r0, r0 + rows) to s [rows][columns], NaN where there is no pair, with the bits of the passes of
 * this math. */
struct gf_product_args {
    gf_operand q, k; /* q: all rows */
    int ld, r0, rows, q0, shift;
    const int64_t *row_id, *col_id;   /* equal ids are no pair; NULL: none */
    const int32_t *row_key, *col_key; /* NULL, or as gf_tile_args */
    float *s;
    const int64_t *live; /* columns from *live on are no pairs; NULL: none */
};
cudaError_t gf_product_exact(const gf_product_args &a, cudaStream_t stream);
cudaError_t gf_product_mma(const gf_product_args &a, int halves, cudaStream_t stream);
cudaError_t gf_product(const gf_product_args &a, gf_cuda_math math, cudaStream_t stream); /* one of the above */

__device__ __forceinline__ void gf_product_put(const gf_product_args &a, int r, int c, float v) {
    if (r >= a.r0 + a.rows || r >= a.q.rows || c >= a.k.rows) return;
    if (a.live && c >= *a.live) v = CUDART_NAN_F;
    const bool same = (a.shift >= 0 && (a.q0 + r) >> a.shift == c >> a.shift) || (a.row_id && a.row_id[r] == a.col_id[c]);
    const bool keyed = a.row_key && gf_one_anchor(a.row_key, a.col_key, r, c);
    float *s = a.s + static_cast<int64_t>(r - a.r0) * a.k.rows + c;
    *s = same || keyed ? CUDART_NAN_F : v;
}

/* Rows whose similarities to `cols` columns are written at a time: about 16 MB, which fit the cache. */
static inline int64_t gf_product_rows(int64_t rows, int64_t cols) {
    const int64_t max = (INT64_C(16) << 20) / (4 * cols) / 64 * 64, chunk = max < 64 ? 64 : max;
    return rows < chunk ? rows : chunk;
}

/* ---------- Faster kernels on Hopper: cuda/sm90, with GLOFND_HOPPER ---------- */

enum gf_pass_kind { GF_PASS_STATS, GF_PASS_GRAD }; /* stats: also count, by GF_ABOVE */

struct gf_hopper_kernels { /* each for the current device, which may be another GPU: then they serve nothing */
    /* Runs the pass if these kernels are faster: then true, and *status. halves of an operand; 0: exact products. mirror: the columns'
     * anchors, for which the same product works, too; NULL: the rows alone. */
    bool (*pass)(gf_pass_kind kind, const gf_tile_args &a, int halves, const gf_cuda_rows *mirror, cudaStream_t stream,
                 cudaError_t *status);
    /* It would do so by kernels that need a fixed peak. */
    bool (*wants_fixed)(gf_pass_kind kind, const gf_tile_args &a, int halves, const gf_cuda_rows *mirror);
    /* Count, the move of lambda and stats at once. */
    size_t (*move_bytes)(int rows, int cols);
    bool (*can_move)(const gf_tile_args &a, int halves, const gf_cuda_moving *m);
    cudaError_t (*move)(const gf_tile_args &a, const gf_cuda_moving *m, int side, cudaStream_t stream);
    /* There are kernels for wide embeddings of this kind, which need a buffer. */
    bool (*has_wide)(int device, int64_t ld, int halves);
};
extern const gf_hopper_kernels *const gf_hopper; /* NULL: built without GLOFND_HOPPER */

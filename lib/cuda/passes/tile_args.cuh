/* tile_args.cuh - arguments of the kernels of a pass, by value. Positions fit int: a batch has at most 2^24 samples. */
#pragma once

#include <cuda_bf16.h>

#include "cuda/passes/cuda_pass.h"

#define GF_ABOVE 0x40000000u /* gf_tile_args.flags: stats only counts the pairs above mid */

struct gf_operand {   /* one side of a product */
    const float *f32; /* [rows][ld] */
    const __nv_bfloat16 *hi, *lo;
    int rows;
};

struct gf_tile_args {
    gf_operand q, k, score, col_score; /* score.f32 NULL: S itself scores */
    int scores;                        /* a score is the largest of so many, ... */
    int64_t score_step;                /* ... whose vectors lie this many numbers apart */
    int dim, ld;
    int q0, shift;
    gf_rows row, col;
    int col_role;
    unsigned flags;
    float omega;
    void *buffer; /* of gf_cuda_pass */
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

static inline gf_tile_args gf_tile_args_of(const gf_cuda_pass *p) {
    gf_tile_args a = {};
    a.q = gf_operand_of(p->q), a.k = gf_operand_of(p->k);
    a.score = gf_operand_of(p->score), a.col_score = gf_operand_of(p->col_score);
    a.scores = p->p.scores > 1 ? p->p.scores : 1, a.score_step = p->p.score_stride * p->k->f32.ld;
    a.dim = static_cast<int>(p->k->f32.dim), a.ld = static_cast<int>(p->k->f32.ld);
    a.q0 = static_cast<int>(p->p.q0), a.shift = p->p.shift;
    a.row = *p->p.row;
    if (p->p.col) a.col = *p->p.col;
    a.col_role = p->p.col_role;
    a.flags = p->p.flags;
    a.omega = p->p.omega;
    a.buffer = p->buffer, a.buffer_bytes = p->buffer_bytes;
    return a;
}

/* Rows r and c of different samples, both inside the batch. */
__device__ __forceinline__ bool gf_is_pair(const gf_tile_args &a, int r, int c) {
    if (r >= a.q.rows || c >= a.k.rows) return false;
    return a.shift < 0 || (a.q0 + r) >> a.shift != c >> a.shift;
}

/* True if rows [r0, r0 + m) and columns [c0, c0 + n) hold an entry that is no pair. Rows past the end do not count. */
__device__ __forceinline__ bool gf_has_blanks(const gf_tile_args &a, int r0, int m, int c0, int n) {
    if (c0 + n > a.k.rows) return true;
    if (a.shift < 0) return false;
    const int first = (a.q0 + r0) >> a.shift << a.shift, last = a.q0 + r0 + m + (1 << a.shift);
    return c0 < last && c0 + n > first;
}

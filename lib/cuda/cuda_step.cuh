/* cuda_step.cuh - shared by the kernels of a step: failures, links, totals. */
#pragma once

#include "cuda/cuda_step.h"
#include "cuda/cuda_sum.cuh"
#include "cuda/passes/tile_args.cuh"

/* This step failed, or an earlier one whose failure the host has not read yet: the store stays as it is. */
__device__ __forceinline__ bool gf_failed(const gf_cuda_control *c) {
    return c->bad_embed != GF_CUDA_FINE || c->bad_support != GF_CUDA_FINE || c->bad_id != GF_CUDA_FINE ||
           c->bad_tau != GF_CUDA_FINE || c->bad_row != GF_CUDA_FINE;
}

__device__ __forceinline__ glofnd_row gf_moved_shared(const gf_cuda_step &x, int side) {
    const gf_cuda_control *c = x.control;
    glofnd_row row = c->shared[side];
    if (c->shared_open[side]) gf_lambda_update(&x.plan.learner, &row, c->above[side][0] / c->above[side][1]);
    return row;
}

/* The temperature of the step; individual ones are in the rows. */
__device__ __forceinline__ double gf_step_tau(const gf_cuda_step &x) { return x.tau ? double(*x.tau) : x.plan.tau; }

/* Row r of side i is link 2 * sample + (view or side). */
__device__ __forceinline__ int64_t gf_link_place(const gf_cuda_step &x, int i, int64_t r) {
    return x.plan.per_sample == 2 ? r : 2 * r + i;
}

/* Numbers of row r of all rows, for pass C. */
__device__ __forceinline__ void gf_put_link(const gf_cuda_step &x, int i, int64_t r, const gf_link &l) {
    const gf_rows &y = x.side[i].every;
    y.theta[r] = gf_row_theta(&x.plan, &l);
    y.floor[r] = l.floor;
    y.log_w[r] = l.log_w;
    y.w[r] = gf_fixed_weight(l.log_w, l.inv_tau);
    y.inv_tau[r] = l.inv_tau;
    y.attract[r] = l.attract;
    y.tie[r] = l.tie;
    x.side[i].pos[r] = l.pos;
}

/* Adds up partial [blocks][COUNT] into out, in the last block. All its threads call this. */
template <int COUNT, int THREADS>
__device__ __forceinline__ void gf_sum_blocks(const double *partial, unsigned blocks, double *out) {
    double sum[COUNT] = {};
    for (unsigned b = threadIdx.x; b < blocks; b += THREADS)
        for (int i = 0; i < COUNT; i++) sum[i] += __ldcg(&partial[size_t(b) * COUNT + i]);
    __syncthreads();
    gf_block_sum<COUNT, THREADS>(sum, out);
}

/* ----- totals of the first half: finish writes them per row, extra blocks of write add them up ----- */

#define GF_SUM_THREADS 128

__device__ __forceinline__ void gf_note_row(const gf_cuda_step &x, int i, int64_t r, const gf_totals &t) {
    const int64_t own = x.plan.rows * x.plan.per_sample, rows = own * x.plan.sides;
    const double fields[GF_ROW_FIELDS] = {t.loss,          t.grad_scale, t.rank_part, t.rank_part_scale, t.log_u,  t.kept,
                                          t.detector_kept, t.lambda,     t.tau,       t.quantile,        t.rescued};
    for (int f = 0; f < GF_ROW_FIELDS; f++) x.row_totals[f * rows + i * own + r] = fields[f];
}

/* Block `block` of `blocks`, of GF_SUM_THREADS rows each; the last one also ends the step. */
__device__ __forceinline__ void gf_sum_rows(const gf_cuda_step &x, unsigned block, unsigned blocks) {
    const int64_t rows = x.plan.rows * x.plan.per_sample * x.plan.sides, r = int64_t(block) * GF_SUM_THREADS + threadIdx.x;
    for (int64_t at = r; at < 2 * x.plan.cols; at += int64_t(blocks) * GF_SUM_THREADS) x.seen_ids[at] = 0;
    double fields[GF_ROW_FIELDS];
    for (int f = 0; f < GF_ROW_FIELDS; f++) fields[f] = r < rows ? x.row_totals[f * rows + r] : 0.0;
    gf_block_sum<GF_ROW_FIELDS, GF_SUM_THREADS>(fields, x.partial + size_t(block) * GF_ROW_FIELDS);
    gf_cuda_control *c = x.control;
    if (!gf_is_last_block(c, blocks)) return;
    gf_sum_blocks<GF_ROW_FIELDS, GF_SUM_THREADS>(x.partial, blocks, reinterpret_cast<double *>(&c->sum));
    if (threadIdx.x) return;
    c->starts[0] = c->starts[1] = 0;
    c->seen = 0;
    c->sum.tau_used = gf_step_tau(x);
}

static inline unsigned gf_sum_rows_blocks(const gf_cuda_step *x) {
    const int64_t rows = x->plan.rows * x->plan.per_sample * x->plan.sides;
    return static_cast<unsigned>((rows + GF_SUM_THREADS - 1) / GF_SUM_THREADS);
}

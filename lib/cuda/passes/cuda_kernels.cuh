/* cuda_kernels.cuh - launchers of the kernels behind cuda_pass.h; each is one file. */
#pragma once

#include <math_constants.h>

#include "cuda/passes/tile_args.cuh"

cudaError_t gf_stats_exact(const gf_tile_args &a, cudaStream_t stream);
cudaError_t gf_grad_exact(const gf_tile_args &a, cudaStream_t stream);

/* On tensor cores. cudaErrorNotSupported where there is no kernel for the dimension. */
cudaError_t gf_stats_bf16(const gf_tile_args &a, cudaStream_t stream);
cudaError_t gf_stats_split(const gf_tile_args &a, cudaStream_t stream);
cudaError_t gf_grad_bf16(const gf_tile_args &a, cudaStream_t stream);
cudaError_t gf_grad_split(const gf_tile_args &a, cudaStream_t stream);

/* On Hopper, 128 dimensions, bf16, flags none or GF_MASK and GF_COUNT; stats: also with GF_MOMENT. Rows of q and k are aligned to
 * 16 bytes. */
bool gf_stats_can_wgmma(const gf_tile_args &a);
cudaError_t gf_stats_wgmma(const gf_tile_args &a, cudaStream_t stream);
/* The same where rows and columns are the same and the buffer holds partial sums: each product serves both anchors. */
bool gf_stats_can_pairs(const gf_tile_args &a);
cudaError_t gf_stats_pairs(const gf_tile_args &a, cudaStream_t stream);
/* Count, the move of lambda and stats at once; whole rows, GF_MASK and GF_COUNT. The buffer has the lists. */
size_t gf_stats_moving_bytes(int rows, int cols);
bool gf_stats_can_moving(const gf_tile_args &a, const gf_cuda_moving *m);
cudaError_t gf_stats_moving(const gf_tile_args &a, const gf_cuda_moving *m, int side, cudaStream_t stream);
/* The same flags, with or without GF_QUALITY; whole rows. */
bool gf_grad_can_wgmma(const gf_tile_args &a);
cudaError_t gf_grad_wgmma(const gf_tile_args &a, cudaStream_t stream);

/* On Hopper, 256 dimensions and more, bf16, all flags but GF_TIE and GF_MARKS; grad: nor GF_COLSUM. For batches that are not
 * small, where the buffer holds partial sums, or the weights of some rows. */
bool gf_stats_can_wide(const gf_tile_args &a);
bool gf_grad_can_wide(const gf_tile_args &a);
cudaError_t gf_stats_wide(const gf_tile_args &a, cudaStream_t stream);
cudaError_t gf_grad_wide(const gf_tile_args &a, cudaStream_t stream);

/* The same for large batches, where the flags are those that matter most; grad: none or GF_MASK. `mirror`: the columns' anchors,
 * whose sums and gradients are wanted, too; it is a.row where rows and columns are the same. NULL: rows only. halves: 1, or 2 for
 * SPLIT, from 128 dimensions on. `cluster`: thread blocks that share columns, 1 or 2; in halves 2. GF_LARGE_FLOW: the kernels of
 * tile_flow.cuh, which use a tile while they compute the next one; not in halves. */
#define GF_LARGE_CLUSTER 2
#define GF_LARGE_FLOW 0
bool gf_stats_can_large(const gf_tile_args &a, const gf_rows *mirror, int halves);
bool gf_grad_can_large(const gf_tile_args &a, const gf_rows *mirror, int halves);
cudaError_t gf_stats_large(const gf_tile_args &a, const gf_rows *mirror, int halves, int cluster, cudaStream_t stream);
cudaError_t gf_grad_large(const gf_tile_args &a, const gf_rows *mirror, int halves, int cluster, cudaStream_t stream);

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

/* The device is a Hopper, and there is code for it. */
static inline bool gf_is_hopper() {
#ifdef GF_HAVE_SM90
    return gf_device_attribute(cudaDevAttrComputeCapabilityMajor) == 9;
#else
    return false;
#endif
}

/* Writes similarities of rows [r0, r0 + rows) to s [rows][columns], NaN where there is no pair, with the bits of the passes of
 * this math. */
struct gf_product_args {
    gf_operand q, k; /* q: all rows */
    int ld, r0, rows, q0, shift;
    const int64_t *row_id, *col_id; /* equal ids are no pair; NULL: none */
    float *s;
    const int64_t *live; /* columns from *live on are no pairs; NULL: none */
    int raises;          /* s holds similarities of the same pairs, and keeps the larger ones */
};
cudaError_t gf_product_exact(const gf_product_args &a, cudaStream_t stream);
cudaError_t gf_product_mma(const gf_product_args &a, int halves, cudaStream_t stream);
cudaError_t gf_product(const gf_product_args &a, gf_cuda_math math, cudaStream_t stream); /* one of the above */
/* The largest of `copies` products, the rows of q `step` numbers apart. EXACT, if there are several. */
cudaError_t gf_product_of_copies(gf_product_args a, int copies, int64_t step, gf_cuda_math math, cudaStream_t stream);

__device__ __forceinline__ void gf_product_put(const gf_product_args &a, int r, int c, float v) {
    if (r >= a.r0 + a.rows || r >= a.q.rows || c >= a.k.rows) return;
    if (a.live && c >= *a.live) v = CUDART_NAN_F;
    const bool same = (a.shift >= 0 && (a.q0 + r) >> a.shift == c >> a.shift) || (a.row_id && a.row_id[r] == a.col_id[c]);
    float *s = a.s + static_cast<int64_t>(r - a.r0) * a.k.rows + c;
    *s = same ? CUDART_NAN_F : a.raises ? fmaxf(v, *s) : v;
}

/* gf_cuda_select_rows where values alone are asked for, of all columns. */
cudaError_t gf_quantile_rows(const gf_cuda_select *p, cudaStream_t stream);

/* Rows whose similarities to `cols` columns are written at a time: about 16 MB, which fit the cache. */
static inline int64_t gf_product_rows(int64_t rows, int64_t cols) {
    const int64_t max = (INT64_C(16) << 20) / (4 * cols) / 64 * 64, chunk = max < 64 ? 64 : max;
    return rows < chunk ? rows : chunk;
}

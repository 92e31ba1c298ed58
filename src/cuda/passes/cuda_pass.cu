/* cuda_pass.cu - choice of the kernel for a pass. */
#include "cuda/passes/cuda_kernels.cuh"

/* Tensor cores take as many dimensions as fit in shared memory. Scores of support vectors need products of their own, which only
 * the exact kernels compute. */
static int halves_of(gf_cuda_math math, int ld, bool scored) {
    const int halves = math == GF_CUDA_BF16 ? 1 : 2;
    return math == GF_CUDA_EXACT || ld > 1024 / halves || scored ? 0 : halves;
}

static int pass_halves(const gf_cuda_pass *p, const gf_tile_args &a) {
    return halves_of(p->math, a.ld, a.flags & GF_TIE && (a.score.f32 || a.col_score.f32));
}

#ifdef GF_HAVE_SM90
/* True where warpgroups are faster: few rows make too few blocks of 64 for all multiprocessors. */
static bool pays_by_warpgroups(const gf_tile_args &a) { return gf_block_rows(a.q.rows) > 16; }

/* True where pairs are, too: with thresholds, complete rows are faster in blocks of 64. */
static bool pays_in_pairs(const gf_tile_args &a) { return a.flags == 0 || gf_block_rows(a.q.rows) != 64; }

/* True where a gradient is faster by warpgroups. Of the kernels for few rows only the general one counts quality. */
static bool grad_pays_by_warpgroups(const gf_tile_args &a) { return a.flags & GF_QUALITY || pays_by_warpgroups(a); }
#endif

static cudaError_t stats_bf16(const gf_tile_args &a, cudaStream_t stream) {
#ifdef GF_HAVE_SM90
    if (gf_is_hopper() && pays_by_warpgroups(a)) {
        if (pays_in_pairs(a) && gf_stats_can_pairs(a)) return gf_stats_pairs(a, stream);
        if (gf_stats_can_wgmma(a)) return gf_stats_wgmma(a, stream);
    }
    if (gf_is_hopper() && gf_stats_can_wide(a)) return gf_stats_wide(a, stream);
#endif
    return gf_stats_bf16(a, stream);
}

static cudaError_t grad_bf16(const gf_tile_args &a, cudaStream_t stream) {
#ifdef GF_HAVE_SM90
    if (gf_is_hopper() && grad_pays_by_warpgroups(a) && gf_grad_can_wgmma(a)) return gf_grad_wgmma(a, stream);
    if (gf_is_hopper() && gf_grad_can_wide(a)) return gf_grad_wide(a, stream);
#endif
    return gf_grad_bf16(a, stream);
}

static cudaError_t stats(const gf_tile_args &a, int halves, cudaStream_t stream) {
    if (a.q.rows == 0) return cudaSuccess;
    switch (halves) {
    case 1: return stats_bf16(a, stream);
    case 2: return gf_stats_split(a, stream);
    default: return gf_stats_exact(a, stream);
    }
}

cudaError_t gf_cuda_stats(const gf_cuda_pass *p, cudaStream_t stream) {
    const gf_tile_args a = gf_tile_args_of(p);
    return stats(a, pass_halves(p, a), stream);
}

cudaError_t gf_cuda_count(const gf_cuda_pass *p, cudaStream_t stream) {
    gf_tile_args a = gf_tile_args_of(p);
    a.flags = GF_ABOVE;
    return stats(a, pass_halves(p, a), stream);
}

cudaError_t gf_cuda_grad(const gf_cuda_pass *p, cudaStream_t stream) {
    const gf_tile_args a = gf_tile_args_of(p);
    if (a.q.rows == 0) return cudaSuccess;
    switch (pass_halves(p, a)) {
    case 1: return grad_bf16(a, stream);
    case 2: return gf_grad_split(a, stream);
    default: return gf_grad_exact(a, stream);
    }
}

cudaError_t gf_product(const gf_product_args &a, gf_cuda_math math, cudaStream_t stream) {
    const int halves = halves_of(math, a.ld, false);
    return halves ? gf_product_mma(a, halves, stream) : gf_product_exact(a, stream);
}

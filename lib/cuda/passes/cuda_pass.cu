/* cuda_pass.cu - choice of the kernel for a pass. */
#include "cuda/passes/cuda_kernels.cuh"

/* Kernels for any flags keep rows in shared memory, which takes so many dimensions. */
static bool fits(int ld, int halves) { return ld <= 1024 / halves; }

/* Halves of an operand on tensor cores; 0: the exact kernels, which alone compute scores of support vectors. */
static int pass_halves(const gf_cuda_pass *p, const gf_tile_args &a) {
    const bool scored = a.flags & GF_TIE && (a.score.f32 || a.col_score.f32);
    return p->math == GF_CUDA_EXACT || a.ld > 1024 || scored ? 0 : p->math == GF_CUDA_BF16 ? 1 : 2;
}

#ifdef GF_HAVE_HOPPER
/* True where warpgroups are faster: few rows make too few blocks of 64 for all multiprocessors. */
static bool pays_by_warpgroups(const gf_tile_args &a) { return gf_block_rows(a.q.rows) > 16; }

/* True where pairs are, too: with thresholds, complete rows are faster in blocks of 64. */
static bool pays_in_pairs(const gf_tile_args &a) { return a.flags == 0 || gf_block_rows(a.q.rows) != 64; }

/* True where whole rows in blocks of 64 are faster at once than count and stats one after the other. */
static bool pays_moving(int rows) { return gf_block_rows(rows) == 32 || gf_block_rows(rows) == 64; }

/* True where tiles of 128 x 256 are: about four for each multiprocessor. In halves there is no other kernel for warpgroups: those
 * for few rows are faster where most multiprocessors would have no tile of 128 x 128. */
static bool pays_as_large(const gf_tile_args &a, int halves) {
    const int64_t tiles = int64_t((a.q.rows + 127) / 128) * ((a.k.rows + 255) / 256);
    return halves == 2 ? tiles >= 8 : 8 * tiles >= 31 * int64_t(gf_device_attribute(cudaDevAttrMultiProcessorCount));
}

/* The large kernels that are faster: tiles in flow were measured from 32768 x 32768 similarities on. */
static bool pays_in_flow(const gf_tile_args &a, int halves) {
    return halves == 1 && int64_t(a.q.rows) * a.k.rows >= INT64_C(1) << 30;
}

/* True where a gradient is faster by warpgroups. Of the kernels for few rows only the general one counts quality. */
static bool grad_pays_by_warpgroups(const gf_tile_args &a) { return a.flags & GF_QUALITY || pays_by_warpgroups(a); }
#endif

static cudaError_t stats_bf16(const gf_tile_args &a, cudaStream_t stream) {
#ifdef GF_HAVE_HOPPER
    if (gf_is_hopper() && pays_by_warpgroups(a)) {
        if (pays_in_pairs(a) && gf_stats_can_pairs(a)) return gf_stats_pairs(a, stream);
        if (gf_stats_can_wgmma(a)) return gf_stats_wgmma(a, stream);
    }
    if (gf_is_hopper() && pays_as_large(a, 1) && gf_stats_can_large(a, NULL, 1))
        return gf_stats_large(a, NULL, 1, pays_in_flow(a, 1), stream);
    if (gf_is_hopper() && gf_stats_can_wide(a)) return gf_stats_wide(a, stream);
#endif
    return gf_stats_bf16(a, stream);
}

static cudaError_t grad_bf16(const gf_tile_args &a, cudaStream_t stream) {
#ifdef GF_HAVE_HOPPER
    if (gf_is_hopper() && grad_pays_by_warpgroups(a) && gf_grad_can_wgmma(a)) return gf_grad_wgmma(a, stream);
    if (gf_is_hopper() && pays_as_large(a, 1) && gf_grad_can_large(a, NULL, 1))
        return gf_grad_large(a, NULL, 1, pays_in_flow(a, 1), stream);
    if (gf_is_hopper() && gf_grad_can_wide(a)) return gf_grad_wide(a, stream);
#endif
    return gf_grad_bf16(a, stream);
}

/* ---- the sides of a step ---- */

static bool is_same(const gf_cuda_embed *x, const gf_cuda_embed *y) { return x->hi == y->hi && x->f32.rows == y->f32.rows; }

/* The anchors of the columns, if p [n] asks for what they get: those of the rows, or of the other pass. NULL: it does not. */
static const gf_cuda_rows *mirror_of(const gf_cuda_pass *p, int n) {
    const gf_cuda_pass *other = &p[n - 1];
    return p->q0 == 0 && other->q0 == 0 && is_same(p->q, other->k) && is_same(p->k, other->q) ? other->row : NULL;
}

struct large_kernels { /* that serve rows and columns with one product */
    bool (*can)(const gf_tile_args &a, const gf_cuda_rows *mirror, int halves);
    cudaError_t (*run)(const gf_tile_args &a, const gf_cuda_rows *mirror, int halves, bool flows, cudaStream_t stream);
};

#ifdef GF_HAVE_HOPPER
static const large_kernels large_stats = {gf_stats_can_large, gf_stats_large}, large_grad = {gf_grad_can_large, gf_grad_large};

static bool can_large(const large_kernels &large, const gf_tile_args &a, const gf_cuda_rows *mirror, int halves) {
    return halves && a.q.rows > 0 && gf_is_hopper() && pays_as_large(a, halves) && large.can(a, mirror, halves);
}
#else
static const large_kernels large_stats = {}, large_grad = {};

static bool can_large(const large_kernels &, const gf_tile_args &, const gf_cuda_rows *, int) { return false; }

static bool pays_in_flow(const gf_tile_args &, int) { return false; }
#endif

struct pass_kind {
    large_kernels large;
    cudaError_t (*bf16)(const gf_tile_args &a, cudaStream_t stream);
    cudaError_t (*split)(const gf_tile_args &a, cudaStream_t stream);
    cudaError_t (*exact)(const gf_tile_args &a, cudaStream_t stream);
};

static const pass_kind stats_kind = {large_stats, stats_bf16, gf_stats_split, gf_stats_exact},
                       grad_kind = {large_grad, grad_bf16, gf_grad_split, gf_grad_exact};

/* One side. */
static cudaError_t run_alone(const gf_tile_args &a, int halves, const pass_kind &kind, cudaStream_t stream) {
    if (a.q.rows == 0) return cudaSuccess;
    if (halves == 1) return kind.bf16(a, stream);
    if (halves == 2 && can_large(kind.large, a, NULL, 2)) return kind.large.run(a, NULL, 2, pays_in_flow(a, 2), stream);
    return halves == 2 && fits(a.ld, 2) ? kind.split(a, stream) : kind.exact(a, stream);
}

static gf_tile_args args_of(const gf_cuda_pass *p, unsigned flags, bool fixed, int when) {
    gf_tile_args a = gf_tile_args_of(p);
    a.flags = flags, a.fixed = fixed, a.when = when;
    return a;
}

/* p [n] at once, where one product serves all; else one after the other. */
static cudaError_t run_once(const gf_cuda_pass *p, int n, unsigned flags, const pass_kind &kind, bool fixed, int when,
                            cudaStream_t stream) {
    gf_tile_args a = args_of(p, flags, fixed, when);
    const gf_cuda_rows *mirror = mirror_of(p, n);
    const int halves = pass_halves(p, a);
    if (mirror && can_large(kind.large, a, mirror, halves))
        return kind.large.run(a, mirror, halves, pays_in_flow(a, halves), stream);
    cudaError_t e = cudaSuccess;
    for (int i = 0; e == cudaSuccess && i < n; i++) {
        a = args_of(&p[i], flags, fixed, when);
        e = run_alone(a, pass_halves(&p[i], a), kind, stream);
    }
    return e;
}

/* True if the large kernels would serve some of p [n]. */
static bool is_large(const gf_cuda_pass *p, int n, unsigned flags, const large_kernels &large) {
    for (int i = 0; i < n; i++) {
        const gf_tile_args a = args_of(&p[i], flags, true, 0);
        const int halves = pass_halves(&p[i], a);
        if (can_large(large, a, mirror_of(p, n), halves) || can_large(large, a, NULL, halves)) return true;
    }
    return false;
}

/* Where only the device knows the temperature, both kinds of kernels are queued; one of them does nothing. */
static cudaError_t run_sides(const gf_cuda_pass *p, int n, unsigned flags, const pass_kind &kind, cudaStream_t stream) {
    const bool shift = flags & GF_SHIFT;
    if (!(shift && p->tau == GF_TAU_ON_DEVICE && is_large(p, n, flags, kind.large)))
        return run_once(p, n, flags, kind, shift && p->tau == GF_TAU_ONE, 0, stream);
    const cudaError_t e = run_once(p, n, flags, kind, true, 1, stream);
    return e == cudaSuccess ? run_once(p, n, flags, kind, false, -1, stream) : e;
}

cudaError_t gf_cuda_stats(const gf_cuda_pass *p, int n, cudaStream_t stream) {
    return run_sides(p, n, p->flags, stats_kind, stream);
}

cudaError_t gf_cuda_count(const gf_cuda_pass *p, int n, cudaStream_t stream) {
    return run_sides(p, n, GF_ABOVE, stats_kind, stream);
}

cudaError_t gf_cuda_grad(const gf_cuda_pass *p, int n, cudaStream_t stream) {
    return run_sides(p, n, p->flags, grad_kind, stream);
}

size_t gf_cuda_move_bytes(int64_t rows, int64_t cols) {
#ifdef GF_HAVE_HOPPER
    const int r = static_cast<int>(rows), c = static_cast<int>(cols);
    return gf_is_hopper() && pays_moving(r) ? gf_stats_moving_bytes(r, c) : 0;
#else
    (void)rows, (void)cols;
    return 0;
#endif
}

#ifdef GF_HAVE_HOPPER
int gf_cuda_can_move(const gf_cuda_pass *p, int n, const gf_cuda_moving *m) {
    int can = gf_is_hopper();
    for (int i = 0; can && i < n; i++) {
        const gf_tile_args a = args_of(&p[i], p[i].flags, false, 0);
        can = pass_halves(&p[i], a) == 1 && pays_moving(a.q.rows) && gf_stats_can_moving(a, m);
    }
    return can;
}

cudaError_t gf_cuda_move(const gf_cuda_pass *p, int n, const gf_cuda_moving *m, cudaStream_t stream) {
    cudaError_t e = cudaSuccess;
    for (int i = 0; e == cudaSuccess && i < n; i++) e = gf_stats_moving(args_of(&p[i], p[i].flags, false, 0), m, i, stream);
    return e;
}
#else
int gf_cuda_can_move(const gf_cuda_pass *, int, const gf_cuda_moving *) { return 0; }

cudaError_t gf_cuda_move(const gf_cuda_pass *, int, const gf_cuda_moving *, cudaStream_t) { return cudaErrorNotSupported; }
#endif

cudaError_t gf_product(const gf_product_args &a, gf_cuda_math math, cudaStream_t stream) {
    const int halves = math == GF_CUDA_BF16 ? 1 : 2;
    return math != GF_CUDA_EXACT && fits(a.ld, halves) ? gf_product_mma(a, halves, stream) : gf_product_exact(a, stream);
}

cudaError_t gf_product_of_copies(gf_product_args a, int copies, int64_t step, gf_cuda_math math, cudaStream_t stream) {
    cudaError_t e = gf_product(a, math, stream);
    for (a.raises = 1; e == cudaSuccess && --copies > 0;) {
        a.q.f32 += step;
        e = gf_product(a, GF_CUDA_EXACT, stream);
    }
    return e;
}

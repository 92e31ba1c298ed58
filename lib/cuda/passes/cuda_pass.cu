/* cuda_pass.cu - choice of the kernel for a pass: exact, on tensor cores with bf16 operands, or in halves. On Hopper others may be
 * faster: cuda/sm90/hopper_pass.cu. */
#include "cuda/passes/cuda_kernels.cuh"

#ifndef GF_HAVE_HOPPER
const gf_hopper_kernels *const gf_hopper = NULL;
#endif

/* Kernels for any flags keep rows in shared memory, which takes so many dimensions. */
static bool fits(int ld, int halves) { return ld <= 1024 / halves; }

/* Halves of an operand on tensor cores; 0: none, exact products. */
static int math_halves(gf_cuda_math math) { return math == GF_CUDA_EXACT ? 0 : math == GF_CUDA_BF16 ? 1 : 2; }

/* The exact kernels alone compute scores of support vectors. */
static int pass_halves(const gf_cuda_pass *p, const gf_tile_args &a) {
    const bool scored = a.flags & GF_TIE && (a.score.f32 || a.col_score.f32);
    return a.ld > 1024 || scored ? 0 : math_halves(p->math);
}

static gf_tile_args args_of(const gf_cuda_pass *p, unsigned flags, bool fixed, int when) {
    gf_tile_args a = gf_tile_args_of(p);
    a.flags = flags, a.fixed = fixed, a.when = when;
    return a;
}

/* Those for Hopper know no keys. */
static bool serves_hopper(const gf_tile_args &a) { return gf_hopper && !a.row_key; }

/* One side. */
static cudaError_t run_alone(gf_pass_kind kind, const gf_tile_args &a, int halves, cudaStream_t stream) {
    const bool stats = kind == GF_PASS_STATS;
    cudaError_t e = cudaSuccess;
    if (a.q.rows == 0 || (serves_hopper(a) && gf_hopper->pass(kind, a, halves, NULL, stream, &e))) return e;
    if (a.row_key && halves > 0 && fits(a.ld, halves))
        return stats ? gf_stats_keyed(a, halves, stream) : gf_grad_keyed(a, halves, stream);
    if (halves == 1) return stats ? gf_stats_bf16(a, stream) : gf_grad_bf16(a, stream);
    if (halves == 2 && fits(a.ld, 2)) return stats ? gf_stats_split(a, stream) : gf_grad_split(a, stream);
    return stats ? gf_stats_exact(a, stream) : gf_grad_exact(a, stream);
}

/* ---- the sides of a step ---- */

static bool is_same(const gf_cuda_embed *x, const gf_cuda_embed *y) { return x->hi == y->hi && x->f32.rows == y->f32.rows; }

/* The anchors of the columns, if p [n] asks for what they get: those of the rows, or of the other pass. NULL: it does not. */
static const gf_cuda_rows *mirror_of(const gf_cuda_pass *p, int n) {
    const gf_cuda_pass *other = &p[n - 1];
    return p->q0 == 0 && other->q0 == 0 && is_same(p->q, other->k) && is_same(p->k, other->q) ? other->row : NULL;
}

/* p [n] at once, where one product serves all; else one after the other. */
static cudaError_t run_once(const gf_cuda_pass *p, int n, unsigned flags, gf_pass_kind kind, bool fixed, int when,
                            cudaStream_t stream) {
    gf_tile_args a = args_of(p, flags, fixed, when);
    const gf_cuda_rows *mirror = mirror_of(p, n);
    cudaError_t e = cudaSuccess;
    if (serves_hopper(a) && mirror && gf_hopper->pass(kind, a, pass_halves(p, a), mirror, stream, &e)) return e;
    for (int i = 0; e == cudaSuccess && i < n; i++) {
        a = args_of(&p[i], flags, fixed, when);
        e = run_alone(kind, a, pass_halves(&p[i], a), stream);
    }
    return e;
}

/* True if some of p [n] would be served by kernels that need a fixed peak. */
static bool wants_fixed(const gf_cuda_pass *p, int n, unsigned flags, gf_pass_kind kind) {
    for (int i = 0; gf_hopper && i < n; i++) {
        const gf_tile_args a = args_of(&p[i], flags, true, 0);
        if (!a.row_key && gf_hopper->wants_fixed(kind, a, pass_halves(&p[i], a), mirror_of(p, n))) return true;
    }
    return false;
}

/* Where only the device knows the temperature, both kinds of kernels are queued; one of them does nothing. */
static cudaError_t run_sides(const gf_cuda_pass *p, int n, unsigned flags, gf_pass_kind kind, cudaStream_t stream) {
    const bool shift = flags & GF_SHIFT;
    if (!(shift && p->tau == GF_TAU_ON_DEVICE && wants_fixed(p, n, flags, kind)))
        return run_once(p, n, flags, kind, shift && p->tau == GF_TAU_ONE, 0, stream);
    const cudaError_t e = run_once(p, n, flags, kind, true, 1, stream);
    return e == cudaSuccess ? run_once(p, n, flags, kind, false, -1, stream) : e;
}

cudaError_t gf_cuda_stats(const gf_cuda_pass *p, int n, cudaStream_t stream) {
    return run_sides(p, n, p->flags, GF_PASS_STATS, stream);
}

cudaError_t gf_cuda_count(const gf_cuda_pass *p, int n, cudaStream_t stream) {
    return run_sides(p, n, GF_ABOVE, GF_PASS_STATS, stream);
}

cudaError_t gf_cuda_grad(const gf_cuda_pass *p, int n, cudaStream_t stream) {
    return run_sides(p, n, p->flags, GF_PASS_GRAD, stream);
}

/* ---- count, the move of lambda and stats at once ---- */

size_t gf_cuda_move_bytes(int64_t rows, int64_t cols) {
    return gf_hopper ? gf_hopper->move_bytes(static_cast<int>(rows), static_cast<int>(cols)) : 0;
}

int gf_cuda_can_move(const gf_cuda_pass *p, int n, const gf_cuda_moving *m) {
    for (int i = 0; i < n; i++) {
        const gf_tile_args a = args_of(&p[i], p[i].flags, false, 0);
        if (!serves_hopper(a) || !gf_hopper->can_move(a, pass_halves(&p[i], a), m)) return 0;
    }
    return 1;
}

cudaError_t gf_cuda_move(const gf_cuda_pass *p, int n, const gf_cuda_moving *m, cudaStream_t stream) {
    cudaError_t e = cudaSuccess;
    for (int i = 0; e == cudaSuccess && i < n; i++) e = gf_hopper->move(args_of(&p[i], p[i].flags, false, 0), m, i, stream);
    return e;
}

int gf_cuda_has_wide(int device, int64_t ld, gf_cuda_math math) {
    return gf_hopper && gf_hopper->has_wide(device, ld, math_halves(math));
}

/* ---- similarities that are written ---- */

cudaError_t gf_product(const gf_product_args &a, gf_cuda_math math, cudaStream_t stream) {
    const int halves = math_halves(math);
    return halves > 0 && fits(a.ld, halves) ? gf_product_mma(a, halves, stream) : gf_product_exact(a, stream);
}

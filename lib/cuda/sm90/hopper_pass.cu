/* hopper_pass.cu - on Hopper: which kernel serves a pass faster than the portable ones of cuda_pass.cu, and where. */
#include "cuda/sm90/hopper.cuh"

static bool is_hopper(int device) {
    int major = 0;
    return cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device) == cudaSuccess && major == 9;
}

static bool is_on_hopper() { return gf_device_attribute(cudaDevAttrComputeCapabilityMajor) == 9; }

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

/* ---- large batches ---- */

static bool can_large(gf_pass_kind kind, const gf_tile_args &a, const gf_cuda_rows *mirror, int halves) {
    if (halves == 0 || a.q.rows == 0 || !is_on_hopper() || !pays_as_large(a, halves)) return false;
    return kind == GF_PASS_STATS ? gf_stats_can_large(a, mirror, halves) : gf_grad_can_large(a, mirror, halves);
}

static cudaError_t run_large(gf_pass_kind kind, const gf_tile_args &a, const gf_cuda_rows *mirror, int halves,
                             cudaStream_t stream) {
    const bool flows = pays_in_flow(a, halves);
    return kind == GF_PASS_STATS ? gf_stats_large(a, mirror, halves, flows, stream)
                                 : gf_grad_large(a, mirror, halves, flows, stream);
}

static bool wants_fixed(gf_pass_kind kind, const gf_tile_args &a, int halves, const gf_cuda_rows *mirror) {
    return can_large(kind, a, mirror, halves) || can_large(kind, a, NULL, halves);
}

/* ---- the rows alone, bf16 ---- */

static bool run_stats(const gf_tile_args &a, cudaStream_t stream, cudaError_t *status) {
    const bool warpgroups = pays_by_warpgroups(a);
    if (warpgroups && pays_in_pairs(a) && gf_stats_can_pairs(a)) *status = gf_stats_pairs(a, stream);
    else if (warpgroups && gf_stats_can_wgmma(a)) *status = gf_stats_wgmma(a, stream);
    else if (can_large(GF_PASS_STATS, a, NULL, 1)) *status = run_large(GF_PASS_STATS, a, NULL, 1, stream);
    else if (gf_stats_can_wide(a)) *status = gf_stats_wide(a, stream);
    else return false;
    return true;
}

/* Of the portable kernels for few rows only the general one counts quality. */
static bool run_grad(const gf_tile_args &a, cudaStream_t stream, cudaError_t *status) {
    const bool warpgroups = a.flags & GF_QUALITY || pays_by_warpgroups(a);
    if (warpgroups && gf_grad_can_wgmma(a)) *status = gf_grad_wgmma(a, stream);
    else if (can_large(GF_PASS_GRAD, a, NULL, 1)) *status = run_large(GF_PASS_GRAD, a, NULL, 1, stream);
    else if (gf_grad_can_wide(a)) *status = gf_grad_wide(a, stream);
    else return false;
    return true;
}

static bool run_pass(gf_pass_kind kind, const gf_tile_args &a, int halves, const gf_cuda_rows *mirror, cudaStream_t stream,
                     cudaError_t *status) {
    if (halves == 0 || !is_on_hopper()) return false;
    if (halves == 1 && !mirror) return kind == GF_PASS_STATS ? run_stats(a, stream, status) : run_grad(a, stream, status);
    if (!can_large(kind, a, mirror, halves)) return false;
    *status = run_large(kind, a, mirror, halves, stream);
    return true;
}

/* ---- count, the move of lambda and stats at once ---- */

static size_t move_bytes(int rows, int cols) {
    return is_on_hopper() && pays_moving(rows) ? gf_stats_moving_bytes(rows, cols) : 0;
}

static bool can_move(const gf_tile_args &a, int halves, const gf_cuda_moving *m) {
    return is_on_hopper() && halves == 1 && pays_moving(a.q.rows) && gf_stats_can_moving(a, m);
}

static bool has_wide(int device, int64_t ld, int halves) {
    return halves > 0 && ld >= (halves == 2 ? 128 : 256) && is_hopper(device);
}

static const gf_hopper_kernels kernels = {run_pass, wants_fixed, move_bytes, can_move, gf_stats_moving, has_wide};

const gf_hopper_kernels *const gf_hopper = &kernels;

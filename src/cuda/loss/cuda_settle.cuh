/* cuda_settle.cuh - one warp settles one row: with lo = hi at last, the entries of its list join its sums.
 *
 * The list comes in any order. So its terms are added as 64-bit integers, relative to the list's largest: at most 2^12 entries of
 * at most 2^48 each, exact sums of terms rounded to 2^-48, the same bits whatever the order.
 */
#ifndef GF_CUDA_SETTLE_CUH
#define GF_CUDA_SETTLE_CUH

#include "cuda/loss/tile_element.cuh"

#define GF_SETTLE_ONE 281474976710656.0         /* 2^48 */

__device__ __forceinline__ long long gf_warp_total(long long x) {
    for (int lanes = 16; lanes > 0; lanes /= 2) x += __shfl_xor_sync(0xffffffffu, x, lanes);
    return x;
}

__device__ __forceinline__ void gf_settle_sums(const gf_tile_args &a, int r, double list_sum, double list_moment, double flagged,
                                               float top) {
    const gf_rows &x = a.row;
    const float k = x.inv_tau[r];
    const double listed = double(k) * double(top);      /* exponent the list's terms are relative to */
    double peak = 0.0, scale = 1.0;
    if (a.flags & GF_SHIFT) {
        const float before = x.peak[r], after = fmaxf(before, k * top);
        scale = after == before ? 1.0 : exp(double(before) - double(after));
        x.peak[r] = after;
        peak = double(after);
    }
    const double factor = top == -CUDART_INF_F ? 0.0 : exp(listed - peak);
    x.sum[r] = x.sum[r] * scale + list_sum * factor;
    if (a.flags & GF_MOMENT) x.moment[r] = x.moment[r] * scale + list_moment * factor;
    if (a.flags & GF_ATTRACT) x.flagged_s[r] += flagged;
}

/* All 32 threads of a warp call this with the same r. */
__device__ __forceinline__ void gf_settle_row(const gf_tile_args &a, int r) {
    const int lane = threadIdx.x % 32, n = min(a.row.window_n[r], a.cap);
    const float *list = a.row.window + static_cast<int64_t>(r) * a.cap;
    const float lambda = a.row.lo[r], k = a.row.inv_tau[r];
    const bool weight = (a.flags & GF_WEIGHT) != 0;
    if (n == 0) return;
    float top = -CUDART_INF_F;
    long long kept = 0;
    for (int i = lane; i < n; i += 32) {
        kept += list[i] <= lambda;
        if (list[i] <= lambda || weight) top = fmaxf(top, list[i]);
    }
    kept = gf_warp_total(kept);
    if (lane == 0) a.row.kept[r] += static_cast<int>(kept);
    if (!(a.flags & GF_MASK)) return; /* everything was summed already */
    for (int lanes = 16; lanes > 0; lanes /= 2) top = fmaxf(top, __shfl_xor_sync(0xffffffffu, top, lanes));
    long long sum = 0, moment = 0, flagged = 0;
    for (int i = lane; i < n; i += 32) {
        const double v = double(list[i]);
        const bool keep = list[i] <= lambda;
        if (!keep) flagged += llrint(v * GF_SETTLE_ONE);
        if (!keep && !weight) continue;
        const double e = double(expf(k * (list[i] - top))) * (keep ? 1.0 : double(a.omega));
        sum += llrint(e * GF_SETTLE_ONE);
        moment += llrint(e * v * GF_SETTLE_ONE);
    }
    sum = gf_warp_total(sum), moment = gf_warp_total(moment), flagged = gf_warp_total(flagged);
    const double one = 1.0 / GF_SETTLE_ONE;
    if (lane == 0) gf_settle_sums(a, r, double(sum) * one, double(moment) * one, double(flagged) * one, top);
}

#endif

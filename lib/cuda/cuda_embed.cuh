/* cuda_embed.cuh - raw rows become unit rows in float32 and in the bf16 halves the tensor cores read. One warp per sample. */
#pragma once

#include "cuda/cuda_dtype.cuh"
#include "cuda/passes/tile_args.cuh"

#define GF_UNIT_TOLERANCE 4e-3 /* rounding to bf16 moves a length by up to 2^-8 */

struct gf_embed_args {
    gf_cuda_embed_job job;
    gf_cuda_embed za, zb;
};

__device__ __forceinline__ double gf_embed_sum(double x) {
    for (int lanes = 16; lanes > 0; lanes /= 2) x += __shfl_xor_sync(0xffffffffu, x, lanes);
    return x;
}

/* Row i of the caller's embeddings. */
template <class T> __device__ __forceinline__ const T *gf_embed_source(const gf_source &h, int64_t i) {
    return static_cast<const T *>(h.rows) + i * h.stride;
}

/* Length to divide by; a row that cannot be used is noted in *bad. */
template <class T> __device__ __forceinline__ double gf_embed_norm(const gf_embed_args &x, const T *h, int dim, long long place) {
    double square = 0.0;
#pragma unroll 4
    for (int d = threadIdx.x % 32; d < dim; d += 32) {
        const double v = double(gf_load(h + d));
        square += v * v;
    }
    square = gf_embed_sum(square);
    const double length = sqrt(square);
    const bool unit = x.job.normalize || fabs(length - 1.0) <= GF_UNIT_TOLERANCE;
    if ((!isfinite(square) || !unit) && threadIdx.x % 32 == 0 && x.job.bad)
        atomicMin(reinterpret_cast<long long *>(x.job.bad), place);
    return x.job.normalize ? fmax(length, 1e-12) : 1.0;
}

__device__ __forceinline__ void gf_embed_put(const gf_cuda_embed &e, int64_t row, int d, float z) {
    const int64_t at = row * e.f32.ld + d;
    const __nv_bfloat16 hi = __float2bfloat16_rn(z);
    e.f32.row[at] = z;
    if (e.hi) static_cast<__nv_bfloat16 *>(e.hi)[at] = hi;
    if (e.lo) static_cast<__nv_bfloat16 *>(e.lo)[at] = __float2bfloat16_rn(z - __bfloat162float(hi));
}

/* Writes both unit rows; returns their similarity. */
template <class T>
__device__ __forceinline__ double gf_embed_write(const gf_embed_args &x, int64_t i, double norm_a, double norm_b, int64_t row_a,
                                                 int64_t row_b) {
    const T *ha = gf_embed_source<T>(x.job.a, i), *hb = gf_embed_source<T>(x.job.b, i);
    const int dim = static_cast<int>(x.za.f32.dim);
    const double scale_a = 1.0 / norm_a, scale_b = 1.0 / norm_b;
    double dot = 0.0;
#pragma unroll 4
    for (int d = threadIdx.x % 32; d < x.za.f32.ld; d += 32) {
        const float a = d < dim ? float(double(gf_load(ha + d)) * scale_a) : 0.0f;
        gf_embed_put(x.za, row_a, d, a);
        if (!x.job.b.rows) continue;
        const float b = d < dim ? float(double(gf_load(hb + d)) * scale_b) : 0.0f;
        gf_embed_put(x.zb, row_b, d, b);
        dot += double(a) * double(b);
    }
    return gf_embed_sum(dot);
}

/* Sample i, by the 32 threads of a warp. */
template <class T> __device__ __forceinline__ void gf_embed_sample(const gf_embed_args &x, int64_t i) {
    const int dim = static_cast<int>(x.za.f32.dim);
    const int64_t row_a = x.job.first_a + i * x.job.step, row_b = x.job.first_b + i * x.job.step;
    const double norm_a = gf_embed_norm(x, gf_embed_source<T>(x.job.a, i), dim, 2 * i);
    const double norm_b = x.job.b.rows ? gf_embed_norm(x, gf_embed_source<T>(x.job.b, i), dim, 2 * i + 1) : 1.0;
    const double dot = gf_embed_write<T>(x, i, norm_a, norm_b, row_a, row_b);
    if (threadIdx.x % 32) return;
    if (x.job.norm_a) x.job.norm_a[row_a] = float(norm_a);
    if (x.job.norm_b && x.job.b.rows) x.job.norm_b[row_b] = float(norm_b);
    if (x.job.positive_a && x.job.b.rows) x.job.positive_a[row_a] = dot;
    if (x.job.positive_b && x.job.b.rows) x.job.positive_b[row_b] = dot;
}

static inline gf_embed_args gf_embed_args_of(const gf_cuda_embed_job *job) {
    gf_embed_args x = {};
    x.job = *job;
    x.za = *job->za;
    if (job->b.rows) x.zb = *job->zb;
    return x;
}

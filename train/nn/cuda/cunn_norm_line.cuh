/* cunn_norm_line.cuh - one channel of batch norm from its sums: mean, deviation, scale, running averages; backward, gradients of
 * gamma and beta and the coefficients of dx. Shared by all kernels that make sums: the same bits from the same sums. */
#pragma once

#include "nn/cuda/cunn.h"

struct norm_line { /* y = scale x + shift */
    double mean, var, istd;
    float scale, shift;
};

static __device__ inline norm_line line_of(const gf_nn_norm &n, int64_t i, double mean, double var) {
    norm_line l = {mean, var, 1 / sqrt(var + GF_NN_EPS), 0.0f, 0.0f};
    const double scale = (n.gamma ? (double)n.gamma[i] : 1.0) * l.istd;
    l.scale = (float)scale;
    l.shift = (float)((n.beta ? (double)n.beta[i] : 0.0) - mean * scale);
    return l;
}

static __device__ inline norm_line line_of_sums(const gf_nn_norm &n, int64_t i, double sum, double square, double count) {
    const double mean = sum / count, spread = square / count - mean * mean;
    return line_of(n, i, mean, spread < 0 ? 0 : spread); /* NaN passes */
}

static __device__ inline float moved(float old, double now) {
    return (float)((1 - GF_NN_MOMENTUM) * (double)old + GF_NN_MOMENTUM * now);
}

static __device__ inline void keep_line(const gf_nn_norm &n, int64_t i, const norm_line &l, double count) {
    n.mean[i] = (float)l.mean;
    n.istd[i] = (float)l.istd;
    n.scale[i] = l.scale;
    n.shift[i] = l.shift;
    n.running_mean[i] = moved(n.running_mean[i], l.mean);
    n.running_var[i] = moved(n.running_var[i], l.var * count / (count - 1));
}

/* Gradients of gamma and beta are of the own rows; the coefficients of dx are of all. */
static __device__ inline void own_gradients(const gf_nn_norm &n, int64_t i, double sum, double product) {
    if (!n.dgamma) return;
    n.dbeta[i] = (float)sum;
    n.dgamma[i] = (float)(product * (double)n.istd[i]);
}

/* dx = scale g + x (x - mean) + y */
static __device__ inline float2 coef_of_sums(const gf_nn_norm &n, int64_t i, double sum, double product, double count) {
    const double scale = (double)n.scale[i], istd = (double)n.istd[i];
    return make_float2((float)(-scale * istd * istd * product / count), (float)(-scale * sum / count));
}

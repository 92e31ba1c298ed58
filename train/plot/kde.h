/* kde.h - kernel density estimate with Gaussian kernels, on a grid. */
#pragma once

#include <stdint.h>

/* Silverman's bandwidth, 0.9 min(std, IQR / 1.34) n^(-1/5), of the finite values of x [n]; 0: fewer than two different values. */
double gf_kde_bandwidth(const float *x, int64_t n);
/* out [points]: density of the finite values of x at low + i (high - low) / (points - 1); its integral over the real line is 1.
 * All zero without values. Each value is first split between the two nearest grid points, which is accurate for steps below half
 * a bandwidth. */
void gf_kde(const float *x, int64_t n, double bandwidth, double low, double high, int points, double *out);

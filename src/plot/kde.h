/* kde.h - the density of a sample: Gaussian kernels, evaluated on a grid. */
#ifndef GF_PLOT_KDE_H
#define GF_PLOT_KDE_H

#include <stdint.h>

/* Silverman's bandwidth, 0.9 min(std, IQR / 1.34) n^(-1/5), of the finite values of x [n]; 0: fewer than two different ones. */
double gf_kde_bandwidth(const float *x, int64_t n);
/* Density of the finite values of x at low + i (high - low) / (points - 1); its integral over all of the line is 1. All zero
 * without a value. Values are first shared between the two nearest points of the grid, which is exact enough where a step is
 * below half a bandwidth. */
void gf_kde(const float *x, int64_t n, double bandwidth, double low, double high, int points, double *out);

#endif

/* pca.c - see pca.h: orthogonal iteration with X'X v; the covariance itself is never formed. */
#include "plot/pca.h"

#include <math.h>
#include <stdlib.h>

#include "util/rng.h"

enum { AXES = 2, ITERATIONS = 200 };

static double dot(const double *a, const double *b, int64_t n) {
    double s = 0.0;
    for (int64_t i = 0; i < n; i++) s += a[i] * b[i];
    return s;
}

/* Makes axis `a` orthogonal to the axes before it and of length 1; a zero vector stays. */
static void orthonormalise(double *axes, int a, int64_t dim) {
    double *v = axes + a * dim;
    for (int b = 0; b < a; b++) {
        const double along = dot(v, axes + b * dim, dim);
        for (int64_t k = 0; k < dim; k++) v[k] -= along * axes[b * dim + k];
    }
    const double length = sqrt(dot(v, v, dim));
    for (int64_t k = 0; k < dim; k++) v[k] = length > 1e-100 ? v[k] / length : 0.0;
}

static void project(const double *c, int64_t n, int64_t dim, const double *axis, double *along) {
    for (int64_t i = 0; i < n; i++) along[i] = dot(c + i * dim, axis, dim);
}

/* axis = C' along */
static void gather(const double *c, int64_t n, int64_t dim, const double *along, double *axis) {
    for (int64_t k = 0; k < dim; k++) axis[k] = 0.0;
    for (int64_t i = 0; i < n; i++)
        for (int64_t k = 0; k < dim; k++) axis[k] += along[i] * c[i * dim + k];
}

static void find_axes(const double *c, int64_t n, int64_t dim, double *axes, double *along) {
    for (int a = 0; a < AXES; a++) {
        gf_rng r = gf_rng_at(1, GF_RNG_INIT, 0, (uint64_t)a, 0);
        for (int64_t k = 0; k < dim; k++) axes[a * dim + k] = gf_rng_normal(&r);
        orthonormalise(axes, a, dim);
    }
    for (int round = 0; round < ITERATIONS; round++)
        for (int a = 0; a < AXES; a++) {
            project(c, n, dim, axes + a * dim, along);
            gather(c, n, dim, along, axes + a * dim);
            orthonormalise(axes, a, dim);
        }
}

static void orient(double *axis, int64_t dim) {
    int64_t largest = 0;
    for (int64_t k = 1; k < dim; k++)
        if (fabs(axis[k]) > fabs(axis[largest]) * (1.0 + 1e-9)) largest = k;
    const double sign = axis[largest] < 0.0 ? -1.0 : 1.0;
    for (int64_t k = 0; k < dim; k++) axis[k] *= sign;
}

static void centre(const float *x, int64_t n, int64_t dim, double *c) {
    for (int64_t k = 0; k < dim; k++) {
        double mean = 0.0;
        for (int64_t i = 0; i < n; i++) mean += (double)x[i * dim + k];
        for (int64_t i = 0; i < n; i++) c[i * dim + k] = (double)x[i * dim + k] - mean / (double)n;
    }
}

glofnd_status gf_pca(gf_error *err, const float *x, int64_t n, int64_t dim, double *y, double share[2]) {
    double *c = malloc((size_t)n * (size_t)dim * sizeof *c), *axes = malloc((size_t)(AXES * dim) * sizeof *axes);
    double *along = malloc((size_t)n * sizeof *along);
    const int ok = c && axes && along;
    if (ok) {
        centre(x, n, dim, c);
        find_axes(c, n, dim, axes, along);
        const double total = dot(c, c, n * dim);
        for (int a = 0; a < AXES; a++) {
            orient(axes + a * dim, dim);
            project(c, n, dim, axes + a * dim, along);
            share[a] = total > 0.0 ? dot(along, along, n) / total : 0.0;
            for (int64_t i = 0; i < n; i++) y[2 * i + a] = along[i];
        }
    }
    free(c);
    free(axes);
    free(along);
    return ok ? GLOFND_OK : gf_fail(err, GLOFND_E_MEMORY, "no memory for the axes of %lld points", (long long)n);
}

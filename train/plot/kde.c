/* kde.c - see kde.h. */
#include "plot/kde.h"

#include <math.h>
#include <stdlib.h>

#include "util/array.h"

/* The finite values of x, malloc'ed; NULL: none, or no memory. */
static float *finite_of(const float *x, int64_t n, int64_t *count) {
    float *v = n > 0 ? malloc((size_t)n * sizeof *v) : NULL;
    *count = 0;
    for (int64_t i = 0; v && i < n; i++)
        if (isfinite(x[i])) v[(*count)++] = x[i];
    return v;
}

double gf_kde_bandwidth(const float *x, int64_t n) {
    int64_t m;
    double sum = 0.0, square = 0.0;
    float *v = finite_of(x, n, &m);
    if (m < 2) {
        free(v);
        return 0.0;
    }
    for (int64_t i = 0; i < m; i++) sum += (double)v[i];
    for (int64_t i = 0; i < m; i++) square += ((double)v[i] - sum / (double)m) * ((double)v[i] - sum / (double)m);
    const double std = sqrt(square / (double)(m - 1));
    const double iqr = ((double)gf_quantile(v, m, 0.25) - (double)gf_quantile(v, m, 0.75)) / 1.34;
    free(v);
    return 0.9 * (iqr > 0.0 ? fmin(std, iqr) : std) * pow((double)m, -0.2);
}

/* Adds the kernel of `mass` at grid position `at`. */
static void add_kernel(double mass, double at, double step, double bandwidth, int points, double *out) {
    const double reach = 6.0 * bandwidth / step, height = mass / (bandwidth * sqrt(2.0 * 3.14159265358979323846));
    const int first = at - reach > 0.0 ? (int)ceil(at - reach) : 0;
    const int last = at + reach < points - 1 ? (int)floor(at + reach) : points - 1;
    for (int k = first; k <= last; k++) {
        const double d = (at - k) * step / bandwidth;
        out[k] += height * exp(-0.5 * d * d);
    }
}

void gf_kde(const float *x, int64_t n, double bandwidth, double low, double high, int points, double *out) {
    const double step = (high - low) / (points - 1);
    double count = 0.0, *mass = calloc((size_t)points, sizeof *mass);
    for (int k = 0; k < points; k++) out[k] = 0.0;
    for (int64_t i = 0; mass && i < n; i++) {
        const double at = ((double)x[i] - low) / step;
        if (!isfinite(at)) continue;
        count++;
        if (at < 0.0 || at > points - 1) continue;
        const int k = at < points - 1 ? (int)at : points - 2;
        mass[k] += 1.0 - (at - k), mass[k + 1] += at - k;
    }
    for (int k = 0; mass && k < points && bandwidth > 0.0; k++)
        if (mass[k] > 0.0) add_kernel(mass[k] / count, k, step, bandwidth, points, out);
    free(mass);
}

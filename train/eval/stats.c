/* stats.c - statistics over runs, and average precision; see split.h. */
#include "eval/split.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>

double gf_mean(const double *x, int64_t n) {
    double sum = 0.0;
    for (int64_t i = 0; i < n; i++) sum += x[i];
    return n > 0 ? sum / (double)n : NAN;
}

double gf_std(const double *x, int64_t n) {
    const double mean = gf_mean(x, n);
    double square = 0.0;
    for (int64_t i = 0; i < n; i++) square += (x[i] - mean) * (x[i] - mean);
    return n > 1 ? sqrt(square / (double)(n - 1)) : NAN;
}

/* ----- the paired t-test, with the incomplete beta function for Student's distribution ----- */

/* The fraction divides by this. */
static double away_from_zero(double x) { return fabs(x) < DBL_MIN / DBL_EPSILON ? DBL_MIN / DBL_EPSILON : x; }

/* The continued fraction 1/(1 + d1/(1 + d2/(1 + ...))) of I_x(a, b) (DLMF 8.17.22), by Lentz's method: two of its terms per
 * round. Converges fast for x < (a+1)/(a+b+2). */
static double beta_fraction(double a, double b, double x) {
    double c = 1.0, d = 1.0 / away_from_zero(1.0 - (a + b) * x / (a + 1.0)), value = d;
    for (int i = 1; i < 100000; i++) {
        const double m = i;
        const double even = m * (b - m) * x / ((a + 2.0 * m - 1.0) * (a + 2.0 * m));
        const double odd = -(a + m) * (a + b + m) * x / ((a + 2.0 * m) * (a + 2.0 * m + 1.0));
        d = 1.0 / away_from_zero(1.0 + even * d), c = away_from_zero(1.0 + even / c);
        value *= c * d;
        d = 1.0 / away_from_zero(1.0 + odd * d), c = away_from_zero(1.0 + odd / c);
        value *= c * d;
        if (fabs(c * d - 1.0) < 4.0 * DBL_EPSILON) break;
    }
    return value;
}

double gf_incomplete_beta(double a, double b, double x) {
    if (!(a > 0.0 && b > 0.0 && x >= 0.0 && x <= 1.0)) return NAN;
    if (x == 0.0 || x == 1.0) return x;
    if (x > (a + 1.0) / (a + b + 2.0)) return 1.0 - gf_incomplete_beta(b, a, 1.0 - x);
    const double log_front = a * log(x) + b * log1p(-x) + lgamma(a + b) - lgamma(a) - lgamma(b);
    return exp(log_front) * beta_fraction(a, b, x) / a;
}

/* P(|T| > t) = I_{df/(df+t^2)}(df/2, 1/2). Near t = 0 that argument is near 1, where the other tail keeps the digits. */
double gf_student_tail(double t, double df) {
    if (isnan(t) || !(df > 0.0)) return NAN;
    if (isinf(t)) return t > 0.0 ? 0.0 : 1.0;
    const double square = t * t, both = square < 1.0 ? 1.0 - gf_incomplete_beta(0.5, 0.5 * df, square / (df + square))
                                                     : gf_incomplete_beta(0.5 * df, 0.5, df / (df + square));
    return t > 0.0 ? 0.5 * both : 1.0 - 0.5 * both;
}

gf_ttest gf_ttest_paired(const double *x, const double *y, int64_t n) {
    double mean = 0.0, square = 0.0;
    for (int64_t i = 0; i < n; i++) mean += (x[i] - y[i]) / (double)n;
    for (int64_t i = 0; i < n; i++) square += (x[i] - y[i] - mean) * (x[i] - y[i] - mean);
    gf_ttest r = {.pairs = n, .difference = n > 0 ? mean : NAN, .t = NAN, .df = (double)(n - 1)};
    if (n > 1) r.t = mean / sqrt(square / (double)(n - 1) / (double)n); /* NaN, 0 / 0, where all differences are 0 */
    r.p_greater = gf_student_tail(r.t, r.df);
    r.p_less = gf_student_tail(-r.t, r.df);
    return r;
}

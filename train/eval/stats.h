/* stats.h - mean, standard deviation and the paired t-test over runs with different seeds.
 *
 * The test follows the paper: pairs of runs with the same seed, one-sided, "better than the baseline".
 */
#pragma once

#include <stdint.h>

#include "pairs/flag_stats.h"

double gf_mean(const double *x, int64_t n); /* NaN for n < 1 */
/* Sample standard deviation (divisor n - 1); NaN for n < 2. */
double gf_std(const double *x, int64_t n);

typedef struct gf_ttest {
    int64_t pairs;
    double difference;        /* mean of x - y */
    double t, df;             /* statistic and degrees of freedom */
    double p_greater, p_less; /* one-sided: probability of a t this large (small) under the null hypothesis */
} gf_ttest;

/* x [n] against the baseline y [n], pair by pair. t and p are NaN for n < 2 and where all differences are 0; equal nonzero
 * differences give an infinite t. */
gf_ttest gf_ttest_paired(const double *x, const double *y, int64_t n);

/* P(T > t) of Student's distribution with df > 0 degrees of freedom. */
double gf_student_tail(double t, double df);
/* Regularised incomplete beta function I_x(a, b), a, b > 0, x in [0, 1]; relative error below 1e-12 also in the tail near 0. */
double gf_incomplete_beta(double a, double b, double x);

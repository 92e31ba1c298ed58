/* unit_stats.c - means, spreads, F1 and the paired t-test against SciPy's numbers (tests/fixtures/ttest_golden.h). */
#include "support/test.h"

#include "eval/split.h"
#include "fixtures/ttest_golden.h"
#include <math.h>

#define COUNT(a) (sizeof(a) / sizeof *(a))

/* Relative, also in the tails; both NaN counts as equal. */
static void assert_near(double found, double expected, double tolerance) {
    if (isnan(expected) && isnan(found)) return;
    if (found == expected || fabs(found - expected) <= tolerance * fabs(expected)) return;
    fail_msg("%.17g instead of %.17g", found, expected);
}

TEST(means_and_spreads) {
    const double x[] = {2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0};
    assert_near(gf_mean(x, 8), 5.0, 1e-15);
    assert_near(gf_std(x, 8), sqrt(32.0 / 7.0), 1e-15);
    assert_true(isnan(gf_std(x, 1)) && gf_mean(x, 1) == 2.0);
    assert_true(isnan(gf_mean(x, 0)) && isnan(gf_std(x, 0)));
}

/* The paper's F1 columns follow from its own precision and recall columns, within a unit of the last digit it prints: the columns
 * are rounded means over runs themselves. Means of per-anchor F1 would lie elsewhere. */
TEST(f1_of_the_papers_columns) {
    assert_true(fabs(gf_f1(48.40, 58.81) - 53.10) < 0.01);
    assert_true(fabs(gf_f1(27.57, 53.67) - 36.42) < 0.01);
    assert_true(gf_f1(0.0, 0.0) == 0.0 && gf_f1(0.0, 1.0) == 0.0 && gf_f1(1.0, 1.0) == 1.0);
    assert_true(isnan(gf_f1(NAN, 1.0)));
}

TEST(incomplete_beta_is_scipys) {
    for (size_t i = 0; i < COUNT(beta_cases); i++)
        assert_near(gf_incomplete_beta(beta_cases[i].a, beta_cases[i].b, beta_cases[i].x), beta_cases[i].share, 2e-12);
    assert_true(gf_incomplete_beta(2.0, 3.0, 0.0) == 0.0 && gf_incomplete_beta(2.0, 3.0, 1.0) == 1.0);
    assert_true(isnan(gf_incomplete_beta(0.0, 1.0, 0.5)) && isnan(gf_incomplete_beta(1.0, 1.0, 1.5)));
}

TEST(students_tail_is_scipys) {
    for (size_t i = 0; i < COUNT(student_cases); i++)
        assert_near(gf_student_tail(student_cases[i].t, student_cases[i].df), student_cases[i].above, 2e-11);
    for (double t = 1e-8; t < 1e8; t *= 10.0) /* one degree of freedom: Cauchy's distribution */
        assert_near(gf_student_tail(t, 1.0), atan2(1.0, t) / acos(-1.0), 1e-14);
    assert_true(gf_student_tail(INFINITY, 2.0) == 0.0 && gf_student_tail(-INFINITY, 2.0) == 1.0);
    assert_true(isnan(gf_student_tail(1.0, 0.0)));
}

TEST(paired_test_is_scipys) {
    for (size_t i = 0; i < COUNT(ttest_cases); i++) {
        const struct ttest_case *c = &ttest_cases[i];
        const gf_ttest r = gf_ttest_paired(c->x, c->y, c->n);
        assert_int_equal(r.pairs, c->n);
        assert_near(r.t, c->t, 1e-9); /* of differences of numbers near 70 */
        assert_near(r.p_greater, c->p_greater, 1e-9);
        assert_near(r.p_less, c->p_less, 1e-9);
    }
}

TEST(edges_of_the_paired_test) {
    const double y[] = {1.0, 2.0, 3.0}, x[] = {1.5, 2.5, 3.5};
    const gf_ttest equal = gf_ttest_paired(y, y, 3), constant = gf_ttest_paired(x, y, 3), one = gf_ttest_paired(x, y, 1);
    assert_true(equal.difference == 0.0 && isnan(equal.t) && isnan(equal.p_greater) && isnan(equal.p_less));
    assert_true(isinf(constant.t) && constant.p_greater == 0.0 && constant.p_less == 1.0);
    assert_true(one.difference == 0.5 && isnan(one.t) && isnan(one.p_greater));
    assert_true(isnan(gf_ttest_paired(x, y, 0).difference));
}

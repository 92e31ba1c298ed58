/* unit_maps.c - t-SNE (gradient, tree, neighbourhoods, equal bits), principal axes, kernel density estimates. */
#include "support/test.h"

#include "plot/maps.h"
#include "support/random.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { N = 120, DIM = 8, BLOBS = 4 };

/* Points around BLOBS corners, point i at corner i % BLOBS. */
static void blobs(float *x, int64_t n, double spread) {
    rng seed = {7};
    for (int64_t i = 0; i < n; i++)
        for (int k = 0; k < DIM; k++)
            x[i * DIM + k] = (float)((k == i % BLOBS ? 4.0 : 0.0) + spread * (2.0 * rng_uniform(&seed) - 1.0));
}

TEST(affinities_are_symmetric_and_sum_to_one) {
    float x[N * DIM];
    gf_error err = {{0}};
    gf_affinity a;
    blobs(x, N, 1.0);
    for (int near = 0; near <= 30; near += 30) {
        double total = 0.0;
        assert_int_equal(gf_affinity_init(&err, x, N, DIM, 10.0, near, 1, &a), GLOFND_OK);
        for (int64_t i = 0; i < N; i++)
            for (int64_t k = a.start[i]; k < a.start[i + 1]; k++) {
                const int64_t j = a.col[k];
                double back = -1.0;
                for (int64_t l = a.start[j]; l < a.start[j + 1]; l++)
                    if (a.col[l] == i) back = a.p[l];
                assert_true(i != j && back == a.p[k]);
                total += a.p[k];
            }
        assert_true(fabs(total - 1.0) < 1e-6);
        gf_affinity_free(&a);
    }
}

/* Two points have only each other, wherever they are: nothing to gain. */
TEST(two_points_are_at_rest) {
    int64_t start[] = {0, 1, 2};
    int32_t col[] = {1, 0};
    double p[] = {0.5, 0.5}, y[] = {0.3, -1.0, 2.0, 0.5}, grad[4], room[6], divergence = -1.0;
    const gf_affinity a = {.n = 2, .start = start, .col = col, .p = p};
    const gf_tsne_field f = {.a = &a, .exaggeration = 1.0, .theta = -1.0, .threads = 1, .scratch = room};
    gf_tsne_gradient(&f, y, grad, &divergence);
    for (int i = 0; i < 4; i++) assert_true(fabs(grad[i]) < 1e-12);
    assert_true(fabs(divergence) < 1e-12);
}

/* The divergence is what the gradient is the gradient of. */
TEST(gradient_is_that_of_the_divergence) {
    enum { FEW = 24 };
    float x[FEW * DIM];
    double y[2 * FEW], grad[2 * FEW], room[3 * FEW], scratch[2 * FEW];
    rng seed = {3};
    gf_error err = {{0}};
    gf_affinity a;
    blobs(x, FEW, 1.0);
    assert_int_equal(gf_affinity_init(&err, x, FEW, DIM, 5.0, 0, 1, &a), GLOFND_OK);
    for (int i = 0; i < 2 * FEW; i++) y[i] = 4.0 * rng_uniform(&seed) - 2.0;
    gf_tsne_field f = {.a = &a, .exaggeration = 1.0, .theta = -1.0, .threads = 1, .scratch = room};
    gf_tsne_gradient(&f, y, grad, NULL);
    for (int i = 0; i < 2 * FEW; i++) {
        const double h = 1e-5, at = y[i];
        double above, below;
        y[i] = at + h;
        gf_tsne_gradient(&f, y, scratch, &above);
        y[i] = at - h;
        gf_tsne_gradient(&f, y, scratch, &below);
        y[i] = at;
        assert_true(fabs((above - below) / (2.0 * h) - grad[i]) < 1e-7);
    }
    gf_affinity_free(&a);
}

/* A fine tree is the exact sum, a coarse one is near it; points on top of each other are fine. */
TEST(tree_is_near_the_exact_sum) {
    enum { MANY = 500 };
    double y[2 * MANY];
    rng seed = {5};
    gf_tsne_tree *t = gf_tsne_tree_create(MANY);
    assert_non_null(t);
    for (int i = 0; i < 2 * MANY; i++) y[i] = 20.0 * rng_uniform(&seed);
    for (int i = 0; i < 20; i++) y[2 * i] = 1.0, y[2 * i + 1] = 2.0;
    gf_tsne_tree_build(t, y, MANY);
    double worst = 0.0, scale = 0.0;
    for (int i = 0; i < MANY; i++) {
        double exact[3] = {0}, fine[2] = {0}, coarse[2] = {0};
        for (int j = 0; j < MANY; j++) {
            const double dx = y[2 * i] - y[2 * j], dy = y[2 * i + 1] - y[2 * j + 1], q = 1.0 / (1.0 + dx * dx + dy * dy);
            if (j != i) exact[0] += q * q * dx, exact[1] += q * q * dy, exact[2] += q;
        }
        const double sum = gf_tsne_tree_repulsion(t, y, i, 1e-9, fine), rough = gf_tsne_tree_repulsion(t, y, i, 0.5, coarse);
        assert_true(fabs(sum - exact[2]) < 1e-9 * exact[2] && fabs(fine[0] - exact[0]) < 1e-9 && fabs(fine[1] - exact[1]) < 1e-9);
        assert_true(fabs(rough - exact[2]) < 0.02 * exact[2]);
        worst = fmax(worst, hypot(coarse[0] - exact[0], coarse[1] - exact[1]));
        scale = fmax(scale, hypot(exact[0], exact[1]));
    }
    assert_true(worst < 0.05 * scale);
    gf_tsne_tree_free(t);
}

/* Share of points whose nearest on the map is of the same blob. */
static double kept(const double *y, int64_t n) {
    int64_t same = 0;
    for (int64_t i = 0; i < n; i++) {
        int64_t best = -1;
        double least = INFINITY;
        for (int64_t j = 0; j < n; j++) {
            const double d = hypot(y[2 * i] - y[2 * j], y[2 * i + 1] - y[2 * j + 1]);
            if (j != i && d < least) least = d, best = j;
        }
        same += best % BLOBS == i % BLOBS;
    }
    return (double)same / (double)n;
}

TEST(maps_keep_neighbours_together) {
    enum { MANY = 700 };
    float *x = malloc(sizeof *x * MANY * DIM);
    double *y = malloc(sizeof *y * 2 * MANY), *again = malloc(sizeof *again * 2 * MANY), exact = 0.0, rough = 0.0;
    gf_error err = {{0}};
    assert_non_null(x);
    assert_non_null(y);
    assert_non_null(again);
    blobs(x, MANY, 1.5);
    assert_int_equal(gf_tsne(&err, x, 300, DIM, &(gf_tsne_spec){.iterations = 300, .threads = 1}, y, &exact), GLOFND_OK);
    assert_true(kept(y, 300) > 0.97);
    assert_int_equal(gf_tsne(&err, x, 300, DIM, &(gf_tsne_spec){.iterations = 300, .theta = 0.4, .threads = 1}, again, &rough),
                     GLOFND_OK);
    assert_true(kept(again, 300) > 0.97);
    assert_true(fabs(rough - exact) < 0.15 * exact + 0.05);
    for (int threads = 1; threads <= 2; threads++) { /* above GF_TSNE_EXACT: the tree */
        assert_int_equal(gf_tsne(&err, x, MANY, DIM, &(gf_tsne_spec){.iterations = 120, .threads = threads},
                                 threads == 1 ? y : again, NULL),
                         GLOFND_OK);
    }
    assert_memory_equal(y, again, sizeof *y * 2 * MANY);
    assert_true(kept(y, MANY) > 0.9);
    for (int64_t n = GF_TSNE_EXACT; n <= GF_TSNE_EXACT + 1; n++) { /* which way is taken by itself */
        const double theta = n == GF_TSNE_EXACT ? -1.0 : 0.6;
        assert_int_equal(gf_tsne(&err, x, n, DIM, &(gf_tsne_spec){.iterations = 12}, y, NULL), GLOFND_OK);
        assert_int_equal(gf_tsne(&err, x, n, DIM, &(gf_tsne_spec){.iterations = 12, .theta = theta}, again, NULL), GLOFND_OK);
        assert_memory_equal(y, again, sizeof *y * 2 * (size_t)n);
    }
    free(x);
    free(y);
    free(again);
}

TEST(few_and_equal_points_make_a_map) {
    const float x[5 * 2] = {1, 0, 1, 0, 1, 0, 0, 1, 0, 1};
    double y[10];
    gf_error err = {{0}};
    for (int64_t n = 2; n <= 5; n++) {
        assert_int_equal(gf_tsne(&err, x, n, 2, &(gf_tsne_spec){.iterations = 50, .threads = 1}, y, NULL), GLOFND_OK);
        for (int64_t i = 0; i < 2 * n; i++) assert_true(isfinite(y[i]));
    }
    assert_int_equal(gf_tsne(&err, x, 1, 2, &(gf_tsne_spec){.threads = 1}, y, NULL), GLOFND_E_ARGUMENT);
}

/* Points on a tilted ellipse: the axes are its own. */
TEST(principal_axes) {
    enum { MANY = 400 };
    float x[MANY * 3];
    double y[2 * MANY], along = 0.0, across = 0.0;
    gf_error err = {{0}};
    for (int i = 0; i < MANY; i++) {
        const double t = 2.0 * 3.14159265358979 * i / MANY, u = 5.0 * cos(t), v = 2.0 * sin(t);
        x[3 * i] = (float)(0.6 * u - 0.8 * v + 10.0), x[3 * i + 1] = (float)(0.8 * u + 0.6 * v - 3.0), x[3 * i + 2] = 7.0f;
    }
    assert_int_equal(gf_pca(&err, x, MANY, 3, y), GLOFND_OK);
    for (int i = 0; i < MANY; i++) along = fmax(along, fabs(y[2 * i])), across = fmax(across, fabs(y[2 * i + 1]));
    assert_true(fabs(along - 5.0) < 1e-4 && fabs(across - 2.0) < 1e-4);
    for (int turn = 0; turn < 8; turn++) { /* the largest entry of the axis is positive */
        const double c = cos(0.3 + 0.785398 * turn), d = sin(0.3 + 0.785398 * turn),
                     sign = (fabs(c) > fabs(d) ? c : d) > 0.0 ? 1.0 : -1.0;
        for (int i = 0; i < MANY; i++) {
            const double t = 2.0 * 3.14159265358979 * i / MANY, u = 5.0 * cos(t), v = 2.0 * sin(t);
            x[3 * i] = (float)(c * u - d * v), x[3 * i + 1] = (float)(d * u + c * v), x[3 * i + 2] = 7.0f;
        }
        assert_int_equal(gf_pca(&err, x, MANY, 3, y), GLOFND_OK);
        assert_true(fabs(y[0] - 5.0 * sign) < 1e-3);
    }
    for (int i = 0; i < MANY * 3; i++) x[i] = 1.0f;
    assert_int_equal(gf_pca(&err, x, MANY, 3, y), GLOFND_OK);
    assert_true(y[0] == 0.0);
}

TEST(densities_integrate_to_one) {
    enum { MANY = 2000, POINTS = 400 };
    float x[MANY + 1];
    double density[POINTS], area = 0.0, middle = 0.0;
    rng seed = {11};
    for (int i = 0; i < MANY; i++) {
        double s = -6.0;
        for (int k = 0; k < 12; k++) s += rng_uniform(&seed);
        x[i] = (float)(0.5 + 0.1 * s);
    }
    x[MANY] = NAN;
    const double h = gf_kde_bandwidth(x, MANY + 1), step = 2.0 / (POINTS - 1);
    assert_true(h > 0.015 && h < 0.03);
    gf_kde(x, MANY + 1, h, -0.5, 1.5, POINTS, density);
    for (int k = 0; k < POINTS; k++) area += density[k] * step, middle += density[k] * step * (-0.5 + k * step);
    assert_true(fabs(area - 1.0) < 1e-3);
    assert_true(fabs(middle - 0.5) < 0.01);
    assert_true(fabs(density[POINTS / 2] - 3.99) < 0.4); /* of a normal one with deviation 0.1 */
    assert_true(gf_kde_bandwidth(x, 1) == 0.0 && gf_kde_bandwidth(x + MANY, 1) == 0.0);
    gf_kde(x, 0, 0.1, 0.0, 1.0, POINTS, density);
    assert_true(density[0] == 0.0);
    const float between = 0.337f; /* two points, at both flanks of one value between points */
    gf_kde(&between, 1, 0.1, 0.0, 1.0, 101, density);
    for (int k = 20; k <= 50; k += 30) {
        const double d = (0.01 * k - 0.337) / 0.1, exact = exp(-0.5 * d * d) / (0.1 * sqrt(2.0 * acos(-1.0)));
        assert_true(fabs(density[k] / exact - 1.0) < 0.01);
    }
}

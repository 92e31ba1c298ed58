/* unit_int16.c - products of 16-bit integers: every instruction set has the bits of the exact sums, at the largest lengths too;
 * scaling of rows and panels, of zeros, and of numbers that are too large or too small to be squared.
 */
#include "support/test.h"

#include "cpu/kernels/cpu_kernels.h"
#include "support/random.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const char *const isas[] = {"base", "avx2", "avx512", "neon"};

enum { M = 16, N = 64, K = 192, W = K / 2 };

typedef struct sides { /* a [M][K] and b [N / GF_PANEL][K][GF_PANEL], as floats and as integers */
    float a[M * K], b[N * K], a_step[M], b_step[N];
    uint32_t aw[M * W], bw[N * W];
} sides;

static float *b_at(sides *s, int j, int k) { return s->b + (j / GF_PANEL * K + k) * GF_PANEL + j % GF_PANEL; }

static void scale(sides *s, const gf_tile_ops *ops) {
    for (int r = 0; r < M; r++) s->a_step[r] = ops->row_to_int16((int16_t *)(void *)(s->aw + r * W), s->a + r * K, K);
    for (int p = 0; p < N / GF_PANEL; p++)
        ops->panel_to_int16(s->bw + p * W * GF_PANEL, s->b + p * K * GF_PANEL, K, s->b_step + p * GF_PANEL);
}

static int64_t half(uint32_t word, int high) { return (int16_t)(high ? word >> 16 : word & 0xffff); }

static int64_t exact(const sides *s, int r, int j) {
    int64_t sum = 0;
    for (int w = 0; w < W; w++)
        for (int high = 0; high < 2; high++)
            sum += half(s->aw[r * W + w], high) * half(s->bw[(j / GF_PANEL * W + w) * GF_PANEL + j % GF_PANEL], high);
    return sum;
}

static void check_products(sides *s, const gf_tile_ops *ops, const char *isa) {
    static float c[M * N];
    const gf_int16_words a = {s->aw, W, 1, s->a_step}, b = {s->bw, W * GF_PANEL, GF_PANEL, s->b_step};
    ops->product_int16(c, N, &a, &b, M, N, W, 0);
    for (int i = 0; i < M * N; i++) {
        const int64_t sum = exact(s, i / N, i % N);
        const float want = (float)sum * (s->a_step[i / N] * s->b_step[i % N]);
        assert_true(sum >= INT32_MIN && sum <= INT32_MAX);
        if (c[i] != want) fail_msg("%s: element %d is %.9g, not %.9g", isa, i, (double)c[i], (double)want);
    }
    ops->product_int16(c, N, &a, &b, M, N, W, 1);
    for (int i = 0; i < M * N; i++) {
        const float want = (float)exact(s, i / N, i % N) * (s->a_step[i / N] * s->b_step[i % N]);
        if (fabsf(c[i] - 2.0f * want) > 1e-6f * fabsf(want)) fail_msg("%s: accumulated element %d", isa, i);
    }
}

/* The bits of every instruction set are those of exact sums, hence of each other. */
static void over_all(void (*fill)(sides *s, rng *g)) {
    for (size_t v = 0; v < sizeof isas / sizeof *isas; v++) {
        const gf_cpu_kernels *kernels = gf_cpu_kernels_find(isas[v]);
        static sides s;
        rng g = {11};
        if (!kernels) continue;
        fill(&s, &g);
        scale(&s, kernels->tile);
        check_products(&s, kernels->tile, isas[v]);
    }
}

static void fill_normal(sides *s, rng *g) {
    for (int i = 0; i < M * K; i++) s->a[i] = (float)rng_normal(g);
    for (int i = 0; i < N * K; i++) s->b[i] = (float)rng_normal(g);
}

/* Parallel vectors: the largest sums there are; flat ones, single numbers, and signs. */
static void fill_largest(sides *s, rng *g) {
    (void)g;
    for (int i = 0; i < M * K; i++) s->a[i] = i / K % 3 == 0 ? 1.0f : i / K % 3 == 1 ? (float)(i % K == 7) : i % 2 ? -1.0f : 1.0f;
    for (int j = 0; j < N; j++)
        for (int k = 0; k < K; k++) *b_at(s, j, k) = j % 3 == 0 ? -1.0f : j % 3 == 1 ? (float)(k == 7) : k % 2 ? 1.0f : -1.0f;
}

TEST(sums_are_exact) {
    over_all(fill_normal);
    over_all(fill_largest);
}

TEST(rounding_is_small) {
    for (size_t v = 0; v < sizeof isas / sizeof *isas; v++) {
        const gf_cpu_kernels *kernels = gf_cpu_kernels_find(isas[v]);
        static sides s;
        rng g = {12};
        if (!kernels) continue;
        fill_normal(&s, &g);
        scale(&s, kernels->tile);
        for (int i = 0; i < M * K; i++) {
            const double is = (double)half(s.aw[i / 2], i % 2) * (double)s.a_step[i / K];
            if (fabs(is - (double)s.a[i]) > 0.501 * (double)s.a_step[i / K]) fail_msg("%s: number %d of a", isas[v], i);
        }
        for (int i = 0; i < N * K; i++) {
            const int j = i / K, k = i % K;
            const uint32_t word = s.bw[(j / GF_PANEL * W + k / 2) * GF_PANEL + j % GF_PANEL];
            const double is = (double)half(word, k % 2) * (double)s.b_step[j];
            if (fabs(is - (double)*b_at(&s, j, k)) > 0.501 * (double)s.b_step[j]) fail_msg("%s: number %d of b", isas[v], i);
        }
    }
}

TEST(extremes_are_served) {
    static const float sizes[] = {1e25f, 1e-25f, 3e38f, 1e-36f};
    for (size_t v = 0; v < sizeof isas / sizeof *isas; v++) {
        const gf_cpu_kernels *kernels = gf_cpu_kernels_find(isas[v]);
        static sides s;
        if (!kernels) continue;
        memset(&s, 0, sizeof s);
        for (int i = 0; i < 4; i++) s.a[i * K + 5] = sizes[i], *b_at(&s, i, 5) = sizes[i];
        s.a[4 * K] = NAN, *b_at(&s, 4, 0) = NAN, s.a[5 * K] = INFINITY, *b_at(&s, 5, 0) = -INFINITY;
        scale(&s, kernels->tile);
        for (int i = 0; i < 3; i++) {
            const float a = (float)half(s.aw[i * W + 2], 1) * s.a_step[i],
                        b = (float)half(s.bw[2 * GF_PANEL + i], 1) * s.b_step[i];
            if (!(fabsf(a / sizes[i] - 1.0f) < 1e-3f && fabsf(b / sizes[i] - 1.0f) < 1e-3f)) fail_msg("%s: size %d", isas[v], i);
        }
        assert_true(s.a_step[3] == 0.0f && s.b_step[3] == 0.0f); /* too small to matter: zeros */
        assert_true(isnan(s.a_step[4]) && isnan(s.b_step[4]) && isnan(s.a_step[5]) && isnan(s.b_step[5]));
        assert_true(s.a_step[6] == 0.0f && s.b_step[6] == 0.0f && s.aw[6 * W] == 0 && s.bw[6] == 0);
    }
}

/* unit_simd_exp.c - the vector exponential of every instruction set this CPU has: error bound, clamping, odd lengths. */
#include "support/test.h"

#include "cpu/kernels/cpu_kernels.h"
#include <math.h>
#include <string.h>

static const char *const isas[] = {"base", "avx2", "avx512", "neon"};

#define BOUND 1.2e-7 /* relative; stated in simd.h */
#define CHUNK 4096

/* All floats of [-87.3, 88.3] would be 2^31; every 997th bit pattern of both signs covers each binade with thousands. */
static double worst_error(const gf_tile_ops *ops) {
    static float x[CHUNK], y[CHUNK];
    double worst = 0.0;
    uint32_t bits = 0x33000000u; /* 3e-8: below, exp(x) is 1 to the last bit */
    while (bits < 0x42b00000u) { /* 88.0 */
        for (int i = 0; i < CHUNK; i++, bits += 997u) {
            const uint32_t pattern = bits | (uint32_t)(i & 1) << 31;
            memcpy(&x[i], &pattern, sizeof x[i]);
            x[i] = fmaxf(-87.3f, fminf(88.3f, x[i]));
        }
        ops->exp(y, x, CHUNK);
        for (int i = 0; i < CHUNK; i++) {
            const double right = exp((double)x[i]);
            worst = fmax(worst, fabs((double)y[i] - right) / right);
        }
    }
    return worst;
}

TEST(error_is_within_the_bound) {
    for (size_t i = 0; i < sizeof isas / sizeof *isas; i++) {
        const gf_cpu_kernels *kernels = gf_cpu_kernels_find(isas[i]);
        if (!kernels) {
            print_message("skipped: this CPU or build has no %s\n", isas[i]);
            continue;
        }
        const gf_tile_ops *ops = kernels->tile;
        const double worst = worst_error(ops);
        print_message("%s: largest relative error %.3e\n", isas[i], worst);
        assert_true(worst > 0.0 && worst < BOUND);
    }
}

/* Both of softplus and sigma, relative; far below zero they are exp(x). */
TEST(softplus_and_its_slope_are_within_the_bound) {
    static float x[CHUNK], y[CHUNK], g[CHUNK];
    for (size_t k = 0; k < sizeof isas / sizeof *isas; k++) {
        const gf_cpu_kernels *kernels = gf_cpu_kernels_find(isas[k]);
        double worst = 0.0;
        if (!kernels) continue;
        for (uint32_t bits = 0x33000000u; bits < 0x42ae0000u;) { /* 3e-8 .. 87 */
            for (int i = 0; i < CHUNK; i++, bits += 997u) {
                const uint32_t pattern = bits | (uint32_t)(i & 1) << 31;
                memcpy(&x[i], &pattern, sizeof x[i]);
                x[i] = fmaxf(x[i], -87.0f);
            }
            kernels->tile->softplus(y, g, x, CHUNK);
            for (int i = 0; i < CHUNK; i++) {
                const double right = x[i] > 0 ? (double)x[i] + log1p(exp(-(double)x[i])) : log1p(exp((double)x[i]));
                const double slope = 1 / (1 + exp(-(double)x[i]));
                worst = fmax(worst, fmax(fabs((double)y[i] - right) / right, fabs((double)g[i] - slope) / slope));
            }
        }
        print_message("%s: largest relative error of softplus %.3e\n", isas[k], worst);
        assert_true(worst > 0.0 && worst < 4e-7);
        const float far[GF_PANEL] = {-1000.0f, 1000.0f, -INFINITY, INFINITY};
        kernels->tile->softplus(y, g, far, GF_PANEL);
        assert_true(y[0] < 2e-38f && g[0] < 2e-38f && y[1] == 1000.0f && g[1] == 1.0f);
        assert_true(y[2] < 2e-38f && g[2] < 2e-38f && isinf(y[3]) && g[3] == 1.0f && y[4] == logf(2.0f) && g[4] == 0.5f);
    }
}

TEST(arguments_out_of_range_are_clamped) {
    const float x[7] = {-INFINITY, -1000.0f, -88.0f, 0.0f, 89.0f, INFINITY, NAN};
    float y[7];
    for (size_t i = 0; i < sizeof isas / sizeof *isas; i++) {
        const gf_cpu_kernels *kernels = gf_cpu_kernels_find(isas[i]);
        if (!kernels) continue;
        const gf_tile_ops *ops = kernels->tile;
        ops->exp(y, x, 7);
        for (int j = 0; j < 7; j++) assert_true(isfinite(y[j]) && y[j] > 0.0f);
        assert_true(y[0] < 2e-38f && y[1] == y[0] && y[5] == y[4] && y[4] > 1e38f);
        assert_true(y[3] == 1.0f);
    }
}

TEST(any_length_writes_just_that_many) {
    for (size_t i = 0; i < sizeof isas / sizeof *isas; i++) {
        const gf_cpu_kernels *kernels = gf_cpu_kernels_find(isas[i]);
        if (!kernels) continue;
        const gf_tile_ops *ops = kernels->tile;
        for (int n = 0; n <= 40; n++) {
            float x[41], y[41];
            for (int j = 0; j < 41; j++) x[j] = 0.1f * (float)j, y[j] = -7.0f;
            ops->exp(y, x, n);
            for (int j = 0; j < n; j++) assert_true(fabsf(y[j] - expf(x[j])) < 2e-6f * expf(x[j]));
            for (int j = n; j < 41; j++) assert_true(y[j] == -7.0f);
        }
    }
}

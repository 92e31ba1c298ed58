/* cuda_shift.c - small temperatures in the large tiles: sums relative to one peak for all rows, and the kernels that serve where
 * 1/tau, known on the device alone, is too large for that. */
#include "support/test.h"

#include "support/cuda_checks.h"
#include "support/cuda_main.h"
#include "support/few_processors.h"

static int restore(void **state) {
    known_tau = GF_TAU_ANY, vector_spread = 1.0, opposite_vector = -1;
    return all_processors(state);
}

static void check_flags(problem *p) {
    const unsigned masked = GF_MASK | GF_COUNT;
    if (p->s.shift) {
        check_stats(p, GF_SHIFT), check_stats(p, GF_SHIFT | GF_MOMENT);
        check_stats(p, GF_SHIFT | masked), check_stats(p, GF_SHIFT | masked | GF_MOMENT);
        check_grad(p, GF_SHIFT, 1), check_grad(p, GF_SHIFT | masked, 1);
        return;
    }
    check_sides(p, GF_SHIFT, gf_cuda_stats), check_sides(p, GF_SHIFT | GF_MOMENT, gf_cuda_stats);
    check_sides(p, GF_SHIFT | masked, gf_cuda_stats), check_sides(p, GF_SHIFT | masked | GF_MOMENT, gf_cuda_stats);
    check_sides(p, GF_SHIFT, gf_cuda_grad), check_sides(p, GF_SHIFT | masked, gf_cuda_grad);
}

/* Buffers: for both sides at once, and for one at a time. */
static void check_shape(const shape *s, gf_cuda_tau tau, gf_cuda_math math, unsigned seed) {
    problem *p = make(s, math, seed);
    processors = 1, known_tau = tau;
    give_buffer(p, 8 << 20);
    check_flags(p);
    take_buffer(p);
    give_buffer(p, 300 << 10);
    check_flags(p);
    take_buffer(p);
    drop(p);
}

static void check_math(gf_cuda_math math) {
    static const shape SHAPES[] = {{390, 0, 390, 300, 0, 30.0f},
                                   {390, 0, 390, 300, 0, 95.0f},
                                   {514, 0, 514, 200, 1, 80.0f},
                                   {641, 0, 641, 250, 0, 100.0f}};
    static const shape SMALLER = {390, 0, 390, 300, 0, 120.0f};
    for (unsigned i = 0; i < sizeof SHAPES / sizeof *SHAPES; i++) {
        check_shape(&SHAPES[i], GF_TAU_ONE, math, 11 + i);
        check_shape(&SHAPES[i], GF_TAU_ON_DEVICE, math, 21 + i);
    }
    check_shape(&SMALLER, GF_TAU_ON_DEVICE, math, 31);
    check_shape(&SMALLER, GF_TAU_ANY, math, 32);
}

TEST_WITH(one_peak_rounded, NULL, restore) { check_math(GF_CUDA_BF16); }

TEST_WITH(one_peak_in_halves, NULL, restore) { check_math(GF_CUDA_SPLIT); }

/* A row that is far from all columns: its exponentials vanish beside those of the fixed peak. */
TEST_WITH(far_rows_have_sums, NULL, restore) {
    static const shape SHAPE = {390, 0, 390, 300, 0, 100.0f};
    (void)state;
    vector_spread = 0.3, opposite_vector = 17;
    problem *p = make(&SHAPE, GF_CUDA_SPLIT, 41);
    processors = 1, known_tau = GF_TAU_ONE;
    give_buffer(p, 8 << 20);
    check_sides(p, GF_SHIFT, gf_cuda_stats), check_sides(p, GF_SHIFT | GF_MOMENT, gf_cuda_stats);
    take_buffer(p);
    drop(p);
}

TEST_NEEDS(no_cuda_device)

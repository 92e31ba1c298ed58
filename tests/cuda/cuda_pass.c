/* cuda_pass.c - the passes on the GPU against the CPU's, over all flags, shapes and kinds of products. */
#include "support/test.h"

#include "support/cuda_checks.h"
#include "support/cuda_main.h"
#include "support/few_processors.h"

static void check_mask(problem *p, unsigned flags) {
    const size_t bytes = (size_t)(p->s.rows * p->s.cols);
    uint8_t *want = malloc(bytes), *got = malloc(bytes), *keep = device_copy(NULL, bytes);
    const gf_gradient_pass c = cpu_grads(p, flags);
    const gf_cuda_pass x = gpu_pass(p, flags);
    set_thetas(p, flags);
    gf_cpu_mask(&c, want, p->s.cols);
    CUDA(gf_cuda_mask(&x, keep, p->s.cols, NULL));
    CUDA(cudaMemcpy(got, keep, bytes, cudaMemcpyDeviceToHost));
    assert_memory_equal(got, want, bytes);
    free(want), free(got), cudaFree(keep);
}

/* ---- cases ---- */

static const unsigned stats_flags[] = {
    0,
    GF_COUNT,
    GF_MASK | GF_COUNT,
    GF_MOMENT,
    GF_MASK | GF_COUNT | GF_MOMENT,
    GF_MASK | GF_COUNT | GF_ATTRACT,
    GF_MASK | GF_COUNT | GF_WEIGHT,
    GF_MASK | GF_COUNT | GF_GROUP,
    GF_COUNT | GF_GROUP,
    GF_MASK | GF_COUNT | GF_GROUP | GF_WEIGHT | GF_MOMENT,
};

static void all_passes(const shape *s, gf_cuda_math math, unsigned seed) {
    const unsigned must = s->inv_tau > 40.0f ? GF_SHIFT : 0;
    problem *p = make(s, math, seed);
    check_count(p);
    for (size_t i = 0; i < sizeof stats_flags / sizeof *stats_flags; i++) {
        check_stats(p, stats_flags[i] | must);
        check_stats(p, stats_flags[i] | GF_SHIFT);
        for (int col_role = 0; col_role < 2; col_role++) {
            const unsigned flags = stats_flags[i] & ~(unsigned)GF_MOMENT;
            check_grad(p, flags | must, col_role);
            check_grad(p, flags | must | GF_QUALITY, col_role);
            check_grad(p, flags | GF_SHIFT, col_role);
            if (col_role) check_grad(p, flags | must | GF_COLSUM, col_role);
        }
        if (stats_flags[i] & GF_MASK) check_mask(p, stats_flags[i] | must);
    }
    if (math == GF_CUDA_EXACT) {
        check_stats(p, GF_MASK | GF_COUNT | GF_TIE | must);
        check_grad(p, GF_MASK | GF_COUNT | GF_TIE | must, 0);
        check_mask(p, GF_MASK | GF_COUNT | GF_TIE | must);
        if (s->shift == 1 && s->rows == s->cols) check_grad(p, GF_MASK | GF_COUNT | GF_TIE | must, 1);
    }
    drop(p);
}

static void run_math(gf_cuda_math math) {
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) all_passes(&shapes[i], math, 11 + (unsigned)i);
}

/* Flags for which there are kernels for large batches. */
static void check_known_flags(problem *p) {
    check_count(p);
    check_stats(p, 0);
    check_stats(p, GF_MASK | GF_COUNT);
    for (unsigned quality = 0; quality <= GF_QUALITY; quality += GF_QUALITY) {
        check_grad(p, quality, 1);
        check_grad(p, GF_MASK | GF_COUNT | quality, 1);
    }
}

static void check_with_buffer(problem *p, size_t bytes) {
    give_buffer(p, bytes);
    check_known_flags(p);
    check_stats(p, GF_MASK | GF_COUNT | GF_MOMENT);
    take_buffer(p);
}

/* Batches so large that one product serves both anchors of a pair, where the GPU has it: with an odd and an even number of blocks
 * of rows; a buffer for all partial sums at once, and for some at a time. */
TEST(large_batches) {
    static const shape SHAPES[] = {{2202, 0, 2202, 128, 1, 10.0f}, {2306, 0, 2306, 100, 1, 10.0f}};
    for (size_t i = 0; i < sizeof SHAPES / sizeof *SHAPES; i++) {
        problem *p = make(&SHAPES[i], GF_CUDA_BF16, 31 + (unsigned)i);
        check_with_buffer(p, (size_t)(64 * 8 * SHAPES[i].rows));
        check_with_buffer(p, (size_t)(4 * 8 * SHAPES[i].rows));
        drop(p);
    }
}

/* More than 128 dimensions, with a buffer for the weights of all rows, of some, and of none. */
TEST(wide_embeddings) {
    static const shape SHAPES[] = {
        {1150, 60, 1050, 300, 0, 10.0f},
        {1100, 0, 1100, 200, 1, 20.0f},
        {1026, 0, 1026, 700, 1, 10.0f},
    };
    for (size_t i = 0; i < sizeof SHAPES / sizeof *SHAPES; i++) {
        problem *p = make(&SHAPES[i], GF_CUDA_BF16, 41 + (unsigned)i);
        check_with_buffer(p, 4 << 20);
        check_with_buffer(p, 700 << 10);
        check_with_buffer(p, 200 << 10);
        give_buffer(p, 4 << 20);
        for (size_t f = 0; f < sizeof stats_flags / sizeof *stats_flags; f++) {
            const unsigned grad_flags = stats_flags[f] & ~(unsigned)GF_MOMENT;
            check_stats(p, stats_flags[f] | GF_SHIFT);
            for (unsigned quality = 0; quality <= GF_QUALITY; quality += GF_QUALITY) {
                check_grad(p, grad_flags | GF_SHIFT | quality, 1);
                check_grad(p, grad_flags | quality, 0);
            }
        }
        take_buffer(p);
        drop(p);
    }
}

TEST(exact) { run_math(GF_CUDA_EXACT); }

TEST(rounded_to_bf16) { run_math(GF_CUDA_BF16); }

TEST(split_in_halves) { run_math(GF_CUDA_SPLIT); }

/* For compute-sanitizer: racecheck takes minutes with the large ones. */
TEST(few_small_shapes) {
    all_passes(&shapes[0], GF_CUDA_BF16, 51);
    all_passes(&shapes[0], GF_CUDA_SPLIT, 52);
}

TEST(few_large_shapes) {
    static const shape SHAPES[] = {{1026, 0, 1026, 200, 1, 10.0f}, {2202, 0, 2202, 128, 1, 10.0f}};
    for (size_t i = 0; i < sizeof SHAPES / sizeof *SHAPES; i++) {
        problem *p = make(&SHAPES[i], GF_CUDA_BF16, 53 + (unsigned)i);
        check_with_buffer(p, 4 << 20);
        drop(p);
    }
}

/* ---- the kernels for large batches on small ones ---- */

static void on_few_processors(problem *p, int count, size_t bytes) {
    processors = count;
    give_buffer(p, bytes);
    check_known_flags(p);
    take_buffer(p);
}

/* One product for both anchors: an odd and an even number of blocks of rows; one and several thread blocks for the columns of
 * each; a buffer for all partial sums at once, and for some at a time. */
TEST_WITH(few_processors_in_pairs, NULL, all_processors) {
    static const shape SHAPES[] = {{1026, 0, 1026, 128, 1, 10.0f}, {830, 0, 830, 100, 1, 10.0f}};
    for (size_t i = 0; i < sizeof SHAPES / sizeof *SHAPES; i++) {
        const size_t part = 8 * (size_t)SHAPES[i].rows;
        problem *p = make(&SHAPES[i], GF_CUDA_BF16, 61 + (unsigned)i);
        on_few_processors(p, 1, 64 * part);
        on_few_processors(p, 1, 2 * part);
        on_few_processors(p, 10, 64 * part);
        drop(p);
    }
}

/* So many rows for a thread block that the ring in which it keeps their sums goes round. */
TEST_WITH(row_sums_go_round, NULL, all_processors) {
    static const shape SHAPE = {2306, 0, 2306, 100, 1, 10.0f};
    problem *p = make(&SHAPE, GF_CUDA_BF16, 60);
    on_few_processors(p, 1, (size_t)(64 * 8 * SHAPE.rows));
    drop(p);
}

/* Complete rows, in numbers that choose blocks of 256, 128, 64 and 32. */
TEST_WITH(few_processors_by_rows, NULL, all_processors) {
    static const shape SHAPES[] = {{1300, 1000, 300, 128, 0, 10.0f}, {700, 400, 300, 100, 1, 10.0f}};
    for (size_t i = 0; i < sizeof SHAPES / sizeof *SHAPES; i++) {
        problem *p = make(&SHAPES[i], GF_CUDA_BF16, 63 + (unsigned)i);
        on_few_processors(p, 1, 0);
        on_few_processors(p, 3, 0);
        on_few_processors(p, 5, 0);
        on_few_processors(p, 10, 0);
        drop(p);
    }
}

/* Columns of one to five tiles, the last one just begun or almost full: a warpgroup that shares out columns with another has
 * none of them, as many as the other, or one less. */
TEST_WITH(few_processors_few_tiles, NULL, all_processors) {
    static const shape SHAPES[] = {
        {67, 0, 67, 128, 0, 10.0f},   {129, 0, 129, 100, 0, 10.0f}, {256, 60, 130, 128, 1, 10.0f},
        {382, 0, 382, 128, 1, 10.0f}, {390, 0, 390, 100, 1, 10.0f}, {514, 0, 514, 70, 1, 10.0f},
    };
    for (size_t i = 0; i < sizeof SHAPES / sizeof *SHAPES; i++) {
        problem *p = make(&SHAPES[i], GF_CUDA_BF16, 71 + (unsigned)i);
        on_few_processors(p, 1, 0);
        on_few_processors(p, (int)((SHAPES[i].rows + 63) / 64), 0);
        on_few_processors(p, (int)((SHAPES[i].rows + 15) / 16), 0);
        drop(p);
    }
}

/* More than 128 dimensions: one and two thread blocks for the columns of a block of rows, a buffer for the weights of all rows
 * and of 128. */
TEST_WITH(few_processors_wide, NULL, all_processors) {
    static const shape SHAPES[] = {{400, 100, 300, 300, 0, 10.0f}, {260, 0, 260, 200, 1, 10.0f}, {140, 0, 140, 700, 1, 20.0f}};
    const unsigned any = GF_MASK | GF_COUNT | GF_GROUP | GF_WEIGHT;
    for (size_t i = 0; i < sizeof SHAPES / sizeof *SHAPES; i++) {
        const size_t row = sizeof(uint16_t) * (size_t)((SHAPES[i].cols + 127) / 128 * 128);
        problem *p = make(&SHAPES[i], GF_CUDA_BF16, 65 + (unsigned)i);
        on_few_processors(p, 1, row * (size_t)SHAPES[i].rows);
        processors = 7;
        check_with_buffer(p, row * 128);
        give_buffer(p, row * 128);
        check_stats(p, any | GF_MOMENT | GF_SHIFT);
        check_grad(p, any | GF_SHIFT, 1);
        check_grad(p, any | GF_QUALITY, 0);
        take_buffer(p);
        drop(p);
    }
}

/* ---- both sides at once ---- */

/* Image and text: one and several thread blocks for the columns of a block of rows, weights of all pairs at once and of 256 x
 * 256, and a buffer so small that each side has products of its own. */
static void check_large_sides(const shape *s, gf_cuda_math math, unsigned seed) {
    static const size_t BUFFERS[] = {4 << 20, 140 << 10, 20 << 10};
    problem *p = make(s, math, seed);
    for (size_t b = 0; b < 2 * sizeof BUFFERS / sizeof *BUFFERS; b++) {
        processors = b % 2 ? 3 : 1;
        give_buffer(p, BUFFERS[b / 2] * (math == GF_CUDA_SPLIT ? 2 : 1));
        check_sides(p, 0, gf_cuda_count);
        check_sides(p, 0, gf_cuda_stats), check_sides(p, GF_MOMENT, gf_cuda_stats);
        check_sides(p, GF_MASK | GF_COUNT, gf_cuda_stats), check_sides(p, GF_MASK | GF_COUNT | GF_MOMENT, gf_cuda_stats);
        check_sides(p, 0, gf_cuda_grad), check_sides(p, GF_MASK | GF_COUNT, gf_cuda_grad);
        take_buffer(p);
    }
    drop(p);
}

/* Two views: tiles left of the diagonal are the mirror of others. */
static void check_large_views(const shape *s, gf_cuda_math math, unsigned seed) {
    const int times = math == GF_CUDA_SPLIT ? 2 : 1;
    problem *p = make(s, math, seed);
    on_few_processors(p, 1, times * (4 << 20));
    on_few_processors(p, 3, times * (4 << 20));
    on_few_processors(p, 1, times * (140 << 10));
    processors = 1;
    check_with_buffer(p, (size_t)times * (300 << 10));
    drop(p);
}

static const shape LARGE_SIDES[4] = {{390, 0, 390, 300, 0, 10.0f},
                                     {641, 0, 641, 200, 0, 10.0f},
                                     {520, 0, 520, 700, 0, 20.0f},
                                     {257, 0, 257, 1000, 0, 10.0f}};
static const shape LARGE_VIEWS[3] = {{390, 0, 390, 300, 1, 10.0f}, {1026, 0, 1026, 200, 1, 10.0f}, {770, 0, 770, 700, 1, 20.0f}};

TEST_WITH(large_tiles_sides, NULL, all_processors) {
    for (unsigned i = 0; i < 4; i++) check_large_sides(&LARGE_SIDES[i], GF_CUDA_BF16, 81 + i);
}

TEST_WITH(large_tiles_views, NULL, all_processors) {
    for (unsigned i = 0; i < 3; i++) check_large_views(&LARGE_VIEWS[i], GF_CUDA_BF16, 91 + i);
}

/* The same in halves, also with 128 dimensions. */
TEST_WITH(large_tiles_halves_sides, NULL, all_processors) {
    const shape narrow = {641, 0, 641, 100, 0, 10.0f};
    for (unsigned i = 0; i < 4; i++) check_large_sides(&LARGE_SIDES[i], GF_CUDA_SPLIT, 81 + i);
    check_large_sides(&narrow, GF_CUDA_SPLIT, 88);
}

TEST_WITH(large_tiles_halves_views, NULL, all_processors) {
    const shape narrow = {1026, 0, 1026, 128, 1, 20.0f};
    for (unsigned i = 0; i < 3; i++) check_large_views(&LARGE_VIEWS[i], GF_CUDA_SPLIT, 91 + i);
    check_large_views(&narrow, GF_CUDA_SPLIT, 98);
}

/* One shape of each kind: for racecheck, which is slow. */
static void few_large_tiles(gf_cuda_math math) {
    const size_t times = math == GF_CUDA_SPLIT ? 2 : 1;
    const int64_t rows = math == GF_CUDA_SPLIT ? 390 : 258; /* with fewer in halves, kernels for few rows serve */
    problem *sides = make(&(shape){rows - 1, 0, rows - 1, 200, 0, 10.0f}, math, 95);
    processors = 1;
    give_buffer(sides, times * (140 << 10));
    check_sides(sides, GF_MASK | GF_COUNT, gf_cuda_stats);
    check_sides(sides, GF_MASK | GF_COUNT, gf_cuda_grad);
    take_buffer(sides);
    drop(sides);
    problem *views = make(&(shape){rows, 0, rows, 200, 1, 10.0f}, math, 96);
    check_with_buffer(views, times * (140 << 10));
    drop(views);
}

TEST_WITH(large_few_tiles, NULL, all_processors) { few_large_tiles(GF_CUDA_BF16); }

TEST_WITH(large_few_halves, NULL, all_processors) { few_large_tiles(GF_CUDA_SPLIT); }

TEST_NEEDS(no_cuda_device)

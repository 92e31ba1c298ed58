/* unit_layers.c - batch norm with ReLU and residual, for every instruction set of this machine, against loops in double and their
 * central differences; sums of several ranks; the other small kernels; and the plan of the arena.
 */
#include "support/test.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#ifdef GF_HAVE_DNNL

#include "cpu/kernels/cpu_kernels.h"
#include "nn/cpu/dnn.h"
#include "nn/graph.h"
#include "support/nn_reference.h"
#include "support/random.h"
#include "util/dtype.h"

#define FP32_LIMIT 1e-6 /* relative error of whole arrays */
#define BF16_LIMIT 3e-3 /* results rounded to bf16 */

static const gf_nn_backend *const cpu = &gf_nn_backend_cpu;
static const char *const isas[] = {"base", "avx2", "avx512", "neon"};

#define within(value, limit)                                                                          \
    do {                                                                                              \
        const double value_ = (value);                                                                \
        if (!(value_ <= (limit))) fail_msg("%s is %.3g, over %.3g", #value, value_, (double)(limit)); \
    } while (0)

static gf_nn_engine *open_engine(int threads) {
    gf_error err = {""};
    gf_nn_engine *s = NULL;
    if (cpu->open(&err, threads, &s) != GLOFND_OK) fail_msg("%s", err.text);
    return s;
}

/* ----- a batch norm with all it needs ------------------------------------------------------------------------------- */

typedef struct options {
    int64_t rows, c;
    int relu, residual, affine, two; /* two: the gradient comes in two parts */
    gf_type type;
    double offset; /* added to x */
} options;

typedef struct bench {
    options o;
    gf_nn_norm n;
    ref_norm ref;
    double *y, *dy, *memory; /* dy: both parts together */
    void *device;
} bench;

static float device_get(const void *p, int64_t i, gf_type t) {
    return t == GF_TYPE_BF16 ? gf_bf16_to_float(((const uint16_t *)p)[i]) : ((const float *)p)[i];
}

static float device_put(void *p, int64_t i, double v, gf_type t) {
    if (t == GF_TYPE_BF16) ((uint16_t *)p)[i] = gf_bf16_from_float((float)v);
    else ((float *)p)[i] = (float)v;
    return device_get(p, i, t);
}

/* Arrays are cut from one block each; `left` counts down. */
static void *cut(char **at, size_t bytes) {
    char *p = *at;
    *at += (bytes + 63) / 64 * 64;
    return p;
}

static void make(bench *b, options o) {
    const int64_t count = o.rows * o.c;
    const size_t big = 4 * (size_t)count, small = 4 * (size_t)o.c;
    rng g = {(uint64_t)(count * 3 + o.c)};
    *b = (bench){.o = o};
    b->memory = calloc((size_t)(4 * count + 2 * o.c), sizeof(double));
    char *at = b->device = aligned_alloc(64, (6 * big + 24 * small + cpu->norm_scratch(o.rows, o.c) + 4096) / 64 * 64);
    double *x = b->memory, *res = x + count, *gamma = res + count, *beta = gamma + o.c;
    b->dy = beta + o.c, b->y = b->dy + count;
    b->ref = (ref_norm){o.rows, o.c, o.relu, x, o.residual ? res : NULL, o.affine ? gamma : NULL, o.affine ? beta : NULL};
    void *dx = cut(&at, big), *dres = cut(&at, big), *dy = cut(&at, big), *dy2 = cut(&at, big);
    float *g32 = cut(&at, small), *b32 = cut(&at, small);
    for (int64_t i = 0; i < count; i++) {
        x[i] = (double)device_put(dx, i, rng_normal(&g) * (1 + (double)(i % o.c) / (double)o.c) + o.offset, o.type);
        res[i] = (double)device_put(dres, i, rng_normal(&g), o.type);
        b->dy[i] = (double)device_put(dy, i, rng_normal(&g), o.type);
        if (o.two) b->dy[i] += (double)device_put(dy2, i, rng_normal(&g), o.type);
    }
    for (int64_t i = 0; i < o.c; i++) {
        gamma[i] = (double)(g32[i] = (float)(0.5 + rng_uniform(&g)));
        beta[i] = (double)(b32[i] = (float)(rng_uniform(&g) - 0.5));
    }
    b->n = (gf_nn_norm){.type = o.type,
                        .rows = o.rows,
                        .c = o.c,
                        .relu = o.relu,
                        .x = dx,
                        .residual = o.residual ? dres : NULL,
                        .y = cut(&at, big),
                        .gamma = o.affine ? g32 : NULL,
                        .beta = o.affine ? b32 : NULL,
                        .dy = dy,
                        .dy2 = o.two ? dy2 : NULL,
                        .dx = o.residual ? cut(&at, big) : dy};
    float **floats[] = {&b->n.running_mean, &b->n.running_var, &b->n.mean, &b->n.istd, &b->n.scale, &b->n.shift};
    for (size_t i = 0; i < 6; i++) *floats[i] = cut(&at, small);
    for (int64_t i = 0; i < o.c; i++) b->n.running_mean[i] = 0, b->n.running_var[i] = 1;
    b->n.sums = cut(&at, 4 * small);
    b->n.coef = cut(&at, 2 * small);
    if (o.affine) b->n.dgamma = cut(&at, small), b->n.dbeta = cut(&at, small);
    b->n.scratch = cut(&at, cpu->norm_scratch(o.rows, o.c));
}

static void drop(bench *b) {
    free(b->memory);
    free(b->device);
}

static void forward(gf_nn_engine *s, bench *b) {
    cpu->norm_sums(s, &b->n);
    cpu->norm_finish(s, &b->n, (double)b->n.rows);
    cpu->norm_apply(s, &b->n);
}

static void backward(gf_nn_engine *s, bench *b) {
    cpu->norm_back_sums(s, &b->n);
    cpu->norm_back_finish(s, &b->n, (double)b->n.rows);
    cpu->norm_back_apply(s, &b->n);
}

static double objective(void *arg) {
    bench *b = arg;
    ref_norm_forward(b->y, &b->ref);
    double sum = 0;
    for (int64_t i = 0; i < b->o.rows * b->o.c; i++) sum += b->y[i] * b->dy[i];
    return sum;
}

static void check_gradient(bench *b, const void *device, gf_type type, double *at, int64_t count, double limit) {
    double *grad = calloc((size_t)count, sizeof *grad);
    ref_gradient(grad, at, count, 1e-6, objective, b);
    within(ref_distance_typed(device, type, grad, count), limit);
    free(grad);
}

static void check(gf_nn_engine *s, options o) {
    const double limit = o.type == GF_TYPE_BF16 ? BF16_LIMIT : FP32_LIMIT;
    const int64_t count = o.rows * o.c;
    bench b;
    make(&b, o);
    forward(s, &b);
    ref_norm_forward(b.y, &b.ref);
    within(ref_distance_typed(b.n.y, o.type, b.y, count), limit);
    backward(s, &b);
    check_gradient(&b, b.n.dx, o.type, b.ref.x, count, 2 * limit); /* g is rounded on the way */
    if (o.residual) check_gradient(&b, b.n.dy, o.type, b.ref.residual, count, limit);
    if (o.affine) check_gradient(&b, b.n.dgamma, GF_TYPE_F32, b.ref.gamma, o.c, limit);
    if (o.affine) check_gradient(&b, b.n.dbeta, GF_TYPE_F32, b.ref.beta, o.c, limit);
    drop(&b);
}

static void check_all(gf_nn_engine *s, int64_t rows, int64_t c, gf_type type) {
    for (int i = 0; i < 16; i++) check(s, (options){rows, c, i & 1, i >> 1 & 1, i >> 2 & 1, i >> 3 & 1, type, 0.3});
}

TEST(batch_norm_follows_the_loops) {
    gf_nn_engine *s = open_engine(2);
    for (size_t i = 0; i < 3; i++) {
        const gf_net_kernels *kernels = gf_net_kernels_find(isas[i]);
        if (!kernels) continue;
        assert_string_equal(kernels->isa, isas[i]);
        s->norm = kernels->norm;
        check_all(s, 6, 16, GF_TYPE_F32);
        check_all(s, 37, 5, GF_TYPE_F32);
        check_all(s, 6, 16, GF_TYPE_BF16);
        check_all(s, 9, 7, GF_TYPE_BF16);
    }
    cpu->close(s);
}

/* Channels beyond what lies on the stack at once; rows beyond a run of float sums and beyond one block. */
TEST(large_batch_norms_follow_the_loops) {
    static const int64_t shapes[][2] = {{70, 1500}, {9000, 16}, {300, 512}};
    gf_nn_engine *s = open_engine(2);
    for (size_t i = 0; i < 3; i++) {
        bench b;
        make(&b, (options){shapes[i][0], shapes[i][1], 1, 1, 1, 0, GF_TYPE_F32, 0});
        forward(s, &b);
        ref_norm_forward(b.y, &b.ref);
        within(ref_distance_typed(b.n.y, GF_TYPE_F32, b.y, b.o.rows * b.o.c), FP32_LIMIT);
        drop(&b);
    }
    cpu->close(s);
}

TEST(a_mean_far_from_zero_costs_no_accuracy) {
    gf_nn_engine *s = open_engine(2);
    bench b;
    make(&b, (options){4000, 16, 0, 0, 1, 0, GF_TYPE_F32, 1000.0});
    forward(s, &b);
    double mean[16], var[16];
    ref_norm_moments(mean, var, &b.ref);
    for (int i = 0; i < 16; i++) {
        within(fabs((double)b.n.mean[i] / mean[i] - 1), 1e-7);
        within(fabs((double)b.n.istd[i] * sqrt(var[i] + GF_NN_EPS) - 1), 1e-6);
    }
    drop(&b);
    cpu->close(s);
}

TEST(running_statistics_move_as_in_torch) {
    gf_nn_engine *s = open_engine(1);
    bench b;
    make(&b, (options){50, 16, 0, 0, 1, 0, GF_TYPE_F32, 0.7});
    double mean[16], var[16];
    ref_norm_moments(mean, var, &b.ref);
    forward(s, &b);
    for (int i = 0; i < 16; i++) {
        within(fabs((double)b.n.running_mean[i] - 0.1 * mean[i]), 1e-6);
        within(fabs((double)b.n.running_var[i] - (0.9 + 0.1 * var[i] * 50 / 49)), 1e-6); /* unbiased */
    }
    cpu->norm_eval(s, &b.n);
    cpu->norm_apply(s, &b.n);
    for (int64_t i = 0; i < 50 * 16; i++) {
        const int c = (int)(i % 16);
        const double istd = 1 / sqrt((double)b.n.running_var[c] + 1e-5);
        const double want = (b.ref.x[i] - (double)b.n.running_mean[c]) * istd * b.ref.gamma[c] + b.ref.beta[c];
        within(fabs((double)device_get(b.n.y, i, GF_TYPE_F32) - want), 2e-6);
    }
    drop(&b);
    cpu->close(s);
}

TEST(threads_do_not_change_a_bit) {
    const options o = {40000, 16, 1, 1, 1, 1, GF_TYPE_F32, 0};
    bench one, many;
    for (int threads = 2; threads <= 5; threads += 3) {
        gf_nn_engine *s = open_engine(1), *t = open_engine(threads);
        make(&one, o);
        make(&many, o);
        forward(s, &one), forward(t, &many);
        backward(s, &one), backward(t, &many);
        assert_memory_equal(one.n.y, many.n.y, 4 * 40000 * 16);
        assert_memory_equal(one.n.dx, many.n.dx, 4 * 40000 * 16);
        assert_memory_equal(one.n.dgamma, many.n.dgamma, 4 * 16);
        assert_memory_equal(one.n.running_var, many.n.running_var, 4 * 16);
        drop(&one), drop(&many);
        cpu->close(s), cpu->close(t);
    }
}

/* Two ranks with half of the rows each, that add their sums, are one rank with all rows. */
TEST(ranks_may_add_their_sums) {
    const int64_t rows = 64, c = 16, half = rows / 2 * c;
    gf_nn_engine *s = open_engine(1);
    bench whole, part[2];
    make(&whole, (options){rows, c, 1, 1, 1, 0, GF_TYPE_F32, 0});
    for (int r = 0; r < 2; r++) {
        make(&part[r], (options){rows, c, 1, 1, 1, 0, GF_TYPE_F32, 0});
        gf_nn_norm *n = &part[r].n;
        n->rows = rows / 2;
        n->x = (const float *)n->x + r * half;
        n->residual = (const float *)n->residual + r * half;
        n->dy = (float *)n->dy + r * half;
    }
    forward(s, &whole), backward(s, &whole);
    double sums[32];
    for (int step = 0; step < 2; step++) {
        for (int r = 0; r < 2; r++) step ? cpu->norm_back_sums(s, &part[r].n) : cpu->norm_sums(s, &part[r].n);
        for (int i = 0; i < 32; i++) sums[i] = part[0].n.sums[i] + part[1].n.sums[i];
        for (int r = 0; r < 2; r++) {
            memcpy(part[r].n.sums, sums, sizeof sums);
            if (step) {
                cpu->norm_back_finish(s, &part[r].n, (double)rows);
                cpu->norm_back_apply(s, &part[r].n);
            } else {
                cpu->norm_finish(s, &part[r].n, (double)rows);
                cpu->norm_apply(s, &part[r].n);
            }
        }
    }
    for (int64_t i = 0; i < 2 * half; i++) {
        const gf_nn_norm *n = &part[i / half].n;
        within(fabsf(((const float *)n->y)[i % half] - ((const float *)whole.n.y)[i]), 2e-6);
        within(fabsf(((const float *)n->dx)[i % half] - ((const float *)whole.n.dx)[i]), 2e-6);
    }
    for (int i = 0; i < 16; i++) /* gradients of weights stay local, to be added with all the others */
        within(fabsf(part[0].n.dgamma[i] + part[1].n.dgamma[i] - whole.n.dgamma[i]), 1e-5);
    drop(&whole), drop(&part[0]), drop(&part[1]);
    cpu->close(s);
}

TEST(nan_is_not_hidden_by_relu) {
    gf_nn_engine *s = open_engine(1);
    bench b;
    make(&b, (options){8, 16, 1, 0, 1, 0, GF_TYPE_F32, 0});
    ((float *)(uintptr_t)b.n.x)[3] = NAN;
    forward(s, &b);
    for (int r = 0; r < 8; r++)
        for (int i = 0; i < 16; i++) assert_int_equal(isnan(((const float *)b.n.y)[r * 16 + i]) != 0, i == 3);
    drop(&b);
    cpu->close(s);
}

/* ----- the other kernels -------------------------------------------------------------------------------------------- */

TEST(small_kernels_follow_the_loops) {
    enum { N = 3, HW = 7, C = 21, COUNT = N * HW * C };
    gf_nn_engine *s = open_engine(2);
    rng g = {77};
    for (size_t isa = 0; isa < 3; isa++)
        for (int t = 0; t < 2; t++) {
            const gf_type type = t ? GF_TYPE_BF16 : GF_TYPE_F32;
            const double limit = t ? 1.0 / 256 : 1e-6;
            float src[COUNT], y[N * C];
            float x[COUNT], dx[COUNT], sum[COUNT];
            const gf_net_kernels *kernels = gf_net_kernels_find(isas[isa]);
            if (!kernels) continue;
            s->norm = kernels->norm;
            for (int i = 0; i < COUNT; i++) src[i] = (float)rng_normal(&g);
            cpu->cast(s, type, x, src, COUNT);
            cpu->cast(s, type, sum, src, COUNT);
            cpu->add(s, type, sum, x, COUNT);
            for (int i = 0; i < COUNT; i++) within(fabsf(device_get(x, i, type) - src[i]), limit * fabs((double)src[i]));
            for (int i = 0; i < COUNT; i++) assert_true(device_get(sum, i, type) == 2 * device_get(x, i, type));
            cpu->mean(s, type, y, x, N, HW, C);
            cpu->mean_back(s, type, dx, y, N, HW, C);
            for (int n = 0; n < N; n++)
                for (int c = 0; c < C; c++) {
                    double want = 0;
                    for (int p = 0; p < HW; p++) want += (double)device_get(x, (n * HW + p) * C + c, type) / HW;
                    within(fabs((double)y[n * C + c] - want), 1e-6);
                    for (int p = 0; p < HW; p++)
                        within(fabs((double)device_get(dx, (n * HW + p) * C + c, type) - want / HW), limit * fabs(want) + 1e-7);
                }
        }
    cpu->close(s);
}

/* ----- the plan ----------------------------------------------------------------------------------------------------- */

static gf_graph *plan(gf_nn_engine *s, gf_net_spec spec) {
    gf_error err = {""};
    gf_graph *g = calloc(1, sizeof *g);
    gf_resnet_build(g, &spec);
    if (gf_graph_ops(&err, g, cpu, s) != GLOFND_OK || gf_graph_plan(&err, g, cpu) != GLOFND_OK) fail_msg("%s", err.text);
    return g;
}

static void check_plan(const gf_graph *g) {
    for (int i = 0; i < g->blocks; i++) {
        const gf_block *a = &g->block[i];
        assert_true(a->first <= a->last);
        assert_true(a->offset % GF_NN_ALIGN == 0 && a->offset + a->bytes <= g->arena_bytes);
        for (int k = 0; k < i; k++) {
            const gf_block *b = &g->block[k];
            const int times_meet = a->first <= b->last && b->first <= a->last;
            const int bytes_meet = a->offset < b->offset + b->bytes && b->offset < a->offset + a->bytes;
            assert_false(times_meet && bytes_meet && a->bytes && b->bytes);
        }
    }
}

TEST(blocks_in_use_at_one_time_never_overlap) {
    static const gf_net_spec specs[] = {
        {.arch = GF_ARCH_RESNET8, .cifar_stem = 1, .batch = 8, .size = 32, .head_hidden = 64, .head_out = 32, .training = 1},
        {.arch = GF_ARCH_RESNET18, .batch = 4, .size = 64, .head_hidden = 128, .head_out = 128, .training = 1},
        {.arch = GF_ARCH_RESNET18, .cifar_stem = 1, .batch = 8, .size = 32, .training = 1},
        {.arch = GF_ARCH_RESNET50, .batch = 8, .size = 96, .head_hidden = 2048, .head_out = 128, .training = 1},
        {.arch = GF_ARCH_RESNET50, .batch = 8, .size = 96},
    };
    for (size_t i = 0; i < sizeof specs / sizeof *specs; i++) {
        gf_nn_engine *s = open_engine(1);
        gf_graph *g = plan(s, specs[i]);
        check_plan(g);
        const double excess = (double)g->arena_bytes / (double)gf_graph_live_bytes(g);
        print_message("plan %zu: %5.1f MB, %.3f of the lower bound\n", i, (double)g->arena_bytes / 0x1p20, excess);
        within(excess, 1.05);
        free(g);
        cpu->close(s);
    }
}

#else
TEST_SKIP("built without oneDNN")
#endif

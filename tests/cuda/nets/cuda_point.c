/* cuda_point.c - 1 x 1 convolutions with a batch norm in their epilogue (cunn_point.cu) against plain loops in double, and whole
 * nets that have them against nets that do not. Limits as in nn_device.h. */
#include "support/test.h"

#include "nn/cuda/cunn_kernels.h"
#include "nn/net.h"
#include "support/cuda_main.h"
#include "support/nn_device.h"
#include "support/nn_norm.h"
#include "support/nn_reference.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct sizes {
    int64_t n, size, in, out;
} sizes;

static gf_nn_shape shape_of(sizes k) { return ref_shape(GF_NN_CONV, GF_TYPE_BF16, k.n, k.size, k.in, k.out, 1, 1, 0); }

/* ----- forward ----------------------------------------------------------------------------------------------------- */

static void check_forward(nn_device *d, sizes k) {
    rng g = {(uint64_t)(k.n + k.in + 3 * k.out)};
    const gf_nn_shape s = shape_of(k);
    const int64_t rows = k.n * k.size * k.size, count = rows * k.out;
    float *x = norm_numbers(&g, rows * k.in, k.in, 0.5f), *w = norm_numbers(&g, k.out * k.in, k.in, 0.125f);
    float *want = malloc(sizeof *want * (size_t)count);
    for (int64_t i = 0; i < count; i++) {
        double sum = 0;
        for (int64_t j = 0; j < k.in; j++) sum += (double)x[i / k.out * k.in + j] * w[i % k.out * k.in + j];
        want[i] = (float)sum;
    }
    gf_nn_norm n = norm_on_device(d, &g, rows, k.out);
    gf_nn_args a = {.x = nn_numbers(d, x, rows * k.in, s.type), .packed = nn_numbers(d, w, k.out * k.in, s.type), .norm = &n};
    void *first = a.y = nn_take(d, 2 * (size_t)count);
    assert_int_equal(gf_cunn_conv1x1_fits(d->s, &s), 1);
    gf_cunn_conv1x1_forward(d->s, &s, &a);
    float *y = nn_floats(d, a.y, count, s.type);
    nn_within("y", y, want, count, NN_BF16_LIMIT);
    norm_check_statistics(d, &n, y);
    gf_nn_norm again = norm_on_device(d, &g, rows, k.out);
    a.norm = &again, a.y = nn_take(d, 2 * (size_t)count);
    gf_cunn_conv1x1_forward(d->s, &s, &a);
    norm_same_bits(d, first, a.y, 2 * (size_t)count);
    norm_same_bits(d, n.mean, again.mean, 8 * (size_t)k.out); /* and the deviations */
    free(x), free(w), free(want), free(y);
    nn_drop(d);
}

/* ----- backward ---------------------------------------------------------------------------------------------------- */

typedef struct back_case {
    float *dy, *w, *other, *x[2], *mean[2];
    uint8_t *bits;
} back_case;

static back_case draw_back(rng *g, sizes k, int64_t rows) {
    back_case b = {.dy = norm_numbers(g, rows * k.out, k.out, 0.25f),
                   .w = nn_draw(g, k.out * k.in),
                   .other = nn_draw(g, rows * k.in)};
    b.bits = malloc((size_t)(rows * k.in / 8));
    for (int64_t i = 0; i < rows * k.in / 8; i++) b.bits[i] = (uint8_t)(rng_next(g) >> 13);
    for (int i = 0; i < 2; i++) b.x[i] = norm_numbers(g, rows * k.in, k.in, 2.0f), b.mean[i] = nn_draw(g, k.in);
    return b;
}

static void drop_back(back_case *b) {
    free(b->dy), free(b->w), free(b->other), free(b->bits);
    for (int i = 0; i < 2; i++) free(b->x[i]), free(b->mean[i]);
}

static float *wanted_g(const back_case *b, sizes k, int64_t rows) {
    float *g = malloc(sizeof *g * (size_t)(rows * k.in));
    for (int64_t i = 0; i < rows * k.in; i++) {
        double sum = b->other[i];
        for (int64_t j = 0; j < k.out; j++) sum += (double)b->dy[i / k.in * k.out + j] * b->w[j * k.in + i % k.in];
        g[i] = b->bits[i / 8] >> (i % 8) & 1 ? (float)sum : 0.0f;
    }
    return g;
}

static void check_backward(nn_device *d, sizes k, int pair) {
    rng g = {(uint64_t)(k.n + 5 * k.in + k.out)};
    const gf_nn_shape s = shape_of(k);
    const int64_t rows = k.n * k.size * k.size, count = rows * k.in;
    back_case b = draw_back(&g, k, rows);
    gf_nn_norm n = norm_left(d, &g, b.x[0], b.mean[0], rows, k.in), m = norm_left(d, &g, b.x[1], b.mean[1], rows, k.in);
    n.positive = nn_take(d, (size_t)(count / 8));
    nn_send(d, n.positive, b.bits, (size_t)(count / 8));
    n.shortcut = pair ? &m : NULL;
    n.dy = nn_numbers(d, b.other, count, s.type);
    const gf_nn_args a = {.dy = nn_numbers(d, b.dy, rows * k.out, s.type),
                          .packed = nn_numbers(d, b.w, k.out * k.in, s.type),
                          .before = &n};
    assert_int_equal(gf_cunn_conv1x1_back_fits(d->s, &s), 1);
    gf_cunn_conv1x1_back(d->s, &s, &a);
    float *have = nn_floats(d, n.dy, count, s.type), *want = wanted_g(&b, k, rows);
    nn_within("g", have, want, count, NN_BF16_LIMIT);
    for (int64_t i = 0; i < count; i++)
        if (!(b.bits[i / 8] >> (i % 8) & 1)) assert_true(have[i] == 0.0f);
    norm_check_lines(d, "norm", &n, have, b.x[0], b.mean[0]);
    if (pair) norm_check_lines(d, "shortcut", &m, have, b.x[1], b.mean[1]);
    void *first = n.dy;
    float *before = n.dgamma;
    n.dy = nn_numbers(d, b.other, count, s.type), n.dgamma = nn_take(d, 4 * (size_t)k.in);
    gf_cunn_conv1x1_back(d->s, &s, &a);
    norm_same_bits(d, first, n.dy, 2 * (size_t)count);
    norm_same_bits(d, before, n.dgamma, 4 * (size_t)k.in);
    free(have), free(want);
    drop_back(&b);
    nn_drop(d);
}

/* ----- tests ------------------------------------------------------------------------------------------------------- */

static void open_device(nn_device *d) {
    nn_open_for(d, &gf_nn_backend_cuda, gf_cunn_conv1x1_fits, shape_of((sizes){2, 8, 64, 128}));
}

TEST(small_forward) {
    nn_device d;
    open_device(&d);
    check_forward(&d, (sizes){4, 16, 128, 128});
    check_forward(&d, (sizes){1, 16, 64, 64});
    nn_close(&d);
}

TEST(small_backward) {
    nn_device d;
    open_device(&d);
    check_backward(&d, (sizes){4, 16, 128, 64}, 0);
    check_backward(&d, (sizes){4, 16, 128, 128}, 1);
    nn_close(&d);
}

/* More tiles than blocks, every length of ring. */
TEST(forward_agrees) {
    nn_device d;
    open_device(&d);
    const sizes all[] = {{40, 32, 64, 128}, {40, 32, 64, 64},   {24, 32, 256, 64},
                         {8, 32, 128, 512}, {4, 32, 256, 1024}, {4, 32, 512, 256}};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) check_forward(&d, all[i]);
    nn_close(&d);
}

TEST(backward_agrees) {
    nn_device d;
    open_device(&d);
    const sizes all[] = {{40, 32, 128, 64}, {16, 32, 256, 64}, {8, 32, 256, 128}, {4, 32, 512, 256}, {2, 32, 1024, 512}};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        for (int pair = 0; pair < 2; pair++) check_backward(&d, all[i], pair);
    nn_close(&d);
}

TEST(other_shapes_are_refused) {
    nn_device d;
    open_device(&d);
    gf_nn_shape s = shape_of((sizes){2, 8, 64, 128});
    s.stride = 2;
    assert_int_equal(gf_cunn_conv1x1_fits(d.s, &s), 0);
    const sizes wrong[] = {{1, 8, 64, 128}, {2, 8, 32, 128}, {2, 8, 64, 192}, {2, 8, 64, 32}, {2, 8, 1024, 128}};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        s = shape_of(wrong[i]);
        assert_int_equal(gf_cunn_conv1x1_fits(d.s, &s), 0);
    }
    s = shape_of((sizes){2, 8, 64, 128});
    assert_int_equal(gf_cunn_conv1x1_back_fits(d.s, &s), 0); /* 64 columns */
    nn_close(&d);
}

/* ----- whole nets -------------------------------------------------------------------------------------------------- */

enum { IMAGES = 48, SIZE = 224, OUT = 128 }; /* the smallest batch of ResNet-50 whose first blocks have them */

typedef struct outcome {
    float *gradient, *embedding;
    int64_t count;
} outcome;

static glofnd_status sum_alone(gf_error *err, void *user, double *x, int64_t n) {
    return (void)err, (void)user, (void)x, (void)n, GLOFND_OK;
}

/* The floats of all tensors: gradients, or running averages. */
static float *floats_of(gf_net *net, int gradients, int64_t *count) {
    gf_error err = {""};
    gf_tensor *t;
    const int tensors = gf_net_tensors(net, &t);
    int64_t all = 0;
    for (int i = 0; i < tensors; i++) all += (t[i].grad != NULL) == gradients ? t[i].count : 0;
    float *x = malloc(sizeof *x * (size_t)all), *at = x;
    for (int i = 0; i < tensors; i++) {
        if ((t[i].grad != NULL) != gradients) continue;
        nn_ok(gf_net_get(&err, net, &t[i], gradients ? t[i].grad : t[i].value, at), &err);
        at += t[i].count;
    }
    *count = all;
    return x;
}

/* Forward in eval mode, and of the same images a second time, leave running averages as they are. */
static void check_averages_stay(gf_net *net) {
    gf_error err = {""};
    int64_t count;
    float *before = floats_of(net, 0, &count);
    for (int train = 0; train <= 2; train += 2) {
        nn_ok(gf_net_forward(&err, net, NULL, IMAGES, train, NULL, NULL), &err);
        float *after = floats_of(net, 0, &count);
        assert_memory_equal(before, after, sizeof *after * (size_t)count);
        free(after);
    }
    free(before);
}

static outcome run_net(gf_precision precision, const gf_sync_norm *ranks, const float *x, const float *d) {
    const gf_net_spec spec = {.arch = GF_ARCH_RESNET50,
                              .batch = IMAGES,
                              .size = SIZE,
                              .head_hidden = 256,
                              .head_out = OUT,
                              .ranks = ranks,
                              .precision = precision,
                              .training = 1,
                              .seed = 7,
                              .device = GLOFND_DEVICE_CUDA,
                              .deterministic = 2,
                              .exact = 1};
    gf_error err = {""};
    gf_net *net = NULL;
    const float *projection = NULL;
    outcome o;
    nn_ok(gf_net_create(&err, &spec, &net), &err);
    nn_ok(gf_net_forward(&err, net, x, IMAGES, 1, NULL, &projection), &err);
    o.embedding = malloc(sizeof(float) * IMAGES * OUT);
    nn_ok(gf_net_read(&err, net, o.embedding, projection, sizeof(float) * IMAGES * OUT), &err);
    float *there = gf_net_backend(net)->alloc(gf_net_engine(net), sizeof(float) * IMAGES * OUT);
    nn_ok(gf_net_backend(net)->put(&err, gf_net_engine(net), there, d, sizeof(float) * IMAGES * OUT), &err);
    nn_ok(gf_net_backward(&err, net, there), &err);
    o.gradient = floats_of(net, 1, &o.count);
    check_averages_stay(net);
    gf_net_backend(net)->release(gf_net_engine(net), there);
    gf_net_free(net);
    return o;
}

/* Rounding to bf16 is amplified by ReLU and by batch norm: embeddings at these weights are 0.8 of themselves off float32, so the
 * measure is a net whose batch norms are done apart, as they are where ranks add their sums; numbers of a wrong forward would be
 * 1.4 off. Gradients are as far off as they are large, on both ways: they are only known to be finite here, and compared above,
 * layer by layer. */
TEST(nets_are_as_exact) {
    nn_device dev;
    open_device(&dev);
    nn_close(&dev);
    rng g = {5};
    float *x = nn_draw(&g, (int64_t)IMAGES * SIZE * SIZE * 3), *d = nn_draw(&g, IMAGES * OUT);
    const gf_sync_norm alone = {.count = 1, .sum = sum_alone};
    outcome wide = run_net(GF_FP32, NULL, x, d), apart = run_net(GF_BF16, &alone, x, d), fused = run_net(GF_BF16, NULL, x, d);
    const double a = nn_distance(apart.gradient, wide.gradient, wide.count),
                 b = nn_distance(fused.gradient, wide.gradient, wide.count);
    const double e = nn_distance(apart.embedding, wide.embedding, IMAGES * OUT),
                 f = nn_distance(fused.embedding, wide.embedding, IMAGES * OUT);
    if (getenv("CUDA_NN_SHOW")) printf("gradient %.4f apart, %.4f fused; embedding %.4f, %.4f\n", a, b, e, f);
    assert_true(isfinite(a) && isfinite(b) && f > 0 && f <= 1.1 * e);
    assert_true(nn_distance(fused.gradient, apart.gradient, wide.count) > 0); /* not the same kernels */
    outcome *all[] = {&wide, &apart, &fused};
    for (int i = 0; i < 3; i++) free(all[i]->gradient), free(all[i]->embedding);
    free(x), free(d);
}

TEST_NEEDS(no_cuda_device)

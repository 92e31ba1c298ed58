/* cuda_nn.c - every op of networks on CUDA against the CPU: convolutions, linear layers, pooling, batch norm in all its forms,
 * casts, optimizers. float32 without TF32 must agree to rounding; bf16 is compared with float32 on the same (bf16) inputs, so
 * that only the rounding of results is left. Each error is |a - b| / |b| over the whole array.
 */
#include "support/test.h"

#include "nn/nn_ops.h"
#include "optim/optim.h"
#include "support/cuda_main.h"
#include "support/nn_device.h"
#include "support/nn_reference.h"
#include "util/dtype.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef GF_HAVE_DNNL

static const gf_nn_backend *const cpu = &gf_nn_backend_cpu, *const cuda = &gf_nn_backend_cuda;

/* ----- ops --------------------------------------------------------------------------------------------------------- */

typedef struct results {
    float *y, *dx, *dw;
} results;

static results run_op(nn_device *d, const gf_nn_shape *s, const float *x, const float *w, const float *dy) {
    gf_error err = {""};
    gf_nn_sizes sizes;
    gf_nn_op *op;
    const int64_t in = ref_in_count(s), out = ref_out_count(s), weights = ref_weight_count(s);
    const int turned = d->b->put && s->kind == GF_NN_CONV;
    float *w2 = malloc(sizeof *w2 * (size_t)weights + 4);
    if (turned) nn_turn(s, w, w2, 1);
    nn_ok(d->b->op_create(&err, d->s, s, &sizes, &op), &err);
    const gf_nn_args a = {.x = nn_numbers(d, x, in, s->type),
                          .dy = nn_numbers(d, dy, out, s->type),
                          .weight = nn_numbers(d, turned ? w2 : w, weights, GF_TYPE_F32),
                          .y = nn_take(d, gf_type_bytes[s->type] * (size_t)out),
                          .dx = nn_take(d, gf_type_bytes[s->type] * (size_t)in),
                          .weight_grad = nn_take(d, 4 * (size_t)weights),
                          .packed = nn_take(d, sizes.packed),
                          .saved = nn_take(d, sizes.saved),
                          .scratch = nn_take(d, sizes.scratch)};
    nn_ok(d->b->op_pack(&err, op, &a), &err);
    nn_ok(d->b->op_forward(&err, op, &a), &err);
    nn_ok(d->b->op_backward(&err, op, &a), &err);
    const gf_nn_args *const args[] = {&a};
    if (d->b->unpack_all && sizes.packed) nn_ok(d->b->unpack_all(&err, d->s, args, &op, 1), &err);
    results r = {nn_floats(d, a.y, out, s->type), nn_floats(d, a.dx, in, s->type),
                 nn_floats(d, a.weight_grad, weights, GF_TYPE_F32)};
    if (turned) {
        nn_turn(s, r.dw, w2, 0);
        memcpy(r.dw, w2, sizeof *w2 * (size_t)weights);
    }
    free(w2);
    return r;
}

static void drop(results *r) { free(r->y), free(r->dx), free(r->dw); }

static void compare_op(const char *name, gf_nn_shape s, gf_type type, int exact) {
    rng g = {(uint64_t)(s.n * 7919 + s.in * 31 + s.out)};
    const int64_t in = ref_in_count(&s), out = ref_out_count(&s), weights = ref_weight_count(&s);
    float *x = nn_draw(&g, in), *w = nn_draw(&g, weights), *dy = nn_draw(&g, out);
    for (int64_t i = 0; s.colours && i < in; i++)
        if (i % s.in >= s.colours) x[i] = 0.0f;
    nn_device host = nn_open(cpu, 1), gpu = nn_open(cuda, exact);
    char text[96];
    s.type = GF_TYPE_F32;
    results want = run_op(&host, &s, x, w, dy);
    s.type = type;
    results have = run_op(&gpu, &s, x, w, dy);
    const double limit = type == GF_TYPE_BF16 ? NN_BF16_LIMIT : NN_FP32_LIMIT; /* bf16 numbers are TF32 numbers: exact, too */
    snprintf(text, sizeof text, "%s %s y", name, type == GF_TYPE_BF16 ? "bf16" : exact ? "f32" : "tf32");
    nn_within(text, have.y, want.y, out, limit);
    text[strlen(text) - 1] = 0, strcat(text, "dx");
    if (s.input_grad) nn_within(text, have.dx, want.dx, in, limit);
    text[strlen(text) - 1] = 0, strcat(text, "w");
    if (weights) nn_within(text, have.dw, want.dw, weights, limit);
    drop(&want), drop(&have);
    nn_close(&host), nn_close(&gpu);
    free(x), free(w), free(dy);
}

static gf_nn_shape conv(int64_t n, int64_t size, int64_t in, int64_t out, int kernel, int stride) {
    return ref_shape(GF_NN_CONV, GF_TYPE_F32, n, size, in, out, kernel, stride, kernel / 2);
}

static void convolutions(gf_type type, int exact) {
    compare_op("conv 3x3 of 8", conv(4, 9, 8, 16, 3, 1), type, exact);
    compare_op("conv 7x7 stride 2 of 8", conv(4, 32, 8, 64, 7, 2), type, exact);
    compare_op("conv 1x1", conv(4, 14, 64, 256, 1, 1), type, exact);
    compare_op("conv 1x1 stride 2", conv(4, 14, 64, 128, 1, 2), type, exact);
    compare_op("conv 3x3", conv(4, 8, 64, 64, 3, 1), type, exact);
    compare_op("conv 3x3 stride 2", conv(4, 8, 64, 128, 3, 2), type, exact);
    compare_op("conv 3x3 on 1 pixel", conv(16, 1, 64, 64, 3, 1), type, exact);
    compare_op("conv 3x3 of 16", conv(2, 5, 16, 16, 3, 2), type, exact);
}

static gf_nn_shape image_conv(int64_t n, int64_t size, int64_t out, int kernel, int stride) {
    gf_nn_shape s = conv(n, size, 8, out, kernel, stride);
    if (kernel == stride) s.pad = 0; /* patches */
    s.input_grad = 0;
    s.colours = 3;
    return s;
}

/* The stems of ResNet, of its form for small images, and of CLIP's; sizes that fill no tile, and more tiles than blocks. */
TEST(convolutions_of_images_agree) {
    compare_op("images 7x7 stride 2", image_conv(5, 64, 64, 7, 2), GF_TYPE_BF16, 1);
    compare_op("images 7x7 stride 2, odd", image_conv(3, 37, 64, 7, 2), GF_TYPE_BF16, 1);
    compare_op("images 3x3", image_conv(4, 32, 64, 3, 1), GF_TYPE_BF16, 1);
    compare_op("images 3x3, odd", image_conv(3, 19, 64, 3, 1), GF_TYPE_BF16, 1);
    compare_op("images 3x3 stride 2", image_conv(4, 40, 32, 3, 2), GF_TYPE_BF16, 1);
    compare_op("images 3x3 stride 2, odd", image_conv(2, 21, 32, 3, 2), GF_TYPE_BF16, 1);
    compare_op("images 7x7 stride 2, many", image_conv(40, 112, 64, 7, 2), GF_TYPE_BF16, 1);
    compare_op("patches of 16", image_conv(5, 64, 192, 16, 16), GF_TYPE_BF16, 1);
    compare_op("patches of 32", image_conv(9, 100, 64, 32, 32), GF_TYPE_BF16, 1);          /* 4 pixels left over */
    compare_op("images 3x3 stride 2 of 64", image_conv(2, 21, 64, 3, 2), GF_TYPE_BF16, 1); /* no own kernel */
}

TEST(float_convolutions_agree) { convolutions(GF_TYPE_F32, 1); }
TEST(tf32_convolutions_agree) { convolutions(GF_TYPE_F32, 0); }
TEST(bf16_convolutions_agree) { convolutions(GF_TYPE_BF16, 0); }

TEST(linear_layers_agree) {
    const gf_nn_shape shapes[] = {ref_shape(GF_NN_LINEAR, GF_TYPE_F32, 64, 1, 512, 2048, 1, 1, 0),
                                  ref_shape(GF_NN_LINEAR, GF_TYPE_F32, 6, 1, 12, 20, 1, 1, 0),
                                  ref_shape(GF_NN_LINEAR, GF_TYPE_F32, 3, 1, 5, 7, 1, 1, 0)};
    for (size_t i = 0; i < 3; i++) {
        compare_op("linear", shapes[i], GF_TYPE_F32, 1);
        compare_op("linear", shapes[i], GF_TYPE_F32, 0);
    }
}

TEST(maxima_agree) {
    const gf_nn_shape shapes[] = {ref_shape(GF_NN_MAXPOOL, GF_TYPE_F32, 2, 6, 16, 16, 3, 2, 1),
                                  ref_shape(GF_NN_MAXPOOL, GF_TYPE_F32, 2, 7, 5, 5, 3, 2, 1),
                                  ref_shape(GF_NN_MAXPOOL, GF_TYPE_F32, 4, 56, 64, 64, 3, 2, 1)};
    for (size_t i = 0; i < 3; i++) compare_op("max pooling", shapes[i], GF_TYPE_F32, 1);
    /* bf16: the two may choose differently among equal values of a window; the tests of networks cover ties. */
}

/* ----- batch norm -------------------------------------------------------------------------------------------------- */

typedef struct norm_case {
    int64_t rows, c;
    int relu, residual, second, affine;
} norm_case;

enum { Y, DX, G, DGAMMA, DBETA, RUNNING_MEAN, RUNNING_VAR, NORM_RESULTS };

typedef struct norm_inputs {
    float *x, *residual, *gamma, *beta, *dy, *dy2, *ones, *zeros;
} norm_inputs;

static void run_norm(nn_device *d, const norm_case *k, const norm_inputs *in, gf_type type, int split, float *out[NORM_RESULTS]) {
    const int64_t count = k->rows * k->c, c = k->c;
    gf_nn_norm n = {.type = type,
                    .rows = k->rows,
                    .c = c,
                    .relu = k->relu,
                    .x = nn_numbers(d, in->x, count, type),
                    .residual = k->residual ? nn_numbers(d, in->residual, count, type) : NULL,
                    .y = nn_take(d, gf_type_bytes[type] * (size_t)count),
                    .gamma = k->affine ? nn_numbers(d, in->gamma, c, GF_TYPE_F32) : NULL,
                    .beta = k->affine ? nn_numbers(d, in->beta, c, GF_TYPE_F32) : NULL,
                    .running_mean = nn_numbers(d, in->zeros, c, GF_TYPE_F32),
                    .running_var = nn_numbers(d, in->ones, c, GF_TYPE_F32),
                    .sums = nn_take(d, 16 * (size_t)c),
                    .coef = nn_take(d, 8 * (size_t)c),
                    .scratch = nn_take(d, d->b->norm_scratch(k->rows, c)),
                    .dy = nn_numbers(d, in->dy, count, type),
                    .dy2 = k->second ? nn_numbers(d, in->dy2, count, type) : NULL,
                    .dgamma = k->affine ? nn_take(d, 4 * (size_t)c) : NULL,
                    .dbeta = k->affine ? nn_take(d, 4 * (size_t)c) : NULL};
    float *saved = nn_take(d, 16 * (size_t)c);
    n.mean = saved, n.istd = saved + c, n.scale = saved + 2 * c, n.shift = saved + 3 * c;
    n.dx = k->residual ? nn_take(d, gf_type_bytes[type] * (size_t)count) : n.dy;
    if (d->b->norm_bits && k->relu && k->residual && d->b->norm_bits(type, k->rows, c))
        n.positive = nn_take(d, d->b->norm_bits(type, k->rows, c));
    const int whole = d->b->norm_forward && !split;
    if (whole) d->b->norm_forward(d->s, &n);
    else d->b->norm_sums(d->s, &n), d->b->norm_finish(d->s, &n, (double)k->rows), d->b->norm_apply(d->s, &n);
    out[Y] = nn_floats(d, n.y, count, type);
    if (whole) d->b->norm_backward(d->s, &n);
    else {
        d->b->norm_back_sums(d->s, &n), d->b->norm_back_finish(d->s, &n, (double)k->rows);
        d->b->norm_back_apply(d->s, &n);
    }
    out[DX] = nn_floats(d, n.dx, count, type);
    out[G] = nn_floats(d, n.dy, count, type);
    out[DGAMMA] = k->affine ? nn_floats(d, n.dgamma, c, GF_TYPE_F32) : NULL;
    out[DBETA] = k->affine ? nn_floats(d, n.dbeta, c, GF_TYPE_F32) : NULL;
    out[RUNNING_MEAN] = nn_floats(d, n.running_mean, c, GF_TYPE_F32);
    out[RUNNING_VAR] = nn_floats(d, n.running_var, c, GF_TYPE_F32);
}

static void compare_norm(const norm_case *k, gf_type type, int split) {
    static const char *const names[NORM_RESULTS] = {"y", "dx", "g", "dgamma", "dbeta", "running mean", "running variance"};
    rng g = {(uint64_t)(k->rows * 31 + k->c)};
    const int64_t count = k->rows * k->c;
    norm_inputs in = {nn_draw(&g, count),
                      nn_draw(&g, count),
                      nn_draw(&g, k->c),
                      nn_draw(&g, k->c),
                      nn_draw(&g, count),
                      nn_draw(&g, count),
                      NULL,
                      NULL};
    in.ones = calloc((size_t)k->c, 4), in.zeros = calloc((size_t)k->c, 4);
    for (int64_t i = 0; i < k->c; i++) in.ones[i] = 1.0f;
    for (int64_t i = 0; i < count; i++) in.x[i] = gf_bf16_to_float(gf_bf16_from_float(in.x[i] + (float)(i % k->c % 5) * 3.0f));
    float *want[NORM_RESULTS], *have[NORM_RESULTS];
    nn_device host = nn_open(cpu, 1), gpu = nn_open(cuda, 1);
    run_norm(&host, k, &in, GF_TYPE_F32, 1, want);
    run_norm(&gpu, k, &in, type, split, have);
    for (int i = 0; i < NORM_RESULTS; i++) {
        char text[96];
        snprintf(text, sizeof text, "norm %lldx%lld%s%s%s %s", (long long)k->rows, (long long)k->c, k->relu ? " relu" : "",
                 k->residual ? " residual" : "", type == GF_TYPE_BF16 ? " bf16" : "", names[i]);
        const int64_t n = i <= G ? count : k->c;
        const int sum = i == DGAMMA || i == DBETA; /* of rounded numbers of both signs */
        const double limit = type == GF_TYPE_F32 ? NN_FP32_LIMIT : sum ? 4 * NN_BF16_LIMIT : NN_BF16_LIMIT;
        if (want[i] && (i != G || k->residual)) nn_within(text, have[i], want[i], n, limit);
        free(want[i]), free(have[i]);
    }
    nn_close(&host), nn_close(&gpu);
    free(in.x), free(in.residual), free(in.gamma), free(in.beta), free(in.dy), free(in.dy2), free(in.ones), free(in.zeros);
}

static void norms(gf_type type) {
    static const norm_case cases[] = {{4096, 64, 1, 0, 0, 1},   {4096, 64, 1, 0, 1, 1},  {1000, 256, 1, 1, 1, 1},
                                      {1000, 256, 1, 1, 0, 1},  {777, 2048, 0, 0, 0, 1}, {64, 128, 0, 0, 0, 0},
                                      {100, 24, 1, 1, 1, 1},    {50, 7, 1, 0, 0, 1},     {33, 5, 1, 1, 1, 1},
                                      {100000, 16, 1, 1, 1, 1}, {9, 64, 1, 0, 0, 1},     {300, 320, 1, 0, 0, 1}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) compare_norm(&cases[i], type, (int)(i % 2));
}

TEST(float_norms_agree) { norms(GF_TYPE_F32); }
TEST(bf16_norms_agree) { norms(GF_TYPE_BF16); }

/* Same inputs, same bits: sums must not depend on the order of blocks. */
TEST(norms_repeat_bit_for_bit) {
    const norm_case k = {200000, 64, 1, 1, 1, 1};
    rng g = {77};
    const int64_t count = k.rows * k.c;
    norm_inputs in = {nn_draw(&g, count),
                      nn_draw(&g, count),
                      nn_draw(&g, k.c),
                      nn_draw(&g, k.c),
                      nn_draw(&g, count),
                      nn_draw(&g, count),
                      NULL,
                      NULL};
    in.ones = nn_draw(&g, k.c), in.zeros = nn_draw(&g, k.c);
    float *a[NORM_RESULTS], *b[NORM_RESULTS];
    for (int repeat = 0; repeat < 5; repeat++) {
        nn_device gpu = nn_open(cuda, 1);
        run_norm(&gpu, &k, &in, GF_TYPE_BF16, 0, repeat ? b : a);
        nn_close(&gpu);
        for (int i = 0; i < NORM_RESULTS && repeat; i++) {
            assert_memory_equal(a[i], b[i], sizeof(float) * (size_t)(i <= G ? count : k.c));
            free(b[i]);
        }
    }
    for (int i = 0; i < NORM_RESULTS; i++) free(a[i]);
    free(in.x), free(in.residual), free(in.gamma), free(in.beta), free(in.dy), free(in.dy2), free(in.ones), free(in.zeros);
}

/* ----- neighbours -------------------------------------------------------------------------------------------------- */

static void neighbours_agree(gf_type type) {
    rng g = {5};
    const int64_t n = 6, hw = 49, c = 72, count = n * hw * c;
    float *x = nn_draw(&g, count), *z = nn_draw(&g, count), *dy = nn_draw(&g, n * c);
    nn_device d[2] = {nn_open(cpu, 1), nn_open(cuda, 1)};
    float *mean[2], *back[2], *sum[2], *cast[2];
    for (int i = 0; i < 2; i++) {
        const gf_type t = i ? type : GF_TYPE_F32;
        void *px = nn_numbers(&d[i], x, count, t), *pz = nn_numbers(&d[i], z, count, t), *to = nn_take(&d[i], 4 * (size_t)count);
        float *py = nn_take(&d[i], 4 * (size_t)(n * c)), *pdy = nn_numbers(&d[i], dy, n * c, GF_TYPE_F32);
        float *wide = nn_numbers(&d[i], x, count, GF_TYPE_F32);
        d[i].b->mean(d[i].s, t, py, px, n, hw, c);
        mean[i] = nn_floats(&d[i], py, n * c, GF_TYPE_F32);
        d[i].b->mean_back(d[i].s, t, to, pdy, n, hw, c);
        back[i] = nn_floats(&d[i], to, count, t);
        d[i].b->cast(d[i].s, t, to, wide, count);
        cast[i] = nn_floats(&d[i], to, count, t);
        d[i].b->add(d[i].s, t, px, pz, count);
        sum[i] = nn_floats(&d[i], px, count, t);
    }
    const double limit = type == GF_TYPE_BF16 ? NN_BF16_LIMIT : NN_FP32_LIMIT;
    nn_within("mean", mean[1], mean[0], n * c, NN_FP32_LIMIT);
    nn_within("mean, backward", back[1], back[0], count, limit);
    nn_within("cast", cast[1], cast[0], count, 0);
    nn_within("sum", sum[1], sum[0], count, limit);
    for (int i = 0; i < 2; i++) free(mean[i]), free(back[i]), free(sum[i]), free(cast[i]), nn_close(&d[i]);
    free(x), free(z), free(dy);
}

TEST(float_neighbours_agree) { neighbours_agree(GF_TYPE_F32); }
TEST(bf16_neighbours_agree) { neighbours_agree(GF_TYPE_BF16); }

/* ----- optimizers -------------------------------------------------------------------------------------------------- */

enum { TENSORS = 5, STEPS = 4 };
static const size_t sizes_of[TENSORS] = {100003, 64, 1, 8192, 20000};

static void run_optim(nn_device *d, const gf_optim_rule *rule, float *p[TENSORS], float *g[TENSORS], float *out[TENSORS],
                      double *norm) {
    gf_error err = {""};
    gf_param list[TENSORS];
    gf_optim *o = NULL;
    for (int i = 0; i < TENSORS; i++) {
        const int64_t n = (int64_t)sizes_of[i];
        list[i] = (gf_param){nn_numbers(d, p[i], n, GF_TYPE_F32),
                             nn_numbers(d, g[i], n, GF_TYPE_F32),
                             nn_take(d, 4 * (size_t)n),
                             nn_take(d, 4 * (size_t)n),
                             (size_t)n,
                             i != 1,
                             i != 1};
    }
    nn_ok(gf_optim_create(&err, d->b, d->s, rule, list, TENSORS, &o), &err);
    for (int step = 1; step <= STEPS; step++) {
        nn_ok(gf_optim_set(&err, o, 0.1 * step, step), &err);
        nn_ok(gf_optim_step(&err, o), &err);
    }
    nn_ok(gf_optim_norm(&err, o, norm), &err);
    for (int i = 0; i < TENSORS; i++) out[i] = nn_floats(d, list[i].p, (int64_t)sizes_of[i], GF_TYPE_F32);
    gf_optim_free(o);
}

TEST(optimizers_agree) {
    static const gf_optim_rule rules[] = {
        {.kind = GF_OPTIM_LARS, .momentum = 0.9, .weight_decay = 1e-2, .trust = 0.01},
        {.kind = GF_OPTIM_SGD, .momentum = 0.9, .weight_decay = 1e-2},
        {.kind = GF_OPTIM_SGD, .momentum = 0.9, .weight_decay = 1e-2, .nesterov = 1},
        {.kind = GF_OPTIM_SGD, .weight_decay = 1e-2},
        {.kind = GF_OPTIM_ADAMW, .weight_decay = 1e-2, .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8}};
    rng r = {3};
    float *p[TENSORS], *g[TENSORS];
    for (int i = 0; i < TENSORS; i++) p[i] = nn_draw(&r, (int64_t)sizes_of[i]), g[i] = nn_draw(&r, (int64_t)sizes_of[i]);
    for (size_t k = 0; k < sizeof rules / sizeof *rules; k++) {
        float *want[TENSORS], *have[TENSORS];
        double norm[2];
        nn_device host = nn_open(cpu, 1), gpu = nn_open(cuda, 1);
        run_optim(&host, &rules[k], p, g, want, &norm[0]);
        run_optim(&gpu, &rules[k], p, g, have, &norm[1]);
        assert_true(fabs(norm[0] / norm[1] - 1) < 1e-12);
        for (int i = 0; i < TENSORS; i++) {
            nn_within("optimizer", have[i], want[i], (int64_t)sizes_of[i], 2e-7);
            free(want[i]), free(have[i]);
        }
        nn_close(&host), nn_close(&gpu);
    }
    g[3][17] = (float)NAN; /* nothing may change */
    for (int k = 0; k < 2; k++) {
        float *after[TENSORS];
        double norm;
        nn_device d = nn_open(k ? cuda : cpu, 1);
        run_optim(&d, &rules[0], p, g, after, &norm);
        assert_false(isfinite(norm));
        for (int i = 0; i < TENSORS; i++) {
            assert_memory_equal(after[i], p[i], sizeof(float) * sizes_of[i]);
            free(after[i]);
        }
        nn_close(&d);
    }
    for (int i = 0; i < TENSORS; i++) free(p[i]), free(g[i]);
}

/* cuda_nn [PATTERN]: only tests whose name fits it. */
TEST_NEEDS(no_cuda_device)

#else
TEST_SKIP("built without oneDNN, which the device is compared with")
#endif

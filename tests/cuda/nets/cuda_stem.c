/* cuda_stem.c - the stem of ResNet as CUDA does it, convolution and max pooling in one and batch norm on what is left, against
 * the CPU doing convolution, batch norm, ReLU and max pooling one after the other.
 *
 * The result of the convolution is a bf16 number on both sides: the inputs are small multiples of 1/2 and 1/4, whose sums float32
 * holds exactly, and the CPU's results are rounded. So both find the same maxima, and many are equal: the first counts.
 */
#include "support/test.h"

#include "nn/nn_ops.h"
#include "support/cuda_main.h"
#include "support/nn_device.h"
#include "support/nn_reference.h"
#include "util/dtype.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef GF_HAVE_DNNL

enum { C = 64, Y, DW, DGAMMA, DBETA, MEAN, VAR, END, RESULTS = END - Y };

typedef struct stem_case {
    gf_nn_shape conv, pool;
    int64_t in, weights, big, small; /* numbers of the image, the weights, the convolution's result, the pooling's */
    float *x, *w, *gamma, *beta, *dy, *dy2;
    int second;
} stem_case;

static void round_all(float *x, int64_t count, float step) {
    for (int64_t i = 0; i < count; i++) x[i] = rintf(x[i] / step) * step;
}

static stem_case make_case(int64_t n, int64_t size, int second) {
    rng g = {(uint64_t)(size * 31 + second)};
    stem_case k = {.conv = ref_shape(GF_NN_CONV, GF_TYPE_F32, n, size, 8, C, 7, 2, 3), .second = second};
    const int64_t out = gf_nn_out(size, 7, 2, 3);
    k.conv.input_grad = 0;
    k.conv.colours = 3;
    k.pool = ref_shape(GF_NN_MAXPOOL, GF_TYPE_F32, n, out, C, C, 3, 2, 1);
    k.in = ref_in_count(&k.conv), k.weights = ref_weight_count(&k.conv), k.big = ref_out_count(&k.conv);
    k.small = ref_out_count(&k.pool);
    k.x = nn_draw(&g, k.in), k.w = nn_draw(&g, k.weights), k.gamma = nn_draw(&g, C), k.beta = nn_draw(&g, C);
    k.dy = nn_draw(&g, k.small), k.dy2 = nn_draw(&g, k.small);
    round_all(k.x, k.in, 0.5f), round_all(k.w, k.weights, 0.25f);
    for (int64_t i = 0; i < k.in; i++)
        if (i % 8 >= 3) k.x[i] = 0.0f;
    return k;
}

static void drop_case(stem_case *k) { free(k->x), free(k->w), free(k->gamma), free(k->beta), free(k->dy), free(k->dy2); }

static gf_nn_norm norm_on(nn_device *d, const stem_case *k, int64_t rows, gf_type type) {
    float *saved = nn_take(d, 4 * sizeof(float) * C), one[C];
    for (int i = 0; i < C; i++) one[i] = 1.0f;
    gf_nn_norm n = {.type = type, .rows = rows, .c = C, .relu = 1};
    n.y = nn_take(d, gf_type_bytes[type] * (size_t)(rows * C));
    n.gamma = nn_numbers(d, k->gamma, C, GF_TYPE_F32), n.beta = nn_numbers(d, k->beta, C, GF_TYPE_F32);
    n.running_mean = nn_take(d, sizeof(float) * C), n.running_var = nn_numbers(d, one, C, GF_TYPE_F32);
    n.mean = saved, n.istd = saved + C, n.scale = saved + 2 * C, n.shift = saved + 3 * C;
    n.sums = nn_take(d, 2 * sizeof(double) * C), n.coef = nn_take(d, 2 * sizeof(float) * C);
    n.dgamma = nn_take(d, sizeof(float) * C), n.dbeta = nn_take(d, sizeof(float) * C);
    return n;
}

static void collect(nn_device *d, const gf_nn_norm *n, float *out[RESULTS]) {
    const float *const lines[] = {n->dgamma, n->dbeta, n->running_mean, n->running_var};
    for (int i = DGAMMA; i < END; i++) out[i - Y] = nn_floats(d, lines[i - DGAMMA], C, GF_TYPE_F32);
}

/* One after the other, in float32. */
static void run_apart(const stem_case *k, float *out[RESULTS]) {
    nn_device d = nn_open(&gf_nn_backend_cpu, 1);
    gf_error err = {""};
    gf_nn_sizes sizes[2];
    gf_nn_op *conv, *pool;
    nn_ok(d.b->op_create(&err, d.s, &k->conv, &sizes[0], &conv), &err);
    nn_ok(d.b->op_create(&err, d.s, &k->pool, &sizes[1], &pool), &err);
    gf_nn_norm n = norm_on(&d, k, k->big / C, GF_TYPE_F32);
    float *x = nn_take(&d, sizeof(float) * (size_t)k->big), *both = nn_draw(&(rng){1}, k->small);
    for (int64_t i = 0; i < k->small; i++) both[i] = k->dy[i] + (k->second ? k->dy2[i] : 0.0f);
    gf_nn_args a = {.x = nn_numbers(&d, k->x, k->in, GF_TYPE_F32), .weight = nn_numbers(&d, k->w, k->weights, GF_TYPE_F32)};
    a.y = x, a.weight_grad = nn_take(&d, sizeof(float) * (size_t)k->weights);
    a.packed = nn_take(&d, sizes[0].packed), a.saved = nn_take(&d, sizes[0].saved), a.scratch = nn_take(&d, sizes[0].scratch);
    nn_ok(d.b->op_pack(&err, conv, &a), &err);
    nn_ok(d.b->op_forward(&err, conv, &a), &err);
    for (int64_t i = 0; i < k->big; i++) x[i] = gf_bf16_to_float(gf_bf16_from_float(x[i]));
    n.x = x, n.scratch = nn_take(&d, d.b->norm_scratch(n.rows, C));
    d.b->norm_sums(d.s, &n), d.b->norm_finish(d.s, &n, (double)n.rows), d.b->norm_apply(d.s, &n);
    gf_nn_args p = {.x = n.y, .y = nn_take(&d, sizeof(float) * (size_t)k->small)};
    p.saved = nn_take(&d, sizes[1].saved), p.scratch = nn_take(&d, sizes[1].scratch);
    nn_ok(d.b->op_forward(&err, pool, &p), &err);
    out[Y - Y] = nn_floats(&d, p.y, k->small, GF_TYPE_F32);
    p.dy = both, p.dx = n.dy = n.dx = nn_take(&d, sizeof(float) * (size_t)k->big), a.dy = n.dx;
    nn_ok(d.b->op_backward(&err, pool, &p), &err);
    d.b->norm_back_sums(d.s, &n), d.b->norm_back_finish(d.s, &n, (double)n.rows), d.b->norm_back_apply(d.s, &n);
    nn_ok(d.b->op_backward(&err, conv, &a), &err);
    out[DW - Y] = nn_floats(&d, a.weight_grad, k->weights, GF_TYPE_F32);
    collect(&d, &n, out);
    free(both);
    nn_close(&d);
}

/* parts: as several ranks do it. */
static void run_merged(const stem_case *k, int parts, float *out[RESULTS]) {
    nn_device d = nn_open(&gf_nn_backend_cuda, 1);
    gf_error err = {""};
    gf_nn_sizes sizes;
    gf_nn_op *conv;
    gf_nn_shape s = k->conv;
    float *turned = malloc(sizeof *turned * (size_t)k->weights);
    s.type = GF_TYPE_BF16, s.pooled = 1;
    assert_true(d.b->pools(&s, &k->pool));
    nn_ok(d.b->op_create(&err, d.s, &s, &sizes, &conv), &err);
    nn_turn(&s, k->w, turned, 1);
    gf_nn_norm n = norm_on(&d, k, k->small / C, GF_TYPE_BF16);
    gf_nn_args a = {.x = nn_numbers(&d, k->x, k->in, s.type),
                    .weight = nn_numbers(&d, turned, k->weights, GF_TYPE_F32),
                    .norm = &n};
    a.y = nn_take(&d, 2 * (size_t)k->small), a.weight_grad = nn_take(&d, sizeof(float) * (size_t)k->weights);
    a.packed = nn_take(&d, sizes.packed), a.saved = nn_take(&d, sizes.saved);
    const size_t scratch = d.b->norm_scratch(n.rows, C);
    a.scratch = n.scratch = nn_take(&d, scratch > sizes.scratch ? scratch : sizes.scratch);
    n.x = a.y, n.counted = k->big / C;
    n.dy = n.dx = nn_numbers(&d, k->dy, k->small, s.type), n.dy2 = k->second ? nn_numbers(&d, k->dy2, k->small, s.type) : NULL;
    a.dy = n.dy;
    nn_ok(d.b->op_pack(&err, conv, &a), &err);
    nn_ok(d.b->op_forward(&err, conv, &a), &err);
    if (parts) d.b->norm_sums(d.s, &n), d.b->norm_finish(d.s, &n, (double)n.counted), d.b->norm_apply(d.s, &n);
    else d.b->norm_forward(d.s, &n);
    if (parts) d.b->norm_back_sums(d.s, &n), d.b->norm_back_finish(d.s, &n, (double)n.counted), d.b->norm_back_apply(d.s, &n);
    else d.b->norm_backward(d.s, &n);
    nn_ok(d.b->op_backward(&err, conv, &a), &err);
    const gf_nn_args *const args[] = {&a};
    nn_ok(d.b->unpack_all(&err, d.s, args, &conv, 1), &err);
    out[Y - Y] = nn_floats(&d, n.y, k->small, s.type);
    float *dw = nn_floats(&d, a.weight_grad, k->weights, GF_TYPE_F32);
    nn_turn(&s, dw, turned, 0);
    free(dw);
    out[DW - Y] = turned;
    collect(&d, &n, out);
    nn_close(&d);
}

static void compare(int64_t count, int64_t size, int second, int parts) {
    static const char *const names[RESULTS] = {"y", "dw", "dgamma", "dbeta", "running mean", "running variance"};
    stem_case k = make_case(count, size, second);
    float *want[RESULTS], *have[RESULTS], *again[RESULTS];
    run_apart(&k, want);
    run_merged(&k, parts, have);
    run_merged(&k, parts, again);
    for (int i = 0; i < RESULTS; i++) {
        const int64_t numbers = i == Y - Y ? k.small : i == DW - Y ? k.weights : C;
        const int sum = i + Y >= DW && i + Y <= DBETA && second; /* of rounded numbers of both signs */
        char text[96];
        snprintf(text, sizeof text, "stem %lld of %lld%s%s %s", (long long)count, (long long)size, second ? ", two parts" : "",
                 parts ? ", ranks" : "", names[i]);
        nn_within(text, have[i], want[i], numbers, sum ? 4 * NN_BF16_LIMIT : NN_BF16_LIMIT);
        assert_memory_equal(have[i], again[i], sizeof(float) * (size_t)numbers);
        free(want[i]), free(have[i]), free(again[i]);
    }
    drop_case(&k);
}

TEST(small_stems_agree) {
    compare(4, 64, 0, 0);
    compare(3, 64, 1, 0);
    compare(2, 75, 1, 1); /* fills no tile, odd sizes */
    compare(1, 33, 0, 0);
}

/* The size of ImageNet; more strips and tiles than blocks. */
TEST(large_stems_agree) {
    compare(6, 224, 1, 0);
    compare(90, 112, 0, 0);
}

/* cuda_stem [PATTERN]: only tests whose name fits it. */
TEST_NEEDS(no_cuda_device)

#else
TEST_SKIP("built without oneDNN, which the device is compared with")
#endif

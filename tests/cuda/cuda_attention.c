/* cuda_attention.c - every op of image and text encoders on CUDA against plain loops in double (support/encoder_reference.h):
 * attention in all its forms, linear layers with bias, activation and residual, layer norm, embedding, sequences, average pools.
 *
 * float32 without TF32 must agree to rounding; bf16 gets inputs that it holds exactly, so that only the rounding of results is
 * left, and within attention that of the weights. Each error is |a - b| / |b| over the whole array. Results are poisoned before.
 * GLOFND_TEST_DEVICE=cpu runs the same on the CPU's backend.
 */
#include "support/test.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cuda/cuda_device.h"
#include "support/cuda_main.h"
#include "support/encoder_reference.h"
#include "support/nn_device.h"
#include "util/dtype.h"

#ifdef GF_HAVE_DNNL

static const gf_nn_backend *backend = &gf_nn_backend_cuda;
static nn_device devices[2]; /* without and with exact products, for all tests: to open one takes a while */

typedef struct limits {
    double y, grad, params; /* results, dx, gradients of weight and bias */
} limits;

static const limits exact_limits = {5e-6, 1e-5, 1e-5};
static const limits tf32_limits = {5e-6, 5e-4, 5e-4}; /* inputs are exact in TF32, gradients behind an activation not */
static const limits bf16_limits = {4e-3, 6e-3, 6e-3}; /* 1.7e-3 of rounding, two or three times that in attention */

enum { Y, DX, DX2, DWEIGHT, DBIAS, RESULTS };
static const char *const result_names[RESULTS] = {"y", "dx", "dx2", "dweight", "dbias"};

typedef struct inputs {
    float *x, *x2, *weight, *bias, *dy, *before; /* before: what is in dx where add_dx is set */
} inputs;

typedef struct results {
    float *at[RESULTS];
    int64_t count[RESULTS];
} results;

static int64_t count_of(const gf_nn_shape *s, int which) {
    const tower_counts c = tower_count(s);
    const int64_t x = s->kind == GF_NN_EMBED ? 0 : c.x, x2 = s->kind == GF_NN_ATTENTION ? c.x2 : 0;
    const int64_t counts[RESULTS] = {c.y, x, x2, c.weight, c.bias};
    return counts[which];
}

/* ----- inputs ------------------------------------------------------------------------------------------------------ */

/* Words of a text: some everywhere, some rare, the largest once or twice. */
static void draw_tokens(rng *g, float *x, int64_t count, int64_t limit) {
    for (int64_t i = 0; i < count; i++) {
        const double u = rng_uniform(g);
        x[i] = u < 0.4 ? 0.0f : (float)(int64_t)(u * u * (double)limit);
        if (x[i] > (float)(limit - 1)) x[i] = (float)(limit - 1);
    }
}

static float rounded(float x) { return gf_bf16_to_float(gf_bf16_from_float(x)); }

static inputs draw_inputs(const gf_nn_shape *s) {
    rng g = {(uint64_t)(s->n * 7919 + s->in * 31 + s->out * 7 + s->h + (int)s->kind)};
    const tower_counts c = tower_count(s);
    inputs in = {nn_draw(&g, c.x),    nn_draw(&g, c.x2), nn_draw(&g, c.weight),
                 nn_draw(&g, c.bias), nn_draw(&g, c.y),  nn_draw(&g, c.x)};
    if (s->kind == GF_NN_EMBED) draw_tokens(&g, in.x, c.x, s->in);
    if (s->kind == GF_NN_LINEAR)
        for (int64_t i = 0; i < c.weight; i++) in.weight[i] = rounded(in.weight[i] / sqrtf((float)s->in));
    if (s->kind == GF_NN_LAYERNORM) /* rows whose mean is far from 0 */
        for (int64_t i = 0; i < c.x; i++) in.x[i] = rounded(in.x[i] + (float)(i / s->in % 3) * 10.0f);
    return in;
}

static void drop_inputs(inputs *in) {
    free(in->x), free(in->x2), free(in->weight), free(in->bias), free(in->dy), free(in->before);
}

/* ----- runs -------------------------------------------------------------------------------------------------------- */

static double *wide(const float *x, int64_t count) {
    double *y = calloc((size_t)count + 1, sizeof *y);
    for (int64_t i = 0; i < count && x; i++) y[i] = (double)x[i];
    return y;
}

static results run_reference(const gf_nn_shape *s, const inputs *in, int add) {
    const tower_counts c = tower_count(s);
    double *from[] = {wide(in->x, c.x), wide(in->x2, c.x2), wide(in->weight, c.weight), wide(in->bias, c.bias),
                      wide(in->dy, c.y)};
    double *to[RESULTS];
    results r = {0};
    to[DX] = wide(NULL, c.x), to[Y] = wide(NULL, c.y), to[DX2] = wide(NULL, c.x2);
    to[DWEIGHT] = wide(NULL, c.weight), to[DBIAS] = wide(NULL, c.bias);
    encoder_reference(s, &(tower_arrays){from[0], from[1], from[2], from[3], from[4], to[Y], to[DX], to[DX2], to[DWEIGHT],
                                         to[DBIAS]});
    for (int64_t i = 0; i < c.x && add; i++) to[DX][i] += (double)in->before[i];
    for (int i = 0; i < RESULTS; i++) {
        r.count[i] = count_of(s, i);
        r.at[i] = malloc(sizeof(float) * (size_t)r.count[i] + 4);
        for (int64_t k = 0; k < r.count[i]; k++) r.at[i][k] = (float)to[i][k];
        free(to[i]);
        free(from[i]);
    }
    return r;
}

static void *poisoned(nn_device *d, int64_t count, gf_type type) {
    const size_t bytes = gf_type_bytes[type] * (size_t)count;
    void *p = nn_take(d, bytes), *bad = malloc(bytes + 4);
    float sink;
    memset(bad, 0xff, bytes + 4);
    nn_send(d, p, bad, bytes);
    if (d->b->get && count > 0) nn_fetch(d, &sink, p, 2);
    free(bad);
    return p;
}

static results run_device(nn_device *d, const gf_nn_shape *s, const inputs *in, int add) {
    gf_error err = {""};
    gf_nn_sizes sizes;
    gf_nn_op *op;
    results r = {0};
    const tower_counts c = tower_count(s);
    const gf_type x = tower_type_x(s), y = tower_type_y(s), x2 = tower_type_x2(s);
    const gf_type types[RESULTS] = {y, s->type, x2, GF_TYPE_F32, GF_TYPE_F32};
    nn_ok(d->b->op_create(&err, d->s, s, &sizes, &op), &err);
    const gf_nn_args a = {.x = nn_numbers(d, in->x, c.x, x),
                          .x2 = c.x2 ? nn_numbers(d, in->x2, c.x2, x2) : NULL,
                          .dy = nn_numbers(d, in->dy, c.y, y),
                          .weight = nn_numbers(d, in->weight, c.weight, GF_TYPE_F32),
                          .bias = nn_numbers(d, in->bias, c.bias, GF_TYPE_F32),
                          .y = poisoned(d, c.y, y),
                          .dx = add ? nn_numbers(d, in->before, c.x, s->type) : poisoned(d, c.x, x),
                          .dx2 = poisoned(d, c.x2, x2),
                          .weight_grad = poisoned(d, c.weight, GF_TYPE_F32),
                          .bias_grad = poisoned(d, c.bias, GF_TYPE_F32),
                          .packed = nn_take(d, sizes.packed),
                          .saved = nn_take(d, sizes.saved),
                          .scratch = nn_take(d, sizes.scratch),
                          .add_dx = add};
    nn_ok(d->b->op_pack(&err, op, &a), &err);
    nn_ok(d->b->op_forward(&err, op, &a), &err);
    nn_ok(d->b->op_backward(&err, op, &a), &err);
    const gf_nn_args *const args[] = {&a};
    if (d->b->unpack_all && sizes.packed) nn_ok(d->b->unpack_all(&err, d->s, args, &op, 1), &err);
    const void *const at[RESULTS] = {a.y, a.dx, a.dx2, a.weight_grad, a.bias_grad};
    for (int i = 0; i < RESULTS; i++) {
        r.count[i] = count_of(s, i);
        r.at[i] = nn_floats(d, at[i], r.count[i], types[i]);
    }
    return r;
}

static void drop(results *r) {
    for (int i = 0; i < RESULTS; i++) free(r->at[i]);
}

typedef struct task {
    const char *name;
    inputs in;
    results want;
    int add;
} task;

static void compare_type(const task *k, gf_nn_shape s, gf_type type, int exact) {
    nn_device *d = &devices[exact];
    s.type = type;
    results have = run_device(d, &s, &k->in, k->add), again = run_device(d, &s, &k->in, k->add);
    const limits *l = type == GF_TYPE_BF16 ? &bf16_limits : exact ? &exact_limits : &tf32_limits;
    for (int i = 0; i < RESULTS; i++) {
        char text[120];
        const int64_t count = k->want.count[i];
        if (!count) continue;
        snprintf(text, sizeof text, "%s %s %s", k->name, type == GF_TYPE_BF16 ? "bf16" : exact ? "f32" : "tf32", result_names[i]);
        nn_within(text, have.at[i], k->want.at[i], count, i == Y ? l->y : i <= DX2 ? l->grad : l->params);
        if (memcmp(have.at[i], again.at[i], sizeof(float) * (size_t)count)) fail_msg("%s: other bits the second time", text);
    }
    drop(&have), drop(&again);
    nn_drop(d);
}

/* In all precisions. add: dx holds something before. */
static void compare(const char *name, gf_nn_shape s, int add) {
    s.training = 1;
    s.input_grad = s.kind != GF_NN_EMBED;
    if (!s.w) s.w = 1;
    if (!s.kernel) s.kernel = s.stride = 1;
    task k = {.name = name, .in = draw_inputs(&s), .add = add};
    k.want = run_reference(&s, &k.in, add);
    compare_type(&k, s, GF_TYPE_F32, 1);
    if (s.kind == GF_NN_LINEAR) compare_type(&k, s, GF_TYPE_F32, 0);
    compare_type(&k, s, GF_TYPE_BF16, 1);
    drop(&k.want), drop_inputs(&k.in);
}

/* ----- tests ------------------------------------------------------------------------------------------------------- */

static gf_nn_shape heads(int64_t n, int64_t length, int count, int dim, int causal) {
    return (gf_nn_shape){.kind = GF_NN_ATTENTION,
                         .n = n,
                         .h = length,
                         .in = 3 * count * dim,
                         .out = count * dim,
                         .heads = count,
                         .causal = causal};
}

TEST(attention_agrees) {
    compare("attention of 77, causal", heads(3, 77, 8, 64, 1), 0);
    compare("attention of 50", heads(3, 50, 12, 64, 0), 0);
    compare("attention of 32, heads of 32", heads(5, 32, 4, 32, 1), 0);
    compare("attention of 197", heads(2, 197, 3, 64, 0), 0);
    compare("attention of 256, causal", heads(2, 256, 2, 64, 1), 0);
    compare("attention of 300, causal, heads of 32", heads(1, 300, 2, 32, 1), 0);
    compare("attention of 5", heads(2, 5, 2, 64, 0), 0);
    compare("attention of 1", heads(2, 1, 2, 64, 1), 0);
    compare("attention of 16, causal", heads(2, 16, 1, 32, 1), 0);
}

TEST(attention_of_odd_heads_agrees) {
    compare("attention, heads of 80", heads(2, 33, 2, 80, 0), 0);
    compare("attention, heads of 20, causal", heads(2, 40, 3, 20, 1), 0);
    compare("attention, heads of 7", heads(1, 19, 2, 7, 0), 0);
}

TEST(attention_of_one_query_agrees) {
    gf_nn_shape s = heads(3, 50, 8, 64, 0);
    s.second = 1, s.in = 2 * s.out;
    compare("one query of 50", s, 0);
    s = heads(5, 17, 3, 40, 0);
    s.second = 1, s.in = 2 * s.out;
    compare("one query of 17, heads of 40", s, 0);
    s = heads(1, 1, 1, 8, 0);
    s.second = 1, s.in = 2 * s.out;
    compare("one query of 1", s, 0);
}

TEST(linear_layers_agree) {
    const gf_nn_shape in_proj = {.kind = GF_NN_LINEAR, .n = 1, .h = 77, .in = 512, .out = 1536, .bias = 1};
    const gf_nn_shape out_proj = {.kind = GF_NN_LINEAR, .n = 3, .h = 77, .in = 256, .out = 512, .bias = 1, .second = 1};
    gf_nn_shape fc = {.kind = GF_NN_LINEAR, .n = 2, .h = 50, .in = 128, .out = 512, .bias = 1, .act = GF_ACT_GELU};
    const gf_nn_shape turned = {.kind = GF_NN_LINEAR, .n = 6, .h = 1, .in = 128, .out = 64, .transposed = 1};
    const gf_nn_shape plain = {.kind = GF_NN_LINEAR, .n = 5, .h = 3, .w = 2, .in = 64, .out = 32};
    const gf_nn_shape odd = {.kind = GF_NN_LINEAR, .n = 3, .h = 7, .in = 12, .out = 20, .bias = 1, .act = GF_ACT_QUICK_GELU};
    compare("linear, bias", in_proj, 0);
    compare("linear, bias and residual", out_proj, 0);
    compare("linear, bias and GELU", fc, 0);
    fc.act = GF_ACT_QUICK_GELU;
    compare("linear, bias and QuickGELU", fc, 0);
    compare("linear, turned", turned, 0);
    compare("linear over places", plain, 0);
    compare("linear of 12 to 20, QuickGELU", odd, 0);
}

static gf_nn_shape normed(int64_t n, int64_t h, int64_t c) {
    return (gf_nn_shape){.kind = GF_NN_LAYERNORM, .n = n, .h = h, .in = c, .out = c, .bias = 1};
}

TEST(layer_norms_agree) {
    compare("layer norm of 512", normed(3, 77, 512), 0);
    compare("layer norm of 512, added", normed(40, 77, 512), 1);
    compare("layer norm of 768", normed(3, 50, 768), 0);
    compare("layer norm of 2048", normed(3, 11, 2048), 1);
    compare("layer norm of 4096", normed(1, 5, 4096), 0);
    compare("layer norm of 20", normed(3, 7, 20), 1);
    compare("layer norm of 333", normed(1, 9, 333), 0);
    compare("layer norm of one row", normed(1, 1, 64), 0);
    compare("layer norm of 768", normed(40, 50, 768), 1); /* a warp for each row, up to 768 numbers */
    compare("layer norm of 521", normed(3, 7, 521), 0);
    compare("layer norm of 776", normed(3, 7, 776), 0);
}

static gf_nn_shape embedded(int64_t n, int64_t length, int64_t vocab, int64_t c) {
    return (gf_nn_shape){.kind = GF_NN_EMBED, .n = n, .h = length, .in = vocab, .out = c, .bias = 1};
}

TEST(embeddings_agree) {
    compare("embedding of 300 words", embedded(3, 77, 300, 512), 0);
    compare("embedding of 70000 words", embedded(40, 77, 70000, 16), 0);
    compare("embedding of 200 words, odd", embedded(5, 13, 200, 20), 0);
    compare("embedding of one word", embedded(7, 33, 1, 8), 0);
    compare("embedding of one token", embedded(1, 1, 5, 7), 0);
}

TEST(sequences_agree) {
    gf_nn_shape s = {.kind = GF_NN_TOKENS, .n = 3, .h = 7, .w = 7, .in = 256, .out = 256, .bias = 1};
    compare("sequence with a class token", s, 0);
    s.bias = 0;
    compare("sequence with the mean", s, 0);
    s.n = 40, s.h = 3, s.w = 2, s.in = s.out = 21;
    compare("sequence with the mean, odd", s, 0);
    s = (gf_nn_shape){.kind = GF_NN_PICK, .n = 5, .h = 50, .in = 192, .out = 192};
    compare("first row", s, 0);
    compare("first row, added", s, 1);
}

TEST(averages_agree) {
    gf_nn_shape s = {.kind = GF_NN_AVGPOOL, .n = 3, .h = 14, .w = 14, .in = 64, .out = 64, .kernel = 2, .stride = 2};
    compare("average pooling", s, 0);
    s.h = 7, s.w = 5, s.in = s.out = 5;
    compare("average pooling with a rest", s, 0);
    s.kernel = s.stride = 3;
    compare("average pooling of 3 x 3", s, 0);
}

/* Every kernel of ours once, small enough for compute-sanitizer. */
TEST(small_shapes_agree) {
    gf_nn_shape one = heads(2, 9, 2, 16, 0);
    one.second = 1, one.in = 2 * one.out;
    compare("attention of 33", heads(1, 33, 2, 64, 1), 0);
    compare("attention of 150", heads(1, 150, 1, 32, 0), 0);
    compare("attention, heads of 20", heads(1, 40, 1, 20, 1), 0);
    compare("one query of 9", one, 0);
    compare("layer norm of 24", normed(2, 9, 24), 1);
    compare("layer norm of 600", normed(2, 5, 600), 0);
    compare("embedding of 9 words", embedded(5, 13, 9, 16), 0);
    compare("sequence", (gf_nn_shape){.kind = GF_NN_TOKENS, .n = 2, .h = 3, .w = 2, .in = 24, .out = 24}, 0);
    compare("row", (gf_nn_shape){.kind = GF_NN_PICK, .n = 3, .h = 9, .in = 24, .out = 24}, 1);
    compare("average", (gf_nn_shape){.kind = GF_NN_AVGPOOL, .n = 2, .h = 5, .w = 4, .in = 8, .out = 8, .kernel = 2, .stride = 2},
            0);
}

TEST(what_cannot_be_done_is_refused) {
    gf_nn_shape refused[] = {heads(2, 9, 1, 128, 0),
                             heads(2, 9, 3, 10, 0),
                             normed(1, 1, 5000),
                             {.kind = GF_NN_AVGPOOL, .n = 1, .h = 4, .w = 4, .in = 8, .out = 8, .kernel = 3, .stride = 2}};
    refused[1].out = 31;
    nn_device *d = &devices[1];
    for (size_t i = 0; i < sizeof refused / sizeof *refused && d->b->put; i++) {
        gf_error err = {""};
        gf_nn_sizes sizes;
        gf_nn_op *op;
        refused[i].training = refused[i].input_grad = 1;
        if (!refused[i].w) refused[i].w = 1;
        assert_int_equal(d->b->op_create(&err, d->s, &refused[i], &sizes, &op), GLOFND_E_UNSUPPORTED);
        assert_true(strlen(err.text) > 20);
    }
}

static int open_devices(void **state) {
    (void)state;
    for (int i = 0; i < 2; i++) devices[i] = nn_open(backend, i);
    return 0;
}

static int close_devices(void **state) {
    (void)state;
    for (int i = 0; i < 2; i++) nn_close(&devices[i]);
    return 0;
}

/* GLOFND_TEST_DEVICE=cpu: both devices are the CPU. */
static const char *no_backend(void) {
    const char *device = getenv("GLOFND_TEST_DEVICE");
    if (!device || strcmp(device, "cpu") != 0) return no_cuda_device();
    backend = &gf_nn_backend_cpu;
    return NULL;
}

TEST_NEEDS(no_backend)
TEST_GROUP(open_devices, close_devices)

#else
TEST_SKIP("built without oneDNN, as all nets are")
#endif

/* unit_encoder_ops.c - the ops of image and text encoders on the CPU, for every instruction set of this machine, against loops in
 * double (support/encoder_reference.h), and these loops against central differences; bf16; threads; what is refused.
 */
#include "support/test.h"

#include <stdlib.h>
#include <string.h>
#ifdef GF_HAVE_DNNL

#include "cpu/kernels/cpu_kernels.h"
#include "nn/cpu/dnn.h"
#include "support/encoder_reference.h"
#include "support/nn_reference.h"
#include "support/random.h"
#include "util/dtype.h"

#define FP32_LIMIT 3e-6 /* relative error of whole arrays */
#define BF16_LIMIT 1e-2 /* results, and what is between two products, rounded to bf16 */
#define STEP_LIMIT 1e-7 /* central differences */

static const gf_nn_backend *const cpu = &gf_nn_backend_cpu;
static const char *const isas[] = {"base", "avx2", "avx512", "neon"};

/* ----- an op with all it needs ------------------------------------------------------------------------------------- */

typedef struct bench {
    gf_nn_shape shape;
    tower_counts n;
    tower_arrays exact; /* what the arrays of the op hold, and the results of the reference */
    gf_nn_engine *engine;
    gf_nn_op *op;
    gf_nn_args args;
    float *before; /* of dx, with add_dx */
    void *taken[16];
    int count;
} bench;

static void ok(glofnd_status status, const gf_error *err) {
    if (status != GLOFND_OK) fail_msg("%s", err->text);
}

static void *take(bench *b, size_t bytes) {
    void *p = cpu->alloc(b->engine, bytes);
    assert_non_null(p);
    return b->taken[b->count++] = p;
}

/* Numbers in both forms; tokens come from 0 .. vocab - 1. */
static void *fill(bench *b, rng *g, double **exact, int64_t count, gf_type type, double offset) {
    void *p = count ? take(b, 4 * (size_t)count) : NULL;
    *exact = calloc((size_t)count + 1, sizeof **exact);
    for (int64_t i = 0; i < count; i++) {
        const float v = gf_bf16_to_float(gf_bf16_from_float((float)(rng_normal(g) + offset)));
        const int32_t token = (int32_t)rng_below(g, b->shape.kind == GF_NN_EMBED ? b->shape.in : 9);
        (*exact)[i] = type == GF_TYPE_I32 ? token : (double)v;
        if (type == GF_TYPE_I32) ((int32_t *)p)[i] = token;
        if (type == GF_TYPE_F32) ((float *)p)[i] = v;
        if (type == GF_TYPE_BF16) ((uint16_t *)p)[i] = gf_bf16_from_float(v);
    }
    return p;
}

static float value_at(const void *p, int64_t i, gf_type type) {
    return type == GF_TYPE_BF16 ? gf_bf16_to_float(((const uint16_t *)p)[i]) : ((const float *)p)[i];
}

static void make(bench *b, gf_nn_shape shape, int threads, const char *isa, double offset) {
    gf_error err = {""};
    gf_nn_sizes sizes;
    rng g = {(uint64_t)(shape.n * 7919 + shape.in * 31 + shape.out + shape.kind)};
    *b = (bench){.shape = shape, .n = tower_count(&shape)};
    ok(cpu->open(&err, threads, &b->engine), &err);
    if (isa) b->engine->row = gf_net_kernels_find(isa)->row;
    ok(cpu->op_create(&err, b->engine, &shape, &sizes, &b->op), &err);
    tower_arrays *e = &b->exact;
    b->args.x = fill(b, &g, &e->x, b->n.x, tower_type_x(&shape), offset);
    b->args.x2 = fill(b, &g, &e->x2, b->n.x2, tower_type_x2(&shape), 0);
    b->args.weight = fill(b, &g, &e->weight, b->n.weight, GF_TYPE_F32, 0);
    b->args.bias = fill(b, &g, &e->bias, b->n.bias, GF_TYPE_F32, 0);
    b->args.dy = fill(b, &g, &e->dy, b->n.y, tower_type_y(&shape), 0);
    b->args.dx = fill(b, &g, &e->dx, b->n.x, shape.type, 0);
    b->before = calloc((size_t)b->n.x, sizeof *b->before);
    for (int64_t i = 0; i < b->n.x; i++) b->before[i] = value_at(b->args.dx, i, shape.type);
    e->y = calloc((size_t)b->n.y, sizeof *e->y);
    e->dx2 = calloc((size_t)b->n.x2 + 1, sizeof *e->dx2);
    e->weight_grad = calloc((size_t)b->n.weight + 1, sizeof *e->weight_grad);
    e->bias_grad = calloc((size_t)b->n.bias + 1, sizeof *e->bias_grad);
    b->args.y = take(b, 4 * (size_t)b->n.y);
    b->args.dx2 = take(b, 4 * (size_t)b->n.x2);
    b->args.weight_grad = take(b, 4 * (size_t)b->n.weight);
    b->args.bias_grad = take(b, 4 * (size_t)b->n.bias);
    b->args.packed = take(b, sizes.packed);
    b->args.saved = shape.training ? take(b, sizes.saved) : NULL;
    b->args.scratch = take(b, sizes.scratch);
}

static void drop(bench *b) {
    tower_arrays *e = &b->exact;
    double *const all[] = {e->x, e->x2, e->weight, e->bias, e->dy, e->y, e->dx, e->dx2, e->weight_grad, e->bias_grad};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) free(all[i]);
    for (int i = 0; i < b->count; i++) cpu->release(b->engine, b->taken[i]);
    cpu->close(b->engine);
    free(b->before);
}

static void run(bench *b) {
    gf_error err = {""};
    ok(cpu->op_pack(&err, b->op, &b->args), &err);
    ok(cpu->op_forward(&err, b->op, &b->args), &err);
    if (b->shape.training) ok(cpu->op_backward(&err, b->op, &b->args), &err);
}

static void near(const char *what, const void *p, gf_type type, const float *minus, const double *exact, int64_t count,
                 double limit) {
    float *x = malloc(sizeof *x * (size_t)(count + 1));
    for (int64_t i = 0; i < count; i++) x[i] = value_at(p, i, type) - (minus ? minus[i] : 0.0f);
    const double d = ref_distance(x, exact, count);
    if (!(d <= limit)) fail_msg("%s is off by %.3g, over %.3g", what, d, limit);
    free(x);
}

/* ----- central differences ----------------------------------------------------------------------------------------- */

static double objective(void *arg) {
    bench *b = arg;
    encoder_reference(&b->shape, &b->exact);
    double sum = 0;
    for (int64_t i = 0; i < b->n.y; i++) sum += b->exact.y[i] * b->exact.dy[i];
    return sum;
}

static void slope(bench *b, const char *what, double *at, const double *grad, int64_t count) {
    double *want = calloc((size_t)count + 1, sizeof *want), *have = malloc(sizeof *have * (size_t)(count + 1));
    encoder_reference(&b->shape, &b->exact);
    memcpy(have, grad, sizeof *have * (size_t)count); /* it is written again at every step */
    ref_gradient(want, at, count, 1e-5, objective, b);
    double error = 0, size = 1e-12;
    for (int64_t i = 0; i < count; i++) {
        error += (have[i] - want[i]) * (have[i] - want[i]);
        size += want[i] * want[i];
    }
    if (!(error <= STEP_LIMIT * STEP_LIMIT * size)) fail_msg("the reference's gradient of %s: %.3g of %.3g", what, error, size);
    free(want), free(have);
}

static void check_slopes(bench *b) {
    tower_arrays *e = &b->exact;
    if (b->shape.input_grad) slope(b, "x", e->x, e->dx, b->n.x);
    if (b->shape.kind == GF_NN_ATTENTION) slope(b, "x2", e->x2, e->dx2, b->n.x2);
    slope(b, "weight", e->weight, e->weight_grad, b->n.weight);
    slope(b, "bias", e->bias, e->bias_grad, b->n.bias);
}

/* ----- one case ---------------------------------------------------------------------------------------------------- */

typedef struct trial {
    gf_nn_shape shape;
    int add_dx;
    double offset; /* of x */
} trial;

static void check_results(bench *b, int add_dx, double offset) {
    const gf_nn_shape *s = &b->shape;
    const int narrow = s->type == GF_TYPE_BF16;
    const double limit = (narrow ? BF16_LIMIT : FP32_LIMIT) * (1 + (offset > 0 ? offset : 0));
    near("y", b->args.y, tower_type_y(s), NULL, b->exact.y, b->n.y, limit);
    if (!s->training) return;
    if (s->input_grad) near("dx", b->args.dx, s->type, add_dx ? b->before : NULL, b->exact.dx, b->n.x, limit);
    if (s->kind == GF_NN_ATTENTION) near("dx2", b->args.dx2, GF_TYPE_F32, NULL, b->exact.dx2, b->n.x2, limit);
    near("weight_grad", b->args.weight_grad, GF_TYPE_F32, NULL, b->exact.weight_grad, b->n.weight, limit);
    near("bias_grad", b->args.bias_grad, GF_TYPE_F32, NULL, b->exact.bias_grad, b->n.bias, limit);
}

static void check_with(const trial *t, gf_type type, const char *isa, int slopes) {
    bench b;
    gf_nn_shape s = t->shape;
    s.type = type;
    make(&b, s, 2, isa, t->offset);
    b.args.add_dx = t->add_dx;
    run(&b);
    encoder_reference(&s, &b.exact);
    check_results(&b, t->add_dx, t->offset);
    if (slopes) check_slopes(&b);
    drop(&b);
}

static int bf16_products(void) {
    gf_error err = {""};
    gf_nn_engine *engine;
    gf_nn_sizes sizes;
    gf_nn_op *op;
    const gf_nn_shape s = {.kind = GF_NN_LINEAR, .type = GF_TYPE_BF16, .n = 4, .h = 1, .w = 1, .in = 16, .out = 16};
    ok(cpu->open(&err, 1, &engine), &err);
    const int there = cpu->op_create(&err, engine, &s, &sizes, &op) == GLOFND_OK;
    cpu->close(engine);
    return there;
}

static void check(trial t) {
    const int products = t.shape.kind == GF_NN_LINEAR || t.shape.kind == GF_NN_AVGPOOL;
    for (int i = 0; i < 3; i++)
        if (gf_net_kernels_find(isas[i])) check_with(&t, GF_TYPE_F32, isas[i], i == 0);
    for (int i = 0; i < 3; i++)
        if (gf_net_kernels_find(isas[i]) && (!products || bf16_products())) check_with(&t, GF_TYPE_BF16, isas[i], 0);
    t.shape.training = t.shape.input_grad = 0;
    check_with(&t, GF_TYPE_F32, NULL, 0);
}

/* ----- tests ------------------------------------------------------------------------------------------------------- */

/* Sequences of `length` rows. */
static gf_nn_shape shape(gf_nn_kind kind, int64_t n, int64_t length, int64_t in, int64_t out) {
    return (gf_nn_shape){.kind = kind,
                         .n = n,
                         .h = length,
                         .w = 1,
                         .in = in,
                         .out = out,
                         .kernel = 1,
                         .stride = 1,
                         .training = 1,
                         .input_grad = 1};
}

static void linear(int64_t n, int64_t length, int64_t in, int64_t out, gf_nn_act act, int bias, int second, int transposed) {
    gf_nn_shape s = shape(GF_NN_LINEAR, n, length, in, out);
    s.act = act, s.bias = bias, s.second = second, s.transposed = transposed;
    check((trial){.shape = s});
}

TEST(linear_layers) {
    linear(2, 3, 5, 7, GF_ACT_NONE, 0, 0, 0);
    linear(2, 3, 16, 32, GF_ACT_NONE, 1, 0, 0);
    linear(3, 3, 12, 20, GF_ACT_NONE, 1, 1, 0);
    linear(2, 5, 9, 17, GF_ACT_NONE, 0, 1, 0);
    linear(4, 1, 12, 6, GF_ACT_NONE, 0, 0, 1);
    linear(4, 2, 6, 12, GF_ACT_NONE, 1, 1, 1);
    linear(3, 4, 6, 19, GF_ACT_GELU, 1, 0, 0);
    linear(3, 4, 6, 19, GF_ACT_QUICK_GELU, 1, 0, 0);
    linear(3, 4, 16, 64, GF_ACT_GELU, 0, 0, 1);
}

TEST(layer_norms) {
    check((trial){.shape = shape(GF_NN_LAYERNORM, 2, 3, 5, 5)});
    check((trial){.shape = shape(GF_NN_LAYERNORM, 3, 2, 48, 48), .add_dx = 1});
    check((trial){.shape = shape(GF_NN_LAYERNORM, 2, 2, 37, 37), .offset = 30}); /* mean far from 0 */
}

static void attention(int64_t n, int64_t length, int64_t c, int heads, int causal, int second) {
    gf_nn_shape s = shape(GF_NN_ATTENTION, n, length, second ? 2 * c : 3 * c, c);
    s.heads = heads, s.causal = causal, s.second = second;
    check((trial){.shape = s});
}

TEST(attentions) {
    attention(2, 5, 12, 3, 0, 0);
    attention(2, 5, 12, 3, 1, 0);
    attention(1, 1, 4, 1, 1, 0);
    attention(1, 35, 8, 2, 0, 0);
    attention(1, 37, 8, 1, 1, 0); /* more than a block of causal scores */
    attention(1, 9, 64, 1, 0, 0);
}

TEST(attention_pools) {
    attention(3, 5, 12, 3, 0, 1);
    attention(2, 50, 16, 2, 0, 1);
    attention(2, 1, 8, 1, 0, 1);
}

TEST(average_pools) {
    gf_nn_shape s = {.kind = GF_NN_AVGPOOL,
                     .n = 2,
                     .h = 6,
                     .w = 6,
                     .in = 16,
                     .out = 16,
                     .kernel = 2,
                     .stride = 2,
                     .training = 1,
                     .input_grad = 1};
    check((trial){.shape = s});
    s.h = s.w = 7, s.in = s.out = 5; /* a rest at two edges */
    check((trial){.shape = s});
}

TEST(beginnings_and_ends) {
    gf_nn_shape embed = shape(GF_NN_EMBED, 4, 6, 7, 37);
    embed.input_grad = 0, embed.bias = 1;
    check((trial){.shape = embed});
    gf_nn_shape tokens = shape(GF_NN_TOKENS, 3, 3, 10, 10);
    tokens.w = 2;
    check((trial){.shape = tokens});
    tokens.bias = 1;
    check((trial){.shape = tokens});
    gf_nn_shape pick = shape(GF_NN_PICK, 3, 5, 18, 18);
    check((trial){.shape = pick});
    check((trial){.shape = pick, .add_dx = 1});
}

/* Own kernels give the same bits for any number of threads; two runs always do. */
TEST(threads_change_nothing) {
    gf_nn_shape causal = shape(GF_NN_ATTENTION, 5, 40, 3 * 24, 24), norm = shape(GF_NN_LAYERNORM, 90, 40, 24, 24);
    gf_nn_shape embed = shape(GF_NN_EMBED, 50, 20, 30, 70);
    causal.heads = 3, causal.causal = 1, embed.input_grad = 0, embed.bias = 1;
    const gf_nn_shape all[] = {causal, norm, embed};
    for (int i = 0; i < 3; i++) {
        bench a, b;
        make(&a, all[i], 1, NULL, 0);
        make(&b, all[i], 3, NULL, 0);
        run(&a);
        run(&b);
        run(&b);
        assert_memory_equal(a.args.y, b.args.y, 4 * (size_t)a.n.y);
        assert_memory_equal(a.args.dx, b.args.dx, 4 * (size_t)a.n.x);
        assert_memory_equal(a.args.weight_grad, b.args.weight_grad, 4 * (size_t)a.n.weight);
        assert_memory_equal(a.args.bias_grad, b.args.bias_grad, 4 * (size_t)a.n.bias);
        drop(&a);
        drop(&b);
    }
}

/* NaN must reach the loss, through exponentials that are clamped, too. */
TEST(nan_is_not_hidden) {
    gf_nn_shape all[3] = {shape(GF_NN_LINEAR, 1, 2, 4, 4), shape(GF_NN_LAYERNORM, 1, 2, 4, 4),
                          shape(GF_NN_ATTENTION, 1, 2, 12, 4)};
    all[0].act = GF_ACT_GELU, all[2].heads = 1;
    for (int i = 0; i < 3; i++) {
        bench b;
        make(&b, all[i], 1, NULL, 0);
        ((float *)(uintptr_t)b.args.x)[0] = NAN;
        run(&b);
        assert_true(isnan(((const float *)b.args.y)[0]));
        drop(&b);
    }
}

TEST(impossible_ops_are_refused) {
    gf_error err = {""};
    gf_nn_engine *engine;
    gf_nn_sizes sizes;
    gf_nn_op *op = NULL;
    gf_nn_shape s = shape(GF_NN_ATTENTION, 1, 5, 36, 12);
    ok(cpu->open(&err, 1, &engine), &err);
    s.heads = 5; /* does not divide 12 */
    assert_int_equal(cpu->op_create(&err, engine, &s, &sizes, &op), GLOFND_E_ARGUMENT);
    s.heads = 3, s.h = 5000;
    assert_int_equal(cpu->op_create(&err, engine, &s, &sizes, &op), GLOFND_E_UNSUPPORTED);
    s = shape(GF_NN_LINEAR, 1, 2, 4, 4);
    s.act = GF_ACT_GELU, s.second = 1;
    assert_int_equal(cpu->op_create(&err, engine, &s, &sizes, &op), GLOFND_E_UNSUPPORTED);
    s.kind = GF_NN_KINDS;
    assert_int_equal(cpu->op_create(&err, engine, &s, &sizes, &op), GLOFND_E_UNSUPPORTED);
    assert_null(op);
    cpu->close(engine);
}

#else
TEST_SKIP("built without oneDNN")
#endif

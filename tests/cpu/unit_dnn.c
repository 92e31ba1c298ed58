/* unit_dnn.c - the ops of the CPU backend: forward against plain loops in double, backward against central differences of them,
 * in float32 and bf16; threads; what an engine does when asked for the impossible. Batch norm is in unit_layers.c.
 */
#include "support/test.h"

#include "nn/nn_ops.h"
#include "support/nn_reference.h"
#include "support/random.h"
#include "util/dtype.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

#ifdef GF_HAVE_DNNL

#define FP32_LIMIT 2e-6 /* relative error of whole arrays: float32 sums of a few hundred terms */
#define BF16_LIMIT 3e-3 /* results rounded to bf16: at most 2^-9 each, 1.7e-3 in the mean square */

static const gf_nn_backend *const cpu = &gf_nn_backend_cpu;

/* ----- an op with all it needs ------------------------------------------------------------------------------------- */

typedef struct bench {
    gf_nn_shape shape;
    gf_nn_engine *engine;
    gf_nn_op *op;
    gf_nn_args args;
    int64_t in, out, weights;
    double *x, *w, *dy, *y; /* what the device arrays hold, exactly; y: of the reference */
} bench;

static void ok(glofnd_status status, const gf_error *err) {
    if (status != GLOFND_OK) fail_msg("%s", err->text);
}

static float rounded(double v, gf_type type) {
    return type == GF_TYPE_BF16 ? gf_bf16_to_float(gf_bf16_from_float((float)v)) : (float)v;
}

static void fill(rng *g, double *exact, void *device, int64_t count, gf_type type, gf_type stored) {
    for (int64_t i = 0; i < count; i++) {
        const float v = rounded(rng_normal(g), type);
        exact[i] = (double)v;
        if (stored == GF_TYPE_BF16) ((uint16_t *)device)[i] = gf_bf16_from_float(v);
        else ((float *)device)[i] = v;
    }
}

static void *take(bench *b, size_t bytes) {
    void *p = cpu->alloc(b->engine, bytes);
    assert_non_null(p);
    return p;
}

static void make(bench *b, gf_nn_shape shape, int threads) {
    gf_error err = {""};
    gf_nn_sizes sizes;
    rng g = {(uint64_t)(shape.n * 7919 + shape.in * 31 + shape.out)};
    *b = (bench){.shape = shape, .in = ref_in_count(&shape), .out = ref_out_count(&shape), .weights = ref_weight_count(&shape)};
    ok(cpu->open(&err, threads, &b->engine), &err);
    ok(cpu->op_create(&err, b->engine, &shape, &sizes, &b->op), &err);
    const size_t bytes = gf_type_bytes[shape.type];
    void *x = take(b, bytes * (size_t)b->in), *dy = take(b, bytes * (size_t)b->out), *w = take(b, 4 * (size_t)b->weights + 1);
    b->args = (gf_nn_args){.x = x,
                           .dy = dy,
                           .weight = w,
                           .y = take(b, bytes * (size_t)b->out),
                           .dx = take(b, bytes * (size_t)b->in),
                           .weight_grad = take(b, 4 * (size_t)b->weights + 1),
                           .packed = take(b, sizes.packed),
                           .saved = take(b, sizes.saved),
                           .scratch = take(b, sizes.scratch)};
    b->x = calloc((size_t)b->in, sizeof(double));
    b->dy = calloc((size_t)b->out, sizeof(double));
    b->y = calloc((size_t)b->out, sizeof(double));
    b->w = calloc((size_t)b->weights + 1, sizeof(double));
    fill(&g, b->x, x, b->in, shape.type, shape.type);
    fill(&g, b->dy, dy, b->out, shape.type, shape.type);
    fill(&g, b->w, w, b->weights, shape.type, GF_TYPE_F32);
}

static void drop(bench *b) {
    void *const all[] = {(void *)(uintptr_t)b->args.x,
                         (void *)(uintptr_t)b->args.dy,
                         (void *)(uintptr_t)b->args.weight,
                         b->args.y,
                         b->args.dx,
                         b->args.weight_grad,
                         b->args.packed,
                         b->args.saved,
                         b->args.scratch};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) cpu->release(b->engine, all[i]);
    cpu->close(b->engine);
    free(b->x), free(b->dy), free(b->y), free(b->w);
}

static void run(bench *b) {
    gf_error err = {""};
    ok(cpu->op_pack(&err, b->op, &b->args), &err);
    ok(cpu->op_forward(&err, b->op, &b->args), &err);
    if (b->shape.training) ok(cpu->op_backward(&err, b->op, &b->args), &err);
}

static double objective(void *arg) {
    bench *b = arg;
    ref_op(b->y, b->x, b->w, &b->shape);
    double sum = 0;
    for (int64_t i = 0; i < b->out; i++) sum += b->y[i] * b->dy[i];
    return sum;
}

#define within(value, limit)                                                                          \
    do {                                                                                              \
        const double value_ = (value);                                                                \
        if (!(value_ <= (limit))) fail_msg("%s is %.3g, over %.3g", #value, value_, (double)(limit)); \
    } while (0)

static void check(gf_nn_shape shape) {
    const double limit = shape.type == GF_TYPE_BF16 ? BF16_LIMIT : FP32_LIMIT;
    bench b;
    make(&b, shape, 2);
    run(&b);
    ref_op(b.y, b.x, b.w, &shape);
    within(ref_distance_typed(b.args.y, shape.type, b.y, b.out), limit);
    const double h = shape.kind == GF_NN_MAXPOOL ? 1e-7 : 1e-2; /* bilinear: any step is exact; maximum: none other may win */
    if (shape.training && shape.input_grad) {
        double *grad = calloc((size_t)b.in, sizeof *grad);
        ref_gradient(grad, b.x, b.in, h, objective, &b);
        within(ref_distance_typed(b.args.dx, shape.type, grad, b.in), limit);
        free(grad);
    }
    if (shape.training && b.weights) {
        double *grad = calloc((size_t)b.weights, sizeof *grad);
        ref_gradient(grad, b.w, b.weights, h, objective, &b);
        within(ref_distance_typed(b.args.weight_grad, GF_TYPE_F32, grad, b.weights), FP32_LIMIT);
        free(grad);
    }
    drop(&b);
}

/* ----- tests ------------------------------------------------------------------------------------------------------- */

static gf_nn_shape conv(int64_t n, int64_t size, int64_t in, int64_t out, int kernel, int stride, gf_type type) {
    return ref_shape(GF_NN_CONV, type, n, size, in, out, kernel, stride, kernel / 2);
}

TEST(convolutions_follow_the_loops) {
    check(conv(2, 6, 3, 16, 3, 1, GF_TYPE_F32));
    check(conv(1, 9, 3, 16, 7, 2, GF_TYPE_F32));
    check(conv(2, 5, 16, 32, 1, 1, GF_TYPE_F32));
    check(conv(2, 5, 16, 32, 1, 2, GF_TYPE_F32));
    check(conv(2, 5, 16, 16, 3, 2, GF_TYPE_F32));
    check(conv(3, 4, 5, 7, 3, 1, GF_TYPE_F32));
    check(conv(2, 1, 16, 16, 3, 1, GF_TYPE_F32));
}

TEST(image_gradient_is_left_out_on_request) {
    gf_nn_shape s = conv(2, 6, 3, 16, 3, 1, GF_TYPE_F32);
    s.input_grad = 0;
    check(s);
    s.training = 0;
    check(s);
}

static int bf16_is_there(void) {
    gf_nn_engine *engine;
    gf_nn_sizes sizes;
    gf_nn_op *op;
    gf_error err = {""};
    const gf_nn_shape s = conv(2, 6, 16, 16, 3, 1, GF_TYPE_BF16);
    ok(cpu->open(&err, 1, &engine), &err);
    const glofnd_status status = cpu->op_create(&err, engine, &s, &sizes, &op);
    cpu->close(engine);
    if (status == GLOFND_OK) return 1;
    assert_int_equal(status, GLOFND_E_UNSUPPORTED);
    assert_non_null(strstr(err.text, "fp32")); /* the message says what to do */
    return 0;
}

TEST(bf16_convolutions_follow_the_loops) {
    if (!bf16_is_there()) skip();
    check(conv(2, 6, 3, 16, 3, 1, GF_TYPE_BF16));
    check(conv(1, 9, 3, 16, 7, 2, GF_TYPE_BF16));
    check(conv(2, 5, 16, 32, 1, 2, GF_TYPE_BF16));
    check(conv(2, 5, 16, 16, 3, 2, GF_TYPE_BF16));
}

TEST(linear_layers_follow_the_loops) {
    check(ref_shape(GF_NN_LINEAR, GF_TYPE_F32, 6, 1, 12, 20, 1, 1, 0));
    check(ref_shape(GF_NN_LINEAR, GF_TYPE_F32, 3, 1, 5, 7, 1, 1, 0));
    check(ref_forward_only(ref_shape(GF_NN_LINEAR, GF_TYPE_F32, 4, 1, 16, 8, 1, 1, 0)));
}

TEST(maxima_follow_the_loops) {
    check(ref_shape(GF_NN_MAXPOOL, GF_TYPE_F32, 2, 6, 16, 16, 3, 2, 1));
    check(ref_shape(GF_NN_MAXPOOL, GF_TYPE_F32, 2, 7, 5, 5, 3, 2, 1));
    check(ref_forward_only(ref_shape(GF_NN_MAXPOOL, GF_TYPE_F32, 2, 6, 16, 16, 3, 2, 1)));
}

/* The forward pass splits its outputs among threads; each is summed by one of them. Gradients of weights are sums over images
 * that oneDNN splits among threads, so there only equal thread counts promise equal bits. */
TEST(threads_change_nothing_where_promised) {
    bench a, b;
    make(&a, conv(4, 8, 16, 32, 3, 1, GF_TYPE_F32), 1);
    make(&b, conv(4, 8, 16, 32, 3, 1, GF_TYPE_F32), 2);
    run(&a);
    run(&b);
    assert_memory_equal(a.args.y, b.args.y, 4 * (size_t)a.out);
    assert_memory_equal(a.args.dx, b.args.dx, 4 * (size_t)a.in);
    float *first = malloc(4 * (size_t)b.weights);
    memcpy(first, b.args.weight_grad, 4 * (size_t)b.weights);
    run(&b);
    assert_memory_equal(first, b.args.weight_grad, 4 * (size_t)b.weights);
    free(first);
    drop(&a);
    drop(&b);
}

/* Nothing but the arrays handed over is written, and weights are read again only by op_pack. */
TEST(packed_weights_are_a_copy) {
    gf_error err = {""};
    bench b;
    gf_nn_shape s = conv(2, 6, 16, 16, 3, 1, GF_TYPE_F32);
    s.training = 0;
    make(&b, s, 2);
    run(&b);
    memset((void *)(uintptr_t)b.args.weight, 0, 4 * (size_t)b.weights);
    ok(cpu->op_forward(&err, b.op, &b.args), &err);
    ref_op(b.y, b.x, b.w, &s);
    within(ref_distance_typed(b.args.y, s.type, b.y, b.out), FP32_LIMIT);
    ok(cpu->op_pack(&err, b.op, &b.args), &err);
    ok(cpu->op_forward(&err, b.op, &b.args), &err);
    for (int64_t i = 0; i < b.out; i++) assert_true(((const float *)b.args.y)[i] == 0.0f);
    drop(&b);
}

TEST(impossible_ops_are_refused) {
    gf_nn_engine *engine;
    gf_nn_sizes sizes;
    gf_nn_op *op = NULL;
    gf_error err = {""};
    gf_nn_shape s = conv(2, 6, 16, 16, 3, 1, GF_TYPE_F32);
    ok(cpu->open(&err, 0, &engine), &err);
    s.kernel = 9, s.pad = 0; /* larger than the image */
    assert_int_not_equal(cpu->op_create(&err, engine, &s, &sizes, &op), GLOFND_OK);
    assert_true(strlen(err.text) > 0);
    assert_null(op);
    assert_null(cpu->alloc(engine, SIZE_MAX - 8));
    cpu->close(engine);
    cpu->close(NULL);
}

TEST(bf16_rounds_to_nearest_even) {
    static const struct {
        float in, out;
    } cases[] = {
        {1.0f, 1.0f},
        {0x1.01p0f, 0x1.00p0f},
        {0x1.03p0f, 0x1.04p0f},
        {0x1.0100001p0f * 1.0000002f, 0x1.02p0f},
        {-0x1.03p0f, -0x1.04p0f},
        {0.0f, 0.0f},
        {0x1.ffp127f, INFINITY},
        {0x1.fep127f, 0x1.fep127f},
        {INFINITY, INFINITY},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_true(gf_bf16_to_float(gf_bf16_from_float(cases[i].in)) == cases[i].out);
    assert_true(isnan(gf_bf16_to_float(gf_bf16_from_float(NAN))));
    const uint32_t low_payload = 0x7F800001u;
    float odd;
    memcpy(&odd, &low_payload, sizeof odd);
    assert_true(isnan(gf_bf16_to_float(gf_bf16_from_float(odd))));
}

TEST(the_backend_says_what_it_is) {
    char text[128] = "", tiny[4];
    cpu->describe(text, sizeof text);
    print_message("%s\n", text);
    assert_non_null(strstr(text, "oneDNN "));
    assert_null(strstr(text, "0.0.0"));
    cpu->describe(tiny, sizeof tiny);
    assert_string_equal(tiny, "one");
}

#else
TEST_SKIP("built without oneDNN")
#endif

/* unit_wino.c - short convolutions: all three passes against plain loops in double, in float32 and bf16, for tiles that do not
 * fill; the same bits for any number of threads; 16-bit integers beside plain bf16 convolutions; every instruction set against
 * the plain one; which shapes take the method.
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

#include "nn/cpu/dnn.h"
#include "nn/cpu/kernels/net_kernels.h"

#define FP32_LIMIT 2e-6 /* relative error of whole arrays, as for plain convolutions (unit_dnn.c) */
#define BF16_LIMIT 3e-3 /* results rounded to bf16 */

static gf_nn_shape shape_of(gf_type type, int64_t n, int64_t h, int64_t w, int64_t in, int64_t out) {
    return (gf_nn_shape){.kind = GF_NN_CONV,
                         .type = type,
                         .n = n,
                         .h = h,
                         .w = w,
                         .in = in,
                         .out = out,
                         .kernel = 3,
                         .stride = 1,
                         .pad = 1,
                         .training = 1,
                         .input_grad = 1};
}

/* ----- arrays ------------------------------------------------------------------------------------------------------ */

static void *take(size_t bytes) {
    const size_t whole = (bytes + GF_NN_ALIGN) / GF_NN_ALIGN * GF_NN_ALIGN;
    void *p = aligned_alloc(GF_NN_ALIGN, whole);
    assert_non_null(p);
    memset(p, 0xff, whole); /* NaN: what is not written shows */
    return p;
}

static double get(const void *p, int64_t i, gf_type t) {
    return t == GF_TYPE_BF16 ? (double)gf_bf16_to_float(((const uint16_t *)p)[i]) : (double)((const float *)p)[i];
}

static void *random_array(rng *g, int64_t count, gf_type t) {
    void *p = take((size_t)count * gf_type_bytes[t]);
    for (int64_t i = 0; i < count; i++) {
        const float v = (float)rng_normal(g);
        if (t == GF_TYPE_BF16) ((uint16_t *)p)[i] = gf_bf16_from_float(v);
        else ((float *)p)[i] = v;
    }
    return p;
}

/* ----- the three passes as plain loops ----------------------------------------------------------------------------- */

typedef struct truth {
    double *y, *dx, *dw;
} truth;

/* One pair of pixels that a tap connects: dst += along both directions. */
static void connect(truth *r, const gf_nn_shape *s, const gf_nn_args *a, int64_t xp, int64_t yp, int tap) {
    for (int64_t o = 0; o < s->out; o++) {
        const double dy = get(a->dy, yp * s->out + o, s->type);
        for (int64_t i = 0; i < s->in; i++) {
            const double x = get(a->x, xp * s->in + i, s->type), w = (double)a->weight[(o * s->in + i) * 9 + tap];
            r->y[yp * s->out + o] += x * w;
            r->dx[xp * s->in + i] += dy * w;
            r->dw[(o * s->in + i) * 9 + tap] += dy * x;
        }
    }
}

static truth true_passes(const gf_nn_shape *s, const gf_nn_args *a) {
    const int64_t pixels = s->n * s->h * s->w;
    truth r = {calloc((size_t)(pixels * s->out), sizeof(double)), calloc((size_t)(pixels * s->in), sizeof(double)),
               calloc((size_t)(9 * s->in * s->out), sizeof(double))};
    for (int64_t p = 0; p < pixels; p++)
        for (int tap = 0; tap < 9; tap++) {
            const int64_t y = p / s->w % s->h + tap / 3 - 1, x = p % s->w + tap % 3 - 1;
            if (y >= 0 && y < s->h && x >= 0 && x < s->w) connect(&r, s, a, (p / (s->h * s->w) * s->h + y) * s->w + x, p, tap);
        }
    return r;
}

/* ----- running ----------------------------------------------------------------------------------------------------- */

static gf_nn_args make(const gf_nn_shape *s) {
    rng g = {(uint64_t)(s->n * 7919 + s->h * 31 + s->in)};
    const int64_t x = ref_in_count(s), y = ref_out_count(s), w = ref_weight_count(s);
    const size_t bytes = gf_type_bytes[s->type];
    return (gf_nn_args){.x = random_array(&g, x, s->type),
                        .dy = random_array(&g, y, s->type),
                        .weight = random_array(&g, w, GF_TYPE_F32),
                        .y = take(bytes * (size_t)y),
                        .dx = take(bytes * (size_t)x),
                        .weight_grad = take(sizeof(float) * (size_t)w)};
}

static void drop(gf_nn_args *a) {
    free((void *)(uintptr_t)a->x), free((void *)(uintptr_t)a->dy), free((void *)(uintptr_t)a->weight);
    free(a->y), free(a->dx), free(a->weight_grad);
}

enum { CHOSEN = -1 };

/* int16: 1 or 0 whatever the CPU has. */
static void run_as(const gf_nn_shape *s, gf_nn_args *a, int threads, int int16) {
    gf_wino w;
    a->scratch = take(gf_wino_plan(&w, s, threads));
    if (int16 != CHOSEN) w.int16 = int16;
    gf_wino_forward(&w, s, a);
    gf_wino_back_data(&w, s, a);
    gf_wino_back_weights(&w, s, a);
    free(a->scratch);
}

static void run(const gf_nn_shape *s, gf_nn_args *a, int threads) { run_as(s, a, threads, CHOSEN); }

static void check(gf_nn_shape s) {
    gf_nn_args a = make(&s);
    const double limit = s.type == GF_TYPE_BF16 ? BF16_LIMIT : FP32_LIMIT;
    run(&s, &a, 2);
    truth r = true_passes(&s, &a);
    const double y = ref_distance_typed(a.y, s.type, r.y, ref_out_count(&s));
    const double dx = ref_distance_typed(a.dx, s.type, r.dx, ref_in_count(&s));
    const double dw = ref_distance_typed(a.weight_grad, GF_TYPE_F32, r.dw, ref_weight_count(&s));
    if (!(y <= limit && dx <= limit && dw <= FP32_LIMIT)) fail_msg("off by: y %.3g, dx %.3g, dw %.3g", y, dx, dw);
    free(r.y), free(r.dx), free(r.dw);
    drop(&a);
}

TEST(passes_equal_plain_loops) {
    for (gf_type t = GF_TYPE_F32; t <= GF_TYPE_BF16; t++) {
        check(shape_of(t, 4, 16, 16, 32, 64));
        check(shape_of(t, 7, 7, 9, 64, 32));  /* tiles hang over both edges */
        check(shape_of(t, 1, 2, 33, 32, 32)); /* lower than a tile */
    }
}

TEST(spans_of_tiles_add_up) {
    const gf_nn_shape s = shape_of(GF_TYPE_F32, 20, 16, 16, 64, 64);
    gf_wino w;
    gf_wino_plan(&w, &s, 2);
    assert_true(w.span < w.tiles && w.tiles % w.span != 0 && w.block < w.tiles);
    check(s);
}

static void threads_do_not_matter(gf_type type, int int16) {
    const gf_nn_shape s = shape_of(type, 9, 15, 15, 64, 96);
    gf_nn_args a = make(&s), b = make(&s);
    run_as(&s, &a, 1, int16);
    run_as(&s, &b, 3, int16);
    assert_memory_equal(a.y, b.y, gf_type_bytes[type] * (size_t)ref_out_count(&s));
    assert_memory_equal(a.dx, b.dx, gf_type_bytes[type] * (size_t)ref_in_count(&s));
    assert_memory_equal(a.weight_grad, b.weight_grad, sizeof(float) * (size_t)ref_weight_count(&s));
    drop(&a), drop(&b);
}

TEST(any_number_of_threads_gives_the_same_bits) {
    threads_do_not_matter(GF_TYPE_F32, 0);
    threads_do_not_matter(GF_TYPE_BF16, 0);
    threads_do_not_matter(GF_TYPE_BF16, 1);
}

/* ----- integers of 16 bits for bf16 activations -------------------------------------------------------------------- */

static void round_all(double *x, int64_t n) {
    for (int64_t i = 0; i < n; i++) x[i] = (double)gf_bf16_to_float(gf_bf16_from_float((float)x[i]));
}

static double distance(const double *a, const double *b, int64_t n) {
    double off = 0.0, all = 0.0;
    for (int64_t i = 0; i < n; i++) off += (a[i] - b[i]) * (a[i] - b[i]), all += b[i] * b[i];
    return sqrt(off / all);
}

/* What plain bf16 convolutions give at best: weights and results rounded, the sums between exact. */
static void compare_to_bf16(const char *name, const gf_nn_shape *s, gf_nn_args *a) {
    const int64_t ys = ref_out_count(s), xs = ref_in_count(s), ws = ref_weight_count(s);
    float *rounded = take(sizeof(float) * (size_t)ws), *weight = (float *)(uintptr_t)a->weight;
    truth r = true_passes(s, a);
    for (int64_t i = 0; i < ws; i++) rounded[i] = gf_bf16_to_float(gf_bf16_from_float(weight[i]));
    a->weight = rounded;
    truth plain = true_passes(s, a);
    a->weight = weight;
    round_all(plain.y, ys), round_all(plain.dx, xs);
    run_as(s, a, 2, 1);
    const double y = ref_distance_typed(a->y, s->type, r.y, ys), dx = ref_distance_typed(a->dx, s->type, r.dx, xs);
    const double plain_y = distance(plain.y, r.y, ys), plain_dx = distance(plain.dx, r.dx, xs);
    if (!(y <= plain_y && dx <= plain_dx))
        fail_msg("%s: off by y %.3g, dx %.3g; plain bf16: %.3g, %.3g", name, y, dx, plain_y, plain_dx);
    free(rounded), free(r.y), free(r.dx), free(r.dw), free(plain.y), free(plain.dx), free(plain.dw);
}

/* Activations as a ReLU leaves them, and some channels, pixels and weights that are much larger than the others. */
static void make_uneven(const gf_nn_shape *s, gf_nn_args *a) {
    uint16_t *x = (uint16_t *)(uintptr_t)a->x, *dy = (uint16_t *)(uintptr_t)a->dy;
    float *weight = (float *)(uintptr_t)a->weight;
    for (int64_t i = 0; i < ref_in_count(s); i++) {
        const float v = gf_bf16_to_float(x[i]), large = i % s->in % 17 == 3 ? 30.0f : 1.0f,
                    far = i / s->in % 11 == 5 ? 1e-3f : 1.0f;
        x[i] = v > 0.0f ? gf_bf16_from_float(v * large * far) : 0;
    }
    for (int64_t i = 0; i < ref_out_count(s); i++)
        dy[i] = gf_bf16_from_float(1e-7f * powf(gf_bf16_to_float(dy[i]), 3.0f)); /* small, with long tails */
    for (int64_t i = 0; i < ref_weight_count(s); i++) weight[i] *= i / 9 / s->in % 7 == 2 ? 40.0f : 0.5f;
}

TEST(integers_are_no_worse_than_bf16) {
    const gf_nn_shape shapes[] = {shape_of(GF_TYPE_BF16, 4, 16, 16, 64, 64), shape_of(GF_TYPE_BF16, 4, 9, 7, 32, 96),
                                  shape_of(GF_TYPE_BF16, 2, 8, 8, 512, 64), shape_of(GF_TYPE_BF16, 2, 4, 4, 64, 544)};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        gf_nn_args a = make(&shapes[i]);
        compare_to_bf16("normal numbers", &shapes[i], &a);
        make_uneven(&shapes[i], &a);
        compare_to_bf16("uneven numbers", &shapes[i], &a);
        drop(&a);
    }
}

TEST(what_is_not_a_number_stays_so) {
    const gf_nn_shape s = shape_of(GF_TYPE_BF16, 4, 16, 16, 32, 32);
    gf_nn_args a = make(&s);
    ((uint16_t *)(uintptr_t)a.x)[0] = gf_bf16_from_float(NAN);
    ((uint16_t *)(uintptr_t)a.dy)[0] = gf_bf16_from_float(INFINITY);
    run_as(&s, &a, 1, 1);
    assert_true(isnan(get(a.y, 0, s.type)) && isnan(get(a.dx, 0, s.type)));
    assert_true(isfinite(get(a.y, ref_out_count(&s) - 1, s.type)) && isfinite(get(a.dx, ref_in_count(&s) - 1, s.type)));
    ((float *)(uintptr_t)a.weight)[0] = NAN;
    run_as(&s, &a, 1, 1);
    assert_true(isnan(get(a.y, ref_out_count(&s) - s.out, s.type))); /* the first channel of every pixel */
    drop(&a);
}

/* ----- kernels ----------------------------------------------------------------------------------------------------- */

enum { C = 64, H = 5 };

typedef struct trace { /* what the kernels made of the same numbers */
    float planes[2][GF_WINO_PLANES * C], image[H * H * C], u[GF_WINO_PLANES * C * C], dw[9 * C * C];
} trace;

static void use_kernels(trace *t, const gf_wino_ops *ops, float *image, float *weights) {
    const gf_wino_image from = {GF_TYPE_F32, image, H, H, C}, to = {GF_TYPE_F32, t->image, H, H, C};
    const gf_wino_planes first = {t->planes[0], C, GF_PANEL}, second = {t->planes[1], C, GF_PANEL};
    const gf_wino_weights w = {weights, C, C, 9, 9 * C, 0}, dw = {t->dw, C, C, 9, 9 * C, 0};
    memset(t, 0, sizeof *t);
    ops->input(&first, &from, 0, 4);
    ops->spread(&second, &from, 4, 0);
    ops->output(&to, &first, 4, 0);
    for (int p = 0; p < C / GF_PANEL; p++) ops->weights(t->u, &w, p, 0, C);
    for (int p = 0; p < C / GF_PANEL; p++) ops->gradient(&dw, t->u, p, 0, C);
}

TEST(kernels_agree) {
    static const char *const isas[] = {"avx2", "avx512", "neon"};
    const size_t count = sizeof(trace) / sizeof(float);
    rng g = {3};
    float *image = random_array(&g, H * H * C, GF_TYPE_F32), *weights = random_array(&g, 9 * C * C, GF_TYPE_F32);
    trace *plain = take(sizeof *plain), *other = take(sizeof *other);
    use_kernels(plain, gf_net_kernels_find("base")->wino, image, weights);
    for (size_t k = 0; k < sizeof isas / sizeof *isas; k++) {
        const gf_net_kernels *kernels = gf_net_kernels_find(isas[k]);
        if (!kernels) continue;
        const gf_wino_ops *ops = kernels->wino;
        assert_string_equal(kernels->isa, isas[k]);
        use_kernels(other, ops, image, weights);
        for (size_t i = 0; i < count; i++)
            if (fabsf(((float *)other)[i] - ((float *)plain)[i]) > 1e-4f) fail_msg("%s differs at %zu", isas[k], i);
    }
    free(image), free(weights), free(plain), free(other);
}

/* ----- choice ------------------------------------------------------------------------------------------------------ */

TEST(only_shapes_that_gain_take_it) {
    gf_nn_shape s = shape_of(GF_TYPE_F32, 64, 32, 32, 64, 64);
    assert_true(gf_wino_suits(&s));
    const gf_nn_shape few = shape_of(GF_TYPE_F32, 8, 8, 8, 64, 64), low = shape_of(GF_TYPE_F32, 64, 2, 2, 64, 64);
    const gf_nn_shape stem = shape_of(GF_TYPE_F32, 64, 32, 32, 3, 64);
    assert_false(gf_wino_suits(&few) || gf_wino_suits(&low) || gf_wino_suits(&stem));
    s.stride = 2;
    assert_false(gf_wino_suits(&s));
    s.stride = 1, s.kernel = 1, s.pad = 0;
    assert_false(gf_wino_suits(&s));
}

TEST(backend_uses_it) {
    const gf_nn_backend *cpu = &gf_nn_backend_cpu;
    const gf_nn_shape s = shape_of(GF_TYPE_F32, 16, 8, 8, 32, 32);
    gf_nn_args a = make(&s), b = make(&s);
    gf_error err = {""};
    gf_nn_engine *engine = NULL;
    gf_nn_op *op;
    gf_nn_sizes sizes;
    assert_int_equal(cpu->open(&err, 2, &engine), GLOFND_OK);
    assert_int_equal(cpu->op_create(&err, engine, &s, &sizes, &op), GLOFND_OK);
    assert_int_equal(sizes.packed, 0);
    a.scratch = take(sizes.scratch);
    assert_int_equal(cpu->op_pack(&err, op, &a), GLOFND_OK);
    assert_int_equal(cpu->op_forward(&err, op, &a), GLOFND_OK);
    assert_int_equal(cpu->op_backward(&err, op, &a), GLOFND_OK);
    run(&s, &b, 2);
    assert_memory_equal(a.y, b.y, sizeof(float) * (size_t)ref_out_count(&s));
    assert_memory_equal(a.dx, b.dx, sizeof(float) * (size_t)ref_in_count(&s));
    assert_memory_equal(a.weight_grad, b.weight_grad, sizeof(float) * (size_t)ref_weight_count(&s));
    free(a.scratch);
    drop(&a), drop(&b);
    cpu->close(engine);
}

#else
TEST_SKIP("built without oneDNN")
#endif

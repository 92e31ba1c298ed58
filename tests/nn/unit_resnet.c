/* unit_resnet.c - whole nets without outside numbers: sizes, initial weights, train and eval mode, misuse, threads, bf16.
 * Names, shapes, values and gradients against PyTorch are in golden_resnet.c.
 */
#include "support/test.h"

#include "nn/net.h"
#include "support/nn_reference.h"
#include "support/random.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

#ifdef GF_HAVE_DNNL

static const gf_net_spec small = {.arch = GF_ARCH_RESNET8,
                                  .cifar_stem = 1,
                                  .batch = 8,
                                  .size = 16,
                                  .head_hidden = 48,
                                  .head_out = 24,
                                  .training = 1,
                                  .seed = 5,
                                  .threads = 2};

static gf_net *make(const gf_net_spec *spec) {
    gf_error err = {""};
    gf_net *n = NULL;
    if (gf_net_create(&err, spec, &n) != GLOFND_OK) fail_msg("%s", err.text);
    return n;
}

static float *random_array(uint64_t seed, int64_t count) {
    rng g = {seed};
    float *x = malloc(sizeof *x * (size_t)count);
    for (int64_t i = 0; i < count; i++) x[i] = (float)rng_normal(&g);
    return x;
}

/* Images that differ from each other as a whole, and noise. */
static float *images(const gf_net_spec *s) {
    const int64_t per = (int64_t)s->size * s->size * 3;
    float *x = random_array(11, s->batch * per);
    for (int64_t i = 0; i < s->batch; i++)
        for (int64_t k = 0; k < per; k++) x[i * per + k] += (float)sin(0.05 * (double)((i + 1) * k % 997));
    return x;
}

static void forward(gf_net *n, const float *x, int64_t count, int train, const float **features, const float **projection) {
    gf_error err = {""};
    if (gf_net_forward(&err, n, x, count, train, features, projection) != GLOFND_OK) fail_msg("%s", err.text);
}

static void backward(gf_net *n, const float *d) {
    gf_error err = {""};
    if (gf_net_backward(&err, n, d) != GLOFND_OK) fail_msg("%s", err.text);
}

static gf_tensor *tensor(gf_net *n, const char *name) {
    gf_tensor *t;
    const int count = gf_net_tensors(n, &t);
    for (int i = 0; i < count; i++)
        if (strcmp(t[i].name, name) == 0) return &t[i];
    fail_msg("no tensor %s", name);
    return NULL;
}

static float *copy(const float *x, int64_t count) { return memcpy(malloc(4 * (size_t)count), x, 4 * (size_t)count); }

/* ----- size and initial weights ------------------------------------------------------------------------------------- */

TEST(parameters_count_as_in_torchvision) {
    static const struct {
        gf_arch arch;
        int64_t numbers, features;
        int tensors;
    } want[] = {
        {GF_ARCH_RESNET8, 77392, 64, 27 + 18},      /* worked out by hand: see resnet.c */
        {GF_ARCH_RESNET18, 11176512, 512, 60 + 40}, /* torchvision's count less fc */
        {GF_ARCH_RESNET34, 21284672, 512, 108 + 72},
        {GF_ARCH_RESNET50, 23508032, 2048, 159 + 106},
    };
    for (size_t i = 0; i < 4; i++) {
        gf_net *n = make(&(gf_net_spec){.arch = want[i].arch, .batch = 1, .size = 32, .cifar_stem = i == 0});
        gf_tensor *t;
        const int count = gf_net_tensors(n, &t);
        int64_t numbers = 0;
        for (int k = 0; k < count; k++) numbers += strstr(t[k].name, "running") ? 0 : t[k].count;
        assert_int_equal(count, want[i].tensors);
        assert_int_equal(numbers, want[i].numbers);
        assert_int_equal(gf_net_features(n), want[i].features);
        gf_net_free(n);
    }
}

TEST(weights_start_as_documented) {
    gf_net_spec spec = small;
    spec.zero_init = 1;
    gf_net *n = make(&spec);
    const gf_tensor *conv = tensor(n, "layer3.0.conv2.weight"), *linear = tensor(n, "head.0.weight");
    double mean = 0, square = 0;
    for (int64_t i = 0; i < conv->count; i++) {
        mean += (double)conv->value[i] / (double)conv->count;
        square += (double)conv->value[i] * (double)conv->value[i] / (double)conv->count;
    }
    const double deviation = sqrt(2.0 / (64 * 9));
    assert_true(fabs(mean) < 4 * deviation / sqrt((double)conv->count));
    assert_true(fabs(sqrt(square) / deviation - 1) < 4 / sqrt(2.0 * (double)conv->count));
    float largest = 0;
    for (int64_t i = 0; i < linear->count; i++) largest = fmaxf(largest, fabsf(linear->value[i]));
    assert_true(largest <= 0.125f && largest > 0.12f); /* 1 / sqrt(64) */
    assert_true(tensor(n, "layer1.0.bn2.weight")->value[3] == 0.0f);
    assert_true(tensor(n, "layer1.0.bn1.weight")->value[3] == 1.0f);
    assert_true(tensor(n, "layer2.0.downsample.1.weight")->value[3] == 1.0f);
    assert_true(tensor(n, "head.1.weight")->value[3] == 1.0f);
    assert_true(tensor(n, "bn1.bias")->value[0] == 0.0f);
    assert_true(tensor(n, "bn1.running_var")->value[0] == 1.0f);
    assert_null(tensor(n, "bn1.running_var")->grad);
    gf_net_free(n);
}

TEST(seeds_and_nothing_else_decide_the_weights) {
    gf_net_spec other = small, threads = small;
    other.seed = 6;
    threads.threads = 1;
    threads.batch = 3;
    gf_net *a = make(&small), *b = make(&other), *c = make(&threads);
    const gf_tensor *w = tensor(a, "conv1.weight");
    assert_memory_equal(w->value, tensor(c, "conv1.weight")->value, 4 * (size_t)w->count);
    assert_true(ref_distance_floats(tensor(b, "conv1.weight")->value, w->value, w->count) > 1.0);
    assert_true(tensor(a, "layer1.0.conv1.weight")->value[0] != tensor(a, "layer1.0.conv2.weight")->value[0]);
    gf_net_free(a), gf_net_free(b), gf_net_free(c);
}

TEST(the_estimate_is_what_is_taken) {
    gf_error err = {""};
    size_t bytes = 0, larger = 0;
    gf_net_spec twice = small, eval = small;
    twice.batch *= 2;
    eval.training = 0;
    gf_net *n = make(&small);
    assert_int_equal(gf_net_estimate(&err, &small, &bytes), GLOFND_OK);
    assert_int_equal(bytes, gf_net_bytes(n));
    assert_int_equal(gf_net_estimate(&err, &twice, &larger), GLOFND_OK);
    assert_true(larger > bytes);
    assert_int_equal(gf_net_estimate(&err, &eval, &larger), GLOFND_OK);
    assert_true(larger < bytes);
    gf_net_free(n);
    gf_net_free(NULL);
}

/* ----- modes -------------------------------------------------------------------------------------------------------- */

TEST(eval_mode_takes_images_one_by_one) {
    gf_net_spec eval = small;
    eval.training = 0;
    gf_net *n = make(&small), *e = make(&eval);
    const float *features, *projection, *few, *few_projection;
    float *x = images(&small);
    forward(n, x, small.batch, 1, &features, &projection); /* moves the running statistics */
    float *trained = copy(features, small.batch * 64);
    forward(n, x, small.batch, 0, &features, &projection);
    assert_true(ref_distance_floats(features, trained, small.batch * 64) > 1e-3);
    gf_tensor *from, *to;
    const int count = gf_net_tensors(n, &from);
    assert_int_equal(gf_net_tensors(e, &to), count);
    for (int i = 0; i < count; i++) memcpy(to[i].value, from[i].value, 4 * (size_t)from[i].count);
    gf_net_touch(e);
    for (int64_t k = 1; k <= small.batch; k += 3) {
        forward(e, x, k, 0, &few, &few_projection);
        assert_true(ref_distance_floats(few, features, k * 64) < 1e-6);
        assert_true(ref_distance_floats(few_projection, projection, k * 24) < 1e-6);
    }
    forward(n, x, small.batch, 0, &few, NULL); /* eval mode moves nothing */
    forward(n, x, small.batch, 0, &features, NULL);
    float *again = copy(features, small.batch * 64);
    assert_memory_equal(again, few, 4 * (size_t)small.batch * 64);
    free(x), free(trained), free(again);
    gf_net_free(n), gf_net_free(e);
}

TEST(changed_weights_are_seen_after_touch) {
    gf_net *n = make(&small);
    const float *features;
    float *x = images(&small);
    forward(n, x, small.batch, 1, &features, NULL);
    float *before = copy(features, small.batch * 64);
    gf_tensor *w = tensor(n, "layer2.0.conv1.weight");
    for (int64_t i = 0; i < w->count; i++) w->value[i] = -w->value[i];
    gf_net_touch(n);
    forward(n, x, small.batch, 1, &features, NULL);
    assert_true(ref_distance_floats(features, before, small.batch * 64) > 0.05);
    for (int64_t i = 0; i < w->count; i++) w->value[i] = -w->value[i];
    gf_net_touch(n);
    forward(n, x, small.batch, 1, &features, NULL);
    assert_memory_equal(features, before, 4 * (size_t)small.batch * 64);
    free(x), free(before);
    gf_net_free(n);
}

/* The images may be gone before backward; gradients are overwritten, not added. */
TEST(backward_needs_nothing_from_outside) {
    gf_net *n = make(&small);
    float *x = images(&small), *d = random_array(3, small.batch * 24);
    gf_tensor *w = tensor(n, "conv1.weight");
    forward(n, x, small.batch, 1, NULL, NULL);
    backward(n, d);
    float *first = copy(w->grad, w->count);
    forward(n, x, small.batch, 1, NULL, NULL);
    memset(x, 0, 4 * (size_t)(small.batch * small.size * small.size * 3));
    backward(n, d);
    assert_memory_equal(first, w->grad, 4 * (size_t)w->count);
    free(x), free(d), free(first);
    gf_net_free(n);
}

/* Along the gradient of conv1 and without a head: the loss moves as the gradient says. */
TEST(gradients_without_a_head_are_those_of_the_features) {
    gf_net_spec spec = small;
    spec.head_hidden = spec.head_out = 0;
    gf_net *n = make(&spec);
    const int64_t count = spec.batch * 64;
    float *x = images(&spec), *d = random_array(3, count);
    const float *features, *projection = d;
    gf_tensor *w = tensor(n, "conv1.weight");
    forward(n, x, spec.batch, 1, &features, &projection);
    assert_null(projection);
    backward(n, d);
    double square = 0, loss[2] = {0, 0};
    for (int64_t i = 0; i < w->count; i++) square += (double)w->grad[i] * (double)w->grad[i];
    const float step = (float)(2e-3 / sqrt(square));
    for (int side = 0; side < 2; side++) {
        for (int64_t i = 0; i < w->count; i++) w->value[i] += (side ? -2 : 1) * step * w->grad[i];
        gf_net_touch(n);
        forward(n, x, spec.batch, 1, &features, NULL);
        for (int64_t i = 0; i < count; i++) loss[side] += (double)features[i] * (double)d[i];
    }
    assert_true(fabs((loss[0] - loss[1]) / (2 * (double)step * square) - 1) < 0.02);
    free(x), free(d);
    gf_net_free(n);
}

/* ----- misuse ------------------------------------------------------------------------------------------------------- */

static void refused(gf_net_spec spec, glofnd_status want) {
    gf_error err = {""};
    gf_net *n = NULL;
    size_t bytes = 7;
    assert_int_equal(gf_net_create(&err, &spec, &n), want);
    assert_null(n);
    assert_true(strlen(err.text) > 10);
    assert_int_equal(gf_net_estimate(&err, &spec, &bytes), want);
    assert_int_equal(bytes, 7);
}

TEST(bad_specs_are_refused) {
    gf_net_spec s;
    s = small, s.arch = (gf_arch)9, refused(s, GLOFND_E_ARGUMENT);
    s = small, s.precision = (gf_precision)2, refused(s, GLOFND_E_ARGUMENT);
    s = small, s.batch = 0, refused(s, GLOFND_E_ARGUMENT);
    s = small, s.batch = 1, refused(s, GLOFND_E_ARGUMENT);
    s = small, s.batch = INT64_MAX, refused(s, GLOFND_E_ARGUMENT);
    s = small, s.size = 7, refused(s, GLOFND_E_ARGUMENT);
    s = small, s.size = 5000, refused(s, GLOFND_E_ARGUMENT);
    s = small, s.head_hidden = 0, refused(s, GLOFND_E_ARGUMENT);
    s = small, s.head_out = -1, refused(s, GLOFND_E_ARGUMENT);
    s = small, s.threads = -1, refused(s, GLOFND_E_ARGUMENT);
}

TEST(calls_out_of_order_are_refused) {
    gf_net_spec eval = small;
    eval.training = 0;
    gf_error err = {""};
    gf_net *n = make(&small), *e = make(&eval);
    float *x = images(&small), *d = random_array(3, small.batch * 24);
    assert_int_equal(gf_net_backward(&err, n, d), GLOFND_E_ARGUMENT);
    forward(n, x, small.batch, 0, NULL, NULL);
    assert_int_equal(gf_net_backward(&err, n, d), GLOFND_E_ARGUMENT);
    forward(n, x, small.batch, 1, NULL, NULL);
    backward(n, d);
    assert_int_equal(gf_net_backward(&err, n, d), GLOFND_E_ARGUMENT);
    assert_int_equal(gf_net_forward(&err, n, x, small.batch - 1, 1, NULL, NULL), GLOFND_E_ARGUMENT);
    assert_int_equal(gf_net_forward(&err, n, x, small.batch + 1, 0, NULL, NULL), GLOFND_E_ARGUMENT);
    assert_int_equal(gf_net_forward(&err, n, x, 0, 0, NULL, NULL), GLOFND_E_ARGUMENT);
    assert_int_equal(gf_net_forward(&err, e, x, small.batch, 1, NULL, NULL), GLOFND_E_ARGUMENT);
    free(x), free(d);
    gf_net_free(n), gf_net_free(e);
}

/* ----- threads and precision ---------------------------------------------------------------------------------------- */

typedef struct outcome {
    float *features, *projection, *grads;
    int64_t feature_count, projection_count, grad_count;
} outcome;

/* Sets the shifts of all batch norms: at 3 nearly every ReLU is on, so that rounding moves none across its kink. */
static void lift(gf_net *n, float shift) {
    gf_tensor *t;
    const int count = gf_net_tensors(n, &t);
    for (int i = 0; i < count; i++) {
        const size_t length = strlen(t[i].name);
        if (!t[i].grad || length < 5 || strcmp(t[i].name + length - 5, ".bias") != 0) continue;
        for (int64_t k = 0; k < t[i].count; k++) t[i].value[k] = shift;
    }
    gf_net_touch(n);
}

static outcome step(const gf_net_spec *spec, float shift) {
    gf_net *n = make(spec);
    gf_tensor *t;
    const int count = gf_net_tensors(n, &t);
    if (shift != 0) lift(n, shift);
    float *x = images(spec), *d = random_array(3, spec->batch * spec->head_out);
    const float *features, *projection;
    outcome o = {.feature_count = spec->batch * gf_net_features(n), .projection_count = spec->batch * spec->head_out};
    forward(n, x, spec->batch, 1, &features, &projection);
    o.features = copy(features, o.feature_count);
    o.projection = copy(projection, o.projection_count);
    backward(n, d);
    for (int i = 0; i < count; i++) o.grad_count += t[i].grad ? t[i].count : 0;
    float *at = o.grads = malloc(4 * (size_t)o.grad_count);
    for (int i = 0; i < count; i++)
        if (t[i].grad) memcpy(at, t[i].grad, 4 * (size_t)t[i].count), at += t[i].count;
    free(x), free(d);
    gf_net_free(n);
    return o;
}

static void drop(outcome *o) { free(o->features), free(o->projection), free(o->grads); }

/* Equal thread counts: equal bits. Different counts: oneDNN adds gradients of weights in a different order, so nearly equal. */
TEST(steps_repeat) {
    gf_net_spec spec = small, one = small;
    one.threads = 1;
    outcome a = step(&spec, 0), b = step(&spec, 0), c = step(&one, 0);
    assert_memory_equal(a.features, b.features, 4 * (size_t)a.feature_count);
    assert_memory_equal(a.projection, b.projection, 4 * (size_t)a.projection_count);
    assert_memory_equal(a.grads, b.grads, 4 * (size_t)a.grad_count);
    assert_true(ref_distance_floats(a.features, c.features, a.feature_count) < 1e-6);
    assert_true(ref_distance_floats(a.grads, c.grads, a.grad_count) < 1e-5);
    drop(&a), drop(&b), drop(&c);
}

static void compare_precisions(gf_net_spec spec, float shift, double features, double projection, double grads) {
    gf_error err = {""};
    size_t bytes;
    spec.precision = GF_BF16;
    if (gf_net_estimate(&err, &spec, &bytes) == GLOFND_E_UNSUPPORTED) skip(); /* this CPU has no bf16 */
    outcome b = step(&spec, shift);
    spec.precision = GF_FP32;
    outcome a = step(&spec, shift);
    const double have[3] = {ref_distance_floats(b.features, a.features, a.feature_count),
                            ref_distance_floats(b.projection, a.projection, a.projection_count),
                            ref_distance_floats(b.grads, a.grads, a.grad_count)};
    print_message("bf16 against fp32: features %.4f, projection %.4f, gradients %.4f\n", have[0], have[1], have[2]);
    assert_true(have[0] < features && have[1] < projection && have[2] < grads);
    drop(&a), drop(&b);
}

/* Bounds on the relative error of whole arrays, 1.2 times what was measured: bf16 has 8 bits, each rounding is 0.2 % in the mean
 * square, and each number passes some ten to fifty of them. Gradients differ more where ReLUs are switched by rounding: once
 * without that. zero_init as in training, so that blocks start as identities. */
TEST(bf16_stays_near_fp32) {
    gf_net_spec spec = small;
    spec.batch = 32;
    compare_precisions(spec, 3, 0.0012, 0.035, 0.033);
    spec.zero_init = 1;
    compare_precisions(spec, 0, 0.0035, 0.012, 0.125);
    spec.arch = GF_ARCH_RESNET18;
    compare_precisions(spec, 0, 0.008, 0.017, 0.15);
    spec.arch = GF_ARCH_RESNET50;
    compare_precisions(spec, 0, 0.01, 0.022, 0.185);
}

#else
TEST_SKIP("built without oneDNN")
#endif

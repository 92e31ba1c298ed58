/* cuda_net.c - complete networks on CUDA: against PyTorch in float64 (support/golden_net.h), against runs of the CPU in bf16,
 * captured steps against queued ones, same bits twice, moves of tensors between layouts.
 */
#include "support/test.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "optim/optim.h"
#include "support/cuda_main.h"
#include "support/golden_net.h"
#include "support/net_margin.h"
#include "support/nn_reference.h"
#include "support/random.h"

/* float32 without TF32. */
#define X(name) \
    TEST(name) { golden_net_check(#name, GLOFND_DEVICE_CUDA, GF_FP32, 1e-4); }
GOLDEN_NETS(X)
#undef X

/* ----- a net, and steps of it --------------------------------------------------------------------------------------- */

static const gf_net_spec small = {.arch = GF_ARCH_RESNET18,
                                  .cifar_stem = 1,
                                  .batch = 32,
                                  .size = 16,
                                  .head_hidden = 64,
                                  .head_out = 32,
                                  .training = 1,
                                  .seed = 5,
                                  .threads = 2,
                                  .device = GLOFND_DEVICE_CUDA,
                                  .deterministic = 1,
                                  .exact = 1,
                                  .plans = "cuda_net.plans"}; /* else each network may choose different algorithms */

typedef struct scene {
    gf_net *net;
    gf_optim *optim;
    float *d, *state;
    const float *projection;
} scene;

static void ok(glofnd_status status, const gf_error *err) {
    if (status != GLOFND_OK) fail_msg("%s", err->text);
}

static float *random_array(uint64_t seed, int64_t count) {
    rng g = {seed};
    float *x = malloc(sizeof *x * (size_t)count);
    for (int64_t i = 0; i < count; i++) x[i] = (float)rng_normal(&g);
    return x;
}

static void make_optimizer(scene *s) {
    gf_error err = {""};
    gf_tensor *t;
    const gf_optim_rule rule = {.kind = GF_OPTIM_SGD, .momentum = 0.9, .weight_decay = 1e-4};
    const int count = gf_net_tensors(s->net, &t);
    gf_param *list = calloc((size_t)count, sizeof *list);
    int n = 0;
    s->state = gf_net_alloc_state(s->net);
    for (; n < count && t[n].grad; n++)
        list[n] = (gf_param){.p = t[n].value,
                             .g = t[n].grad,
                             .state1 = gf_net_place(s->net, s->state, &t[n]),
                             .n = (size_t)t[n].stored,
                             .decay = t[n].rank > 1};
    ok(gf_optim_create(&err, gf_net_backend(s->net), gf_net_engine(s->net), &rule, list, n, &s->optim), &err);
    free(list);
}

static scene make_scene(const gf_net_spec *spec) {
    gf_error err = {""};
    scene s = {0};
    float *d = random_array(9, spec->batch * spec->head_out), *x = random_array(11, spec->batch * spec->size * spec->size * 3);
    for (int64_t i = 0; i < spec->batch * spec->head_out; i++) d[i] *= 1e-2f;
    ok(gf_net_create(&err, spec, &s.net), &err);
    net_leave_kinks(s.net, 2.5f); /* steps then do not amplify rounding */
    make_optimizer(&s);
    s.d = gf_net_alloc(s.net, sizeof *d * (size_t)(spec->batch * spec->head_out));
    ok(gf_net_write(&err, s.net, s.d, d, sizeof *d * (size_t)(spec->batch * spec->head_out)), &err);
    ok(gf_net_load(&err, s.net, x, 0, spec->batch), &err);
    float sink;
    ok(gf_net_read(&err, s.net, &sink, s.d, sizeof sink), &err);
    free(d);
    free(x);
    return s;
}

static void drop_scene(scene *s) {
    gf_optim_free(s->optim);
    gf_net_release(s->net, s->d);
    gf_net_release(s->net, s->state);
    gf_net_free(s->net);
}

static glofnd_status one_step(gf_error *err, void *arg) {
    scene *s = arg;
    TRY(gf_net_forward(err, s->net, NULL, small.batch, 1, NULL, &s->projection));
    TRY(gf_net_backward(err, s->net, s->d));
    return gf_optim_step(err, s->optim);
}

/* All parameters and buffers after `steps` steps; key 0: not captured. */
static float *after_steps(scene *s, int steps, uint64_t key, int64_t *numbers) {
    gf_error err = {""};
    gf_tensor *t;
    const int count = gf_net_tensors(s->net, &t);
    for (int i = 1; i <= steps; i++) {
        ok(gf_optim_set(&err, s->optim, 1e-3 * i, i), &err);
        ok(key ? gf_net_replay(&err, s->net, key + (i > 6), 0, one_step, s) : one_step(&err, s), &err);
        gf_net_touch(s->net);
    }
    *numbers = 0;
    for (int i = 0; i < count; i++) *numbers += t[i].count;
    float *all = malloc(sizeof *all * (size_t)*numbers), *at = all;
    for (int i = 0; i < count; at += t[i++].count) ok(gf_net_get(&err, s->net, &t[i], t[i].value, at), &err);
    return all;
}

static float *run(const gf_net_spec *spec, int steps, uint64_t key, int64_t *numbers) {
    scene s = make_scene(spec);
    float *all = after_steps(&s, steps, key, numbers);
    drop_scene(&s);
    return all;
}

/* ----- tests -------------------------------------------------------------------------------------------------------- */

TEST(recorded_steps_are_the_same_steps) {
    int64_t n;
    for (int precision = GF_FP32; precision <= GF_BF16; precision++) {
        gf_net_spec spec = small;
        spec.precision = (gf_precision)precision;
        float *plain = run(&spec, 10, 0, &n), *recorded = run(&spec, 10, 1, &n), *again = run(&spec, 10, 1, &n);
        assert_memory_equal(plain, recorded, sizeof *plain * (size_t)n);
        assert_memory_equal(again, recorded, sizeof *plain * (size_t)n);
        free(plain), free(recorded), free(again);
    }
}

TEST(steps_follow_the_cpu) {
    int64_t n;
    gf_net_spec host = small;
    host.device = GLOFND_DEVICE_CPU;
    float *want = run(&host, 5, 0, &n), *have = run(&small, 5, 1, &n);
    const double d = ref_distance_floats(have, want, n);
    print_message("5 steps, float32: weights differ by %.2e of their norm\n", d);
    assert_true(d < 2e-5); /* images that differ by 1e-6 change it by 7e-7 on the CPU, a learning rate that is 1 % off by 5e-4 */
    gf_net_spec bf16 = small;
    bf16.precision = GF_BF16;
    float *rough = run(&bf16, 5, 1, &n);
    const double e = ref_distance_floats(rough, want, n);
    print_message("5 steps, bf16 against float32: %.2e\n", e);
    assert_true(e < 2e-2);
    free(want), free(have), free(rough);
}

TEST(tensors_come_back_as_they_went) {
    gf_error err = {""};
    gf_net *n = NULL;
    gf_tensor *t;
    ok(gf_net_create(&err, &small, &n), &err);
    const int count = gf_net_tensors(n, &t);
    for (int i = 0; i < count; i++) {
        float *x = random_array((uint64_t)i, t[i].count), *y = malloc(sizeof *y * (size_t)t[i].count);
        ok(gf_net_put(&err, n, &t[i], t[i].value, x), &err);
        ok(gf_net_get(&err, n, &t[i], t[i].value, y), &err);
        assert_memory_equal(x, y, sizeof *x * (size_t)t[i].count);
        free(x), free(y);
    }
    gf_net_free(n);
}

TEST(too_large_a_net_is_refused) {
    gf_error err = {""};
    gf_net *n = NULL;
    gf_net_spec spec = small;
    spec.arch = GF_ARCH_RESNET50;
    spec.cifar_stem = 0;
    spec.batch = 1 << 20;
    spec.size = 512;
    assert_int_not_equal(gf_net_create(&err, &spec, &n), GLOFND_OK);
    assert_true(strlen(err.text) > 0);
    ok(gf_net_create(&err, &small, &n), &err); /* and later work succeeds */
    gf_net_free(n);
}

static int forget_plans(void **state) {
    (void)state;
    remove(small.plans);
    return 0;
}

TEST_NEEDS(no_cuda_device)
TEST_GROUP(forget_plans, NULL)

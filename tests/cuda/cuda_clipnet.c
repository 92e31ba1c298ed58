/* cuda_clipnet.c - complete encoders on CUDA against open_clip in float64 and against the CPU: embeddings and every gradient of
 * text transformer, image transformer and CLIP's ResNet, in float32 and bf16; texts that are computed up to their end against
 * whole ones; and steps of two encoders on one engine, captured and not.
 *
 * All tensors are moved away from their initial values first, so that no gain is 1 and no bias 0. The error of a gradient is
 * relative to its tensor, or to a thousandth of all gradients where that is more: some are 0 but for rounding (a bias that all
 * keys share moves no weight).
 */
#include "support/test.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cuda/cuda_device.h"
#include "nn/net.h"
#include "optim/optim.h"
#include "support/cuda_main.h"
#include "support/golden_net.h"
#include "support/net_margin.h"
#include "support/nn_device.h"
#include "support/random.h"

static const gf_net_spec text_spec = {.arch = GF_ARCH_TEXT,
                                      .batch = 6,
                                      .embed_dim = 64,
                                      .width = 128,
                                      .layers = 2,
                                      .heads = 2,
                                      .context = 77,
                                      .vocab = 500,
                                      .training = 1,
                                      .seed = 5,
                                      .threads = 2,
                                      .exact = 1,
                                      .deterministic = 1,
                                      .quick_gelu = 1,
                                      .plans = "cuda_clipnet.plans"};
static const gf_net_spec wide_text_spec = {.arch = GF_ARCH_TEXT,
                                           .batch = 3,
                                           .embed_dim = 512,
                                           .width = 512,
                                           .layers = 1,
                                           .heads = 8,
                                           .context = 77,
                                           .vocab = 1000,
                                           .training = 1,
                                           .seed = 6,
                                           .threads = 2,
                                           .exact = 1,
                                           .deterministic = 1,
                                           .plans = "cuda_clipnet.plans"};
static const gf_net_spec vit_spec = {.arch = GF_ARCH_VIT,
                                     .batch = 6,
                                     .size = 112,
                                     .patch = 16,
                                     .embed_dim = 64,
                                     .width = 128,
                                     .layers = 2,
                                     .heads = 2,
                                     .training = 1,
                                     .seed = 7,
                                     .threads = 2,
                                     .exact = 1,
                                     .deterministic = 1,
                                     .plans = "cuda_clipnet.plans"};
static const gf_net_spec resnet_spec = {.arch = GF_ARCH_CLIP_RESNET50,
                                        .batch = 16,
                                        .size = 64,
                                        .embed_dim = 48,
                                        .width = 16,
                                        .zero_init = 1,
                                        .training = 1,
                                        .seed = 8,
                                        .threads = 2,
                                        .exact = 1,
                                        .deterministic = 1,
                                        .plans = "cuda_clipnet.plans"};

/* ----- inputs ------------------------------------------------------------------------------------------------------- */

/* Waits for all queued work, so that the host's memory can be freed. */
static void wait_for_net(gf_net *n) {
    gf_error err = {""};
    float sink, *p = gf_net_alloc(n, sizeof sink);
    nn_ok(gf_net_read(&err, n, &sink, p, sizeof sink), &err);
    gf_net_release(n, p);
}

/* Lengths of texts: any; short ones and a whole one; one token; all whole. */
typedef enum text_kind { ANY, SHORT, SINGLE, WHOLE, TEXT_KINDS } text_kind;
static text_kind texts;

static int64_t text_length(rng *g, int64_t i, int64_t context) {
    const int64_t any = 2 + rng_below(g, context - 2), brief = 1 + any % 9;
    return texts == ANY ? any : texts == SHORT && i != 1 ? brief : texts == SINGLE ? 1 : context;
}

/* Tokens after the end are not 0: they must not matter. */
static void load_tokens(gf_net *n, const gf_net_spec *spec) {
    gf_error err = {""};
    rng g = {3};
    int32_t *tokens = calloc((size_t)(spec->batch * spec->context), sizeof *tokens);
    for (int64_t i = 0; i < spec->batch; i++) {
        const int64_t words = text_length(&g, i, spec->context);
        for (int64_t k = 0; k < spec->context; k++) tokens[i * spec->context + k] = (int32_t)rng_below(&g, spec->vocab - 1);
        tokens[i * spec->context + words - 1] = spec->vocab - 1;
    }
    nn_ok(gf_net_load_tokens(&err, n, tokens, 0, spec->batch), &err);
    wait_for_net(n);
    free(tokens);
}

/* Waves of their own direction, length and colour, and some noise: images of noise alone give a deep network almost equal
 * activations, whose batch norms then magnify rounding. */
static float *draw_images(const gf_net_spec *spec) {
    rng g = {11};
    const int64_t each = (int64_t)spec->size * spec->size * 3;
    float *x = nn_draw(&g, spec->batch * each);
    for (int64_t n = 0; n < spec->batch; n++) {
        double shape[5];
        for (int i = 0; i < 5; i++) shape[i] = rng_normal(&g);
        for (int64_t i = 0; i < each; i++) {
            const double row = (double)(i / 3 / spec->size) / spec->size, col = (double)(i / 3 % spec->size) / spec->size;
            x[n * each + i] =
                (float)(0.2 * (double)x[n * each + i] + 1.5 * sin(6 * (shape[0] * row + shape[1] * col)) + shape[2 + i % 3]);
        }
    }
    return x;
}

static void load_input(gf_net *n, const gf_net_spec *spec) {
    gf_error err = {""};
    if (spec->arch == GF_ARCH_TEXT) {
        load_tokens(n, spec);
        return;
    }
    float *x = draw_images(spec);
    nn_ok(gf_net_load(&err, n, x, 0, spec->batch), &err);
    wait_for_net(n);
    free(x);
}

static float relu_margin; /* for net_leave_kinks */

/* Every parameter a little off its initial value. */
static void shake(gf_net *n) {
    gf_error err = {""};
    gf_tensor *t;
    const int count = gf_net_tensors(n, &t);
    for (int i = 0; i < count && t[i].grad; i++) {
        rng g = {(uint64_t)i + 100};
        float *x = malloc(sizeof *x * (size_t)t[i].count);
        nn_ok(gf_net_get(&err, n, &t[i], t[i].value, x), &err);
        for (int64_t k = 0; k < t[i].count; k++) x[k] += (float)rng_normal(&g) * (t[i].rank < 2 ? 0.2f : 0.01f);
        nn_ok(gf_net_put(&err, n, &t[i], t[i].value, x), &err);
        free(x);
    }
    net_leave_kinks(n, relu_margin);
}

static float *gradient_of(const gf_net_spec *spec) {
    rng g = {13};
    return nn_draw(&g, spec->batch * spec->embed_dim);
}

/* ----- against open_clip ------------------------------------------------------------------------------------------- */

TEST(golden_encoders_agree) {
    static const char *const names[] = {"text_gelu", "text_quick", "vit_gelu", "vit_quick"}; /* nothing with a kink */
    for (int i = 0; i < 4; i++) golden_tower_check(names[i], GLOFND_DEVICE_CUDA, GF_FP32, 5e-5);
}

TEST(golden_texts_in_bf16_stay_near) {
    golden_tower_check("text_gelu", GLOFND_DEVICE_CUDA, GF_BF16, 3e-2);
    golden_tower_check("text_quick", GLOFND_DEVICE_CUDA, GF_BF16, 3e-2);
}

/* ----- one encoder against the CPU ------------------------------------------------------------------------------------ */

typedef struct passed { /* results of a pass */
    float *embedding;
    float **grad; /* per parameter */
    int64_t *numbers;
    char (*name)[64];
    int count;
} passed;

static passed pass(gf_net_spec spec) {
    gf_error err = {""};
    gf_net *n = NULL;
    gf_tensor *t;
    const float *projection;
    const int64_t out = spec.batch * spec.embed_dim;
    float *d = gradient_of(&spec);
    nn_ok(gf_net_create(&err, &spec, &n), &err);
    shake(n);
    load_input(n, &spec);
    float *on_device = gf_net_alloc(n, sizeof *d * (size_t)out);
    nn_ok(gf_net_write(&err, n, on_device, d, sizeof *d * (size_t)out), &err);
    nn_ok(gf_net_forward(&err, n, NULL, spec.batch, 1, NULL, &projection), &err);
    nn_ok(gf_net_backward(&err, n, on_device), &err);
    const int all = gf_net_tensors(n, &t);
    passed p = {malloc(sizeof(float) * (size_t)out), calloc((size_t)all, sizeof(float *)), calloc((size_t)all, sizeof(int64_t)),
                calloc((size_t)all, 64), 0};
    nn_ok(gf_net_read(&err, n, p.embedding, projection, sizeof(float) * (size_t)out), &err);
    for (; p.count < all && t[p.count].grad; p.count++) {
        const int i = p.count;
        p.grad[i] = malloc(sizeof(float) * (size_t)t[i].count);
        p.numbers[i] = t[i].count;
        snprintf(p.name[i], sizeof p.name[i], "%s", t[i].name);
        nn_ok(gf_net_get(&err, n, &t[i], t[i].grad, p.grad[i]), &err);
    }
    gf_net_release(n, on_device);
    gf_net_free(n);
    free(d);
    return p;
}

static void drop(passed *p) {
    for (int i = 0; i < p->count; i++) free(p->grad[i]);
    free(p->embedding), free(p->grad), free(p->numbers), free(p->name);
}

static double size_of(const float *x, int64_t count) {
    double sum = 0;
    for (int64_t i = 0; i < count; i++) sum += (double)x[i] * (double)x[i];
    return sqrt(sum);
}

typedef struct errors {
    double embedding, worst, all; /* of the embedding, of the gradient that is most off, of all gradients as one */
} errors;

static errors errors_between(const passed *a, const passed *b, int64_t out, const char **where) {
    double all = 0, most = 0, sum = 0;
    for (int i = 0; i < b->count; i++) all = hypot(all, size_of(b->grad[i], b->numbers[i]));
    for (int i = 0; i < b->count; i++) {
        const double size = size_of(b->grad[i], b->numbers[i]), error = nn_distance(a->grad[i], b->grad[i], b->numbers[i]) * size;
        const double relative = error / fmax(size, 1e-3 * all);
        if (!(relative <= most)) most = relative, *where = b->name[i];
        sum = hypot(sum, error);
    }
    return (errors){nn_distance(a->embedding, b->embedding, out), most, sum / all};
}

static errors errors_of(const char *what, gf_net_spec s, glofnd_device device, gf_precision precision, const passed *want) {
    const char *where = "";
    s.device = device, s.precision = precision;
    passed have = pass(s);
    const errors e = errors_between(&have, want, s.batch * s.embed_dim, &where);
    print_message("%s, %s, %s: embedding %.1e, gradients %.1e, at most %.1e (%s)\n", what,
                  device == GLOFND_DEVICE_CPU ? "CPU" : "CUDA", precision == GF_BF16 ? "bf16" : "float32", e.embedding, e.all,
                  e.worst, where);
    drop(&have);
    return e;
}

static void within(errors e, errors limit) {
    assert_true(e.embedding <= limit.embedding && e.worst <= limit.worst && e.all <= limit.all);
}

/* rough: limit of bf16; 0: twice the CPU's own error in bf16, for nets that magnify rounding. */
static void compare(const char *name, const gf_net_spec *spec, errors exact, double rough) {
    gf_net_spec s = *spec;
    s.device = GLOFND_DEVICE_CPU;
    passed want = pass(s);
    within(errors_of(name, s, GLOFND_DEVICE_CUDA, GF_FP32, &want), exact);
    errors limit = {rough, rough, rough};
    if (!(rough > 0)) {
        limit = errors_of(name, s, GLOFND_DEVICE_CPU, GF_BF16, &want);
        limit.embedding *= 2, limit.worst *= 2, limit.all *= 2;
    }
    within(errors_of(name, s, GLOFND_DEVICE_CUDA, GF_BF16, &want), limit);
    drop(&want);
}

static const errors exact = {4e-6, 6e-6, 6e-6}; /* seen: a quarter of it */

TEST(text_encoders_agree) {
    compare("text, 2 x 128", &text_spec, exact, 3e-2);
    compare("text, 1 x 512", &wide_text_spec, exact, 3e-2);
}

/* On the device: rows after the end of a text change nothing, and every number of rows has its own products. */
static void compare_with_whole(const char *name, gf_net_spec s, gf_precision precision, errors limit) {
    const char *where = "";
    s.device = GLOFND_DEVICE_CUDA, s.precision = precision;
    passed have = pass(s);
    s.whole_texts = 1;
    passed want = pass(s);
    const errors e = errors_between(&have, &want, s.batch * s.embed_dim, &where);
    print_message("%s, texts %d, %s: embedding %.1e, gradients %.1e, at most %.1e (%s)\n", name, (int)texts,
                  precision == GF_BF16 ? "bf16" : "float32", e.embedding, e.all, e.worst, where);
    drop(&have), drop(&want);
    within(e, limit);
}

TEST(texts_up_to_their_end_are_as_good_as_whole) {
    for (int kind = ANY; kind < TEXT_KINDS; kind++) {
        const errors none = {0}, rough = {2e-2, 2e-2, 2e-2};
        texts = (text_kind)kind;
        for (int precision = GF_FP32; precision <= GF_BF16; precision++) {
            const errors limit = texts == WHOLE ? none : precision == GF_BF16 ? rough : exact;
            compare_with_whole("text, 2 x 128", text_spec, (gf_precision)precision, limit);
            compare_with_whole("text, 1 x 512", wide_text_spec, (gf_precision)precision, limit);
        }
    }
    texts = SHORT;
    gf_net_spec s = text_spec;
    s.heads = 4; /* of 32 numbers: on tensor cores, too */
    compare_with_whole("text, heads of 32", s, GF_BF16, (errors){2e-2, 2e-2, 2e-2});
    s.width = 120, s.heads = 6; /* of 20: not on tensor cores */
    compare_with_whole("text, heads of 20", s, GF_BF16, (errors){2e-2, 2e-2, 2e-2});
    texts = ANY;
}

TEST(image_transformers_agree) { compare("image transformer", &vit_spec, exact, 3e-2); }

/* A number at the kink of a ReLU that falls to the other side changes all gradients below it a little, the smallest most: on the
 * CPU, images that differ by 1e-6 change all by 3e-3 and the worst by 1e-2. Away from the kinks that is 1e-5 and 1e-4, most of it
 * in the attention at the end, which sees much the same everywhere, more so with a larger margin: with 5 it is 4e-5 and 8e-4. */
TEST(clip_resnets_agree) { compare("CLIP's ResNet", &resnet_spec, (errors){5e-6, 5e-2, 1e-2}, 0); }

TEST(clip_resnets_away_from_kinks_agree) {
    relu_margin = 2.5f;
    gf_net_spec s = resnet_spec;
    s.device = GLOFND_DEVICE_CPU;
    passed want = pass(s);
    const errors e = errors_of("CLIP's ResNet away from kinks", s, GLOFND_DEVICE_CUDA, GF_FP32, &want);
    relu_margin = 0.0f;
    drop(&want);
    within(e, (errors){5e-6, 5e-4, 5e-5});
}

/* ----- two encoders beside each other --------------------------------------------------------------------------------- */

typedef struct pair {
    gf_net *net[2]; /* image, text */
    gf_optim *optim;
    float *d[2], *state[2][2];
    const float *projection[2];
} pair;

static void make_optimizer(pair *p) {
    gf_error err = {""};
    const gf_optim_rule rule = {.kind = GF_OPTIM_ADAMW, .weight_decay = 1e-2, .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8};
    gf_param *list = calloc(1024, sizeof *list);
    int n = 0;
    for (int k = 0; k < 2; k++) {
        gf_tensor *t;
        const int count = gf_net_tensors(p->net[k], &t);
        for (int i = 0; i < 2; i++) p->state[k][i] = gf_net_alloc_state(p->net[k]);
        for (int i = 0; i < count && t[i].grad; i++)
            list[n++] = (gf_param){.p = t[i].value,
                                   .g = t[i].grad,
                                   .state1 = gf_net_place(p->net[k], p->state[k][0], &t[i]),
                                   .state2 = gf_net_place(p->net[k], p->state[k][1], &t[i]),
                                   .n = (size_t)t[i].stored,
                                   .decay = t[i].rank > 1};
    }
    nn_ok(gf_optim_create(&err, gf_net_backend(p->net[0]), gf_net_engine(p->net[0]), &rule, list, n, &p->optim), &err);
    free(list);
}

static pair make_pair(gf_precision precision) {
    gf_error err = {""};
    pair p = {0};
    gf_net_spec spec[2] = {vit_spec, text_spec};
    for (int k = 0; k < 2; k++) {
        spec[k].device = GLOFND_DEVICE_CUDA;
        spec[k].precision = precision;
        spec[k].engine_owner = k ? p.net[0] : NULL;
        nn_ok(gf_net_create(&err, &spec[k], &p.net[k]), &err);
        load_input(p.net[k], &spec[k]);
        float *d = gradient_of(&spec[k]);
        const size_t bytes = sizeof *d * (size_t)(spec[k].batch * spec[k].embed_dim);
        p.d[k] = gf_net_alloc(p.net[k], bytes);
        nn_ok(gf_net_write(&err, p.net[k], p.d[k], d, bytes), &err);
        wait_for_net(p.net[k]);
        free(d);
    }
    make_optimizer(&p);
    return p;
}

static void drop_pair(pair *p) {
    gf_optim_free(p->optim);
    for (int k = 1; k >= 0; k--) {
        gf_net_release(p->net[k], p->d[k]);
        for (int i = 0; i < 2; i++) gf_net_release(p->net[k], p->state[k][i]);
        gf_net_free(p->net[k]);
    }
}

static glofnd_status both_towers(gf_error *err, void *arg) {
    pair *p = arg;
    for (int k = 0; k < 2; k++) TRY(gf_net_forward(err, p->net[k], NULL, vit_spec.batch, 1, NULL, &p->projection[k]));
    for (int k = 0; k < 2; k++) TRY(gf_net_backward(err, p->net[k], p->d[k]));
    return gf_optim_step(err, p->optim);
}

/* All parameters of both after 12 steps with texts of three lengths. */
static float *after_steps(gf_precision precision, int recorded, int64_t *numbers) {
    gf_error err = {""};
    pair p = make_pair(precision);
    float *all = malloc(sizeof *all * (4 << 20));
    for (int i = 1; i <= 12; i++) {
        nn_ok(gf_optim_set(&err, p.optim, 1e-3, i), &err);
        texts = (text_kind)(i % 3); /* each with a number of rows of its own */
        load_tokens(p.net[1], &text_spec);
        const int64_t length = gf_net_text_length(p.net[1]);
        nn_ok(recorded ? gf_net_replay(&err, p.net[0], 1, length, both_towers, &p) : both_towers(&err, &p), &err);
        for (int k = 0; k < 2; k++) gf_net_touch(p.net[k]);
    }
    texts = ANY;
    *numbers = 0;
    for (int k = 0; k < 2; k++) {
        gf_tensor *t;
        const int count = gf_net_tensors(p.net[k], &t);
        for (int i = 0; i < count; *numbers += t[i++].count) {
            assert_true(*numbers + t[i].count <= 4 << 20);
            nn_ok(gf_net_get(&err, p.net[k], &t[i], t[i].value, all + *numbers), &err);
        }
    }
    drop_pair(&p);
    return all;
}

TEST(recorded_steps_of_two_encoders_are_the_same_steps) {
    for (int precision = GF_FP32; precision <= GF_BF16; precision++) {
        int64_t n;
        float *plain = after_steps((gf_precision)precision, 0, &n), *recorded = after_steps((gf_precision)precision, 1, &n);
        float *again = after_steps((gf_precision)precision, 1, &n);
        for (int64_t i = 0; i < n; i++) assert_true(isfinite(plain[i]));
        assert_memory_equal(plain, recorded, sizeof *plain * (size_t)n);
        assert_memory_equal(again, recorded, sizeof *plain * (size_t)n);
        free(plain), free(recorded), free(again);
    }
}

static int forget_plans(void **state) {
    (void)state;
    remove(text_spec.plans);
    return 0;
}

TEST_NEEDS(no_cuda_device)
TEST_GROUP(forget_plans, NULL)

/* unit_encoders.c - nets for images and texts: what is refused, two of them beside each other, micro-batches, initial weights,
 * bf16, parts of batches, the plan of the arena; and their weights in one file. Numbers are golden_clip's.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#ifdef GF_HAVE_DNNL

#include "io/json/safetensors.h"
#include "nn/net_parts.h"
#include "support/nn_reference.h"
#include "support/random.h"
#include "train/checkpoint/weights.h"

enum { BATCH = 4, EMBED = 16, CONTEXT = 10, VOCAB = 60 };

static const gf_net_spec text_spec = {.arch = GF_ARCH_TEXT,
                                      .batch = BATCH,
                                      .embed_dim = EMBED,
                                      .width = 32,
                                      .layers = 2,
                                      .heads = 2,
                                      .context = CONTEXT,
                                      .vocab = VOCAB,
                                      .training = 1,
                                      .seed = 5,
                                      .threads = 2};
static const gf_net_spec vit_spec = {.arch = GF_ARCH_VIT,
                                     .batch = BATCH,
                                     .size = 16,
                                     .embed_dim = EMBED,
                                     .width = 32,
                                     .layers = 2,
                                     .heads = 2,
                                     .patch = 4,
                                     .training = 1,
                                     .seed = 5,
                                     .threads = 2};
static const gf_net_spec clip_spec = {.arch = GF_ARCH_CLIP_RESNET50,
                                      .batch = BATCH,
                                      .size = 32,
                                      .embed_dim = EMBED,
                                      .width = 8,
                                      .training = 1,
                                      .seed = 5,
                                      .threads = 2};
static const gf_net_spec resnet_spec = {.arch = GF_ARCH_RESNET8,
                                        .cifar_stem = 1,
                                        .batch = BATCH,
                                        .size = 16,
                                        .embed_dim = EMBED,
                                        .training = 1,
                                        .seed = 5,
                                        .threads = 2};

static void ok(glofnd_status status, const gf_error *err) {
    if (status != GLOFND_OK) fail_msg("%s", err->text);
}

static gf_net *new_net(gf_net_spec s) {
    gf_error err = {""};
    gf_net *n = NULL;
    ok(gf_net_create(&err, &s, &n), &err);
    return n;
}

/* Inputs number first .. first + batch - 1 of an endless list, into the net. */
static void load(gf_net *n, int64_t first) {
    gf_error err = {""};
    const gf_net_spec *s = &n->spec;
    const int64_t pixels = (int64_t)s->size * s->size * 3;
    for (int64_t i = 0; i < s->batch; i++) {
        rng g = {(uint64_t)(first + i)};
        if (s->arch == GF_ARCH_TEXT) {
            int32_t tokens[CONTEXT];
            for (int k = 0; k < CONTEXT; k++) tokens[k] = (int32_t)rng_below(&g, VOCAB);
            ok(gf_net_load_tokens(&err, n, tokens, i, 1), &err);
        } else {
            float *x = malloc(sizeof *x * (size_t)pixels);
            for (int64_t k = 0; k < pixels; k++) x[k] = (float)rng_normal(&g);
            ok(gf_net_load(&err, n, x, i, 1), &err);
            free(x);
        }
    }
}

static const float *forward(gf_net *n, int64_t first, int train) {
    gf_error err = {""};
    const float *z;
    load(n, first);
    ok(gf_net_forward(&err, n, NULL, n->spec.batch, train, NULL, &z), &err);
    assert_non_null(z);
    return z;
}

/* The loss is the sum of z weighted by fixed numbers of each input. */
static void backward(gf_net *n, int64_t first) {
    gf_error err = {""};
    float *d = malloc(sizeof *d * (size_t)(n->spec.batch * EMBED));
    for (int64_t i = 0; i < n->spec.batch; i++) {
        rng g = {(uint64_t)(first + i + 1000)};
        for (int k = 0; k < EMBED; k++) d[i * EMBED + k] = (float)rng_normal(&g);
    }
    ok(gf_net_backward(&err, n, d), &err);
    free(d);
}

static gf_tensor *tensor(gf_net *n, const char *name) {
    gf_tensor *t;
    const int count = gf_net_tensors(n, &t);
    for (int i = 0; i < count; i++)
        if (strcmp(t[i].name, name) == 0) return &t[i];
    fail_msg("there is no %s", name);
    return NULL;
}

/* ----- what is refused --------------------------------------------------------------------------------------------- */

static void refuse(gf_net_spec s, const char *word) {
    gf_error err = {""};
    gf_net *n = NULL;
    assert_int_equal(gf_net_create(&err, &s, &n), GLOFND_E_ARGUMENT);
    if (!strstr(err.text, word)) fail_msg("\"%s\" does not say %s", err.text, word);
    assert_null(n);
}

#define WITH(base, field, value) ((void)(changed = (base)), changed.field = (value), changed)

static void impossible_nets_are_refused(void **state) {
    (void)state;
    gf_net_spec changed;
    refuse(WITH(text_spec, heads, 5), "divide");
    refuse(WITH(text_spec, layers, 0), "layers");
    refuse(WITH(text_spec, layers, 1000), "layers");
    refuse(WITH(text_spec, width, 0), "width");
    refuse(WITH(text_spec, context, 1), "context");
    refuse(WITH(text_spec, vocab, 0), "vocabulary");
    refuse(WITH(text_spec, embed_dim, 0), "embedding");
    refuse(WITH(vit_spec, patch, 5), "patches");
    refuse(WITH(vit_spec, patch, 0), "patches");
    refuse(WITH(clip_spec, size, 40), "multiple of 32");
    refuse(WITH(clip_spec, width, 7), "even");
    refuse(WITH(clip_spec, batch, 1), "batch norm");
    refuse(WITH(vit_spec, head_hidden, 8), "head");
    refuse(WITH(vit_spec, arch, (gf_arch)99), "arch");
}

static void foreign_inputs_are_refused(void **state) {
    (void)state;
    gf_error err = {""};
    gf_net *text = new_net(text_spec), *image = new_net(vit_spec);
    int32_t tokens[CONTEXT] = {0};
    float x = 0;
    assert_int_equal(gf_net_load_tokens(&err, image, tokens, 0, 1), GLOFND_E_ARGUMENT);
    assert_int_equal(gf_net_load(&err, text, &x, 0, 1), GLOFND_E_ARGUMENT);
    assert_int_equal(gf_net_load_tokens(&err, text, tokens, 0, BATCH + 1), GLOFND_E_ARGUMENT);
    assert_int_equal(gf_net_load_tokens(&err, text, tokens, BATCH, 1), GLOFND_E_ARGUMENT);
    assert_int_equal(gf_net_load_tokens(&err, text, tokens, -1, 1), GLOFND_E_ARGUMENT);
    ok(gf_net_load_tokens(&err, text, tokens, BATCH - 1, 1), &err);
    tokens[3] = VOCAB;
    assert_int_equal(gf_net_load_tokens(&err, text, tokens, 1, 1), GLOFND_E_ARGUMENT);
    assert_non_null(strstr(err.text, "token 3 of text 1"));
    tokens[3] = -1;
    assert_int_equal(gf_net_load_tokens(&err, text, tokens, 1, 1), GLOFND_E_ARGUMENT);
    gf_net_free(text);
    gf_net_free(image);
}

/* ----- together and in parts --------------------------------------------------------------------------------------- */

static void nets_beside_each_other_do_not_meddle(void **state) {
    (void)state;
    gf_net *alone = new_net(text_spec), *image = new_net(vit_spec);
    gf_net_spec s = text_spec;
    s.beside = image;
    s.threads = 1; /* ignored: those of the other */
    size_t bytes = 0;
    gf_error err = {""};
    ok(gf_net_estimate(&err, &s, &bytes), &err);
    gf_net *text = new_net(s);
    assert_true(bytes > 0 && gf_net_engine(text) == gf_net_engine(image) && gf_net_engine(alone) != gf_net_engine(image));
    const float *a = forward(alone, 0, 1), *b = forward(text, 0, 1);
    forward(image, 0, 1);
    assert_memory_equal(a, b, sizeof *a * BATCH * EMBED);
    backward(alone, 0);
    backward(text, 0);
    backward(image, 0);
    assert_memory_equal(alone->grads, text->grads, sizeof(float) * (size_t)alone->graph.params.numbers);
    gf_net_free(text);
    gf_net_free(image);
    gf_net_free(alone);
}

/* Gradients of a batch are the sum of those of its halves, where no batch norm ties images together. */
static void halves_add_up(gf_net_spec s) {
    gf_net *whole = new_net(s);
    s.batch = BATCH / 2;
    gf_net *half = new_net(s);
    float *sum = gf_net_state(half);
    forward(whole, 0, 1);
    backward(whole, 0);
    for (int i = 0; i < 2; i++) {
        forward(half, i * BATCH / 2, 1);
        backward(half, i * BATCH / 2);
        gf_net_gather(half, sum, i == 0);
    }
    assert_true(ref_distance_floats(sum, whole->grads, whole->graph.params.numbers) < 1e-5);
    gf_net_release(half, sum);
    gf_net_free(half);
    gf_net_free(whole);
}

static void micro_batches_add_up(void **state) {
    (void)state;
    halves_add_up(text_spec);
    halves_add_up(vit_spec);
}

static void a_second_look_moves_no_averages(void **state) {
    (void)state;
    gf_net *n = new_net(clip_spec);
    const size_t bytes = sizeof(float) * (size_t)n->graph.buffers.numbers;
    float *stats = malloc(bytes), z[BATCH * EMBED];
    memcpy(z, forward(n, 0, 1), sizeof z);
    memcpy(stats, n->stats, bytes);
    assert_memory_equal(z, forward(n, 0, 2), sizeof z);
    assert_memory_equal(stats, n->stats, bytes);
    backward(n, 0);
    forward(n, 0, 1);
    assert_memory_not_equal(stats, n->stats, bytes);
    free(stats);
    gf_net_free(n);
}

static void part_of_a_batch(gf_net_spec s) {
    gf_error err = {""};
    gf_net *n = new_net(s);
    float all[BATCH * EMBED];
    const float *z;
    memcpy(all, forward(n, 0, 0), sizeof all);
    load(n, 0);
    ok(gf_net_forward(&err, n, NULL, 2, 0, NULL, &z), &err);
    assert_true(ref_distance_floats(z, all, 2 * EMBED) < 1e-6);
    assert_int_equal(gf_net_forward(&err, n, NULL, 2, 1, NULL, &z), GLOFND_E_ARGUMENT);
    gf_net_free(n);
}

static void parts_of_batches(void **state) {
    (void)state;
    part_of_a_batch(text_spec);
    part_of_a_batch(vit_spec);
    part_of_a_batch(clip_spec);
}

static void a_resnet_ends_in_a_projection(void **state) {
    (void)state;
    gf_error err = {""};
    gf_net *n = new_net(resnet_spec);
    const float *features, *z;
    load(n, 0);
    ok(gf_net_forward(&err, n, NULL, BATCH, 1, &features, &z), &err);
    const float *w = tensor(n, "visual.proj.weight")->value;
    const int64_t c = gf_net_features(n);
    assert_int_equal(c, 64);
    for (int64_t i = 0; i < BATCH * EMBED; i++) {
        double sum = 0;
        for (int64_t k = 0; k < c; k++) sum += (double)features[i / EMBED * c + k] * (double)w[i % EMBED * c + k];
        assert_true(fabs(sum - (double)z[i]) < 1e-4);
    }
    backward(n, 0);
    assert_non_null(tensor(n, "visual.layer3.0.bn2.weight")->grad);
    gf_net_free(n);
}

/* ----- numbers ----------------------------------------------------------------------------------------------------- */

static void expect_deviation(gf_net *n, const char *name, double want) {
    const gf_tensor *t = tensor(n, name);
    double square = 0;
    for (int64_t i = 0; i < t->count; i++) square += (double)t->value[i] * (double)t->value[i];
    const double have = sqrt(square / (double)t->count), slack = 4 / sqrt(2 * (double)t->count);
    if (!(fabs(have - want) <= slack * want)) fail_msg("%s has deviation %.4g, not %.4g", name, have, want);
}

static void beginnings_are_clips(void **state) {
    (void)state;
    const double w = 32, uniform = 1 / sqrt(3.0); /* deviation of a uniform number in +- 1 */
    gf_net *text = new_net(text_spec), *vit = new_net(vit_spec), *clip = new_net(clip_spec);
    expect_deviation(text, "token_embedding.weight", 0.02);
    expect_deviation(text, "positional_embedding", 0.01);
    expect_deviation(text, "transformer.resblocks.1.attn.in_proj_weight", 1 / sqrt(w));
    expect_deviation(text, "transformer.resblocks.1.attn.out_proj.weight", 1 / sqrt(w * 2 * 2));
    expect_deviation(text, "transformer.resblocks.0.mlp.c_fc.weight", 1 / sqrt(2 * w));
    expect_deviation(text, "transformer.resblocks.0.mlp.c_proj.weight", 1 / sqrt(w * 2 * 2));
    expect_deviation(text, "transformer.resblocks.0.mlp.c_proj.bias", uniform / sqrt(4 * w));
    expect_deviation(text, "transformer.resblocks.0.attn.in_proj_bias", 0);
    expect_deviation(text, "transformer.resblocks.0.ln_1.weight", 1);
    expect_deviation(text, "ln_final.bias", 0);
    expect_deviation(text, "text_projection", 1 / sqrt(w));
    expect_deviation(vit, "visual.positional_embedding", 1 / sqrt(w));
    expect_deviation(vit, "visual.class_embedding", 1 / sqrt(w));
    expect_deviation(vit, "visual.conv1.weight", uniform / sqrt(3 * 4 * 4));
    expect_deviation(vit, "visual.transformer.resblocks.0.attn.in_proj_weight", uniform * sqrt(6 / (4 * w)));
    expect_deviation(vit, "visual.transformer.resblocks.0.mlp.c_fc.weight", uniform / sqrt(w));
    expect_deviation(clip, "visual.attnpool.q_proj.weight", 1 / sqrt(256.0));
    expect_deviation(clip, "visual.attnpool.c_proj.weight", 1 / sqrt(256.0));
    expect_deviation(clip, "visual.layer1.0.conv2.weight", uniform / sqrt(8 * 9));
    expect_deviation(clip, "visual.layer1.0.bn3.weight", 0);
    expect_deviation(clip, "visual.layer1.0.bn2.weight", 1);
    expect_deviation(clip, "visual.bn3.weight", 1);
    gf_net_free(text);
    gf_net_free(vit);
    gf_net_free(clip);
}

/* bf16 keeps 8 bits: embeddings within 3 percent after a few layers, gradients within 6. */
static void stay_near(gf_net_spec s) {
    gf_error err = {""};
    gf_net *wide = new_net(s), *narrow = NULL;
    s.precision = GF_BF16;
    const glofnd_status status = gf_net_create(&err, &s, &narrow);
    if (status == GLOFND_E_UNSUPPORTED) skip();
    ok(status, &err);
    const float *a = forward(wide, 0, 1), *b = forward(narrow, 0, 1);
    assert_true(ref_distance_floats(b, a, BATCH * EMBED) < 3e-2);
    backward(wide, 0);
    backward(narrow, 0);
    const double d = ref_distance_floats(narrow->grads, wide->grads, wide->graph.params.numbers);
    if (!(d < 6e-2)) fail_msg("gradients are off by %.3g", d);
    gf_net_free(wide);
    gf_net_free(narrow);
}

static void bf16_stays_near_fp32(void **state) {
    (void)state;
    stay_near(text_spec);
    stay_near(vit_spec);
    /* With batch norms in eval mode, where rounding is not magnified by statistics of four images. */
    gf_net_spec s = clip_spec;
    gf_net *wide = new_net(s);
    s.precision = GF_BF16;
    gf_net *narrow = new_net(s);
    assert_true(ref_distance_floats(forward(narrow, 0, 0), forward(wide, 0, 0), BATCH * EMBED) < 5e-2);
    gf_net_free(wide);
    gf_net_free(narrow);
}

static void threads_change_little(void **state) {
    (void)state;
    gf_net_spec s = text_spec;
    gf_net *two = new_net(s);
    s.threads = 1;
    gf_net *one = new_net(s);
    assert_memory_equal(one->values, two->values, sizeof(float) * (size_t)one->graph.params.numbers);
    assert_true(ref_distance_floats(forward(one, 0, 1), forward(two, 0, 1), BATCH * EMBED) < 1e-5);
    gf_net_free(one);
    gf_net_free(two);
}

static void the_arena_is_tight(void **state) {
    (void)state;
    const gf_net_spec all[] = {text_spec, vit_spec, clip_spec};
    for (int i = 0; i < 3; i++) {
        gf_net *n = new_net(all[i]);
        const double least = (double)gf_graph_live_bytes(&n->graph), have = (double)n->graph.arena_bytes;
        if (!(have <= 1.15 * least)) fail_msg("net %d takes %.0f bytes where %.0f would do", i, have, least);
        gf_net_free(n);
    }
}

static void depth_has_a_limit_and_reaches_it(void **state) {
    (void)state;
    gf_net_spec s = text_spec;
    s.layers = GF_MAX_DEPTH;
    s.batch = 1;
    gf_net *n = new_net(s);
    assert_non_null(tensor(n, "transformer.resblocks.47.attn.in_proj_weight"));
    gf_net_free(n);
}

/* ----- weights ----------------------------------------------------------------------------------------------------- */

static const char *const path = "unit_encoders.safetensors";

/* One net from the file. */
static glofnd_status load_net(gf_error *err, gf_net *n, gf_weights_rule rule, gf_weights_report *r) {
    return gf_weights_load_model(err, &(gf_model){&n, 1, NULL}, path, rule, r);
}

static void a_model_is_one_file(void **state) {
    (void)state;
    gf_error err = {""};
    gf_net *from[2] = {new_net(clip_spec), new_net(text_spec)};
    gf_net_spec image = clip_spec, text = text_spec;
    image.seed = text.seed = 6;
    gf_net *to[2] = {new_net(image), new_net(text)};
    float scale = 3.5f, back = 0;
    gf_weights_report r;
    ok(gf_weights_save_model(&err, &(gf_model){from, 2, &scale}, path), &err);
    ok(gf_weights_load_model(&err, &(gf_model){to, 2, &back}, path, GF_WEIGHTS_STRICT, &r), &err);
    assert_true(back == 3.5f && r.text[0] == '\0' && r.missing + r.extra + r.misshaped == 0);
    for (int i = 0; i < 2; i++) {
        assert_memory_equal(from[i]->values, to[i]->values, sizeof(float) * (size_t)from[i]->graph.params.numbers);
        assert_memory_equal(forward(from[i], 0, 0), forward(to[i], 0, 0), sizeof(float) * BATCH * EMBED);
    }
    for (int i = 0; i < 2; i++) gf_net_free(from[i]), gf_net_free(to[i]);
    remove(path);
}

/* A file of the text encoder alone, with a position too many, for both encoders. */
static void misfits_are_listed(void **state) {
    (void)state;
    gf_error err = {""};
    gf_net *image = new_net(vit_spec), *text = new_net(text_spec);
    gf_net_spec longer = text_spec;
    longer.context = CONTEXT + 1, longer.layers = 3;
    gf_net *other = new_net(longer);
    gf_net *both[2] = {image, text};
    gf_weights_report r;
    float scale = 1;
    ok(gf_weights_save(&err, other, path), &err);
    float *before = malloc(sizeof(float) * (size_t)text->graph.params.numbers);
    memcpy(before, text->values, sizeof(float) * (size_t)text->graph.params.numbers);
    assert_int_equal(gf_weights_load_model(&err, &(gf_model){both, 2, &scale}, path, GF_WEIGHTS_STRICT, &r), GLOFND_E_FORMAT);
    assert_memory_equal(before, text->values, sizeof(float) * (size_t)text->graph.params.numbers);
    assert_int_equal(r.misshaped, 1);
    assert_int_equal(r.extra, 12); /* the third block */
    assert_int_equal(r.missing, image->graph.params.count + 1);
    assert_non_null(strstr(r.text, "visual.conv1.weight"));
    assert_non_null(strstr(r.text, "positional_embedding (11x32, here 10x32: made for a different image size or text length)"));
    assert_non_null(strstr(r.text, "transformer.resblocks.2.ln_1.weight"));
    assert_non_null(strstr(r.text, "more"));
    assert_non_null(strstr(err.text, path));
    ok(gf_weights_load_model(&err, &(gf_model){both, 2, &scale}, path, GF_WEIGHTS_PARTIAL, &r), &err);
    assert_int_equal(r.loaded, text->graph.params.count);
    assert_int_equal(r.misshaped, 0);
    assert_non_null(strstr(r.text, "1 resized: positional_embedding (11 to 10)"));
    assert_true(scale == 1.0f);
    assert_memory_equal(tensor(text, "text_projection")->value, tensor(other, "text_projection")->value, 4 * 32 * EMBED);
    assert_int_equal(load_net(&err, image, GF_WEIGHTS_PARTIAL, NULL), GLOFND_E_FORMAT);
    free(before);
    gf_net_free(image), gf_net_free(text), gf_net_free(other);
    remove(path);
}

typedef struct passage { /* weights on their way from one net through a file to another */
    gf_net *from, *to;
    gf_weights_report r;
} passage;

/* As much as fits; the first net has weights of its own. */
static passage pass(gf_net_spec from, gf_net_spec to) {
    gf_error err = {""};
    from.seed = to.seed + 4;
    passage p = {new_net(from), new_net(to), {0}};
    ok(gf_weights_save(&err, p.from, path), &err);
    ok(load_net(&err, p.to, GF_WEIGHTS_PARTIAL, &p.r), &err);
    return p;
}

static void end_passage(passage *p) {
    gf_net_free(p->from), gf_net_free(p->to);
    remove(path);
}

/* 4 x 4 patches of a larger image instead of 2 x 2: all is loaded, the first position as it is. */
static void positions_of_another_size_are_resized(void **state) {
    (void)state;
    static const char *const name = "visual.positional_embedding";
    gf_error err = {""};
    gf_net_spec small = vit_spec;
    small.size = 8;
    passage p = pass(small, vit_spec);
    assert_int_equal(p.r.loaded, p.to->graph.params.count);
    assert_int_equal(p.r.resized, 1);
    assert_string_equal(p.r.text, "1 resized: visual.positional_embedding (2x2 to 4x4)");
    const float *a = tensor(p.from, name)->value, *b = tensor(p.to, name)->value;
    assert_memory_equal(a, b, sizeof(float) * 32);
    double before = 0, after = 0; /* weights sum to 1: resizing keeps the mean of a grid that grows, but for its borders */
    for (int i = 32; i < 5 * 32; i++) before += (double)a[i] / 4;
    for (int i = 32; i < 17 * 32; i++) after += (double)b[i] / 16;
    assert_true(fabs(before - after) < 1e-5);
    assert_int_equal(load_net(&err, p.to, GF_WEIGHTS_STRICT, &p.r), GLOFND_E_FORMAT);
    end_passage(&p);
}

/* torchvision's names, without "visual." in front. */
static void a_backbone_fits_a_tower(void **state) {
    (void)state;
    gf_net_spec plain = resnet_spec;
    plain.embed_dim = 0;
    passage p = pass(plain, resnet_spec);
    assert_int_equal(p.r.missing, 1);
    assert_non_null(strstr(p.r.text, "visual.proj.weight"));
    const gf_tensor *a = tensor(p.from, "layer2.0.conv1.weight"), *b = tensor(p.to, "visual.layer2.0.conv1.weight");
    assert_memory_equal(a->value, b->value, sizeof(float) * (size_t)a->count);
    end_passage(&p);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(impossible_nets_are_refused),
        cmocka_unit_test(foreign_inputs_are_refused),
        cmocka_unit_test(nets_beside_each_other_do_not_meddle),
        cmocka_unit_test(micro_batches_add_up),
        cmocka_unit_test(a_second_look_moves_no_averages),
        cmocka_unit_test(parts_of_batches),
        cmocka_unit_test(a_resnet_ends_in_a_projection),
        cmocka_unit_test(beginnings_are_clips),
        cmocka_unit_test(bf16_stays_near_fp32),
        cmocka_unit_test(threads_change_little),
        cmocka_unit_test(the_arena_is_tight),
        cmocka_unit_test(depth_has_a_limit_and_reaches_it),
        cmocka_unit_test(a_model_is_one_file),
        cmocka_unit_test(misfits_are_listed),
        cmocka_unit_test(positions_of_another_size_are_resized),
        cmocka_unit_test(a_backbone_fits_a_tower),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

#else

int main(void) { return 77; }

#endif

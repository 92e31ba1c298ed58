/* unit_encoders.c - nets for images and texts: what is refused, two of them beside each other, micro-batches, initial weights,
 * bf16, parts of batches, the plan of the arena. Numbers are golden_clip's, weights in files unit_encoder_weights's.
 */
#include "support/test.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#ifdef GF_HAVE_DNNL

#include "support/nn_reference.h"
#include "support/small_encoders.h"

/* ----- what is refused --------------------------------------------------------------------------------------------- */

static void refuse(gf_net_spec s, const char *word) {
    gf_error err = {""};
    gf_net *n = NULL;
    assert_int_equal(gf_net_create(&err, &s, &n), GLOFND_E_ARGUMENT);
    if (!strstr(err.text, word)) fail_msg("\"%s\" does not say %s", err.text, word);
    assert_null(n);
}

#define WITH(base, field, value) ((void)(changed = (base)), changed.field = (value), changed)

TEST(impossible_nets_are_refused) {
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

TEST(foreign_inputs_are_refused) {
    gf_error err = {""};
    gf_net *text = net_new(text_spec), *image = net_new(vit_spec);
    int32_t tokens[CONTEXT] = {0};
    float x = 0;
    assert_int_equal(gf_net_load_tokens(&err, image, tokens, 0, 1), GLOFND_E_ARGUMENT);
    assert_int_equal(gf_net_load(&err, text, &x, 0, 1), GLOFND_E_ARGUMENT);
    assert_int_equal(gf_net_load_tokens(&err, text, tokens, 0, BATCH + 1), GLOFND_E_ARGUMENT);
    assert_int_equal(gf_net_load_tokens(&err, text, tokens, BATCH, 1), GLOFND_E_ARGUMENT);
    assert_int_equal(gf_net_load_tokens(&err, text, tokens, -1, 1), GLOFND_E_ARGUMENT);
    net_ok(gf_net_load_tokens(&err, text, tokens, BATCH - 1, 1), &err);
    tokens[3] = VOCAB;
    assert_int_equal(gf_net_load_tokens(&err, text, tokens, 1, 1), GLOFND_E_ARGUMENT);
    assert_non_null(strstr(err.text, "token 3 of text 1"));
    tokens[3] = -1;
    assert_int_equal(gf_net_load_tokens(&err, text, tokens, 1, 1), GLOFND_E_ARGUMENT);
    gf_net_free(text);
    gf_net_free(image);
}

/* ----- together and in parts --------------------------------------------------------------------------------------- */

TEST(nets_beside_each_other_do_not_meddle) {
    gf_net *alone = net_new(text_spec), *image = net_new(vit_spec);
    gf_net_spec s = text_spec;
    s.engine_owner = image;
    s.threads = 1; /* ignored: those of the other */
    size_t bytes = 0;
    gf_error err = {""};
    net_ok(gf_net_estimate(&err, &s, &bytes), &err);
    gf_net *text = net_new(s);
    assert_true(bytes > 0 && gf_net_engine(text) == gf_net_engine(image) && gf_net_engine(alone) != gf_net_engine(image));
    const float *a = net_forward(alone, 0, 1), *b = net_forward(text, 0, 1);
    net_forward(image, 0, 1);
    assert_memory_equal(a, b, sizeof *a * BATCH * EMBED);
    net_backward(alone, 0);
    net_backward(text, 0);
    net_backward(image, 0);
    assert_memory_equal(alone->grads, text->grads, sizeof(float) * (size_t)alone->graph.params.numbers);
    gf_net_free(text);
    gf_net_free(image);
    gf_net_free(alone);
}

/* Gradients of a batch are the sum of those of its halves, where no batch norm ties images together. */
static void halves_add_up(gf_net_spec s) {
    gf_net *whole = net_new(s);
    s.batch = BATCH / 2;
    gf_net *half = net_new(s);
    float *sum = gf_net_alloc_state(half);
    net_forward(whole, 0, 1);
    net_backward(whole, 0);
    for (int i = 0; i < 2; i++) {
        net_forward(half, i * BATCH / 2, 1);
        net_backward(half, i * BATCH / 2);
        gf_net_add_gradients(half, sum, i == 0);
    }
    assert_true(ref_distance_floats(sum, whole->grads, whole->graph.params.numbers) < 1e-6);
    gf_net_release(half, sum);
    gf_net_free(half);
    gf_net_free(whole);
}

TEST(micro_batches_add_up) {
    halves_add_up(text_spec);
    halves_add_up(vit_spec);
}

TEST(a_second_look_moves_no_averages) {
    gf_net *n = net_new(clip_spec);
    const size_t bytes = sizeof(float) * (size_t)n->graph.buffers.numbers;
    float *stats = malloc(bytes), z[BATCH * EMBED];
    memcpy(z, net_forward(n, 0, 1), sizeof z);
    memcpy(stats, n->stats, bytes);
    assert_memory_equal(z, net_forward(n, 0, 2), sizeof z);
    assert_memory_equal(stats, n->stats, bytes);
    net_backward(n, 0);
    net_forward(n, 0, 1);
    assert_memory_not_equal(stats, n->stats, bytes);
    free(stats);
    gf_net_free(n);
}

static void part_of_a_batch(gf_net_spec s) {
    gf_error err = {""};
    gf_net *n = net_new(s);
    float all[BATCH * EMBED];
    const float *z;
    memcpy(all, net_forward(n, 0, 0), sizeof all);
    net_load(n, 0);
    net_ok(gf_net_forward(&err, n, NULL, 2, 0, NULL, &z), &err);
    assert_true(ref_distance_floats(z, all, 2 * EMBED) < 1e-6);
    assert_int_equal(gf_net_forward(&err, n, NULL, 2, 1, NULL, &z), GLOFND_E_ARGUMENT);
    gf_net_free(n);
}

TEST(parts_of_batches) {
    part_of_a_batch(text_spec);
    part_of_a_batch(vit_spec);
    part_of_a_batch(clip_spec);
}

TEST(a_resnet_ends_in_a_projection) {
    gf_error err = {""};
    gf_net *n = net_new(resnet_spec);
    const float *features, *z;
    net_load(n, 0);
    net_ok(gf_net_forward(&err, n, NULL, BATCH, 1, &features, &z), &err);
    const float *w = net_tensor(n, "visual.proj.weight")->value;
    const int64_t c = gf_net_features(n);
    assert_int_equal(c, 64);
    for (int64_t i = 0; i < BATCH * EMBED; i++) {
        double sum = 0;
        for (int64_t k = 0; k < c; k++) sum += (double)features[i / EMBED * c + k] * (double)w[i % EMBED * c + k];
        assert_true(fabs(sum - (double)z[i]) < 1e-6);
    }
    net_backward(n, 0);
    assert_non_null(net_tensor(n, "visual.layer3.0.bn2.weight")->grad);
    gf_net_free(n);
}

/* ----- numbers ----------------------------------------------------------------------------------------------------- */

static void expect_deviation(gf_net *n, const char *name, double want) {
    const gf_tensor *t = net_tensor(n, name);
    double square = 0;
    for (int64_t i = 0; i < t->count; i++) square += (double)t->value[i] * (double)t->value[i];
    const double have = sqrt(square / (double)t->count), slack = 4 / sqrt(2 * (double)t->count);
    if (!(fabs(have - want) <= slack * want)) fail_msg("%s has deviation %.4g, not %.4g", name, have, want);
}

TEST(beginnings_are_clips) {
    const double w = 32, uniform = 1 / sqrt(3.0); /* deviation of a uniform number in +- 1 */
    gf_net *text = net_new(text_spec), *vit = net_new(vit_spec), *clip = net_new(clip_spec);
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

/* bf16 keeps 8 bits. Limits on embeddings and gradients are 1.5 times what was measured with avx512_bf16. */
static void stay_near(gf_net_spec s, double embeddings, double gradients) {
    gf_error err = {""};
    gf_net *wide = net_new(s), *narrow = NULL;
    s.precision = GF_BF16;
    const glofnd_status status = gf_net_create(&err, &s, &narrow);
    if (status == GLOFND_E_UNSUPPORTED) {
        gf_net_free(wide);
        skip();
    }
    net_ok(status, &err);
    const float *a = net_forward(wide, 0, 1), *b = net_forward(narrow, 0, 1);
    double d = ref_distance_floats(b, a, BATCH * EMBED);
    if (!(d < embeddings)) fail_msg("embeddings are off by %.3g", d);
    net_backward(wide, 0);
    net_backward(narrow, 0);
    d = ref_distance_floats(narrow->grads, wide->grads, wide->graph.params.numbers);
    if (!(d < gradients)) fail_msg("gradients are off by %.3g", d);
    gf_net_free(wide);
    gf_net_free(narrow);
}

TEST(bf16_stays_near_fp32) {
    stay_near(text_spec, 0.015, 0.02);
    stay_near(vit_spec, 0.005, 0.006);
    /* With batch norms in eval mode, where rounding is not magnified by statistics of four images. */
    gf_net_spec s = clip_spec;
    gf_net *wide = net_new(s);
    s.precision = GF_BF16;
    gf_net *narrow = net_new(s);
    assert_true(ref_distance_floats(net_forward(narrow, 0, 0), net_forward(wide, 0, 0), BATCH * EMBED) < 3e-3);
    gf_net_free(wide);
    gf_net_free(narrow);
}

TEST(threads_change_little) {
    gf_net_spec s = text_spec;
    gf_net *two = net_new(s);
    s.threads = 1;
    gf_net *one = net_new(s);
    assert_memory_equal(one->values, two->values, sizeof(float) * (size_t)one->graph.params.numbers);
    assert_true(ref_distance_floats(net_forward(one, 0, 1), net_forward(two, 0, 1), BATCH * EMBED) < 1e-6);
    gf_net_free(one);
    gf_net_free(two);
}

TEST(the_arena_is_tight) {
    const gf_net_spec all[] = {text_spec, vit_spec, clip_spec};
    for (int i = 0; i < 3; i++) {
        gf_net *n = net_new(all[i]);
        const double live = (double)gf_graph_live_bytes(&n->graph), have = (double)n->graph.arena_bytes;
        if (!(have <= 1.02 * live)) fail_msg("net %d takes %.0f bytes where %.0f suffice", i, have, live);
        gf_net_free(n);
    }
}

TEST(depth_has_a_limit_and_reaches_it) {
    gf_net_spec s = text_spec;
    s.layers = GF_MAX_DEPTH;
    s.batch = 1;
    gf_net *n = net_new(s);
    assert_non_null(net_tensor(n, "transformer.resblocks.47.attn.in_proj_weight"));
    gf_net_free(n);
}

#else
TEST_SKIP("built without oneDNN")
#endif

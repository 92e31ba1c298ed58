/* unit_encoder_weights.c - weights of both encoders in one file: saved and loaded, misfits listed, positions resized. */
#include "support/test.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#ifdef GF_HAVE_DNNL

#include "loop/model.h"
#include "support/small_encoders.h"
#include "support/trial.h"

static const char *const path = "unit_encoder_weights.safetensors";

/* One net from the file. */
static glofnd_status load_net(gf_error *err, gf_net *n, gf_weights_rule rule, gf_weights_report *r) {
    return gf_weights_load_model(err, &(gf_model){&n, 1, NULL}, path, rule, r);
}

TEST(a_model_is_one_file) {
    gf_error err = {""};
    gf_net *from[2] = {net_new(clip_spec), net_new(text_spec)};
    gf_net_spec image = clip_spec, text = text_spec;
    image.seed = text.seed = 6;
    gf_net *to[2] = {net_new(image), net_new(text)};
    float scale = 3.5f, back = 0;
    gf_weights_report r;
    net_ok(gf_weights_save_model(&err, &(gf_model){from, 2, &scale}, path), &err);
    net_ok(gf_weights_load_model(&err, &(gf_model){to, 2, &back}, path, GF_WEIGHTS_STRICT, &r), &err);
    assert_true(back == 3.5f && r.text[0] == '\0' && r.missing + r.extra + r.misshaped == 0);
    for (int i = 0; i < 2; i++) {
        assert_memory_equal(from[i]->values, to[i]->values, sizeof(float) * (size_t)from[i]->graph.params.numbers);
        assert_memory_equal(net_forward(from[i], 0, 0), net_forward(to[i], 0, 0), sizeof(float) * BATCH * EMBED);
    }
    for (int i = 0; i < 2; i++) gf_net_free(from[i]), gf_net_free(to[i]);
    remove(path);
}

/* A file of the text encoder alone, with a position too many, for both encoders. */
TEST(misfits_are_listed) {
    gf_error err = {""};
    gf_net *image = net_new(vit_spec), *text = net_new(text_spec);
    gf_net_spec longer = text_spec;
    longer.context = CONTEXT + 1, longer.layers = 3;
    gf_net *other = net_new(longer);
    gf_net *both[2] = {image, text};
    gf_weights_report r;
    float scale = 1;
    net_ok(gf_weights_save(&err, other, path), &err);
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
    net_ok(gf_weights_load_model(&err, &(gf_model){both, 2, &scale}, path, GF_WEIGHTS_PARTIAL, &r), &err);
    assert_int_equal(r.loaded, text->graph.params.count);
    assert_int_equal(r.misshaped, 0);
    assert_non_null(strstr(r.text, "1 resized: positional_embedding (11 to 10)"));
    assert_true(scale == 1.0f);
    assert_memory_equal(net_tensor(text, "text_projection")->value, net_tensor(other, "text_projection")->value, 4 * 32 * EMBED);
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
    passage p = {net_new(from), net_new(to), {0}};
    net_ok(gf_weights_save(&err, p.from, path), &err);
    net_ok(load_net(&err, p.to, GF_WEIGHTS_PARTIAL, &p.r), &err);
    return p;
}

static void end_passage(passage *p) {
    gf_net_free(p->from), gf_net_free(p->to);
    remove(path);
}

/* 4 x 4 patches of a larger image instead of 2 x 2: all is loaded, the first position as it is. */
TEST(positions_of_another_size_are_resized) {
    static const char *const name = "visual.positional_embedding";
    gf_error err = {""};
    gf_net_spec small = vit_spec;
    small.size = 8;
    passage p = pass(small, vit_spec);
    assert_int_equal(p.r.loaded, p.to->graph.params.count);
    assert_int_equal(p.r.resized, 1);
    assert_string_equal(p.r.text, "1 resized: visual.positional_embedding (2x2 to 4x4)");
    const float *a = net_tensor(p.from, name)->value, *b = net_tensor(p.to, name)->value;
    assert_memory_equal(a, b, sizeof(float) * 32);
    double before = 0, after = 0; /* weights sum to 1: resizing keeps the mean of a grid that grows, but for its borders */
    for (int i = 32; i < 5 * 32; i++) before += (double)a[i] / 4;
    for (int i = 32; i < 17 * 32; i++) after += (double)b[i] / 16;
    assert_true(fabs(before - after) < 1e-7);
    assert_int_equal(load_net(&err, p.to, GF_WEIGHTS_STRICT, &p.r), GLOFND_E_FORMAT);
    end_passage(&p);
}

/* torchvision's names, without "visual." in front. */
TEST(a_backbone_fits_a_tower) {
    gf_net_spec plain = resnet_spec;
    plain.embed_dim = 0;
    passage p = pass(plain, resnet_spec);
    assert_int_equal(p.r.missing, 1);
    assert_non_null(strstr(p.r.text, "visual.proj.weight"));
    const gf_tensor *a = net_tensor(p.from, "layer2.0.conv1.weight"), *b = net_tensor(p.to, "visual.layer2.0.conv1.weight");
    assert_memory_equal(a->value, b->value, sizeof(float) * (size_t)a->count);
    end_passage(&p);
}

TEST_GROUP(trial_enter, trial_leave)

#else
TEST_SKIP("built without oneDNN")
#endif

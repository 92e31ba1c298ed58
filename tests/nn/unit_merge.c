/* unit_merge.c - layers that a device does together (train/nn/merge.c): which ones, and that the plan of memory has what they read
 * and write at their times, and nothing for what is never written.
 */
#include "support/test.h"

#include "nn/graph.h"
#include <stdlib.h>
#include <string.h>

static size_t scratch(int64_t rows, int64_t c) { return (size_t)(rows / 1000 + c); }
static const gf_nn_backend plain = {.norm_scratch = scratch}, fusing = {.norm_scratch = scratch, .norm_fuses = 1};

static gf_graph *planned(const gf_net_spec *spec, const gf_nn_backend *b) {
    gf_error err = {""};
    gf_graph *g = calloc(1, sizeof *g);
    assert_non_null(g);
    if (spec->arch == GF_ARCH_CLIP_RESNET50) gf_clip_resnet_build(g, spec);
    else gf_resnet_build(g, spec);
    if (gf_graph_plan(&err, g, b) != GLOFND_OK) fail_msg("%s", err.text);
    return g;
}

static void assert_live(const gf_graph *g, int block, int time) {
    assert_true(block >= 0);
    assert_true(g->block[block].first <= time && time <= g->block[block].last);
}

static void check_shortcut(const gf_graph *g, int i) {
    const gf_layer *l = &g->layer[i], *s = &g->layer[l->shortcut];
    const int back = 2 * g->layers - 1 - i;
    assert_true(s->merged && l->shortcut == i - 1 && s->out == l->residual);
    assert_int_equal(g->block[g->value[s->out].data].last, -1); /* never written */
    assert_live(g, g->value[s->in].data, i);
    assert_live(g, g->value[l->in].data, i);
    assert_live(g, g->value[l->out].data, i);
    if (!g->training) return;
    const int needed[] = {g->value[s->in].data, g->value[l->in].data, g->value[l->out].grad[0], l->dx, s->dx};
    for (size_t k = 0; k < sizeof needed / sizeof *needed; k++) assert_live(g, needed[k], back);
    assert_int_equal(s->dx, g->value[l->out].grad[0]); /* in place of the gradient of the sum */
}

static void check_net(const gf_net_spec *spec, int shortcuts) {
    gf_graph *g = planned(spec, &fusing), *apart = planned(spec, &plain);
    int merged = 0;
    for (int i = 0; i < g->layers; i++) {
        assert_int_equal(apart->layer[i].merged, 0);
        merged += g->layer[i].merged;
        if (g->layer[i].shortcut >= 0) check_shortcut(g, i), shortcuts--, merged--;
    }
    assert_int_equal(shortcuts, 0);
    assert_int_equal(merged, 0);
    assert_true(gf_graph_live_bytes(g) <= gf_graph_live_bytes(apart));
    assert_true(g->arena_bytes <= apart->arena_bytes);
    free(g), free(apart);
}

TEST(resnets_merge_norms_of_shortcuts) {
    for (int training = 0; training < 2; training++)
        for (int precision = 0; precision < 2; precision++) {
            gf_net_spec spec = {.arch = GF_ARCH_RESNET50, .batch = 16, .size = 64, .head_hidden = 64, .head_out = 32};
            spec.training = training;
            spec.precision = precision ? GF_BF16 : GF_FP32;
            check_net(&spec, 4);
            spec.arch = GF_ARCH_RESNET18;
            check_net(&spec, 3);
            spec.cifar_stem = 1;
            check_net(&spec, 3);
            spec.arch = GF_ARCH_RESNET8;
            check_net(&spec, 2);
            const gf_net_spec clip = {.arch = GF_ARCH_CLIP_RESNET50,
                                      .batch = 4,
                                      .size = 64,
                                      .embed_dim = 64,
                                      .precision = spec.precision,
                                      .training = training};
            check_net(&clip, 4);
        }
}

/* An output that something else reads, or the caller, must be written. */
TEST(outputs_with_other_readers_stay) {
    for (int reader = 0; reader < 3; reader++) {
        gf_graph *g = calloc(1, sizeof *g);
        assert_non_null(g);
        const int x = gf_graph_value(g, 2, 8, 8, 8, GF_TYPE_F32), a = gf_graph_conv(g, "a", x, 8, 1, 1, 0);
        const int b = gf_graph_conv(g, "b", x, 8, 1, 1, 0), c = gf_graph_norm(g, gf_graph_norm_names(g, "n", 8, 1), b, -1, 0);
        const int y = gf_graph_norm(g, gf_graph_norm_names(g, "m", 8, 1), a, c, 1);
        g->projection = g->features = y;
        if (reader == 1) g->features = c;
        if (reader == 2) g->projection = gf_graph_conv(g, "d", c, 8, 1, 1, 0);
        gf_graph_merge(g, &fusing);
        assert_int_equal(g->layer[2].merged, reader == 0);
        assert_int_equal(g->layer[3].shortcut, reader == 0 ? 2 : -1);
        free(g);
    }
}

/* ----- the stem of ResNet ------------------------------------------------------------------------- */

static int pools(const gf_nn_shape *conv, const gf_nn_shape *pool) { return conv->kernel == 7 && pool->kernel == 3; }
static const gf_nn_backend joining = {.norm_scratch = scratch, .norm_fuses = 1, .pools = pools};

static gf_graph *joined(const gf_net_spec *spec) {
    gf_error err = {""};
    gf_graph *g = calloc(1, sizeof *g);
    assert_non_null(g);
    gf_resnet_build(g, spec);
    gf_graph_merge_stem(g, &joining);
    if (gf_graph_plan(&err, g, &joining) != GLOFND_OK) fail_msg("%s", err.text);
    return g;
}

static void check_stem(const gf_graph *g, const gf_graph *apart) {
    const gf_layer *conv = &g->layer[0], *norm = &g->layer[1];
    const int back = 2 * g->layers - 2;
    assert_int_equal(g->layers, apart->layers - 1);
    assert_true(conv->shape.pooled && norm->in == conv->out);
    assert_int_equal(norm->norm.counted, apart->layer[1].norm.rows);
    assert_int_equal(norm->norm.rows, norm->norm.counted / 4);
    assert_int_equal(g->value[conv->out].h, g->value[norm->out].h);
    assert_int_equal(norm->out, apart->layer[2].out);
    assert_live(g, g->value[conv->out].data, 1);
    assert_live(g, g->value[norm->out].data, 1);
    if (!g->training) return;
    assert_live(g, g->value[conv->out].data, back);
    assert_live(g, g->value[norm->out].grad[0], back);
    assert_int_equal(norm->dx, g->value[norm->out].grad[0]); /* the convolution finds the gradient of the norm there */
    assert_live(g, norm->dx, back + 1);
}

TEST(stems_are_joined) {
    for (int training = 0; training < 2; training++) {
        gf_net_spec spec = {.arch = GF_ARCH_RESNET50, .batch = 4, .size = 64, .head_hidden = 64, .head_out = 32};
        spec.training = training;
        gf_graph *g = joined(&spec), *apart = planned(&spec, &fusing);
        check_stem(g, apart);
        free(g), free(apart);
        spec.cifar_stem = 1; /* no max pooling */
        g = joined(&spec), apart = planned(&spec, &fusing);
        assert_int_equal(g->layers, apart->layers);
        assert_false(g->layer[0].shape.pooled);
        free(g), free(apart);
    }
}

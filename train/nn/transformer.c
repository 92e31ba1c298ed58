/* transformer.c - CLIP's two transformers, as open_clip names them: for images in patches, and for texts.
 *
 *   block   x + out_proj(attention(in_proj(ln_1(x)))), then that + c_proj(gelu(c_fc(ln_2(that)))); c_fc is four times as wide
 *   image   conv1 (patch x patch, stride patch), class token, positions, ln_pre, blocks; of the class token ln_post, proj
 *   text    tokens and positions, causal blocks; of the largest token, which ends a text, ln_final, text_projection. Rows of
 *           texts are packed: texts.c
 * Only one row of each sequence is needed in the end. Norms and linear layers work row by row: from the last attention on they
 * have that row alone, picked as float32.
 */
#include <stdio.h>

#include "nn/graph.h"

static int layer_norm(gf_graph *g, const char *prefix, const char *part, int in) {
    const gf_name name = gf_name_join(prefix, part);
    const int weight = gf_graph_param(g, name.text, ".weight", 1, g->value[in].c, 0);
    const int bias = gf_graph_param(g, name.text, ".bias", 1, g->value[in].c, 0);
    return gf_graph_op(g, (gf_nn_shape){.kind = GF_NN_LAYERNORM}, in, -1, weight, bias);
}

/* `part` ends before "weight" and "bias". residual: value that is added, or -1. */
static int linear(gf_graph *g, const char *prefix, const char *part, int in, int64_t out, gf_nn_act act, int residual) {
    const gf_name name = gf_name_join(prefix, part);
    const int weight = gf_graph_param(g, name.text, "weight", 2, out, g->value[in].c);
    const int bias = gf_graph_param(g, name.text, "bias", 1, out, 0);
    return gf_graph_op(g, (gf_nn_shape){.kind = GF_NN_LINEAR, .out = out, .act = act}, in, residual, weight, bias);
}

static int pick(gf_graph *g, int in) { return gf_graph_op(g, (gf_nn_shape){.kind = GF_NN_PICK}, in, -1, -1, -1); }

/* last: the result is the picked row alone. */
static int block(gf_graph *g, const gf_net_spec *spec, const char *prefix, int in, int causal, int last) {
    const int64_t c = spec->width;
    const gf_nn_act act = spec->quick_gelu ? GF_ACT_QUICK_GELU : GF_ACT_GELU;
    int x = layer_norm(g, prefix, "ln_1", in);
    x = linear(g, prefix, "attn.in_proj_", x, 3 * c, GF_ACT_NONE, -1);
    x = gf_graph_op(g, (gf_nn_shape){.kind = GF_NN_ATTENTION, .out = c, .heads = spec->heads, .causal = causal}, x, -1, -1, -1);
    if (last) x = pick(g, x), in = pick(g, in);
    const int stream = linear(g, prefix, "attn.out_proj.", x, c, GF_ACT_NONE, in);
    x = layer_norm(g, prefix, "ln_2", stream);
    x = linear(g, prefix, "mlp.c_fc.", x, 4 * c, act, -1);
    return linear(g, prefix, "mlp.c_proj.", x, c, GF_ACT_NONE, stream);
}

/* All of them; then the picked row. */
static int blocks(gf_graph *g, const gf_net_spec *spec, const char *prefix, int in, int causal) {
    int x = in;
    for (int i = 0; i < spec->layers; i++) {
        char name[64];
        snprintf(name, sizeof name, "%.16stransformer.resblocks.%d.", prefix, i);
        x = block(g, spec, name, x, causal, i + 1 == spec->layers);
    }
    return x;
}

/* The embedding: `name` [width][embed_dim] without bias. */
static int project(gf_graph *g, const gf_net_spec *spec, const char *name, int in) {
    const int weight = gf_graph_param(g, name, "", 2, g->value[in].c, spec->embed_dim);
    return gf_graph_op(g, (gf_nn_shape){.kind = GF_NN_LINEAR, .out = spec->embed_dim, .transposed = 1}, in, -1, weight, -1);
}

static gf_type type_of(const gf_net_spec *spec) { return spec->precision == GF_BF16 ? GF_TYPE_BF16 : GF_TYPE_F32; }

void gf_vit_build(gf_graph *g, const gf_net_spec *spec) {
    const int64_t grid = spec->size / spec->patch;
    g->training = spec->training;
    int x = gf_graph_value(g, spec->batch, spec->size, spec->size, g->image_channels ? g->image_channels : 3, type_of(spec));
    x = gf_graph_conv(g, "visual.conv1", x, spec->width, spec->patch, spec->patch, 0);
    const int token = gf_graph_param(g, "visual.class_embedding", "", 1, spec->width, 0);
    const int positions = gf_graph_param(g, "visual.positional_embedding", "", 2, grid * grid + 1, spec->width);
    x = gf_graph_op(g, (gf_nn_shape){.kind = GF_NN_TOKENS}, x, -1, positions, token);
    x = blocks(g, spec, "visual.", layer_norm(g, "visual.", "ln_pre", x), 0);
    g->features = layer_norm(g, "visual.", "ln_post", x);
    g->projection = project(g, spec, "visual.proj", g->features);
}

void gf_text_build(gf_graph *g, const gf_net_spec *spec) {
    g->training = spec->training;
    const int tokens = gf_graph_value(g, spec->batch, spec->context, 1, 1, GF_TYPE_I32);
    g->value[tokens].packed = 1;
    const int table = gf_graph_param(g, "token_embedding.weight", "", 2, spec->vocab, spec->width);
    const int positions = gf_graph_param(g, "positional_embedding", "", 2, spec->context, spec->width);
    const gf_nn_shape embed = {.kind = GF_NN_EMBED, .type = type_of(spec), .in = spec->vocab, .out = spec->width};
    int x = gf_graph_op(g, embed, tokens, -1, table, positions);
    x = blocks(g, spec, "", x, 1);
    g->features = layer_norm(g, "", "ln_final", x);
    g->projection = project(g, spec, "text_projection", g->features);
}

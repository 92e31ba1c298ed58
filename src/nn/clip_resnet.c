/* clip_resnet.c - CLIP's ResNet-50, as open_clip names it. Beside resnet.c it differs in three places:
 *   stem      three 3 x 3 convolutions, the first of stride 2, and an average pool
 *   strides   average pools before the 1 x 1 convolution of a block and of its shortcut: no position is skipped
 *   end       attention pooling: the mean of all positions asks them, with positions added to all
 *
 *   tokens [n][1 + hw][c] = (mean, x) + positional_embedding;  q = q_proj(tokens[0]), k, v = k_proj, v_proj(tokens)
 *   embedding = c_proj(softmax(q k' / sqrt(d)) v)
 */
#include "nn/graph.h"

static const char prefix[] = "visual.", pool[] = "visual.attnpool.";

static int stem(gf_graph *g, int in, int64_t width) {
    int x = gf_graph_norm_relu(g, prefix, "bn1", gf_graph_conv_at(g, prefix, "conv1", in, width / 2, 3, 2));
    x = gf_graph_norm_relu(g, prefix, "bn2", gf_graph_conv_at(g, prefix, "conv2", x, width / 2, 3, 1));
    x = gf_graph_norm_relu(g, prefix, "bn3", gf_graph_conv_at(g, prefix, "conv3", x, width, 3, 1));
    return gf_graph_op(g, (gf_nn_shape){.kind = GF_NN_AVGPOOL, .kernel = 2, .stride = 2}, x, -1, -1, -1);
}

static int linear(gf_graph *g, int in, int64_t out, int weight, int bias) {
    return gf_graph_op(g, (gf_nn_shape){.kind = GF_NN_LINEAR, .out = out}, in, -1, weight, bias);
}

/* k_proj and v_proj lie side by side, so that one product of twice the width makes both: c is a multiple of 64, which leaves no
 * gap between tensors. The query is float32, like all that follows it; its row comes first in the list, so that in backward it is
 * added to the gradient that k and v have left. */
static int attention_pool(gf_graph *g, int in, int heads, int64_t embed_dim) {
    const gf_value *x = &g->value[in];
    const int64_t c = x->c, positions = x->h * x->w + 1;
    const int place = gf_graph_param(g, pool, "positional_embedding", 2, positions, c);
    const int k_weight = gf_graph_param(g, pool, "k_proj.weight", 2, c, c);
    gf_graph_param(g, pool, "v_proj.weight", 2, c, c);
    const int k_bias = gf_graph_param(g, pool, "k_proj.bias", 1, c, 0);
    gf_graph_param(g, pool, "v_proj.bias", 1, c, 0);
    const int q_weight = gf_graph_param(g, pool, "q_proj.weight", 2, c, c);
    const int q_bias = gf_graph_param(g, pool, "q_proj.bias", 1, c, 0);
    const int o_weight = gf_graph_param(g, pool, "c_proj.weight", 2, embed_dim, c);
    const int o_bias = gf_graph_param(g, pool, "c_proj.bias", 1, embed_dim, 0);
    const int tokens = gf_graph_op(g, (gf_nn_shape){.kind = GF_NN_TOKENS}, in, -1, place, -1);
    const int first = gf_graph_op(g, (gf_nn_shape){.kind = GF_NN_PICK}, tokens, -1, -1, -1);
    const int q = linear(g, first, c, q_weight, q_bias), kv = linear(g, tokens, 2 * c, k_weight, k_bias);
    g->features = gf_graph_op(g, (gf_nn_shape){.kind = GF_NN_ATTENTION, .out = c, .heads = heads}, kv, q, -1, -1);
    return linear(g, g->features, embed_dim, o_weight, o_bias);
}

void gf_clip_resnet_build(gf_graph *g, const gf_net_spec *spec) {
    const gf_type type = spec->precision == GF_BF16 ? GF_TYPE_BF16 : GF_TYPE_F32;
    const int width = spec->width ? spec->width : 64;
    const gf_resnet_recipe r = {.bottleneck = 1, .pooled = 1, .layers = 4, .blocks = {3, 4, 6, 3}, .width = width};
    g->training = spec->training;
    int x = gf_graph_value(g, spec->batch, spec->size, spec->size, g->image_channels ? g->image_channels : 3, type);
    x = gf_resnet_layers(g, &r, prefix, stem(g, x, width));
    g->projection = attention_pool(g, x, spec->heads ? spec->heads : width / 2, spec->embed_dim);
}

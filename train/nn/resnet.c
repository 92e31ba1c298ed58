/* resnet.c - ResNet-18/34/50 as torchvision defines and names them, a small ResNet-8 for demonstrations, and the projection head;
 * CLIP's ResNet-50 as open_clip names it.
 *
 *   stem      conv1 7x7 stride 2, bn1, ReLU, max pool 3x3 stride 2; cifar_stem: conv1 3x3 stride 1, bn1, ReLU
 *   layer1-4  BasicBlock (3x3, 3x3) or Bottleneck (1x1, 3x3 with the stride, 1x1 of four times the width); the first block of
 *             layers 2-4 has stride 2; a block that changes shape has downsample.0 (1x1) and downsample.1 (batch norm)
 *   mean      over all positions: the features
 *   proj      of an encoder for image-text training: a linear layer to the embedding
 *   head      head.0 linear, head.1 batch norm, (2: ReLU), head.3 linear, head.4 batch norm without weight and bias
 *
 * resnet8 is the smallest member of the family for 32 px images: three layers of one BasicBlock each, 16, 32 and 64 wide, as the
 * original ResNet paper's CIFAR nets of 6n+2 layers with n = 1, but with convolutions on the shortcuts. 64 features.
 *
 * CLIP's ResNet-50 differs in three places:
 *   stem      three 3 x 3 convolutions, the first of stride 2, and an average pool
 *   strides   average pools before the 1 x 1 convolution of a block and of its shortcut: no position is skipped
 *   end       attention pooling: the mean of all positions is the query, with positional embeddings added to all
 *
 *   tokens [n][1 + hw][c] = (mean, x) + positional_embedding;  q = q_proj(tokens[0]), k, v = k_proj, v_proj(tokens)
 *   embedding = c_proj(softmax(q k' / sqrt(d)) v)
 */
#include <stdio.h>

#include "nn/graph.h"

typedef struct recipe {
    int bottleneck;
    int pooled; /* strides are average pools before 1 x 1 convolutions, which then read all of the image */
    int layers;
    int blocks[4];
    int64_t width; /* of the stem and layer1; doubles from layer to layer */
} recipe;

static const recipe recipes[] = {
    [GF_ARCH_RESNET8] = {0, 0, 3, {1, 1, 1}, 16},
    [GF_ARCH_RESNET18] = {0, 0, 4, {2, 2, 2, 2}, 64},
    [GF_ARCH_RESNET34] = {0, 0, 4, {3, 4, 6, 3}, 64},
    [GF_ARCH_RESNET50] = {1, 0, 4, {3, 4, 6, 3}, 64},
};

static int average(gf_graph *g, int in, int stride) {
    return gf_graph_op(g, (gf_nn_shape){.kind = GF_NN_AVGPOOL, .kernel = stride, .stride = stride}, in, -1, -1, -1);
}

/* The input itself, or its projection to the shape of the block's output. */
static int shortcut(gf_graph *g, const char *prefix, int in, int64_t out, int stride, int pooled) {
    if (stride == 1 && g->value[in].c == out) return in;
    const int seen = pooled && stride > 1 ? average(g, in, stride) : in;
    const int x = gf_graph_conv_at(g, prefix, "downsample.0", seen, out, 1, pooled ? 1 : stride);
    return gf_graph_norm(g, gf_graph_norm_names(g, gf_name_join(prefix, "downsample.1").text, out, 1), x, -1, 0);
}

static int block(gf_graph *g, const recipe *r, const char *prefix, int in, int64_t width, int stride) {
    const int64_t out = r->bottleneck ? 4 * width : width;
    int x;
    if (r->bottleneck) {
        x = gf_graph_norm_relu(g, prefix, "bn1", gf_graph_conv_at(g, prefix, "conv1", in, width, 1, 1));
        x = gf_graph_norm_relu(g, prefix, "bn2", gf_graph_conv_at(g, prefix, "conv2", x, width, 3, r->pooled ? 1 : stride));
        if (r->pooled && stride > 1) x = average(g, x, stride);
        x = gf_graph_conv_at(g, prefix, "conv3", x, out, 1, 1);
    } else {
        x = gf_graph_norm_relu(g, prefix, "bn1", gf_graph_conv_at(g, prefix, "conv1", in, width, 3, stride));
        x = gf_graph_conv_at(g, prefix, "conv2", x, out, 3, 1);
    }
    const gf_norm_names last = gf_graph_norm_names(g, gf_name_join(prefix, r->bottleneck ? "bn3" : "bn2").text, out, 1);
    return gf_graph_norm(g, last, x, shortcut(g, prefix, in, out, stride, r->pooled), 1);
}

static int layers(gf_graph *g, const recipe *r, const char *prefix, int in) {
    int x = in;
    for (int layer = 0; layer < r->layers; layer++)
        for (int b = 0; b < r->blocks[layer]; b++) {
            char name[64];
            snprintf(name, sizeof name, "%.32slayer%d.%d.", prefix, layer + 1, b);
            x = block(g, r, name, x, r->width << layer, layer > 0 && b == 0 ? 2 : 1);
        }
    return x;
}

static int head(gf_graph *g, int features, int hidden, int out) {
    const int x = gf_graph_norm_relu(g, "head.", "1", gf_graph_linear(g, "head.0", features, hidden));
    const int y = gf_graph_linear(g, "head.3", x, out);
    return gf_graph_norm(g, gf_graph_norm_names(g, "head.4", out, 0), y, -1, 0);
}

void gf_resnet_build(gf_graph *g, const gf_net_spec *spec) {
    const recipe *r = &recipes[spec->arch];
    const gf_type type = spec->precision == GF_BF16 ? GF_TYPE_BF16 : GF_TYPE_F32;
    const char *prefix = spec->embed_dim > 0 ? "visual." : "";
    g->training = spec->training;
    int x = gf_graph_value(g, spec->batch, spec->size, spec->size, g->image_channels ? g->image_channels : 3, type);
    x = gf_graph_conv_at(g, prefix, "conv1", x, r->width, spec->cifar_stem ? 3 : 7, spec->cifar_stem ? 1 : 2);
    x = gf_graph_norm_relu(g, prefix, "bn1", x);
    if (!spec->cifar_stem) x = gf_graph_maxpool(g, x, 3, 2, 1);
    g->features = g->projection = gf_graph_mean(g, layers(g, r, prefix, x));
    if (spec->head_hidden > 0) g->projection = head(g, g->features, spec->head_hidden, spec->head_out);
    if (spec->embed_dim > 0) g->projection = gf_graph_linear(g, "visual.proj", g->features, spec->embed_dim);
}

/* ----- CLIP's ----- */

static const char visual[] = "visual.", pool[] = "visual.attnpool.";

static int clip_stem(gf_graph *g, int in, int64_t width) {
    int x = gf_graph_norm_relu(g, visual, "bn1", gf_graph_conv_at(g, visual, "conv1", in, width / 2, 3, 2));
    x = gf_graph_norm_relu(g, visual, "bn2", gf_graph_conv_at(g, visual, "conv2", x, width / 2, 3, 1));
    x = gf_graph_norm_relu(g, visual, "bn3", gf_graph_conv_at(g, visual, "conv3", x, width, 3, 1));
    return average(g, x, 2);
}

static int linear(gf_graph *g, int in, int64_t out, int weight, int bias) {
    return gf_graph_op(g, (gf_nn_shape){.kind = GF_NN_LINEAR, .out = out}, in, -1, weight, bias);
}

/* k_proj and v_proj are adjacent, so that one product of twice the width makes both: c is a multiple of 64, which leaves no gap
 * between tensors. The query is float32, like all that follows it; its layers come first in the list, so that backward adds its
 * gradient to that of k and v. */
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
    const recipe r = {.bottleneck = 1, .pooled = 1, .layers = 4, .blocks = {3, 4, 6, 3}, .width = width};
    g->training = spec->training;
    int x = gf_graph_value(g, spec->batch, spec->size, spec->size, g->image_channels ? g->image_channels : 3, type);
    x = layers(g, &r, visual, clip_stem(g, x, width));
    g->projection = attention_pool(g, x, spec->heads ? spec->heads : width / 2, spec->embed_dim);
}

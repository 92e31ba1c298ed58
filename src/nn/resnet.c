/* resnet.c - ResNet-18/34/50 as torchvision defines and names them, a small ResNet-8 for demonstrations, and the projection head.
 *
 *   stem      conv1 7x7 stride 2, bn1, ReLU, max pool 3x3 stride 2; cifar_stem: conv1 3x3 stride 1, bn1, ReLU
 *   layer1-4  BasicBlock (3x3, 3x3) or Bottleneck (1x1, 3x3 with the stride, 1x1 of four times the width); the first block of
 *             layers 2-4 has stride 2; a block that changes shape has downsample.0 (1x1) and downsample.1 (batch norm)
 *   mean      over all positions: the features
 *   head      head.0 linear, head.1 batch norm, (2: ReLU), head.3 linear, head.4 batch norm without weight and bias
 *
 * resnet8 is the smallest member of the family for 32 px images: three layers of one BasicBlock each, 16, 32 and 64 wide, as the
 * original ResNet paper's CIFAR nets of 6n+2 layers with n = 1, but with convolutions on the shortcuts. 64 features.
 */
#include <stdio.h>

#include "nn/graph.h"

typedef struct recipe {
    int bottleneck;
    int layers;
    int blocks[4];
    int64_t width;              /* of the stem and layer1; doubles from layer to layer */
} recipe;

static const recipe recipes[] = {
    [GF_ARCH_RESNET8] = {0, 3, {1, 1, 1}, 16},
    [GF_ARCH_RESNET18] = {0, 4, {2, 2, 2, 2}, 64},
    [GF_ARCH_RESNET34] = {0, 4, {3, 4, 6, 3}, 64},
    [GF_ARCH_RESNET50] = {1, 4, {3, 4, 6, 3}, 64},
};

typedef struct name {
    char text[2 * GF_NAME_BYTES];       /* what is too long is found out where tensors are added */
} name;

static name join(const char *prefix, const char *part) {
    name n;
    snprintf(n.text, sizeof n.text, "%s%s", prefix, part);
    return n;
}

static int conv(gf_graph *g, const char *prefix, const char *part, int in, int64_t out, int kernel, int stride) {
    return gf_graph_conv(g, join(prefix, part).text, in, out, kernel, stride, kernel / 2);
}

static int norm_relu(gf_graph *g, const char *prefix, const char *part, int in) {
    const gf_norm_names names = gf_graph_norm_names(g, join(prefix, part).text, g->value[in].c, 1);
    return gf_graph_norm(g, names, in, -1, 1);
}

/* The input itself, or what has the shape of the block's output. */
static int shortcut(gf_graph *g, const char *prefix, int in, int64_t out, int stride) {
    if (stride == 1 && g->value[in].c == out) return in;
    const int x = conv(g, prefix, "downsample.0", in, out, 1, stride);
    return gf_graph_norm(g, gf_graph_norm_names(g, join(prefix, "downsample.1").text, out, 1), x, -1, 0);
}

static int block(gf_graph *g, const char *prefix, int in, int bottleneck, int64_t width, int stride) {
    const int64_t out = bottleneck ? 4 * width : width;
    int x;
    if (bottleneck) {
        x = norm_relu(g, prefix, "bn1", conv(g, prefix, "conv1", in, width, 1, 1));
        x = norm_relu(g, prefix, "bn2", conv(g, prefix, "conv2", x, width, 3, stride));
        x = conv(g, prefix, "conv3", x, out, 1, 1);
    } else {
        x = norm_relu(g, prefix, "bn1", conv(g, prefix, "conv1", in, width, 3, stride));
        x = conv(g, prefix, "conv2", x, out, 3, 1);
    }
    const gf_norm_names last = gf_graph_norm_names(g, join(prefix, bottleneck ? "bn3" : "bn2").text, out, 1);
    return gf_graph_norm(g, last, x, shortcut(g, prefix, in, out, stride), 1);
}

static int head(gf_graph *g, int features, int hidden, int out) {
    const int x = norm_relu(g, "head.", "1", gf_graph_linear(g, "head.0", features, hidden));
    const int y = gf_graph_linear(g, "head.3", x, out);
    return gf_graph_norm(g, gf_graph_norm_names(g, "head.4", out, 0), y, -1, 0);
}

void gf_resnet_build(gf_graph *g, const gf_net_spec *spec) {
    const recipe *r = &recipes[spec->arch];
    const gf_type type = spec->precision == GF_BF16 ? GF_TYPE_BF16 : GF_TYPE_F32;
    g->training = spec->training;
    int x = gf_graph_value(g, spec->batch, spec->size, spec->size, g->image_channels ? g->image_channels : 3, type);
    x = norm_relu(g, "", "bn1", conv(g, "", "conv1", x, r->width, spec->cifar_stem ? 3 : 7, spec->cifar_stem ? 1 : 2));
    if (!spec->cifar_stem) x = gf_graph_maxpool(g, x, 3, 2, 1);
    for (int layer = 0; layer < r->layers; layer++)
        for (int b = 0; b < r->blocks[layer]; b++) {
            char prefix[32];
            snprintf(prefix, sizeof prefix, "layer%d.%d.", layer + 1, b);
            x = block(g, prefix, x, r->bottleneck, r->width << layer, layer > 0 && b == 0 ? 2 : 1);
        }
    g->features = g->projection = gf_graph_mean(g, x);
    if (spec->head_hidden > 0) g->projection = head(g, g->features, spec->head_hidden, spec->head_out);
}

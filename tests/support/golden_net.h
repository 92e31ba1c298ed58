/* golden_net.h - whole nets against PyTorch in float64: features, projection, loss, every gradient, running statistics, eval
 * mode.
 *
 * The numbers come from tools/generate/make_resnet_golden.py, which also says how the lines are made; weights, images and all
 * else are drawn here from the same streams.
 */
#pragma once

#include "nn/net.h"

/* Fails the cmocka test if a difference exceeds `tolerance`, relative to the norm of its tensor. `name`: in fixtures/resnet. */
void golden_net_check(const char *name, glofnd_device device, gf_precision precision, double tolerance);

/* The same of an encoder for images or texts, from tools/generate/make_clip_golden.py; `name`: in fixtures/clip. */
void golden_tower_check(const char *name, glofnd_device device, gf_precision precision, double tolerance);

#define GOLDEN_TOWERS(X) X(text_gelu) X(text_quick) X(vit_gelu) X(vit_quick) X(clip_resnet)

#define GOLDEN_NETS(X) \
    X(resnet8_cifar) X(resnet18_cifar) X(resnet18_imagenet) X(resnet34_imagenet) X(resnet50_cifar) X(resnet50_imagenet)

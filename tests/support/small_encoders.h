/* small_encoders.h - one small net of each kind, endless inputs for them, and a loss: the sum of z weighted by fixed numbers. */
#pragma once

#include "nn/graph.h"

enum { BATCH = 4, EMBED = 16, CONTEXT = 10, VOCAB = 60 };

extern const gf_net_spec text_spec, vit_spec, clip_spec, resnet_spec;

void net_ok(glofnd_status status, const gf_error *err);
gf_net *net_new(gf_net_spec s);
/* Inputs number first .. first + batch - 1 of an endless list, into the net; then through it. */
void net_load(gf_net *n, int64_t first);
const float *net_forward(gf_net *n, int64_t first, int train);
/* From the derivatives of the loss at those inputs. */
void net_backward(gf_net *n, int64_t first);
gf_tensor *net_tensor(gf_net *n, const char *name);

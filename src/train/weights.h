/* weights.h - the tensors of a network in a safetensors file, under torchvision's names: what PyTorch loads as it is. */
#ifndef GF_TRAIN_WEIGHTS_H
#define GF_TRAIN_WEIGHTS_H

#include "nn/net.h"

/* Replaces `path` when complete. Equal weights give equal bytes. */
glofnd_status gf_weights_save(gf_error *err, gf_net *net, const char *path);
/* Missing tensors and ones of another shape are errors that name them, unless `backbone_only`, where head.* may be missing. Extra
 * ones are ignored. On failure the network holds part of the file. */
glofnd_status gf_weights_load(gf_error *err, gf_net *net, const char *path, int backbone_only);

#endif

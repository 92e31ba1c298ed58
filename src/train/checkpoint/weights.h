/* weights.h - the tensors of networks in a safetensors file, under the names of torchvision or open_clip: what PyTorch loads as
 * it is.
 *
 * A model for images and texts is two nets, and one number that belongs to neither: logit_scale, the log of 1 / temperature.
 *     gf_net *encoders[] = {image, text};
 *     gf_weights_save_model(&err, &(gf_model){encoders, 2, &scale}, GF_MODEL_FILE);
 *     gf_weights_load_model(&err, &model, "RN50.safetensors", GF_WEIGHTS_STRICT, &report);
 */
#ifndef GF_TRAIN_CHECKPOINT_WEIGHTS_H
#define GF_TRAIN_CHECKPOINT_WEIGHTS_H

#include "nn/net.h"

/* Replaces `path` when complete. Equal weights give equal bytes. */
glofnd_status gf_weights_save(gf_error *err, gf_net *net, const char *path);
/* Missing tensors and ones of another shape are errors that name them, unless `backbone_only`, where head.* may be missing. Extra
 * ones are ignored. On failure the network is as it was, unless the file could not be read to its end. */
glofnd_status gf_weights_load(gf_error *err, gf_net *net, const char *path, int backbone_only);

typedef struct gf_model {
    gf_net *const *nets;
    int count;
    float *logit_scale; /* NULL: not written, and not looked for */
} gf_model;

typedef enum gf_weights_rule {
    GF_WEIGHTS_STRICT, /* a tensor that is missing, has another shape or is not known here is an error; all are listed */
    GF_WEIGHTS_PARTIAL /* what fits is loaded, also positions after a resize (positions.h); the rest stays; an error only
                                   if nothing fits */
} gf_weights_rule;

typedef struct gf_weights_report {
    int loaded, missing, misshaped, extra, resized; /* loaded counts the resized ones, too */
    int of_net[2];                                  /* loaded, of each of the first two nets */
    char text[1024]; /* "2 missing: ln_final.weight, ln_final.bias; 1 not known here: fc.weight"; "": all fits */
} gf_weights_report;

glofnd_status gf_weights_save_model(gf_error *err, const gf_model *m, const char *path);
/* float32, float16 and bfloat16 files alike. Image encoders also take a file whose names have no "visual." in front. What torch
 * keeps beside weights (num_batches_tracked, input_resolution, context_length, vocab_size) is nobody's and not counted. report
 * may be NULL; it is filled on failure, too. */
glofnd_status gf_weights_load_model(gf_error *err, const gf_model *m, const char *path, gf_weights_rule rule,
                                    gf_weights_report *report);

#endif

/* model.h - the encoders of a run in a safetensors file: all of them, and the learned temperature (logit_scale), under the names
 * that torchvision or open_clip give them.
 */
#ifndef GF_TRAIN_CHECKPOINT_MODEL_H
#define GF_TRAIN_CHECKPOINT_MODEL_H

#include "train/checkpoint/weights.h"
#include "train/trainer.h"

/* Replaces `path` when complete. */
glofnd_status gf_model_save(gf_error *err, const gf_trainer *t, const char *path);
/* Of a checkpoint: everything must be there, and in its shape. */
glofnd_status gf_model_load(gf_error *err, gf_trainer *t, const char *path);
/* Before a new run does anything: weights to start from that cannot be read, or whose tokens nobody knows (gf_vocabulary_find);
 * an encoder that is to stay as it is, without them (E_OPTION). */
glofnd_status gf_model_check(gf_error *err, const gf_config *c);
/* Weights to start from; `line` says what of the file was used. Two views: all but the head must be there. Image and text:
 * what is missing, has another shape, or is not known here is named, and a learned temperature starts where the file's is; of an
 * encoder that stays as it is, something must be there (E_OPTION). */
glofnd_status gf_model_start(gf_error *err, gf_trainer *t, const char *path, char *line, size_t bytes);

#endif

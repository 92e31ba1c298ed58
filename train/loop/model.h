/* model.h - the model of a run in files: weights, vocabulary, and positional embeddings made for a different number of patches or
 * tokens. */
#pragma once

#include <limits.h>
#include <stdint.h>

#include "data/dataset.h"
#include "loop/trainer.h"
#include "run/config.h"
#include "run/run_folder.h"
#include "text/bpe.h"
#include "util/status.h"

/* ----- weights -----
 *
 * Networks in a safetensors file, under the names of torchvision or open_clip, so that PyTorch loads the file as it is.
 *
 * A model for images and texts is two nets, and one number that belongs to neither: logit_scale, the log of 1 / temperature.
 *     gf_net *encoders[] = {image, text};
 *     gf_weights_save_model(&err, &(gf_model){encoders, 2, &scale}, GF_MODEL_FILE);
 *     gf_weights_load_model(&err, &model, "RN50.safetensors", GF_WEIGHTS_STRICT, &report); */

/* Replaces `path` when complete. Equal weights give equal bytes. */
glofnd_status gf_weights_save(gf_error *err, gf_net *net, const char *path);
/* Missing tensors and ones of a different shape are errors that name them, unless `backbone_only`, where head.* may be missing.
 * Extra ones are ignored. On failure the network is as it was, unless the file could not be read to its end. */
glofnd_status gf_weights_load(gf_error *err, gf_net *net, const char *path, int backbone_only);

typedef struct gf_model {
    gf_net *const *nets;
    int count;
    float *logit_scale; /* NULL: neither written nor read */
} gf_model;

typedef enum gf_weights_rule {
    GF_WEIGHTS_STRICT, /* a tensor that is missing, unknown or of a different shape is an error; all are listed */
    GF_WEIGHTS_PARTIAL /* tensors that fit are loaded, also positions after a resize; an error only if none fits */
} gf_weights_rule;

typedef struct gf_weights_report {
    int loaded, missing, misshaped, extra, resized; /* loaded counts the resized ones, too */
    int of_net[2];                                  /* loaded, of each of the first two nets */
    char text[1024]; /* "2 missing: ln_final.weight, ln_final.bias; 1 unknown: fc.weight"; "": all fits */
} gf_weights_report;

glofnd_status gf_weights_save_model(gf_error *err, const gf_model *m, const char *path);
/* Reads float32, float16 and bfloat16 files. Image encoders also take a file whose names have no "visual." in front. Entries that
 * torch keeps beside weights (num_batches_tracked, input_resolution, context_length, vocab_size) are not counted. report may be
 * NULL; it is filled on failure, too. */
glofnd_status gf_weights_load_model(gf_error *err, const gf_model *m, const char *path, gf_weights_rule rule,
                                    gf_weights_report *report);

/* ----- the encoders of a run: all of them, and the learned temperature (logit_scale) ----- */

/* Replaces `path` when complete. */
glofnd_status gf_model_save(gf_error *err, const gf_trainer *t, const char *path);
/* Loads those of a checkpoint: no tensor may be missing or differ in shape. */
glofnd_status gf_model_load(gf_error *err, gf_trainer *t, const char *path);
/* Before a new run does anything. Weights to start from that cannot be read, or whose vocabulary is unknown
 * (`vocab`); a locked encoder without them (E_OPTION). */
glofnd_status gf_model_check_init(gf_error *err, const gf_config *c);
/* Weights to start from; `line` says which tensors of the file were used. Two views: all but the head must be there. Image and
 * text: tensors that are missing, unknown or of a different shape are named, and a learned temperature starts at the file's; a
 * locked encoder must get some (E_OPTION). */
glofnd_status gf_model_init(gf_error *err, gf_trainer *t, const char *path, char *line, size_t bytes);

/* ----- vocabulary -----
 *
 * The vocabulary of an image-text run, RUN/vocab.txt: a copy of the merges file that was given or belongs to the weights to
 * start from, or learned from the captions when the run begins. */

/* Writes `path`; `line` says where it came from. */
glofnd_status gf_vocabulary_write(gf_error *err, const gf_config *c, const gf_dataset *d, const char *path, char *line,
                                  size_t bytes);
/* *crc identifies the vocabulary. */
glofnd_status gf_vocabulary_load(gf_error *err, const char *path, gf_bpe **out, uint32_t *crc);

/* ----- positions -----
 *
 * Positional embeddings made for a different number of patches or tokens, resized as open_clip does. */

typedef enum gf_positions_kind {
    GF_POSITIONS_NONE, /* no positional embedding, or none that can be resized */
    GF_POSITIONS_GRID, /* of an image: the class token's, then those of a square grid: bicubic, antialiased */
    GF_POSITIONS_LINE  /* of a text: linear */
} gf_positions_kind;

/* The kind of the tensor `name`, which has `from` rows and should have `to`. */
gf_positions_kind gf_positions_of(const char *name, int64_t from, int64_t to);
/* old [from][width] to new [to][width]. */
glofnd_status gf_positions_resize(gf_error *err, gf_positions_kind kind, const float *old, int64_t from, float *new, int64_t to,
                                  int64_t width);

/* encoders.h - the encoders of a run: one for two views of an image, or one for images and one for texts; forward and backward.
 *
 * A batch goes through at once, or in parts (micro_batch): then every part is embedded without keeping activations for
 * backward, the loss sees all embeddings, and each part is computed once more and followed by its backward, gradients added up.
 * Up to rounding that is the gradient of the whole batch; batch norm, though, has the statistics of a part.
 */
#pragma once

#include "loop/feed.h"
#include "run/config.h"

typedef struct gf_encoder { /* one encoder */
    gf_net *net;
    gf_tensor *tensors; /* borrowed from the net */
    int tensor_count;
    int param_count;        /* of these, parameters that training updates; 0: a locked encoder */
    float *state1, *state2; /* optimizer state, blocks of gf_net_alloc_state; state2 may be NULL */
    float *sum;             /* parts: their gradients added up, such a block; else NULL */
    float *kept;            /* parts: [rows][dim] embeddings of the whole batch, where the net is; else NULL */
    int64_t rows;           /* embeddings per step: two views of each sample, or one */
    const float *out;       /* [rows][dim] of the present step, there */
    float *grad;            /* [rows][dim] d loss / d out, there */
} gf_encoder;

typedef struct gf_encoders { /* all zero: none */
    gf_encoder at[2];        /* images, texts */
    int count;
    int64_t batch, part; /* own samples per step and per forward; equal: no parts */
    int64_t dim;
} gf_encoders;

/* The net of encoder k of a configuration (0 images, 1 texts), for training; `samples` per forward, `vocab` tokens. */
gf_net_spec gf_encoder_spec(const gf_config *c, int k, int64_t samples, int vocab);
/* After a failure, too, to be freed. rows: own samples of a batch; ranks, plans: as gf_net_spec. */
glofnd_status gf_encoders_init(gf_error *err, gf_encoders *s, const gf_config *c, int64_t rows, const gf_sync_norm *ranks,
                               int vocab, const char *plans);
void gf_encoders_free(gf_encoders *s);
/* Estimates of their memory and parameters; rows as in gf_encoders_init. */
glofnd_status gf_encoders_estimate(gf_error *err, const gf_config *c, int64_t rows, int vocab, size_t *bytes, size_t *params);

/* Forward: out of every encoder, from the inputs that gf_feed_next gave them. */
glofnd_status gf_encoders_embed(gf_error *err, gf_encoders *s, const gf_feed *feed, const gf_batch *b);
/* Backward: from grad of every encoder to gradients of its parameters (gf_encoder_gradient). */
glofnd_status gf_encoders_backward(gf_error *err, gf_encoders *s, const gf_feed *feed, const gf_batch *b);
float *gf_encoder_gradient(const gf_encoder *w, const gf_tensor *t);
/* [batch][dim] of side i: the views, or image and text. */
const float *gf_encoders_side(const gf_encoders *s, int i);
float *gf_encoders_side_grad(const gf_encoders *s, int i);
void gf_encoders_touch(gf_encoders *s);                /* parameters were changed */
int64_t gf_encoders_text_length(const gf_encoders *s); /* gf_net_text_length of the text encoder; 0: there is none */

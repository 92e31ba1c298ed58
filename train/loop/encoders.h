/* encoders.h - the encoders of a run: one for two views of an image, or one for images and one for texts; what feeds them,
 * forward and backward. */
#pragma once

#include "loader/loader.h"
#include "nn/net.h"
#include "run/config.h"

/* ----- feed -----
 *
 * From the batches of the loader to the inputs of the networks. On the CPU views are copied. On a GPU they are made
 * there: from preloaded images where these are small and of one size, else from pixels copied in the background; the
 * next batch is prepared while the step of the present one runs. Batches are equal on all devices. */

typedef struct gf_feed { /* all zero: closed */
    gf_net *net, *text;  /* of images; of captions, or NULL */
    int views, context;  /* of an image; tokens of a caption */
    size_t pixels;       /* numbers of a view */
    int parts;           /* gf_feed_part loads the inputs instead of gf_feed_next */
    gf_loader *loader;
    struct gf_cuda_feed *device; /* NULL: views come from the loader */
    gf_preload *preload;         /* the device has all images; NULL: pixels come with the batches */
    int ahead;                   /* the device makes, or has made, the batch `step` of `epoch` */
    uint32_t epoch;
    int64_t step;
} gf_feed;

/* The views that training sees; size is resolved. */
gf_augment gf_views_recipe(const gf_config *c);
/* Loader spec: centre crops as the configuration evaluates them (`eval_view`). */
void gf_views_centre_crop(const gf_config *c, gf_loader_spec *spec);

/* spec: views 2, or 1 and a vocabulary where there is a net of captions; without the fields for packed samples. type: of the
 * image network's input. */
glofnd_status gf_feed_open(gf_error *err, gf_feed *f, gf_net *net, gf_net *text, gf_type type, int parts,
                           const gf_loader_spec *spec);
/* Bytes of images to preload to a GPU, for these views; 0: none. */
int64_t gf_feed_preload_bytes(const gf_dataset *d, const gf_augment *views);
void gf_feed_close(gf_feed *f); /* before the net is freed */
/* The next batch of the loader; its views and tokens become the inputs of the networks, unless that is done in parts. */
glofnd_status gf_feed_next(gf_error *err, gf_feed *f, gf_batch *out);
/* Samples first .. first + count - 1 of the present batch become the inputs. Images have one view then. */
glofnd_status gf_feed_part(gf_error *err, const gf_feed *f, const gf_batch *b, int64_t first, int64_t count);
/* The step is queued: the device may begin with the next batch, if that is ready. Errors come again in next. */
void gf_feed_ahead(gf_feed *f);

/* ----- support views -----
 *
 * FNC's support set: extra views of every image of a batch, embedded without gradient. They only decide which pairs are flagged
 * (`fnc_support`). Task views; every rank embeds those of its own samples. */

enum { GF_SUPPORT_LOADERS = 8 }; /* two views each */

typedef struct gf_support {
    int views;      /* per image; 0: none */
    int64_t images; /* of a batch */
    int64_t dim;
    gf_loader *loader[GF_SUPPORT_LOADERS];
    uint32_t epoch; /* of the next batch of the loaders; */
    int64_t step;   /* -1: unknown */
    float *rows;    /* [views][images][dim] on the host */
} gf_support;

/* main: of the loader of training; its samples in its order, with views of their own. */
glofnd_status gf_support_open(gf_error *err, gf_support *s, const gf_loader_spec *main, int views, int64_t dim);
void gf_support_close(gf_support *s); /* a zeroed one is fine */
/* Embeds the views of the batch at this step of the epoch with the present weights; running averages do not move. The net's
 * input is overwritten. */
glofnd_status gf_support_embed(gf_error *err, gf_support *s, gf_net *net, uint32_t epoch, int64_t step);

/* ----- encoders -----
 *
 * A batch goes through at once, or in parts (micro_batch): then every part is embedded without keeping activations for
 * backward, the loss sees all embeddings, and each part is computed once more and followed by its backward, gradients added up.
 * Up to rounding that is the gradient of the whole batch; batch norm, though, has the statistics of a part. */

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
void gf_encoders_touch(gf_encoders *s);                /* parameters were changed */
int64_t gf_encoders_text_length(const gf_encoders *s); /* gf_net_text_length of the text encoder; 0: there is none */

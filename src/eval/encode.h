/* encode.h - the encoder of a run, in eval mode, applied to a dataset.
 *
 *     gf_run_encoder *e;  TRY(gf_run_encoder_create(err, &(gf_run_encoder_spec){.run = "run1"}, &e));
 *     gf_features f;  TRY(gf_encode(err, e, data, NULL, NULL, &f));  ...  gf_features_free(&f);  gf_run_encoder_free(e);
 */
#ifndef GF_EVAL_ENCODE_H
#define GF_EVAL_ENCODE_H

#include "data/dataset.h"
#include "eval/features.h"
#include "loader/loader.h"
#include "run/config.h"
#include "text/bpe/bpe.h"

typedef struct gf_run_encoder gf_run_encoder;

typedef struct gf_encoder_device { /* all zero: as the run was trained */
    const char *device;            /* "cpu" or "cuda", which then must be usable; NULL: the run's, or the CPU where that is not */
    int threads;                   /* 0: of the run */
} gf_encoder_device;

typedef struct gf_run_encoder_spec {
    const char *run; /* folder of a run; its config.cfg says which network */
    int head;        /* projections of the head instead of features of the backbone; a run of task clip always gives
                                   the embeddings that its loss saw */
    int text;        /* task clip: the encoder of captions instead of that of images */
    int untrained;   /* the weights the run began with, or its seed's */
    int64_t batch;   /* images per forward; 0: chosen */
    gf_encoder_device where;
} gf_run_encoder_spec;

/* E_OPTION: there is no device of this name. */
glofnd_status gf_run_encoder_device(gf_error *err, const char *name, glofnd_device *out);
/* Weights are RUN/model.safetensors or, where the run has not ended, its newest checkpoint's. */
glofnd_status gf_run_encoder_create(gf_error *err, const gf_run_encoder_spec *spec, gf_run_encoder **out);
void gf_run_encoder_free(gf_run_encoder *e);
const gf_config *gf_run_encoder_config(const gf_run_encoder *e); /* of the run, also where the encoder runs elsewhere */
int gf_run_encoder_threads(const gf_run_encoder *e);
/* Why it runs on the CPU although the run was trained on another device, and none was asked for; "" otherwise. */
const char *gf_run_encoder_cpu_fallback(const gf_run_encoder *e);
/* `status` of opening the data a run names; if that is not there, the message goes on with what to do. */
glofnd_status gf_run_encoder_data_hint(gf_error *err, glofnd_status status);
const char *gf_run_encoder_weights(const gf_run_encoder *e); /* file they came from; "" for untrained ones */
int64_t gf_run_encoder_dim(const gf_run_encoder *e);
/* The tokens of a run of task clip; NULL otherwise, and for an encoder of images. */
const gf_bpe *gf_run_encoder_vocabulary(const gf_run_encoder *e);
/* Tokens [n][context of the configuration] to out [n][dim]; the encoder of captions. */
glofnd_status gf_run_encoder_tokens(gf_error *err, gf_run_encoder *e, const int32_t *tokens, int64_t n, float *out);
/* Images [n][size][size][3] as a loader gives them, to out [n][dim]. */
glofnd_status gf_run_encoder_images(gf_error *err, gf_run_encoder *e, const float *images, int64_t n, float *out);

typedef struct gf_encode_spec {
    const int64_t *ids; /* [id_count] rising positions in the dataset, borrowed; NULL: all of it */
    int64_t id_count;
    const int32_t *labels; /* [id_count] of these samples, borrowed; NULL: as the dataset numbers them */
    int augmented;         /* random crop and flip, those of (seed, epoch), instead of the centre crop */
    uint64_t seed;
    uint32_t epoch;
    int aligned; /* a damaged sample keeps its row: zeros, label -1. Else it is left out */
    void (*damaged)(void *user, int64_t i, const char *message); /* may be NULL */
    void (*progress)(void *user, int64_t done, int64_t total);   /* samples; may be NULL */
    void *user;
} gf_encode_spec;

/* How the loader cuts images to size where they are not augmented: those of the network's size are taken as they are; others are
 * scaled so that the crop is 7/8 of the shorter side (224 of 256), or with eval_view clip all of it, bicubically. */
void gf_encode_centre_crop(const gf_config *c, const gf_dataset *data, gf_loader_spec *spec);
/* Samples in order; not augmented: as gf_encode_centre_crop says. */
glofnd_status gf_encode_samples(gf_error *err, gf_run_encoder *e, const gf_dataset *data, const gf_encode_spec *spec,
                                gf_features *out);
/* Centre crops of all samples; damaged ones are left out and told to `damaged` (may be NULL). */
glofnd_status gf_encode(gf_error *err, gf_run_encoder *e, const gf_dataset *data,
                        void (*damaged)(void *user, int64_t i, const char *message), void *user, gf_features *out);

/* Every caption of every sample, in order, by the encoder of captions: a row each, with the label of its sample; *sample (to be
 * freed) says which that is, [out->n]. Samples without caption, and captions without a word, are left out and told. `tell`: only
 * its callbacks are used; progress counts samples. */
glofnd_status gf_encode_captions(gf_error *err, gf_run_encoder *e, const gf_dataset *data, const gf_encode_spec *tell,
                                 gf_features *out, int64_t **sample);

#endif

/* encode.h - the encoder of a run, in eval mode, applied to a dataset.
 *
 *     gf_run_encoder *e;  TRY(gf_run_encoder_create(err, &(gf_run_encoder_spec){.run = "run1"}, &e));
 *     gf_features f;  TRY(gf_encode_samples(err, e, data, &(gf_encode_spec){0}, &f));  ...  gf_features_free(&f);
 *     gf_run_encoder_free(e);
 */
#pragma once

#include "data/dataset.h"
#include "eval/features.h"
#include "loader/loader.h"
#include "run/config.h"
#include "run/run_folder.h"
#include "text/bpe.h"

typedef struct gf_run_encoder gf_run_encoder;

typedef struct gf_encoder_device { /* all zero: as the run was trained */
    const char *device;            /* "cpu" or "cuda", E_DEVICE where unusable; NULL: the run's device, or the CPU if that is
                                      unusable */
    int threads;                   /* 0: the run's number */
} gf_encoder_device;

typedef struct gf_run_encoder_spec {
    const char *run;         /* run folder; its config.cfg describes the network */
    const gf_config *config; /* resolved: an image encoder without a run; run is NULL */
    const char *weights;     /* config: safetensors file; NULL: initial weights, until gf_run_encoder_copy */
    int head;                /* projections of the head instead of features of the backbone; task clip: always projections */
    int text;                /* task clip: the text encoder instead of the image encoder */
    int untrained;           /* initial weights of the run: its init file, or its seed */
    int64_t batch;           /* images per forward; 0: chosen */
    gf_encoder_device placement;
} gf_run_encoder_spec;

/* E_OPTION: unknown name. */
glofnd_status gf_run_encoder_device(gf_error *err, const char *name, glofnd_device *out);
/* Weights: those of the newest complete state (run/run_folder.h), their checksum compared. */
glofnd_status gf_run_encoder_create(gf_error *err, const gf_run_encoder_spec *spec, gf_run_encoder **out);
void gf_run_encoder_free(gf_run_encoder *e);
/* Takes the weights of `net`, which has all tensors of this encoder, and may have more. */
glofnd_status gf_run_encoder_copy(gf_error *err, gf_run_encoder *e, gf_net *net);
const gf_config *gf_run_encoder_config(const gf_run_encoder *e); /* the run's, whatever the placement */
/* SPEC to open for the data of the run: that of its configuration, or where it was found (run_data.h). */
const char *gf_run_encoder_data(const gf_run_encoder *e);
int gf_run_encoder_threads(const gf_run_encoder *e);
const gf_run_state *gf_run_encoder_state(const gf_run_encoder *e); /* untrained: weights "" */
/* Reason for running on the CPU although the run used a different device and none was requested; "" otherwise. */
const char *gf_run_encoder_cpu_fallback(const gf_run_encoder *e);
/* `status` of opening the dataset that a run names; where it is missing, the message gets advice about --data. */
glofnd_status gf_run_encoder_data_hint(gf_error *err, glofnd_status status);
int64_t gf_run_encoder_dim(const gf_run_encoder *e);
/* E_ARGUMENT: the run has no text encoder. A folder that cannot be read as a run is left to gf_run_encoder_create. */
glofnd_status gf_run_check_text(gf_error *err, const char *run);
/* Vocabulary of a text encoder; NULL for an image encoder. */
const gf_bpe *gf_run_encoder_vocabulary(const gf_run_encoder *e);
/* tokens [n][context] to out [n][dim]; for a text encoder. */
glofnd_status gf_run_encoder_tokens(gf_error *err, gf_run_encoder *e, const int32_t *tokens, int64_t n, float *out);
/* images [n][size][size][3], as a loader makes them, to out [n][dim]. */
glofnd_status gf_run_encoder_images(gf_error *err, gf_run_encoder *e, const float *images, int64_t n, float *out);

typedef struct gf_encode_spec {
    const int64_t *ids; /* [id_count] rising positions in the dataset, borrowed; NULL: all of it */
    int64_t id_count;
    const int32_t *labels; /* [id_count] labels of these samples, borrowed; NULL: the dataset's */
    int augmented;         /* random crop and flip of (seed, epoch) instead of the centre crop */
    uint64_t seed;
    uint32_t epoch;
    int aligned; /* an unreadable sample keeps its row: zeros, label -1; otherwise it is left out */
    void (*unreadable)(void *user, int64_t i, const char *message); /* may be NULL */
    void (*progress)(void *user, int64_t done, int64_t total);      /* samples; may be NULL */
    void *user;
} gf_encode_spec;

/* Sets the loader's centre crop. An image of the network's size stays as it is; others are scaled so that the crop is 7/8 of the
 * shorter side (224 of 256), or, with eval_view clip, all of it, bicubically. */
void gf_trainer_centre_crop(const gf_config *c, const gf_dataset *data, gf_loader_spec *spec);
/* Samples in order; where not augmented, as gf_trainer_centre_crop() sets. */
glofnd_status gf_encode_samples(gf_error *err, gf_run_encoder *e, const gf_dataset *data, const gf_encode_spec *spec,
                                gf_features *out);
/* Every caption of every sample, in order, by the text encoder: a row each, with the label of its sample. *sample [out->n],
 * malloc'ed: the sample of a row. Samples without caption and captions without a word are left out and reported. Only the
 * callbacks of `report` are used; progress counts samples. */
glofnd_status gf_encode_captions(gf_error *err, gf_run_encoder *e, const gf_dataset *data, const gf_encode_spec *report,
                                 gf_features *out, int64_t **sample);

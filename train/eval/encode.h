/* encode.h - the encoder of a run, in eval mode, applied to a dataset.
 *
 *     gf_run_encoder *e;  TRY(gf_run_encoder_create(err, &(gf_run_encoder_spec){.run = "run1"}, &e));
 *     gf_features f;  TRY(gf_encode_samples(err, e, data, &(gf_encode_spec){0}, &f));  ...  gf_features_free(&f);
 *     gf_run_encoder_free(e);
 */
#pragma once

#include "data/dataset.h"
#include "loader/loader.h"
#include "pairs/pairs_sweep.h"
#include "run/config.h"
#include "run/run_folder.h"
#include "text/bpe.h"
#include "util/status.h"

/* ----- features of a dataset by an encoder: one row per readable sample, in the order of the dataset ----- */

typedef struct gf_features {
    int64_t n, dim;
    float *x;       /* [n][dim] */
    int32_t *label; /* [n]; -1: none */
} gf_features;

glofnd_status gf_features_alloc(gf_error *err, gf_features *f, int64_t n, int64_t dim);
void gf_features_free(gf_features *f);             /* accepts NULL and a zeroed struct */
int32_t gf_features_classes(const gf_features *f); /* largest label + 1; 0: no labels */
/* Moves `share` of each class, rounded down and chosen by `seed`, to *held; both keep the order of the dataset. */
glofnd_status gf_features_hold_out(gf_error *err, gf_features *f, double share, uint64_t seed, gf_features *held);

/* Scales rows to length 1; rows of zeros stay. */
void gf_features_unit(gf_features *f);
/* Shifts and scales the columns of `train` to mean 0 and standard deviation 1 (a constant column to 0), and those of `test`
 * (may be NULL) by the same numbers. */
glofnd_status gf_features_standardise(gf_error *err, gf_features *train, gf_features *test);

/* ----- encode ----- */

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
/* SPEC to open for the data of the run: that of its configuration, or where it was found (gf_run_data_find). */
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
void gf_views_centre_crop(const gf_config *c, gf_loader_spec *spec);
/* Samples in order; where not augmented, as gf_views_centre_crop() sets. */
glofnd_status gf_encode_samples(gf_error *err, gf_run_encoder *e, const gf_dataset *data, const gf_encode_spec *spec,
                                gf_features *out);
/* Every caption of every sample, in order, by the text encoder: a row each, with the label of its sample. *sample [out->n],
 * malloc'ed: the sample of a row. Samples without caption and captions without a word are left out and reported. Only the
 * callbacks of `report` are used; progress counts samples. */
glofnd_status gf_encode_captions(gf_error *err, gf_run_encoder *e, const gf_dataset *data, const gf_encode_spec *report,
                                 gf_features *out, int64_t **sample);

/* ----- images and all captions of a dataset through the two encoders of an image-text run ----- */

typedef struct gf_text_pairs {
    gf_features image; /* a row per image, in the order of the dataset */
    gf_features text;  /* a row per caption */
    int64_t *owner;    /* [text.n] row of image */
    int64_t repeated;  /* samples with the image of an earlier one (a CSV line per caption): not encoded again */
    int64_t lost;      /* captions of unreadable images */
} gf_text_pairs;

/* Samples with equal names are one image. report: callbacks for images and for captions. Unreadable images are left out with
 * their captions; images without caption stay. E_ARGUMENT: the data has no captions. */
glofnd_status gf_encode_pairs(gf_error *err, gf_run_encoder *image, gf_run_encoder *text, const gf_dataset *data,
                              const gf_encode_spec report[2], gf_text_pairs *out);
void gf_text_pairs_free(gf_text_pairs *p); /* accepts a zeroed struct */

/* ----- labelled embeddings of views of samples, the rows that pairs are made of ----- */

typedef struct gf_view_set {          /* embeddings of views of samples */
    int64_t n, dim;                   /* rows */
    float *z;                         /* [n][dim] any length */
    int64_t *id;                      /* [n] position of the sample in its dataset; rows of one sample form no pair */
    int32_t *label;                   /* [n]; -1: unknown, different from every label */
    const struct gf_view_set *others; /* borrowed; pairs are rows of this set with rows of `others`, which has the same samples
                                         in the same rows (images with texts). NULL: rows of this set with each other */
} gf_view_set;

/* The embeddings of a set, for a sweep. */
static inline gf_vectors gf_view_vectors(const gf_view_set *s) { return (gf_vectors){.x = s->z, .n = s->n, .dim = s->dim}; }

/* The set that the rows are compared with. */
static inline const gf_view_set *gf_view_columns(const gf_view_set *s) { return s->others ? s->others : s; }

glofnd_status gf_view_set_alloc(gf_error *err, gf_view_set *s, int64_t n, int64_t dim);
void gf_view_set_free(gf_view_set *s); /* accepts NULL and a zeroed struct */

/* ----- run embeddings ----- */

/* A trained run: embeddings of its samples, as centre crops or as training draws them, and its learned
 * thresholds. Embeddings are projections of the head, which the loss compares, in eval mode. */

typedef struct gf_trained_run gf_trained_run;

typedef struct gf_trained_run_spec {
    const char *run, *data; /* data NULL or "": the SPEC the run was trained on */
    gf_encoder_device placement;
    int partial; /* a tenth of the samples may be missing or new since the training */
    void (*unreadable)(void *user, int64_t i, const char *message); /* a sample that is left out or replaced; may be NULL */
    void (*progress)(void *user, int64_t done, int64_t total);      /* images; may be NULL */
    void *user;
} gf_trained_run_spec;

/* E_IO: not a run folder, or without weights. E_ARGUMENT: the run has learned thresholds, and the data differs from the run's, so
 * that thresholds cannot be matched to samples (loop/anchors.h). */
glofnd_status gf_trained_run_create(gf_error *err, const gf_trained_run_spec *spec, gf_trained_run **out);
void gf_trained_run_free(gf_trained_run *f); /* accepts NULL */
const gf_config *gf_trained_run_config(const gf_trained_run *f);
gf_dataset_info gf_trained_run_info(const gf_trained_run *f);
/* Samples that were removed or added since the training, in words; "": none. */
const char *gf_trained_run_changes(const gf_trained_run *f);
int gf_trained_run_threads(const gf_trained_run *f); /* of the encoder */

/* Every sample once, centre crop, in the order in which training would draw the next epoch; at most the first `max` of that
 * order. Unreadable ones are left out. */
glofnd_status gf_trained_run_centre_crops(gf_error *err, gf_trained_run *f, int64_t max, gf_view_set *out);
/* Two augmented views of each sample in consecutive rows, in batches as training would draw them after its last epoch: complete
 * batches until there are `samples`, from at most `epochs` epochs (0: no limit). */
glofnd_status gf_trained_run_augmented(gf_error *err, gf_trained_run *f, int64_t batch, int64_t samples, int epochs,
                                       gf_view_set *out);
/* Another draw of views of the samples id [n], in their order, two consecutive rows each: views 2 draw and 2 draw + 1 of the
 * epoch after the last one. Draw 0 has the views that gf_trained_run_augmented draws in its first epoch. */
glofnd_status gf_trained_run_draw(gf_error *err, gf_trained_run *f, const int64_t *id, int64_t n, int draw, gf_view_set *out);
/* The dataset, the image encoder, and with task clip the text encoder (else NULL). */
const gf_run_encoder *gf_trained_run_encoder(const gf_trained_run *f);
gf_run_encoder *gf_trained_run_captions(const gf_trained_run *f);

/* Thresholds of the samples id [n] at the end of the run; NaN: never visited. side: 0, or with task clip 0 for images and 1 for
 * texts. Returns the number of thresholds that are not NaN; 0 also where the detector never started, or the run has no
 * checkpoint. */
int64_t gf_trained_run_lambda(const gf_trained_run *f, int side, const int64_t *id, int64_t n, float *lambda);

/* ----- run captions ----- */

/* A trained image-text run: embeddings of images and of one caption each, and groups of samples that share a
 * caption. */

/* Samples as gf_trained_run_centre_crops() chooses and orders them: the centre crop of the image, and the caption that the next
 * epoch would draw. Row i of both sets is one sample, and each set is the other's `others`. Samples without a caption are left
 * out. */
glofnd_status gf_trained_run_image_text(gf_error *err, gf_trained_run *f, int64_t max, gf_view_set *image, gf_view_set *text);
/* Labels of both sets become groups: samples that share a caption, token by token, directly or through others. *repeated: number
 * of samples whose group has an earlier member. */
glofnd_status gf_trained_run_caption_groups(gf_error *err, const gf_trained_run *f, gf_view_set *image, gf_view_set *text,
                                            int64_t *repeated);

/* ----- run data ----- */

/* Where the data of a run is: config.cfg has its SPEC as it was given, which may be a path relative to the folder
 * where the run was started. */

/* The SPEC to open. A relative place that does not exist from here is looked for from the run's folder, and from those above
 * it, the nearest first. 1: found there, `out` is the SPEC with that place; 0: `out` is `spec`. */
int gf_run_data_find(const char *run, const char *spec, char *out, size_t bytes);
/* The same of the SPEC in the run's configuration. E_IO: it has none. */
glofnd_status gf_run_data_of(gf_error *err, const char *run, char *out, size_t bytes);

/* ----- weights config ----- */

/* The network that a file of weights belongs to, by the names and shapes of its tensors: torchvision's
 * ResNets, open_clip's image encoders, models of this program. For encoding without a run. */

typedef struct gf_weights_request { /* 0, NULL: by the file */
    const char *arch;               /* must be what the file holds */
    int size;       /* pixels; 0: those of the positions in the file; ResNets: 224, with the CIFAR stem of the images */
    int quick_gelu; /* vit: the GELU that OpenAI's weights were made with */
} gf_weights_request;

/* A configuration for gf_run_encoder_spec. E_FORMAT: no network of this program has such tensors. */
glofnd_status gf_weights_config(gf_error *err, const char *path, const gf_weights_request *request, const gf_dataset *data,
                                gf_config *out);

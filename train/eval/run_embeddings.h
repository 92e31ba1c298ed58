/* run_embeddings.h - a trained run: embeddings of its samples, as centre crops or as training draws them, and its learned
 * thresholds. Embeddings are projections of the head, which the loss compares, in eval mode. */
#pragma once

#include "eval/encode.h"
#include "eval/view_set.h"

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
 * that thresholds cannot be matched to samples (train/checkpoint/learned_thresholds.h). */
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
const gf_dataset *gf_trained_run_data(const gf_trained_run *f);
const gf_run_encoder *gf_trained_run_encoder(const gf_trained_run *f);
gf_run_encoder *gf_trained_run_captions(const gf_trained_run *f);
void gf_trained_run_report_unreadable(const gf_trained_run *f, int64_t i, const char *message); /* calls `unreadable` */

/* Thresholds of the samples id [n] at the end of the run; NaN: never visited. side: 0, or with task clip 0 for images and 1 for
 * texts. Returns the number of thresholds that are not NaN; 0 also where the detector never started, or the run has no
 * checkpoint. */
int64_t gf_trained_run_lambda(const gf_trained_run *f, int side, const int64_t *id, int64_t n, float *lambda);

/* run_embeddings.h - a frozen run looked at from outside: embeddings of its samples, as they are or as training draws them, and
 * the thresholds it has learned. Embeddings are projections of the head, which is what the loss compares, in eval mode. */
#ifndef GF_EVAL_FLAGS_RUN_EMBEDDINGS_H
#define GF_EVAL_FLAGS_RUN_EMBEDDINGS_H

#include "eval/encode.h"
#include "eval/flags/view_set.h"

typedef struct gf_trained_run gf_trained_run;

typedef struct gf_trained_run_spec {
    const char *run, *data; /* data NULL or "": the SPEC the run was trained on */
    gf_encoder_device where;
    void (*damaged)(void *user, int64_t i, const char *message); /* a sample that is left out or replaced; may be NULL */
    void (*progress)(void *user, int64_t done, int64_t total);   /* images; may be NULL */
    void *user;
} gf_trained_run_spec;

/* E_IO: not the folder of a run, or nothing trained in it yet. E_ARGUMENT: it has learned thresholds, and the data is not that
 * of the run: whose they are is not known (train/checkpoint/anchors_learned.h). */
glofnd_status gf_trained_run_create(gf_error *err, const gf_trained_run_spec *spec, gf_trained_run **out);
void gf_trained_run_free(gf_trained_run *f); /* NULL is fine */
const gf_config *gf_trained_run_config(const gf_trained_run *f);
gf_dataset_info gf_trained_run_info(const gf_trained_run *f);
int gf_trained_run_threads(const gf_trained_run *f); /* of the encoder */

/* Every sample once, centre crop, in the order in which training would draw the next epoch; of more than `most` samples the
 * first `most` of that order. Damaged ones are left out. */
glofnd_status gf_trained_run_centre_crops(gf_error *err, gf_trained_run *f, int64_t most, gf_view_set *out);
/* Two augmented views of samples, side by side, in batches as training would draw them in the epochs after its last one: as many
 * whole batches as it takes to have `samples`, but no more than `epochs` (0: any number). */
glofnd_status gf_trained_run_augmented(gf_error *err, gf_trained_run *f, int64_t batch, int64_t samples, int epochs,
                                       gf_view_set *out);
/* The frozen run's own: its data, its encoder of images, and in a run of task clip the encoder of captions, else NULL. */
const gf_dataset *gf_trained_run_data(const gf_trained_run *f);
const gf_run_encoder *gf_trained_run_encoder(const gf_trained_run *f);
gf_run_encoder *gf_trained_run_captions(const gf_trained_run *f);
void gf_trained_run_report_unreadable(const gf_trained_run *f, int64_t i, const char *message); /* tells `damaged` */

/* Thresholds in force at the end of the run, of the samples id [n]; NaN for those never visited. side: 0, or in a run of task
 * clip 0 for images and 1 for texts. Returns the number of the others; 0 also where the detector never started, or the run has no
 * checkpoint. */
int64_t gf_trained_run_lambda(const gf_trained_run *f, int side, const int64_t *id, int64_t n, float *lambda);

#endif

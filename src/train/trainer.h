/* trainer.h - one pretraining run in memory: data, network, optimizer, method; and one step of it. */
#ifndef GF_TRAIN_TRAINER_H
#define GF_TRAIN_TRAINER_H

#include "data/loader.h"
#include "optim/param.h"
#include "train/config.h"

typedef struct gf_epoch_sums {  /* of the present epoch; in a checkpoint, so that the epoch's line is the same after a resume */
    double loss, lambda, kept, steps;
    double pairs, flagged, same, hits;          /* counts, exact in double */
    double precision, recall, quality_steps;    /* means of per-anchor values */
    double damaged;                             /* samples that could not be read */
} gf_epoch_sums;

typedef struct gf_step_times {  /* seconds of one step */
    double load, forward, loss, backward, optimizer;
    double read, augment;       /* work of the loader's threads behind this batch */
} gf_step_times;

typedef struct gf_trainer {
    gf_config config;
    gf_dataset *data;
    gf_dataset_info info;
    gf_loader *loader;
    gf_net *net;
    glofnd_ctx *ctx;
    glofnd_store *store;
    gf_tensor *tensors;         /* borrowed from the net */
    int tensor_count, param_count;
    gf_param *params;           /* [param_count] */
    float *state1, *state2;     /* optimizer state, one block each, in the order of params */
    float *x, *grad;            /* [2 batch][size][size][3]; [2 batch][head_out] */
    int64_t state_count;
    int64_t epoch_steps;        /* steps per epoch */
    int64_t step;               /* steps done, over all epochs */
    gf_epoch_sums sums;
    /* of the last step */
    glofnd_stats stats;
    gf_step_times times;
    double lr, grad_norm;
} gf_trainer;

/* In two parts, so that what is to come can be said before memory is taken for it. open: the data, and what of the configuration
 * follows from it (size, stem, steps); config is resolved. build: all the rest; `damaged`, `user` as in gf_loader_spec. */
glofnd_status gf_trainer_open(gf_error *err, const gf_config *config, gf_trainer **out);
glofnd_status gf_trainer_build(gf_error *err, gf_trainer *t, void (*damaged)(void *, int64_t, const char *), void *user);
void gf_trainer_free(gf_trainer *t);
int64_t gf_trainer_steps(const gf_trainer *t);          /* of the whole run */
/* Memory that build takes and training holds, roughly; after open. */
glofnd_status gf_trainer_estimate(gf_error *err, const gf_trainer *t, size_t *bytes);
/* One step. E_NUMERIC names the step and a sample if an embedding, the loss or the gradient is not finite. Weights are then as
 * before the step; the store and batch-norm statistics may not be, so a failed trainer is not to be saved. */
glofnd_status gf_trainer_step(gf_error *err, gf_trainer *t);

#endif

/* trainer.h - one pretraining run in memory: data, network, optimizer, method; and one step of it. */
#ifndef GF_TRAIN_TRAINER_H
#define GF_TRAIN_TRAINER_H

#include "data/loader.h"
#include "optim/param.h"
#include "train/config.h"

typedef struct gf_epoch_sums {  /* of the steps of the present epoch; part of a checkpoint, so that its line is the same after a resume */
    double loss, lambda, kept, steps;
    double pairs, flagged, same, hits;          /* counts, exact in double */
    double precision, recall, quality_steps;    /* means of per-anchor values */
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

/* `data_damaged`, `user`: as in gf_loader_spec. config is resolved. */
glofnd_status gf_trainer_create(gf_error *err, const gf_config *config, void (*damaged)(void *, int64_t, const char *), void *user,
                                gf_trainer **out);
void gf_trainer_free(gf_trainer *t);
int64_t gf_trainer_steps(const gf_trainer *t);          /* of the whole run */
size_t gf_trainer_bytes(const gf_trainer *t);           /* memory held, roughly */
/* One step. E_NUMERIC names the step and the first samples if the loss is not finite; nothing was updated then but the store. */
glofnd_status gf_trainer_step(gf_error *err, gf_trainer *t);

#endif

/* trainer.h - one pretraining run in memory: data, encoders, optimizer, method; and one step of it. */
#pragma once

#include "loop/encoders.h"
#include "loop/groups.h"
#include "loop/guide.h"
#include "loop/loss_stage.h"
#include "loop/ranks.h"
#include "optim/optim.h"
#include "run/run_log.h"
#include "text/bpe.h"

typedef struct gf_epoch_sums { /* of the present epoch; checkpoints hold them, so that its log line is the same after a resume */
    double loss, lambda, kept, steps;
    double pairs, flagged, same, hits;       /* counts, exact in double */
    double precision, recall, quality_steps; /* means of per-anchor values */
    double damaged;                          /* unreadable samples */
} gf_epoch_sums;

typedef struct gf_step_times { /* seconds of one step; on a GPU `forward` holds forward to optimizer */
    double load, forward, loss, backward, optimizer;
    double read, augment; /* work of the loader's threads for this batch */
} gf_step_times;

typedef struct gf_trainer {
    gf_config config;
    gf_dataset *data;
    gf_dataset_info info;
    gf_comm *comm;              /* borrowed; NULL: one rank. To be set before build */
    gf_distributed distributed; /* several ranks */
    gf_feed feed;
    gf_loader *loader; /* the feed's */
    gf_encoders encoders;
    gf_bpe *bpe;              /* task clip: tokens of captions */
    uint32_t vocab_crc;       /* identifies its vocabulary */
    gf_loss_stage *loss;      /* the method, with the state of the anchors */
    const char *store_path;   /* working file of that state, borrowed; NULL: in memory. To be set before build */
    gf_support support;       /* FNC: extra views */
    gf_sample_groups groups;  /* detector groups: of a file or by k-means */
    gf_guide guide;           /* detector fixed */
    int learns_tau, clusters; /* of the configuration: a learned temperature, k-means of all samples */
    double base_lr;           /* before its schedule */
    gf_learned_tau scale;     /* the learned temperature */
    int learns_bias;          /* loss sigmoid */
    gf_learned_bias bias;
    gf_param *params; /* [param_count] of all encoders */
    int param_count;
    gf_optim *optim;
    const char *plans_path; /* GPU: file of chosen algorithms, borrowed; NULL: none. To be set before build */
    gf_batch batch;         /* of the present step */
    double marks[5];        /* clock at the stages of the step */
    int64_t state_count;    /* numbers of one optimizer state, all encoders */
    int64_t epoch_steps;    /* steps per epoch */
    int64_t step;           /* steps done, over all epochs */
    gf_epoch_sums sums;
    /* of the last step */
    glofnd_stats stats;
    glofnd_counters counters;
    gf_step_times times;
    double lr, grad_norm;
} gf_trainer;

/* Creation in two parts, so that a run can be announced before memory is allocated. open: the data, and the values of the
 * configuration that follow from it (size, stem, steps); config is resolved. build: all the rest; `unreadable`, `user` as in
 * gf_loader_spec. Between them, with task clip, the vocabulary is loaded; without the call build takes that of the
 * configuration. */
glofnd_status gf_trainer_open(gf_error *err, const gf_config *config, gf_trainer **out);
glofnd_status gf_trainer_vocabulary(gf_error *err, gf_trainer *t, const char *path);
glofnd_status gf_trainer_build(gf_error *err, gf_trainer *t, void (*unreadable)(void *, int64_t, const char *), void *user);
void gf_trainer_free(gf_trainer *t);
int64_t gf_trainer_steps(const gf_trainer *t); /* of the whole run */
/* One step. E_NUMERIC names the step and a sample if an embedding, the loss or the gradient is not finite. Weights are then as
 * before the step; the store and batch-norm statistics may not be, so a failed trainer must not be saved. */
glofnd_status gf_trainer_step(gf_error *err, gf_trainer *t);

/* ----- memory (memory.c) ----- */

/* Estimate of the memory that build allocates and training holds; after open. */
glofnd_status gf_trainer_estimate(gf_error *err, const gf_trainer *t, size_t *bytes);
/* The memory that a run holds, by kind: counted from allocations, not estimated. After build; the first steps may still allocate
 * some. */
void gf_trainer_memory(const gf_trainer *t, gf_memory_split *out);
void gf_memory_of_run(const gf_trainer *t, gf_memory_record *out);

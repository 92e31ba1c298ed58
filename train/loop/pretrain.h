/* pretrain.h - the loop around the step: run folder, resume, logs, checkpoints, interruption. */
#pragma once

#include <stdatomic.h>

#include "dist/comm.h"
#include "loop/trainer.h"
#include "run/config.h"
#include "run/run_log.h"

struct gf_epoch_watch; /* below */

typedef struct gf_pretrain {
    gf_config config;                   /* not yet resolved */
    const char *run;                    /* folder, made if missing */
    int resume;                         /* continue from the newest complete checkpoint, if there is one */
    const char *config_was;             /* resume: "lost" or "cut", of RUN/config.cfg (gf_resume_read); NULL: it is complete */
    int remap;                          /* when resuming, also with other data: anchors follow their samples */
    int force;                          /* start also where memory will not suffice */
    int quiet;                          /* no progress */
    int plain;                          /* stderr cannot redraw a line: progress as lines */
    const atomic_int *stop;             /* set from outside, as by Ctrl-C: the run ends after a checkpoint */
    gf_comm *comm;                      /* several ranks, each of which calls gf_pretrain_run; NULL: one */
    void (*report)(const char *line);   /* messages for people: start, resume, end; may be NULL */
    const char *left_out;               /* on_epoch of a file, which the caller does not run; NULL: none */
    const struct gf_epoch_watch *watch; /* evaluation and hook at the end of epochs; NULL: neither, whatever the configuration */
} gf_pretrain;

typedef enum gf_pretrain_end { GF_PRETRAIN_FINISHED, GF_PRETRAIN_STOPPED, GF_PRETRAIN_ALREADY } gf_pretrain_end;

/* Several ranks: an error before training starts fails on all of them, with the text of the first. Later a rank may fail alone;
 * it must then end the others (gf_dist_abort). *started (may be NULL): training had started. Only the first rank writes and
 * reports. */
glofnd_status gf_pretrain_run(gf_error *err, const gf_pretrain *p, gf_pretrain_end *end, int *started);

/* ----- the end of an epoch -----
 *
 * Work of others at the end of an epoch, by the first rank: an evaluation (eval_every), a hook (on_epoch). Neither may change
 * the trainer, and a failure of either is reported and does not end the training. */

typedef struct gf_epoch_watch {
    void *user;
    /* With eval_every, before memory for training is allocated. A failure, as data without labels, ends the run. */
    glofnd_status (*prepare)(gf_error *err, void *user, const gf_trainer *t);
    glofnd_status (*measure)(gf_error *err, void *user, const gf_trainer *t, double *top1);
    /* With on_epoch. value [GF_RUN_FIELD_COUNT]: the record of log.jsonl. */
    void (*ended)(void *user, const gf_trainer *t, const double *value);
} gf_epoch_watch;

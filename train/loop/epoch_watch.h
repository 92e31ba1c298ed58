/* epoch_watch.h - work of others at the end of an epoch, by the first rank: an evaluation (eval_every), a hook (on_epoch).
 * Neither may change the trainer, and a failure of either is reported and does not end the training.
 */
#pragma once

#include "run/run_log.h"
#include "loop/pretrain.h"
#include "loop/trainer.h"

typedef struct gf_epoch_watch {
    void *user;
    /* With eval_every, before memory for training is allocated. A failure, as data without labels, ends the run. */
    glofnd_status (*prepare)(gf_error *err, void *user, const gf_trainer *t);
    glofnd_status (*measure)(gf_error *err, void *user, const gf_trainer *t, double *top1);
    /* With on_epoch. value [GF_RUN_FIELD_COUNT]: the record of log.jsonl. */
    void (*ended)(void *user, const gf_trainer *t, const double *value);
} gf_epoch_watch;

glofnd_status gf_epoch_prepare(gf_error *err, const gf_pretrain *p, const gf_trainer *t);
/* Top-1 after every eval_every epochs and after the last one; NaN: not now, or it failed, which is reported. */
double gf_epoch_measure(const gf_pretrain *p, const gf_trainer *t);

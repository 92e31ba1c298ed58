/* loss_stage.h - the method of a run: its context, its anchors, and from the embeddings of a step to the loss and their
 * gradients.
 */
#ifndef GF_TRAIN_LOSS_STAGE_H
#define GF_TRAIN_LOSS_STAGE_H

#include "train/trainer.h"

/* ctx, store and the arrays of a step; the encoders are there. */
glofnd_status gf_loss_stage_make(gf_error *err, gf_trainer *t);
void gf_loss_stage_free(gf_trainer *t); /* before the encoders */
/* The batch is there: ids, labels and groups to where the loss is computed, and the options of its epoch. */
glofnd_status gf_loss_stage_begin(gf_error *err, gf_trainer *t);
/* Loss, its gradient in the encoders, lambda and u; queued on a GPU. */
glofnd_status gf_loss_stage_run(gf_error *err, gf_trainer *t);
/* Waits for the step and tells what is wrong with it; t->stats. */
glofnd_status gf_loss_stage_stats(gf_error *err, gf_trainer *t);
/* Equal for steps that may be replayed from one record; 0: none may. */
uint64_t gf_loss_stage_key(const gf_trainer *t);

#endif

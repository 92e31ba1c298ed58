/* contrast.h - the method of a run: its context, its anchors, and from the embeddings of a step to the loss and their gradients.
 */
#ifndef GF_TRAIN_CONTRAST_H
#define GF_TRAIN_CONTRAST_H

#include "train/trainer.h"

/* ctx, store and the arrays of a step; the towers are there. */
glofnd_status gf_contrast_make(gf_error *err, gf_trainer *t);
void gf_contrast_free(gf_trainer *t);   /* before the towers */
/* The batch is there: ids, labels and groups to where the loss is computed, and the options of its epoch. */
glofnd_status gf_contrast_begin(gf_error *err, gf_trainer *t);
/* Loss, its gradient in the towers, lambda and u; queued on a GPU. */
glofnd_status gf_contrast_run(gf_error *err, gf_trainer *t);
/* Waits for the step and tells what is wrong with it; t->stats. */
glofnd_status gf_contrast_stats(gf_error *err, gf_trainer *t);
/* Equal for steps that may be replayed from one record; 0: none may. */
uint64_t gf_contrast_key(const gf_trainer *t);

#endif

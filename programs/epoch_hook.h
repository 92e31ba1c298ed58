/* epoch_hook.h - the end of an epoch in `glofnd pretrain`: kNN of the network so far (eval_every), and a command of the user
 * (on_epoch).
 */
#pragma once

#include "eval/knn.h"
#include "loop/pretrain.h"

typedef struct epoch_hook {
    const char *run;
    gf_training_knn *knn;
    gf_epoch_watch watch; /* for gf_pretrain */
} epoch_hook;

/* run: the folder, borrowed. h must stay where it is. */
void epoch_hook_init(epoch_hook *h, const char *run);
void epoch_hook_free(epoch_hook *h);

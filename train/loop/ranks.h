/* ranks.h - a run on several ranks: each draws its part of every batch, and all train the same weights.
 *
 * Differences from one rank: batch norm sums over all ranks (hooks), gradients are added up behind the backward pass, before
 * the optimizer, and after every step the ranks agree on stopping and share their unreadable samples. The loss of a batch over
 * ranks is in loss_stage.h.
 */
#pragma once

#include "dist/dist.h"
#include "loop/encoders.h"

typedef struct gf_unreadable { /* a sample that could not be read */
    int64_t id;
    gf_error why;
} gf_unreadable;

struct gf_trainer; /* loop/trainer.h */

typedef struct gf_distributed {
    gf_comm *host;      /* borrowed */
    gf_comm *wire;      /* between the memories the nets are in: NCCL's; on the CPU the host's */
    gf_sync_norm hooks; /* of every net */
    gf_reducer *reducer;
    int in_parts; /* gradients are final only after the last part */
    int stop;     /* this rank was asked to stop; after a step: some rank was */
    gf_unreadable
        *unreadable; /* [unreadable_count] of this rank since the last step; after it: of all, in the order of the batch */
    int64_t unreadable_count;
    size_t unreadable_capacity;
    int64_t *lengths; /* [ranks] of texts */
} gf_distributed;

/* Checks that the batch can be divided among the ranks; E_OPTION says why not. */
glofnd_status gf_distributed_check(gf_error *err, const gf_config *c, int ranks);
/* Before the nets are made: hooks for their batch norm. */
void gf_distributed_begin(gf_distributed *d, gf_comm *host);
/* Collective, once all ranks have their encoders. */
glofnd_status gf_distributed_connect(gf_error *err, gf_distributed *d, const gf_encoders *e, const gf_config *c);
void gf_distributed_free(gf_distributed *d, gf_encoders *e);

/* After backward: gradients of all encoders become those of the whole batch. */
glofnd_status gf_distributed_gradients(gf_error *err, gf_distributed *d, gf_encoders *e);
/* Notes an unreadable sample for the next gf_distributed_share. */
glofnd_status gf_distributed_unreadable(gf_error *err, gf_distributed *d, int64_t id, const char *message);
/* Collective, after a step: `stop` and `unreadable` become those of all ranks. */
glofnd_status gf_distributed_share(gf_error *err, gf_distributed *d);

/* ----- checks before ranks train together -----
 *
 * Checks before ranks train together: configuration, data, checkpoint and run folder must be equal on all. */

/* Collective. E_ARGUMENT names the first rank that differs from rank 0, and the difference: a key of the configuration, the
 * dataset. from: path of the checkpoint that the rank found, "" for none. */
glofnd_status gf_check_ranks_equal(gf_error *err, gf_comm *c, const struct gf_trainer *t, const char *from);
/* Collective, once the first rank has made the folder: every rank must see the same one, and may write there. */
glofnd_status gf_check_ranks_folder(gf_error *err, gf_comm *c, const char *run);

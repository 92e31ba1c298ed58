/* distributed.h - a run on several ranks: each draws its part of every batch, and all train the same weights.
 *
 * What is different from one rank: embeddings and ids are gathered before the loss, anchors' state lives on its owner
 * (dist/shard.h), batch norm sums over all ranks, and gradients are added up behind the backward pass, before the optimizer.
 */
#ifndef GF_TRAIN_DISTRIBUTED_H
#define GF_TRAIN_DISTRIBUTED_H

#include "dist/dist.h"
#include "dist/step_ranks.h"
#include "loader/caption_tokens.h"
#include "train/encoders.h"

typedef struct gf_unreadable { /* a sample that could not be read */
    int64_t id;
    gf_error why;
} gf_unreadable;

typedef struct gf_distributed {
    gf_comm *host;      /* borrowed */
    gf_comm *wire;      /* between the memories the nets are in: NCCL's; on the CPU the host's */
    gf_sync_norm hooks; /* of every net */
    gf_step_ranks team;
    gf_reducer *reducer;
    int in_parts;          /* they are final only after the last part */
    float *all[2];         /* [batch][dim] everyone's embeddings, where the nets are */
    void *links;           /* [batch][GLOFND_LINK_BYTES] there */
    int64_t *slots;        /* [rows] there */
    gf_content *content;   /* [batch] on the host: what the samples of the batch show and say */
    glofnd_ctx *ctx;       /* borrowed */
    int stop;              /* this rank was asked to stop; after a step: somebody was */
    gf_unreadable *damage; /* [damages] since the last step, of this rank; after it: of all, in the order of the batch */
    int64_t damages, damage_room;
} gf_distributed;

/* Whether the configuration can be divided; E_OPTION says why not. */
glofnd_status gf_distributed_check(gf_error *err, const gf_config *c, int ranks);
/* Before the nets are made: hooks for their batch norm. */
void gf_distributed_begin(gf_distributed *w, gf_comm *host);
/* Once the encoders and the context are there. n: samples of the data. */
glofnd_status gf_distributed_make(gf_error *err, gf_distributed *w, gf_encoders *encoders, glofnd_ctx *ctx, const gf_config *c,
                                  int64_t n);
void gf_distributed_free(gf_distributed *w, gf_encoders *encoders);

/* Ids, labels and contents of the whole batch to every rank; state of the own samples to `work`. */
glofnd_status gf_distributed_draw(gf_error *err, gf_distributed *w, const gf_batch *b, glofnd_store *work);
/* q: of the whole batch; embeddings and gradients of the own rows are the encoders'. */
glofnd_status gf_distributed_step(gf_error *err, gf_distributed *w, gf_encoders *encoders, glofnd_store *work, glofnd_batch q,
                                  glofnd_stats *stats);
/* After backward: gradients of all encoders become those of the whole batch. */
glofnd_status gf_distributed_gradients(gf_error *err, gf_distributed *w, gf_encoders *encoders);
/* For the next gf_distributed_settle. */
glofnd_status gf_distributed_damaged(gf_error *err, gf_distributed *w, int64_t id, const char *message);
/* State goes home; stats, stop and damage become those of all ranks. */
glofnd_status gf_distributed_settle(gf_error *err, gf_distributed *w, glofnd_store *work, glofnd_stats *stats);

#endif

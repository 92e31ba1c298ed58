/* step_ranks.h - the training step of the method over ranks: all of them draw a batch, each gets the gradient of its own rows
 * in both roles.
 *
 *     gf_step_ranks_draw     ids, labels and groups of the whole batch on every rank; state of the own samples from its owners
 *     gf_step_ranks_step     embeddings gathered, thresholds and weights of the own rows, links gathered, gradient; new averages
 *                            to all ranks
 *     gf_step_ranks_finish   state back to its owners; statistics of the whole batch
 * Own rows are row0 .. row0+rows-1 of cols = ranks * rows. gf_step_ranks_step only queues where the context is on a device, and
 * may be recorded there; the other two communicate over the host.
 *
 * Averages (similarity BANK) do not move: every rank holds those of all samples, 2 dim bytes each, in its working store, so that
 * it can compare any of them and search all for neighbours. A step changes those of the batch; every rank gets the new ones from
 * the rank that drew the sample, so all stores hold the same bits. They travel as the embeddings do: on GPUs between the memories
 * of the devices.
 */
#pragma once

#include "dist/shard.h"

typedef struct gf_step_ranks {
    gf_comm *host;   /* borrowed */
    gf_comm *device; /* borrowed: for memory where the embeddings are; the host's on the CPU */
    int64_t rows, cols, row0;
    int64_t *id; /* [cols] of the batch, on the host */
    int32_t *label, *group;
    int64_t bank_dim; /* length of an average; 0: none */
    gf_shard *shard;
} gf_step_ranks;

/* spec.rows: own samples per step. */
glofnd_status gf_step_ranks_open(gf_error *err, gf_comm *host, gf_comm *device, const gf_shard_spec *spec, gf_step_ranks *out);
void gf_step_ranks_close(gf_step_ranks *t);
/* id, label, group [rows]: of the own samples; label and group may be NULL. `work`: a store of rows anchors; with averages, of
 * all anchors. */
glofnd_status gf_step_ranks_draw(gf_error *err, gf_step_ranks *t, const int64_t *id, const int32_t *label, const int32_t *group,
                                 glofnd_ctx *c, glofnd_store *work);
/* q: of the whole batch; id, label, group and slot (gf_shard_slots) where the context is; q->a, q->b [cols][dim] hold the own
 * rows in their places, and get those of all ranks. With averages q->bank_a, and for image and text q->bank_b, are memory for
 * [cols][dim] float16 there, which the step uses. Detector COMPONENTS: q->group is
 * memory for the groups of the batch. links [cols][GLOFND_LINK_BYTES]. */
glofnd_status gf_step_ranks_step(gf_error *err, gf_step_ranks *t, glofnd_ctx *c, glofnd_store *work, const glofnd_batch *q,
                                 void *links, float *grad_a, float *grad_b, glofnd_stats *stats);
/* stats: in, of the own rows; out, of the batch. */
glofnd_status gf_step_ranks_finish(gf_error *err, gf_step_ranks *t, glofnd_ctx *c, glofnd_store *work, glofnd_stats *stats);

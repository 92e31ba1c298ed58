/* step_ranks.h - the training step of the method over ranks, and the state of all anchors, divided over them: it belongs to the
 * sample, not to the rank that draws it.
 *
 * Anchor i lives on rank i mod R, as row i div R of a store in that rank's host memory. For a step the rows of the drawn samples
 * travel to the ranks that draw them, into rows 0, 1, ... of a small working store (glofnd_own_rows.slot), and back: one exchange
 * each way, O(batch) bytes. All ranks know the ids of the whole batch, so no index has to be sent.
 *
 * With averages (similarity BANK) the working store is one of all anchors, row i that of anchor i: every rank keeps the averages
 * of all samples there. Of the other state it holds rows during a step only; between steps they are those of
 * anchors never seen, so that a file of this store holds the averages and nothing that the owners have.
 */
#pragma once

#include "dist/comm.h"
#include "method/options.h"

typedef struct gf_shard gf_shard;

typedef struct gf_shard_spec {
    int64_t n; /* anchors of all ranks */
    glofnd_loss loss;
    glofnd_pairing pairing;
    int64_t rows;     /* samples that each rank draws per step */
    int64_t bank_dim; /* length of the averages; 0: there are none */
} gf_shard_spec;

/* [rows] 0, 1, ...: glofnd_own_rows.slot. NULL with averages. */
const int64_t *gf_shard_slots(const gf_shard *s);

/* The rank's own anchors, for checkpoints: a store on the CPU and its context. */
glofnd_ctx *gf_shard_ctx(const gf_shard *s);
glofnd_store *gf_shard_store(const gf_shard *s);
/* Rows of `from` (a store on the CPU, read with context c), whose row k is anchor first + k * stride, that belong here are
 * copied. */
glofnd_status gf_shard_adopt(gf_error *err, gf_shard *s, glofnd_ctx *c, const glofnd_store *from, int64_t first, int64_t stride);

static inline int64_t gf_shard_size(int64_t n, int rank, int ranks) { return (n - rank + ranks - 1) / ranks; }

/* ----- the step -----
 *
 * The training step of the method over ranks: all of them draw a batch, each gets the gradient of its own rows in both roles.
 *
 *     gf_step_ranks_draw     ids, labels and groups of the whole batch on every rank; state of the own samples from its owners
 *     gf_step_ranks_step     embeddings gathered, thresholds and weights of the own rows, links gathered, gradient; new averages
 *                            to all ranks
 *     gf_step_ranks_finish   state back to its owners; statistics of the whole batch
 * Own rows are row0 .. row0+rows-1 of cols = ranks * rows. gf_step_ranks_step only queues where the context is on a device, and
 * may be recorded there; the other two communicate over the host.
 *
 * Averages (similarity BANK) do not move: every rank holds those of all samples, 2 dim bytes each, in its working store, so
 * that it can compare any of them and search all for neighbours. A step changes those of the batch; every rank gets the new
 * ones from the rank that drew the sample, so all stores hold the same bits. They travel as the embeddings do: on GPUs between
 * the memories of the devices. */

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
void gf_step_ranks_close(gf_step_ranks *r);
/* id, label, group [rows]: of the own samples; label and group may be NULL. `work`: a store of rows anchors; with averages, of
 * all anchors. */
glofnd_status gf_step_ranks_draw(gf_error *err, gf_step_ranks *r, const int64_t *id, const int32_t *label, const int32_t *group,
                                 glofnd_ctx *c, glofnd_store *work);
/* q: of the whole batch; id, label, group and slot (gf_shard_slots) where the context is; q->a, q->b [cols][dim] hold the own
 * rows in their places, and get those of all ranks. With averages bank_a of q->extra, and for image and text bank_b, are memory
 * for [cols][dim] float16 there, which the step uses. Detector COMPONENTS: q->group is memory for the groups of the batch.
 * links [cols][GLOFND_LINK_BYTES]. */
glofnd_status gf_step_ranks_step(gf_error *err, gf_step_ranks *r, glofnd_ctx *c, glofnd_store *work, const glofnd_batch *q,
                                 const int64_t *slot, void *links, float *grad_a, float *grad_b, glofnd_stats *stats);
/* stats, counters: in, of the own rows; out, of the batch. */
glofnd_status gf_step_ranks_finish(gf_error *err, gf_step_ranks *r, glofnd_ctx *c, glofnd_store *work, glofnd_stats *stats,
                                   glofnd_counters *counters);

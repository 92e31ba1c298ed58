/* shard.h - the state of all anchors, divided over ranks: it belongs to the sample, not to the rank that draws it.
 *
 * Anchor i lives on rank i mod R, as row i div R of a store in that rank's host memory. For a step the rows of the drawn samples
 * travel to the ranks that draw them, into rows 0, 1, ... of a small working store (glofnd_batch.slot), and back: one exchange
 * each way, O(batch) bytes. All ranks know the ids of the whole batch, so no index has to be sent.
 *
 * With averages (similarity BANK) the working store is one of all anchors, row i that of anchor i: every rank keeps the averages
 * of all samples there (step_ranks.h). Of the other state it holds rows during a step only; between steps they are those of
 * anchors never seen, so that a file of this store holds the averages and nothing that the owners have.
 */
#pragma once

#include "dist/comm.h"
#include "method/options.h"

typedef struct gf_shard gf_shard;

typedef struct gf_shard_spec {
    int64_t n; /* anchors of all ranks */
    glofnd_loss loss;
    int64_t rows;     /* samples that each rank draws per step */
    int64_t bank_dim; /* length of the averages; 0: there are none */
} gf_shard_spec;

glofnd_status gf_shard_create(gf_error *err, gf_comm *c, const gf_shard_spec *spec, gf_shard **out);
void gf_shard_free(gf_shard *s); /* NULL is fine */
/* id [ranks * rows]: of the whole batch, in the order of ranks. fetch: state of the own samples to rows 0 .. (with averages: to
 * the rows of their ids) of `work`, a store of context c, before the step; return: back to its owners, after. */
glofnd_status gf_shard_fetch(gf_error *err, gf_shard *s, const int64_t *id, glofnd_ctx *c, glofnd_store *work);
glofnd_status gf_shard_return(gf_error *err, gf_shard *s, const int64_t *id, glofnd_ctx *c, glofnd_store *work);
/* [rows] 0, 1, ...: glofnd_batch.slot. NULL with averages. */
const int64_t *gf_shard_slots(const gf_shard *s);

/* The rank's own anchors, for checkpoints: a store on the CPU and its context. */
glofnd_ctx *gf_shard_ctx(const gf_shard *s);
glofnd_store *gf_shard_store(const gf_shard *s);
/* Rows of `from` (a store on the CPU, read with context c), whose row k is anchor first + k * stride, that belong here are
 * copied. */
glofnd_status gf_shard_adopt(gf_error *err, gf_shard *s, glofnd_ctx *c, const glofnd_store *from, int64_t first, int64_t stride);

static inline int64_t gf_shard_size(int64_t n, int rank, int ranks) { return (n - rank + ranks - 1) / ranks; }

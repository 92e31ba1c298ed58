/* step.h - one step, inside: what step.c shares with averages.c and detect.c, and with those who ask for its plan. */
#pragma once

#include "method/context.h"
#include "method/formulas/row.h"
#include "method/store.h"
#include "method/workspace.h"

typedef struct gf_step {
    glofnd_ctx *ctx;
    const gf_step_batch *batch;
    gf_plan plan;           /* sizes and the meaning of the options for this batch */
    const gf_pair_ops *ops; /* passes over all pairs */
    gf_workspace *ws;
    glofnd_store *store;         /* NULL in glofnd_step_grad */
    const int64_t *slot;         /* [rows] of the store: the state of the own samples; -1: a key without a row */
    glofnd_store lent;           /* glofnd_ctx_state: store points here */
    int reuse;                   /* the gradient may use the tiles of the sums: both in one call */
    int tiles_made;              /* the sums find them where a selection left them */
    glofnd_anchor shared_row[2]; /* the one lambda of all anchors, moved in the course of the step */
    int shared_moves[2];         /* it is updated after the sums */
    int64_t rescued, repeats;
    int64_t keys;  /* of the store before the step */
    int64_t apart; /* samples of anchors that have some on several ranks: exchange_samples of step.c */
} gf_step;

/* ----- step.c ----- */

gf_plan gf_plan_of(const glofnd_options *o, const gf_step_batch *batch);
/* Hash of all that a plan takes from the batch beside its size: steps of equal phase queue the same work on a device. */
uint64_t gf_plan_phase(const gf_plan *p);
/* *out = a batch of the caller and its own rows (NULL: all of them), with strides set. Checks sizes, epoch, tau and gamma. */
glofnd_status gf_batch_take(gf_error *err, const glofnd_batch *batch, const glofnd_own_rows *own, gf_step_batch *out);
glofnd_status gf_dtype_check(gf_error *err, const char *name, glofnd_dtype dtype);
/* Rows of the caller, of a checked type: stride and alignment. NULL passes. */
glofnd_status gf_rows_check(gf_error *err, const char *name, const void *rows, glofnd_dtype dtype, int64_t stride, int64_t dim);
/* Workspace, plan, and unit embeddings of the batch; no state yet. */
glofnd_status gf_step_begin(gf_step *step, glofnd_ctx *ctx, const gf_step_batch *batch);
/* precision, recall and f1 from the counts, where flags were judged: the per-anchor ones are numbers. */
void gf_stats_pool(glofnd_stats *s);
/* Adds n doubles over all ranks; nothing to do on one rank. */
glofnd_status gf_step_sum_ranks(gf_step *step, double *x, int n);

/* ----- averages.c: similarity BANK, and attraction by neighbours, where the plan has them ----- */

/* Averages of all rows' samples, from the batch or, one rank, from the store. */
void gf_averages_make(gf_step *step);
/* Those of the own rows go to the store. */
void gf_averages_commit(gf_step *step);
/* After the averages: the nearest samples of the own anchors. */
glofnd_status gf_neighbours_find(gf_step *step);
/* E_ARGUMENT unless the context's last search was for the own anchors of this batch. */
glofnd_status gf_neighbours_check_found(const gf_step *step);
void gf_neighbours_add_loss(const gf_step *step, gf_totals *sum);
void gf_neighbours_add_gradient(const gf_step *step);

/* ----- positives.c: several positives of a sample, where the plan has them ----- */

/* first_positive and next_positive of the workspace. */
void gf_positives_find(gf_step *step);
/* After the temperatures of the rows are known: `others` of the own rows. */
void gf_positives_sum(gf_step *step);
/* Of all pairs of positives, those of one sample too, for the own rows; pos is 0 then. */
void gf_positives_add_gradient(gf_step *step);

/* ----- detect.c ----- */

/* WCL's groups (Zheng et al. 2021), for a step with detector COMPONENTS. group [cols]: the connected component of every sample in
 * the graph that joins each to its nearest neighbour in the batch, where the batch is. */
glofnd_status gf_batch_components(glofnd_ctx *c, const glofnd_batch *q, const glofnd_own_rows *own, int32_t *group);

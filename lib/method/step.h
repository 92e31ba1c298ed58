/* step.h - one step, inside: the batch, the meaning of the options for it, and its arrays. */
#pragma once

#include "method/context.h"
#include "method/formulas/row.h"
#include "method/formulas/totals.h"
#include "method/store.h"
#include "method/workspace.h"

typedef struct gf_step {
    glofnd_ctx *c;
    const glofnd_options *o;
    const glofnd_batch *q;
    glofnd_store *s;   /* NULL in glofnd_step_grad */
    glofnd_store lent; /* glofnd_ctx_state: s points here */
    gf_workspace *ws;
    const gf_shape *shape;
    gf_plan plan;
    int reuse;                /* pass C may use the tiles of pass B: both in one call */
    int tiles_made;           /* pass B finds them where a selection left them */
    glofnd_anchor shared_row[2]; /* the one lambda, moved in the course of the step */
    int moves[2];             /* the shared lambda is updated after pass B */
    int64_t rescued, repeats;
} gf_step;

/* step_check.c: arguments of the caller, checked before anything changes. */
/* *out = the batch as this version knows it, with strides set: fields that an older program does not pass are 0. */
glofnd_status gf_batch_take(gf_error *err, const glofnd_batch *q, glofnd_batch *out);
glofnd_status gf_step_check(glofnd_ctx *c, const glofnd_batch *q);
glofnd_status gf_numbers_check(gf_error *err, const glofnd_batch *q); /* epoch, tau, gamma */
glofnd_status gf_grads_check(gf_error *err, const glofnd_batch *q, const void *grad_a, const void *grad_b);
glofnd_status gf_links_check(gf_error *err, const void *links);
glofnd_status gf_dtype_check(gf_error *err, const char *name, glofnd_dtype dtype);
/* Rows of the caller, of a checked type: stride and alignment. NULL passes. */
glofnd_status gf_rows_check(gf_error *err, const char *name, const void *rows, glofnd_dtype dtype, int64_t stride, int64_t dim);
/* Stats of the caller, NULL or as long as the program knows them. */
glofnd_status gf_stats_check(gf_error *err, const glofnd_stats *stats);
void gf_stats_give(const glofnd_stats *from, glofnd_stats *to);
/* BANK, calls for several ranks: the batch brings the averages. */
glofnd_status gf_bank_check(glofnd_ctx *c, const glofnd_batch *q);
glofnd_status gf_step_check_store(glofnd_ctx *c, const glofnd_store *s, const glofnd_batch *q);
/* The contents that glofnd_ctx_state() gives the steps of c. */
gf_store_spec gf_state_spec(const glofnd_ctx *c);

/* step_begin.c: workspace, meaning of the options, unit embeddings. */
gf_plan gf_plan_of(const glofnd_options *o, const glofnd_batch *q);
/* Hash of all that a plan takes from the batch beside its size: steps of equal phase queue the same work on a device. */
uint64_t gf_plan_phase(const gf_plan *p);
glofnd_status gf_step_begin(gf_step *t, glofnd_ctx *c, glofnd_store *s, const glofnd_batch *q);
/* Rows of the store that hold the state of the own samples. */
static inline const int64_t *gf_step_slots(const glofnd_batch *q) { return q->slot ? q->slot : q->id + q->row0; }
/* The columns' side of side `i`, and the slice of own rows of its embeddings. */
int gf_step_other(const gf_step *t, int i);
gf_embed gf_step_own(const gf_step *t, const gf_embed *e);
/* Support vectors whose largest score counts; 1: there is one, or their mean. */
int gf_step_copies(const gf_step *t);
/* Fields that every pass shares: rows of side i against their columns. */
gf_pass gf_step_pass(const gf_step *t, int i);
/* A pass of the own rows of side i, with the numbers in `row`, against all columns; it lives as long as *x. */
typedef struct gf_own_pass {
    gf_pass p;
    gf_embed own, score;
    gf_rows row, col;
} gf_own_pass;
void gf_step_own_pass(const gf_step *t, int i, gf_rows row, gf_own_pass *x);

/* Adds n doubles over all ranks; nothing to do on one rank. */
glofnd_status gf_step_sum(gf_step *t, double *x, int n);

/* batch_components.c: WCL's groups (Zheng et al. 2021), for a step with detector COMPONENTS. group [cols]: the connected component
 * of every sample in the graph that joins each to its nearest neighbour in the batch, where the batch is. Ids are not looked at. */
glofnd_status gf_batch_components(glofnd_ctx *c, const glofnd_batch *q, int32_t *group);

/* step_lambda.c: passes A and B. */
glofnd_status gf_step_detect(gf_step *t);

/* step_bank.c: averages of the samples' embeddings. */
/* Computes them for all rows, from the batch or, one rank, from the store. No-op without a bank. */
void gf_step_bank(gf_step *t);
/* Those of the own rows go to the store. */
void gf_step_bank_save(gf_step *t);
/* The embeddings of a side that thresholds are compared with the similarities of. */
static inline const gf_embed *gf_step_judged(const gf_step *t, int i) {
    return t->plan.bank ? &t->ws->side[i].bank : &t->ws->side[i].z;
}

/* step_neighbours.c: attraction by neighbours; no-ops without it. The search comes after the bank. */
glofnd_status gf_step_neighbours(gf_step *t);
/* E_ARGUMENT unless the context's last search was for the own anchors of this batch. */
glofnd_status gf_step_neighbours_found(const gf_step *t);
void gf_step_neighbours_loss(const gf_step *t, gf_totals *sum);
void gf_step_neighbours_gradient(const gf_step *t);

/* step_marks.c: flags by similarities of averages. */
/* Pairs above mid of the own rows, all sides: gf_rows.above. */
void gf_step_count(const gf_step *t);
/* Marks of the own rows' anchors, by lo; and of all anchors on pairs with the own rows, by theta. */
void gf_step_mark_own(const gf_step *t);
void gf_step_mark_all(const gf_step *t);

/* step_loss.c: losses, links, state. */
gf_summed_row gf_step_summed_row(const gf_step *t, int i, int64_t r);
glofnd_status gf_step_finish(gf_step *t, gf_link *links, glofnd_stats *stats);

/* step_gradient.c: pass C. */
void gf_step_gradient(gf_step *t, const gf_link *links, void *grad_a, void *grad_b, glofnd_stats *stats);
/* The pairs that the links keep, for inspection. */
void gf_step_show_mask(gf_step *t, const gf_link *links, uint8_t *keep);

/* step.h - one step, inside: the batch, what the options mean for it, and where its arrays are. */
#ifndef GF_FND_STEP_H
#define GF_FND_STEP_H

#include "fnd/context.h"
#include "fnd/learner.h"
#include "fnd/loss.h"
#include "fnd/store.h"
#include "fnd/workspace.h"

typedef struct gf_step {
    glofnd_ctx *c;
    const glofnd_options *o;
    const glofnd_batch *q;
    glofnd_store *s;            /* NULL in glofnd_step_grad */
    gf_workspace *ws;
    const gf_shape *shape;
    double tau, gamma;
    int official;
    int learned;                /* thresholds come from the learner */
    int thresholds;             /* the detector compares with a threshold at all (learned, or FNC) */
    int topk;                   /* FNC TOPK */
    int groups;                 /* pairs of one group are flagged */
    int updating;               /* the learner moves in this epoch */
    int masking;                /* the loss sees the flags */
    int shared;                 /* one lambda for all anchors in this epoch */
    int one_rank;               /* rows == cols */
    int authors_ranks;          /* several ranks, and loss and gradient as the authors' code has them then */
    int reuse;                  /* pass C may use the tiles of pass B: both in one call */
    unsigned flags;             /* GF_*: both passes */
    gf_learner learner;
    glofnd_row shared_row[2];   /* the one lambda, moved in the course of the step */
    int moves[2];               /* the shared lambda takes a learner step */
    int64_t rescued, repeats;
} gf_step;

/* step_check.c: everything the caller may have got wrong, before anything changes. */
glofnd_status gf_step_check(glofnd_ctx *c, const glofnd_batch *q);
glofnd_status gf_step_check_store(glofnd_ctx *c, const glofnd_store *s, const glofnd_batch *q);

/* step_begin.c: workspace, meaning of the options, unit embeddings. */
glofnd_status gf_step_begin(gf_step *t, glofnd_ctx *c, glofnd_store *s, const glofnd_batch *q);
/* The columns' side of side `i`, and the slice of own rows of its embeddings. */
int gf_step_other(const gf_step *t, int i);
gf_embed gf_step_own(const gf_step *t, const gf_embed *e);
/* Fields that every pass shares: rows of side i against their columns. */
gf_pass gf_step_pass(const gf_step *t, int i);
/* A pass of the own rows of side i, with the numbers in `row`, against all columns; it lives as long as *x. */
typedef struct gf_own_pass {
    gf_pass p;
    gf_embed own, score;
    gf_rows row, col;
} gf_own_pass;
void gf_step_own_pass(const gf_step *t, int i, gf_rows row, gf_own_pass *x);

/* Adds n doubles over all ranks; nothing to do on one. */
glofnd_status gf_step_sum(gf_step *t, double *x, int n);

/* step_threshold.c: pass A and the flags' side of pass B. */
glofnd_status gf_step_detect(gf_step *t);

/* step_rows.c: losses, links, state. */
glofnd_status gf_step_finish(gf_step *t, glofnd_link *links, glofnd_stats *stats);

/* step_grad.c: pass C. */
void gf_step_unpack(gf_step *t, const glofnd_link *links);      /* links [cols][2] to the row arrays of all rows */
gf_rows gf_step_own_rows(const gf_step *t, int i);              /* of which these are the own rows */
void gf_step_gradient(gf_step *t, const glofnd_link *links, float *grad_a, float *grad_b, glofnd_stats *stats);

/* step_mask.c: which pairs the links keep. */
void gf_step_show_mask(gf_step *t, const glofnd_link *links, uint8_t *keep);

#endif

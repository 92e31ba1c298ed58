/* epoch_plan.h - the sizes of a step's arrays, and the meaning of the options for this batch in this epoch. The same on every
 * device.
 *
 * "Side": two views of one image are one side with two rows per sample (row 2i and 2i+1); image and text are two sides with one
 * row per sample. So a sample always has two rows, and pairs of one sample always lie next to the diagonal.
 * "Own" rows are this rank's anchors; "all" rows are those of the global batch, whose thresholds and weights pass C needs.
 */
#pragma once

#include "method/formulas/lambda_update.h"
#include "method/formulas/pass_flags.h"
#include "method/formulas/settings.h"

typedef struct gf_shape {
    int64_t rows, cols, dim;   /* samples; samples; numbers */
    int64_t sides, per_sample; /* 1 and 2, or 2 and 1 */
    int64_t own, all;          /* rows per side: rows * per_sample, cols * per_sample */
    int64_t negatives;         /* of a row */
    int64_t tile, window_cap;
    int64_t list_cap;     /* FNC: entries of a row's list of candidates, gf_select.lists */
    int64_t ring, best;   /* rows of the ring; largest rank a selection asks for */
    int64_t topk, learns; /* options that need buffers */
    int64_t rounds;       /* candidates of selections come from products of integers */
    int64_t support;      /* FNC TOPK, THRESHOLD: support vectors per sample */
    int64_t marks;        /* the same: bits of flagged pairs, gf_pad(all) per own row */
    int64_t bank;         /* the same: averages of all rows */
    int64_t components;   /* device: memory for the groups of gf_batch_components */
    int64_t neighbours;   /* the same: nearest samples per anchor */
    int64_t bf16;         /* the options ask for products of bf16 */
    int64_t threads;
} gf_shape; /* no padding: shapes are compared as bytes */

typedef struct gf_plan {
    glofnd_options o; /* omega: that of the action */
    int64_t rows, cols, negatives;
    int sides, per_sample;
    int32_t epoch;
    uint32_t want; /* GLOFND_WANT_* */
    double tau, gamma;
    double log_gamma, log_rest, log_batch; /* log gamma, log(1 - gamma), log cols: once per step, not per row */
    int official;
    int learned;       /* thresholds come from the learner */
    int thresholds;    /* the detector compares with a threshold at all (learned, or FNC) */
    int topk;          /* FNC TOPK, or THRESHOLD in its form: scores of the anchor's support decide */
    int groups;        /* pairs of one group are flagged */
    int updating;      /* the learner moves in this epoch */
    int masking;       /* the loss sees the flags */
    int shared;        /* one lambda for all anchors in this epoch */
    int bank;          /* thresholds are compared with similarities of averages; alpha 0: these are kept nevertheless */
    int neighbours;    /* nearest samples of the store attract */
    int marked;        /* flags are marks, made before pass B; lambda is updated before them */
    int one_rank;      /* rows == cols */
    int authors_ranks; /* several ranks, and loss and gradient as the authors' code has them then */
    unsigned flags;    /* pass_flags.h: of passes B and C */
    gf_learner learner;
} gf_plan;

/* Equal similarities that a row compares: both rows of a sample have its one average. */
static inline int64_t gf_plan_copies(const gf_plan *p) { return p->bank ? p->per_sample : 1; }

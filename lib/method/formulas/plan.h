/* plan.h - the meaning of the options for one batch in one epoch, the sizes of its arrays, and the sums that statistics are made
 * of. The same on every device.
 *
 * "Side": two views of one image are one side with two rows per sample (row 2i and 2i+1); image and text are two sides with one
 * row per sample. So a sample always has two rows, and pairs of one sample always lie next to the diagonal.
 * "Own" rows are this rank's anchors; "all" rows are those of the global batch, whose thresholds and weights the gradient needs.
 */
#pragma once

#include "glofnd.h"
#include "method/formulas/lambda.h"
#include "method/formulas/settings.h"

/* ----- what a pass over all pairs has to do: bits of gf_plan.flags and gf_pass.flags ----- */

enum {
    GF_MASK = 1,  /* flags act on the sums (else everything is summed, and only counted) */
    GF_COUNT = 2, /* compare and count at all */
    GF_SHIFT = 4, /* 1/tau too large for exp(S/tau) in float, or different per row: work relative to a peak */
    GF_MOMENT = 8,
    GF_ATTRACT = 16,
    GF_WEIGHT = 32, /* omega > 0 */
    GF_GROUP = 64,
    GF_QUALITY = 128,
    GF_TIE = 256,          /* FNC TOPK: flags by score and tie; row role only */
    GF_COLSUM = 512,       /* gradient: the column role's W and W (S - align), summed over the row */
    GF_KEEP_TILES = 1024,  /* leave the tiles in `tiles` for the passes that follow */
    GF_REUSE_TILES = 2048, /* they are there: sum after a selection, gradient */
    GF_MARKS = 4096,       /* flagged pairs are given as bits: gf_grad_in.marks */
    GF_SIGMOID = 8192      /* a pair counts log(1 + exp(S/tau + bias)) in place of exp(S/tau); always with GF_MOMENT */
};

/* ----- a batch, inside ----- */

typedef struct gf_candidates { /* negatives beyond the batch, of one side; n 0: none */
    const void *rows;
    const int64_t *id; /* NULL: unknown */
    void *grad;        /* NULL: not wanted */
    int64_t n, stride;
} gf_candidates;

typedef struct gf_step_batch { /* glofnd_batch, what its `extra` holds, and the part of this rank; strides are set */
    int64_t rows, cols;        /* own samples; samples of the whole batch */
    int64_t row0;              /* own samples are row0 .. row0+rows-1 of the cols */
    int64_t dim;
    const void *a, *b;                    /* [cols] */
    const int64_t *id;                    /* [cols] */
    const int64_t *slot;                  /* [rows] of the store; NULL: the ids */
    const int32_t *label;                 /* [cols] or NULL */
    const int32_t *group;                 /* [cols] or NULL */
    const int32_t *positives;             /* [cols] or NULL */
    const float *guide, *guide_threshold; /* [cols][guide_dim], [cols] or NULL */
    int64_t guide_dim;
    const void *support_a, *support_b; /* [fnc_support][cols][dim] or NULL */
    const void *bank_a, *bank_b;       /* [cols][dim] float16 or NULL */
    int64_t a_stride, b_stride, grad_a_stride, grad_b_stride;
    gf_candidates candidates[2]; /* of a, which two views share; of b */
    glofnd_dtype dtype, grad_dtype;
    int32_t epoch;
    uint32_t want;
    double tau, gamma, bias;
    int adam; /* learner AUTO: Adam goes on with what it learned, see gf_store_note_adam() */
} gf_step_batch;

/* ----- sizes of arrays: what a workspace is laid out for ----- */

typedef struct gf_shape {
    int64_t rows, cols, dim;   /* samples; samples; numbers */
    int64_t sides, per_sample; /* 1 and 2, or 2 and 1 */
    int64_t own, all;          /* rows per side: rows * per_sample, cols * per_sample */
    int64_t negatives;         /* of a row, at most */
    int64_t tile, window_cap;
    int64_t list_cap;      /* FNC: entries of a row's list of candidates, gf_select.lists */
    int64_t ring, best;    /* rows of the ring; largest rank a selection asks for */
    int64_t topk, learns;  /* options that need buffers */
    int64_t rounds;        /* candidates of selections come from products of integers */
    int64_t support;       /* FNC TOPK, THRESHOLD: support vectors per sample */
    int64_t marks;         /* the same: bits of flagged pairs, gf_pad(all) per own row */
    int64_t mutual;        /* the same: thresholds of all rows before the sums */
    int64_t bank;          /* the same: averages of all rows */
    int64_t guide_dim;     /* FIXED: numbers of an embedding of the guide; 0: there is none */
    int64_t components;    /* device: memory for the groups of gf_batch_components */
    int64_t neighbours;    /* the same: nearest samples per anchor */
    int64_t bf16;          /* the options ask for products of bf16 */
    int64_t candidates[2]; /* negatives beyond the batch, of each side */
    int64_t keyed;         /* pairs may be none because both ends are one anchor, or positives of each other */
    int64_t several;       /* samples may have several positives */
    int64_t threads;
} gf_shape; /* no padding: shapes are compared as bytes */

/* ----- the plan of a step: its sizes, its options, and what follows from both ----- */

typedef struct gf_plan {
    glofnd_options o;        /* omega: that of the action */
    int64_t rows, cols, dim; /* samples of this rank; of the batch; numbers of an embedding */
    int sides, per_sample;   /* 1 and 2, or 2 and 1 */
    int anchored;            /* sides whose rows are anchors: from the first one on */
    int64_t own, all;        /* rows per side: rows * per_sample, cols * per_sample */
    int64_t candidates[2];   /* of each side: negatives beyond the batch */
    int64_t negatives[2];    /* of a row of each side: gf_row_negatives */
    int32_t epoch;
    uint32_t want; /* GLOFND_WANT_* */
    double tau, gamma, bias;
    double log_gamma, log_rest, log_batch; /* log gamma, log(1 - gamma), log cols: once per step, not per row */
    int official;
    int learned;       /* thresholds come from the learner */
    int positive;      /* thresholds come from the positives */
    int thresholds;    /* the detector compares with a threshold at all (learned, of FNC, of the positives) */
    int mutual;        /* a pair is flagged if it is above the thresholds of both ends */
    int fixed;         /* the similarities and thresholds of a guide decide, which stand still */
    int topk;          /* FNC TOPK, or THRESHOLD in its form: scores of the anchor's support decide */
    int groups;        /* pairs of one group are flagged */
    int updating;      /* the learner moves in this epoch */
    int masking;       /* the loss sees the flags */
    int rescues;       /* a row whose negatives are all flagged keeps the least similar one */
    int shared;        /* one lambda for all anchors in this epoch */
    int pooled;        /* SHRINKAGE: the shared row learns from all anchors, whether they share it or not */
    int bank;          /* thresholds are compared with similarities of averages; alpha 0: these are kept nevertheless */
    int neighbours;    /* nearest samples of the store attract */
    int copies;        /* equal similarities that a row compares: with averages both rows of a sample have its one */
    int marked;        /* flags are marks, made before the sums; lambda is updated before them */
    int one_rank;      /* rows == cols */
    int keyed;         /* pairs may be none because both ends are one anchor, or positives of each other */
    int several;       /* samples may have several positives: method/positives.c */
    int authors_ranks; /* several ranks, and loss and gradient as the authors' code has them then */
    unsigned flags;    /* of the sums and the gradient */
    gf_learner learner;
} gf_plan;

/* ----- sums of a step over its rows ----- */

typedef struct gf_totals { /* doubles only: a device adds them up as one array */
    double loss, grad_scale, rank_part, rank_part_scale, log_u, kept, detector_kept; /* over own rows; log_u over own anchors */
    double lambda, tau, quantile; /* of own anchors after the step; of own rows, if wanted */
    double rescued, unpaired;     /* unpaired: of own rows, what gf_row_negatives takes away */
    double grad_bias;             /* SIGMOID */
    double repeats;
    double precision, recall, same, hits; /* WANT_QUALITY: sums over anchors */
    double rank_sum, rank_moment;         /* authors_ranks: the gradient's half */
    double neighbours;                    /* over own anchors */
    double tau_used;                      /* device: the temperature that the step read; 0: that of the plan */
} gf_totals;

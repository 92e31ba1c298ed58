/* workspace.h - all arrays of a step, in one block. */
#pragma once

#include "cpu/cpu_passes.h"
#include "method/context.h"
#include "method/formulas/neighbours.h"
#include "method/formulas/plan.h"
#include "method/formulas/row.h"

typedef struct gf_side {
    /* embeddings */
    gf_embed z;             /* all rows, unit */
    gf_embed bank;          /* BANK: averages, for every row that of its sample */
    uint16_t *bank_rows;    /* [cols][dim] averages as the store has them: before the step; then of the own rows, after it */
    const gf_embed *judged; /* whose similarities thresholds are compared with: z or bank */
    gf_embed support;       /* FNC TOPK: scores instead of z */
    gf_embed extra;         /* candidates of this side: negatives of the other side's rows; of two views, of all rows */
    gf_embed ring;          /* RING: remembered embeddings that this side's anchors are compared with */
    float *norm;            /* [all] lengths before normalisation */
    float *extra_norm;      /* [candidates] */
    int32_t *extra_key;     /* [candidates] as gf_workspace.key */
    int32_t *extra_none;    /* [candidates] -1: their label and group */
    float *extra_grad;      /* [candidates][ld] */
    double *positive;       /* [own] S of the positive pair */
    int32_t *unpaired;      /* [own] pairs of a row that are none, by its key; NULL: there are no such pairs */
    gf_others *others;      /* [own] several positives: sums over those of other samples */
    /* thresholds */
    float *quantile;            /* [own] a selected order statistic */
    gf_rounded rounded;         /* rows from whose products the candidates of the lists come; row NULL: from those of z */
    gf_lists lists;             /* [own] from which it is selected; where lambda is learned, in the memory of sums.window */
    int64_t *row_id;            /* [own] anchor ids, for the ring */
    float *theta;               /* [all] thresholds before the sums, if those of columns decide, too */
    glofnd_anchor *state;       /* [rows] of the own anchors */
    glofnd_anchor *fresh_state; /* [rows] to be written back */
    uint8_t *open;              /* [rows] lambda is updated after the sums */
    /* sums over the own rows */
    gf_sum_in limits;
    gf_sum_out sums;
    int32_t *detector_kept; /* [own] kept by the detector, also where the loss does not use it yet */
    float *floor;           /* [own] rescued rows: the least similar negative, which is kept; else -inf */
    int32_t *equals;        /* [own] negatives that are as little similar */
    /* gradient */
    gf_grad_in weights; /* of all rows, from the links */
    gf_grad_out grads;  /* of the own rows; grad: FNC TOPK, of all */
    float *pos;         /* [all] as gf_link */
} gf_side;

#define GF_NEIGHBOUR_BLOCK 64 /* rows of the store that are compared at a time; whole panels */

typedef struct gf_near {   /* attraction by neighbours, see formulas/neighbours.h */
    uint64_t key;          /* of the batch that the arrays are of; 0: none */
    float *anchor;         /* [gf_pad(rows)][dim] averages of the own anchors */
    gf_neighbour *list;    /* [threads][rows][neighbours] */
    gf_neighbour *nearest; /* [cols] the first one of every anchor of the batch */
    double *sum;           /* [cols] their similarities, to be summed over ranks */
    float *pull;           /* [rows][dim] c_a */
    double *dot;           /* [rows] sum of z . c_a over the rows of the anchor */
    int64_t *found;        /* [rows] neighbours in c_a */
    uint16_t *rows;        /* [threads][GF_NEIGHBOUR_BLOCK][dim] of the store */
    float *panels;         /* [threads][dim * GF_NEIGHBOUR_BLOCK] */
} gf_near;

#define GF_SHARED 3 /* numbers of a sample that ranks exchange */

typedef struct gf_workspace {
    gf_shape shape;         /* that the block is laid out for */
    unsigned configuration; /* of the context, that the shape is of */
    void *block;
    size_t bytes;
    int borrowed; /* the block is the caller's: it is neither replaced nor freed */
    gf_side side[2];
    gf_near near;
    gf_embed guide;     /* FIXED: for every row that of its sample */
    float *guide_theta; /* [all] */
    gf_link *links;     /* [cols][2] for glofnd_step */
    int64_t *id_scratch;
    double *theta_sum; /* [all] thresholds to be summed over ranks */
    /* Keys: rows and candidates of one key >= 0 are of one anchor, or positives of each other. A key is the position of the first of
     * these samples. */
    int32_t *key;       /* [all], of both sides */
    int32_t *key_table; /* [2 cols] position + 1, at a place that its id gives; 0: free */
    int32_t *key_count; /* [cols][3] samples of the batch, candidates of each side with this key */
    int32_t *first_positive,
        *next_positive; /* [cols] positives of each other: their first sample, -1: alone; the next, -1: the last */
    /* repeats: own samples of one anchor are a list from its first one on. */
    int32_t *copy;                    /* [rows] the first one */
    int32_t *next_copy;               /* [rows] -1: the last one */
    int32_t *last_copy;               /* [cols] by key, while the lists are made */
    double *row_log_u, *row_grad_tau; /* [own] of the rows of a side */
    /* The same for anchors with samples on several ranks, which exchange what their own samples bring. */
    int32_t *apart; /* [cols] place of a sample of such an anchor in `shared`, in the order of the batch; -1: none of these */
    int32_t *next_apart; /* [cols] the next sample of the anchor in the batch; -1: the last one */
    double *shared;      /* [samples of such anchors][GF_SHARED] to be summed over ranks; a rank fills the places of its own */
    int64_t *key_row;    /* [rows] of a store of keys: rows of the own samples */
    void *tile_scratch, *select_scratch;
    float *tiles; /* NULL if they would be too large to keep */
} gf_workspace;

/* Bytes of similarities that are kept from the sums to the gradient: those that fit the cache; of wide embeddings more, since to make S
 * again takes longer than to read it from memory. */
#define GF_TILES_KEPT (16u << 20)
#define GF_WIDE_TILES_KEPT (64u << 20)
#define GF_WIDE_DIM 256

/* E_ARGUMENT unless 1 <= rows <= cols, cols >= 2, dim >= 1, all within reason. */
glofnd_status gf_shape_check(gf_error *err, int64_t rows, int64_t cols, int64_t dim);
gf_shape gf_shape_of(const glofnd_ctx *c, int64_t rows, int64_t cols, int64_t dim);
/* The same for a batch, with its candidates. */
gf_shape gf_shape_of_batch(const glofnd_ctx *c, const gf_step_batch *q);
/* Lays the block out for a batch under the options of the context: no-op if it is already, no allocation if it is large enough. */
glofnd_status gf_workspace_reserve(glofnd_ctx *c, int64_t rows, int64_t cols, int64_t dim);
/* The same for `shape`. `smaller_too`: the block is then large enough for every smaller shape, too, which may keep its tiles. */
glofnd_status gf_workspace_lay_out(glofnd_ctx *c, const gf_shape *shape, int smaller_too);
/* Bytes that it would allocate for `shape` and every smaller one. */
size_t gf_workspace_bytes(const gf_shape *shape);
/* The workspace lies in `memory` from now on; NULL: it is allocated when needed. */
glofnd_status gf_workspace_adopt(glofnd_ctx *c, void *memory, size_t bytes);
void gf_workspace_free(gf_workspace *ws);

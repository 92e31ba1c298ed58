/* ranks.h - several ranks in one program: each a thread with its own context and store, that meet where the library sums. */
#pragma once

#include "method/formulas/row.h"
#include "state.h"

typedef struct rank {
    replica r;
    glofnd_batch batch; /* of all ranks */
    glofnd_own_rows own;
    gf_link *links; /* [rows][2], part of the array of all ranks */
    glofnd_stats stats;
    float *grad[2];       /* [rows][dim] */
    uint8_t *keep;        /* as glofnd_step_mask writes it */
    glofnd_status status; /* of glofnd_step_rows */
} rank;

/* glofnd_step_rows on every rank: at once, for they may wait for each other. */
int ranks_step_rows(rank *ranks, int64_t world, message *m);

/* pass_flags.h - what a pass over all pairs has to do: bits of gf_plan.flags and gf_pass.flags. */
#pragma once

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
    GF_COLSUM = 512,       /* grad: row->sum, row->moment get the column role's W and W (S - align), summed over the row */
    GF_KEEP_TILES = 1024,  /* stats: leave the tiles in `tiles` for the grad pass that follows */
    GF_REUSE_TILES = 2048, /* stats after a selection, grad: they are there */
    GF_MARKS = 4096        /* flagged pairs are given as bits: gf_rows.marks */
};

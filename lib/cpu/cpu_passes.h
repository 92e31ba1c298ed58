/* cpu_passes.h - the passes over all pairs on the CPU; ifc/pair_passes.h has their data. */
#pragma once

#include "device/pair_passes.h"

/* Floats per row for embeddings of `dim` numbers. */
int64_t gf_cpu_embed_ld(int64_t dim);
/* Words per row of e->row16. */
int64_t gf_cpu_embed_ld16(int64_t dim);
/* Fills e->row from h [rows]: row r of h goes to row first + r * step, so that two views interleave. norm [..] gets |h| at the
 * same places, or 1 without normalize. Returns the first bad row (not finite, not unit without normalize) or -1. */
int64_t gf_cpu_embed(const gf_embed *e, const gf_source *h, int64_t rows, int64_t first, int64_t step, int normalize, float *norm,
                     int threads);
/* After all rows are in: the packed copy, and the rounded ones where e->row16 is not NULL. */
void gf_cpu_pack(const gf_embed *e, int threads);

void gf_cpu_stats(gf_pass *p);
void gf_cpu_close_windows(gf_pass *p);
void gf_cpu_grad(gf_pass *p);
void gf_cpu_select(const gf_select *p);
/* row->above = pairs with S > row->mid. */
void gf_cpu_count(gf_pass *p);
/* row->marks, and row->marks_col where col_theta is given. */
void gf_cpu_mark(gf_pass *p, const gf_marking *m);
/* keep [q->rows][keep_ld] bytes, one per column, by theta, floor, tie, group of p->row. */
void gf_cpu_mask(const gf_pass *p, uint8_t *keep, int64_t keep_ld);

/* Bytes of gf_pass.scratch, gf_select.scratch (best: largest rank + 1) and gf_pass.tiles. */
size_t gf_cpu_scratch_bytes(int64_t tile, int threads);
size_t gf_cpu_select_bytes(int64_t best, int threads);
/* Entries per row that gf_select.lists need for `best` of `cols`, a share of about alpha; 0: lists do not pay. */
int64_t gf_cpu_lists_capacity(int64_t cols, double alpha, int64_t best, int64_t tile);
/* 1: this CPU multiplies integers faster, and selections of so many columns gain by gf_select.rounded. */
int gf_cpu_rounding_pays(int64_t cols, int64_t dim);
size_t gf_cpu_tiles_bytes(int64_t rows, int64_t cols, int64_t tile, int symmetric);

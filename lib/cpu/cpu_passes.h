/* cpu_passes.h - the operations of a step on the CPU; device/pair_passes.h has their data. */
#pragma once

#include "cpu/kernels/cpu_kernels.h"
#include "device/pair_passes.h"

/* ----- cpu_passes.c: the functions of gf_pair_ops ----- */

int64_t gf_cpu_embed(const gf_embed *e, const gf_source *h, int64_t rows, int64_t first, int64_t step, int normalize, float *norm,
                     int threads);
/* Row r of the caller. */
const void *gf_source_row(const gf_source *h, int64_t r);
void gf_cpu_pack(const gf_embed *e, int threads);
void gf_cpu_select(const gf_select *p);
void gf_cpu_count(const gf_sum_pass *p);
void gf_cpu_mark(const gf_pass *p, const gf_marking *m);
void gf_cpu_sum(const gf_sum_pass *p);
void gf_cpu_close(const gf_sum_pass *p);
void gf_cpu_gradient(const gf_gradient_pass *p);
void gf_cpu_mask(const gf_gradient_pass *p, uint8_t *keep, int64_t keep_ld);

/* ----- sizes of their arrays ----- */

/* Floats per row for embeddings of `dim` numbers; words per row of e->row16. */
int64_t gf_cpu_embed_ld(int64_t dim);
int64_t gf_cpu_embed_ld16(int64_t dim);
/* Bytes of gf_pass.scratch, gf_pass.tiles and gf_select.scratch (best: largest rank + 1). */
size_t gf_cpu_scratch_bytes(int64_t tile, int threads);
size_t gf_cpu_tiles_bytes(int64_t rows, int64_t cols, int64_t tile, int symmetric);
size_t gf_cpu_select_bytes(int64_t best, int threads);
/* Entries per row that gf_select.lists need for `best` of `cols`, a share of about alpha; 0: lists do not pay. */
int64_t gf_cpu_lists_capacity(int64_t cols, double alpha, int64_t best, int64_t tile);
/* 1: this CPU multiplies integers faster, and selections of so many columns gain by gf_select.rounded. */
int gf_cpu_rounding_pays(int64_t cols, int64_t dim);

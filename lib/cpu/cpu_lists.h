/* cpu_lists.h - inside the CPU backend: order statistics from lists of the largest similarities of every row. */
#pragma once

#include "device/pair_passes.h"

/* Fills p->lists, then value[] and tie[] of the rows whose list is enough. The others have lists.count -1. */
void gf_cpu_select_lists(const gf_select *p);
/* Fills p->rounded from the rows of p->q; returns the largest of `lost`. */
float gf_cpu_round_rows(const gf_select *p);
/* The similarity of row r and any other by integers, less that by floats, is within +- this. */
float gf_cpu_rounded_error(const gf_select *p, int64_t r, float lost_max);
/* The result of row r from its list, whose values are of integers: those that may matter are computed as floats. The list has all
 * above lists.limit[r]; returns 0 if it needs more. */
int gf_cpu_settle_rounded(const gf_select *p, int64_t r, float error, int thread);
/* The scratch of one thread: at least GF_PANEL rows of 1024 floats. */
float *gf_cpu_select_scratch(const gf_select *p, int thread);

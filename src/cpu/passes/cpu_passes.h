/* cpu_passes.h - the operations of the CPU backend; see ifc/pair_passes.h for what they do. */
#ifndef GF_CPU_PASSES_CPU_PASSES_H
#define GF_CPU_PASSES_CPU_PASSES_H

#include "ifc/pair_passes.h"

void gf_cpu_stats(gf_pass *p);
void gf_cpu_settle(gf_pass *p);
void gf_cpu_grad(gf_pass *p);
void gf_cpu_mask(const gf_pass *p, uint8_t *keep, int64_t keep_ld);
void gf_cpu_select(const gf_select *p);
size_t gf_cpu_select_scratch(int64_t best); /* per thread */

#endif

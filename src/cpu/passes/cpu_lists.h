/* cpu_lists.h - inside the CPU backend: order statistics from lists of the largest similarities of every row. */
#pragma once

#include "ifc/pair_passes.h"

/* Fills p->lists, then value[] and tie[] of the rows whose list is enough. The others have lists.count -1. */
void gf_cpu_select_lists(const gf_select *p);
/* The scratch of one thread: at least GF_PANEL rows of 1024 floats. */
float *gf_cpu_select_scratch(const gf_select *p, int thread);

/* memory.h - the memory that a run holds, by kind: counted from allocations, not estimated. */
#pragma once

#include "run/run_log.h"

struct gf_trainer;

/* After build; the first steps may still allocate some. */
void gf_trainer_memory(const struct gf_trainer *t, gf_memory_split *out);

void gf_memory_of_run(const struct gf_trainer *t, gf_memory_record *out);

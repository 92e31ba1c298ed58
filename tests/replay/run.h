/* run.h - replays one case: computes every output and offers it for comparison. REPLAY_OK: it ran to its end; the comparison
 * decides if the outputs agree. */
#pragma once

#include "compare.h"

/* Families unimodal_* and bimodal_*: steps of the library. */
int run_steps(const golden_case *c, outputs *o, message *m);
/* Families optimizer_* and schedule_*: src/optim alone. */
int run_lars(const golden_case *c, outputs *o, message *m);
int run_adamw(const golden_case *c, outputs *o, message *m);
int run_lr_unimodal(const golden_case *c, outputs *o, message *m);
int run_lr_cosine(const golden_case *c, outputs *o, message *m);
int run_lr_tau(const golden_case *c, outputs *o, message *m);
int run_gamma(const golden_case *c, outputs *o, message *m);

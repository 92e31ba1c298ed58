/* loss_extras.h - what a batch may have beside its samples: time per similarity against a plain step. */
#pragma once

#include "support/loss_compare.h"

enum { EXTRAS = 9 };

/* Fills rows[EXTRAS]: a plain step; as many candidates as samples, with their gradients, and with ids; every eighth sample a copy of the
 * one before it; a store of keys; groups of four samples that are positives of each other; detectors mutual, and fixed with a guide of
 * 384 numbers. row.n: similarities of the embeddings, each once; row.over_none: time per similarity over that of the plain step. */
void loss_compare_extras(const plan *p, int64_t batch, int64_t dim, row *rows);

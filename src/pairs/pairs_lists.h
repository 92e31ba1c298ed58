/* pairs_lists.h - results of an anchor, read off its list of candidates. */
#pragma once

#include "pairs/best.h"
#include "pairs/pairs_search.h"

/* The best of a list that are not above the threshold f->lambda[i]; the list is long enough to hold them. */
void gf_lists_edge(const gf_best *b, int64_t list, gf_pairs_found *f, int64_t i);
/* The f->top best of a list, which is sorted and cut to them. */
void gf_lists_top(gf_best *b, int64_t list, gf_pairs_found *f, int64_t i);
/* Entries of a list that holds the threshold and the edge below it. */
static inline int64_t gf_lists_keep(const gf_pairs_task *t) { return t->rank + t->edge - (t->edge > 0); }

/* pairs_lists.h - results of an anchor, read off its list of candidates. */
#pragma once

#include "pairs/best.h"
#include "pairs/pairs_search.h"

/* The best of a list that are not above the threshold f->lambda[i]; the list is long enough to hold them. */
void gf_lists_edge(const gf_best *b, int64_t list, gf_pairs_found *f, int64_t i);
/* The f->top best of a list, which is sorted and cut to them. */
void gf_lists_top(gf_best *b, int64_t list, gf_pairs_found *f, int64_t i);
/* The lists of all f->n anchors. Thresholds (of a list with fewer entries than the rank: its last one) and the edge; then what is
 * above them (mutual_root [threads][n]: joins of mutual pairs); at last the best of them. */
void gf_lists_all_thresholds(gf_best *b, const gf_pairs_task *t, gf_pairs_found *f);
void gf_lists_all_pairs(gf_best *b, const gf_pairs_task *t, gf_pairs_found *f, int32_t *mutual_root);
void gf_lists_all_top(gf_best *b, const gf_pairs_task *t, gf_pairs_found *f);
/* Mutual pairs of f, whose lists have all that is above a threshold, but not at both ends of each pair: sets mutual and joins
 * mutual_root, in which all stand alone. */
void gf_lists_mutual(gf_pairs_found *f, int threads);
/* Entries of a list that holds the threshold and the edge below it. */
static inline int64_t gf_lists_keep(const gf_pairs_task *t) { return t->rank + t->edge - (t->edge > 0); }

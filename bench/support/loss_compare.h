/* loss_compare.h - one batch size: all detectors of the library side by side, then beside the materialising implementation. */
#pragma once

#include "support/report.h"

typedef struct plan { /* how long to measure */
    int threads, with_naive;
    int epochs;                /* of training before */
    double library_s, naive_s; /* per size; per size and detector */
    int min_rounds;            /* repetitions, however long they take */
} plan;

enum { DETECTORS = 5 };
extern const char *const detector_names[DETECTORS];

/* Fills rows[DETECTORS]. Both implementations must agree on loss, kept pairs, gradients and new state before any of them is
 * timed: dies otherwise. */
void loss_compare_detectors(const plan *p, int64_t batch, int64_t dim, row *rows);
/* The cost of large stores: rows[count] for n[count] anchors. */
void loss_compare_anchors(const plan *p, int64_t batch, int64_t dim, const int64_t *n, int count, row *rows);

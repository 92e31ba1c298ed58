/* step_mask.c - a look into a step: which pairs its links keep, by the same comparisons of the same bits as the gradient. */
#include <string.h>

#include "method/step/step.h"

/* Two views: columns come as (sample, view) and are wanted as [view][sample]. */
static void by_view(uint8_t *keep, uint8_t *scratch, int64_t cols) {
    memcpy(scratch, keep, (size_t)(2 * cols));
    for (int64_t j = 0; j < cols; j++) {
        keep[j] = scratch[2 * j];
        keep[cols + j] = scratch[2 * j + 1];
    }
}

void gf_step_show_mask(gf_step *t, const gf_link *links, uint8_t *keep) {
    const int sides = t->shape->sides;
    const int64_t cols = t->q->cols;
    gf_step_unpack(t, links);
    for (int i = 0; i < sides; i++) {
        gf_own_pass x;
        gf_step_own_pass(t, i, gf_step_own_rows(t, i), &x);
        gf_cpu_mask(&x.p, keep + i * cols, 2 * cols);
    }
    for (int64_t r = 0; sides == 1 && r < t->shape->own; r++) by_view(keep + r * 2 * cols, (uint8_t *)t->ws->id_scratch, cols);
}

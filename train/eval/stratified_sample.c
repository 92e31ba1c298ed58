/* stratified_sample.c - see stratified_sample.h: samples in the order of a keyed permutation, each class up to its quota. */
#include "eval/stratified_sample.h"

#include <stdlib.h>

#include "util/array.h"
#include "util/rng.h"

#define ROUNDING 1e-9 /* 0.1 of 30 samples are 3, although 0.1 is not exact in binary */

static int32_t count_classes(const int32_t *label, int64_t n) {
    int32_t max = -1;
    for (int64_t i = 0; i < n; i++) max = GF_MAX(label[i], max);
    return max + 1;
}

/* quota [classes]: samples still to be drawn. */
static void set_quotas(gf_stratified_sample *d, const int32_t *label, int64_t n, int64_t *quota, int32_t classes) {
    d->classes = 0;
    d->raised = 0;
    for (int64_t i = 0; i < n; i++)
        if (label[i] >= 0) quota[label[i]]++;
    for (int32_t c = 0; c < classes; c++) {
        if (quota[c] == 0) continue;
        d->classes++;
        quota[c] = (int64_t)(d->share * (double)quota[c] + ROUNDING);
        if (quota[c] > 0 || !d->at_least_one) continue;
        quota[c] = 1;
        d->raised++;
    }
}

glofnd_status gf_stratified_draw(gf_error *err, gf_stratified_sample *d, const int32_t *label, int64_t n, uint8_t *chosen) {
    FAIL_IF(err, !(d->share > 0.0 && d->share <= 1.0), GLOFND_E_ARGUMENT, "the share is %g; expected a number in (0, 1]",
            d->share);
    const int32_t classes = count_classes(label, n);
    int64_t *quota = calloc((size_t)classes + 1, sizeof *quota);
    FAIL_IF(err, !quota, GLOFND_E_MEMORY, "no memory to draw from %d classes", (int)classes);
    set_quotas(d, label, n, quota, classes);
    for (int64_t i = 0; i < n; i++) chosen[i] = 0;
    d->count = 0;
    for (int64_t position = 0; position < n; position++) {
        const int64_t i = gf_permute(d->seed, d->stream, n, position);
        if (label[i] < 0 || quota[label[i]] == 0) continue;
        quota[label[i]]--;
        chosen[i] = 1;
        d->count++;
    }
    free(quota);
    return GLOFND_OK;
}

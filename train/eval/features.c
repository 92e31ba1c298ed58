/* features.c - see features.h. */
#include "eval/features.h"

#include <stdlib.h>
#include <string.h>

#include "eval/stratified_sample.h"
#include "util/array.h"

glofnd_status gf_features_alloc(gf_error *err, gf_features *f, int64_t n, int64_t dim) {
    *f = (gf_features){.n = n, .dim = dim};
    FAIL_IF(err, n < 1 || dim < 1 || (size_t)n > SIZE_MAX / sizeof(float) / (size_t)dim, GLOFND_E_ARGUMENT,
            "%lld rows of %lld features are too large", (long long)n, (long long)dim);
    f->x = malloc((size_t)n * (size_t)dim * sizeof *f->x);
    f->label = malloc((size_t)n * sizeof *f->label);
    if (f->x && f->label) return GLOFND_OK;
    gf_features_free(f);
    GF_FAIL(err, GLOFND_E_MEMORY, "no memory for %lld rows of %lld features", (long long)n, (long long)dim);
}

void gf_features_free(gf_features *f) {
    if (!f) return;
    free(f->x);
    free(f->label);
    *f = (gf_features){0};
}

int32_t gf_features_classes(const gf_features *f) {
    int32_t max = -1;
    for (int64_t i = 0; i < f->n; i++) max = GF_MAX(f->label[i], max);
    return max + 1;
}

/* ----- holding out ----- */

static void copy_row(gf_features *to, int64_t at, const gf_features *from, int64_t i) {
    memmove(to->x + at * to->dim, from->x + i * from->dim, (size_t)from->dim * sizeof *from->x);
    to->label[at] = from->label[i];
}

static void separate(gf_features *f, gf_features *held, const uint8_t *chosen) {
    int64_t kept = 0, moved = 0;
    for (int64_t i = 0; i < f->n; i++) {
        if (chosen[i]) copy_row(held, moved++, f, i);
        else copy_row(f, kept++, f, i);
    }
    f->n = kept;
}

glofnd_status gf_features_hold_out(gf_error *err, gf_features *f, double share, uint64_t seed, gf_features *held) {
    gf_stratified_sample d = {.share = share, .seed = seed, .stream = GF_STRATIFIED_TEST};
    uint8_t *chosen = malloc((size_t)f->n + 1);
    FAIL_IF(err, !chosen, GLOFND_E_MEMORY, "no memory to split %lld samples", (long long)f->n);
    glofnd_status status = gf_stratified_draw(err, &d, f->label, f->n, chosen);
    if (status == GLOFND_OK && d.count == 0)
        status = gf_fail(err, GLOFND_E_ARGUMENT, "no class has enough samples to hold out %.0f %% of it", 100.0 * share);
    if (status == GLOFND_OK) status = gf_features_alloc(err, held, d.count, f->dim);
    if (status == GLOFND_OK) separate(f, held, chosen);
    free(chosen);
    return status;
}

/* view_set.c - see view_set.h. */
#include "eval/view_set.h"

#include <stdlib.h>

glofnd_status gf_view_set_alloc(gf_error *err, gf_view_set *s, int64_t n, int64_t dim) {
    *s = (gf_view_set){.n = n, .dim = dim};
    FAIL_IF(err, n < 1 || dim < 1 || (size_t)n > SIZE_MAX / sizeof(float) / (size_t)dim, GLOFND_E_ARGUMENT,
            "%lld embeddings of %lld numbers are too large", (long long)n, (long long)dim);
    s->z = malloc((size_t)n * (size_t)dim * sizeof *s->z);
    s->id = malloc((size_t)n * sizeof *s->id);
    s->label = malloc((size_t)n * sizeof *s->label);
    if (s->z && s->id && s->label) return GLOFND_OK;
    gf_view_set_free(s);
    GF_FAIL(err, GLOFND_E_MEMORY, "no memory for %lld embeddings of %lld numbers", (long long)n, (long long)dim);
}

void gf_view_set_free(gf_view_set *s) {
    if (!s) return;
    free(s->z);
    free(s->id);
    free(s->label);
    *s = (gf_view_set){0};
}

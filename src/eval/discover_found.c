/* discover_found.c - memory of a result; see discover_pass.h. */
#include <stdlib.h>

#include "eval/discover_pass.h"

glofnd_status gf_discover_found_alloc(gf_error *err, gf_discover_found *f, int64_t n, int64_t top) {
    const size_t rows = (size_t)(n > 0 ? n : 1), cells = rows * (size_t)(top > 0 ? top : 1);
    *f = (gf_discover_found){
        .n = n, .top = top, .lambda = calloc(rows, sizeof *f->lambda),
        .above = calloc(rows, sizeof *f->above), .mutual = calloc(rows, sizeof *f->mutual),
        .hits = calloc(rows, sizeof *f->hits), .copies = calloc(rows, sizeof *f->copies),
        .other = calloc(cells, sizeof *f->other), .similarity = calloc(cells, sizeof *f->similarity),
        .mutual_root = calloc(rows, sizeof *f->mutual_root), .copy_root = calloc(rows, sizeof *f->copy_root),
    };
    if (f->lambda && f->above && f->mutual && f->hits && f->copies && f->other && f->similarity && f->mutual_root && f->copy_root)
        return GLOFND_OK;
    gf_discover_found_free(f);
    GF_FAIL(err, GLOFND_E_MEMORY, "no memory for the result of %lld anchors", (long long)n);
}

void gf_discover_found_free(gf_discover_found *f) {
    free(f->lambda);
    free(f->above);
    free(f->mutual);
    free(f->hits);
    free(f->copies);
    free(f->other);
    free(f->similarity);
    free(f->mutual_root);
    free(f->copy_root);
    *f = (gf_discover_found){0};
}

/* context.c - life of a context. */
#include "fnd/context.h"

#include <stdlib.h>

#include "base/parallel.h"
#include "fnd/options.h"
#include "fnd/workspace.h"

static void adopt(glofnd_ctx *c, const glofnd_options *o) {
    c->o = *o;
    c->threads = o->threads > 0 ? o->threads : gf_parallel_default();
}

glofnd_status glofnd_ctx_create(const glofnd_options *o, glofnd_ctx **out) {
    glofnd_options known;
    if (!out) return GLOFND_E_ARGUMENT;
    *out = NULL;
    if (!o) return GLOFND_E_ARGUMENT;
    TRY(gf_options_adopt(NULL, o, &known));
    glofnd_ctx *c = calloc(1, sizeof *c);
    if (!c) return GLOFND_E_MEMORY;
    c->backend = &gf_backend_cpu;
    adopt(c, &known);
    *out = c;
    return GLOFND_OK;
}

void glofnd_ctx_free(glofnd_ctx *c) {
    if (!c) return;
    gf_workspace_free(c->ws);
    free(c);
}

glofnd_status glofnd_ctx_configure(glofnd_ctx *c, const glofnd_options *o) {
    glofnd_options known;
    if (!c) return GLOFND_E_ARGUMENT;
    FAIL_IF(&c->err, !o, GLOFND_E_ARGUMENT, "options is NULL");
    TRY(gf_options_adopt(&c->err, o, &known));
    adopt(c, &known);
    return GLOFND_OK;
}

glofnd_status glofnd_ctx_reserve(glofnd_ctx *c, int64_t rows, int64_t cols, int64_t dim, size_t *bytes) {
    if (!c) return GLOFND_E_ARGUMENT;
    TRY(gf_shape_check(&c->err, rows, cols, dim));
    const gf_shape shape = gf_shape_of(c, rows, cols, dim);
    TRY(gf_workspace_reserve(c, &shape, 1));
    if (bytes) *bytes = c->ws->bytes;
    return GLOFND_OK;
}

glofnd_status glofnd_ctx_reduce(glofnd_ctx *c, int (*sum)(void *user, double *x, int n), void *user) {
    if (!c) return GLOFND_E_ARGUMENT;
    c->reduce = sum;
    c->reduce_user = user;
    return GLOFND_OK;
}

const char *glofnd_ctx_error(const glofnd_ctx *c) { return c ? c->err.text : ""; }

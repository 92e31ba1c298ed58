/* context.c - life of a context. */
#include "method/context.h"

#include <stdio.h>
#include <stdlib.h>

#include "method/options.h"
#include "method/workspace.h"
#include "util/parallel.h"

static void adopt(glofnd_ctx *c, const glofnd_options *o) {
    c->o = *o;
    c->threads = o->threads > 0 ? o->threads : gf_parallel_default();
}

/* ---- devices ---- */

static glofnd_status check_device(gf_error *err, glofnd_device device) {
    if (device == GLOFND_DEVICE_CPU) return GLOFND_OK;
    const gf_device *d = gf_device_find(err, device);
    return d ? d->check(err) : GLOFND_E_UNSUPPORTED;
}

glofnd_status glofnd_device_check(glofnd_device device, char *why, size_t why_bytes) {
    gf_error err = {""};
    const glofnd_status status = check_device(&err, device);
    if (why && why_bytes) snprintf(why, why_bytes, "%s", status == GLOFND_OK ? "" : err.text);
    return status;
}

static glofnd_status open_device(glofnd_ctx *c) {
    if (c->o.device == GLOFND_DEVICE_CPU) return GLOFND_OK;
    TRY(check_device(&c->err, c->o.device));
    c->device = gf_device_find(&c->err, c->o.device);
    return c->device->open(&c->err, &c->on);
}

/* ---- life ---- */

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
    const glofnd_status status = open_device(c);
    if (status != GLOFND_OK) {
        glofnd_ctx_free(c);
        return status;
    }
    *out = c;
    return GLOFND_OK;
}

void glofnd_ctx_free(glofnd_ctx *c) {
    if (!c) return;
    if (c->device) c->device->close(c->on);
    gf_workspace_free(c->ws);
    free(c);
}

glofnd_status glofnd_ctx_configure(glofnd_ctx *c, const glofnd_options *o) {
    glofnd_options known;
    if (!c) return GLOFND_E_ARGUMENT;
    FAIL_IF(&c->err, !o, GLOFND_E_ARGUMENT, "options is NULL");
    TRY(gf_options_adopt(&c->err, o, &known));
    FAIL_IF(&c->err, known.device != c->o.device, GLOFND_E_ARGUMENT, "device cannot change: make another context");
    adopt(c, &known);
    return GLOFND_OK;
}

glofnd_status glofnd_ctx_reserve(glofnd_ctx *c, int64_t rows, int64_t cols, int64_t dim, size_t *bytes) {
    if (!c) return GLOFND_E_ARGUMENT;
    TRY(gf_shape_check(&c->err, rows, cols, dim));
    const gf_shape shape = gf_shape_of(c, rows, cols, dim);
    if (c->device) return c->device->reserve(&c->err, c->on, &shape, bytes);
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

glofnd_status glofnd_ctx_stream(glofnd_ctx *c, void *cuda_stream) {
    if (!c) return GLOFND_E_ARGUMENT;
    FAIL_IF(&c->err, !c->device, GLOFND_E_UNSUPPORTED, "this context is for the CPU, which has no streams");
    return c->device->stream(&c->err, c->on, cuda_stream);
}

const char *glofnd_ctx_error(const glofnd_ctx *c) { return c ? c->err.text : ""; }

/* context.c - life of a context. */
#include "method/context.h"

#include <stdlib.h>

#include "method/options.h"
#include "method/store.h"
#include "method/workspace.h"
#include "util/parallel.h"

static void adopt(glofnd_ctx *c, const glofnd_options *o) {
    c->o = *o;
    c->threads = o->threads > 0 ? o->threads : gf_parallel_default();
    c->configuration++;
}

/* ---- devices ---- */

/* NULL and a text: there is none, or this library was built without it. */
static const gf_device *find_device(gf_error *err, glofnd_device device) {
    if (device == GLOFND_DEVICE_CUDA && gf_device_cuda) return gf_device_cuda;
    gf_fail(err, GLOFND_E_UNSUPPORTED,
            device == GLOFND_DEVICE_CUDA
                ? "device: this library was built without CUDA; build it where nvcc is found (cmake -DGLOFND_CUDA=ON), "
                  "or set device=cpu"
                : "device: %d is not an accelerator",
            (int)device);
    return NULL;
}

static glofnd_status check_device(gf_error *err, glofnd_device device) {
    if (device == GLOFND_DEVICE_CPU) return GLOFND_OK;
    const gf_device *d = find_device(err, device);
    return d ? d->check(err) : GLOFND_E_UNSUPPORTED;
}

glofnd_status glofnd_device_check(glofnd_device device, char *why, size_t why_bytes) {
    gf_error err = {""};
    return gf_explain(check_device(&err, device), &err, why, why_bytes);
}

static glofnd_status open_device(gf_error *err, glofnd_ctx *c) {
    if (c->o.device == GLOFND_DEVICE_CPU) return GLOFND_OK;
    TRY(check_device(err, c->o.device));
    c->device = find_device(err, c->o.device);
    return c->device->open(err, &c->on);
}

/* ---- life ---- */

static glofnd_status create(gf_error *err, const glofnd_options *o, glofnd_ctx **out) {
    FAIL_IF(err, !o || !out, GLOFND_E_ARGUMENT, "%s is NULL", out ? "options" : "out");
    TRY(gf_method_options_check(err, o));
    glofnd_ctx *c = calloc(1, sizeof *c);
    FAIL_IF(err, !c, GLOFND_E_MEMORY, "no memory for a context");
    adopt(c, o);
    const glofnd_status status = open_device(err, c);
    if (status == GLOFND_OK) *out = c;
    else glofnd_ctx_free(c);
    return status;
}

glofnd_status glofnd_ctx_create(const glofnd_options *o, glofnd_ctx **out, char *why, size_t why_bytes) {
    gf_error err = {""};
    if (out) *out = NULL;
    return gf_explain(create(&err, o, out), &err, why, why_bytes);
}

void glofnd_ctx_free(glofnd_ctx *c) {
    if (!c) return;
    if (c->device) c->device->close(c->on);
    gf_workspace_free(c->ws);
    free(c);
}

glofnd_status glofnd_ctx_configure(glofnd_ctx *c, const glofnd_options *o) {
    if (!c) return GLOFND_E_ARGUMENT;
    FAIL_IF(&c->err, !o, GLOFND_E_ARGUMENT, "options is NULL");
    TRY(gf_method_options_check(&c->err, o));
    FAIL_IF(&c->err, o->device != c->o.device, GLOFND_E_ARGUMENT, "device cannot change: make a new context");
    adopt(c, o);
    return GLOFND_OK;
}

glofnd_status glofnd_ctx_reserve(glofnd_ctx *c, int64_t rows, int64_t cols, int64_t dim, size_t *bytes) {
    if (!c) return GLOFND_E_ARGUMENT;
    TRY(gf_shape_check(&c->err, rows, cols, dim));
    const gf_shape shape = gf_shape_of(c, rows, cols, dim);
    if (c->device) return c->device->reserve(&c->err, c->on, &shape, bytes);
    TRY(gf_workspace_lay_out(c, &shape, 1));
    if (bytes) *bytes = c->ws->bytes;
    return GLOFND_OK;
}

/* ---- workspace in memory of the caller ---- */

glofnd_status glofnd_ctx_workspace_bytes(glofnd_ctx *c, int64_t rows, int64_t cols, int64_t dim, size_t *bytes) {
    if (!c) return GLOFND_E_ARGUMENT;
    FAIL_IF(&c->err, !bytes, GLOFND_E_ARGUMENT, "bytes is NULL");
    TRY(gf_shape_check(&c->err, rows, cols, dim));
    const gf_shape shape = gf_shape_of(c, rows, cols, dim);
    *bytes = c->device ? 0 : gf_workspace_bytes(&shape);
    if (!c->device) return GLOFND_OK;
    FAIL_IF(&c->err, !c->device->workspace_bytes, GLOFND_E_UNSUPPORTED, "%s allocates its own workspace", c->device->name);
    return c->device->workspace_bytes(&c->err, c->on, &shape, bytes);
}

glofnd_status glofnd_ctx_workspace(glofnd_ctx *c, void *memory, size_t bytes) {
    if (!c) return GLOFND_E_ARGUMENT;
    FAIL_IF(&c->err, (uintptr_t)memory % 64 != 0, GLOFND_E_ARGUMENT, "the workspace is not aligned to 64 bytes");
    if (!c->device) return gf_workspace_adopt(c, memory, bytes);
    FAIL_IF(&c->err, !c->device->workspace, GLOFND_E_UNSUPPORTED, "%s allocates its own workspace", c->device->name);
    return c->device->workspace(&c->err, c->on, memory, bytes);
}

/* ---- ranks and streams ---- */

glofnd_status glofnd_ctx_reduce(glofnd_ctx *c, int (*sum)(void *user, double *x, int n), void *user) {
    if (!c) return GLOFND_E_ARGUMENT;
    c->reduce = sum;
    c->reduce_user = user;
    return GLOFND_OK;
}

glofnd_status glofnd_ctx_tau(glofnd_ctx *c, const float *tau) {
    if (!c) return GLOFND_E_ARGUMENT;
    FAIL_IF(&c->err, (uintptr_t)tau % sizeof *tau != 0, GLOFND_E_ARGUMENT, "tau is not aligned to %zu bytes", sizeof *tau);
    c->tau_at = tau;
    return GLOFND_OK;
}

glofnd_status glofnd_ctx_state(glofnd_ctx *c, glofnd_anchor *rows, int64_t n) {
    if (!c) return GLOFND_E_ARGUMENT;
    FAIL_IF(&c->err, (uintptr_t)rows % sizeof(float) != 0, GLOFND_E_ARGUMENT, "rows is not aligned to %zu bytes", sizeof(float));
    FAIL_IF(&c->err, rows && (n < 1 || n > GF_STORE_MAX_N), GLOFND_E_ARGUMENT, "n is %lld; allowed: 1 .. 2^40", (long long)n);
    c->state_at = rows;
    c->state_n = rows ? n : 0;
    return GLOFND_OK;
}

glofnd_status glofnd_ctx_stream(glofnd_ctx *c, void *cuda_stream) {
    if (!c) return GLOFND_E_ARGUMENT;
    FAIL_IF(&c->err, !c->device, GLOFND_E_UNSUPPORTED, "this context is for the CPU, which has no streams");
    return c->device->stream(&c->err, c->on, cuda_stream);
}

const char *glofnd_ctx_error(const glofnd_ctx *c) { return c ? c->err.text : ""; }

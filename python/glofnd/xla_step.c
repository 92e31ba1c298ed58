/* xla_step.c - glofnd_step() as a call of XLA (JAX), with functional state.
 *
 * Operands  a, b [batch][dim]; index, labels int32 [batch] (labels may be empty); epoch int32 []; tau float [];
 *           state [sides][n+1][9]
 * Results   loss float []; gradients of a and b, float [batch][dim]; gradient of tau float []; the new state
 * Attribute handle: the engine, set by glofnd_xla_set(). A number, not an address: compiled programs may be kept in files.
 *
 * Row n of a side is the shared lambda; a row is a glofnd_row of 9 words. Only the rows of the batch travel through the store, so
 * a store that other states went through gives the same result. glofnd/jax.py compiles this file against the user's jaxlib. */
#define GLOFND_EXPERIMENTAL
#include <glofnd.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "xla/ffi/api/c_api.h"

#define ENGINES_MAX 4096

typedef struct glofnd_xla_engine { /* filled by Python; calls of the libglofnd that is loaded there */
    glofnd_ctx *ctx;
    glofnd_store *store;
    int64_t n, sides;
    glofnd_status (*step)(glofnd_ctx *, glofnd_store *, const glofnd_batch *, void *, void *, glofnd_stats *);
    glofnd_status (*rows_get)(glofnd_ctx *, const glofnd_store *, int, const int64_t *, int64_t, glofnd_row *);
    glofnd_status (*rows_put)(glofnd_ctx *, glofnd_store *, int, const int64_t *, int64_t, const glofnd_row *);
    const char *(*error)(const glofnd_ctx *);
} glofnd_xla_engine;

static const glofnd_xla_engine *engines[ENGINES_MAX];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* contexts take one thread at a time */

int glofnd_xla_set(int64_t handle, const glofnd_xla_engine *e) {
    if (handle < 0 || handle >= ENGINES_MAX) return 1;
    engines[handle] = e;
    return 0;
}

int glofnd_xla_api_version(void) { return XLA_FFI_API_MAJOR * 1000 + XLA_FFI_API_MINOR; }

static XLA_FFI_Error *fail(const XLA_FFI_CallFrame *f, const char *text) {
    XLA_FFI_Error_Create_Args args = {XLA_FFI_Error_Create_Args_STRUCT_SIZE, NULL, text, XLA_FFI_Error_Code_INVALID_ARGUMENT};
    return f->api->XLA_FFI_Error_Create(&args);
}

static XLA_FFI_Buffer *operand(const XLA_FFI_CallFrame *f, int i) { return (XLA_FFI_Buffer *)f->args.args[i]; }
static XLA_FFI_Buffer *result(const XLA_FFI_CallFrame *f, int i) { return (XLA_FFI_Buffer *)f->rets.rets[i]; }

enum { A, B, INDEX, LABELS, EPOCH, TAU, STATE, OPERANDS };
enum { LOSS, GRAD_A, GRAD_B, GRAD_TAU, NEW_STATE, RESULTS };

/* The rows of the batch and the shared row between `state` and the store: into it (put), or back. */
static glofnd_status move_rows(const glofnd_xla_engine *e, int put, glofnd_row *state, const int64_t *id, int64_t batch,
                               glofnd_row *rows) {
    const int64_t shared = GLOFND_SHARED;
    glofnd_status status = GLOFND_OK;
    for (int side = 0; side < e->sides && status == GLOFND_OK; side++) {
        glofnd_row *own = state + side * (e->n + 1);
        for (int64_t i = 0; put && i < batch; i++) rows[i] = own[id[i]];
        status =
            put ? e->rows_put(e->ctx, e->store, side, id, batch, rows) : e->rows_get(e->ctx, e->store, side, id, batch, rows);
        for (int64_t i = 0; !put && status == GLOFND_OK && i < batch; i++) own[id[i]] = rows[i];
        if (status != GLOFND_OK) return status;
        status = put ? e->rows_put(e->ctx, e->store, side, &shared, 1, own + e->n)
                     : e->rows_get(e->ctx, e->store, side, &shared, 1, own + e->n);
    }
    return status;
}

static glofnd_status step(const glofnd_xla_engine *e, const XLA_FFI_CallFrame *f, const int64_t *id, glofnd_row *rows,
                          glofnd_stats *stats) {
    const XLA_FFI_Buffer *a = operand(f, A), *labels = operand(f, LABELS);
    const int64_t batch = a->dims[0];
    glofnd_row *state = (glofnd_row *)result(f, NEW_STATE)->data;
    const glofnd_batch q = {.size = sizeof q,
                            .rows = batch,
                            .cols = batch,
                            .dim = a->dims[1],
                            .a = a->data,
                            .b = operand(f, B)->data,
                            .id = id,
                            .label = labels->dims[0] ? (const int32_t *)labels->data : NULL,
                            .dtype = a->dtype == XLA_FFI_DataType_BF16  ? GLOFND_BF16
                                     : a->dtype == XLA_FFI_DataType_F16 ? GLOFND_F16
                                                                        : GLOFND_F32,
                            .epoch = *(const int32_t *)operand(f, EPOCH)->data,
                            .tau = (double)*(const float *)operand(f, TAU)->data};
    glofnd_status status = move_rows(e, 1, state, id, batch, rows);
    if (status == GLOFND_OK) status = e->step(e->ctx, e->store, &q, result(f, GRAD_A)->data, result(f, GRAD_B)->data, stats);
    return status == GLOFND_OK ? move_rows(e, 0, state, id, batch, rows) : status;
}

/* NULL, or the text of what is wrong. Ids are checked here because they are used here; the library checks the rest. */
static const char *read_ids(const glofnd_xla_engine *e, const XLA_FFI_CallFrame *f, int64_t *id, char *text, size_t text_bytes) {
    const int32_t *index = (const int32_t *)operand(f, INDEX)->data;
    for (int64_t i = 0; i < operand(f, INDEX)->dims[0]; i++) {
        id[i] = index[i];
        if (id[i] >= 0 && id[i] < e->n) continue;
        snprintf(text, text_bytes, "index[%lld] is %lld; there are samples 0 .. %lld", (long long)i, (long long)id[i],
                 (long long)e->n - 1);
        return text;
    }
    return NULL;
}

static XLA_FFI_Error *execute(XLA_FFI_CallFrame *f, const glofnd_xla_engine *e) {
    const int64_t batch = operand(f, A)->dims[0];
    const XLA_FFI_Buffer *from = operand(f, STATE), *to = result(f, NEW_STATE);
    char text[1024];
    glofnd_stats stats = {.size = sizeof stats};
    int64_t *id = malloc(sizeof *id * (size_t)(batch + 1));
    glofnd_row *rows = malloc(sizeof *rows * (size_t)(batch + 1));
    const char *wrong = id && rows ? read_ids(e, f, id, text, sizeof text) : "out of memory";
    if (!wrong) {
        if (from->data != to->data) memcpy(to->data, from->data, sizeof(glofnd_row) * (size_t)(e->sides * (e->n + 1)));
        pthread_mutex_lock(&lock);
        if (step(e, f, id, rows, &stats) != GLOFND_OK) {
            snprintf(text, sizeof text, "%s", e->error(e->ctx));
            wrong = text;
        }
        pthread_mutex_unlock(&lock);
        *(float *)result(f, LOSS)->data = (float)stats.loss;
        *(float *)result(f, GRAD_TAU)->data = (float)stats.grad_tau;
    }
    free(id);
    free(rows);
    return wrong ? fail(f, wrong) : NULL;
}

XLA_FFI_Error *glofnd_xla_step(XLA_FFI_CallFrame *f) {
    if (f->extension_start && f->extension_start->type == XLA_FFI_Extension_Metadata) {
        XLA_FFI_Metadata *about = ((XLA_FFI_Metadata_Extension *)f->extension_start)->metadata;
        about->api_version.major_version = XLA_FFI_API_MAJOR;
        about->api_version.minor_version = XLA_FFI_API_MINOR;
        return NULL;
    }
    if (f->stage != XLA_FFI_ExecutionStage_EXECUTE) return NULL;
    if (f->args.size != OPERANDS || f->rets.size != RESULTS || f->attrs.size != 1) return fail(f, "glofnd_step: wrong operands");
    const int64_t handle = *(const int64_t *)((XLA_FFI_Scalar *)f->attrs.attrs[0])->value;
    if (handle < 0 || handle >= ENGINES_MAX || !engines[handle]) return fail(f, "glofnd_step: unknown handle");
    return execute(f, engines[handle]);
}

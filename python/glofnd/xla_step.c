/* xla_step.c - glofnd_step() as a call of XLA (JAX), with functional state, on the CPU or on one NVIDIA GPU.
 *
 * Operands  a, b [batch][dim]; ids int64 [batch], as int32 [batch][2]; labels int32 [batch] (may be empty); epoch int32 [];
 *           tau float []; rows [sides][batch + 1][9]
 * Results   loss float []; gradients of a and b, float [batch][dim]; gradient of tau float []; the new rows
 * Attribute handle: the engines, set by glofnd_xla_set(). A number, not an address: compiled programs may be kept in files.
 *
 * A row is a glofnd_row of 9 words; the last one of a side is the shared lambda. Only the rows of the batch travel through the
 * store, so a store that other states went through gives the same result. On the GPU a step waits for its stream twice: the rows
 * calls, epoch and tau are host memory. A failure begins with the name of its status, of which glofnd/jax.py makes an exception.
 * That file compiles this one against the user's jaxlib. */
#define GLOFND_EXPERIMENTAL
#include <dlfcn.h>
#include <glofnd.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "xla/ffi/api/c_api.h"

#define ENGINES_MAX 4096

typedef struct glofnd_xla_engine { /* filled by Python; calls of the libglofnd that is loaded there */
    glofnd_ctx *ctx[3];            /* CPU; CUDA for float32 and for shorter types, or NULL */
    glofnd_store *store[3];
    int64_t n, sides;
    int64_t device; /* CUDA: the number of the GPU that ctx[1] was made on; set by glofnd_xla_set() */
    glofnd_status (*step)(glofnd_ctx *, glofnd_store *, const glofnd_batch *, void *, void *, glofnd_stats *);
    glofnd_status (*rows_get)(glofnd_ctx *, const glofnd_store *, int, const int64_t *, int64_t, glofnd_row *);
    glofnd_status (*rows_put)(glofnd_ctx *, glofnd_store *, int, const int64_t *, int64_t, const glofnd_row *);
    glofnd_status (*stream)(glofnd_ctx *, void *);
    const char *(*error)(const glofnd_ctx *);
    const char *(*status_name)(glofnd_status);
} glofnd_xla_engine;

static glofnd_xla_engine *engines[ENGINES_MAX];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* contexts take one thread at a time */

int glofnd_xla_api_version(void) { return XLA_FFI_API_MAJOR * 1000 + XLA_FFI_API_MINOR; }

static XLA_FFI_Error *fail(const XLA_FFI_CallFrame *f, const char *text) {
    XLA_FFI_Error_Create_Args args = {XLA_FFI_Error_Create_Args_STRUCT_SIZE, NULL, text, XLA_FFI_Error_Code_INVALID_ARGUMENT};
    return f->api->XLA_FFI_Error_Create(&args);
}

static XLA_FFI_Buffer *operand(const XLA_FFI_CallFrame *f, int i) { return (XLA_FFI_Buffer *)f->args.args[i]; }
static XLA_FFI_Buffer *result(const XLA_FFI_CallFrame *f, int i) { return (XLA_FFI_Buffer *)f->rets.rets[i]; }

enum { A, B, IDS, LABELS, EPOCH, TAU, ROWS, OPERANDS };
enum { LOSS, GRAD_A, GRAD_B, GRAD_TAU, NEW_ROWS, RESULTS };

/* ----- the driver of the GPU, which a process with arrays there has loaded ----- */

typedef struct driver {
    int found;
    int (*to_host)(void *, unsigned long long, size_t, void *);
    int (*to_device)(unsigned long long, const void *, size_t, void *);
    int (*wait)(void *);
    int (*device)(int *);
} driver;

static driver gpu;
static pthread_once_t gpu_once = PTHREAD_ONCE_INIT;

static void open_driver(void) {
    void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!library) return;
    *(void **)&gpu.to_host = dlsym(library, "cuMemcpyDtoHAsync_v2");
    *(void **)&gpu.to_device = dlsym(library, "cuMemcpyHtoDAsync_v2");
    *(void **)&gpu.wait = dlsym(library, "cuStreamSynchronize");
    *(void **)&gpu.device = dlsym(library, "cuCtxGetDevice");
    gpu.found = gpu.to_host && gpu.to_device && gpu.wait && gpu.device;
}

/* The GPU that is current in this thread; -1: none is, or there is no driver. */
static int current_gpu(void) {
    int device = -1;
    pthread_once(&gpu_once, open_driver);
    return gpu.found && gpu.device(&device) == 0 ? device : -1;
}

/* Call it in the thread that made the contexts: a context belongs to the GPU that was current then. */
int glofnd_xla_set(int64_t handle, glofnd_xla_engine *e) {
    if (handle < 0 || handle >= ENGINES_MAX) return 1;
    e->device = e->ctx[1] ? current_gpu() : -1;
    engines[handle] = e;
    return 0;
}

/* ----- what a step needs in host memory ----- */

typedef struct host_memory { /* CPU: the buffers of XLA, but new rows; CUDA: copies */
    int64_t *id;
    glofnd_row *rows;
    int32_t epoch;
    float tau;
} host_memory;

typedef struct call {
    const glofnd_xla_engine *e;
    const XLA_FFI_CallFrame *f;
    int on_gpu, at; /* at: of ctx and store */
    void *stream;
    int64_t batch;
    host_memory host;
} call;

static size_t rows_bytes(const call *c) { return sizeof(glofnd_row) * (size_t)(c->e->sides * (c->batch + 1)); }

static int fetch(const call *c, void *to, int i, size_t bytes) {
    const void *from = operand(c->f, i)->data;
    if (c->on_gpu) return gpu.to_host(to, (unsigned long long)(uintptr_t)from, bytes, c->stream) == 0;
    memcpy(to, from, bytes);
    return 1;
}

static int give(const call *c, int i, const void *from, size_t bytes) {
    void *to = result(c->f, i)->data;
    if (c->on_gpu) return gpu.to_device((unsigned long long)(uintptr_t)to, from, bytes, c->stream) == 0;
    memcpy(to, from, bytes);
    return 1;
}

static int wait_for(const call *c) { return !c->on_gpu || gpu.wait(c->stream) == 0; }

static int fetch_all(call *c) {
    return fetch(c, c->host.id, IDS, sizeof(int64_t) * (size_t)c->batch) && fetch(c, c->host.rows, ROWS, rows_bytes(c)) &&
           fetch(c, &c->host.epoch, EPOCH, sizeof(int32_t)) && fetch(c, &c->host.tau, TAU, sizeof(float)) && wait_for(c);
}

static int give_all(const call *c, const glofnd_stats *stats) {
    const float loss = (float)stats->loss, grad_tau = (float)stats->grad_tau;
    return give(c, LOSS, &loss, sizeof loss) && give(c, GRAD_TAU, &grad_tau, sizeof grad_tau) &&
           give(c, NEW_ROWS, c->host.rows, rows_bytes(c)) && wait_for(c);
}

/* ----- the step ----- */

static glofnd_status put_rows(const call *c, glofnd_ctx *ctx, glofnd_store *store) {
    const int64_t shared = GLOFND_SHARED;
    glofnd_status status = GLOFND_OK;
    for (int side = 0; side < c->e->sides && status == GLOFND_OK; side++) {
        const glofnd_row *rows = c->host.rows + side * (c->batch + 1);
        status = c->e->rows_put(ctx, store, side, c->host.id, c->batch, rows);
        if (status == GLOFND_OK) status = c->e->rows_put(ctx, store, side, &shared, 1, rows + c->batch);
    }
    return status;
}

static glofnd_status get_rows(const call *c, glofnd_ctx *ctx, const glofnd_store *store) {
    const int64_t shared = GLOFND_SHARED;
    glofnd_status status = GLOFND_OK;
    for (int side = 0; side < c->e->sides && status == GLOFND_OK; side++) {
        glofnd_row *rows = c->host.rows + side * (c->batch + 1);
        status = c->e->rows_get(ctx, store, side, c->host.id, c->batch, rows);
        if (status == GLOFND_OK) status = c->e->rows_get(ctx, store, side, &shared, 1, rows + c->batch);
    }
    return status;
}

static glofnd_status step(const call *c, glofnd_ctx *ctx, glofnd_store *store, glofnd_stats *stats) {
    const XLA_FFI_Buffer *a = operand(c->f, A), *labels = operand(c->f, LABELS);
    const glofnd_batch q = {.size = sizeof q,
                            .rows = c->batch,
                            .cols = c->batch,
                            .dim = a->dims[1],
                            .a = a->data,
                            .b = operand(c->f, B)->data,
                            .id = (const int64_t *)operand(c->f, IDS)->data,
                            .label = labels->dims[0] ? (const int32_t *)labels->data : NULL,
                            .dtype = a->dtype == XLA_FFI_DataType_BF16  ? GLOFND_BF16
                                     : a->dtype == XLA_FFI_DataType_F16 ? GLOFND_F16
                                                                        : GLOFND_F32,
                            .epoch = c->host.epoch,
                            .tau = (double)c->host.tau};
    glofnd_status status = c->on_gpu ? c->e->stream(ctx, c->stream) : GLOFND_OK;
    if (status == GLOFND_OK) status = put_rows(c, ctx, store);
    if (status == GLOFND_OK)
        status = c->e->step(ctx, store, &q, result(c->f, GRAD_A)->data, result(c->f, GRAD_B)->data, stats);
    return status == GLOFND_OK ? get_rows(c, ctx, store) : status;
}

/* NULL, or the text of what is wrong. Ids are checked here because their rows were read before; the library checks the rest. */
static const char *check_ids(const call *c, char *text, size_t text_bytes) {
    for (int64_t i = 0; i < c->batch; i++) {
        if (c->host.id[i] >= 0 && c->host.id[i] < c->e->n) continue;
        snprintf(text, text_bytes, "GLOFND_E_INDEX: index[%lld] is %lld; there are samples 0 .. %lld", (long long)i, (long long)c->host.id[i],
                 (long long)c->e->n - 1);
        return text;
    }
    return NULL;
}

static const char *run(call *c, char *text, size_t text_bytes) {
    glofnd_stats stats = {.size = sizeof stats};
    if (!fetch_all(c)) return "GLOFND_E_DEVICE: the GPU failed before the step, or its driver cannot copy";
    const char *wrong = check_ids(c, text, text_bytes);
    if (wrong) return wrong;
    pthread_mutex_lock(&lock);
    const glofnd_status status = step(c, c->e->ctx[c->at], c->e->store[c->at], &stats);
    if (status != GLOFND_OK) {
        snprintf(text, text_bytes, "%s: %s", c->e->status_name(status), c->e->error(c->e->ctx[c->at]));
        wrong = text;
    }
    pthread_mutex_unlock(&lock);
    if (!wrong && !give_all(c, &stats)) wrong = "GLOFND_E_DEVICE: the GPU failed in or after the step";
    return wrong;
}

static XLA_FFI_Error *execute(call *c) {
    char text[1024];
    c->batch = operand(c->f, A)->dims[0];
    c->at = !c->on_gpu ? 0 : operand(c->f, A)->dtype == XLA_FFI_DataType_F32 ? 1 : 2;
    c->host.id = malloc(sizeof *c->host.id * (size_t)(c->batch + 1));
    c->host.rows = malloc(rows_bytes(c));
    const char *wrong = c->host.id && c->host.rows ? run(c, text, sizeof text) : "GLOFND_E_MEMORY: no memory for the rows of the batch";
    free(c->host.id);
    free(c->host.rows);
    return wrong ? fail(c->f, wrong) : NULL;
}

/* Fills c, or says what is wrong. */
static const char *begin(const XLA_FFI_CallFrame *f, call *c) {
    if (f->args.size != OPERANDS || f->rets.size != RESULTS || f->attrs.size != 1) return "GLOFND_E_ARGUMENT: glofnd_step has other operands: compile the program again";
    const int64_t handle = *(const int64_t *)((XLA_FFI_Scalar *)f->attrs.attrs[0])->value;
    if (handle < 0 || handle >= ENGINES_MAX || !engines[handle]) return "GLOFND_E_ARGUMENT: this process has not made the loss of this program: make it first";
    c->e = engines[handle];
    c->f = f;
    return NULL;
}

/* 1: the call only asks for the version, or prepares. */
static int is_about(const XLA_FFI_CallFrame *f) {
    if (f->extension_start && f->extension_start->type == XLA_FFI_Extension_Metadata) {
        XLA_FFI_Metadata *about = ((XLA_FFI_Metadata_Extension *)f->extension_start)->metadata;
        about->api_version.major_version = XLA_FFI_API_MAJOR;
        about->api_version.minor_version = XLA_FFI_API_MINOR;
        return 1;
    }
    return f->stage != XLA_FFI_ExecutionStage_EXECUTE;
}

XLA_FFI_Error *glofnd_xla_step(XLA_FFI_CallFrame *f) {
    call c = {0};
    if (is_about(f)) return NULL;
    const char *wrong = begin(f, &c);
    return wrong ? fail(f, wrong) : execute(&c);
}

/* NULL, or why the step cannot run on the GPU that the arrays are on. */
static const char *check_gpu(const call *c, char *text, size_t text_bytes) {
    const int now = current_gpu();
    if (!c->e->ctx[1])
        return "GLOFND_E_DEVICE: the arrays are on a GPU, which this libglofnd cannot use (python -m glofnd has the reason): "
               "jax.device_put() them to the CPU";
    if (!gpu.found) return "GLOFND_E_DEVICE: libcuda.so.1 was not found, or is too old";
    if (now == c->e->device) return NULL;
    snprintf(text, text_bytes,
             "GLOFND_E_DEVICE: the arrays are on CUDA device %d, but this loss was made on device %d: move them there by "
             "jax.device_put(), or choose the GPU by CUDA_VISIBLE_DEVICES",
             now, (int)c->e->device);
    return text;
}

XLA_FFI_Error *glofnd_xla_step_cuda(XLA_FFI_CallFrame *f) {
    char text[256];
    call c = {.on_gpu = 1};
    XLA_FFI_Stream_Get_Args stream = {XLA_FFI_Stream_Get_Args_STRUCT_SIZE, NULL, f->ctx, NULL};
    if (is_about(f)) return NULL;
    const char *wrong = begin(f, &c);
    if (!wrong) wrong = check_gpu(&c, text, sizeof text);
    if (wrong) return fail(f, wrong);
    XLA_FFI_Error *error = f->api->XLA_FFI_Stream_Get(&stream);
    c.stream = stream.stream;
    return error ? error : execute(&c);
}

/* xla_step.c - glofnd_step() as a call of XLA (JAX), with functional state, on the CPU or on one NVIDIA GPU.
 *
 * Operands   a, b [batch][dim]; ids int64 [batch], as int32 [batch][2]; labels int32 [batch] (may be empty); epoch int32 [];
 *            tau float []; state uint32 [sides][n + 1][9], rows as glofnd_ctx_state() takes them
 * Results    loss float []; gradients of a and b [batch][dim], float or the type of a; gradient of tau float []; the new state,
 *            which shares the buffer of the old one: XLA copies that before the call where it is needed later
 * Attributes handle: the engine, set by glofnd_xla_set(). A number, not an address: compiled programs may be kept in files.
 *            epoch, tau: of the step, unless `read` says that the operands hold them (enum below)
 *
 * On the GPU everything stays there and nothing waits: the step reads ids, tau and state in device memory, on the stream of XLA.
 * Only an epoch that changes the work of the step, and a temperature of losses that have one per anchor, must be known to the
 * host; if they are operands, it waits for them. A failure that only the device sees makes the loss NaN and leaves the state as it
 * was; the next call returns it, or glofnd_xla_check(), which waits. glofnd_xla_step_graph may become part of a CUDA graph (a
 * command buffer): XLA calls glofnd_xla_begin_graph before every run of it, and the step itself only when it captures.
 *
 * A failure begins with the name of its status, of which glofnd/jax.py makes an exception. That file compiles this one against
 * the user's jaxlib. */
#define GLOFND_EXPERIMENTAL
#include <dlfcn.h>
#include <glofnd.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "xla/ffi/api/c_api.h"

#define ENGINES_MAX 4096

typedef struct glofnd_xla_engine { /* filled by Python; calls of the libglofnd that is loaded there */
    glofnd_ctx *ctx[2];            /* CPU; CUDA, or NULL */
    int64_t n, sides;
    glofnd_status (*step)(glofnd_ctx *, glofnd_store *, const glofnd_batch *, void *, void *, glofnd_stats *);
    glofnd_status (*state)(glofnd_ctx *, glofnd_anchor *, int64_t);
    glofnd_status (*tau)(glofnd_ctx *, const float *);
    glofnd_status (*loss)(glofnd_ctx *, float *, float *);
    glofnd_status (*stats)(glofnd_ctx *, glofnd_stats *);
    glofnd_status (*reserve)(glofnd_ctx *, int64_t, int64_t, int64_t, size_t *);
    glofnd_status (*stream)(glofnd_ctx *, void *);
    const char *(*error)(const glofnd_ctx *);
    const char *(*status_name)(glofnd_status);
    int64_t device;  /* number of the GPU that ctx[1] was made on, set by glofnd_xla_set(); -1: none */
    void *cuda;      /* its CUcontext */
    void *queue;     /* the stream of its last steps */
    int64_t unknown; /* 1: steps were queued there since the last check */
} glofnd_xla_engine;

enum { READ_EPOCH = 1, READ_TAU = 2, READ_TAU_ON_HOST = 4 }; /* bits of the attribute `read`: the operand counts */
enum { A, B, IDS, LABELS, EPOCH, TAU, STATE, OPERANDS };
enum { LOSS, GRAD_A, GRAD_B, GRAD_TAU, NEW_STATE, RESULTS };

static glofnd_xla_engine *engines[ENGINES_MAX];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* contexts take one thread at a time */

int glofnd_xla_api_version(void) { return XLA_FFI_API_MAJOR * 1000 + XLA_FFI_API_MINOR; }

static XLA_FFI_Error *fail(const XLA_FFI_CallFrame *f, const char *text) {
    XLA_FFI_Error_Create_Args args = {XLA_FFI_Error_Create_Args_STRUCT_SIZE, NULL, text, XLA_FFI_Error_Code_INVALID_ARGUMENT};
    return f->api->XLA_FFI_Error_Create(&args);
}

static XLA_FFI_Buffer *operand(const XLA_FFI_CallFrame *f, int i) { return (XLA_FFI_Buffer *)f->args.args[i]; }
static XLA_FFI_Buffer *result(const XLA_FFI_CallFrame *f, int i) { return (XLA_FFI_Buffer *)f->rets.rets[i]; }

/* ----- the driver of the GPU, which a process with arrays there has loaded ----- */

typedef struct driver {
    int found;
    int (*to_host)(void *, unsigned long long, size_t, void *);
    int (*on_device)(unsigned long long, unsigned long long, size_t, void *);
    int (*wait)(void *);
    int (*is_capturing)(void *, int *);
    int (*device)(int *);
    int (*current)(void **);
    int (*push)(void *);
    int (*pop)(void **);
} driver;

static driver gpu;
static pthread_once_t gpu_once = PTHREAD_ONCE_INIT;

static void open_driver(void) {
    void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!library) return;
    *(void **)&gpu.to_host = dlsym(library, "cuMemcpyDtoHAsync_v2");
    *(void **)&gpu.on_device = dlsym(library, "cuMemcpyDtoDAsync_v2");
    *(void **)&gpu.wait = dlsym(library, "cuStreamSynchronize");
    *(void **)&gpu.is_capturing = dlsym(library, "cuStreamIsCapturing");
    *(void **)&gpu.device = dlsym(library, "cuCtxGetDevice");
    *(void **)&gpu.current = dlsym(library, "cuCtxGetCurrent");
    *(void **)&gpu.push = dlsym(library, "cuCtxPushCurrent_v2");
    *(void **)&gpu.pop = dlsym(library, "cuCtxPopCurrent_v2");
    gpu.found = gpu.to_host && gpu.on_device && gpu.wait && gpu.is_capturing && gpu.device && gpu.current && gpu.push && gpu.pop;
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
    if (e->device >= 0) gpu.current(&e->cuda);
    engines[handle] = e;
    return 0;
}

/* ----- a call ----- */

typedef struct call {
    glofnd_xla_engine *e;
    const XLA_FFI_CallFrame *f;
    glofnd_ctx *ctx;
    int capturing; /* the stream is being captured: what is queued runs later, on the stream that the graph is launched on */
    void *stream;
    int64_t batch, read;
    int32_t epoch; /* of the step, known to the host */
    double tau;
} call;

static const void *attribute(const XLA_FFI_CallFrame *f, const char *name) {
    for (int64_t i = 0; i < f->attrs.size; i++)
        if (f->attrs.names[i]->len == strlen(name) && memcmp(f->attrs.names[i]->ptr, name, strlen(name)) == 0)
            return ((const XLA_FFI_Scalar *)f->attrs.attrs[i])->value;
    return NULL;
}

static int has_all(const XLA_FFI_CallFrame *f) {
    return f->args.size == OPERANDS && f->rets.size == RESULTS && attribute(f, "handle") && attribute(f, "epoch") &&
           attribute(f, "tau") && attribute(f, "read");
}

/* Fills c, or says what is wrong. */
static const char *begin(const XLA_FFI_CallFrame *f, int on_gpu, call *c) {
    if (!has_all(f)) return "GLOFND_E_ARGUMENT: glofnd_step has other operands: compile the program again";
    const int64_t handle = *(const int64_t *)attribute(f, "handle");
    if (handle < 0 || handle >= ENGINES_MAX || !engines[handle])
        return "GLOFND_E_ARGUMENT: this process has not made the loss of this program: make it first";
    *c = (call){.e = engines[handle], .f = f, .batch = operand(f, A)->dims[0], .read = *(const int64_t *)attribute(f, "read")};
    c->epoch = (int32_t) * (const int64_t *)attribute(f, "epoch");
    c->tau = *(const double *)attribute(f, "tau");
    c->ctx = c->e->ctx[on_gpu];
    return NULL;
}

static glofnd_dtype dtype_of(const XLA_FFI_Buffer *x) {
    return x->dtype == XLA_FFI_DataType_BF16 ? GLOFND_BF16 : x->dtype == XLA_FFI_DataType_F16 ? GLOFND_F16 : GLOFND_F32;
}

static glofnd_batch batch_of(const call *c) {
    const XLA_FFI_Buffer *a = operand(c->f, A), *labels = operand(c->f, LABELS);
    return (glofnd_batch){.size = sizeof(glofnd_batch),
                          .n = c->batch,
                          .dim = a->dims[1],
                          .a = a->data,
                          .b = operand(c->f, B)->data,
                          .id = operand(c->f, IDS)->data,
                          .label = labels->dims[0] ? labels->data : NULL,
                          .dtype = dtype_of(a),
                          .grad_dtype = dtype_of(result(c->f, GRAD_A)),
                          .epoch = c->epoch,
                          .tau = c->tau};
}

static size_t state_bytes(const call *c) { return sizeof(glofnd_anchor) * (size_t)(c->e->sides * (c->e->n + 1)); }

/* The step on the buffer of the new state, which holds the old one. */
static glofnd_status step(const call *c, glofnd_stats *stats) {
    const glofnd_batch q = batch_of(c);
    glofnd_status status = c->e->state(c->ctx, result(c->f, NEW_STATE)->data, c->e->n);
    if (status == GLOFND_OK) status = c->e->step(c->ctx, NULL, &q, result(c->f, GRAD_A)->data, result(c->f, GRAD_B)->data, stats);
    return status;
}

static const char *explain(const call *c, glofnd_status status, char *text, size_t text_bytes) {
    if (status == GLOFND_OK) return NULL;
    snprintf(text, text_bytes, "%s: %s", c->e->status_name(status), c->e->error(c->ctx));
    return text;
}

/* 1: the call only asks for the version, or is of a stage that has nothing to do. */
static int is_about(const XLA_FFI_CallFrame *f, XLA_FFI_Handler_Traits traits, XLA_FFI_ExecutionStage stage) {
    if (f->extension_start && f->extension_start->type == XLA_FFI_Extension_Metadata) {
        XLA_FFI_Metadata *about = ((XLA_FFI_Metadata_Extension *)f->extension_start)->metadata;
        about->api_version.major_version = XLA_FFI_API_MAJOR;
        about->api_version.minor_version = XLA_FFI_API_MINOR;
        about->traits = traits;
        return 1;
    }
    return f->stage != stage;
}

/* ----- on the CPU ----- */

/* NULL, or the text of what is wrong: the library's, in the words of glofnd/jax.py. */
static const char *check_ids(const call *c, char *text, size_t text_bytes) {
    const int64_t *id = operand(c->f, IDS)->data;
    for (int64_t i = 0; i < c->batch; i++) {
        if (id[i] >= 0 && id[i] < c->e->n) continue;
        snprintf(text, text_bytes, "GLOFND_E_INDEX: index[%lld] is %lld; there are samples 0 .. %lld", (long long)i,
                 (long long)id[i], (long long)c->e->n - 1);
        return text;
    }
    return NULL;
}

static const char *run_on_cpu(call *c, char *text, size_t text_bytes) {
    glofnd_stats stats = {.size = sizeof stats};
    void *state = result(c->f, NEW_STATE)->data;
    const char *wrong = check_ids(c, text, text_bytes);
    if (wrong) return wrong;
    if (c->read & READ_EPOCH) c->epoch = *(const int32_t *)operand(c->f, EPOCH)->data;
    if (c->read & (READ_TAU | READ_TAU_ON_HOST)) c->tau = (double)*(const float *)operand(c->f, TAU)->data;
    if (state != operand(c->f, STATE)->data) memcpy(state, operand(c->f, STATE)->data, state_bytes(c));
    pthread_mutex_lock(&lock);
    wrong = explain(c, step(c, &stats), text, text_bytes);
    pthread_mutex_unlock(&lock);
    *(float *)result(c->f, LOSS)->data = (float)stats.loss;
    *(float *)result(c->f, GRAD_TAU)->data = (float)stats.grad_tau;
    return wrong;
}

XLA_FFI_Error *glofnd_xla_step(XLA_FFI_CallFrame *f) {
    char text[1024];
    call c;
    if (is_about(f, 0, XLA_FFI_ExecutionStage_EXECUTE)) return NULL;
    const char *wrong = begin(f, 0, &c);
    if (!wrong) wrong = run_on_cpu(&c, text, sizeof text);
    return wrong ? fail(f, wrong) : NULL;
}

/* ----- on a GPU ----- */

/* NULL, or why the step cannot run on the GPU that the arrays are on. */
static const char *check_gpu(const call *c, char *text, size_t text_bytes) {
    const int now = current_gpu();
    if (!c->ctx)
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

static XLA_FFI_Error *find_stream(call *c) {
    XLA_FFI_Stream_Get_Args args = {XLA_FFI_Stream_Get_Args_STRUCT_SIZE, NULL, c->f->ctx, NULL};
    XLA_FFI_Error *error = c->f->api->XLA_FFI_Stream_Get(&args);
    c->stream = args.stream;
    if (!error && gpu.is_capturing(c->stream, &c->capturing) != 0) c->capturing = 0;
    return error;
}

static int fetch(const call *c, void *to, int i, size_t bytes) {
    return gpu.to_host(to, (unsigned long long)(uintptr_t)operand(c->f, i)->data, bytes, c->stream) == 0;
}

/* Operands that decide what is queued. */
static const char *read_on_host(call *c) {
    float tau = 0.0f;
    if (!(c->read & (READ_EPOCH | READ_TAU_ON_HOST))) return NULL;
    if (c->capturing)
        return "GLOFND_E_UNSUPPORTED: the work of this step depends on its epoch (or on tau, for a loss of one per sample), "
               "which "
               "a command buffer cannot read: give it as a number (static_argnums), or make the loss without command_buffer";
    int ok = !(c->read & READ_EPOCH) || fetch(c, &c->epoch, EPOCH, sizeof c->epoch);
    ok = ok && (!(c->read & READ_TAU_ON_HOST) || fetch(c, &tau, TAU, sizeof tau)) && gpu.wait(c->stream) == 0;
    if (c->read & READ_TAU_ON_HOST) c->tau = (double)tau;
    return ok ? NULL : "GLOFND_E_DEVICE: the GPU failed before the step";
}

static const char *copy_state(const call *c) {
    const unsigned long long from = (uintptr_t)operand(c->f, STATE)->data, to = (uintptr_t)result(c->f, NEW_STATE)->data;
    return from == to || gpu.on_device(to, from, state_bytes(c), c->stream) == 0 ? NULL : "GLOFND_E_DEVICE: the GPU cannot copy";
}

/* The stream of the next calls of the library. Steps share a workspace: a step on another stream waits for those before. */
static glofnd_status take_stream(const call *c) {
    if (!c->capturing && c->e->queue && c->e->queue != c->stream) gpu.wait(c->e->queue);
    if (!c->capturing) c->e->queue = c->stream;
    return c->e->stream(c->ctx, c->stream);
}

static glofnd_status queue_step(const call *c) {
    glofnd_status status = take_stream(c);
    if (status == GLOFND_OK) status = c->e->tau(c->ctx, c->read & READ_TAU ? operand(c->f, TAU)->data : NULL);
    if (status == GLOFND_OK) status = step(c, NULL);
    c->e->unknown = status == GLOFND_OK;
    if (status == GLOFND_OK) status = c->e->loss(c->ctx, result(c->f, LOSS)->data, result(c->f, GRAD_TAU)->data);
    return status;
}

static XLA_FFI_Error *run_on_gpu(XLA_FFI_CallFrame *f) {
    char text[1024];
    call c;
    const char *wrong = begin(f, 1, &c);
    if (!wrong) wrong = check_gpu(&c, text, sizeof text);
    if (wrong) return fail(f, wrong);
    XLA_FFI_Error *error = find_stream(&c);
    if (error) return error;
    wrong = read_on_host(&c);
    if (!wrong) wrong = copy_state(&c);
    if (wrong) return fail(f, wrong);
    pthread_mutex_lock(&lock);
    wrong = explain(&c, queue_step(&c), text, sizeof text);
    pthread_mutex_unlock(&lock);
    return wrong ? fail(f, wrong) : NULL;
}

XLA_FFI_Error *glofnd_xla_step_cuda(XLA_FFI_CallFrame *f) {
    return is_about(f, 0, XLA_FFI_ExecutionStage_EXECUTE) ? NULL : run_on_gpu(f);
}

XLA_FFI_Error *glofnd_xla_step_graph(XLA_FFI_CallFrame *f) {
    const XLA_FFI_Handler_Traits traits = XLA_FFI_HANDLER_TRAITS_COMMAND_BUFFER_COMPATIBLE;
    return is_about(f, traits, XLA_FFI_ExecutionStage_EXECUTE) ? NULL : run_on_gpu(f);
}

/* Before a run of a program with glofnd_xla_step_graph: memory that a capture cannot take, and the failure of an earlier run. */
static glofnd_status prepare_graph(const call *c) {
    glofnd_status status = take_stream(c);
    if (status == GLOFND_OK) status = c->e->reserve(c->ctx, c->batch, c->batch, operand(c->f, A)->dims[1], NULL);
    return status == GLOFND_OK && c->e->unknown ? c->e->loss(c->ctx, NULL, NULL) : status;
}

XLA_FFI_Error *glofnd_xla_begin_graph(XLA_FFI_CallFrame *f) {
    char text[1024];
    call c;
    if (is_about(f, 0, XLA_FFI_ExecutionStage_INITIALIZE)) return NULL;
    const char *wrong = begin(f, 1, &c);
    if (!wrong) wrong = check_gpu(&c, text, sizeof text);
    if (wrong) return fail(f, wrong);
    XLA_FFI_Error *error = find_stream(&c);
    if (error || c.capturing) return error;
    pthread_mutex_lock(&lock);
    wrong = explain(&c, prepare_graph(&c), text, sizeof text);
    pthread_mutex_unlock(&lock);
    return wrong ? fail(f, wrong) : NULL;
}

/* ----- failures that only the device has seen ----- */

/* Waits for the steps of an engine on a GPU since the last check. 0, or the status of one that failed, and its text. */
int glofnd_xla_check(int64_t handle, char *text, size_t text_bytes) {
    glofnd_xla_engine *e = engines[handle];
    glofnd_status status = GLOFND_OK;
    pthread_mutex_lock(&lock);
    if (e->unknown && gpu.push(e->cuda) == 0) {
        void *before = NULL;
        glofnd_stats stats = {.size = sizeof stats};
        e->unknown = 0;
        status = e->stream(e->ctx[1], e->queue);
        if (status == GLOFND_OK) status = e->stats(e->ctx[1], &stats);
        if (status != GLOFND_OK) snprintf(text, text_bytes, "%s", e->error(e->ctx[1]));
        gpu.pop(&before);
    }
    pthread_mutex_unlock(&lock);
    return (int)status;
}

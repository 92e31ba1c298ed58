/* cunn_engine.c - a CUDA device as a backend of networks: libraries, engine, memory, captured steps, the table of functions. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cuda/cuda_device.h"
#include "nn/cuda/cunn_kernels.h"
#include "nn/cuda/cunn_plan.h"
#include "util/array.h"
#include "util/machine.h"

/* ----- libraries ------------------------------------------------------------------------------------------------- */

#define OLDEST_CUDNN 90000 /* the graph interface as used here, and its engines for bf16 */

static glofnd_status open_blas(gf_error *err, gf_cunn_libs *l) {
    gf_blas_lib blas;
    memset(l, 0, sizeof *l);
    const glofnd_status status = gf_blas_lib_open(err, &blas);
    l->blas = blas.lib;
#define GF_X(name) l->name = blas.name;
    GF_CUBLASLT_FUNCTIONS(GF_X)
#undef GF_X
    return status;
}

glofnd_status gf_cunn_libs_open(gf_error *err, gf_cunn_libs *l) {
    static const char *const dnn[] = {"libcudnn.so.9", "libcudnn.so", NULL};
    TRY(open_blas(err, l));
    l->dnn = gf_shared_lib_open(dnn, 0);
    FAIL_IF(err, !l->dnn, GLOFND_E_UNSUPPORTED,
            "cuDNN 9 was not found (libcudnn.so.9): install it or put its folder into LD_LIBRARY_PATH, or use device = cpu");
#define GF_X(name)                                                                   \
    FAIL_IF(err, !gf_shared_lib_find(l->dnn, #name, &l->name), GLOFND_E_UNSUPPORTED, \
            "this cuDNN has no %s: version 9 is needed", #name);
    GF_CUDNN_FUNCTIONS(GF_X)
#undef GF_X
    FAIL_IF(err, l->cudnnGetVersion() < OLDEST_CUDNN, GLOFND_E_UNSUPPORTED, "cuDNN %zu is too old: version 9 is needed",
            l->cudnnGetVersion());
    return GLOFND_OK;
}

void gf_cunn_libs_close(gf_cunn_libs *l) {
    if (l->dnn) dlclose(l->dnn);
    if (l->blas) dlclose(l->blas);
    memset(l, 0, sizeof *l);
}

/* ----- the device ------------------------------------------------------------------------------------------------ */

/* Oldest Linux driver for programs of this CUDA, by NVIDIA's table of compatibility within a major version. */
#if CUDART_VERSION >= 13000
#define OLDEST_DRIVER 580
#elif CUDART_VERSION >= 12000
#define OLDEST_DRIVER 525
#else
#define OLDEST_DRIVER 450
#endif

static void add_driver(char *text, size_t bytes) {
    const size_t used = strlen(text);
    snprintf(text + used, bytes - used, "; built with CUDA %d.%d, needs driver %d or later", CUDART_VERSION / 1000,
             CUDART_VERSION % 1000 / 10, OLDEST_DRIVER);
}

static void describe_device(char *text, size_t bytes) {
    char why[160];
    struct cudaDeviceProp p;
    gf_cunn_libs l;
    gf_error err = {""};
    if (gf_cuda_devices(why, sizeof why) == 0 || cudaGetDeviceProperties(&p, 0) != cudaSuccess) {
        snprintf(text, bytes, "no CUDA device: %s", why);
        add_driver(text, bytes);
        return;
    }
    if (gf_cunn_libs_open(&err, &l) == GLOFND_OK)
        snprintf(text, bytes, "%s, cuDNN %zu, cuBLASLt %zu", p.name, l.cudnnGetVersion(), l.cublasLtGetVersion());
    else snprintf(text, bytes, "%s; %s", p.name, err.text);
    add_driver(text, bytes);
    gf_cunn_libs_close(&l);
}

/* ----- errors ------------------------------------------------------------------------------------------------------ */

void gf_cunn_note(gf_nn_engine *s, cudaError_t e, const char *at) {
    if (e == cudaSuccess || s->failed != cudaSuccess) return;
    s->failed = e;
    s->failed_at = at;
}

static glofnd_status take_error(gf_error *err, gf_nn_engine *s) {
    const cudaError_t e = s->failed;
    s->failed = cudaSuccess;
    return e == cudaSuccess ? GLOFND_OK : gf_cuda_fail(err, e, s->failed_at);
}

/* ----- engine ------------------------------------------------------------------------------------------------------ */

static void synchronize(gf_nn_engine *s) {
    if (s->main) cudaStreamSynchronize(s->main);
    if (s->aside) cudaStreamSynchronize(s->aside);
}

static void drop(gf_nn_engine *s, int slot) {
    if (s->record[slot]) cudaGraphExecDestroy(s->record[slot]);
    s->record[slot] = NULL;
}

static void engine_close(gf_nn_engine *s) {
    if (!s) return;
    synchronize(s);
    for (int i = 0; i < GF_NN_RECORDS; i++) drop(s, i);
    while (s->ops) {
        gf_nn_op *next = s->ops->next;
        gf_cunn_linear_free(s->ops);
        free(s->ops);
        s->ops = next;
    }
    gf_cunn_products_free(s);
    gf_cunn_optim_free(s->optims);
    gf_cunn_plans_free(s);
    gf_cunn_choices_free(s);
    cudaFree(s->trial);
    gf_cunn_moves_free(s);
    cudaFree(s->tickets);
    if (s->dnn) s->libs.cudnnDestroy(s->dnn);
    if (s->blas) s->libs.cublasLtDestroy(s->blas);
    if (s->forked) cudaEventDestroy(s->forked);
    if (s->joined) cudaEventDestroy(s->joined);
    if (s->aside) cudaStreamDestroy(s->aside);
    if (s->main) cudaStreamDestroy(s->main);
    free(s->plans_path);
    free(s); /* the libraries stay open: their threads may still run */
}

static glofnd_status open_into(gf_error *err, gf_nn_engine *s) {
    char why[160] = "";
    struct cudaDeviceProp p;
    FAIL_IF(err, gf_cuda_devices(why, sizeof why) == 0, GLOFND_E_DEVICE, "no CUDA device can be used: %s; use device = cpu", why);
    TRY(gf_cunn_libs_open(err, &s->libs));
    CUDA_TRY_AS(err, cudaGetDeviceProperties(&p, 0), "properties of the device");
    FAIL_IF(err, p.major < 8, GLOFND_E_UNSUPPORTED,
            "%s is too old: compute capability %d.%d, and 8.0 is needed; use device = cpu", p.name, p.major, p.minor);
    snprintf(s->device, sizeof s->device, "%.63s", p.name);
    /* Two blocks per multiprocessor, each with half of its shared memory. */
    const size_t half = p.sharedMemPerMultiprocessor / 2;
    s->team_shared = GF_MIN(half - GF_MIN(half, p.reservedSharedMemPerBlock), p.sharedMemPerBlockOptin);
    if (p.cooperativeLaunch && s->team_shared >= 32768) s->team_blocks = GF_MIN(2 * p.multiProcessorCount, GF_CUNN_TEAM_BLOCKS);
    s->multiprocessors = p.multiProcessorCount;
    s->shared = p.sharedMemPerBlockOptin;
#ifdef GF_HAVE_HOPPER
    s->hopper = p.major == 9 && p.minor == 0;
#endif
    CUDA_TRY_AS(err, cudaStreamCreateWithFlags(&s->main, cudaStreamNonBlocking), "stream");
    CUDA_TRY_AS(err, cudaStreamCreateWithFlags(&s->aside, cudaStreamNonBlocking), "stream");
    CUDA_TRY_AS(err, cudaEventCreateWithFlags(&s->forked, cudaEventDisableTiming), "stream");
    CUDA_TRY_AS(err, cudaEventCreateWithFlags(&s->joined, cudaEventDisableTiming), "stream");
    s->stream = s->main;
    CUDA_TRY_AS(err, cudaMalloc((void **)&s->tickets, GF_CUNN_TICKETS * sizeof *s->tickets), "engine");
    s->tables = GF_CUNN_TICKETS * sizeof *s->tickets;
    CUDA_TRY_AS(err, cudaMemsetAsync(s->tickets, 0, GF_CUNN_TICKETS * sizeof *s->tickets, s->stream), "engine");
    cudnnStatus_t status = s->libs.cudnnCreate(&s->dnn);
    if (status == CUDNN_STATUS_SUCCESS) status = s->libs.cudnnSetStream(s->dnn, s->stream);
    FAIL_IF(err, status != CUDNN_STATUS_SUCCESS, GLOFND_E_DEVICE, "cuDNN %zu cannot start: %s; use device = cpu",
            s->libs.cudnnGetVersion(), s->libs.cudnnGetErrorString(status));
    const cublasStatus_t blas = s->libs.cublasLtCreate(&s->blas);
    FAIL_IF(err, blas != CUBLAS_STATUS_SUCCESS, GLOFND_E_DEVICE, "cuBLASLt cannot start (status %d); use device = cpu",
            (int)blas);
    return GLOFND_OK;
}

static glofnd_status engine_open(gf_error *err, int threads, gf_nn_engine **out) {
    (void)threads;
    gf_nn_engine *s = calloc(1, sizeof *s);
    FAIL_IF(err, !s, GLOFND_E_MEMORY, "out of memory");
    const glofnd_status status = open_into(err, s);
    if (status != GLOFND_OK) {
        engine_close(s);
        return status;
    }
    *out = s;
    return GLOFND_OK;
}

static glofnd_status configure(gf_error *err, gf_nn_engine *s, const gf_nn_mode *mode) {
    s->mode = *mode;
    s->mode.plans = NULL;
    if (!mode->plans || mode->estimate) return GLOFND_OK;
    s->plans_path = strdup(mode->plans);
    FAIL_IF(err, !s->plans_path, GLOFND_E_MEMORY, "out of memory");
    gf_cunn_choices_read(s, s->plans_path);
    return GLOFND_OK;
}

/* ----- memory ------------------------------------------------------------------------------------------------------ */

static void update_peak(gf_nn_engine *s) {
    size_t left = 0, all = 0;
    if (cudaMemGetInfo(&left, &all) == cudaSuccess && all - left > s->peak) s->peak = all - left;
}

static void memory(gf_nn_engine *s, size_t *held, size_t *peak) {
    update_peak(s);
    *held = s->tables;
    *peak = s->peak;
}

void *gf_cunn_trial(gf_nn_engine *s, size_t bytes) {
    if (bytes <= s->trial_bytes) return s->trial;
    cudaStreamSynchronize(s->stream);
    cudaFree(s->trial);
    s->trial = NULL;
    s->trial_bytes = 0;
    if (cudaMalloc(&s->trial, bytes) != cudaSuccess) {
        cudaGetLastError();
        s->trial = NULL;
        return NULL;
    }
    s->trial_bytes = bytes;
    update_peak(s);
    gf_cunn_noise(s, s->trial, bytes);
    return s->trial;
}

static void *engine_alloc(gf_nn_engine *s, size_t bytes) {
    void *p = NULL;
    /* All ops exist now: saves the choices and frees the memory for timing. */
    if (s->trial) cudaStreamSynchronize(s->stream);
    cudaFree(s->trial);
    s->trial = NULL;
    s->trial_bytes = 0;
    /* not saved: chosen again next time */
    if (s->new_choices && s->plans_path) gf_cunn_choices_write(NULL, s, s->plans_path);
    s->new_choices = 0;
    const cudaError_t e = cudaMalloc(&p, bytes ? bytes : 1);
    if (e != cudaSuccess) {
        cudaGetLastError(); /* an allocation that failed is no lasting error */
        if (e != cudaErrorMemoryAllocation) gf_cunn_note(s, e, "memory");
        return NULL;
    }
    update_peak(s);
    gf_cunn_note(s, cudaMemsetAsync(p, 0, bytes, s->stream), "memory");
    return p;
}

static void engine_release(gf_nn_engine *s, void *p) {
    synchronize(s);
    cudaFree(p);
}

static glofnd_status engine_put(gf_error *err, gf_nn_engine *s, void *dst, const void *src, size_t bytes) {
    CUDA_TRY_AS(err, cudaMemcpyAsync(dst, src, bytes, cudaMemcpyHostToDevice, s->stream), "copy to the device");
    return GLOFND_OK;
}

static glofnd_status engine_wait(gf_error *err, gf_nn_engine *s) {
    gf_cunn_note(s, cudaStreamSynchronize(s->stream), "work on the device");
    return take_error(err, s);
}

static glofnd_status engine_get(gf_error *err, gf_nn_engine *s, void *dst, const void *src, size_t bytes) {
    CUDA_TRY_AS(err, cudaMemcpyAsync(dst, src, bytes, cudaMemcpyDeviceToHost, s->stream), "copy from the device");
    return engine_wait(err, s);
}

static void *stream(gf_nn_engine *s) { return s->main; }

static void beside(gf_nn_engine *s, gf_nn_beside how) {
    switch (how) {
    case GF_NN_FORK:
        gf_cunn_note(s, cudaEventRecord(s->forked, s->main), "stream");
        gf_cunn_note(s, cudaStreamWaitEvent(s->aside, s->forked, 0), "stream");
        s->stream = s->aside;
        break;
    case GF_NN_RETURN: s->stream = s->main; break;
    case GF_NN_JOIN:
        gf_cunn_note(s, cudaEventRecord(s->joined, s->aside), "stream");
        gf_cunn_note(s, cudaStreamWaitEvent(s->main, s->joined, 0), "stream");
        break;
    }
}

/* ----- captured work ----------------------------------------------------------------------------------------------- */

static void forget(gf_nn_engine *s) {
    cudaStreamSynchronize(s->stream);
    for (int i = 0; i < GF_NN_RECORDS; i++) drop(s, i);
}

static glofnd_status record(gf_error *err, gf_nn_engine *s, int slot, glofnd_status (*work)(gf_error *, void *), void *arg,
                            int *made) {
    cudaGraph_t graph = NULL;
    enum cudaStreamCaptureStatus now = cudaStreamCaptureStatusNone;
    drop(s, slot);
    CUDA_TRY_AS(err, cudaStreamBeginCapture(s->stream, cudaStreamCaptureModeRelaxed), "recording a step");
    const glofnd_status status = work(err, arg);
    cudaStreamIsCapturing(s->stream, &now); /* work that cannot be captured has ended the capture */
    if (cudaStreamEndCapture(s->stream, &graph) == cudaSuccess && status == GLOFND_OK) {
        /* Uploads it, too: the first launch would allocate that memory, too late to continue without a graph. */
        if (cudaGraphInstantiate(&s->record[slot], graph, 0) != cudaSuccess) s->record[slot] = NULL;
        else if (cudaGraphUpload(s->record[slot], s->stream) != cudaSuccess) drop(s, slot);
    }
    if (graph) cudaGraphDestroy(graph);
    *made = s->record[slot] != NULL;
    if (!*made) cudaGetLastError();
    if (!*made) s->failed = cudaSuccess;
    return now == cudaStreamCaptureStatusActive ? status : GLOFND_OK;
}

static glofnd_status engine_run(gf_error *err, gf_nn_engine *s, int slot, glofnd_status (*work)(gf_error *, void *), void *arg) {
    if (slot >= 0) CUDA_TRY_AS(err, cudaGraphLaunch(s->record[slot], s->stream), "a recorded step");
    else TRY(work(err, arg));
    return take_error(err, s);
}

/* ----- ops: one row per kind --------------------------------------------------------------------------------------- */

glofnd_status gf_cunn_maxpool_create(gf_error *err, gf_nn_op *op, gf_nn_sizes *sizes) {
    const gf_nn_shape *s = &op->shape;
    FAIL_IF(err, s->kernel > 15, GLOFND_E_UNSUPPORTED, "max pooling over windows of %d", s->kernel);
    const int64_t oh = gf_nn_out(s->h, s->kernel, s->stride, s->pad), ow = gf_nn_out(s->w, s->kernel, s->stride, s->pad);
    if (s->training) sizes->saved = (size_t)(s->n * oh * ow * s->in);
    return GLOFND_OK;
}

glofnd_status gf_cunn_maxpool_forward(gf_error *err, gf_nn_op *op, const gf_nn_args *a) {
    (void)err;
    gf_cunn_maxpool(op->engine, &op->shape, a->y, op->shape.training ? a->saved : NULL, a->x);
    return GLOFND_OK;
}

glofnd_status gf_cunn_maxpool_backward(gf_error *err, gf_nn_op *op, const gf_nn_args *a) {
    (void)err;
    gf_cunn_maxpool_back(op->engine, &op->shape, a->dx, a->saved, a->dy);
    return GLOFND_OK;
}

typedef struct op_kind {
    glofnd_status (*create)(gf_error *err, gf_nn_op *op, gf_nn_sizes *sizes);
    glofnd_status (*forward)(gf_error *err, gf_nn_op *op, const gf_nn_args *a);
    glofnd_status (*backward)(gf_error *err, gf_nn_op *op, const gf_nn_args *a);
} op_kind;

static const op_kind kinds[] = {
#define GF_X(kind, name) [GF_NN_##kind] = {gf_cunn_##name##_create, gf_cunn_##name##_forward, gf_cunn_##name##_backward},
    GF_CUNN_OPS(GF_X)
#undef GF_X
};

static glofnd_status op_create(gf_error *err, gf_nn_engine *s, const gf_nn_shape *shape, gf_nn_sizes *sizes, gf_nn_op **out) {
    FAIL_IF(err, (size_t)shape->kind >= sizeof kinds / sizeof *kinds || !kinds[shape->kind].create, GLOFND_E_UNSUPPORTED,
            "networks on the GPU have no op of kind %d: use device = cpu", (int)shape->kind);
    gf_nn_op *op = calloc(1, sizeof *op);
    FAIL_IF(err, !op, GLOFND_E_MEMORY, "out of memory");
    op->next = s->ops;
    s->ops = op;
    op->engine = s;
    op->shape = *shape;
    *sizes = (gf_nn_sizes){0};
    TRY(kinds[shape->kind].create(err, op, sizes));
    *out = op;
    return GLOFND_OK;
}

static glofnd_status op_pack(gf_error *err, gf_nn_op *op, const gf_nn_args *a) {
    (void)err;
    const gf_nn_shape *s = &op->shape;
    if (s->kind == GF_NN_CONV && s->type == GF_TYPE_BF16)
        gf_cunn_cast(op->engine, GF_TYPE_BF16, a->packed, a->weight, s->out * s->in * s->kernel * s->kernel);
    if (s->kind == GF_NN_LINEAR) gf_cunn_linear_pack(op, a);
    return GLOFND_OK;
}

static glofnd_status op_forward(gf_error *err, gf_nn_op *op, const gf_nn_args *a) {
    return kinds[op->shape.kind].forward(err, op, a);
}

static glofnd_status op_backward(gf_error *err, gf_nn_op *op, const gf_nn_args *a) {
    return kinds[op->shape.kind].backward(err, op, a);
}

const gf_nn_backend gf_nn_backend_cuda = {
    .name = "cuda",
    .describe = describe_device,
    .open = engine_open,
    .close = engine_close,
    .alloc = engine_alloc,
    .release = engine_release,
    .op_create = op_create,
    .op_pack = op_pack,
    .op_forward = op_forward,
    .op_backward = op_backward,
    .norm_scratch = gf_cunn_norm_scratch,
    .norm_sums = gf_cunn_norm_sums,
    .norm_finish = gf_cunn_norm_finish,
    .norm_eval = gf_cunn_norm_eval,
    .norm_apply = gf_cunn_norm_apply,
    .norm_back_sums = gf_cunn_norm_back_sums,
    .norm_back_finish = gf_cunn_norm_back_finish,
    .norm_back_apply = gf_cunn_norm_back_apply,
    .cast = gf_cunn_cast,
    .add = gf_cunn_add,
    .mean = gf_cunn_mean,
    .mean_back = gf_cunn_mean_back,
    .pools = gf_cunn_stem_pools,
    .op_sums = gf_cunn_conv_sums,
    .op_back_sums = gf_cunn_conv_back_sums,
    .norm_fuses = 1,
    .image_channels = GF_CUNN_IMAGE_CHANNELS,
    .configure = configure,
    .put = engine_put,
    .get = engine_get,
    .wait = engine_wait,
    .stream = stream,
    .beside = beside,
    .images = gf_cunn_images,
    .norm_bits = gf_cunn_norm_bits,
    .norm_stats = gf_cunn_norm_stats,
    .norm_forward = gf_cunn_norm_forward,
    .norm_backward = gf_cunn_norm_backward,
    .pack_all = gf_cunn_pack_all,
    .unpack_all = gf_cunn_unpack_all,
    .unpack_some = gf_cunn_unpack_some,
    .record = record,
    .run = engine_run,
    .forget = forget,
    .optim_create = gf_cunn_optim_create,
    .optim_set = gf_cunn_optim_set,
    .optim_step = gf_cunn_optim_step,
    .optim_norm = gf_cunn_optim_norm,
    .memory = memory,
};

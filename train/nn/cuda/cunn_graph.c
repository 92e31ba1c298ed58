/* cunn_graph.c - descriptors of cuDNN's graph interface. See cunn_plan.h. */
#include <stdio.h>
#include <string.h>

#include "nn/cuda/cunn_plan.h"

/* ----- sets of descriptors ----------------------------------------------------------------------------------------- */

void gf_cunn_set_free(gf_cunn_set *t) {
    while (t->count > 0) t->engine->libs.cudnnBackendDestroyDescriptor(t->desc[--t->count]);
}

glofnd_status gf_cunn_set_fail(gf_error *err, const gf_cunn_set *t) {
    const gf_cunn_libs *l = &t->engine->libs;
    char why[256] = "";
    l->cudnnGetLastErrorString(why, sizeof why);
    GF_FAIL(err, GLOFND_E_DEVICE, "cuDNN %zu: %s failed: %s; %s", l->cudnnGetVersion(), t->at, l->cudnnGetErrorString(t->status),
            why);
}

static void keep_status(gf_cunn_set *t, cudnnStatus_t status, const char *at) {
    if (t->status != CUDNN_STATUS_SUCCESS || status == CUDNN_STATUS_SUCCESS) return;
    t->status = status;
    t->at = at;
}

static cudnnBackendDescriptor_t make(gf_cunn_set *t, cudnnBackendDescriptorType_t type) {
    cudnnBackendDescriptor_t d = NULL;
    if (t->status != CUDNN_STATUS_SUCCESS) return NULL;
    if (t->count == GF_CUNN_DESCS) {
        keep_status(t, CUDNN_STATUS_BAD_PARAM, "list of descriptors");
        return NULL;
    }
    keep_status(t, t->engine->libs.cudnnBackendCreateDescriptor(type, &d), "descriptor");
    if (t->status == CUDNN_STATUS_SUCCESS) t->desc[t->count++] = d;
    return d;
}

static void set(gf_cunn_set *t, cudnnBackendDescriptor_t d, cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
                int64_t count, const void *value) {
    if (t->status != CUDNN_STATUS_SUCCESS) return;
    keep_status(t, t->engine->libs.cudnnBackendSetAttribute(d, name, type, count, value), "attribute of a descriptor");
}

static void set_long(gf_cunn_set *t, cudnnBackendDescriptor_t d, cudnnBackendAttributeName_t name, int64_t value) {
    set(t, d, name, CUDNN_TYPE_INT64, 1, &value);
}

static void set_desc(gf_cunn_set *t, cudnnBackendDescriptor_t d, cudnnBackendAttributeName_t name,
                     cudnnBackendDescriptor_t value) {
    set(t, d, name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &value);
}

static void finalize(gf_cunn_set *t, cudnnBackendDescriptor_t d, const char *at) {
    if (t->status == CUDNN_STATUS_SUCCESS) keep_status(t, t->engine->libs.cudnnBackendFinalize(d), at);
}

/* ----- tensors and operations -------------------------------------------------------------------------------------- */

enum { X = 1, W, Y }; /* unique ids of the tensors of every task */

/* dims in cuDNN's order n, c, h, w; the channels are the innermost in memory. */
static cudnnBackendDescriptor_t tensor(gf_cunn_set *t, int64_t id, const int64_t dims[4], cudnnDataType_t type) {
    const int64_t strides[4] = {dims[1] * dims[2] * dims[3], 1, dims[1] * dims[3], dims[1]};
    cudnnBackendDescriptor_t d = make(t, CUDNN_BACKEND_TENSOR_DESCRIPTOR);
    set(t, d, CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &type);
    set(t, d, CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, 4, dims);
    set(t, d, CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, 4, strides);
    set_long(t, d, CUDNN_ATTR_TENSOR_UNIQUE_ID, id);
    set_long(t, d, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, 16);
    finalize(t, d, "tensor");
    return d;
}

static cudnnBackendDescriptor_t window(gf_cunn_set *t, const gf_nn_shape *s) {
    const int64_t pad[2] = {s->pad, s->pad}, stride[2] = {s->stride, s->stride}, dilation[2] = {1, 1};
    const cudnnDataType_t type = CUDNN_DATA_FLOAT;
    const cudnnConvolutionMode_t mode = CUDNN_CROSS_CORRELATION;
    cudnnBackendDescriptor_t d = make(t, CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR);
    set_long(t, d, CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, 2);
    set(t, d, CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &type);
    set(t, d, CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_TYPE_CONVOLUTION_MODE, 1, &mode);
    set(t, d, CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, CUDNN_TYPE_INT64, 2, pad);
    set(t, d, CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, CUDNN_TYPE_INT64, 2, pad);
    set(t, d, CUDNN_ATTR_CONVOLUTION_DILATIONS, CUDNN_TYPE_INT64, 2, dilation);
    set(t, d, CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, CUDNN_TYPE_INT64, 2, stride);
    finalize(t, d, "convolution");
    return d;
}

typedef struct names { /* of the attributes of one kind of operation */
    cudnnBackendDescriptorType_t type;
    cudnnBackendAttributeName_t x, w, y, window, alpha, beta;
} names;

static const names kinds[GF_CUNN_WORKS] = {
    [GF_CUNN_FORWARD] = {CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X,
                         CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y,
                         CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA,
                         CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA},
    [GF_CUNN_BACK_DATA] = {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR,
                           CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W,
                           CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC,
                           CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA},
    [GF_CUNN_BACK_WEIGHTS] = {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR,
                              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW,
                              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY,
                              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC,
                              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA,
                              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA},
};

static cudnnBackendDescriptor_t operation(gf_cunn_set *t, const gf_cunn_task *task) {
    const gf_nn_shape *s = task->shape;
    const names *k = &kinds[task->work];
    const cudnnDataType_t type = s->type == GF_TYPE_BF16 ? CUDNN_DATA_BFLOAT16 : CUDNN_DATA_FLOAT;
    const int wide = task->work == GF_CUNN_BACK_WEIGHTS && !task->narrow;
    const int64_t oh = gf_nn_out(s->h, s->kernel, s->stride, s->pad), ow = gf_nn_out(s->w, s->kernel, s->stride, s->pad);
    const int64_t x[4] = {s->n, s->in, s->h, s->w}, w[4] = {s->out, s->in, s->kernel, s->kernel}, y[4] = {s->n, s->out, oh, ow};
    const float one = 1.0f, zero = 0.0f;
    const cudnnBackendDescriptor_t dx = tensor(t, X, x, type), dw = tensor(t, W, w, wide ? CUDNN_DATA_FLOAT : type);
    const cudnnBackendDescriptor_t dy = tensor(t, Y, y, type), slide = window(t, s);
    cudnnBackendDescriptor_t d = make(t, k->type);
    set_desc(t, d, k->window, slide);
    set_desc(t, d, k->x, dx);
    set_desc(t, d, k->w, dw);
    set_desc(t, d, k->y, dy);
    set(t, d, k->alpha, CUDNN_TYPE_FLOAT, 1, &one);
    set(t, d, k->beta, CUDNN_TYPE_FLOAT, 1, &zero);
    finalize(t, d, "operation");
    return d;
}

cudnnBackendDescriptor_t gf_cunn_graph(gf_cunn_set *t, const gf_cunn_task *task) {
    const cudnnBackendDescriptor_t op = operation(t, task);
    cudnnBackendDescriptor_t d = make(t, CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
    set(t, d, CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, 1, &t->engine->dnn);
    set(t, d, CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &op);
    finalize(t, d, "operation graph");
    return t->status == CUDNN_STATUS_SUCCESS ? d : NULL;
}

/* ----- engines ----------------------------------------------------------------------------------------------------- */

int gf_cunn_proposals(gf_cunn_set *t, cudnnBackendDescriptor_t graph, cudnnBackendHeurMode_t mode, cudnnBackendDescriptor_t *out,
                      int capacity) {
    int64_t count = 0;
    cudnnBackendDescriptor_t d = make(t, CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
    set_desc(t, d, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph);
    set(t, d, CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, 1, &mode);
    finalize(t, d, "heuristics");
    int made = 0;
    while (made < capacity && t->status == CUDNN_STATUS_SUCCESS && t->count < GF_CUNN_DESCS) {
        const cudnnBackendDescriptor_t config = make(t, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
        if (config) out[made++] = config;
    }
    if (t->status != CUDNN_STATUS_SUCCESS) return 0;
    keep_status(t,
                t->engine->libs.cudnnBackendGetAttribute(d, CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR, made,
                                                         &count, out),
                "proposals");
    return t->status == CUDNN_STATUS_SUCCESS ? (int)(count < made ? count : made) : 0;
}

/* A new descriptor filled with attribute `name` of `from`; NULL: none. */
static cudnnBackendDescriptor_t held(const gf_cunn_libs *l, cudnnBackendDescriptor_t from, cudnnBackendAttributeName_t name,
                                     cudnnBackendDescriptorType_t type) {
    cudnnBackendDescriptor_t d = NULL;
    int64_t count = 0;
    if (l->cudnnBackendCreateDescriptor(type, &d) != CUDNN_STATUS_SUCCESS) return NULL;
    if (l->cudnnBackendGetAttribute(from, name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &count, &d) == CUDNN_STATUS_SUCCESS) return d;
    l->cudnnBackendDestroyDescriptor(d);
    return NULL;
}

int gf_cunn_allowed(gf_nn_engine *s, cudnnBackendDescriptor_t config, const gf_cunn_task *task) {
    const gf_cunn_libs *l = &s->libs;
    cudnnBackendNumericalNote_t note[CUDNN_NUMERICAL_NOTE_TYPE_COUNT];
    int64_t count = 0;
    cudnnBackendDescriptor_t engine = held(l, config, CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_BACKEND_ENGINE_DESCRIPTOR);
    if (!engine) return 0;
    const cudnnStatus_t status = l->cudnnBackendGetAttribute(engine, CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, CUDNN_TYPE_NUMERICAL_NOTE,
                                                             CUDNN_NUMERICAL_NOTE_TYPE_COUNT, &count, note);
    l->cudnnBackendDestroyDescriptor(engine);
    if (status != CUDNN_STATUS_SUCCESS) return 0;
    const int exact = s->mode.exact && task->shape->type == GF_TYPE_F32;
    for (int64_t i = 0; i < count; i++) {
        if (note[i] == CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC && s->mode.deterministic) return 0;
        if (note[i] == CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS || note[i] == CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION)
            return 0;
        if (exact && note[i] != CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC && note[i] != CUDNN_NUMERICAL_NOTE_STRICT_NAN_PROP)
            return 0; /* tensor cores, Winograd, FFT: all round more */
    }
    return 1;
}

static int knob_of(const gf_cunn_libs *l, cudnnBackendDescriptor_t d, int64_t out[2]) {
    cudnnBackendKnobType_t type;
    int64_t count;
    if (l->cudnnBackendGetAttribute(d, CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE, CUDNN_TYPE_KNOB_TYPE, 1, &count, &type)) return 0;
    out[0] = (int64_t)type;
    return !l->cudnnBackendGetAttribute(d, CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE, CUDNN_TYPE_INT64, 1, &count, &out[1]);
}

int gf_cunn_describe(gf_nn_engine *s, cudnnBackendDescriptor_t config, gf_cunn_choice *out) {
    const gf_cunn_libs *l = &s->libs;
    gf_cunn_set t = {.engine = s};
    cudnnBackendDescriptor_t knob[GF_CUNN_KNOBS];
    int64_t count = 0;
    cudnnBackendDescriptor_t engine = held(l, config, CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_BACKEND_ENGINE_DESCRIPTOR);
    if (!engine) return 0;
    int good = !l->cudnnBackendGetAttribute(engine, CUDNN_ATTR_ENGINE_GLOBAL_INDEX, CUDNN_TYPE_INT64, 1, &count, &out->engine);
    l->cudnnBackendDestroyDescriptor(engine);
    for (int i = 0; i < GF_CUNN_KNOBS; i++) knob[i] = make(&t, CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR);
    good = good && t.status == CUDNN_STATUS_SUCCESS &&
           !l->cudnnBackendGetAttribute(config, CUDNN_ATTR_ENGINECFG_KNOB_CHOICES, CUDNN_TYPE_BACKEND_DESCRIPTOR, GF_CUNN_KNOBS,
                                        &count, knob);
    out->knobs = 0;
    for (int64_t i = 0; good && i < count && i < GF_CUNN_KNOBS; i++) good = knob_of(l, knob[i], out->knob[out->knobs++]);
    gf_cunn_set_free(&t);
    return good;
}

cudnnBackendDescriptor_t gf_cunn_config(gf_cunn_set *t, cudnnBackendDescriptor_t graph, const gf_cunn_choice *choice) {
    cudnnBackendDescriptor_t knob[GF_CUNN_KNOBS];
    cudnnBackendDescriptor_t engine = make(t, CUDNN_BACKEND_ENGINE_DESCRIPTOR);
    set_desc(t, engine, CUDNN_ATTR_ENGINE_OPERATION_GRAPH, graph);
    set_long(t, engine, CUDNN_ATTR_ENGINE_GLOBAL_INDEX, choice->engine);
    finalize(t, engine, "engine");
    for (int i = 0; i < choice->knobs; i++) {
        const cudnnBackendKnobType_t type = (cudnnBackendKnobType_t)choice->knob[i][0];
        knob[i] = make(t, CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR);
        set(t, knob[i], CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE, CUDNN_TYPE_KNOB_TYPE, 1, &type);
        set_long(t, knob[i], CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE, choice->knob[i][1]);
        finalize(t, knob[i], "knob");
    }
    cudnnBackendDescriptor_t config = make(t, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
    set_desc(t, config, CUDNN_ATTR_ENGINECFG_ENGINE, engine);
    if (choice->knobs) set(t, config, CUDNN_ATTR_ENGINECFG_KNOB_CHOICES, CUDNN_TYPE_BACKEND_DESCRIPTOR, choice->knobs, knob);
    finalize(t, config, "engine configuration");
    return t->status == CUDNN_STATUS_SUCCESS ? config : NULL;
}

/* ----- plans ------------------------------------------------------------------------------------------------------- */

cudnnBackendDescriptor_t gf_cunn_build(gf_nn_engine *s, cudnnBackendDescriptor_t config, size_t *workspace) {
    gf_cunn_set t = {.engine = s};
    int64_t bytes = 0, count = 0;
    cudnnBackendDescriptor_t d = make(&t, CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
    set(&t, d, CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, 1, &s->dnn);
    set_desc(&t, d, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, config);
    finalize(&t, d, "plan");
    if (t.status == CUDNN_STATUS_SUCCESS)
        keep_status(&t,
                    s->libs.cudnnBackendGetAttribute(d, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_INT64, 1, &count,
                                                     &bytes),
                    "workspace");
    if (t.status == CUDNN_STATUS_SUCCESS) {
        *workspace = bytes > 0 ? (size_t)bytes : 0;
        return d;
    }
    gf_cunn_set_free(&t);
    return NULL;
}

cudnnStatus_t gf_cunn_execute(gf_nn_engine *s, cudnnBackendDescriptor_t plan, void *x, void *w, void *y, void *workspace) {
    gf_cunn_set t = {.engine = s};
    const int64_t ids[3] = {X, W, Y};
    void *data[3] = {x, w, y};
    cudnnBackendDescriptor_t d = make(&t, CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
    set(&t, d, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, 3, ids);
    set(&t, d, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, 3, data);
    set(&t, d, CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, 1, &workspace);
    finalize(&t, d, "pointers");
    if (t.status == CUDNN_STATUS_SUCCESS) t.status = s->libs.cudnnBackendExecute(s->dnn, plan, d);
    gf_cunn_set_free(&t);
    return t.status;
}

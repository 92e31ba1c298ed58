/* cunn_plan.c - see cunn_plan.h: descriptors of cuDNN's graph interface, and the choice of algorithms, timed once per shape. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "io/blockfile.h"
#include "nn/cuda/cunn_plan.h"
#include "util/text.h"

/* ----- choices as text, one line each: "key engine type=value ..." ----------------------------------------------- */

enum { LINE = 2048 };

const gf_cunn_choice *gf_cunn_choice_find(const gf_nn_engine *s, const char *key) {
    for (const gf_cunn_choice *c = s->choices; c; c = c->next)
        if (strcmp(c->key, key) == 0) return c;
    return NULL;
}

/* In front: a newer choice is found first, and hides an older one that no longer works. */
void gf_cunn_choice_add(gf_nn_engine *s, const gf_cunn_choice *c) {
    gf_cunn_choice *copy = malloc(sizeof *copy);
    if (!copy) return;
    *copy = *c;
    copy->next = s->choices;
    s->choices = copy;
    s->new_choices = 1;
}

void gf_cunn_choices_free(gf_nn_engine *s) {
    while (s->choices) {
        gf_cunn_choice *next = s->choices->next;
        free(s->choices);
        s->choices = next;
    }
}

static int parse_line(char *line, gf_cunn_choice *c) {
    char *rest = NULL;
    const char *key = strtok_r(line, " \n", &rest), *engine = strtok_r(NULL, " \n", &rest);
    if (!key || !engine || strlen(key) >= sizeof c->key) return 0;
    memset(c, 0, sizeof *c);
    memcpy(c->key, key, strlen(key) + 1);
    if (gf_integer_read(engine, &c->engine) || c->engine < 0) return 0;
    for (char *pair; (pair = strtok_r(NULL, " \n", &rest)); c->knobs++) {
        if (c->knobs == GF_CUNN_KNOBS) return 0;
        char *value = strchr(pair, '=');
        if (!value) return 0;
        *value++ = 0;
        if (gf_integer_read(pair, &c->knob[c->knobs][0]) || gf_integer_read(value, &c->knob[c->knobs][1])) return 0;
    }
    return 1;
}

void gf_cunn_choices_read(gf_nn_engine *s, const char *path) {
    char line[LINE];
    gf_cunn_choice c;
    FILE *f = fopen(path, "r");
    if (!f) return;
    while (fgets(line, sizeof line, f))
        if (strchr(line, '\n') && parse_line(line, &c)) gf_cunn_choice_add(s, &c);
    fclose(f);
    s->new_choices = 0;
}

glofnd_status gf_cunn_choices_write(gf_error *err, const gf_nn_engine *s, const char *path) {
    gf_writer w;
    TRY(gf_writer_open(err, &w, path));
    /* Oldest first, so that reading restores the order. */
    const gf_cunn_choice *all[4096];
    int n = 0;
    for (const gf_cunn_choice *c = s->choices; c && n < 4096; c = c->next) all[n++] = c;
    while (n > 0) {
        const gf_cunn_choice *c = all[--n];
        char line[LINE];
        int used = snprintf(line, sizeof line, "%s %lld", c->key, (long long)c->engine);
        for (int i = 0; i < c->knobs && used < LINE - 64; i++)
            used += snprintf(line + used, sizeof line - (size_t)used, " %lld=%lld", (long long)c->knob[i][0],
                             (long long)c->knob[i][1]);
        line[used++] = '\n';
        gf_put(&w, line, (size_t)used);
    }
    return gf_writer_finish(&w);
}

/* ----- descriptors ----------------------------------------------------------------------------------------------- */

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

static cudnnBackendDescriptor_t make_desc(gf_cunn_set *t, cudnnBackendDescriptorType_t type) {
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

static void set_attribute(gf_cunn_set *t, cudnnBackendDescriptor_t d, cudnnBackendAttributeName_t name,
                          cudnnBackendAttributeType_t type, int64_t count, const void *value) {
    if (t->status != CUDNN_STATUS_SUCCESS) return;
    keep_status(t, t->engine->libs.cudnnBackendSetAttribute(d, name, type, count, value), "attribute of a descriptor");
}

static void set_long(gf_cunn_set *t, cudnnBackendDescriptor_t d, cudnnBackendAttributeName_t name, int64_t value) {
    set_attribute(t, d, name, CUDNN_TYPE_INT64, 1, &value);
}

static void set_desc(gf_cunn_set *t, cudnnBackendDescriptor_t d, cudnnBackendAttributeName_t name,
                     cudnnBackendDescriptor_t value) {
    set_attribute(t, d, name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &value);
}

static void finalize_desc(gf_cunn_set *t, cudnnBackendDescriptor_t d, const char *at) {
    if (t->status == CUDNN_STATUS_SUCCESS) keep_status(t, t->engine->libs.cudnnBackendFinalize(d), at);
}

/* ----- tensors and operations -------------------------------------------------------------------------------------- */

enum { X = 1, W, Y }; /* unique ids of the tensors of every task */

/* dims in cuDNN's order n, c, h, w; the channels are the innermost in memory. */
static cudnnBackendDescriptor_t tensor_desc(gf_cunn_set *t, int64_t id, const int64_t dims[4], cudnnDataType_t type) {
    const int64_t strides[4] = {dims[1] * dims[2] * dims[3], 1, dims[1] * dims[3], dims[1]};
    cudnnBackendDescriptor_t d = make_desc(t, CUDNN_BACKEND_TENSOR_DESCRIPTOR);
    set_attribute(t, d, CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &type);
    set_attribute(t, d, CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, 4, dims);
    set_attribute(t, d, CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, 4, strides);
    set_long(t, d, CUDNN_ATTR_TENSOR_UNIQUE_ID, id);
    set_long(t, d, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, 16);
    finalize_desc(t, d, "tensor");
    return d;
}

static cudnnBackendDescriptor_t window_desc(gf_cunn_set *t, const gf_nn_shape *s) {
    const int64_t pad[2] = {s->pad, s->pad}, stride[2] = {s->stride, s->stride}, dilation[2] = {1, 1};
    const cudnnDataType_t type = CUDNN_DATA_FLOAT;
    const cudnnConvolutionMode_t mode = CUDNN_CROSS_CORRELATION;
    cudnnBackendDescriptor_t d = make_desc(t, CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR);
    set_long(t, d, CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, 2);
    set_attribute(t, d, CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &type);
    set_attribute(t, d, CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_TYPE_CONVOLUTION_MODE, 1, &mode);
    set_attribute(t, d, CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, CUDNN_TYPE_INT64, 2, pad);
    set_attribute(t, d, CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, CUDNN_TYPE_INT64, 2, pad);
    set_attribute(t, d, CUDNN_ATTR_CONVOLUTION_DILATIONS, CUDNN_TYPE_INT64, 2, dilation);
    set_attribute(t, d, CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, CUDNN_TYPE_INT64, 2, stride);
    finalize_desc(t, d, "convolution");
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

static cudnnBackendDescriptor_t operation_desc(gf_cunn_set *t, const gf_cunn_task *task) {
    const gf_nn_shape *s = task->shape;
    const names *k = &kinds[task->work];
    const cudnnDataType_t type = s->type == GF_TYPE_BF16 ? CUDNN_DATA_BFLOAT16 : CUDNN_DATA_FLOAT;
    const int wide = task->work == GF_CUNN_BACK_WEIGHTS && !task->narrow;
    const int64_t oh = gf_nn_out(s->h, s->kernel, s->stride, s->pad), ow = gf_nn_out(s->w, s->kernel, s->stride, s->pad);
    const int64_t x[4] = {s->n, s->in, s->h, s->w}, w[4] = {s->out, s->in, s->kernel, s->kernel}, y[4] = {s->n, s->out, oh, ow};
    const float one = 1.0f, zero = 0.0f;
    const cudnnBackendDescriptor_t dx = tensor_desc(t, X, x, type), dw = tensor_desc(t, W, w, wide ? CUDNN_DATA_FLOAT : type);
    const cudnnBackendDescriptor_t dy = tensor_desc(t, Y, y, type), slide = window_desc(t, s);
    cudnnBackendDescriptor_t d = make_desc(t, k->type);
    set_desc(t, d, k->window, slide);
    set_desc(t, d, k->x, dx);
    set_desc(t, d, k->w, dw);
    set_desc(t, d, k->y, dy);
    set_attribute(t, d, k->alpha, CUDNN_TYPE_FLOAT, 1, &one);
    set_attribute(t, d, k->beta, CUDNN_TYPE_FLOAT, 1, &zero);
    finalize_desc(t, d, "operation");
    return d;
}

cudnnBackendDescriptor_t gf_cunn_graph(gf_cunn_set *t, const gf_cunn_task *task) {
    const cudnnBackendDescriptor_t op = operation_desc(t, task);
    cudnnBackendDescriptor_t d = make_desc(t, CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
    set_attribute(t, d, CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, 1, &t->engine->dnn);
    set_attribute(t, d, CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &op);
    finalize_desc(t, d, "operation graph");
    return t->status == CUDNN_STATUS_SUCCESS ? d : NULL;
}

/* ----- engines ----------------------------------------------------------------------------------------------------- */

int gf_cunn_proposals(gf_cunn_set *t, cudnnBackendDescriptor_t graph, cudnnBackendHeurMode_t mode, cudnnBackendDescriptor_t *out,
                      int capacity) {
    int64_t count = 0;
    cudnnBackendDescriptor_t d = make_desc(t, CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
    set_desc(t, d, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph);
    set_attribute(t, d, CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, 1, &mode);
    finalize_desc(t, d, "heuristics");
    int made = 0;
    while (made < capacity && t->status == CUDNN_STATUS_SUCCESS && t->count < GF_CUNN_DESCS) {
        const cudnnBackendDescriptor_t config = make_desc(t, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
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
static cudnnBackendDescriptor_t held_desc(const gf_cunn_libs *l, cudnnBackendDescriptor_t from, cudnnBackendAttributeName_t name,
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
    cudnnBackendDescriptor_t engine = held_desc(l, config, CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_BACKEND_ENGINE_DESCRIPTOR);
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
    cudnnBackendDescriptor_t engine = held_desc(l, config, CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_BACKEND_ENGINE_DESCRIPTOR);
    if (!engine) return 0;
    int good = !l->cudnnBackendGetAttribute(engine, CUDNN_ATTR_ENGINE_GLOBAL_INDEX, CUDNN_TYPE_INT64, 1, &count, &out->engine);
    l->cudnnBackendDestroyDescriptor(engine);
    for (int i = 0; i < GF_CUNN_KNOBS; i++) knob[i] = make_desc(&t, CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR);
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
    cudnnBackendDescriptor_t engine = make_desc(t, CUDNN_BACKEND_ENGINE_DESCRIPTOR);
    set_desc(t, engine, CUDNN_ATTR_ENGINE_OPERATION_GRAPH, graph);
    set_long(t, engine, CUDNN_ATTR_ENGINE_GLOBAL_INDEX, choice->engine);
    finalize_desc(t, engine, "engine");
    for (int i = 0; i < choice->knobs; i++) {
        const cudnnBackendKnobType_t type = (cudnnBackendKnobType_t)choice->knob[i][0];
        knob[i] = make_desc(t, CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR);
        set_attribute(t, knob[i], CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE, CUDNN_TYPE_KNOB_TYPE, 1, &type);
        set_long(t, knob[i], CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE, choice->knob[i][1]);
        finalize_desc(t, knob[i], "knob");
    }
    cudnnBackendDescriptor_t config = make_desc(t, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
    set_desc(t, config, CUDNN_ATTR_ENGINECFG_ENGINE, engine);
    if (choice->knobs)
        set_attribute(t, config, CUDNN_ATTR_ENGINECFG_KNOB_CHOICES, CUDNN_TYPE_BACKEND_DESCRIPTOR, choice->knobs, knob);
    finalize_desc(t, config, "engine configuration");
    return t->status == CUDNN_STATUS_SUCCESS ? config : NULL;
}

/* ----- plans ------------------------------------------------------------------------------------------------------- */

cudnnBackendDescriptor_t gf_cunn_build(gf_nn_engine *s, cudnnBackendDescriptor_t config, size_t *workspace) {
    gf_cunn_set t = {.engine = s};
    int64_t bytes = 0, count = 0;
    cudnnBackendDescriptor_t d = make_desc(&t, CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
    set_attribute(&t, d, CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, 1, &s->dnn);
    set_desc(&t, d, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, config);
    finalize_desc(&t, d, "plan");
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
    cudnnBackendDescriptor_t d = make_desc(&t, CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
    set_attribute(&t, d, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, 3, ids);
    set_attribute(&t, d, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, 3, data);
    set_attribute(&t, d, CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, 1, &workspace);
    finalize_desc(&t, d, "pointers");
    if (t.status == CUDNN_STATUS_SUCCESS) t.status = s->libs.cudnnBackendExecute(s->dnn, plan, d);
    gf_cunn_set_free(&t);
    return t.status;
}

/* ----- keys and timing ----------------------------------------------------------------------------------------------- */

static size_t round_up(size_t bytes) { return (bytes + 255) / 256 * 256; }

static void replace_spaces(char *key) {
    for (char *at = key; *at; at++)
        if (*at == ' ') *at = '_';
}

/* Milliseconds of `runs` runs, which return 1 where they work; < 0: it does not work. */
static float time_runs(gf_nn_engine *s, int (*run)(gf_nn_engine *s, const void *trial), const void *trial, int runs) {
    cudaEvent_t from = NULL, to = NULL;
    float ms = -1.0f;
    int works = cudaEventCreate(&from) == cudaSuccess && cudaEventCreate(&to) == cudaSuccess;
    for (int i = 0; works && i <= runs; i++) { /* the first warms up */
        if (i == 1) works = cudaEventRecord(from, s->stream) == cudaSuccess;
        works = works && run(s, trial);
    }
    works = works && cudaEventRecord(to, s->stream) == cudaSuccess && cudaEventSynchronize(to) == cudaSuccess &&
            cudaEventElapsedTime(&ms, from, to) == cudaSuccess;
    if (from) cudaEventDestroy(from);
    if (to) cudaEventDestroy(to);
    return works ? ms : -1.0f;
}

/* ----- plans of convolutions ------------------------------------------------------------------------------------- */

/* The fastest of the plans that cuDNN proposes, found once per shape. See cunn_plan.h.
 *
 * Times vary from run to run, and different algorithms give different bits: so choices are saved, and a saved choice replaces
 * timing. With deterministic = 2 nothing is timed: the first of cuDNN's proposals that works is used. */

enum {
    PROPOSALS = 24, /* proposals considered, best first by cuDNN's own estimate */
    TIMED = 8,      /* of these timed: those that work in this mode */
    RUNS = 3
};
#define WORKSPACE_MAX ((size_t)512 << 20)

static void plan_key(const gf_nn_engine *s, const gf_cunn_task *t, char key[GF_CUNN_KEY]) {
    static const char *const works[GF_CUNN_WORKS] = {"forward", "back_data", "back_weights"};
    const gf_nn_shape *p = t->shape;
    snprintf(key, GF_CUNN_KEY, "%s/%s%s/n%lld/%lldx%lldx%lld/%lld/k%ds%dp%d/d%de%d/%s/cudnn%zu", works[t->work],
             p->type == GF_TYPE_BF16 ? "bf16" : "f32", t->narrow ? "n" : "", (long long)p->n, (long long)p->h, (long long)p->w,
             (long long)p->in, (long long)p->out, p->kernel, p->stride, p->pad, s->mode.deterministic, s->mode.exact, s->device,
             s->libs.cudnnGetVersion());
    replace_spaces(key);
}

typedef struct plan_trial { /* a plan and memory to run it on */
    cudnnBackendDescriptor_t plan;
    void *x, *w, *y, *workspace;
} plan_trial;

static int run_plan_trial(gf_nn_engine *s, const void *trial) {
    const plan_trial *m = trial;
    return gf_cunn_execute(s, m->plan, m->x, m->w, m->y, m->workspace) == CUDNN_STATUS_SUCCESS;
}

static float plan_time(gf_nn_engine *s, const gf_cunn_task *t, cudnnBackendDescriptor_t plan, size_t workspace) {
    const gf_nn_shape *p = t->shape;
    const int64_t oh = gf_nn_out(p->h, p->kernel, p->stride, p->pad), ow = gf_nn_out(p->w, p->kernel, p->stride, p->pad);
    const size_t each = gf_type_bytes[p->type], x = round_up((size_t)(p->n * p->h * p->w * p->in) * each);
    const size_t y = round_up((size_t)(p->n * oh * ow * p->out) * each);
    const size_t w = round_up((size_t)(p->out * p->in * p->kernel * p->kernel) * sizeof(float));
    char *base = workspace > WORKSPACE_MAX ? NULL : gf_cunn_trial(s, x + w + y + workspace);
    if (!base) return -1.0f;
    const plan_trial trial = {plan, base, base + x, base + x + w, base + x + w + y};
    return time_runs(s, run_plan_trial, &trial, RUNS);
}

/* ----- search ------------------------------------------------------------------------------------------------------ */

typedef struct plan_search {
    gf_nn_engine *engine;
    const gf_cunn_task *task;
    gf_cunn_plan *best;    /* plan NULL: none yet */
    gf_cunn_choice choice; /* of it */
    float ms;
} plan_search;

static void try_config(plan_search *f, cudnnBackendDescriptor_t config, int timed) {
    gf_nn_engine *s = f->engine;
    size_t workspace = 0;
    cudnnBackendDescriptor_t plan = gf_cunn_build(s, config, &workspace);
    if (!plan) return;
    const float ms = timed ? plan_time(s, f->task, plan, workspace) : 0.0f;
    if (ms < 0.0f || (f->best->plan && ms >= f->ms)) {
        s->libs.cudnnBackendDestroyDescriptor(plan);
        return;
    }
    if (f->best->plan) s->libs.cudnnBackendDestroyDescriptor(f->best->plan);
    f->best->plan = plan;
    f->best->workspace = workspace;
    f->ms = ms;
    if (timed && !gf_cunn_describe(s, config, &f->choice)) f->choice.engine = -1;
}

static void try_mode(plan_search *f, gf_cunn_set *t, cudnnBackendDescriptor_t graph, cudnnBackendHeurMode_t mode) {
    cudnnBackendDescriptor_t config[PROPOSALS];
    const int count = gf_cunn_proposals(t, graph, mode, config, PROPOSALS);
    const int untimed = f->engine->mode.deterministic == 2;
    for (int i = 0, tried = 0; i < count && tried < TIMED && !(untimed && f->best->plan); i++) {
        if (!gf_cunn_allowed(f->engine, config[i], f->task)) continue;
        try_config(f, config[i], 1);
        tried++;
    }
}

static void search_plans(plan_search *f, gf_cunn_set *t) {
    const cudnnBackendDescriptor_t graph = gf_cunn_graph(t, f->task);
    if (!graph) return;
    const gf_cunn_choice *known = gf_cunn_choice_find(f->engine, f->best->key);
    cudnnBackendDescriptor_t config = known ? gf_cunn_config(t, graph, known) : NULL;
    if (config) try_config(f, config, 0);
    t->status = CUDNN_STATUS_SUCCESS; /* the choice of a different version may no longer work */
    if (f->best->plan) return;
    try_mode(f, t, graph, CUDNN_HEUR_MODE_A);
    t->status = CUDNN_STATUS_SUCCESS;
    if (!f->best->plan) try_mode(f, t, graph, CUDNN_HEUR_MODE_FALLBACK);
    if (!f->best->plan || f->choice.engine < 0) return;
    memcpy(f->choice.key, f->best->key, sizeof f->choice.key);
    gf_cunn_choice_add(f->engine, &f->choice);
}

glofnd_status gf_cunn_plan_find(gf_error *err, gf_nn_engine *s, const gf_cunn_task *task, gf_cunn_plan **out) {
    char key[GF_CUNN_KEY];
    plan_key(s, task, key);
    for (gf_cunn_plan *p = s->plans; p; p = p->next)
        if (strcmp(p->key, key) == 0) {
            *out = p;
            return GLOFND_OK;
        }
    gf_cunn_plan *p = calloc(1, sizeof *p);
    gf_cunn_set *t = calloc(1, sizeof *t);
    if (!p || !t) {
        free(p), free(t);
        GF_FAIL(err, GLOFND_E_MEMORY, "out of memory");
    }
    memcpy(p->key, key, sizeof p->key);
    t->engine = s;
    plan_search f = {.engine = s, .task = task, .best = p};
    search_plans(&f, t);
    glofnd_status status = GLOFND_OK;
    const cudaError_t e = p->plan ? cudaSuccess : cudaStreamSynchronize(s->stream);
    if (e != cudaSuccess) status = gf_cuda_fail(err, e, "choice of an algorithm"); /* a lost device finds nothing */
    else if (!p->plan && t->status != CUDNN_STATUS_SUCCESS) status = gf_cunn_set_fail(err, t);
    else if (!p->plan)
        status = gf_fail(
            err, GLOFND_E_UNSUPPORTED,
            "cuDNN has no algorithm for %s, or too little memory is left to try one: use a smaller batch, or device = cpu", key);
    gf_cunn_set_free(t);
    free(t);
    if (status != GLOFND_OK) {
        free(p);
        return status;
    }
    p->next = s->plans;
    s->plans = p;
    *out = p;
    return GLOFND_OK;
}

void gf_cunn_plans_free(gf_nn_engine *s) {
    while (s->plans) {
        gf_cunn_plan *next = s->plans->next;
        s->libs.cudnnBackendDestroyDescriptor(s->plans->plan);
        free(s->plans);
        s->plans = next;
    }
}

glofnd_status gf_cunn_plan_run(gf_error *err, gf_nn_engine *s, const gf_cunn_plan *p, void *x, void *w, void *y,
                               void *workspace) {
    const cudnnStatus_t status = gf_cunn_execute(s, p->plan, x, w, y, workspace);
    FAIL_IF(err, status != CUDNN_STATUS_SUCCESS, GLOFND_E_DEVICE, "cuDNN %zu: %s failed: %s", s->libs.cudnnGetVersion(), p->key,
            s->libs.cudnnGetErrorString(status));
    return GLOFND_OK;
}

/* ----- matrix products ------------------------------------------------------------------------------------------- */

/* Products of cuBLASLt: the fastest of the algorithms that it proposes, found once per shape, as cunn_plan.c does for
 * convolutions. The choice, which is saved, is the place among the proposals. With deterministic = 2 the first one is used. */

enum { PRODUCT_PROPOSALS = 10, PRODUCT_RUNS = 5 };

static glofnd_status blas_fail(gf_error *err, cublasStatus_t status, const char *at) {
    GF_FAIL(err, GLOFND_E_DEVICE, "cuBLASLt: %s failed with status %d", at, (int)status);
}
#define BLAS_TRY(err, call, at)                                                           \
    do {                                                                                  \
        const cublasStatus_t blas_try_ = (call);                                          \
        if (blas_try_ != CUBLAS_STATUS_SUCCESS) return blas_fail((err), blas_try_, (at)); \
    } while (0)

static cublasStatus_t set_product(const gf_cunn_libs *l, const gf_cunn_gemm *g, cublasLtMatmulDescAttributes_t what,
                                  const void *value, size_t bytes) {
    return l->cublasLtMatmulDescSetAttribute(g->desc, what, value, bytes);
}

static cudaDataType_t data_type(gf_type type) { return type == GF_TYPE_BF16 ? CUDA_R_16BF : CUDA_R_32F; }

static glofnd_status make_layout(gf_error *err, const gf_cunn_libs *l, cublasLtMatrixLayout_t *out, gf_type type, int64_t rows,
                                 int64_t cols) {
    BLAS_TRY(err, l->cublasLtMatrixLayoutCreate(out, data_type(type), (uint64_t)rows, (uint64_t)cols, rows), "matrix layout");
    return GLOFND_OK;
}

/* ----- proposals --------------------------------------------------------------------------------------------------- */

/* Best first by cuBLASLt's own estimate; *count of them. */
static glofnd_status propose_products(gf_error *err, gf_nn_engine *s, const gf_cunn_gemm *g,
                                      cublasLtMatmulHeuristicResult_t found[PRODUCT_PROPOSALS], int *count) {
    const gf_cunn_libs *l = &s->libs;
    cublasLtMatmulPreference_t preference;
    BLAS_TRY(err, l->cublasLtMatmulPreferenceCreate(&preference), "preference");
    const size_t max = GF_CUNN_BLAS_WORKSPACE;
    const uint32_t align = GF_NN_ALIGN;
    const cublasLtMatmulPreferenceAttributes_t aligned[] = {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES,
                                                            CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
                                                            CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES,
                                                            CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES};
    cublasStatus_t status =
        l->cublasLtMatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &max, sizeof max);
    for (int i = 0; i < 4 && status == CUBLAS_STATUS_SUCCESS; i++)
        status = l->cublasLtMatmulPreferenceSetAttribute(preference, aligned[i], &align, sizeof align);
    if (status == CUBLAS_STATUS_SUCCESS)
        status = l->cublasLtMatmulAlgoGetHeuristic(s->blas, g->desc, g->a, g->b, g->c, g->c, preference, PRODUCT_PROPOSALS, found,
                                                   count);
    l->cublasLtMatmulPreferenceDestroy(preference);
    BLAS_TRY(err, status, "choice of an algorithm");
    FAIL_IF(err, *count < 1, GLOFND_E_UNSUPPORTED, "cuBLASLt has no algorithm for a linear layer of this shape");
    return GLOFND_OK;
}

/* ----- timing ------------------------------------------------------------------------------------------------------ */

typedef struct product_trial { /* a product and memory to run it on */
    const gf_cunn_gemm *g;
    const cublasLtMatmulAlgo_t *algo;
    void *a, *b, *c, *workspace;
} product_trial;

static int run_product_trial(gf_nn_engine *s, const void *trial) {
    const product_trial *m = trial;
    const gf_cunn_gemm *g = m->g;
    const float one = 1.0f, zero = 0.0f;
    return s->libs.cublasLtMatmul(s->blas, g->desc, &one, m->a, g->a, m->b, g->b, &zero, m->c, g->c, m->c, g->c, m->algo,
                                  m->workspace, GF_CUNN_BLAS_WORKSPACE, s->stream) == CUBLAS_STATUS_SUCCESS;
}

/* Place of the fastest; 0, the first, without memory or events for timing. */
static int fastest_product(gf_nn_engine *s, const gf_cunn_gemm *g, const gf_cunn_gemm_task *t,
                           const cublasLtMatmulHeuristicResult_t *found, int count) {
    const size_t each = gf_type_bytes[t->in], a = round_up(each * (size_t)(t->a.rows * t->a.cols));
    const size_t b = round_up(each * (size_t)(t->b.rows * t->b.cols)), c = round_up(sizeof(float) * (size_t)(t->rows * t->cols));
    char *base = gf_cunn_trial(s, a + b + c + GF_CUNN_BLAS_WORKSPACE);
    int best = 0;
    float least = -1.0f;
    if (!base) return 0;
    product_trial m = {g, NULL, base, base + a, base + a + b, base + a + b + c};
    if (t->bias && set_product(&s->libs, g, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &m.b, sizeof m.b) != CUBLAS_STATUS_SUCCESS)
        return 0;
    for (int i = 0; i < count; i++) {
        if (found[i].state != CUBLAS_STATUS_SUCCESS || found[i].workspaceSize > GF_CUNN_BLAS_WORKSPACE) continue;
        m.algo = &found[i].algo;
        const float ms = time_runs(s, run_product_trial, &m, PRODUCT_RUNS);
        if (ms < 0.0f || (least >= 0.0f && ms >= least)) continue;
        best = i, least = ms;
    }
    return best;
}

static glofnd_status choose_product(gf_error *err, gf_nn_engine *s, gf_cunn_gemm *g, const gf_cunn_gemm_task *t) {
    cublasLtMatmulHeuristicResult_t found[PRODUCT_PROPOSALS];
    gf_cunn_choice choice = {.engine = 0};
    int count = 0;
    TRY(propose_products(err, s, g, found, &count));
    snprintf(choice.key, GF_CUNN_KEY, "product/%s-%s/%lldx%lld%s/%lldx%lld%s%s/d%de%d/%s/cublaslt%zu",
             t->in == GF_TYPE_BF16 ? "bf16" : "f32", t->out == GF_TYPE_BF16 ? "bf16" : "f32", (long long)t->a.rows,
             (long long)t->a.cols, t->a.turned ? "t" : "", (long long)t->b.rows, (long long)t->b.cols, t->b.turned ? "t" : "",
             t->bias ? "/bias" : "", s->mode.deterministic, s->mode.exact, s->device, s->libs.cublasLtGetVersion());
    replace_spaces(choice.key);
    const gf_cunn_choice *known = s->mode.deterministic == 2 ? NULL : gf_cunn_choice_find(s, choice.key);
    if (known && known->engine < count && found[known->engine].state == CUBLAS_STATUS_SUCCESS) {
        g->algo = found[known->engine].algo;
        return GLOFND_OK;
    }
    if (s->mode.deterministic != 2 && count > 1) {
        choice.engine = fastest_product(s, g, t, found, count);
        gf_cunn_choice_add(s, &choice);
    }
    g->algo = found[choice.engine].algo;
    return GLOFND_OK;
}

glofnd_status gf_cunn_gemm_create(gf_error *err, gf_nn_engine *s, gf_cunn_gemm *g, gf_cunn_gemm_task t) {
    const gf_cunn_libs *l = &s->libs;
    const int rounded = t.in == GF_TYPE_F32 && !s->mode.exact;
    const cublasLtEpilogue_t end = t.bias ? CUBLASLT_EPILOGUE_BIAS : CUBLASLT_EPILOGUE_DEFAULT;
    const cublasOperation_t op[2] = {t.a.turned ? CUBLAS_OP_T : CUBLAS_OP_N, t.b.turned ? CUBLAS_OP_T : CUBLAS_OP_N};
    t.rows = t.a.turned ? t.a.cols : t.a.rows, t.cols = t.b.turned ? t.b.rows : t.b.cols;
    g->made = 1;
    BLAS_TRY(err, l->cublasLtMatmulDescCreate(&g->desc, rounded ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F, CUDA_R_32F),
             "product");
    BLAS_TRY(err, set_product(l, g, CUBLASLT_MATMUL_DESC_TRANSA, &op[0], sizeof op[0]), "product");
    BLAS_TRY(err, set_product(l, g, CUBLASLT_MATMUL_DESC_TRANSB, &op[1], sizeof op[1]), "product");
    BLAS_TRY(err, set_product(l, g, CUBLASLT_MATMUL_DESC_EPILOGUE, &end, sizeof end), "product");
    TRY(make_layout(err, l, &g->a, t.in, t.a.rows, t.a.cols));
    TRY(make_layout(err, l, &g->b, t.in, t.b.rows, t.b.cols));
    TRY(make_layout(err, l, &g->c, t.out, t.rows, t.cols));
    return choose_product(err, s, g, &t);
}

glofnd_status gf_cunn_gemm_bias(gf_error *err, gf_nn_engine *s, const gf_cunn_gemm *g, const void *bias) {
    BLAS_TRY(err, set_product(&s->libs, g, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &bias, sizeof bias), "bias");
    return GLOFND_OK;
}

glofnd_status gf_cunn_gemm_run(gf_error *err, gf_nn_engine *s, const gf_cunn_gemm *g, const void *a, const void *b,
                               const void *add, void *c, void *workspace) {
    const float one = 1.0f, beta = add ? 1.0f : 0.0f;
    BLAS_TRY(err,
             s->libs.cublasLtMatmul(s->blas, g->desc, &one, a, g->a, b, g->b, &beta, add ? add : c, g->c, c, g->c, &g->algo,
                                    workspace, GF_CUNN_BLAS_WORKSPACE, s->stream),
             "linear layer");
    return GLOFND_OK;
}

void gf_cunn_gemm_free(gf_nn_engine *s, gf_cunn_gemm *g) {
    const gf_cunn_libs *l = &s->libs;
    if (g->a) l->cublasLtMatrixLayoutDestroy(g->a);
    if (g->b) l->cublasLtMatrixLayoutDestroy(g->b);
    if (g->c) l->cublasLtMatrixLayoutDestroy(g->c);
    if (g->desc) l->cublasLtMatmulDescDestroy(g->desc);
}

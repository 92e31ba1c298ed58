/* cunn_plan.c - the fastest of the plans that cuDNN proposes, found once per shape. See cunn_plan.h.
 *
 * Times vary from run to run, and different algorithms give different bits: so choices are saved, and a saved choice replaces
 * timing. With deterministic = 2 nothing is timed: the first of cuDNN's proposals that works is used.
 */
#include "nn/cuda/cunn_plan.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    PROPOSALS = 24, /* proposals considered, best first by cuDNN's own estimate */
    TIMED = 8,      /* of these timed: those that work in this mode */
    RUNS = 3
};
#define WORKSPACE_MAX ((size_t)512 << 20)

/* ----- keys -------------------------------------------------------------------------------------------------------- */

static void key_of(const gf_nn_engine *s, const gf_cunn_task *t, char key[GF_CUNN_KEY]) {
    static const char *const works[GF_CUNN_WORKS] = {"forward", "back_data", "back_weights"};
    const gf_nn_shape *p = t->shape;
    snprintf(key, GF_CUNN_KEY, "%s/%s%s/n%lld/%lldx%lldx%lld/%lld/k%ds%dp%d/d%de%d/%s/cudnn%zu", works[t->work],
             p->type == GF_TYPE_BF16 ? "bf16" : "f32", t->narrow ? "n" : "", (long long)p->n, (long long)p->h, (long long)p->w,
             (long long)p->in, (long long)p->out, p->kernel, p->stride, p->pad, s->mode.deterministic, s->mode.exact, s->device,
             s->libs.cudnnGetVersion());
    for (char *at = key; *at; at++)
        if (*at == ' ') *at = '_';
}

/* ----- timing ------------------------------------------------------------------------------------------------------ */

typedef struct stage { /* memory to run a task on */
    void *x, *w, *y, *workspace;
} stage;

static size_t whole(size_t bytes) { return (bytes + 255) / 256 * 256; }

static int set_stage(gf_nn_engine *s, const gf_cunn_task *t, size_t workspace, stage *out) {
    const gf_nn_shape *p = t->shape;
    const int64_t oh = gf_nn_out(p->h, p->kernel, p->stride, p->pad), ow = gf_nn_out(p->w, p->kernel, p->stride, p->pad);
    const size_t each = gf_type_bytes(p->type), x = whole((size_t)(p->n * p->h * p->w * p->in) * each);
    const size_t y = whole((size_t)(p->n * oh * ow * p->out) * each);
    const size_t w = whole((size_t)(p->out * p->in * p->kernel * p->kernel) * sizeof(float));
    char *base = gf_cunn_trial(s, x + w + y + workspace);
    if (!base) return 0;
    *out = (stage){base, base + x, base + x + w, base + x + w + y};
    return 1;
}

/* Milliseconds of one run; < 0: it does not work. */
static float run_time(gf_nn_engine *s, cudnnBackendDescriptor_t plan, const stage *m, cudaEvent_t from, cudaEvent_t to) {
    float ms = -1.0f;
    for (int i = 0; i <= RUNS; i++) { /* the first warms up */
        if (i == 1 && cudaEventRecord(from, s->stream) != cudaSuccess) return -1.0f;
        if (gf_cunn_execute(s, plan, m->x, m->w, m->y, m->workspace) != CUDNN_STATUS_SUCCESS) return -1.0f;
    }
    if (cudaEventRecord(to, s->stream) != cudaSuccess || cudaEventSynchronize(to) != cudaSuccess) return -1.0f;
    if (cudaEventElapsedTime(&ms, from, to) != cudaSuccess) return -1.0f;
    return ms / RUNS;
}

static float plan_time(gf_nn_engine *s, const gf_cunn_task *t, cudnnBackendDescriptor_t plan, size_t workspace) {
    cudaEvent_t from = NULL, to = NULL;
    stage m;
    float ms = -1.0f;
    if (workspace > WORKSPACE_MAX || !set_stage(s, t, workspace, &m)) return ms;
    if (cudaEventCreate(&from) == cudaSuccess && cudaEventCreate(&to) == cudaSuccess) ms = run_time(s, plan, &m, from, to);
    if (from) cudaEventDestroy(from);
    if (to) cudaEventDestroy(to);
    return ms;
}

/* ----- search ------------------------------------------------------------------------------------------------------ */

typedef struct search {
    gf_nn_engine *engine;
    const gf_cunn_task *task;
    gf_cunn_plan *best;    /* plan NULL: none yet */
    gf_cunn_choice choice; /* of it */
    float ms;
} search;

static void try_config(search *f, cudnnBackendDescriptor_t config, int timed) {
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

static void try_mode(search *f, gf_cunn_set *t, cudnnBackendDescriptor_t graph, cudnnBackendHeurMode_t mode) {
    cudnnBackendDescriptor_t config[PROPOSALS];
    const int count = gf_cunn_proposals(t, graph, mode, config, PROPOSALS);
    const int untimed = f->engine->mode.deterministic == 2;
    for (int i = 0, tried = 0; i < count && tried < TIMED && !(untimed && f->best->plan); i++) {
        if (!gf_cunn_allowed(f->engine, config[i], f->task)) continue;
        try_config(f, config[i], 1);
        tried++;
    }
}

static void try_known(search *f, gf_cunn_set *t, cudnnBackendDescriptor_t graph) {
    const gf_cunn_choice *known = gf_cunn_choice_find(f->engine, f->best->key);
    cudnnBackendDescriptor_t config = known ? gf_cunn_config(t, graph, known) : NULL;
    if (config) try_config(f, config, 0);
    t->status = CUDNN_STATUS_SUCCESS; /* the choice of a different version may no longer work */
}

static void search_plans(search *f, gf_cunn_set *t) {
    const cudnnBackendDescriptor_t graph = gf_cunn_graph(t, f->task);
    if (!graph) return;
    try_known(f, t, graph);
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
    key_of(s, task, key);
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
    search f = {.engine = s, .task = task, .best = p};
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

/* cunn_optim.c - an optimizer's tables on the device; the work is in cunn_optim_kernels.cu. */
#include "nn/cuda/cunn_optim.h"

#include <stdlib.h>

struct gf_nn_optim {
    gf_nn_optim *next; /* list of the engine */
    gf_nn_engine *engine;
    gf_optim_rule rule;
    gf_cunn_steps steps;
    void *memory; /* all tables, one block */
};

static int64_t chunks_of(const gf_param *p) { return (int64_t)((p->n + GF_CUNN_CHUNK - 1) / GF_CUNN_CHUNK); }

/* The next array of the block; with base NULL only counts. */
static void *carve(char *base, size_t *at, size_t bytes) {
    void *p = base ? base + *at : NULL;
    *at += (bytes + 255) / 256 * 256;
    return p;
}

static size_t lay_out(gf_cunn_steps *t, char *base) {
    size_t at = 0;
    const size_t count = (size_t)t->count, chunks = (size_t)t->chunk_count;
    t->params = carve(base, &at, count * sizeof *t->params);
    t->first = carve(base, &at, (count + 1) * sizeof *t->first);
    t->chunks = carve(base, &at, chunks * sizeof *t->chunks);
    t->sums = carve(base, &at, chunks * 3 * sizeof *t->sums);
    t->ratio = carve(base, &at, count * sizeof *t->ratio);
    t->norm = carve(base, &at, sizeof *t->norm);
    t->now = carve(base, &at, sizeof *t->now);
    return at;
}

/* The tables on the host, in a block of the same layout. */
static void fill(gf_cunn_steps *t, const gf_param *list) {
    int at = 0;
    for (int k = 0; k < t->count; k++) {
        t->params[k] = list[k];
        t->first[k] = at;
        for (int64_t from = 0; from < (int64_t)list[k].n; from += GF_CUNN_CHUNK) t->chunks[at++] = (gf_cunn_chunk){k, from};
    }
    t->first[t->count] = at;
}

static glofnd_status make_tables(gf_error *err, gf_nn_optim *o, const gf_param *list, int count) {
    int64_t chunks = 0;
    for (int k = 0; k < count; k++) chunks += chunks_of(&list[k]);
    FAIL_IF(err, chunks < 1 || chunks > INT32_MAX, GLOFND_E_ARGUMENT, "an optimizer of %lld chunks", (long long)chunks);
    o->steps.count = count;
    o->steps.chunk_count = (int)chunks;
    gf_cunn_steps host = o->steps;
    const size_t bytes = lay_out(&host, NULL);
    char *block = calloc(1, bytes);
    FAIL_IF(err, !block, GLOFND_E_MEMORY, "no memory for an optimizer of %d tensors", count);
    lay_out(&host, block);
    fill(&host, list);
    cudaError_t e = cudaMalloc(&o->memory, bytes);
    if (e == cudaSuccess) e = cudaMemcpyAsync(o->memory, block, bytes, cudaMemcpyHostToDevice, o->engine->stream);
    if (e == cudaSuccess) e = cudaStreamSynchronize(o->engine->stream);
    free(block);
    if (e != cudaSuccess) return gf_cuda_fail(err, e, "tables of the optimizer");
    o->engine->tables += bytes;
    lay_out(&o->steps, o->memory);
    return GLOFND_OK;
}

glofnd_status gf_cunn_optim_create(gf_error *err, gf_nn_engine *s, const gf_optim_rule *rule, const gf_param *list, int count,
                                   gf_nn_optim **out) {
    gf_nn_optim *o = calloc(1, sizeof *o);
    FAIL_IF(err, !o, GLOFND_E_MEMORY, "no memory for an optimizer");
    *o = (gf_nn_optim){.next = s->optims, .engine = s, .rule = *rule};
    s->optims = o;
    TRY(make_tables(err, o, list, count));
    *out = o;
    return GLOFND_OK;
}

void gf_cunn_optim_free(gf_nn_optim *o) {
    while (o) {
        gf_nn_optim *next = o->next;
        cudaFree(o->memory);
        free(o);
        o = next;
    }
}

glofnd_status gf_cunn_optim_set(gf_error *err, gf_nn_optim *o, const gf_optim_scalars *now) {
    (void)err;
    gf_cunn_optim_now(o->engine, o->steps.now, *now);
    return GLOFND_OK;
}

glofnd_status gf_cunn_optim_step(gf_error *err, gf_nn_optim *o) {
    (void)err;
    gf_cunn_optim_run(o->engine, &o->steps, &o->rule);
    return GLOFND_OK;
}

glofnd_status gf_cunn_optim_norm(gf_error *err, gf_nn_optim *o, double *norm) {
    CUDA_TRY_AS(err, cudaMemcpyAsync(norm, o->steps.norm, sizeof *norm, cudaMemcpyDeviceToHost, o->engine->stream),
                "gradient norm");
    CUDA_TRY_AS(err, cudaStreamSynchronize(o->engine->stream), "gradient norm");
    return GLOFND_OK;
}

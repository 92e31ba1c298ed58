/* cluster_samples.c - IFND's groups: all samples are embedded as centre crops by the network as it is, and k-means divides them,
 * on every level. See sample_groups.h. */
#include <stdlib.h>
#include <string.h>

#include "kmeans/kmeans_cuda.h"
#include "loop/sample_groups.h"
#include "util/array.h"

typedef struct embedded { /* of all samples, in every rank */
    int64_t n, dim;
    float *x;     /* [ranks * share][dim] sample i of rank r is r + ranks * i */
    int32_t *row; /* [readable] rows of x, by sample */
    int64_t *id;  /* [readable] their samples */
    int64_t readable;
} embedded;

static int ranks_of(const gf_clustering *x) { return x->comm ? x->comm->ranks : 1; }
static int64_t share_of(const gf_clustering *x, int64_t n) { return (n + ranks_of(x) - 1) / ranks_of(x); }

/* ----- embeddings ----- */

/* The samples of this rank: own [share][dim], and marks [share] of those that were readable. */
static glofnd_status embed_own(gf_error *err, const gf_clustering *x, gf_loader *loader, float *own, uint8_t *readable) {
    const int rank = x->comm ? x->comm->rank : 0;
    gf_batch b;
    TRY(gf_loader_seek(err, loader, 0, 0));
    for (;;) {
        const float *out = NULL;
        TRY(gf_loader_next(err, loader, &b));
        if (b.n == 0) return GLOFND_OK;
        TRY(gf_net_forward(err, x->net, b.view[0], b.n, 0, NULL, &out));
        float *rows = malloc((size_t)(b.n * x->dim) * sizeof *rows);
        FAIL_IF(err, !rows, GLOFND_E_MEMORY, "no memory for a batch of embeddings");
        const glofnd_status status = gf_net_read(err, x->net, rows, out, (size_t)(b.n * x->dim) * sizeof *rows);
        for (int64_t i = 0; i < b.n && status == GLOFND_OK; i++) {
            const int64_t place = (b.id[i] - rank) / ranks_of(x);
            memcpy(own + place * x->dim, rows + i * x->dim, (size_t)x->dim * sizeof *own);
            readable[place] = 1;
        }
        free(rows);
        TRY(status);
    }
}

static glofnd_status embed_share(gf_error *err, const gf_clustering *x, int64_t n, float *own, uint8_t *readable) {
    const int64_t share = share_of(x, n);
    gf_loader_spec spec = x->loader;
    gf_loader *loader = NULL;
    int64_t *ids = malloc((size_t)share * sizeof *ids), count = 0;
    FAIL_IF(err, !ids, GLOFND_E_MEMORY, "no memory for a list of %lld samples", (long long)share);
    for (int64_t i = x->comm ? x->comm->rank : 0; i < n; i += ranks_of(x)) ids[count++] = i;
    spec.data = x->data, spec.ids = ids, spec.id_count = count, spec.batch = GF_MIN(x->batch, GF_MAX(count, 1));
    glofnd_status status = count > 0 ? gf_loader_create(err, &spec, &loader) : GLOFND_OK;
    if (status == GLOFND_OK && count > 0) status = embed_own(err, x, loader, own, readable);
    gf_loader_free(loader);
    free(ids);
    return status;
}

/* Samples without an embedding are left out of `row`. */
static void list_readable(const gf_clustering *x, const uint8_t *readable, embedded *e) {
    const int ranks = ranks_of(x);
    const int64_t share = share_of(x, e->n);
    for (int64_t i = 0; i < e->n; i++) {
        const int64_t at = i % ranks * share + i / ranks;
        if (!readable[at]) continue;
        e->row[e->readable] = (int32_t)at;
        e->id[e->readable++] = i;
    }
}

static glofnd_status gather_all(gf_error *err, const gf_clustering *x, embedded *e, float *own, uint8_t *mark, uint8_t *marks) {
    const int64_t share = share_of(x, e->n);
    TRY(embed_share(err, x, e->n, own, mark));
    if (!x->comm) return GLOFND_OK;
    TRY(gf_comm_gather(err, x->comm, own, (size_t)(share * e->dim) * sizeof *own, e->x));
    return gf_comm_gather(err, x->comm, mark, (size_t)share, marks);
}

static glofnd_status embed_all(gf_error *err, const gf_clustering *x, embedded *e) {
    const int64_t share = share_of(x, e->n), all = share * ranks_of(x);
    float *own = x->comm ? calloc((size_t)(share * e->dim), sizeof *own) : NULL;
    uint8_t *marks = calloc((size_t)(all + share), 1);
    e->x = calloc((size_t)(all * e->dim), sizeof *e->x);
    e->row = malloc((size_t)e->n * sizeof *e->row);
    e->id = malloc((size_t)e->n * sizeof *e->id);
    const int complete = (own || !x->comm) && marks && e->x && e->row && e->id;
    glofnd_status status =
        complete ? GLOFND_OK : gf_fail(err, GLOFND_E_MEMORY, "no memory for the embeddings of %lld samples", (long long)e->n);
    if (status == GLOFND_OK) status = gather_all(err, x, e, own ? own : e->x, x->comm ? marks + all : marks, marks);
    if (status == GLOFND_OK) list_readable(x, marks, e);
    free(own);
    free(marks);
    return status;
}

static void embedded_free(embedded *e) {
    free(e->x);
    free(e->row);
    free(e->id);
}

/* ----- groups ----- */

/* IFND: linearly, all samples in the last epoch. */
static double accepted_share(const gf_clustering *x) {
    const double share = x->config->kmeans_accept, grown = (double)(x->epoch + 1) / (double)x->config->epochs;
    return share >= 0.0 ? share : GF_MIN(1.0, grown);
}

/* On the device of the networks, or on the CPU if the GPU has too little memory beside them. The groups are the same. */
static glofnd_status run_kmeans(gf_error *err, const gf_config *c, const gf_kmeans *k, const gf_vectors *v, int32_t *of,
                                float *confidence) {
    const gf_sweep_job job = {.threads = c->method.threads};
    glofnd_status status = GLOFND_E_MEMORY;
    if (c->method.device == GLOFND_DEVICE_CUDA) status = gf_kmeans_cuda(err, k, v, of, confidence);
    return status == GLOFND_E_MEMORY ? gf_kmeans_run(err, k, v, &job, of, confidence) : status;
}

/* The groups of one level, for the readable samples. */
static glofnd_status divide(gf_error *err, const gf_clustering *x, const embedded *e, int64_t groups, int level, int32_t *of,
                            float *confidence) {
    const gf_config *c = x->config;
    const gf_vectors v = {.x = e->x, .row = e->row, .n = e->readable, .dim = e->dim};
    const gf_kmeans k = {
        .groups = GF_MIN(groups, e->readable),
        .iterations = c->kmeans_iterations,
        .seed = (uint64_t)c->seed + ((uint64_t)(x->epoch + 1) << 32) + (uint64_t)level,
        .tau = c->method.tau,
    };
    TRY(run_kmeans(err, c, &k, &v, of, confidence));
    return gf_kmeans_accept(err, confidence, e->readable, (int64_t)(accepted_share(x) * (double)e->readable + 1e-9), of);
}

static glofnd_status divide_levels(gf_error *err, gf_sample_groups *g, const gf_clustering *x, const embedded *e, int32_t *of,
                                   float *confidence) {
    int32_t counts[GF_GROUP_LEVELS];
    int levels = 0;
    TRY(gf_config_group_counts(err, x->config, counts, &levels));
    FAIL_IF(err, e->readable < 1, GLOFND_E_FORMAT, "k-means: no sample is readable");
    for (int64_t i = 0; i < g->levels * g->n; i++) g->of[i] = -1;
    for (int level = 0; level < levels; level++) {
        TRY(divide(err, x, e, counts[level], level, of, confidence));
        for (int64_t i = 0; i < e->readable; i++) g->of[level * g->n + e->id[i]] = of[i];
    }
    return GLOFND_OK;
}

/* Machines of different kinds may round differently: the first rank's groups count. */
static glofnd_status take_first(gf_error *err, gf_sample_groups *g, gf_comm *comm) {
    const size_t bytes = (size_t)g->levels * (size_t)g->n * sizeof *g->of;
    int32_t *all = malloc(bytes * (size_t)comm->ranks);
    FAIL_IF(err, !all, GLOFND_E_MEMORY, "no memory for the groups of %lld samples", (long long)g->n);
    const glofnd_status status = gf_comm_gather(err, comm, g->of, bytes, all);
    if (status == GLOFND_OK) memcpy(g->of, all, bytes);
    free(all);
    return status;
}

glofnd_status gf_sample_groups_cluster(gf_error *err, gf_sample_groups *g, const gf_clustering *x) {
    embedded e = {.n = g->n, .dim = x->dim};
    int32_t *of = malloc((size_t)g->n * sizeof *of);
    float *confidence = malloc((size_t)g->n * sizeof *confidence);
    glofnd_status status = of && confidence
                               ? embed_all(err, x, &e)
                               : gf_fail(err, GLOFND_E_MEMORY, "no memory for the groups of %lld samples", (long long)g->n);
    if (status == GLOFND_OK) status = divide_levels(err, g, x, &e, of, confidence);
    if (status == GLOFND_OK && x->comm) status = take_first(err, g, x->comm);
    g->made = status == GLOFND_OK;
    embedded_free(&e);
    free(of);
    free(confidence);
    return status;
}

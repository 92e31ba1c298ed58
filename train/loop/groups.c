/* groups.c - see groups.h. */
#include "loop/groups.h"

#include <stdlib.h>
#include <string.h>

#include "io/npy.h"
#include "pairs/kmeans.h"
#include "util/array.h"
#include "util/text.h"

/* ----- a file of ids -----
 *
 * Ids of samples from a file: .npy, or text. See sample_groups.h. */

static glofnd_status take_group_id(gf_error *err, const char *path, int64_t line, int64_t id, int32_t *out) {
    FAIL_IF(err, id < INT32_MIN || id > INT32_MAX, GLOFND_E_FORMAT, "%s: id %lld of sample %lld does not fit 32 bits", path,
            (long long)id, (long long)line);
    *out = (int32_t)id;
    return GLOFND_OK;
}

static glofnd_status check_id_count(gf_error *err, const char *path, int64_t found, int64_t n) {
    FAIL_IF(err, found != n, GLOFND_E_OPTION,
            "groups: %s has %lld ids, and the data has %lld samples; it needs one for each, in "
            "their order",
            path, (long long)found, (long long)n);
    return GLOFND_OK;
}

typedef struct group_ids {
    const char *path;
    int32_t *of; /* [n] */
    int64_t n;
} group_ids;

static glofnd_status take_id_array(gf_error *err, void *user, const gf_npy *a) {
    const group_ids *x = user;
    const int integers = a->type == GF_NPY_I4 || a->type == GF_NPY_I8 || a->type == GF_NPY_U1;
    FAIL_IF(err, !integers || a->rank != 1, GLOFND_E_FORMAT, "%s: %s of rank %d; expected int32 or int64 of rank 1", x->path,
            gf_npy_type_name(a->type), a->rank);
    TRY(check_id_count(err, x->path, a->count, x->n));
    for (int64_t i = 0; i < x->n; i++) TRY(take_group_id(err, x->path, i, gf_npy_i64(a, i), &x->of[i]));
    return GLOFND_OK;
}

static glofnd_status take_id_line(gf_error *err, void *user, const char *text, int64_t row) {
    const group_ids *x = user;
    int64_t id = 0;
    const char *why = gf_integer_read(text, &id);
    FAIL_IF(err, why, GLOFND_E_FORMAT, "%s:%lld: \"%.40s\" %s; expected an integer per line", x->path, (long long)row + 1, text,
            why);
    return row < x->n ? take_group_id(err, x->path, row, id, &x->of[row]) : GLOFND_OK;
}

/* ----- the groups of a run ----- */

glofnd_status gf_sample_groups_open(gf_error *err, gf_sample_groups *g, const gf_config *c, int64_t n) {
    int32_t counts[GF_GROUP_LEVELS];
    int levels = 1;
    if (c->method.detector != GLOFND_DETECT_GROUPS || !*c->groups) return GLOFND_OK;
    if (gf_config_clusters(c)) {
        TRY(gf_config_group_counts(err, c, counts, &levels));
        for (int i = 0; i < levels; i++)
            FAIL_IF(err, counts[i] > n, GLOFND_E_OPTION, "kmeans_groups: %d groups of %lld samples; give fewer", (int)counts[i],
                    (long long)n);
    }
    *g = (gf_sample_groups){.n = n, .levels = levels};
    g->of = malloc((size_t)levels * (size_t)n * sizeof *g->of);
    FAIL_IF(err, !g->of, GLOFND_E_MEMORY, "no memory for the groups of %lld samples", (long long)n);
    if (gf_config_clusters(c)) return GLOFND_OK;
    /* Ids of n samples: an .npy of n integers, or a text of n lines with an integer each. E_FORMAT names file and line. */
    const char *path = c->groups;
    group_ids x = {path, g->of, n};
    const gf_row_values v = {.path = path, .array = take_id_array, .line = take_id_line, .user = &x};
    int64_t found = 0;
    TRY(gf_row_values_read(err, &v, &found));
    TRY(check_id_count(err, path, found, n));
    g->made = 1;
    return GLOFND_OK;
}

void gf_sample_groups_free(gf_sample_groups *g) {
    free(g->of);
    *g = (gf_sample_groups){0};
}

const int32_t *gf_sample_groups_at(const gf_sample_groups *g, int64_t step) { return g->of + step % g->levels * g->n; }

uint64_t gf_sample_groups_hash(const gf_sample_groups *g) {
    uint64_t h = 0xcbf29ce484222325u;
    for (int64_t i = 0; g->made && i < g->levels * g->n; i++) h = (h ^ (uint32_t)g->of[i]) * 0x100000001b3u;
    return h;
}

/* ----- checkpoints ----- */

glofnd_status gf_sample_groups_save(gf_error *err, const gf_sample_groups *g, const char *path) {
    const gf_npy a = {.type = GF_NPY_I4, .rank = 2, .shape = {g->levels, g->n}, .data = g->of};
    return gf_npy_write(err, path, &a);
}

glofnd_status gf_sample_groups_load(gf_error *err, gf_sample_groups *g, const char *path) {
    gf_npy a = {0};
    TRY(gf_npy_read(err, path, &a));
    const int fits = a.type == GF_NPY_I4 && a.rank == 2 && a.shape[0] == g->levels && a.shape[1] == g->n;
    if (fits) memcpy(g->of, a.data, (size_t)a.count * sizeof *g->of);
    g->made = fits;
    gf_npy_free(&a);
    return GLOFND_OK;
}

/* ----- k-means -----
 *
 * IFND's groups: all samples are embedded as centre crops by the network as it is, and k-means divides them, on every level. */

typedef struct embedded { /* of all samples, in every rank */
    int64_t n, dim;
    float *x;     /* [ranks * share][dim] sample i of rank r is r + ranks * i */
    int32_t *row; /* [readable] rows of x, by sample */
    int64_t *id;  /* [readable] their samples */
    int64_t readable;
} embedded;

static int ranks_of(const gf_clustering *x) { return x->comm ? x->comm->ranks : 1; }
static int64_t share_of(const gf_clustering *x, int64_t n) { return (n + ranks_of(x) - 1) / ranks_of(x); }

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

static glofnd_status gather_embeddings(gf_error *err, const gf_clustering *x, embedded *e, float *own, uint8_t *mark,
                                       uint8_t *marks) {
    const int64_t share = share_of(x, e->n);
    gf_loader_spec spec = x->loader;
    gf_loader *loader = NULL;
    int64_t *ids = malloc((size_t)share * sizeof *ids), count = 0;
    FAIL_IF(err, !ids, GLOFND_E_MEMORY, "no memory for a list of %lld samples", (long long)share);
    for (int64_t i = x->comm ? x->comm->rank : 0; i < e->n; i += ranks_of(x)) ids[count++] = i;
    spec.data = x->data, spec.ids = ids, spec.id_count = count, spec.batch = GF_MIN(x->batch, GF_MAX(count, 1));
    glofnd_status status = count > 0 ? gf_loader_create(err, &spec, &loader) : GLOFND_OK;
    if (status == GLOFND_OK && count > 0) status = embed_own(err, x, loader, own, mark);
    gf_loader_free(loader);
    free(ids);
    TRY(status);
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
    if (status == GLOFND_OK) status = gather_embeddings(err, x, e, own ? own : e->x, x->comm ? marks + all : marks, marks);
    if (status == GLOFND_OK) {
        /* Samples without an embedding are left out of `row`. */
        const int ranks = ranks_of(x);
        for (int64_t i = 0; i < e->n; i++) {
            const int64_t at = i % ranks * share + i / ranks;
            if (!marks[at]) continue;
            e->row[e->readable] = (int32_t)at;
            e->id[e->readable++] = i;
        }
    }
    free(own);
    free(marks);
    return status;
}

/* ----- k-means: groups ----- */

static glofnd_status divide_levels(gf_error *err, gf_sample_groups *g, const gf_clustering *x, const embedded *e, int32_t *of,
                                   float *confidence) {
    int32_t counts[GF_GROUP_LEVELS];
    int levels = 0;
    TRY(gf_config_group_counts(err, x->config, counts, &levels));
    FAIL_IF(err, e->readable < 1, GLOFND_E_FORMAT, "k-means: no sample is readable");
    for (int64_t i = 0; i < g->levels * g->n; i++) g->of[i] = -1;
    for (int level = 0; level < levels; level++) {
        /* The groups of one level, for the readable samples. */
        const gf_config *c = x->config;
        const gf_vectors v = {.x = e->x, .row = e->row, .n = e->readable, .dim = e->dim};
        const gf_kmeans k = {
            .groups = GF_MIN(counts[level], e->readable),
            .iterations = c->kmeans_iterations,
            .seed = (uint64_t)c->seed + ((uint64_t)(x->epoch + 1) << 32) + (uint64_t)level,
            .tau = c->method.tau,
        };
        const gf_sweep_job job = {.threads = c->method.threads};
        TRY(gf_kmeans_run(err, &k, &v, &job, of, confidence));
        /* IFND: linearly, all samples in the last epoch. */
        const double share = x->config->kmeans_accept, grown = (double)(x->epoch + 1) / (double)x->config->epochs;
        TRY(gf_kmeans_accept(err, confidence, e->readable,
                             (int64_t)((share >= 0.0 ? share : GF_MIN(1.0, grown)) * (double)e->readable + 1e-9), of));
        for (int64_t i = 0; i < e->readable; i++) g->of[level * g->n + e->id[i]] = of[i];
    }
    return GLOFND_OK;
}

/* Machines of different kinds may round differently: the first rank's groups count. */
static glofnd_status take_groups_of_first(gf_error *err, gf_sample_groups *g, gf_comm *comm) {
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
    if (status == GLOFND_OK && x->comm) status = take_groups_of_first(err, g, x->comm);
    g->made = status == GLOFND_OK;
    free(e.x);
    free(e.row);
    free(e.id);
    free(of);
    free(confidence);
    return status;
}

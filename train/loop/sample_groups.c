/* sample_groups.c - see sample_groups.h. */
#include "loop/sample_groups.h"

#include <stdlib.h>
#include <string.h>

#include "io/npy.h"

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
    TRY(gf_group_file_read(err, c->groups, g->of, n));
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

/* ----- checkpoint ----- */

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

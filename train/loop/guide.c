/* guide.c - see guide.h. */
#include "loop/guide.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "io/npy.h"
#include "util/text.h"

enum { DIM_MAX = 65536, ANCHOR_COLUMNS = 8 }; /* anchors.npy of discover: the threshold is the first of 8 columns */

static glofnd_status check_rows(gf_error *err, const char *key, const char *path, const gf_npy *a, int64_t n) {
    const int real = a->type == GF_NPY_F4 || a->type == GF_NPY_F8 || a->type == GF_NPY_F2;
    FAIL_IF(err, !real, GLOFND_E_FORMAT, "%s: %s has %s; expected float32, float64 or float16", key, path,
            gf_npy_type_name(a->type));
    FAIL_IF(err, a->rank >= 1 && a->shape[0] != n, GLOFND_E_OPTION,
            "%s: %s has %lld rows, and the data has %lld samples; it needs one for each, in their order", key, path,
            (long long)a->shape[0], (long long)n);
    return GLOFND_OK;
}

static glofnd_status take_embeddings(gf_error *err, gf_guide *g, const char *path, const gf_npy *a) {
    TRY(check_rows(err, "guide", path, a, g->n));
    FAIL_IF(err, a->rank != 2 || a->shape[1] < 1 || a->shape[1] > DIM_MAX, GLOFND_E_FORMAT,
            "guide: %s is of rank %d; expected embeddings [samples][1 to %d numbers]", path, a->rank, DIM_MAX);
    g->dim = a->shape[1];
    g->x = malloc((size_t)a->count * sizeof *g->x);
    FAIL_IF(err, !g->x, GLOFND_E_MEMORY, "no memory for the guide's embeddings of %lld samples", (long long)g->n);
    for (int64_t i = 0; i < g->n; i++) {
        double squares = 0.0;
        for (int64_t k = i * g->dim; k < (i + 1) * g->dim; k++) {
            g->x[k] = (float)gf_npy_f64(a, k);
            squares += (double)g->x[k] * (double)g->x[k];
        }
        FAIL_IF(err, !isfinite(squares), GLOFND_E_FORMAT, "guide: %s: row %lld is not finite", path, (long long)i);
        FAIL_IF(err, squares == 0.0, GLOFND_E_FORMAT, "guide: %s: row %lld is zero, which has no direction", path, (long long)i);
    }
    return GLOFND_OK;
}

static glofnd_status take_thresholds(gf_error *err, gf_guide *g, const char *path, const gf_npy *a) {
    TRY(check_rows(err, "guide_thresholds", path, a, g->n));
    const int anchors = a->rank == 2 && a->shape[1] == ANCHOR_COLUMNS;
    FAIL_IF(err, a->rank != 1 && !anchors, GLOFND_E_FORMAT,
            "guide_thresholds: %s is of rank %d; expected a threshold per sample, or anchors.npy of `glofnd discover`", path,
            a->rank);
    g->threshold = malloc((size_t)g->n * sizeof *g->threshold);
    FAIL_IF(err, !g->threshold, GLOFND_E_MEMORY, "no memory for the guide's thresholds of %lld samples", (long long)g->n);
    for (int64_t i = 0; i < g->n; i++) {
        const float t = (float)gf_npy_f64(a, anchors ? i * ANCHOR_COLUMNS : i);
        FAIL_IF(err, isinf(t), GLOFND_E_FORMAT, "guide_thresholds: %s: that of sample %lld is infinite; NaN flags nothing", path,
                (long long)i);
        g->threshold[i] = t;
    }
    return GLOFND_OK;
}

glofnd_status gf_guide_open(gf_error *err, gf_guide *g, const gf_config *c, int64_t n) {
    gf_npy a = {0};
    if (!gf_flags_by_guide(&c->method)) return GLOFND_OK;
    *g = (gf_guide){.n = n};
    TRY(gf_npy_read(err, c->guide, &a));
    glofnd_status status = take_embeddings(err, g, c->guide, &a);
    gf_npy_free(&a);
    TRY(status);
    TRY(gf_npy_read(err, c->guide_thresholds, &a));
    status = take_thresholds(err, g, c->guide_thresholds, &a);
    gf_npy_free(&a);
    return status;
}

void gf_guide_free(gf_guide *g) {
    free(g->x);
    free(g->threshold);
    *g = (gf_guide){0};
}

static uint64_t hash_floats(uint64_t h, const float *x, int64_t n) {
    for (int64_t i = 0; i < n; i++) {
        uint32_t bits;
        memcpy(&bits, &x[i], sizeof bits);
        h = (h ^ bits) * 0x100000001b3u;
    }
    return h;
}

uint64_t gf_guide_hash(const gf_guide *g) {
    const uint64_t h = hash_floats(0xcbf29ce484222325u, g->x, g->n * g->dim);
    return hash_floats(h, g->threshold, g->n);
}

void gf_guide_gather(const gf_guide *g, const int64_t *id, int64_t n, float *x, float *threshold) {
    for (int64_t i = 0; i < n; i++) {
        memcpy(x + i * g->dim, g->x + id[i] * g->dim, (size_t)g->dim * sizeof *x);
        threshold[i] = g->threshold[id[i]];
    }
}

/* stored_discovery.c - reads a stored result of discovery; see embedding_files.h. */
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "data/embedding_files.h"
#include "io/jsonl.h"
#include "io/npy.h"

static glofnd_status check_stored(gf_error *err, const char *folder, const gf_discover_data *d, gf_discover_spec *s) {
    char path[PATH_MAX];
    gf_jsonl_reader r;
    int64_t crc = -1, k = 0;
    double alpha = NAN, dup = NAN;
    snprintf(path, sizeof path, "%s/" GF_DISCOVER_MARK, folder);
    TRY(gf_jsonl_read_open(err, &r, path));
    const int found = gf_jsonl_next(&r) && gf_jsonl_get_integer(&r, "crc32c", &crc) && gf_jsonl_get_integer(&r, "k", &k) &&
                      gf_jsonl_get(&r, "alpha", &alpha) && gf_jsonl_get(&r, "dup", &dup);
    const glofnd_status status = r.status;
    const int of_query = found && gf_jsonl_get_text(&r, "query") != NULL;
    gf_jsonl_read_close(&r);
    TRY(status);
    FAIL_IF(err, !found || k < 0, GLOFND_E_FORMAT, "'%.300s' is not the summary of a discovery", path);
    FAIL_IF(err, of_query, GLOFND_E_ARGUMENT, "'%.300s' is the result of a --query; --stored needs the result of EMB", folder);
    FAIL_IF(err, crc != (int64_t)d->crc, GLOFND_E_ARGUMENT, "'%.300s' is the result of different embeddings", folder);
    if (s->alpha == 0.0 && s->k == 0) s->k = k, s->alpha = alpha;
    if (isnan(s->dup)) s->dup = isnan(dup) ? GF_DUP_EXACT : dup;
    return GLOFND_OK;
}

static glofnd_status read_thresholds(gf_error *err, const char *path, const gf_npy *a, int64_t n, float **lambda) {
    FAIL_IF(err, a->type != GF_NPY_F8 || a->rank != 2 || a->shape[0] != n || a->shape[1] < 1, GLOFND_E_FORMAT,
            "'%.300s' is not a table of %lld anchors", path, (long long)n);
    *lambda = malloc((size_t)n * sizeof **lambda);
    FAIL_IF(err, !*lambda, GLOFND_E_MEMORY, "no memory for %lld thresholds", (long long)n);
    for (int64_t i = 0; i < n; i++) (*lambda)[i] = (float)gf_npy_f64(a, i * a->shape[1]);
    return GLOFND_OK;
}

glofnd_status gf_discover_read_stored(gf_error *err, const char *folder, const gf_discover_data *d, gf_discover_spec *s,
                                      float **lambda) {
    char path[PATH_MAX];
    gf_npy a = {0};
    const int bytes = snprintf(path, sizeof path, "%s/anchors.npy", folder);
    FAIL_IF(err, bytes < 0 || (size_t)bytes >= sizeof path, GLOFND_E_ARGUMENT, "the path of the stored result is too long");
    TRY(check_stored(err, folder, d, s));
    TRY(gf_npy_read(err, path, &a));
    const glofnd_status status = read_thresholds(err, path, &a, d->n, lambda);
    gf_npy_free(&a);
    return status;
}

/* eval_files.c - see eval_files.h. */
#include "programs/eval/eval_files.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "data/dataset.h"
#include "embeddings/row_labels.h"
#include "io/npy.h"
#include "util/array.h"
#include "util/parallel.h"
#include "util/rng.h"

int eval_is_file(const char *word) {
    struct stat st;
    return stat(word, &st) == 0 && S_ISREG(st.st_mode);
}

int eval_files_check(const cli_call *call, const eval_files *f, const char *data, const device_flags *device, int untrained) {
    const char *word = call->word[0];
    const char *given = f->labels ? "labels" : f->test_labels ? "test-labels" : f->thresholds ? "thresholds" : NULL;
    if (!eval_is_file(word) && given)
        return cli_misused(call, "--%s goes with a file of embeddings, and %s %s", given, word,
                           access(word, F_OK) == 0 ? "is none" : "does not exist");
    if (!eval_is_file(word)) return CLI_OK;
    if (data) return cli_misused(call, "--data goes with a run; %s is a file of embeddings", word);
    if (untrained) return cli_misused(call, "--untrained goes with a run; %s is a file of embeddings", word);
    if (device->device) return cli_misused(call, "--device goes with the encoder of a run; %s is a file of embeddings", word);
    return CLI_OK;
}

/* ----- reading ----- */

static glofnd_status read_rows(gf_error *err, const char *path, const char *labels, gf_features *d) {
    gf_string_list classes = {0}; /* an array of labels names none */
    TRY(gf_embeddings_load(err, path, NULL, &d->n, &d->dim, &d->x));
    if (labels) TRY(gf_row_labels_read(err, labels, NULL, d->n, &d->label, &classes));
    for (int64_t i = 0; i < d->n; i++)
        for (int64_t k = 0; k < d->dim; k++)
            FAIL_IF(err, !isfinite(d->x[i * d->dim + k]), GLOFND_E_NUMERIC, "%.300s: row %lld is not finite", path, (long long)i);
    return GLOFND_OK;
}

/* Only rows with a label. */
static void keep_labelled(gf_features *d) {
    int64_t rows = 0;
    for (int64_t i = 0; i < d->n; i++) {
        if (d->label[i] < 0) continue;
        memmove(d->x + rows * d->dim, d->x + i * d->dim, (size_t)d->dim * sizeof *d->x);
        d->label[rows++] = d->label[i];
    }
    d->n = rows;
}

/* Classifiers take memory for every label up to the largest one. */
static glofnd_status check_labels(gf_error *err, const char *path, const gf_features *d) {
    for (int64_t i = 0; i < d->n; i++)
        FAIL_IF(err, d->label[i] >= GF_CLASSES_MAX, GLOFND_E_FORMAT,
                "%.300s: label %d of row %lld; expected less than %d: number the classes 0, 1, 2 ...", path, (int)d->label[i],
                (long long)i, GF_CLASSES_MAX);
    return GLOFND_OK;
}

static glofnd_status read_features(gf_error *err, const char *path, const char *labels, gf_features *out) {
    gf_features d = {0};
    glofnd_status status = read_rows(err, path, labels, &d);
    if (status == GLOFND_OK) status = check_labels(err, labels, &d);
    if (status != GLOFND_OK) {
        gf_features_free(&d);
        return status;
    }
    keep_labelled(&d);
    *out = d;
    FAIL_IF(err, out->n == 0, GLOFND_E_ARGUMENT, "%.300s: no row has a label", labels);
    return GLOFND_OK;
}

/* ----- training and test rows ----- */

/* A class that no training row has cannot be predicted. */
static glofnd_status check_test(gf_error *err, const gf_features *train, const gf_features *test) {
    const int32_t classes = gf_features_classes(train);
    uint8_t *seen = calloc((size_t)classes, 1);
    int32_t missing = -1;
    FAIL_IF(err, !seen, GLOFND_E_MEMORY, "no memory for %d classes", (int)classes);
    for (int64_t i = 0; i < train->n; i++) seen[train->label[i]] = 1;
    for (int64_t i = 0; i < test->n && missing < 0; i++)
        if (test->label[i] >= classes || !seen[test->label[i]]) missing = test->label[i];
    free(seen);
    FAIL_IF(err, missing >= 0, GLOFND_E_ARGUMENT, "class %d of the test rows has no training row", (int)missing);
    return GLOFND_OK;
}

glofnd_status eval_files_split(gf_error *err, eval_samples *s, const eval_files *f, gf_features *train, gf_features *test) {
    const char *path = s->run, *other = s->test;
    FAIL_IF(err, !f->labels, GLOFND_E_OPTION, "--labels is missing: the classes of the rows of %.300s", path);
    FAIL_IF(err, !other != !f->test_labels, GLOFND_E_OPTION, "--test FILE and --test-labels FILE belong together");
    s->data = path;
    s->threads = s->where.threads > 0 ? s->where.threads : gf_parallel_default();
    snprintf(s->test_name, sizeof s->test_name, "%s", other ? other : "");
    TRY(read_features(err, path, f->labels, train));
    if (!other) return gf_features_hold_out(err, train, EVAL_HELD_OUT, EVAL_FILE_SEED, test);
    TRY(read_features(err, other, f->test_labels, test));
    FAIL_IF(err, train->dim != test->dim, GLOFND_E_ARGUMENT,
            "%.200s has %lld numbers per row, %.200s has %lld: they must be of one model", path, (long long)train->dim, other,
            (long long)test->dim);
    return check_test(err, train, test);
}

/* ----- all rows ----- */

static glofnd_status read_thresholds(gf_error *err, const char *path, int64_t n, float **out) {
    gf_npy a = {0};
    *out = malloc((size_t)n * sizeof **out + 1);
    FAIL_IF(err, !*out, GLOFND_E_MEMORY, "no memory for %lld thresholds", (long long)n);
    TRY(gf_npy_read(err, path, &a));
    const int fits = a.rank == 1 && a.count == n && (a.type == GF_NPY_F4 || a.type == GF_NPY_F8);
    for (int64_t i = 0; fits && i < n; i++) (*out)[i] = (float)gf_npy_f64(&a, gf_permute(EVAL_FILE_SEED, 0, n, i));
    gf_npy_free(&a);
    FAIL_IF(err, !fits, GLOFND_E_FORMAT, "%.300s must be float32 or float64 [%lld]: a threshold for each row", path,
            (long long)n);
    return GLOFND_OK;
}

static glofnd_status shuffle(gf_error *err, const gf_features *d, gf_view_set *out) {
    *out = (gf_view_set){.n = d->n, .dim = d->dim};
    out->z = malloc((size_t)d->n * (size_t)d->dim * sizeof *out->z);
    out->id = malloc((size_t)d->n * sizeof *out->id);
    out->label = malloc((size_t)d->n * sizeof *out->label);
    FAIL_IF(err, !out->z || !out->id || !out->label, GLOFND_E_MEMORY, "no memory for %lld rows", (long long)d->n);
    for (int64_t i = 0; i < d->n; i++) {
        const int64_t from = gf_permute(EVAL_FILE_SEED, 0, d->n, i);
        memcpy(out->z + i * d->dim, d->x + from * d->dim, (size_t)d->dim * sizeof *out->z);
        out->id[i] = from;
        out->label[i] = d->label ? GF_MAX(d->label[from], -1) : -1;
    }
    return GLOFND_OK;
}

glofnd_status eval_files_view_set(gf_error *err, const char *path, const eval_files *f, gf_view_set *out, float **lambda) {
    gf_features d = {0};
    *lambda = NULL;
    glofnd_status status = read_rows(err, path, f->labels, &d);
    if (status == GLOFND_OK) status = shuffle(err, &d, out);
    if (status == GLOFND_OK && f->thresholds) status = read_thresholds(err, f->thresholds, d.n, lambda);
    gf_features_free(&d);
    TRY(status);
    FAIL_IF(err, out->n < 2, GLOFND_E_ARGUMENT, "%.300s has %lld rows, which make no pairs", path, (long long)out->n);
    return GLOFND_OK;
}

/* embedding_files.c - see embedding_files.h. */
#include "data/embedding_files.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "io/calls.h"
#include "io/json/safetensors.h"
#include "io/npy.h"
#include "util/grow.h"
#include "util/strings/utf8.h"

#define NAMES_MAX ((int64_t)1 << 32) /* bytes of a file of names */

/* ----- embeddings ----- */

static int is_safetensors(const char *path) {
    static const char end[] = ".safetensors";
    const size_t n = strlen(path);
    return n >= sizeof end - 1 && strcmp(path + n - (sizeof end - 1), end) == 0;
}

static glofnd_status check_shape(gf_error *err, const char *path, int rank, const int64_t *shape) {
    FAIL_IF(err, rank != 2, GLOFND_E_FORMAT, "%.300s: an array with %d axes; expected two, [samples][dimensions]", path, rank);
    FAIL_IF(err, shape[0] < 1 || shape[1] < 1, GLOFND_E_FORMAT, "%.300s: an empty array, %lld x %lld", path, (long long)shape[0],
            (long long)shape[1]);
    FAIL_IF(err, shape[0] >= INT32_MAX || shape[1] > (1 << 20), GLOFND_E_FORMAT,
            "%.300s: %lld x %lld is too large; the limit is 2^31 - 2 samples of 2^20 dimensions", path, (long long)shape[0],
            (long long)shape[1]);
    return GLOFND_OK;
}

static glofnd_status check_npy(gf_error *err, const char *path, const gf_npy *a) {
    FAIL_IF(err, a->type != GF_NPY_F4 && a->type != GF_NPY_F2, GLOFND_E_FORMAT,
            "%.300s: elements are %s; expected float32 or float16: save x.astype(\"float32\")", path, gf_npy_type_name(a->type));
    return check_shape(err, path, a->rank, a->shape);
}

static glofnd_status no_such_tensor(gf_error *err, const char *path, const gf_st_file *f, const char *name) {
    char list[256] = "";
    FAIL_IF(err, f->count == 0, GLOFND_E_ARGUMENT, "%.300s: the file holds no tensor", path);
    for (int64_t i = 0; i < f->count && strlen(list) < 200; i++)
        snprintf(list + strlen(list), sizeof list - strlen(list), "%s%.60s", i ? ", " : "", f->tensors[i].name);
    if (name) GF_FAIL(err, GLOFND_E_ARGUMENT, "%.150s: no tensor '%.80s'; it has %s", path, name, list);
    GF_FAIL(err, GLOFND_E_ARGUMENT, "%.150s: no single tensor with two axes; choose one by --tensor: %s", path, list);
}

/* The tensor by name, or the only one with two axes. */
static glofnd_status pick_tensor(gf_error *err, const char *path, const gf_st_file *f, const char *name,
                                 const gf_st_tensor **out) {
    const gf_st_tensor *t = name ? gf_st_find(f, name) : NULL;
    int64_t matrices = 0;
    for (int64_t i = 0; !name && i < f->count; i++)
        if (f->tensors[i].rank == 2) t = &f->tensors[i], matrices++;
    if (!t || matrices > 1) return no_such_tensor(err, path, f, name);
    FAIL_IF(err, t->type != GF_ST_F32 && t->type != GF_ST_F16 && t->type != GF_ST_BF16, GLOFND_E_FORMAT,
            "%.300s: tensor '%.80s' is %s; expected F32, F16 or BF16", path, t->name, gf_st_type_name(t->type));
    TRY(check_shape(err, path, t->rank, t->shape));
    *out = t;
    return GLOFND_OK;
}

static glofnd_status allocate_rows(gf_error *err, const char *path, const int64_t *shape, gf_discover_data *d) {
    d->n = shape[0], d->dim = shape[1];
    d->x = malloc((size_t)d->n * (size_t)d->dim * sizeof *d->x);
    FAIL_IF(err, !d->x, GLOFND_E_MEMORY, "%.300s: no memory for %lld x %lld float32", path, (long long)d->n, (long long)d->dim);
    return GLOFND_OK;
}

static glofnd_status read_npy(gf_error *err, const char *path, gf_discover_data *d) {
    gf_npy a = {0};
    TRY(gf_npy_read_header(err, path, &a));
    TRY(check_npy(err, path, &a));
    TRY(gf_npy_read(err, path, &a));
    glofnd_status status = check_npy(err, path, &a); /* the file may have changed in between */
    if (status == GLOFND_OK && a.type == GF_NPY_F4) {
        d->n = a.shape[0], d->dim = a.shape[1], d->x = a.data;
        a.data = NULL;
    } else if (status == GLOFND_OK) {
        status = allocate_rows(err, path, a.shape, d);
        for (int64_t i = 0; status == GLOFND_OK && i < a.count; i++) d->x[i] = (float)gf_npy_f64(&a, i);
    }
    gf_npy_free(&a);
    return status;
}

static glofnd_status read_tensor(gf_error *err, const char *path, const char *name, gf_discover_data *d) {
    gf_st_file f = {0};
    const gf_st_tensor *t = NULL;
    TRY(gf_st_open(err, path, &f));
    glofnd_status status = pick_tensor(err, path, &f, name, &t);
    if (status == GLOFND_OK) status = allocate_rows(err, path, t->shape, d);
    if (status == GLOFND_OK) status = gf_st_read_f32(err, &f, t, d->x, d->n * d->dim);
    gf_st_close(&f);
    return status;
}

glofnd_status gf_discover_read(gf_error *err, const char *path, const char *tensor, gf_discover_data *d) {
    return is_safetensors(path) ? read_tensor(err, path, tensor, d) : read_npy(err, path, d);
}

glofnd_status gf_discover_shape(gf_error *err, const char *path, const char *tensor, int64_t *n, int64_t *dim) {
    gf_st_file f = {0};
    const gf_st_tensor *t = NULL;
    gf_npy a = {0};
    struct stat st;
    FAIL_IF(err, stat(path, &st) == 0 && S_ISREG(st.st_mode) && st.st_size == 0, GLOFND_E_FORMAT, "%.300s: the file is empty",
            path);
    if (!is_safetensors(path)) {
        TRY(gf_npy_read_header(err, path, &a));
        TRY(check_npy(err, path, &a));
        *n = a.shape[0], *dim = a.shape[1];
        return GLOFND_OK;
    }
    TRY(gf_st_open(err, path, &f));
    const glofnd_status status = pick_tensor(err, path, &f, tensor, &t);
    if (status == GLOFND_OK) *n = t->shape[0], *dim = t->shape[1];
    gf_st_close(&f);
    return status;
}

/* ----- labels ----- */

static glofnd_status convert_labels(gf_error *err, const char *path, const gf_npy *a, gf_discover_data *d) {
    FAIL_IF(err, a->type != GF_NPY_I4 && a->type != GF_NPY_I8 && a->type != GF_NPY_U1, GLOFND_E_FORMAT,
            "%.300s: elements are %s; expected int32, int64 or uint8: save y.astype(\"int64\")", path, gf_npy_type_name(a->type));
    FAIL_IF(err, a->rank != 1 || a->shape[0] != d->n, GLOFND_E_ARGUMENT,
            "%.300s: %lld labels with %d axes for %lld embeddings; expected one axis, and one label per row", path,
            (long long)a->count, a->rank, (long long)d->n);
    d->label = malloc((size_t)d->n * sizeof *d->label);
    FAIL_IF(err, !d->label, GLOFND_E_MEMORY, "no memory for labels");
    for (int64_t i = 0; i < d->n; i++) {
        const int64_t y = gf_npy_i64(a, i);
        FAIL_IF(err, y > INT32_MAX, GLOFND_E_FORMAT, "%.300s: label %lld of row %lld does not fit into 31 bits", path,
                (long long)y, (long long)i);
        d->label[i] = y < 0 ? -1 : (int32_t)y;
    }
    return GLOFND_OK;
}

glofnd_status gf_discover_read_labels(gf_error *err, const char *path, gf_discover_data *d) {
    gf_npy a = {0};
    TRY(gf_npy_read(err, path, &a));
    free(d->label);
    d->label = NULL;
    const glofnd_status status = convert_labels(err, path, &a, d);
    gf_npy_free(&a);
    return status;
}

/* ----- names ----- */

static glofnd_status read_text(gf_error *err, const char *path, char **text, size_t *bytes) {
    FILE *f = gf_stream_open(path, "r");
    FAIL_IF(err, !f, GLOFND_E_IO, "%.300s: cannot be opened: %s", path, strerror(errno));
    char *at = NULL;
    size_t used = 0, capacity = 0, got;
    do {
        if ((int64_t)used > NAMES_MAX || !gf_grow(&at, &capacity, used + 65536, 1)) {
            free(at);
            fclose(f);
            GF_FAIL(err, GLOFND_E_MEMORY, "%.300s: too large for a file of names", path);
        }
        got = fread(at + used, 1, 65535, f);
        used += got;
    } while (got > 0);
    const int failed = ferror(f);
    fclose(f);
    at[used] = 0;
    *text = at, *bytes = used;
    FAIL_IF(err, failed, GLOFND_E_IO, "%.300s: cannot be read", path);
    return GLOFND_OK;
}

/* Terminates every line with 0; control characters and broken UTF-8 become blanks, so that a name is one cell of a table. */
static glofnd_status split_names(gf_error *err, const char *path, char *text, size_t bytes, gf_discover_data *d) {
    int64_t lines = 0;
    FAIL_IF(err, bytes == 0, GLOFND_E_ARGUMENT, "%.300s: the file is empty; expected one name per line for %lld embeddings", path,
            (long long)d->n);
    FAIL_IF(err, memchr(text, 0, bytes) != NULL, GLOFND_E_FORMAT, "%.300s: not a text file: it has a zero byte", path);
    if (bytes && text[bytes - 1] == '\n') text[--bytes] = 0;
    d->name = malloc((size_t)d->n * sizeof *d->name);
    FAIL_IF(err, !d->name, GLOFND_E_MEMORY, "no memory for names");
    for (char *at = text; at <= text + bytes; lines++) {
        char *stop = memchr(at, '\n', (size_t)(text + bytes - at));
        if (!stop) stop = text + bytes;
        *stop = 0;
        if (stop > at && stop[-1] == '\r') stop[-1] = 0;
        gf_utf8_clean(at, ' ');
        if (lines < d->n) d->name[lines] = at;
        at = stop + 1;
    }
    FAIL_IF(err, lines != d->n, GLOFND_E_ARGUMENT, "%.300s: %lld name%s for %lld embeddings; expected one name per line and row",
            path, (long long)lines, lines == 1 ? "" : "s", (long long)d->n);
    return GLOFND_OK;
}

glofnd_status gf_discover_read_names(gf_error *err, const char *path, gf_discover_data *d) {
    size_t bytes = 0;
    char *text = NULL;
    glofnd_status status = read_text(err, path, &text, &bytes);
    free(d->name_text);
    free(d->name);
    d->name_text = text, d->name = NULL;
    return status == GLOFND_OK ? split_names(err, path, text, bytes, d) : status;
}

/* group_file.c - ids of samples from a file: .npy, or text. See sample_groups.h. */
#include "io/npy.h"
#include "loop/sample_groups.h"
#include "util/text.h"

static glofnd_status take_id(gf_error *err, const char *path, int64_t line, int64_t id, int32_t *out) {
    FAIL_IF(err, id < INT32_MIN || id > INT32_MAX, GLOFND_E_FORMAT, "%s: id %lld of sample %lld does not fit 32 bits", path,
            (long long)id, (long long)line);
    *out = (int32_t)id;
    return GLOFND_OK;
}

static glofnd_status check_count(gf_error *err, const char *path, int64_t found, int64_t n) {
    FAIL_IF(err, found != n, GLOFND_E_OPTION,
            "groups: %s has %lld ids, and the data has %lld samples; it needs one for each, in "
            "their order",
            path, (long long)found, (long long)n);
    return GLOFND_OK;
}

typedef struct ids {
    const char *path;
    int32_t *of; /* [n] */
    int64_t n;
} ids;

static glofnd_status take_array(gf_error *err, void *user, const gf_npy *a) {
    const ids *x = user;
    const int integers = a->type == GF_NPY_I4 || a->type == GF_NPY_I8 || a->type == GF_NPY_U1;
    FAIL_IF(err, !integers || a->rank != 1, GLOFND_E_FORMAT, "%s: %s of rank %d; expected int32 or int64 of rank 1", x->path,
            gf_npy_type_name(a->type), a->rank);
    TRY(check_count(err, x->path, a->count, x->n));
    for (int64_t i = 0; i < x->n; i++) TRY(take_id(err, x->path, i, gf_npy_i64(a, i), &x->of[i]));
    return GLOFND_OK;
}

static glofnd_status take_line(gf_error *err, void *user, const char *text, int64_t row) {
    const ids *x = user;
    int64_t id = 0;
    const char *why = gf_integer_read(text, &id);
    FAIL_IF(err, why, GLOFND_E_FORMAT, "%s:%lld: \"%.40s\" %s; expected an integer per line", x->path, (long long)row + 1, text,
            why);
    return row < x->n ? take_id(err, x->path, row, id, &x->of[row]) : GLOFND_OK;
}

glofnd_status gf_group_file_read(gf_error *err, const char *path, int32_t *of, int64_t n) {
    ids x = {path, of, n};
    const gf_row_values v = {.path = path, .array = take_array, .line = take_line, .user = &x};
    int64_t found = 0;
    TRY(gf_row_values_read(err, &v, &found));
    return check_count(err, path, found, n);
}

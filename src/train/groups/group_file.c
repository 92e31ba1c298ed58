/* group_file.c - ids of samples from a file: .npy, or text. See sample_groups.h. */
#include <string.h>
#include <strings.h>

#include "io/file.h"
#include "io/npy.h"
#include "train/groups/sample_groups.h"
#include "util/strings/number_text.h"

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

/* ----- .npy ----- */

static glofnd_status take_array(gf_error *err, const char *path, const gf_npy *a, int32_t *of, int64_t n) {
    const int integers = a->type == GF_NPY_I4 || a->type == GF_NPY_I8 || a->type == GF_NPY_U1;
    FAIL_IF(err, !integers || a->rank != 1, GLOFND_E_FORMAT, "%s: %s of rank %d; expected int32 or int64 of rank 1", path,
            gf_npy_type_name(a->type), a->rank);
    TRY(check_count(err, path, a->count, n));
    for (int64_t i = 0; i < n; i++) TRY(take_id(err, path, i, gf_npy_i64(a, i), &of[i]));
    return GLOFND_OK;
}

static glofnd_status read_array(gf_error *err, const char *path, int32_t *of, int64_t n) {
    gf_npy a = {0};
    TRY(gf_npy_read(err, path, &a));
    const glofnd_status status = take_array(err, path, &a, of, n);
    gf_npy_free(&a);
    return status;
}

/* ----- text ----- */

typedef struct reading {
    const char *path;
    int32_t *of;
    int64_t n, found;
} reading;

static glofnd_status take_line(gf_error *err, void *user, char *line, int number) {
    reading *r = user;
    int64_t id = 0;
    line[strcspn(line, "\r\n")] = 0;
    const char *why = gf_integer_read(line, &id);
    FAIL_IF(err, why, GLOFND_E_FORMAT, "%s:%d: \"%.40s\" %s; expected an integer per line", r->path, number, line, why);
    if (r->found < r->n) TRY(take_id(err, r->path, r->found, id, &r->of[r->found]));
    r->found++;
    return GLOFND_OK;
}

glofnd_status gf_group_file_read(gf_error *err, const char *path, int32_t *of, int64_t n) {
    const size_t length = strlen(path);
    if (length > 4 && strcasecmp(path + length - 4, ".npy") == 0) return read_array(err, path, of, n);
    reading r = {path, of, n, 0};
    TRY(gf_each_line(err, path, take_line, &r));
    return check_count(err, path, r.found, n);
}

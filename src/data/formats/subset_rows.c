/* subset_rows.c - positions of samples from a file, ?rows=FILE: one per line, as keep.txt of `glofnd discover`; see subset.h. */
#include <stdlib.h>
#include <string.h>

#include "data/formats/subset.h"
#include "io/file.h"
#include "util/grow.h"
#include "util/strings/number_text.h"

typedef struct reading {
    const char *path;
    int64_t n; /* of the whole dataset */
    int64_t *row;
    int64_t count;
    size_t capacity;
    uint8_t *taken; /* [n] */
} reading;

static glofnd_status take_line(gf_error *err, void *user, char *line, int number) {
    reading *r = user;
    int64_t row = -1;
    char *end = line + strlen(line);
    while (end > line && strchr(" \t\r\n", end[-1])) *--end = 0;
    FAIL_IF(err, gf_integer_read(line, &row) != NULL || row < 0 || row >= r->n, GLOFND_E_FORMAT,
            "%.300s: line %d: \"%.40s\"; expected the position of a sample, 0 to %lld", r->path, number, line,
            (long long)r->n - 1);
    FAIL_IF(err, r->taken[row], GLOFND_E_FORMAT, "%.300s: line %d: sample %lld is there twice", r->path, number, (long long)row);
    FAIL_IF(err, !gf_grow(&r->row, &r->capacity, (size_t)r->count + 1, sizeof *r->row), GLOFND_E_MEMORY,
            "no memory for the rows of '%.300s'", r->path);
    r->taken[row] = 1;
    r->row[r->count++] = row;
    return GLOFND_OK;
}

glofnd_status gf_subset_read_rows(gf_error *err, const char *path, int64_t n, int64_t **row, int64_t *count) {
    reading r = {.path = path, .n = n, .taken = calloc((size_t)n + 1, 1)};
    FAIL_IF(err, !r.taken, GLOFND_E_MEMORY, "no memory for %lld samples", (long long)n);
    glofnd_status status = gf_each_line(err, path, take_line, &r);
    free(r.taken);
    if (status == GLOFND_OK && r.count == 0) status = gf_fail(err, GLOFND_E_FORMAT, "%.300s: no rows", path);
    if (status != GLOFND_OK) {
        free(r.row);
        return status;
    }
    *row = r.row, *count = r.count;
    return GLOFND_OK;
}

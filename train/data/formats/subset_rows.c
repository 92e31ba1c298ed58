/* subset_rows.c - samples that a file lists, ?rows=FILE: one per line, by position, as keep.txt of `glofnd discover`, or by name;
 * see subset.h. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "data/formats/subset.h"
#include "io/file.h"
#include "util/array.h"
#include "util/string_list.h"
#include "util/text.h"

enum { NAME = 4096 };

typedef struct named_row {
    const char *name;
    int64_t row;
} named_row;

typedef struct reading {
    const gf_dataset *d;
    const char *path;
    int64_t n; /* of the whole dataset */
    int64_t *row;
    int64_t count;
    size_t capacity;
    uint8_t *taken;       /* [n] */
    gf_string_list names; /* of all samples; empty: lines are positions */
    named_row *by_name;   /* [n] sorted */
} reading;

static int compare_names(const void *a, const void *b) {
    const named_row *x = a, *y = b;
    const int order = strcmp(x->name, y->name);
    return order ? order : (x->row > y->row) - (x->row < y->row);
}

static glofnd_status list_names(gf_error *err, reading *r) {
    char name[NAME];
    for (int64_t i = 0; i < r->n; i++) {
        name[0] = 0;
        r->d->format->name_of(r->d, i, name, sizeof name);
        TRY(gf_string_list_add(err, &r->names, name, strlen(name)));
    }
    r->by_name = malloc((size_t)r->n * sizeof *r->by_name + 1);
    FAIL_IF(err, !r->by_name, GLOFND_E_MEMORY, "no memory for the names of %lld samples", (long long)r->n);
    for (int64_t i = 0; i < r->n; i++) r->by_name[i] = (named_row){gf_string_list_get(&r->names, i), i};
    if (r->n) qsort(r->by_name, (size_t)r->n, sizeof *r->by_name, compare_names);
    return GLOFND_OK;
}

/* The first place of the name among the sorted ones; -1: none has it. */
static int64_t place_of(const reading *r, const char *name) {
    int64_t low = 0, high = r->n;
    while (low < high) {
        const int64_t mid = low + (high - low) / 2;
        if (strcmp(r->by_name[mid].name, name) < 0) low = mid + 1;
        else high = mid;
    }
    return low < r->n && strcmp(r->by_name[low].name, name) == 0 ? low : -1;
}

/* Names of files also without the folder of the SPEC. */
static glofnd_status find_name(gf_error *err, const reading *r, const char *line, int number, int64_t *row) {
    char inside[NAME];
    int64_t at = place_of(r, line);
    const int fits = snprintf(inside, sizeof inside, "%s/%s", r->d->spec.place, line) < (int)sizeof inside;
    if (at < 0 && fits) at = place_of(r, inside);
    FAIL_IF(err, at < 0, GLOFND_E_FORMAT,
            "%.200s: line %d: \"%.100s\" is no sample; expected a position, 0 to %lld, or names as \"%.60s\", one per line",
            r->path, number, line, (long long)r->n - 1, r->n ? gf_string_list_get(&r->names, 0) : "");
    FAIL_IF(err, at + 1 < r->n && strcmp(r->by_name[at].name, r->by_name[at + 1].name) == 0, GLOFND_E_FORMAT,
            "%.300s: line %d: \"%.100s\" is the name of several samples; list positions instead", r->path, number, line);
    *row = r->by_name[at].row;
    return GLOFND_OK;
}

static glofnd_status find_position(gf_error *err, const reading *r, const char *line, int number, int64_t *row) {
    FAIL_IF(err, gf_integer_read(line, row) != NULL || *row < 0 || *row >= r->n, GLOFND_E_FORMAT,
            "%.300s: line %d: \"%.40s\"; expected the position of a sample, 0 to %lld", r->path, number, line,
            (long long)r->n - 1);
    return GLOFND_OK;
}

/* The first line decides: an integer is a position, anything else a name. */
static glofnd_status take_line(gf_error *err, void *user, char *line, int number) {
    reading *r = user;
    int64_t row = -1;
    char *end = line + strlen(line);
    while (end > line && strchr(" \t\r\n", end[-1])) *--end = 0;
    if (r->count == 0 && gf_integer_read(line, &row) != NULL) TRY(list_names(err, r));
    TRY(r->by_name ? find_name(err, r, line, number, &row) : find_position(err, r, line, number, &row));
    FAIL_IF(err, r->taken[row], GLOFND_E_FORMAT, "%.300s: line %d: sample %lld is there twice", r->path, number, (long long)row);
    FAIL_IF(err, !gf_grow(&r->row, &r->capacity, (size_t)r->count + 1, sizeof *r->row), GLOFND_E_MEMORY,
            "no memory for the rows of '%.300s'", r->path);
    r->taken[row] = 1;
    r->row[r->count++] = row;
    return GLOFND_OK;
}

glofnd_status gf_subset_read_rows(gf_error *err, const char *path, const gf_dataset *d, int64_t **row, int64_t *count) {
    reading r = {.d = d, .path = path, .n = d->all, .taken = calloc((size_t)d->all + 1, 1)};
    FAIL_IF(err, !r.taken, GLOFND_E_MEMORY, "no memory for %lld samples", (long long)d->all);
    glofnd_status status = gf_each_line(err, path, take_line, &r);
    free(r.taken);
    free(r.by_name);
    gf_string_list_free(&r.names);
    if (status == GLOFND_OK && r.count == 0) status = gf_fail(err, GLOFND_E_FORMAT, "%.300s: no rows", path);
    if (status != GLOFND_OK) {
        free(r.row);
        return status;
    }
    *row = r.row, *count = r.count;
    return GLOFND_OK;
}

/* jsonl_read.c - see jsonl.h: reading, by jansson. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "io/jsonl.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "io/calls.h"
#include "util/grow.h"

glofnd_status gf_jsonl_read_open(gf_error *err, gf_jsonl_reader *r, const char *path) {
    *r = (gf_jsonl_reader){.err = err, .path = path};
    const int fd = gf_open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK, 0); /* nonblocking: a pipe must not hang */
    FAIL_IF(err, fd < 0, GLOFND_E_IO, "'%.300s' cannot be opened: %s", path, strerror(errno));
    struct stat st;
    const int regular = fstat(fd, &st) == 0 && S_ISREG(st.st_mode);
    r->file = regular ? gf_stream_of(fd, "r") : NULL;
    if (!r->file) close(fd);
    FAIL_IF(err, !regular, GLOFND_E_IO, "'%.300s' is not a regular file", path);
    FAIL_IF(err, !r->file, GLOFND_E_MEMORY, "no memory to read '%.300s'", path);
    return GLOFND_OK;
}

static int read_fail(gf_jsonl_reader *r, glofnd_status status, const char *what) {
    r->status = gf_fail(r->err, status, "'%.300s', line %lld: %s", r->path, (long long)r->number, what);
    return 0;
}

/* One more byte of the line; 0 after a failure. */
static int keep_byte(gf_jsonl_reader *r, size_t at, int c) {
    if (at == GF_JSONL_MAX_LINE) return read_fail(r, GLOFND_E_FORMAT, "longer than any line of such a file");
    if (at == r->capacity && !gf_grow(&r->line, &r->capacity, at + 1, 1))
        return read_fail(r, GLOFND_E_MEMORY, "no memory for it");
    r->line[at] = (char)c;
    return 1;
}

/* The next line without its newline. 0: the end, or a failure; a last line without newline is one that is still being written. */
static int read_line(gf_jsonl_reader *r, size_t *length) {
    size_t n = 0;
    int c;
    while ((c = getc_unlocked(r->file)) != EOF && c != '\n')
        if (!keep_byte(r, n++, c)) return 0;
    if (c == EOF && ferror(r->file)) return read_fail(r, GLOFND_E_IO, "cannot be read");
    *length = n;
    r->cut = c == EOF && n > 0;
    return c == '\n';
}

int gf_jsonl_next(gf_jsonl_reader *r) {
    size_t length = 0;
    json_error_t why;
    json_decref(r->object);
    r->object = NULL;
    if (r->status != GLOFND_OK || !r->file) return 0;
    r->number++;
    if (!read_line(r, &length)) return 0;
    if (length > 0 && !memchr(r->line, 0, length)) /* jansson passes over zero bytes */
        r->object = json_loadb(r->line, length, JSON_REJECT_DUPLICATES, &why);
    if (!json_is_object(r->object)) return read_fail(r, GLOFND_E_FORMAT, "not a JSON object");
    return 1;
}

static int number_of(const json_t *value, double *x) {
    switch (value ? json_typeof(value) : JSON_OBJECT) {
    case JSON_REAL:
    case JSON_INTEGER: *x = json_number_value(value); return 1;
    case JSON_TRUE: *x = 1.0; return 1;
    case JSON_FALSE: *x = 0.0; return 1;
    case JSON_NULL: *x = (double)NAN; return 1;
    default: return 0;
    }
}

int gf_jsonl_get(const gf_jsonl_reader *r, const char *key, double *x) { return number_of(json_object_get(r->object, key), x); }

int gf_jsonl_get_integer(const gf_jsonl_reader *r, const char *key, int64_t *x) {
    const json_t *value = json_object_get(r->object, key);
    if (json_is_integer(value)) *x = json_integer_value(value);
    return json_is_integer(value);
}

const char *gf_jsonl_get_text(const gf_jsonl_reader *r, const char *key) {
    return json_string_value(json_object_get(r->object, key));
}

/* ----- every field as text ----- */

static int by_text(const void *a, const void *b) { return strcmp(*(char *const *)a, *(char *const *)b); }

static void free_all(char **text, size_t n) {
    for (size_t i = 0; text && i < n; i++) free(text[i]);
    free(text);
}

static char *text_of(const json_t *value);

/* "a, b", sorted: which elements there are, not where. */
static char *text_of_array(const json_t *array) {
    const size_t n = json_array_size(array);
    size_t bytes = 1;
    char **part = calloc(n + 1, sizeof *part), *out = NULL;
    int whole = part != NULL;
    for (size_t i = 0; i < n && whole; i++) {
        part[i] = text_of(json_array_get(array, i));
        whole = part[i] != NULL;
        bytes += whole ? strlen(part[i]) + 2 : 0;
    }
    if (whole) out = malloc(bytes);
    if (out) qsort(part, n, sizeof *part, by_text);
    char *end = out;
    for (size_t i = 0; i < n && out; i++) end = stpcpy(stpcpy(end, i ? ", " : ""), part[i]);
    if (out) *end = 0;
    free_all(part, n);
    return out;
}

/* To be freed; NULL: no memory. */
static char *text_of(const json_t *value) {
    char number[40];
    if (json_is_array(value)) return text_of_array(value);
    if (json_is_number(value)) {
        if (json_is_integer(value)) snprintf(number, sizeof number, "%lld", (long long)json_integer_value(value));
        else snprintf(number, sizeof number, "%.10g", json_real_value(value));
        return strdup(number);
    }
    char *text = json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT | JSON_SORT_KEYS);
    if (!text || !json_is_string(value)) return text;
    const size_t n = strlen(text);
    memmove(text, text + 1, n - 2); /* without the quotes */
    text[n - 2] = 0;
    return text;
}

int gf_jsonl_each(const gf_jsonl_reader *r, void (*take)(void *user, const char *key, const char *value), void *user) {
    const size_t n = json_object_size(r->object);
    const char **key = calloc(n + 1, sizeof *key);
    size_t i = 0;
    int whole = key != NULL;
    if (!whole) return 0;
    for (void *at = json_object_iter(r->object); at && i < n; at = json_object_iter_next(r->object, at))
        key[i++] = json_object_iter_key(at);
    qsort(key, i, sizeof *key, by_text);
    for (size_t k = 0; k < i && whole; k++) {
        char *value = text_of(json_object_get(r->object, key[k]));
        whole = value != NULL;
        if (whole) take(user, key[k], value);
        free(value);
    }
    free(key);
    return whole;
}

void gf_jsonl_read_close(gf_jsonl_reader *r) {
    if (!r) return;
    if (r->file) fclose(r->file);
    json_decref(r->object);
    free(r->line);
    *r = (gf_jsonl_reader){0};
}

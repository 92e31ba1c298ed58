/* jsonl.c - see jsonl.h. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "io/jsonl.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "io/file.h"
#include "util/array.h"
#include "util/text.h"

/* ----- opening ----- */

/* End of the last whole line, searched from the end. */
static glofnd_status last_line_end(gf_jsonl *j, uint64_t *cut) {
    char part[4096];
    for (uint64_t end = gf_log_size(&j->log); end > 0;) {
        const size_t n = end < sizeof part ? (size_t)end : sizeof part;
        TRY(gf_log_read(&j->log, end - n, part, n));
        const char *newline = memrchr(part, '\n', n);
        end -= n;
        *cut = newline ? end + (uint64_t)(newline - part) + 1 : 0;
        if (newline) return GLOFND_OK;
    }
    *cut = 0;
    return GLOFND_OK;
}

static glofnd_status position(gf_jsonl *j, int64_t keep) {
    uint64_t cut = keep < 0 ? 0 : (uint64_t)keep;
    if (keep < 0) TRY(last_line_end(j, &cut));
    else {
        const uint64_t size = gf_log_size(&j->log);
        char last = '\n';
        FAIL_IF(j->log.err, cut > size, GLOFND_E_FORMAT, "'%.300s' has %llu bytes; it should have at least %llu", j->log.path,
                (unsigned long long)size, (unsigned long long)cut);
        if (cut > 0) TRY(gf_log_read(&j->log, cut - 1, &last, 1));
        FAIL_IF(j->log.err, last != '\n', GLOFND_E_FORMAT, "'%.300s' cannot be continued after byte %llu: no line ends there",
                j->log.path, (unsigned long long)cut);
    }
    return gf_log_cut(&j->log, cut);
}

glofnd_status gf_jsonl_open(gf_error *err, gf_jsonl *j, const char *path, int64_t keep) {
    *j = (gf_jsonl){0};
    FAIL_IF(err, keep < GF_LOG_ALL, GLOFND_E_ARGUMENT, "'%.300s': %lld bytes cannot be kept", path, (long long)keep);
    TRY(gf_log_open(err, &j->log, path, keep <= 0));
    const glofnd_status status = position(j, keep);
    if (status != GLOFND_OK) gf_jsonl_close(j);
    return status;
}

glofnd_status gf_jsonl_open_shared(gf_error *err, gf_jsonl *j, const char *path) {
    *j = (gf_jsonl){0};
    return gf_log_open_shared(err, &j->log, path);
}

/* ----- writing ----- */

static void put_text(gf_jsonl *j, const char *text) { gf_log_put(&j->log, text, strlen(text)); }

static void put_string(gf_jsonl *j, const char *text) {
    put_text(j, "\"");
    while (*text) {
        char character[GF_JSON_CHARACTER];
        gf_log_put(&j->log, character, gf_json_character(&text, character));
    }
    put_text(j, "\"");
}

static void put_number(gf_jsonl *j, double x) {
    char text[GF_NUMBER_BYTES];
    gf_log_put(&j->log, text, gf_number_text(text, x));
}

static void put_key(gf_jsonl *j, const char *key) {
    if (j->fields++ > 0) put_text(j, ", ");
    put_string(j, key);
    put_text(j, ": ");
}

void gf_jsonl_begin(gf_jsonl *j) {
    gf_log_drop(&j->log);
    j->fields = 0;
    put_text(j, "{");
}

void gf_jsonl_number(gf_jsonl *j, const char *key, double x) {
    put_key(j, key);
    put_number(j, x);
}

void gf_jsonl_integer(gf_jsonl *j, const char *key, int64_t x) {
    char text[32];
    snprintf(text, sizeof text, "%lld", (long long)x);
    put_key(j, key);
    put_text(j, text);
}

void gf_jsonl_flag(gf_jsonl *j, const char *key, int yes) {
    put_key(j, key);
    put_text(j, yes ? "true" : "false");
}

void gf_jsonl_text(gf_jsonl *j, const char *key, const char *text) {
    put_key(j, key);
    if (text) put_string(j, text);
    else put_text(j, "null");
}

void gf_jsonl_numbers(gf_jsonl *j, const char *key, const double *x, int64_t n) {
    put_key(j, key);
    put_text(j, "[");
    for (int64_t i = 0; i < n; i++) {
        if (i > 0) put_text(j, ", ");
        put_number(j, x[i]);
    }
    put_text(j, "]");
}

void gf_jsonl_texts(gf_jsonl *j, const char *key, const char *const *text, int64_t n) {
    put_key(j, key);
    put_text(j, "[");
    for (int64_t i = 0; i < n; i++) {
        if (i > 0) put_text(j, ", ");
        put_string(j, text[i]);
    }
    put_text(j, "]");
}

glofnd_status gf_jsonl_end(gf_jsonl *j) {
    put_text(j, "}\n");
    return gf_log_end(&j->log);
}

glofnd_status gf_jsonl_flush(gf_jsonl *j) { return gf_log_flush(&j->log); }
glofnd_status gf_jsonl_sync(gf_jsonl *j) { return gf_log_sync(&j->log); }
uint64_t gf_jsonl_offset(const gf_jsonl *j) { return gf_log_offset(&j->log); }
glofnd_status gf_jsonl_close(gf_jsonl *j) { return j ? gf_log_close(&j->log) : GLOFND_OK; }

/* ----- reading ----- */

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

/* The next line without its newline, closed by 0. 0: the end, or a failure; a last line without newline is one that is still
 * being written. */
static int read_line(gf_jsonl_reader *r, size_t *length) {
    size_t n = 0;
    int c;
    do {
        if (n + 2 > r->capacity && !gf_grow(&r->line, &r->capacity, n + 2, 1))
            return read_fail(r, GLOFND_E_MEMORY, "no memory for it");
        if ((c = getc_unlocked(r->file)) == EOF || c == '\n') break;
        r->line[n++] = (char)c;
    } while (n <= GF_JSONL_MAX_LINE);
    if (n > GF_JSONL_MAX_LINE) return read_fail(r, GLOFND_E_FORMAT, "longer than any line of such a file");
    if (c == EOF && ferror(r->file)) return read_fail(r, GLOFND_E_IO, "cannot be read");
    r->line[n] = 0;
    *length = n;
    r->cut = c == EOF && n > 0;
    return c == '\n';
}

int gf_jsonl_next(gf_jsonl_reader *r) {
    size_t length = 0;
    gf_error why = {""};
    gf_json_free(&r->object);
    if (r->status != GLOFND_OK || !r->file) return 0;
    r->number++;
    if (!read_line(r, &length)) return 0;
    const glofnd_status status = gf_json_read(&why, r->path, r->line, length, GF_JSON_DEPTH, 0, &r->object);
    if (status == GLOFND_E_MEMORY) return read_fail(r, status, "no memory for it");
    if (status != GLOFND_OK || r->object.node[0].kind != GF_JSON_OBJECT)
        return read_fail(r, GLOFND_E_FORMAT, "not a JSON object");
    return 1;
}

/* The field of the line under this key; NULL: there is none. */
static const gf_json_node *field(const gf_jsonl_reader *r, const char *key) {
    const int64_t k = r->object.node ? gf_json_find(&r->object, 0, key) : -1;
    return k < 0 ? NULL : &r->object.node[k];
}

int gf_jsonl_get(const gf_jsonl_reader *r, const char *key, double *x) {
    const gf_json_node *node = field(r, key);
    switch (node ? node->kind : GF_JSON_OBJECT) {
    case GF_JSON_REAL: *x = node->real; return 1;
    case GF_JSON_INTEGER: *x = (double)node->integer; return 1;
    case GF_JSON_TRUE: *x = 1.0; return 1;
    case GF_JSON_FALSE: *x = 0.0; return 1;
    case GF_JSON_NULL: *x = (double)NAN; return 1;
    default: return 0;
    }
}

int gf_jsonl_get_integer(const gf_jsonl_reader *r, const char *key, int64_t *x) {
    const gf_json_node *node = field(r, key);
    if (!node || node->kind != GF_JSON_INTEGER) return 0;
    *x = node->integer;
    return 1;
}

const char *gf_jsonl_get_text(const gf_jsonl_reader *r, const char *key) {
    return r->object.node ? gf_json_find_text(&r->object, 0, key) : NULL;
}

/* ----- every field as text ----- */

typedef struct part { /* of an object or array: sorted by its text */
    const char *text;
    int64_t node;
} part;

static int by_text(const void *a, const void *b) { return strcmp(((const part *)a)->text, ((const part *)b)->text); }

/* The children of an object by rising key, malloc'ed; NULL: no memory. */
static part *sorted_fields(const gf_json *j, int64_t object) {
    part *list = malloc(((size_t)j->node[object].count + 1) * sizeof *list);
    size_t n = 0;
    if (!list) return NULL;
    for (int64_t k = j->node[object].first; k >= 0; k = j->node[k].next)
        list[n++] = (part){.text = gf_json_text(j, j->node[k].key), .node = k};
    qsort(list, n, sizeof *list, by_text);
    return list;
}

/* A value as compact JSON, the keys of objects rising. */
static void add_json(gf_text *out, const gf_json *j, int64_t node) {
    const gf_json_node *value = &j->node[node];
    char number[GF_NUMBER_BYTES];
    switch (value->kind) {
    case GF_JSON_NULL: gf_text_add(out, "null"); return;
    case GF_JSON_FALSE: gf_text_add(out, "false"); return;
    case GF_JSON_TRUE: gf_text_add(out, "true"); return;
    case GF_JSON_INTEGER: gf_text_add(out, "%lld", (long long)value->integer); return;
    case GF_JSON_REAL: gf_text_add(out, "%.*s", (int)gf_number_text(number, value->real), number); return;
    case GF_JSON_TEXT: gf_json_quote(out, gf_json_text(j, value->text)); return;
    case GF_JSON_ARRAY:
        for (int64_t k = value->first; k >= 0; k = j->node[k].next) {
            gf_text_add(out, k == value->first ? "[" : ",");
            add_json(out, j, k);
        }
        gf_text_add(out, value->count ? "]" : "[]");
        return;
    case GF_JSON_OBJECT: break;
    }
    part *list = sorted_fields(j, node);
    if (!list) out->failed = 1;
    for (int64_t i = 0; list && i < value->count; i++) {
        gf_text_add(out, i ? "," : "{");
        gf_json_quote(out, list[i].text);
        gf_text_add(out, ":");
        add_json(out, j, list[i].node);
    }
    gf_text_add(out, value->count ? "}" : "{}");
    free(list);
}

/* A value as gf_jsonl_each gives it; to be freed; NULL: no memory. */
static char *text_of(const gf_json *j, int64_t node) {
    const gf_json_node *value = &j->node[node];
    gf_text out = {0};
    if (value->kind == GF_JSON_ARRAY) { /* sorted: which elements there are, not where */
        part *list = calloc((size_t)value->count + 1, sizeof *list);
        int64_t n = 0;
        if (!list) return NULL;
        for (int64_t k = value->first; k >= 0 && !out.failed; k = j->node[k].next) {
            list[n].text = text_of(j, k);
            out.failed = !list[n++].text;
        }
        if (!out.failed) qsort(list, (size_t)n, sizeof *list, by_text);
        gf_text_add(&out, "%s", "");
        for (int64_t i = 0; i < n && !out.failed; i++) gf_text_add(&out, i ? ", %s" : "%s", list[i].text);
        for (int64_t i = 0; i < n; i++) free((char *)list[i].text);
        free(list);
    } else if (value->kind == GF_JSON_REAL) gf_text_add(&out, "%.10g", value->real);
    else add_json(&out, j, node);
    if (out.failed) {
        gf_text_free(&out);
        return NULL;
    }
    if (value->kind == GF_JSON_TEXT) { /* without the quotes */
        memmove(out.at, out.at + 1, out.used - 2);
        out.at[out.used - 2] = 0;
    }
    return out.at;
}

int gf_jsonl_each(const gf_jsonl_reader *r, void (*take)(void *user, const char *key, const char *value), void *user) {
    part *list = r->object.node ? sorted_fields(&r->object, 0) : NULL;
    int whole = list != NULL;
    for (int64_t i = 0; whole && i < r->object.node[0].count; i++) {
        char *value = text_of(&r->object, list[i].node);
        whole = value != NULL;
        if (whole) take(user, list[i].text, value);
        free(value);
    }
    free(list);
    return whole;
}

void gf_jsonl_read_close(gf_jsonl_reader *r) {
    if (!r) return;
    if (r->file) fclose(r->file);
    gf_json_free(&r->object);
    free(r->line);
    *r = (gf_jsonl_reader){0};
}

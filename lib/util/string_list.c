/* string_list.c - see string_list.h. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* asprintf */
#endif
#include "util/string_list.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "util/array.h"

glofnd_status gf_string_list_add(gf_error *err, gf_string_list *s, const char *text, size_t length) {
    FAIL_IF(err,
            !gf_grow(&s->text, &s->text_capacity, s->used + length + 1, 1) ||
                !gf_grow(&s->at, &s->capacity, (size_t)s->n + 1, sizeof *s->at),
            GLOFND_E_MEMORY, "no memory for a list of %lld names", (long long)s->n + 1);
    memcpy(s->text + s->used, text, length);
    s->text[s->used + length] = 0;
    s->at[s->n++] = s->used;
    s->used += length + 1;
    return GLOFND_OK;
}

const char *gf_string_list_get(const gf_string_list *s, int64_t i) { return i >= 0 && i < s->n ? s->text + s->at[i] : NULL; }

static int compare_texts(const void *a, const void *b) { return strcmp(*(const char *const *)a, *(const char *const *)b); }

glofnd_status gf_string_list_sort(gf_error *err, gf_string_list *s) {
    if (s->n < 2) return GLOFND_OK;
    const char **order = malloc((size_t)s->n * sizeof *order);
    FAIL_IF(err, !order, GLOFND_E_MEMORY, "no memory to sort %lld names", (long long)s->n);
    for (int64_t i = 0; i < s->n; i++) order[i] = s->text + s->at[i];
    qsort(order, (size_t)s->n, sizeof *order, compare_texts);
    for (int64_t i = 0; i < s->n; i++) s->at[i] = (size_t)(order[i] - s->text);
    free(order);
    return GLOFND_OK;
}

void gf_string_list_unique(gf_string_list *s) {
    int64_t kept = 0;
    for (int64_t i = 0; i < s->n; i++) {
        if (kept > 0 && strcmp(s->text + s->at[kept - 1], s->text + s->at[i]) == 0) continue;
        s->at[kept++] = s->at[i];
    }
    s->n = kept;
}

int64_t gf_string_list_find(const gf_string_list *s, const char *text) {
    int64_t lo = 0, hi = s->n;
    while (lo < hi) {
        const int64_t mid = lo + (hi - lo) / 2;
        const int order = strcmp(s->text + s->at[mid], text);
        if (order == 0) return mid;
        if (order < 0) lo = mid + 1;
        else hi = mid;
    }
    return -1;
}

int64_t gf_string_list_first(const gf_string_list *s, const char *text) {
    for (int64_t i = 0; i < s->n; i++)
        if (strcmp(gf_string_list_get(s, i), text) == 0) return i;
    return -1;
}

void gf_string_list_free(gf_string_list *s) {
    free(s->text);
    free(s->at);
    *s = (gf_string_list){0};
}

/* ----- rows of separated fields ----- */

gf_csv gf_csv_begin(const char *path, char *text, char *end) {
    const char *line_end = memchr(text, '\n', (size_t)(end - text));
    const size_t first = (size_t)((line_end ? line_end : end) - text);
    return (gf_csv){.path = path, .at = text, .end = end, .separator = memchr(text, '\t', first) ? '\t' : ',', .next_line = 1};
}

/* Moves the text between quotes to *to, which is never ahead of the reading position. */
static glofnd_status unquote(gf_error *err, gf_csv *c, char **to) {
    for (c->at++; c->at < c->end; c->at++) {
        const char x = *c->at;
        if (x == '"') {
            c->at++;
            if (c->at == c->end || *c->at != '"') return GLOFND_OK;
        }
        if (x == '\n') c->next_line++;
        *(*to)++ = !c->keep_breaks && (x == '\n' || x == '\r') ? ' ' : x;
    }
    GF_FAIL(err, GLOFND_E_FORMAT, "'%.300s', line %lld: a quote is not closed", c->path, (long long)c->line);
}

glofnd_status gf_csv_next(gf_error *err, gf_csv *c, gf_string_list *row) {
    row->n = 0;
    row->used = 0;
    c->line = c->next_line;
    const char *at = c->at;
    while (at < c->end && *at == '\r') at++;
    c->blank = c->at < c->end && (at == c->end || *at == '\n');
    if (c->at >= c->end) return GLOFND_OK;
    char stop;
    do {
        /* One field, up to its separator or the end of the line. */
        char *const start = c->at, *to = c->at;
        if (c->at < c->end && *c->at == '"') TRY(unquote(err, c, &to));
        for (; c->at < c->end && *c->at != c->separator && *c->at != '\n'; c->at++) {
            if (*c->at != '\r') *to++ = *c->at;
        }
        TRY(gf_string_list_add(err, row, start, (size_t)(to - start)));
        stop = c->at < c->end ? *c->at++ : '\n';
    } while (stop != '\n');
    c->next_line++;
    return GLOFND_OK;
}

/* ----- patterns with braces ----- */

/* A pattern with one choice of its first brace filled in is a shorter pattern: expansion is recursive over braces. */
typedef struct expansion {
    gf_error *err;
    const char *pattern; /* as given, for messages */
    gf_string_list *out;
    int depth;
} expansion;

static glofnd_status expand(expansion *x, const char *text);

/* head + choice + tail, expanded further. */
static glofnd_status expand_choice(expansion *x, const char *text, const char *open, const char *close, const char *choice,
                                   int n) {
    char *filled = NULL;
    FAIL_IF(x->err, x->depth >= 16, GLOFND_E_ARGUMENT, "'%.400s' has more than 16 braces", x->pattern);
    const int length = asprintf(&filled, "%.*s%.*s%s", (int)(open - text), text, n, choice, close + 1);
    FAIL_IF(x->err, length < 0, GLOFND_E_MEMORY, "no memory to expand '%.400s'", x->pattern);
    x->depth++;
    const glofnd_status status = expand(x, filled);
    x->depth--;
    free(filled);
    return status;
}

/* Number of digits at *p. More than 12 are not taken for a number. */
static int digits(const char **p, long long *value) {
    int n = 0;
    for (*value = 0; n < 13 && **p >= '0' && **p <= '9'; (*p)++, n++) *value = 10 * *value + (**p - '0');
    return n;
}

/* {first..last}: 1 if the brace is one. Width: of the longer bound if one begins with 0, as in a shell. */
static int parse_range(const char *p, const char *close, long long *first, long long *last, int *width) {
    const char *bound = p;
    const int a = digits(&p, first);
    if (a == 0 || a > 12 || p[0] != '.' || p[1] != '.') return 0;
    p += 2;
    const char *second = p;
    const int b = digits(&p, last);
    if (b == 0 || b > 12 || p != close) return 0;
    const int padded = (a > 1 && *bound == '0') || (b > 1 && *second == '0');
    *width = padded ? (a > b ? a : b) : 1;
    return 1;
}

static glofnd_status expand(expansion *x, const char *text) {
    const char *open = strchr(text, '{');
    const char *close = open ? strchr(open, '}') : NULL;
    FAIL_IF(x->err, (open && !close) || (!open && strchr(text, '}')), GLOFND_E_ARGUMENT,
            "'%.400s': a brace is not closed or not opened", x->pattern);
    if (!open) {
        FAIL_IF(x->err, x->out->n >= GF_BRACES_MAX, GLOFND_E_ARGUMENT, "'%.400s' expands to more than %d names", x->pattern,
                GF_BRACES_MAX);
        return gf_string_list_add(x->err, x->out, text, strlen(text));
    }
    FAIL_IF(x->err, memchr(open + 1, '{', (size_t)(close - open - 1)), GLOFND_E_ARGUMENT, "'%.400s': braces inside braces",
            x->pattern);
    long long first, last;
    int width;
    if (parse_range(open + 1, close, &first, &last, &width)) {
        const long long step = first <= last ? 1 : -1, count = (last - first) * step + 1;
        FAIL_IF(x->err, count > GF_BRACES_MAX, GLOFND_E_ARGUMENT, "'%.400s' expands to more than %d names", x->pattern,
                GF_BRACES_MAX);
        for (long long k = 0; k < count; k++) {
            char number[32];
            const int n = snprintf(number, sizeof number, "%0*lld", width, first + k * step);
            TRY(expand_choice(x, text, open, close, number, n));
        }
        return GLOFND_OK;
    }
    FAIL_IF(x->err, !memchr(open, ',', (size_t)(close - open)), GLOFND_E_ARGUMENT, "'%.400s': a brace holds first..last or a,b,c",
            x->pattern);
    for (const char *p = open + 1; p <= close; p++) {
        const char *comma = memchr(p, ',', (size_t)(close - p));
        const char *end = comma ? comma : close;
        TRY(expand_choice(x, text, open, close, p, (int)(end - p)));
        p = end;
    }
    return GLOFND_OK;
}

/* Choices of the brace between these two; at least 1. */
static int64_t choices(const char *open, const char *close) {
    long long first, last;
    int width;
    int64_t commas = 0;
    if (parse_range(open + 1, close, &first, &last, &width)) return (first <= last ? last - first : first - last) + 1;
    for (const char *p = open; p < close; p++) commas += *p == ',';
    return commas + 1;
}

int64_t gf_braces_count(const char *pattern) {
    int64_t count = 1;
    for (const char *open = pattern, *close; (open = strchr(open, '{')) && (close = strchr(open, '}')); open = close) {
        const int64_t n = choices(open, close);
        if (n > GF_BRACES_MAX || count > GF_BRACES_MAX / n) return INT64_MAX;
        count *= n;
    }
    return count;
}

glofnd_status gf_braces_expand(gf_error *err, const char *pattern, gf_string_list *out) {
    expansion x = {err, pattern, out, 0};
    FAIL_IF(err, gf_braces_count(pattern) > GF_BRACES_MAX, GLOFND_E_ARGUMENT, "'%.400s' expands to more than %d names", pattern,
            GF_BRACES_MAX);
    return expand(&x, pattern);
}

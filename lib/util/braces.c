/* braces.c - see braces.h. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* asprintf */
#endif
#include "util/braces.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

static glofnd_status expand_range(expansion *x, const char *text, const char *open, const char *close, long long first,
                                  long long last, int width) {
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

static glofnd_status expand_list(expansion *x, const char *text, const char *open, const char *close) {
    for (const char *p = open + 1; p <= close; p++) {
        const char *comma = memchr(p, ',', (size_t)(close - p));
        const char *end = comma ? comma : close;
        TRY(expand_choice(x, text, open, close, p, (int)(end - p)));
        p = end;
    }
    return GLOFND_OK;
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
    if (parse_range(open + 1, close, &first, &last, &width)) return expand_range(x, text, open, close, first, last, width);
    FAIL_IF(x->err, !memchr(open, ',', (size_t)(close - open)), GLOFND_E_ARGUMENT, "'%.400s': a brace holds first..last or a,b,c",
            x->pattern);
    return expand_list(x, text, open, close);
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

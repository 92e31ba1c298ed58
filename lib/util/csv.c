/* csv.c - see csv.h. */
#include "util/csv.h"

#include <string.h>

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

/* One field, up to its separator or the end of the line. */
static glofnd_status next_field(gf_error *err, gf_csv *c, gf_string_list *row) {
    char *const start = c->at, *to = c->at;
    if (c->at < c->end && *c->at == '"') TRY(unquote(err, c, &to));
    for (; c->at < c->end && *c->at != c->separator && *c->at != '\n'; c->at++) {
        if (*c->at != '\r') *to++ = *c->at;
    }
    return gf_string_list_add(err, row, start, (size_t)(to - start));
}

static int is_blank(const gf_csv *c) {
    const char *at = c->at;
    while (at < c->end && *at == '\r') at++;
    return c->at < c->end && (at == c->end || *at == '\n');
}

glofnd_status gf_csv_next(gf_error *err, gf_csv *c, gf_string_list *row) {
    row->n = 0;
    row->used = 0;
    c->line = c->next_line;
    c->blank = is_blank(c);
    if (c->at >= c->end) return GLOFND_OK;
    char stop;
    do {
        TRY(next_field(err, c, row));
        stop = c->at < c->end ? *c->at++ : '\n';
    } while (stop != '\n');
    c->next_line++;
    return GLOFND_OK;
}

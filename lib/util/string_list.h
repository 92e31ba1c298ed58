/* string_list.h - many strings in one block, by number: file names, class names, captions; and where they come from: rows of
 * a CSV file, patterns with braces. */
#pragma once

#include "util/status.h"

typedef struct gf_string_list { /* all zero: empty */
    char *text;                 /* strings, each closed by 0 */
    size_t used, text_capacity;
    size_t *at; /* [n] where each begins */
    int64_t n;
    size_t capacity;
} gf_string_list;

/* Appends a copy of `length` bytes. A zero byte among them ends the string early. */
glofnd_status gf_string_list_add(gf_error *err, gf_string_list *s, const char *text, size_t length);
const char *gf_string_list_get(const gf_string_list *s, int64_t i);
/* Bytewise order. */
glofnd_status gf_string_list_sort(gf_error *err, gf_string_list *s);
/* Drops what equals its neighbour: after a sort, all strings differ. */
void gf_string_list_unique(gf_string_list *s);
/* Position in a sorted list; -1: not there. */
int64_t gf_string_list_find(const gf_string_list *s, const char *text);
/* Position of the first equal text in a list of any order; -1: none. */
int64_t gf_string_list_first(const gf_string_list *s, const char *text);
void gf_string_list_free(gf_string_list *s);

/* ----- rows of separated fields: tab if the first line has one, else comma; fields may be quoted, "" is a quote inside ----- */

typedef struct gf_csv {
    const char *path; /* for messages */
    char *at, *end;   /* rest of the text; fields are unquoted in place */
    char separator;
    int64_t line; /* of the row given last, from 1 */
    int64_t next_line;
    int blank;       /* the row given last is an empty line: one field, not even quotes */
    int keep_breaks; /* line breaks inside quotes stay; 0: they become spaces */
} gf_csv;

gf_csv gf_csv_begin(const char *path, char *text, char *end);
/* Replaces `row` by the next one; n is 0 after the last. E_FORMAT: a quote is not closed. */
glofnd_status gf_csv_next(gf_error *err, gf_csv *c, gf_string_list *row);

/* ----- names from a pattern with braces, as a shell expands them: {000..012} and {a,b} ----- */

#define GF_BRACES_MAX 1000000 /* names one pattern may expand to */

/* Names in the order they are written. E_ARGUMENT: unbalanced, or more than GF_BRACES_MAX. */
glofnd_status gf_braces_expand(gf_error *err, const char *pattern, gf_string_list *out);
/* The number of names, without expanding it; INT64_MAX: more than GF_BRACES_MAX. */
int64_t gf_braces_count(const char *pattern);

/* csv.h - rows of separated fields: tab if the first line has one, else comma; fields may be quoted, "" is a quote inside. */
#pragma once

#include "util/string_list.h"

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

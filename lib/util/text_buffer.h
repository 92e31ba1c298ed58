/* text_buffer.h - a text that grows; running out of memory sticks and is asked for once, at the end. */
#pragma once

#include "util/status.h"

typedef struct gf_text {
    char *at; /* ends with 0; NULL while empty */
    size_t used, capacity;
    int failed;
} gf_text;

void gf_text_add(gf_text *t, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* A text from outside, as it is shown on a terminal: see print.h. */
void gf_text_show(gf_text *t, const char *raw);
/* For HTML: & < > " ' as entities; bytes that are no plain characters (control, broken UTF-8) as '?'. */
void gf_text_escape(gf_text *t, const char *raw);
void gf_text_free(gf_text *t);

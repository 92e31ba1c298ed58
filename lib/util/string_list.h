/* string_list.h - many strings in one block, by number: file names, class names, captions. */
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
void gf_string_list_free(gf_string_list *s);

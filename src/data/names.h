/* names.h - many strings in one block, by number: file names, class names, captions. */
#ifndef GF_DATA_NAMES_H
#define GF_DATA_NAMES_H

#include "base/status.h"

typedef struct gf_names {       /* all zero: empty */
    char *text;                 /* strings, each closed by 0 */
    size_t used, room;
    size_t *at;                 /* [n] where each begins */
    int64_t n, capacity;
} gf_names;

/* Appends a copy of `length` bytes. A zero byte among them ends the string early. */
glofnd_status gf_names_add(gf_error *err, gf_names *s, const char *text, size_t length);
const char *gf_names_get(const gf_names *s, int64_t i);
/* Bytewise order. */
glofnd_status gf_names_sort(gf_error *err, gf_names *s);
/* Drops what equals its neighbour: after a sort, all strings differ. */
void gf_names_unique(gf_names *s);
/* Position in a sorted list; -1: not there. */
int64_t gf_names_find(const gf_names *s, const char *text);
int gf_names_is_sorted(const gf_names *s);
void gf_names_free(gf_names *s);

#endif

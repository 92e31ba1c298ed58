/* text_buffer.c - see text_buffer.h. */
#include "util/text_buffer.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "util/grow.h"
#include "util/print.h"
#include "util/utf8.h"

/* Space for n more bytes and the final 0. */
static int reserve(gf_text *t, size_t n) {
    if (!t->failed) t->failed = !gf_grow(&t->at, &t->capacity, t->used + n + 1, 1);
    return !t->failed;
}

static void add_bytes(gf_text *t, const char *bytes, size_t n) {
    if (!reserve(t, n)) return;
    memcpy(t->at + t->used, bytes, n);
    t->used += n;
    t->at[t->used] = 0;
}

void gf_text_add(gf_text *t, const char *fmt, ...) {
    va_list args, again;
    va_start(args, fmt);
    va_copy(again, args);
    const int n = vsnprintf(NULL, 0, fmt, args);
    if (n < 0) t->failed = 1;
    else if (reserve(t, (size_t)n)) {
        vsnprintf(t->at + t->used, (size_t)n + 1, fmt, again);
        t->used += (size_t)n;
    }
    va_end(again);
    va_end(args);
}

void gf_text_show(gf_text *t, const char *raw) {
    char shown[GF_SHOWN_BYTES];
    for (size_t taken; *raw; raw += taken) {
        gf_show(raw, &taken, shown);
        add_bytes(t, shown, strlen(shown));
    }
}

/* Bytes of the character at s that may stand in a page; 0: none. */
static size_t character(const unsigned char *s) {
    const int control = s[0] < 0x20 || s[0] == 0x7F;
    return control ? 0 : gf_utf8_bytes(s);
}

void gf_text_escape(gf_text *t, const char *raw) {
    for (const unsigned char *s = (const unsigned char *)raw; *s;) {
        const size_t n = character(s);
        switch (*s) {
        case '&': add_bytes(t, "&amp;", 5); break;
        case '<': add_bytes(t, "&lt;", 4); break;
        case '>': add_bytes(t, "&gt;", 4); break;
        case '"': add_bytes(t, "&quot;", 6); break;
        case '\'': add_bytes(t, "&#39;", 5); break;
        default: add_bytes(t, n ? (const char *)s : "?", n ? n : 1);
        }
        s += n ? n : 1;
    }
}

void gf_text_free(gf_text *t) {
    free(t->at);
    *t = (gf_text){0};
}

/* terminal.c - see terminal.h: tables. */
#include "plot/terminal.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "util/array.h"
#include "util/text.h"

/* ----- tables ----- */

void gf_table_add(gf_table *t, const char *fmt, ...) {
    va_list args;
    t->failed |= !gf_grow(&t->cell, &t->capacity, (size_t)t->cells + 1, sizeof *t->cell);
    if (t->failed) return;
    char *cell = t->cell[t->cells++];
    va_start(args, fmt);
    vsnprintf(cell, GF_TABLE_CELL, fmt, args);
    va_end(args);
    gf_utf8_trim(cell); /* it may have been cut */
    gf_utf8_clean(cell, '?');
}

void gf_table_number(gf_table *t, double x, int digits) {
    if (isfinite(x)) gf_table_add(t, "%.*f", digits, x);
    else gf_table_add(t, "-");
}

void gf_table_difference(gf_table *t, double x, int digits) {
    char text[64];
    snprintf(text, sizeof text, "%+.*f", digits, x);
    if (isfinite(x) && strpbrk(text, "123456789")) gf_table_add(t, "%s", text);
    else gf_table_number(t, fabs(x), digits);
}

void gf_table_free(gf_table *t) {
    if (!t) return;
    free(t->cell);
    *t = (gf_table){0};
}

/* Characters, not bytes: continuation bytes of UTF-8 are 10xxxxxx. */
static int width_of(const char *s) {
    int n = 0;
    for (; *s; s++) n += ((unsigned char)*s & 0xC0) != 0x80;
    return n;
}

static int column_width(const gf_table *t, int column) {
    int width = 0;
    for (int64_t i = column; i < t->cells; i += t->columns) width = GF_MAX(width_of(t->cell[i]), width);
    return width;
}

static int terminal;

void gf_table_set_terminal(int columns) { terminal = columns; }

/* Columns below `words`, and those in [from, to). */
static void add_part(gf_text *out, const gf_table *t, int words, int from, int to) {
    for (int64_t i = 0; i < t->cells; i++) {
        const int column = (int)(i % t->columns), last = column + 1 == to;
        const int fill = column_width(t, column) - width_of(t->cell[i]);
        if (column >= words && (column < from || column >= to)) continue;
        if (column >= words) gf_text_add(out, "%*s%s", fill, "", t->cell[i]);
        else gf_text_add(out, "%s%*s", t->cell[i], last ? 0 : fill, "");
        gf_text_add(out, last ? "\n" : "  ");
    }
}

void gf_table_text(gf_text *out, const gf_table *t, int words) {
    out->failed |= t->failed;
    if (words >= t->columns) add_part(out, t, words, words, t->columns);
    for (int from = words, to; from < t->columns; from = to) {
        /* The end of the part that begins at column `from`: as many as fit, but one. */
        int width = 0;
        for (int k = 0; k < words && k < t->columns; k++) width += column_width(t, k) + 2;
        for (to = from; to < t->columns; to++) {
            width += column_width(t, to) + (to > from ? 2 : 0);
            if (terminal > 0 && width > terminal && to > from) break;
        }
        if (from > words) gf_text_add(out, "\n");
        add_part(out, t, words, from, to);
    }
}

void gf_table_csv(gf_text *out, const gf_table *t) {
    out->failed |= t->failed;
    for (int64_t i = 0; i < t->cells; i++) {
        const char *s = t->cell[i];
        const int quoted = strpbrk(s, ",\"\r\n") != NULL;
        if (quoted) gf_text_add(out, "\"");
        for (; *s; s++) gf_text_add(out, quoted && *s == '"' ? "\"\"" : "%c", *s);
        gf_text_add(out, quoted ? "\"%s" : "%s", (i + 1) % t->columns ? "," : "\n");
    }
}

void gf_text_latex(gf_text *out, const char *raw) {
    for (size_t n; *raw; raw += n) {
        n = gf_utf8_bytes((const unsigned char *)raw);
        if (n > 1) gf_text_add(out, "%.*s", (int)n, raw);
        if (n > 1) continue;
        if (n == 0 || (unsigned char)*raw < 0x20 || *raw == 0x7f) gf_text_add(out, "?"), n = 1;
        else if (strchr("#$%&_{}", *raw)) gf_text_add(out, "\\%c", *raw);
        else if (*raw == '\\') gf_text_add(out, "\\textbackslash{}");
        else if (*raw == '~' || *raw == '^') gf_text_add(out, "\\%c{}", *raw);
        else if (*raw == '<' || *raw == '>') gf_text_add(out, "$%c$", *raw);
        else gf_text_add(out, "%c", *raw);
    }
}

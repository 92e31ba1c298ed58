/* terminal.h - aligned tables for a terminal. */
#pragma once

#include "util/text.h"

/* A table of short texts, filled cell by cell, written as aligned text or CSV. Row 0 is the header. */

#define GF_TABLE_CELL 200 /* bytes of a cell; longer texts are cut */

typedef struct gf_table {
    int columns; /* set before the first cell */
    int64_t cells;
    size_t capacity;
    char (*cell)[GF_TABLE_CELL]; /* [cells] row by row */
    int failed;                  /* out of memory; passed on when the table is written */
} gf_table;

void gf_table_add(gf_table *t, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* A number with `digits` decimals; "-": not finite. */
void gf_table_number(gf_table *t, double x, int digits);
/* The same of a difference, with its sign; none if all shown digits are 0. */
void gf_table_difference(gf_table *t, double x, int digits);
void gf_table_free(gf_table *t); /* accepts NULL and a zeroed struct */

/* The first `words` columns are left-aligned, the others right-aligned. A table that is wider than the terminal is written in
 * parts below each other, each with the first `words` columns. */
void gf_table_text(gf_text *out, const gf_table *t, int words);
/* Characters of a line of the terminal; 0 (at first): any. To be set once, before there are tables. */
void gf_table_set_terminal(int columns);
void gf_table_csv(gf_text *out, const gf_table *t); /* RFC 4180 */
/* Escapes # $ % & _ { } ~ ^ < > \ for LaTeX. */
void gf_text_latex(gf_text *out, const char *raw);

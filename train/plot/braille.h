/* braille.h - line drawings for a terminal: each character is a Unicode braille pattern of 2 x 4 dots. */
#pragma once

#include "util/text.h"

typedef struct gf_braille {
    int columns, rows; /* characters */
    uint8_t *cells;    /* [rows][columns] dots of a character */
} gf_braille;

/* 0: no memory, or a size outside 1 .. 1000; drawing then does nothing. */
int gf_braille_init(gf_braille *b, int columns, int rows);
void gf_braille_free(gf_braille *b);
/* x from the left, 0 .. 2 columns - 1; y from the top, 0 .. 4 rows - 1. Dots outside are ignored. */
void gf_braille_dot(gf_braille *b, int x, int y);
void gf_braille_line(gf_braille *b, int x0, int y0, int x1, int y1);
/* Row `row` as UTF-8; characters without a dot are spaces. */
void gf_braille_row(gf_text *out, const gf_braille *b, int row);

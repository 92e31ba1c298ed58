/* braille.c - see braille.h. */
#include "plot/braille.h"

#include <stdlib.h>

#include "util/array.h"

int gf_braille_init(gf_braille *b, int columns, int rows) {
    *b = (gf_braille){columns, rows, NULL};
    if (columns >= 1 && rows >= 1 && columns <= 1000 && rows <= 1000) b->cells = calloc((size_t)columns * (size_t)rows, 1);
    return b->cells != NULL;
}

void gf_braille_free(gf_braille *b) {
    free(b->cells);
    *b = (gf_braille){0};
}

void gf_braille_dot(gf_braille *b, int x, int y) {
    static const uint8_t bit[4][2] = {{0x01, 0x08}, {0x02, 0x10}, {0x04, 0x20}, {0x40, 0x80}}; /* numbering of Unicode */
    if (!b->cells || x < 0 || y < 0 || x >= 2 * b->columns || y >= 4 * b->rows) return;
    b->cells[y / 4 * b->columns + x / 2] |= bit[y % 4][x % 2];
}

void gf_braille_line(gf_braille *b, int x0, int y0, int x1, int y1) {
    const int dx = abs(x1 - x0), dy = abs(y1 - y0), steps = GF_MAX(dx, dy);
    for (int i = 0; i <= steps; i++) {
        const int half = steps / 2, x = steps ? x0 + ((x1 - x0) * i + (x1 < x0 ? -half : half)) / steps : x0;
        gf_braille_dot(b, x, steps ? y0 + ((y1 - y0) * i + (y1 < y0 ? -half : half)) / steps : y0);
    }
}

void gf_braille_row(gf_text *out, const gf_braille *b, int row) {
    for (int x = 0; b->cells && x < b->columns; x++) {
        const unsigned dots = b->cells[row * b->columns + x];
        if (dots) gf_text_add(out, "\xe2%c%c", (int)(0xa0 | dots >> 6), (int)(0x80 | (dots & 0x3f)));
        else gf_text_add(out, " ");
    }
}

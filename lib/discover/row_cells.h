/* row_cells.h - the last columns of tables about two rows: names of both, then labels of both, where the data have them. */
#pragma once

#include "discover/discover_input.h"
#include "discover/table_files.h"

/* One row of a table: a row of d, called `word` in the heading ("anchor": anchor_name, anchor_label). */
typedef struct gf_row_side {
    const gf_discover_data *d;
    const char *word;
} gf_row_side;

void gf_row_columns(gf_table_columns *c, gf_row_side a, gf_row_side b);
/* Cells of rows a and b, -1: none; then the end of the line. */
void gf_row_cells(gf_lines *l, const gf_discover_data *d, int64_t a, const gf_discover_data *e, int64_t b);

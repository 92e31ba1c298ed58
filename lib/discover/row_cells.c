/* row_cells.c - see row_cells.h. */
#include "discover/row_cells.h"

#include <stdio.h>

static void add_column(gf_table_columns *c, gf_column_kind kind, const char *word, const char *what) {
    char name[GF_COLUMN_NAME];
    snprintf(name, sizeof name, "%.20s_%.10s", word, what);
    gf_table_columns_add(c, kind, name);
}

void gf_row_columns(gf_table_columns *c, gf_row_side a, gf_row_side b) {
    if (a.d->name) add_column(c, GF_COLUMN_TEXT, a.word, "name");
    if (b.d->name) add_column(c, GF_COLUMN_TEXT, b.word, "name");
    if (a.d->label) add_column(c, GF_COLUMN_INT32, a.word, "label");
    if (b.d->label) add_column(c, GF_COLUMN_INT32, b.word, "label");
}

static void put_name(gf_lines *l, const gf_discover_data *d, int64_t row) {
    if (d->name) gf_cell_text(l, row < 0 ? "" : d->name[row]);
}

/* No row: an empty cell of a TSV, -1 in a Parquet file. */
static void put_label(gf_lines *l, const gf_discover_data *d, int64_t row) {
    if (d->label && row < 0 && !l->cells) gf_cell_text(l, "");
    else if (d->label) gf_cell_integer(l, row < 0 ? -1 : d->label[row]);
}

void gf_row_cells(gf_lines *l, const gf_discover_data *d, int64_t a, const gf_discover_data *e, int64_t b) {
    put_name(l, d, a);
    put_name(l, e, b);
    put_label(l, d, a);
    put_label(l, e, b);
    gf_row_end(l);
}

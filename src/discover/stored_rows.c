/* stored_rows.c - see stored_rows.h. */
#include "discover/stored_rows.h"

#include <limits.h>
#include <stdlib.h>

#include "discover/table_files.h"
#include "io/npy.h"
#include "util/minmax.h"
#include "util/strings/escape.h"

static void fill_table(const gf_discover_report *x, int32_t *table) {
    const gf_discover_data *d = x->d;
    for (int64_t row = 0; row < d->n; row++) {
        int32_t *to = table + row * GF_STORED_COLUMNS;
        to[GF_STORED_COPY] = d->kind[row] == GF_ROW_ZERO ? GF_STORED_ZERO : GF_STORED_NOT_FINITE;
        to[GF_STORED_COPIES] = 0;
        to[GF_STORED_LABEL] = d->label ? d->label[row] : -1;
    }
    for (int64_t i = 0; i < d->good_n; i++) {
        int32_t *to = table + (int64_t)d->good[i] * GF_STORED_COLUMNS;
        to[GF_STORED_COPY] = d->good[d->copy_of[i]];
        to[GF_STORED_COPIES] = (int32_t)GF_MIN(x->r->f.copies[i], INT32_MAX);
    }
}

int gf_stored_names_escaped(const gf_discover_data *d) {
    for (int64_t i = 0; d->name && i < d->n; i++)
        if (gf_is_not_a_line(d->name[i])) return 1;
    return 0;
}

typedef struct name_lines {
    const gf_discover_data *d;
    int escaped;
} name_lines;

static void fill_names(const void *arg, int64_t from, int64_t to, gf_lines *out) {
    const name_lines *l = arg;
    for (int64_t row = from; row < to; row++) {
        (l->escaped ? gf_lines_escaped : gf_lines_text)(out, l->d->name[row]);
        GF_LINES_PUT(out, "\n");
    }
}

/* "row TAB why" */
static void fill_unreadable(const void *arg, int64_t from, int64_t to, gf_lines *out) {
    const gf_discover_data *d = arg;
    for (int64_t row = from; row < to; row++) {
        if (!d->unreadable[row]) continue;
        gf_lines_integer(out, row);
        GF_LINES_PUT(out, "\t");
        gf_lines_escaped(out, d->unreadable[row]);
        GF_LINES_PUT(out, "\n");
    }
}

static glofnd_status write_list(gf_error *err, const gf_output_folder *to, const gf_discover_report *x, gf_table_files t) {
    t.block = 4096, t.threads = x->s->threads, t.watch = &x->s->watch;
    return gf_table_files_write(err, to, &t);
}

glofnd_status gf_stored_rows_write(gf_error *err, const gf_output_folder *to, const gf_discover_report *x) {
    char path[PATH_MAX];
    TRY(gf_output_folder_path(err, to, "rows.npy", path));
    int32_t *table = malloc((size_t)x->d->n * GF_STORED_COLUMNS * sizeof *table);
    FAIL_IF(err, !table, GLOFND_E_MEMORY, "no memory for a table of %lld rows", (long long)x->d->n);
    fill_table(x, table);
    const gf_npy a = {.type = GF_NPY_I4, .rank = 2, .shape = {x->d->n, GF_STORED_COLUMNS}, .data = table};
    const glofnd_status status = gf_npy_write(err, path, &a);
    free(table);
    TRY(status);
    if (x->d->unreadable)
        TRY(write_list(err, to, x,
                       (gf_table_files){.name = {"unreadable.txt"}, .items = x->d->n, .fill = fill_unreadable, .arg = x->d}));
    if (!x->d->name) return GLOFND_OK;
    const name_lines l = {x->d, gf_stored_names_escaped(x->d)};
    return write_list(err, to, x, (gf_table_files){.name = {"names.txt"}, .items = x->d->n, .fill = fill_names, .arg = &l});
}

static void fill_classes(const void *arg, int64_t from, int64_t to, gf_lines *out) {
    const gf_discover_data *d = arg;
    for (int64_t i = from; i < to; i++) {
        gf_lines_text(out, gf_string_list_get(&d->classes, i));
        GF_LINES_PUT(out, "\n");
    }
}

glofnd_status gf_stored_classes_write(gf_error *err, const gf_output_folder *to, const gf_discover_report *x,
                                      const gf_discover_data *d, const char *name) {
    if (!d->label || !d->classes.n) return GLOFND_OK;
    return write_list(err, to, x, (gf_table_files){.name = {name}, .items = d->classes.n, .fill = fill_classes, .arg = d});
}

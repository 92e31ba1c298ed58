/* stored_rows.c - see stored_rows.h. */
#include "discover/stored_rows.h"

#include <limits.h>
#include <stdlib.h>

#include "discover/table_files.h"
#include "io/npy.h"
#include "util/array.h"
#include "util/text.h"

static void fill_table(const void *arg, int64_t first, int64_t rows, void *to) {
    const gf_discover_report *x = arg;
    const gf_discover_data *d = x->d;
    int32_t *table = to;
    int64_t good = 0, high = d->good_n; /* the first usable row that is not before `first` */
    while (good < high) {
        const int64_t mid = good + (high - good) / 2;
        if (d->good[mid] < first) good = mid + 1;
        else high = mid;
    }
    for (int64_t row = first; row < first + rows; row++, table += GF_STORED_COLUMNS) {
        const int usable = good < d->good_n && d->good[good] == row;
        table[GF_STORED_COPY] = usable                        ? d->good[d->copy_of[good]]
                                : d->kind[row] == GF_ROW_ZERO ? GF_STORED_ZERO
                                                              : GF_STORED_NOT_FINITE;
        table[GF_STORED_COPIES] = usable ? (int32_t)GF_MIN(x->r->f.copies[good], INT32_MAX) : 0;
        table[GF_STORED_LABEL] = d->label ? d->label[row] : -1;
        good += usable;
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
    const gf_npy a = {.type = GF_NPY_I4, .rank = 2, .shape = {x->d->n, GF_STORED_COLUMNS}};
    TRY(gf_npy_write_rows(err, path, &a, fill_table, x));
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

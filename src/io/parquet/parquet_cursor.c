/* parquet_cursor.c - rows of a column; see parquet.h.
 *
 * A value comes with two levels: the repetition level is 0 where a row begins, and the definition level is at its maximum where
 * the value is there and neither it nor a list around it is null. Lists of one length so have levels that are known in advance:
 * anything else is refused, with its row.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "io/parquet/parquet.h"
#include "util/minmax.h"

enum { BATCH = 1024 }; /* levels at a time */

/* ----- columns ----- */

static int holds_floats(const gf_parquet_leaf *l) {
    return l->max_rep == 1 && (l->type == GF_PARQUET_FLOAT || l->type == GF_PARQUET_DOUBLE || l->half);
}

static glofnd_status no_such_column(gf_error *err, const gf_parquet *f, const char *name, int several) {
    char list[220] = "";
    for (int64_t i = 0; i < f->leaves && strlen(list) < 150; i++)
        snprintf(list + strlen(list), sizeof list - strlen(list), "%s%.60s", i ? ", " : "", f->leaf[i].path);
    if (!name)
        GF_FAIL(err, GLOFND_E_ARGUMENT, "%.150s: %s list of floating-point numbers; choose one by --column: %s", f->path,
                several ? "more than one" : "no", list);
    GF_FAIL(err, GLOFND_E_ARGUMENT, "%.150s: %s column '%.60s'; it has %s", f->path, several ? "more than one" : "no", name,
            list);
}

glofnd_status gf_parquet_find(gf_error *err, const gf_parquet *f, const char *name, int64_t *leaf) {
    int64_t found = -1, count = 0;
    for (int64_t i = 0; i < f->leaves; i++) {
        const gf_parquet_leaf *l = &f->leaf[i];
        if (name && strcmp(l->path, name) == 0) {
            *leaf = i;
            return GLOFND_OK;
        }
        if (name ? strlen(name) == l->top && memcmp(name, l->path, l->top) == 0 : holds_floats(l)) found = i, count++;
    }
    if (count != 1) return no_such_column(err, f, name, count > 1);
    *leaf = found;
    return GLOFND_OK;
}

/* ----- cursor ----- */

void gf_parquet_cursor_init(gf_parquet_cursor *c, const gf_parquet *f, int64_t leaf) {
    *c = (gf_parquet_cursor){.f = f, .leaf = leaf, .group = -1};
}

void gf_parquet_cursor_free(gf_parquet_cursor *c) {
    gf_dictionary_free(&c->dict);
    free(c->packed);
    free(c->page);
    free(c->dictionary);
    free(c->last_text);
    *c = (gf_parquet_cursor){.group = -1};
}

static glofnd_status bad_row(gf_error *err, const gf_parquet_cursor *c, const char *what) {
    GF_FAIL(err, GLOFND_E_FORMAT, "%s: row %lld %s", c->where, (long long)c->row, what);
}

/* The next levels, at most n, all of one page; the next row group if this one is used up. */
static glofnd_status next_levels(gf_error *err, gf_parquet_cursor *c, int64_t n, uint32_t *rep, uint32_t *def, int64_t *got) {
    const gf_parquet_leaf *l = &c->f->leaf[c->leaf];
    int64_t left = 0;
    if (c->group >= 0) TRY(gf_parquet_page(err, c, &left));
    while (left == 0) {
        if (c->place != 0) return bad_row(err, c, "ends early");
        if (c->group >= 0 && c->row != c->f->first[c->group + 1]) return bad_row(err, c, "is missing: the column ends before it");
        FAIL_IF(err, c->group + 1 >= c->f->groups, GLOFND_E_FORMAT, "%.300s: no row %lld", c->f->path, (long long)c->row);
        TRY(gf_parquet_enter_group(err, c, c->group + 1));
        TRY(gf_parquet_page(err, c, &left));
    }
    *got = GF_MIN(n, GF_MIN(left, BATCH));
    FAIL_IF(err,
            (l->max_rep && !gf_hybrid_take(&c->rep, rep, (size_t)*got)) ||
                (l->max_def && !gf_hybrid_take(&c->def, def, (size_t)*got)),
            GLOFND_E_FORMAT, "%s: the levels of a page end early, at row %lld", c->where, (long long)c->row);
    c->page_left -= *got;
    return GLOFND_OK;
}

/* Advances over `got` numbers of lists of dim. */
static glofnd_status check_lists(gf_error *err, gf_parquet_cursor *c, int64_t dim, const uint32_t *rep, const uint32_t *def,
                                 int64_t got) {
    const gf_parquet_leaf *l = &c->f->leaf[c->leaf];
    for (int64_t k = 0; k < got; k++) {
        if (rep[k] == 0 && c->place != 0) {
            GF_FAIL(err, GLOFND_E_FORMAT, "%s: row %lld has %lld numbers; expected %lld, as in the first row", c->where,
                    (long long)c->row, (long long)c->place, (long long)dim);
        }
        if (rep[k] != 0 && c->place == 0) {
            c->row--;
            return bad_row(err, c, "has more numbers than the first row");
        }
        if (rep[k] > 1) return bad_row(err, c, "is corrupt: a level above its maximum");
        if (l->max_def && def[k] != (uint32_t)l->max_def)
            return bad_row(err, c, def[k] == 0 ? "is null; embeddings must not be" : "has an empty list, or a null in it");
        if (++c->place == dim) c->place = 0, c->row++;
        if (c->row > c->f->first[c->group + 1]) return bad_row(err, c, "is beyond the rows of its group");
    }
    return GLOFND_OK;
}

static glofnd_status take_lists(gf_error *err, gf_parquet_cursor *c, int64_t rows, int64_t dim, float *out) {
    uint32_t rep[BATCH] = {0}, def[BATCH] = {0};
    float waste[BATCH];
    int64_t got;
    for (int64_t left = rows * dim; left > 0; left -= got) {
        TRY(next_levels(err, c, left, rep, def, &got));
        TRY(check_lists(err, c, dim, rep, def, got));
        FAIL_IF(err, !gf_page_floats(&c->values, out ? out : waste, (size_t)got), GLOFND_E_FORMAT,
                "%s: the values of a page end early or are corrupt, near row %lld", c->where, (long long)c->row);
        if (out) out += got;
    }
    return GLOFND_OK;
}

glofnd_status gf_parquet_floats(gf_error *err, gf_parquet_cursor *c, int64_t rows, int64_t dim, float *out) {
    FAIL_IF(err, rows > c->f->rows - c->row, GLOFND_E_ARGUMENT, "%.300s: rows %lld to %lld of %lld", c->f->path,
            (long long)c->row, (long long)(c->row + rows - 1), (long long)c->f->rows);
    return take_lists(err, c, rows, dim, out);
}

glofnd_status gf_parquet_seek(gf_error *err, gf_parquet_cursor *c, int64_t row) {
    const gf_parquet *f = c->f;
    FAIL_IF(err, row < 0 || row > f->rows, GLOFND_E_ARGUMENT, "%.300s: row %lld of %lld", f->path, (long long)row,
            (long long)f->rows);
    if (c->group >= 0 && c->row == row && c->place == 0) return GLOFND_OK;
    if (row == f->rows) {
        c->group = -1, c->row = row; /* there is nothing to take */
        return GLOFND_OK;
    }
    int64_t group = 0;
    while (f->first[group + 1] <= row) group++;
    if (c->group != group || c->row > row || c->place != 0) TRY(gf_parquet_enter_group(err, c, group));
    if (row == c->row) return GLOFND_OK;
    int64_t dim = 1;
    TRY(gf_parquet_list_length(err, f, c->leaf, &dim));
    return take_lists(err, c, row - c->row, dim, NULL);
}

glofnd_status gf_parquet_list_length(gf_error *err, const gf_parquet *f, int64_t leaf, int64_t *length) {
    const gf_parquet_leaf *l = &f->leaf[leaf];
    gf_parquet_cursor c;
    uint32_t rep[BATCH] = {0}, def[BATCH] = {0};
    int64_t n = 0, got = 0, left = 1, begun = 0;
    FAIL_IF(err, !holds_floats(l), GLOFND_E_FORMAT,
            "%.200s, column '%.80s': not lists of FLOAT, DOUBLE or float16, one per row; those are what embeddings are read from",
            f->path, l->path);
    FAIL_IF(err, f->rows < 1, GLOFND_E_FORMAT, "%.300s: no rows", f->path);
    gf_parquet_cursor_init(&c, f, leaf);
    glofnd_status status = GLOFND_OK;
    while (status == GLOFND_OK && left > 0) {
        if (begun) status = gf_parquet_page(err, &c, &left); /* the list ends with its row group at the latest */
        if (status == GLOFND_OK && left > 0) status = next_levels(err, &c, BATCH, rep, def, &got);
        if (status != GLOFND_OK || left == 0) break;
        for (int64_t k = 0; k < got && left > 0; k++) {
            if (rep[k] == 0 && begun) left = 0;
            else if (l->max_def && def[k] != (uint32_t)l->max_def)
                status = bad_row(err, &c, "is null, empty or has a null in it"), left = 0;
            else n++, begun = 1;
        }
        if (n > GF_PARQUET_LIST_MAX && status == GLOFND_OK) status = bad_row(err, &c, "has more than 2^20 numbers");
    }
    gf_parquet_cursor_free(&c);
    *length = n;
    return status;
}

/* ----- texts ----- */

static glofnd_status add_text(gf_error *err, gf_parquet_cursor *c, gf_string_list *out) {
    const gf_parquet_leaf *l = &c->f->leaf[c->leaf];
    const uint8_t *text = NULL;
    size_t n = 0;
    int64_t number = 0;
    char digits[24];
    if (l->type == GF_PARQUET_BYTES ? !gf_page_text(&c->values, &text, &n) : !gf_page_integer(&c->values, &number))
        return bad_row(err, c, "is corrupt: the values of its page end early");
    if (l->type == GF_PARQUET_BYTES) return gf_string_list_add(err, out, (const char *)text, n);
    const int length = snprintf(digits, sizeof digits, "%lld", (long long)number);
    return gf_string_list_add(err, out, digits, (size_t)length);
}

glofnd_status gf_parquet_texts(gf_error *err, gf_parquet_cursor *c, int64_t rows, gf_string_list *out) {
    const gf_parquet_leaf *l = &c->f->leaf[c->leaf];
    uint32_t rep[BATCH] = {0}, def[BATCH] = {0};
    int64_t got;
    FAIL_IF(err, l->max_rep != 0 || (l->type != GF_PARQUET_BYTES && l->type != GF_PARQUET_INT32 && l->type != GF_PARQUET_INT64),
            GLOFND_E_FORMAT, "%.200s, column '%.80s': names are read from texts or integers, one per row", c->f->path, l->path);
    FAIL_IF(err, rows > c->f->rows - c->row, GLOFND_E_ARGUMENT, "%.300s: it has %lld rows", c->f->path, (long long)c->f->rows);
    for (int64_t left = rows; left > 0; left -= got) {
        TRY(next_levels(err, c, left, rep, def, &got));
        for (int64_t k = 0; k < got; k++, c->row++) {
            const int null = l->max_def && def[k] != (uint32_t)l->max_def;
            if (null && !c->null_is_empty) return bad_row(err, c, "is null; a name is needed");
            if (c->row >= c->f->first[c->group + 1]) return bad_row(err, c, "is beyond the rows of its group");
            TRY(null ? gf_string_list_add(err, out, "", 0) : add_text(err, c, out));
        }
    }
    return GLOFND_OK;
}

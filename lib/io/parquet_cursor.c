/* parquet_cursor.c - rows of a column; see parquet.h.
 *
 * A value comes with two levels: the repetition level is 0 where a row begins, and the definition level is at its maximum where
 * the value is there and neither it nor a list around it is null. A null in a list has levels of its own, a list that is null or
 * empty has one pair of levels; both have no value. Lists of different lengths are refused, with their row.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "io/parquet.h"
#include "util/array.h"

/* ----- columns ----- */

int gf_parquet_is_real(const gf_parquet_leaf *l) {
    return l->type == GF_PARQUET_FLOAT || l->type == GF_PARQUET_DOUBLE || l->half;
}

int gf_parquet_is_integer(const gf_parquet_leaf *l) {
    return (l->type == GF_PARQUET_INT32 || l->type == GF_PARQUET_INT64) && !l->scaled;
}

static int lists_of_reals(const gf_parquet *f) {
    int count = 0;
    for (int64_t i = 0; i < f->leaves; i++) count += f->leaf[i].max_rep == 1 && gf_parquet_is_real(&f->leaf[i]);
    return count;
}

/* reals: there are lists of floating-point numbers, so those of integers are something else. */
static int holds_numbers(const gf_parquet_leaf *l, int reals) {
    return l->max_rep == 1 && (gf_parquet_is_real(l) || (!reals && gf_parquet_is_integer(l)));
}

static glofnd_status no_such_column(gf_error *err, const gf_parquet *f, const char *name, int several) {
    char list[220] = "";
    for (int64_t i = 0; i < f->leaves && strlen(list) < 150; i++)
        if (name || !several || holds_numbers(&f->leaf[i], lists_of_reals(f)))
            snprintf(list + strlen(list), sizeof list - strlen(list), "%s%.60s", *list ? ", " : "", f->leaf[i].path);
    FAIL_IF(err, !name && several, GLOFND_E_ARGUMENT, "%.150s: more than one list of numbers; choose one by --column: %s",
            f->path, list);
    FAIL_IF(err, !name, GLOFND_E_ARGUMENT, "%.150s: no column is a list of numbers, one list per row; it has %s", f->path, list);
    GF_FAIL(err, GLOFND_E_ARGUMENT, "%.150s: %s column '%.60s'; it has %s", f->path, several ? "more than one" : "no", name,
            list);
}

glofnd_status gf_parquet_find(gf_error *err, const gf_parquet *f, const char *name, int64_t *leaf) {
    int64_t found = -1, count = 0;
    const int reals = lists_of_reals(f);
    for (int64_t i = 0; i < f->leaves; i++) {
        const gf_parquet_leaf *l = &f->leaf[i];
        if (name && strcmp(l->path, name) == 0) {
            *leaf = i;
            return GLOFND_OK;
        }
        if (name ? strlen(name) == l->top && memcmp(name, l->path, l->top) == 0 : holds_numbers(l, reals)) found = i, count++;
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
    *got = GF_MIN(n, GF_MIN(left, GF_PARQUET_BATCH));
    FAIL_IF(err,
            (l->max_rep && !gf_hybrid_take(&c->rep, rep, (size_t)*got)) ||
                (l->max_def && !gf_hybrid_take(&c->def, def, (size_t)*got)),
            GLOFND_E_FORMAT, "%s: the levels of a page end early, at row %lld", c->where, (long long)c->row);
    c->page_left -= *got;
    return GLOFND_OK;
}

/* The next level is that of lists of dim numbers. */
static glofnd_status check_level(gf_error *err, gf_parquet_cursor *c, int64_t dim) {
    const gf_parquet_leaf *l = &c->f->leaf[c->leaf];
    const uint32_t rep = c->rep_level[c->level], def = c->def_level[c->level];
    FAIL_IF(err, rep == 0 && c->place != 0, GLOFND_E_FORMAT, "%s: row %lld has %lld numbers; expected %lld, as in the first row",
            c->where, (long long)c->row, (long long)c->place, (long long)dim);
    if (rep != 0 && c->place == 0) {
        c->row--;
        return bad_row(err, c, "has more numbers than the first row");
    }
    if (rep > 1 || (l->max_def && def > (uint32_t)l->max_def)) return bad_row(err, c, "is corrupt: a level above its maximum");
    if (rep > 0 && def < (uint32_t)l->list_def && l->max_def)
        return bad_row(err, c, "is corrupt: a value continues a list that has not begun");
    return c->row < c->f->first[c->group + 1] ? GLOFND_OK : bad_row(err, c, "is beyond the rows of its group");
}

static int is_null(const gf_parquet_cursor *c) {
    const gf_parquet_leaf *l = &c->f->leaf[c->leaf];
    return l->max_def && c->def_level[c->level] != (uint32_t)l->max_def;
}

static void advance(gf_parquet_cursor *c, int64_t dim, int64_t numbers) {
    c->place += numbers;
    if (c->place == dim) c->place = 0, c->row++;
    c->level++;
}

/* Numbers to *out, which is NULL if they are not wanted. */
static glofnd_status take_values(gf_error *err, gf_parquet_cursor *c, int64_t count, float **out) {
    float waste[GF_PARQUET_BATCH];
    FAIL_IF(err, count > 0 && !gf_page_floats(&c->values, *out ? *out : waste, (size_t)count), GLOFND_E_FORMAT,
            "%s: the values of a page end early or are corrupt, near row %lld", c->where, (long long)c->row);
    if (*out) *out += count;
    return GLOFND_OK;
}

static void take_nans(int64_t count, float **out) {
    for (int64_t i = 0; *out && i < count; i++) *(*out)++ = NAN;
}

/* Numbers up to a null, and that; or to the end of the rows, or of the levels that were read. */
static glofnd_status take_run(gf_error *err, gf_parquet_cursor *c, int64_t end, int64_t dim, float **out) {
    int64_t values = 0;
    while (c->level < c->levels && c->row < end) {
        TRY(check_level(err, c, dim));
        if (is_null(c)) break;
        advance(c, dim, 1);
        values++;
    }
    TRY(take_values(err, c, values, out));
    if (c->level == c->levels || c->row == end) return GLOFND_OK;
    const int64_t missing = c->def_level[c->level] < (uint32_t)c->f->leaf[c->leaf].list_def ? dim : 1;
    take_nans(missing, out);
    advance(c, dim, missing);
    return GLOFND_OK;
}

static glofnd_status take_lists(gf_error *err, gf_parquet_cursor *c, int64_t rows, int64_t dim, float *out) {
    const int64_t end = c->row + rows;
    while (c->row < end) {
        if (c->level == c->levels) {
            int64_t got = 0;
            TRY(next_levels(err, c, GF_PARQUET_BATCH, c->rep_level, c->def_level, &got));
            c->level = 0, c->levels = got;
        }
        TRY(take_run(err, c, end, dim, &out));
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
    if (f->leaf[c->leaf].max_rep) TRY(gf_parquet_list_length(err, f, c->leaf, &dim));
    return take_lists(err, c, row - c->row, dim, NULL);
}

/* Goes on counting the numbers of the first list in the levels that were read; 0: it has ended. */
static int count_numbers(gf_parquet_cursor *c, int64_t *begun, int64_t *length) {
    const gf_parquet_leaf *l = &c->f->leaf[c->leaf];
    for (int64_t k = 0; k < c->levels; k++) {
        if (*begun && c->rep_level[k] == 0) return 0;
        if (*begun || !l->max_def || c->def_level[k] >= (uint32_t)l->list_def) ++*length, *begun = 1;
        else c->row++;
    }
    return 1;
}

glofnd_status gf_parquet_list_length(gf_error *err, const gf_parquet *f, int64_t leaf, int64_t *length) {
    const gf_parquet_leaf *l = &f->leaf[leaf];
    gf_parquet_cursor c;
    int64_t left = 1, begun = 0;
    FAIL_IF(err, !holds_numbers(l, 0), GLOFND_E_FORMAT,
            "%.200s, column '%.80s': not lists of numbers, one per row; those are what embeddings are read from", f->path,
            l->path);
    FAIL_IF(err, f->rows < 1, GLOFND_E_FORMAT, "%.300s: no rows", f->path);
    gf_parquet_cursor_init(&c, f, leaf);
    glofnd_status status = GLOFND_OK;
    *length = 0;
    while (status == GLOFND_OK && left > 0) {
        if (begun) status = gf_parquet_page(err, &c, &left); /* the list ends with its row group at the latest */
        if (status != GLOFND_OK || left == 0) break;
        if (c.row < f->rows) status = next_levels(err, &c, GF_PARQUET_BATCH, c.rep_level, c.def_level, &c.levels);
        else status = gf_fail(err, GLOFND_E_FORMAT, "%.200s, column '%.80s': every row is null", f->path, l->path);
        if (status == GLOFND_OK && !count_numbers(&c, &begun, length)) break;
        if (*length > GF_PARQUET_LIST_MAX && status == GLOFND_OK) status = bad_row(err, &c, "has more than 2^20 numbers");
    }
    gf_parquet_cursor_free(&c);
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
    if (n > 0 && memchr(text, 0, n)) return bad_row(err, c, "has a zero byte; names are texts without");
    if (l->type == GF_PARQUET_BYTES) return gf_string_list_add(err, out, (const char *)text, n);
    const int length = snprintf(digits, sizeof digits, "%lld", (long long)number);
    return gf_string_list_add(err, out, digits, (size_t)length);
}

/* Integers beside missing ones, as pandas has them: NaN is none. */
static glofnd_status add_whole_number(gf_error *err, gf_parquet_cursor *c, gf_string_list *out) {
    const gf_parquet_leaf *l = &c->f->leaf[c->leaf];
    char digits[24] = "";
    float x;
    if (!gf_page_floats(&c->values, &x, 1)) return bad_row(err, c, "is corrupt: the values of its page end early");
    FAIL_IF(err, !isnan(x) && (x != floorf(x) || fabsf(x) >= 16777216.0f), GLOFND_E_FORMAT,
            "%.200s, column '%.80s': labels are read from texts or integers, one per row; row %lld has %.9g", c->f->path, l->path,
            (long long)c->row, (double)x);
    const int length = isnan(x) ? 0 : snprintf(digits, sizeof digits, "%d", (int)x);
    return gf_string_list_add(err, out, digits, (size_t)length);
}

static int holds_floats(const gf_parquet_leaf *l) { return l->type == GF_PARQUET_FLOAT || l->type == GF_PARQUET_DOUBLE; }

glofnd_status gf_parquet_texts(gf_error *err, gf_parquet_cursor *c, int64_t rows, gf_string_list *out) {
    const gf_parquet_leaf *l = &c->f->leaf[c->leaf];
    uint32_t rep[GF_PARQUET_BATCH] = {0}, def[GF_PARQUET_BATCH] = {0};
    int64_t got;
    const int floats = c->null_is_empty && holds_floats(l);
    const int fits = floats || l->type == GF_PARQUET_BYTES || l->type == GF_PARQUET_INT32 || l->type == GF_PARQUET_INT64;
    FAIL_IF(err, l->max_rep != 0 || !fits, GLOFND_E_FORMAT,
            "%.200s, column '%.80s': %s are read from texts or integers, one per row", c->f->path, l->path,
            c->null_is_empty ? "labels" : "names");
    FAIL_IF(err, rows > c->f->rows - c->row, GLOFND_E_ARGUMENT, "%.300s: it has %lld rows", c->f->path, (long long)c->f->rows);
    for (int64_t left = rows; left > 0; left -= got) {
        TRY(next_levels(err, c, left, rep, def, &got));
        for (int64_t k = 0; k < got; k++, c->row++) {
            const int null = l->max_def && def[k] != (uint32_t)l->max_def;
            if (null && !c->null_is_empty) return bad_row(err, c, "is null; a name is needed");
            if (c->row >= c->f->first[c->group + 1]) return bad_row(err, c, "is beyond the rows of its group");
            TRY(null ? gf_string_list_add(err, out, "", 0) : floats ? add_whole_number(err, c, out) : add_text(err, c, out));
        }
    }
    return GLOFND_OK;
}

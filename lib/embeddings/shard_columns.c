/* shard_columns.c - embeddings in files with columns: tables (.csv, .tsv) and Parquet files; see embedding_set.h.
 *
 * A table has columns of numbers, or one column with a list such as "[0.1, 0.2]", and a
 * column of names. The text is read once, into numbers.
 *
 * The first line holds titles if the input names a column, an id or a label, or if none of its cells is a number or list, or if
 * its numbers are just 0, 1, 2 ... as data frames without titles are written. 0 and 1 alone may be a row: they are titles where
 * the first cell is empty, or the next line has a decimal point. A first column without a title is the index of a data frame:
 * names. Blanks around titles, numbers and labels do not count; names are taken as they are.
 * What a column holds is said by its first cell that is not empty. Columns of integers whose title is that of an id or of labels
 * are no dimensions, and texts with a title of labels are no names.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "embeddings/embedding_set.h"
#include "io/file.h"
#include "io/parquet.h"
#include "util/array.h"
#include "util/string_list.h"
#include "util/text.h"

/* ----- what a column is, by its title ----- */

/* Which columns of a table are dimensions of an embedding, by their titles: an integer column named "id" or
 * "label" is none. */

typedef enum column_role { ROLE_DIMENSION, ROLE_ID, ROLE_LABEL } column_role;

typedef struct column_choice {
    const gf_string_list *titles;
    const uint8_t *dimension; /* [titles->n] 1: one of the embedding's numbers */
    int64_t list, id, label;  /* columns; -1: none. list: the embedding is in this one */
} column_choice;

/* Of a column of integers, by its title in any case. id, idx, index, sample, "Unnamed: 0" and a first one without title: ID.
 * label, labels, class, target, and y unless there is an x: LABEL. */
static column_role role_by_title(const gf_string_list *titles, int64_t i) {
    static const struct {
        const char *title;
        column_role role;
    } known[] = {{"id", ROLE_ID},
                 {"idx", ROLE_ID},
                 {"index", ROLE_ID},
                 {"unnamed: 0", ROLE_ID},
                 {"sample", ROLE_ID},
                 {"label", ROLE_LABEL},
                 {"labels", ROLE_LABEL},
                 {"class", ROLE_LABEL},
                 {"target", ROLE_LABEL},
                 {"y", ROLE_LABEL},
                 {"__index_level_0__", ROLE_ID}};
    const char *title = gf_string_list_get(titles, i);
    if (i == 0 && !title[0] && titles->n > 1) return ROLE_ID; /* the index of a data frame */
    for (int64_t k = 0; strcasecmp(title, "y") == 0 && k < titles->n; k++)
        if (strcasecmp(gf_string_list_get(titles, k), "x") == 0) return ROLE_DIMENSION;
    for (size_t k = 0; k < sizeof known / sizeof *known; k++)
        if (strcasecmp(title, known[k].title) == 0) return known[k].role;
    return ROLE_DIMENSION;
}

typedef struct words {
    char *out;
    size_t used, bytes;
} words;

static void add_words(words *w, const char *before, const char *text, const char *after) {
    const int n = snprintf(w->out + w->used, w->bytes - w->used, "%s%.60s%s", before, text, after);
    w->used += n > 0 ? (size_t)n : 0;
    if (w->used >= w->bytes) w->used = w->bytes - 1;
}

static const char *title_of(const gf_string_list *titles, int64_t i) {
    const char *title = gf_string_list_get(titles, i);
    return title[0] ? title : i == 0 ? "the first one" : "one without a title";
}

/* The choice in words: "16 columns, e0 to e15; names: id; left out: label". Cut where `bytes` end. */
static void describe_columns(const column_choice *c, char *out, size_t bytes) {
    words w = {.out = out, .bytes = bytes};
    int64_t left = 0;
    out[0] = 0;
    if (c->list >= 0) add_words(&w, "column ", title_of(c->titles, c->list), "");
    else {
        int64_t count = 0, first = -1, last = -1;
        char number[32];
        for (int64_t i = 0; i < c->titles->n; i++)
            if (c->dimension[i]) first = first < 0 ? i : first, last = i, count++;
        snprintf(number, sizeof number, "%lld", (long long)count);
        add_words(&w, "", number, count == 1 ? " column" : " columns");
        if (first >= 0) add_words(&w, ", ", title_of(c->titles, first), "");
        if (last > first) add_words(&w, " to ", title_of(c->titles, last), "");
    }
    if (c->id >= 0) add_words(&w, "; names: ", title_of(c->titles, c->id), "");
    if (c->label >= 0) add_words(&w, "; labels: ", title_of(c->titles, c->label), "");
    for (int64_t i = 0; i < c->titles->n; i++) {
        const int used = i == c->list || i == c->id || i == c->label || (c->list < 0 && c->dimension[i]);
        if (!used && left++ < 3) add_words(&w, left == 1 ? "; left out: " : ", ", title_of(c->titles, i), "");
    }
    if (left > 3) add_words(&w, ", ...", "", "");
    gf_utf8_trim(out);
}

/* ----- tables: cells ----- */

enum { DIMENSION = 1, LEFT_OUT = 2 }; /* left out: integers that are an id or labels */
typedef enum cell { CELL_TEXT, CELL_NUMBER, CELL_LIST } cell;

typedef struct look { /* of a column */
    cell kind;
    uint8_t known, integer; /* known: a cell of it says something */
} look;

typedef struct table {
    float *x; /* [rows][dim] */
    size_t capacity, used;
    gf_string_list names, labels;
    /* while it is read: */
    gf_csv csv;
    gf_string_list row;
    int64_t columns;
    int64_t list, id, label; /* columns; -1: none */
    uint8_t *number;         /* [columns] DIMENSION, LEFT_OUT; 0: neither */
    look *looks;             /* [columns] */
    gf_string_list titles;   /* none: the first line is a row */
} table;

static const char blanks[] = " \t";

/* The text without blanks around it: where it begins, and its length. */
static const char *bare(const char *text, size_t *length) {
    const char *at = text + strspn(text, blanks);
    *length = strlen(at);
    while (*length > 0 && strchr(blanks, at[*length - 1])) --*length;
    return at;
}

static int is_empty(const char *text) { return text[strspn(text, blanks)] == 0; }

/* Also nan, inf and None, which make a bad row, not a bad file. 0: not a number. */
static int read_bare_number(const char *text, double *x) {
    static const char *const others[] = {"nan", "inf", "-inf", "+inf", "-nan", "infinity", "-infinity", "none", "null"};
    if (!gf_measure_read(text, x)) return 1;
    *x = NAN;
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (strcasecmp(text, others[i]) == 0) return 1;
    return 0;
}

static int read_number(const char *text, double *x) {
    char copy[64];
    size_t n;
    const char *at = bare(text, &n);
    if (at[n] == 0 || n >= sizeof copy) return read_bare_number(at, x);
    memcpy(copy, at, n);
    copy[n] = 0;
    return read_bare_number(copy, x);
}

static cell cell_of(const char *text) {
    double x;
    const char *at = text + strspn(text, " \t\r\n");
    if (*at == '[' || *at == '(') return CELL_LIST;
    return read_number(text, &x) ? CELL_NUMBER : CELL_TEXT;
}

/* Also 3.0 and an empty cell, as data frames write integers of which some are missing. */
static int is_integer(const char *text) {
    double x;
    return is_empty(text) || (read_number(text, &x) && x == floor(x) && fabs(x) < 9e15);
}

static const char *cell_at(const table *t, int64_t i) { return gf_string_list_get(&t->row, i); }

static glofnd_status make_room(gf_error *err, const gf_shard *s, table *t, size_t numbers) {
    FAIL_IF(err, !gf_grow(&t->x, &t->capacity, numbers, sizeof *t->x), GLOFND_E_MEMORY, "%.300s: no memory for its numbers",
            s->path);
    return GLOFND_OK;
}

static glofnd_status add_embedding(gf_error *err, gf_shard *s, table *t) {
    const size_t before = t->used;
    if (t->list >= 0) {
        /* Adds the numbers of a list: separated by commas, semicolons or blanks, in brackets or not. */
        const char *text = cell_at(t, t->list);
        static const char between[] = " \t\r\n,;[]()";
        for (const char *at = text + strspn(text, between); *at; at += strspn(at, between)) {
            char digits[64];
            double x = 0.0;
            const size_t n = strcspn(at, between);
            snprintf(digits, sizeof digits, "%.*s", (int)GF_MIN(n, sizeof digits - 1), at);
            FAIL_IF(err, n >= sizeof digits || !read_number(digits, &x), GLOFND_E_FORMAT,
                    "%.300s, line %lld: '%.20s' in a list is not a number", s->path, (long long)t->csv.line, digits);
            TRY(make_room(err, s, t, t->used + 1));
            t->x[t->used++] = (float)x;
            at += n;
        }
    } else {
        for (int64_t c = 0; c < t->columns; c++) {
            double x;
            FAIL_IF(err, t->number[c] == LEFT_OUT && !is_integer(cell_at(t, c)), GLOFND_E_FORMAT,
                    "%.300s, line %lld: '%.40s' in column '%.60s', which was taken for an id or labels: its first cell is an "
                    "integer; give it another title, or choose the embeddings: column=NAME",
                    s->path, (long long)t->csv.line, cell_at(t, c), gf_string_list_get(&t->titles, c));
            if (t->number[c] != DIMENSION) continue;
            const char *text = is_empty(cell_at(t, c)) ? "nan" : cell_at(t, c); /* as data frames write what is missing */
            FAIL_IF(err, !read_number(text, &x), GLOFND_E_FORMAT, "%.300s, line %lld, column %lld: '%.40s' is not a number",
                    s->path, (long long)t->csv.line, (long long)c + 1, cell_at(t, c));
            TRY(make_room(err, s, t, t->used + 1));
            t->x[t->used++] = (float)x;
        }
    }
    /* No list, an empty one, or None. */
    if (t->list >= 0 && (t->used == before || (t->used == before + 1 && isnan(t->x[before])))) {
        /* Before the first list its length is not known: 0. */
        const size_t end = before + (size_t)s->dim;
        TRY(make_room(err, s, t, end));
        for (t->used = before; t->used < end; t->used++) t->x[t->used] = NAN;
        return GLOFND_OK;
    }
    if (s->dim == 0) {
        /* The first list: the rows before it, which have none, get its length. */
        const size_t first_dim = t->used, first_before = (size_t)s->rows * first_dim;
        TRY(make_room(err, s, t, first_before + first_dim));
        memmove(t->x + first_before, t->x, first_dim * sizeof *t->x);
        for (size_t i = 0; i < first_before; i++) t->x[i] = NAN;
        t->used = first_before + first_dim;
        s->dim = (int64_t)first_dim;
        return GLOFND_OK;
    }
    const int64_t dim = (int64_t)(t->used - before);
    FAIL_IF(err, dim != s->dim, GLOFND_E_FORMAT, "%.300s, line %lld: %lld numbers; expected %lld, as in the first row", s->path,
            (long long)t->csv.line, (long long)dim, (long long)s->dim);
    return GLOFND_OK;
}

static glofnd_status check_width(gf_error *err, const gf_shard *s, const table *t) {
    FAIL_IF(err, t->row.n != t->columns, GLOFND_E_FORMAT, "%.300s, line %lld: %lld columns; the first line has %lld", s->path,
            (long long)t->csv.line, (long long)t->row.n, (long long)t->columns);
    return GLOFND_OK;
}

static glofnd_status add_bare(gf_error *err, gf_string_list *out, const char *text) {
    size_t n;
    const char *at = bare(text, &n);
    return gf_string_list_add(err, out, at, n);
}

/* ----- tables: columns ----- */

static int has_titles(const table *t, const gf_embedding_input *in) {
    int64_t numbers = 0, rising = 0, digits = 0;
    if (in->column || in->id || in->label) return 1;
    for (int64_t i = 0; i < t->row.n; i++) {
        const cell kind = cell_of(cell_at(t, i));
        double x;
        size_t n;
        if (kind == CELL_LIST) return 0;
        if (kind != CELL_NUMBER || !read_number(cell_at(t, i), &x)) continue;
        bare(cell_at(t, i), &n);
        rising += x == (double)numbers++;
        digits += n == 1;
    }
    if (numbers == 2 && digits == 2 && rising == 2) { /* 0 and 1: titles of an index, or if the next line has a point */
        const size_t left = (size_t)(t->csv.end - t->csv.at);
        const char *end = memchr(t->csv.at, '\n', left);
        return is_empty(cell_at(t, 0)) || memchr(t->csv.at, '.', end ? (size_t)(end - t->csv.at) : left);
    }
    return numbers == 0 || (numbers > 2 && rising == numbers);
}

static glofnd_status find_title(gf_error *err, const gf_shard *s, const table *t, const char *title, int64_t *column) {
    *column = -1;
    for (int64_t i = 0; title && i < t->row.n; i++) {
        size_t n;
        const char *text = cell_at(t, i), *at = bare(text, &n);
        if (strcmp(text, title) == 0 || (strlen(title) == n && memcmp(at, title, n) == 0)) *column = i;
    }
    FAIL_IF(err, title && *column < 0, GLOFND_E_ARGUMENT, "%.300s: no column '%.80s' in its first line", s->path, title);
    return GLOFND_OK;
}

/* 0: an empty cell, nan, None and the like. */
static int says_something(const char *text) {
    double x;
    return !is_empty(text) && !(read_number(text, &x) && isnan(x));
}

/* 1: all columns are known. */
static int look_at_row(table *t, const gf_string_list *row) {
    int all = 1;
    for (int64_t i = 0; i < t->columns && i < row->n; i++) {
        const char *text = gf_string_list_get(row, i);
        if (t->looks[i].known) continue;
        if (says_something(text) || row == &t->row)
            t->looks[i] = (look){cell_of(text), (uint8_t)says_something(text), (uint8_t)is_integer(text)};
        all &= t->looks[i].known;
    }
    return all;
}

/* Behind a byte order mark and empty lines. */
static gf_csv begin_table(const char *path, char *text, size_t bytes) {
    char *at = text + (bytes >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0 ? 3 : 0), *const end = text + bytes;
    int64_t line = 1;
    for (; at < end && (*at == '\r' || *at == '\n'); at++) line += *at == '\n';
    gf_csv csv = gf_csv_begin(path, at, end);
    csv.next_line = line;
    csv.keep_breaks = 1;
    return csv;
}

static glofnd_status read_table(gf_error *err, gf_shard *s, const gf_embedding_input *in, table *t, char *text, size_t bytes) {
    t->csv = begin_table(s->path, text, bytes);
    TRY(gf_csv_next(err, &t->csv, &t->row));
    FAIL_IF(err, t->row.n == 1 && strchr(cell_at(t, 0), ';'), GLOFND_E_FORMAT,
            "%.300s: its columns are separated by semicolons; expected commas or tabs, and decimal points", s->path);
    if (has_titles(t, in)) {
        TRY(find_title(err, s, t, in->column, &t->list));
        TRY(find_title(err, s, t, in->id, &t->id));
        TRY(find_title(err, s, t, in->label, &t->label));
        if (!in->id && t->row.n > 1 && is_empty(cell_at(t, 0))) t->id = 0; /* the index of a data frame: no title */
        for (int64_t i = 0; i < t->row.n; i++) TRY(add_bare(err, &t->titles, cell_at(t, i)));
        TRY(gf_csv_next(err, &t->csv, &t->row));
    }
    while (t->csv.blank) TRY(gf_csv_next(err, &t->csv, &t->row));
    if (t->row.n == 0) return GLOFND_OK;
    t->columns = t->titles.n > 0 ? t->titles.n : t->row.n;
    TRY(check_width(err, s, t));
    t->number = calloc((size_t)t->columns, sizeof *t->number);
    t->looks = calloc((size_t)t->columns, sizeof *t->looks);
    FAIL_IF(err, !t->number || !t->looks, GLOFND_E_MEMORY, "%.300s: no memory", s->path);
    /* By the first row of data and, if that has nothing in a column, by those after it: of a copy, as fields change the text. */
    gf_string_list row = {0};
    gf_csv ahead = t->csv;
    const size_t left = (size_t)(t->csv.end - t->csv.at);
    if (!look_at_row(t, &t->row) && left != 0) {
        char *copy = malloc(left);
        FAIL_IF(err, !copy, GLOFND_E_MEMORY, "%.300s: no memory", s->path);
        memcpy(copy, t->csv.at, left);
        ahead.at = copy;
        ahead.end = copy + left;
        glofnd_status status = gf_csv_next(err, &ahead, &row);
        while (status == GLOFND_OK && row.n > 0 && !look_at_row(t, &row)) status = gf_csv_next(err, &ahead, &row);
        gf_string_list_free(&row);
        free(copy);
        TRY(status);
    }
    int64_t lists = 0, texts = 0, numbers = 0, only_text = -1, list = -1;
    for (int64_t i = 0; i < t->columns; i++) {
        const cell kind = t->looks[i].kind;
        if (kind == CELL_TEXT && !t->looks[i].known) continue; /* nothing but empty cells */
        if (i == t->id || i == t->label ||
            (kind == CELL_TEXT && (i < t->titles.n ? role_by_title(&t->titles, i) : ROLE_DIMENSION) == ROLE_LABEL))
            continue;
        if (kind == CELL_LIST) list = i, lists++;
        else if (kind == CELL_TEXT) only_text = i, texts++;
        else t->number[i] = DIMENSION, numbers++;
    }
    if (t->list < 0 && lists == 1) t->list = list;
    FAIL_IF(err, t->list < 0 && (lists > 1 || numbers == 0), GLOFND_E_FORMAT,
            "%.300s: %s; choose the column of embeddings: column=NAME", s->path,
            lists > 1 ? "more than one column of lists"
                      : "no column of numbers, no list of them (columns are separated by commas or tabs)");
    /* Columns of an id and of labels are no dimensions; the first id is a name, unless there is another one. */
    for (int64_t i = 0; i < t->titles.n && i < t->columns; i++) {
        const column_role role = role_by_title(&t->titles, i);
        if (!t->number[i] || role == ROLE_DIMENSION || !t->looks[i].integer) continue;
        t->number[i] = LEFT_OUT, --numbers;
        if (role == ROLE_ID && !in->id && t->id < 0) t->id = i;
    }
    FAIL_IF(err, t->list < 0 && numbers == 0, GLOFND_E_FORMAT,
            "%.300s: no column of numbers but an id or labels; choose the column of embeddings: column=NAME", s->path);
    if (!in->id && texts == 1 && only_text != t->list) t->id = only_text;
    FAIL_IF(err, !in->id && !in->column && texts > 1, GLOFND_E_FORMAT, "%.300s: %lld columns of text; choose the names: id=NAME",
            s->path, (long long)texts);
    while (t->row.n > 0) {
        if (!t->csv.blank) {
            TRY(check_width(err, s, t));
            TRY(add_embedding(err, s, t));
            FAIL_IF(err, s->rows >= INT32_MAX - 1, GLOFND_E_FORMAT, "%.300s: more than 2^31 - 2 rows", s->path);
            s->rows++;
            if (t->label >= 0) TRY(add_bare(err, &t->labels, cell_at(t, t->label)));
            if (t->id >= 0) TRY(gf_string_list_add(err, &t->names, cell_at(t, t->id), strlen(cell_at(t, t->id))));
        }
        TRY(gf_csv_next(err, &t->csv, &t->row));
    }
    FAIL_IF(err, s->dim == 0, GLOFND_E_FORMAT, "%.300s: no row has numbers", s->path);
    s->named = t->id >= 0;
    for (int64_t i = 0; i < t->columns; i++) t->number[i] = t->number[i] == DIMENSION;
    const column_choice c = {&t->titles, t->number, t->list, t->id, t->label};
    if (t->titles.n > 0) describe_columns(&c, s->columns, sizeof s->columns);
    return GLOFND_OK;
}

static glofnd_status open_table(gf_error *err, const gf_embedding_input *in, gf_shard *s) {
    table *t = calloc(1, sizeof *t);
    uint8_t *text = NULL;
    size_t capacity = 0, bytes = 0;
    FAIL_IF(err, !t, GLOFND_E_MEMORY, "%.300s: no memory", s->path);
    s->state = t;
    t->list = t->id = t->label = -1;
    glofnd_status status = gf_file_read_text(err, s->path, GF_LIST_BYTES_MAX, &text, &capacity, &bytes);
    if (status == GLOFND_OK) status = read_table(err, s, in, t, (char *)text, bytes);
    free(text);
    gf_string_list_free(&t->row);
    gf_string_list_free(&t->titles);
    free(t->number);
    free(t->looks);
    t->number = NULL;
    t->looks = NULL;
    return status;
}

static glofnd_status read_rows(gf_error *err, gf_shard *s, int64_t first, int64_t rows, float *x) {
    const table *t = s->state;
    (void)err;
    memcpy(x, t->x + first * s->dim, (size_t)(rows * s->dim) * sizeof *x);
    return GLOFND_OK;
}

static glofnd_status add_all(gf_error *err, const gf_string_list *from, gf_string_list *out) {
    for (int64_t i = 0; i < from->n; i++) {
        const char *text = gf_string_list_get(from, i);
        TRY(gf_string_list_add(err, out, text, strlen(text)));
    }
    return GLOFND_OK;
}

static glofnd_status table_names(gf_error *err, gf_shard *s, gf_string_list *out) {
    const table *t = s->state;
    return add_all(err, &t->names, out);
}

static glofnd_status table_labels(gf_error *err, gf_shard *s, gf_string_list *out) {
    const table *t = s->state;
    return add_all(err, &t->labels, out);
}

static void close_table(gf_shard *s) {
    table *t = s->state;
    if (!t) return;
    free(t->x);
    gf_string_list_free(&t->names);
    gf_string_list_free(&t->labels);
    free(t);
    s->state = NULL;
}

/* ----- tables: one column alone ----- */

static glofnd_status add_column(gf_error *err, const gf_shard *s, const char *title, table *t, gf_string_list *out) {
    int64_t column;
    TRY(gf_csv_next(err, &t->csv, &t->row));
    TRY(find_title(err, s, t, title, &column));
    t->columns = t->row.n;
    TRY(gf_csv_next(err, &t->csv, &t->row));
    while (t->row.n > 0) {
        if (!t->csv.blank) {
            TRY(check_width(err, s, t));
            TRY(gf_string_list_add(err, out, cell_at(t, column), strlen(cell_at(t, column))));
        }
        TRY(gf_csv_next(err, &t->csv, &t->row));
    }
    return GLOFND_OK;
}

static glofnd_status texts_of_table(gf_error *err, const char *path, const char *title, gf_string_list *out) {
    const gf_shard s = {.path = path};
    table t = {0};
    uint8_t *text = NULL;
    size_t capacity = 0, bytes = 0;
    glofnd_status status = gf_file_read_text(err, path, GF_LIST_BYTES_MAX, &text, &capacity, &bytes);
    if (status == GLOFND_OK) t.csv = begin_table(path, (char *)text, bytes);
    if (status == GLOFND_OK) status = add_column(err, &s, title, &t, out);
    gf_string_list_free(&t.row);
    free(text);
    return status;
}

const gf_shard_kind gf_shard_table = {
    .open = open_table, .read = read_rows, .names = table_names, .labels = table_labels, .close = close_table};

/* ----- Parquet files -----
 *
 * Embeddings in a list column of a Parquet file, or in a column per dimension, names in another one.
 * Columns per dimension are read one after the other: all of them open at once would take a page of memory
 * each. */

#define VALUES_PER_BYTE ((int64_t)1 << 20) /* more than any page packs: a footer cannot ask for memory without limit */

typedef struct parquet_shard {
    gf_parquet f;
    gf_parquet_cursor c;
    int64_t id, label;  /* leaves of names, labels; -1: none */
    uint8_t *dimension; /* [leaves] 1: a column per dimension; NULL: lists */
} parquet_shard;

static glofnd_status check_size(gf_error *err, const gf_shard *s, const gf_parquet *f, int64_t leaf, int64_t each) {
    for (int64_t g = 0; g < f->groups; g++) {
        const gf_parquet_chunk *c = &f->chunk[g * f->leaves + leaf];
        const double values = (double)(f->first[g + 1] - f->first[g]) * (double)each;
        FAIL_IF(err, values > (double)c->bytes * (double)VALUES_PER_BYTE, GLOFND_E_FORMAT,
                "%.300s, row group %lld: %.3g numbers in %llu bytes; the footer is corrupt", s->path, (long long)g, values,
                (unsigned long long)c->bytes);
    }
    return GLOFND_OK;
}

static glofnd_status choose_columns(gf_error *err, const gf_embedding_input *in, const gf_string_list *titles, gf_shard *s) {
    parquet_shard *p = s->state;
    int64_t leaf = -1;
    int wide = !in->column; /* without a list of numbers */
    for (int64_t i = 0; i < p->f.leaves; i++) {
        const gf_parquet_leaf *l = &p->f.leaf[i];
        wide &= !l->max_rep || l->map || !(gf_parquet_is_real(l) || gf_parquet_is_integer(l));
    }
    if (wide) {
        /* As tables do it: all columns of numbers but an id and labels; names are the only text, but labels, or else the id. */
        int64_t texts = 0, text = -1, id = -1;
        p->dimension = calloc((size_t)p->f.leaves + 1, 1);
        FAIL_IF(err, !p->dimension, GLOFND_E_MEMORY, "%.300s: no memory", s->path);
        for (int64_t i = 0; i < p->f.leaves; i++) {
            const gf_parquet_leaf *l = &p->f.leaf[i];
            const column_role role = gf_parquet_is_real(l) ? ROLE_DIMENSION : role_by_title(titles, i);
            const int flat = l->max_rep == 0 && strlen(l->path) == l->top,
                      number = gf_parquet_is_real(l) || gf_parquet_is_integer(l);
            if (!flat || i == p->id || i == p->label) continue;
            if (l->type == GF_PARQUET_BYTES && role != ROLE_LABEL) text = i, texts++;
            if (number && role == ROLE_ID && id < 0) id = i;
            if (!number || role != ROLE_DIMENSION) continue;
            p->dimension[i] = 1, s->dim++;
            TRY(check_size(err, s, &p->f, i, 1));
        }
        if (!in->id) p->id = texts == 1 ? text : id;
    }
    if (!wide || s->dim == 0) {
        TRY(gf_parquet_find(err, &p->f, in->column, &leaf));
        TRY(gf_parquet_list_length(err, &p->f, leaf, &s->dim));
        TRY(check_size(err, s, &p->f, leaf, s->dim));
        gf_parquet_cursor_init(&p->c, &p->f, leaf);
    }
    const column_choice c = {titles, p->dimension, leaf, p->id, p->label};
    describe_columns(&c, s->columns, sizeof s->columns);
    return GLOFND_OK;
}

static glofnd_status open_parquet(gf_error *err, const gf_embedding_input *in, gf_shard *s) {
    parquet_shard *p = calloc(1, sizeof *p);
    gf_string_list titles = {0};
    FAIL_IF(err, !p, GLOFND_E_MEMORY, "%.300s: no memory", s->path);
    s->state = p;
    TRY(gf_parquet_open(err, s->path, &p->f));
    p->id = p->label = -1;
    if (p->f.rows == 0) return GLOFND_OK;
    if (in->id) TRY(gf_parquet_find(err, &p->f, in->id, &p->id));
    if (in->label) TRY(gf_parquet_find(err, &p->f, in->label, &p->label));
    glofnd_status status = GLOFND_OK;
    for (int64_t i = 0; i < p->f.leaves && status == GLOFND_OK; i++)
        status = gf_string_list_add(err, &titles, p->f.leaf[i].path, p->f.leaf[i].top);
    if (status == GLOFND_OK) status = choose_columns(err, in, &titles, s);
    gf_string_list_free(&titles);
    s->rows = p->f.rows;
    s->named = p->id >= 0;
    return status;
}

/* Column `at` of x [rows][dim]. */
static glofnd_status read_column(gf_error *err, gf_parquet_cursor *c, int64_t first, int64_t rows, int64_t dim, float *at) {
    enum { SOME = 4096 };
    float part[SOME];
    TRY(gf_parquet_seek(err, c, first));
    for (int64_t done = 0; done < rows;) {
        const int64_t some = rows - done < SOME ? rows - done : SOME;
        TRY(gf_parquet_floats(err, c, some, 1, part));
        for (int64_t i = 0; i < some; i++) at[(done + i) * dim] = part[i];
        done += some;
    }
    return GLOFND_OK;
}

static glofnd_status read_parquet(gf_error *err, gf_shard *s, int64_t first, int64_t rows, float *x) {
    parquet_shard *p = s->state;
    if (p->dimension) {
        glofnd_status status = GLOFND_OK;
        for (int64_t i = 0, at = 0; i < p->f.leaves && status == GLOFND_OK; i++) {
            if (!p->dimension[i]) continue;
            gf_parquet_cursor_init(&p->c, &p->f, i);
            status = read_column(err, &p->c, first, rows, s->dim, x + at++);
            gf_parquet_cursor_free(&p->c);
        }
        return status;
    }
    TRY(gf_parquet_seek(err, &p->c, first));
    return gf_parquet_floats(err, &p->c, rows, s->dim, x);
}

static glofnd_status read_texts(gf_error *err, const gf_parquet *f, int64_t leaf, int null_is_empty, gf_string_list *out) {
    gf_parquet_cursor c;
    gf_parquet_cursor_init(&c, f, leaf);
    c.null_is_empty = null_is_empty;
    const glofnd_status status = gf_parquet_texts(err, &c, f->rows, out);
    gf_parquet_cursor_free(&c);
    return status;
}

static glofnd_status parquet_names(gf_error *err, gf_shard *s, gf_string_list *out) {
    const parquet_shard *p = s->state;
    FAIL_IF(err, p->id < 0, GLOFND_E_ARGUMENT, "%.300s: no column of names was chosen", s->path);
    return read_texts(err, &p->f, p->id, 0, out);
}

static glofnd_status parquet_labels(gf_error *err, gf_shard *s, gf_string_list *out) {
    const parquet_shard *p = s->state;
    FAIL_IF(err, p->label < 0, GLOFND_E_ARGUMENT, "%.300s: no column of labels was chosen", s->path);
    return read_texts(err, &p->f, p->label, 1, out);
}

static void close_parquet(gf_shard *s) {
    parquet_shard *p = s->state;
    if (!p) return;
    gf_parquet_cursor_free(&p->c);
    gf_parquet_close(&p->f);
    free(p->dimension);
    free(p);
    s->state = NULL;
}

const gf_shard_kind gf_shard_parquet = {
    .open = open_parquet, .read = read_parquet, .names = parquet_names, .labels = parquet_labels, .close = close_parquet};

/* ----- names or labels alone: a column of Parquet files or tables that hold no embeddings ----- */

static int is_table(const char *path) { return gf_ends_with(path, ".csv") || gf_ends_with(path, ".tsv"); }

static int is_parquet(const char *path) { return gf_is_folder(path) || gf_ends_with(path, ".parquet"); }

int gf_labels_have_columns(const char *path) { return is_parquet(path) || is_table(path); }

int gf_names_have_columns(const char *path, const char *id) { return is_parquet(path) || (id && is_table(path)); }

static glofnd_status texts_of_files(gf_error *err, const char *path, const char *column, int null_is_empty, gf_string_list *out) {
    const gf_embedding_input in = {.path = &path, .paths = 1};
    gf_string_list files = {0};
    glofnd_status status = gf_embedding_paths(err, &in, &files);
    for (int64_t i = 0; i < files.n && status == GLOFND_OK; i++) {
        const char *file = gf_string_list_get(&files, i);
        if (is_table(file)) {
            status = texts_of_table(err, file, column, out);
            continue;
        }
        gf_parquet f = {0};
        int64_t leaf = 0;
        status = gf_parquet_open(err, file, &f);
        if (status != GLOFND_OK) break;
        status = gf_parquet_find(err, &f, column, &leaf);
        if (status == GLOFND_OK) status = read_texts(err, &f, leaf, null_is_empty, out);
        gf_parquet_close(&f);
    }
    gf_string_list_free(&files);
    return status;
}

glofnd_status gf_names_of_column(gf_error *err, const char *path, const char *id, gf_string_list *out) {
    FAIL_IF(err, !id, GLOFND_E_ARGUMENT, "'%.300s' has columns; choose the column of names: id=NAME", path);
    return texts_of_files(err, path, id, 0, out);
}

glofnd_status gf_labels_of_column(gf_error *err, const char *path, const char *column, gf_string_list *out) {
    FAIL_IF(err, !column, GLOFND_E_ARGUMENT, "'%.300s' has columns; choose the column of labels: label_column=NAME", path);
    return texts_of_files(err, path, column, 1, out);
}

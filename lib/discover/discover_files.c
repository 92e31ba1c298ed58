/* discover_files.c - see discover_files.h: tables of pairs, components and rows. */
#include "discover/discover_files.h"

#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "discover/decide_files.h"
#include "discover/row_cells.h"
#include "discover/stored_rows.h"
#include "io/calls.h"
#include "io/file.h"
#include "io/npy.h"
#include "util/text.h"

static glofnd_status write_table(gf_error *err, const gf_output_folder *to, const gf_discover_report *x, gf_table_files t) {
    t.block = t.block ? t.block : 4096;
    t.format = x->format, t.threads = x->s->threads, t.watch = &x->s->watch;
    return gf_table_files_write(err, to, &t);
}

/* ----- pairs ----- */

typedef struct pair {
    int64_t i, j;          /* positions: anchor, other */
    int64_t anchor, other; /* rows */
    double similarity, threshold;
    int mutual;
} pair;

/* Digits that float32 distinguishes. */
static double rounded(double x) { return round(x * 1e8) / 1e8; }

static pair pair_at(const gf_discover_report *x, int64_t i, int64_t k) {
    const gf_pairs_found *f = &x->r->f;
    pair p = {.i = i, .j = f->other[i * f->top + k]};
    const float v = f->similarity[i * f->top + k], back = x->lambda ? x->lambda[x->d->good[p.j]] : f->lambda[p.j];
    p.anchor = x->q->good[i], p.other = x->d->good[p.j];
    p.similarity = (double)v, p.threshold = (double)f->lambda[i];
    p.mutual = v > f->lambda[i] && v > back;
    return p;
}

/* The two sides of a query may have names and labels independently. */
static void add_row_columns(gf_table_columns *c, const gf_discover_report *x) {
    gf_row_columns(c, (gf_row_side){x->q, "anchor"}, (gf_row_side){x->d, "other"});
}

static void put_rows_of(gf_lines *t, const pair *p) {
    gf_cell_integer(t, p->anchor);
    gf_cell_integer(t, p->other);
    gf_cell_real(t, p->similarity);
}

static void end_row(gf_lines *t, const gf_discover_report *x, const pair *p) { gf_row_cells(t, x->q, p->anchor, x->d, p->other); }

static void put_json_name(gf_lines *t, const char *key, const gf_discover_data *d, int64_t row) {
    if (!d->name) return;
    gf_lines_text(t, key);
    gf_lines_quoted(t, d->name[row]);
}

static void put_json_label(gf_lines *t, const char *key, const gf_discover_data *d, int64_t row) {
    if (!d->label) return;
    gf_lines_text(t, key);
    gf_lines_integer(t, d->label[row]);
}

static void put_json(gf_lines *t, const gf_discover_report *x, const pair *p) {
    GF_LINES_PUT(t, "{\"anchor\": ");
    gf_lines_integer(t, p->anchor);
    GF_LINES_PUT(t, ", \"other\": ");
    gf_lines_integer(t, p->other);
    GF_LINES_PUT(t, ", \"similarity\": ");
    gf_lines_number(t, rounded(p->similarity));
    GF_LINES_PUT(t, ", \"threshold\": ");
    gf_lines_number(t, rounded(p->threshold));
    gf_lines_text(t, p->mutual ? ", \"mutual\": true" : ", \"mutual\": false");
    put_json_name(t, ", \"anchor_name\": ", x->q, p->anchor);
    put_json_name(t, ", \"other_name\": ", x->d, p->other);
    put_json_label(t, ", \"anchor_label\": ", x->q, p->anchor);
    put_json_label(t, ", \"other_label\": ", x->d, p->other);
    GF_LINES_PUT(t, "}\n");
}

/* Anchors of a block: a few thousand lines. */
static int64_t block_of(const gf_pairs_found *f) { return 1 + 4096 / (f->top + 1); }

typedef struct pair_lines {
    const gf_discover_report *x;
    int64_t *ties; /* [blocks] pairs equal to the cutoff in the blocks before */
} pair_lines;

enum { ALL, MUTUAL, JSON }; /* files of a table of pairs */

static void fill_pairs(const void *arg, int64_t from, int64_t to, gf_lines *out) {
    const pair_lines *l = arg;
    const gf_pairs_found *f = &l->x->r->f;
    int64_t ties = l->ties[from / block_of(f)];
    for (int64_t i = from; i < to; i++)
        for (int64_t k = 0; k < f->top && f->similarity[i * f->top + k] > f->lambda[i]; k++) {
            if (!gf_discover_listed(l->x->r, i, k, &ties)) continue;
            const pair p = pair_at(l->x, i, k);
            put_rows_of(&out[ALL], &p);
            gf_cell_real(&out[ALL], p.threshold);
            gf_cell_flag(&out[ALL], p.mutual);
            end_row(&out[ALL], l->x, &p);
            if (l->x->format != GF_TABLE_PARQUET) put_json(&out[JSON], l->x, &p);
            if (l->x->query || !p.mutual || !gf_discover_canonical(f, i, k)) continue;
            put_rows_of(&out[MUTUAL], &p);
            end_row(&out[MUTUAL], l->x, &p);
        }
}

/* Counts the pairs equal to the cutoff before each block: only the first ones are listed. */
static glofnd_status count_ties(gf_error *err, pair_lines *l) {
    const gf_pairs_found *f = &l->x->r->f;
    const int64_t block = block_of(f);
    int64_t ties = 0;
    l->ties = malloc((size_t)(f->n / block + 1) * sizeof *l->ties);
    FAIL_IF(err, !l->ties, GLOFND_E_MEMORY, "no memory for pairs");
    for (int64_t i = 0; i < f->n; i++) {
        if (i % block == 0) l->ties[i / block] = ties;
        for (int64_t k = 0; k < f->top && f->similarity[i * f->top + k] > f->lambda[i]; k++)
            gf_discover_listed(l->x->r, i, k, &ties);
    }
    return GLOFND_OK;
}

static glofnd_status write_pairs(gf_error *err, const gf_output_folder *to, const gf_discover_report *x) {
    gf_table_columns all = {0}, mutual = {0};
    pair_lines l = {.x = x};
    gf_table_columns_add(&all, GF_COLUMN_INT32, "anchor other");
    gf_table_columns_add(&all, GF_COLUMN_FLOAT, "similarity threshold");
    gf_table_columns_add(&all, GF_COLUMN_FLAG, "mutual");
    add_row_columns(&all, x);
    gf_table_columns_add(&mutual, GF_COLUMN_INT32, "a b");
    gf_table_columns_add(&mutual, GF_COLUMN_FLOAT, "similarity");
    add_row_columns(&mutual, x);
    TRY(count_ties(err, &l));
    const char *json = x->format == GF_TABLE_PARQUET ? NULL : "pairs.jsonl";
    const gf_table_files t = {
        .name = {[ALL] = "pairs", [MUTUAL] = x->query ? NULL : "mutual", [JSON] = json},
        .columns = {[ALL] = &all, [MUTUAL] = &mutual},
        .items = x->r->f.n,
        .block = block_of(&x->r->f),
        .fill = fill_pairs,
        .arg = &l,
    };
    const glofnd_status status = write_table(err, to, x, t);
    free(l.ties);
    return status;
}

/* ----- duplicates ----- */

static void put_duplicate(gf_lines *t, const gf_discover_report *x, const pair *p) {
    const int exact = gf_discover_exact(x->d, x->r, p->i, p->j);
    gf_cell_integer(t, x->query ? -1 : x->r->groups.of[p->i]);
    put_rows_of(t, p);
    gf_cell_flag(t, exact);
    end_row(t, x, p);
}

static void fill_exact(const void *arg, int64_t from, int64_t to, gf_lines *out) {
    const gf_discover_report *x = arg;
    for (int64_t i = from; i < to; i++) {
        const int32_t first = x->d->copy_of[i];
        if (first == i) continue;
        const pair p = {.i = first, .j = i, .anchor = x->d->good[first], .other = x->d->good[i], .similarity = 1.0};
        put_duplicate(out, x, &p);
    }
}

static void fill_stored(const void *arg, int64_t from, int64_t to, gf_lines *out) {
    const gf_discover_report *x = arg;
    for (int64_t i = from; i < to; i++) {
        const int32_t j = x->r->stored_copy[i];
        if (j < 0) continue;
        const pair p = {.i = i, .j = j, .anchor = x->q->good[i], .other = x->d->good[j], .similarity = 1.0};
        put_duplicate(out, x, &p);
    }
}

static void fill_near(const void *arg, int64_t from, int64_t to, gf_lines *out) {
    const gf_discover_report *x = arg;
    const gf_pairs_found *f = &x->r->f;
    const float limit = gf_discover_dup(x->s, x->d->dim);
    for (int64_t i = from; i < to; i++)
        for (int64_t k = 0; k < f->top && f->similarity[i * f->top + k] >= limit; k++) {
            if (!x->query && !gf_discover_canonical(f, i, k)) continue;
            const pair p = pair_at(x, i, k);
            put_duplicate(out, x, &p);
        }
}

static glofnd_status write_duplicates(gf_error *err, const gf_output_folder *to, const gf_discover_report *x) {
    const int exact = x->s->dup == GF_DUP_EXACT;
    gf_table_columns c = {0};
    gf_table_columns_add(&c, GF_COLUMN_INT32, "group a b");
    gf_table_columns_add(&c, GF_COLUMN_FLOAT, "similarity");
    gf_table_columns_add(&c, GF_COLUMN_FLAG, "exact");
    add_row_columns(&c, x);
    const gf_table_files t = {
        .name = {"duplicates"},
        .columns = {&c},
        .items = x->r->f.n,
        .block = block_of(&x->r->f),
        .arg = x,
        .fill = !exact     ? fill_near
                : x->query ? fill_stored
                           : fill_exact,
    };
    return write_table(err, to, x, t);
}

/* ----- components and bad rows ----- */

typedef struct part_lines {
    const gf_discover_data *d;
    const gf_components *p;
} part_lines;

static void fill_components(const void *arg, int64_t from, int64_t to, gf_lines *out) {
    const part_lines *l = arg;
    for (int64_t i = from; i < to; i++) {
        gf_cell_integer(out, i);
        gf_cell_integer(out, l->p->part[i].nodes);
        gf_cell_integer(out, l->p->part[i].edges);
        gf_cell_integer(out, l->d->good[l->p->part[i].root]);
        gf_row_end(out);
    }
}

static glofnd_status write_components(gf_error *err, const gf_output_folder *to, const gf_discover_report *x, const char *name,
                                      const gf_components *p) {
    const part_lines l = {x->d, p};
    gf_table_columns c = {0};
    gf_table_columns_add(&c, GF_COLUMN_INT64, "number images pairs first");
    return write_table(err, to, x,
                       (gf_table_files){.name = {name}, .columns = {&c}, .items = p->count, .fill = fill_components, .arg = &l});
}

static void put_reason(gf_lines *out, const gf_discover_data *d, int64_t row) {
    char text[sizeof(gf_error) + 16];
    const int why = d->unreadable && d->unreadable[row];
    snprintf(text, sizeof text, "%s%s%s", gf_discover_bad_kind(d, row), why ? ": " : "", why ? d->unreadable[row] : "");
    gf_cell_text(out, text);
}

static void fill_bad(const void *arg, int64_t from, int64_t to, gf_lines *out) {
    const gf_discover_data *d = arg;
    for (int64_t i = from; i < to; i++) {
        if (d->kind[i] == GF_ROW_GOOD) continue;
        gf_cell_integer(out, i);
        put_reason(out, d, i);
        if (d->name) gf_cell_text(out, d->name[i]);
        gf_row_end(out);
    }
}

static glofnd_status write_bad(gf_error *err, const gf_output_folder *to, const gf_discover_report *x) {
    gf_table_columns c = {0};
    gf_table_columns_add(&c, GF_COLUMN_INT32, "row");
    gf_table_columns_add(&c, GF_COLUMN_TEXT, x->q->name ? "why name" : "why");
    return write_table(err, to, x,
                       (gf_table_files){.name = {"bad_rows"}, .columns = {&c}, .items = x->q->n, .fill = fill_bad, .arg = x->q});
}

/* ----- arrays ----- */

enum { COLUMNS = 8 }; /* see docs/discover.md and "columns" of summary.json */

/* The row of a position, without a look at memory where all rows are usable. */
static int32_t row_of(const gf_discover_data *d, int32_t position) { return d->good_n == d->n ? position : d->good[position]; }

static void fill_row(const gf_discover_report *x, int64_t i, double *row) {
    const gf_pairs_found *f = &x->r->f;
    const int near = f->top > 0 && f->other[i * f->top] >= 0;
    const double values[COLUMNS] = {
        (double)f->lambda[i],
        near ? (double)f->similarity[i * f->top] : NAN,
        near ? (double)row_of(x->d, f->other[i * f->top]) : -1.0,
        (double)f->above[i],
        (double)f->mutual[i],
        x->r->quality.anchors ? (double)f->hits[i] : -1.0,
        x->query ? -1.0 : (double)x->r->parts.of[i],
        x->query ? -1.0 : (double)x->r->groups.of[i],
    };
    memcpy(row, values, sizeof values);
}

/* The first usable row, by position, that is not before `row`. */
static int64_t position_from(const gf_discover_data *q, int64_t row) {
    int64_t low = 0, high = q->good_n;
    while (low < high) {
        const int64_t mid = low + (high - low) / 2;
        if (q->good[mid] < row) low = mid + 1;
        else high = mid;
    }
    return low;
}

static void fill_anchors(const void *arg, int64_t first, int64_t rows, void *to) {
    const gf_discover_report *x = arg;
    const gf_discover_data *q = x->q;
    double *table = to;
    for (int64_t c = 0; c < rows * COLUMNS; c++) table[c] = NAN; /* bad rows */
    for (int64_t i = position_from(q, first); i < q->good_n && q->good[i] < first + rows; i++)
        fill_row(x, i, table + (q->good[i] - first) * COLUMNS);
}

static glofnd_status write_anchors(gf_error *err, const gf_output_folder *to, const gf_discover_report *x) {
    char path[PATH_MAX];
    const gf_npy a = {.type = GF_NPY_F8, .rank = 2, .shape = {x->q->n, COLUMNS}};
    TRY(gf_output_folder_path(err, to, "anchors.npy", path));
    return gf_npy_write_rows(err, path, &a, fill_anchors, x);
}

static void fill_others(const void *arg, int64_t first, int64_t rows, void *to) {
    const gf_discover_report *x = arg;
    const gf_discover_data *q = x->q;
    const int64_t top = x->r->f.top;
    int32_t *table = to;
    for (int64_t c = 0; c < rows * top; c++) table[c] = -1;
    for (int64_t i = position_from(q, first); i < q->good_n && q->good[i] < first + rows; i++) {
        const int32_t *other = x->r->f.other + i * top;
        for (int64_t k = 0; k < top && other[k] >= 0; k++) table[(q->good[i] - first) * top + k] = row_of(x->d, other[k]);
    }
}

static void fill_similarities(const void *arg, int64_t first, int64_t rows, void *to) {
    const gf_discover_report *x = arg;
    const gf_discover_data *q = x->q;
    const int64_t top = x->r->f.top;
    float *table = to;
    for (int64_t c = 0; c < rows * top; c++) table[c] = NAN;
    for (int64_t i = position_from(q, first); i < q->good_n && q->good[i] < first + rows; i++)
        for (int64_t k = 0; k < top && x->r->f.other[i * top + k] >= 0; k++)
            table[(q->good[i] - first) * top + k] = x->r->f.similarity[i * top + k];
}

/* Most similar others of every row, also below the threshold: int32 rows and float32 similarities, [n][top]. */
static glofnd_status write_neighbours(gf_error *err, const gf_output_folder *to, const gf_discover_report *x) {
    char path[PATH_MAX];
    gf_npy a = {.type = GF_NPY_I4, .rank = 2, .shape = {x->q->n, x->r->f.top}};
    if (x->r->f.top == 0) return GLOFND_OK;
    TRY(gf_output_folder_path(err, to, "neighbours.npy", path));
    TRY(gf_npy_write_rows(err, path, &a, fill_others, x));
    TRY(gf_output_folder_path(err, to, "similarities.npy", path));
    a.type = GF_NPY_F4;
    return gf_npy_write_rows(err, path, &a, fill_similarities, x);
}

/* ----- folder ----- */

static glofnd_status write_summary(gf_error *err, const gf_output_folder *to, const gf_discover_report *x) {
    char path[PATH_MAX];
    gf_text text = {0};
    TRY(gf_output_folder_path(err, to, GF_DISCOVER_MARK, path));
    TRY(gf_discover_write_json(err, path, x));
    TRY(gf_output_folder_path(err, to, "summary.txt", path));
    gf_discover_summary(&text, x);
    FILE *f = text.failed ? NULL : gf_stream_open(path, "w");
    const int failed = !f || fputs(text.at ? text.at : "", f) < 0;
    const int closed = f ? fclose(f) : -1;
    gf_text_free(&text);
    FAIL_IF(err, failed || closed != 0, GLOFND_E_IO, "'%.300s' cannot be written", path);
    return GLOFND_OK;
}

static glofnd_status write_page(gf_error *err, const gf_output_folder *to, const gf_discover_report *x) {
    char path[PATH_MAX];
    TRY(gf_output_folder_path(err, to, "index.html", path));
    return x->write_html(err, path, x);
}

/* Every file that write_all() may write, and the ones of earlier versions. */
static const char *const own_files[] = {
    GF_DISCOVER_MARK,
    "summary.txt",
    "index.html",
    "pairs.tsv",
    "pairs.jsonl",
    "mutual.tsv",
    "duplicates.tsv",
    "duplicate_groups.tsv",
    "bad_rows.tsv",
    "anchors.npy",
    "neighbours.npy",
    "components.tsv",
    "similarities.npy",
    "keep.txt",
    "remove.txt",
    "remove.tsv",
    "outliers.tsv",
    "label_issues.tsv",
    "leaks.tsv",
    "split_matrix.tsv",
    "sample.txt",
    "negatives.npy",
    "graph.npz",
    "rows.npy",
    "names.txt",
    "unreadable.txt",
    "classes.txt",
    "query_classes.txt",
    "keep_1.txt",
    "keep_2.txt",
    "keep_3.txt",
    "keep_4.txt",
    "keep_5.txt",
    "keep_6.txt",
    "keep_7.txt",
    "keep_8.txt",
    "keep_9.txt",
    "keep_10.txt",
    "keep_11.txt",
    "keep_12.txt",
    "keep_13.txt",
    "keep_14.txt",
    "keep_15.txt",
    "keep_16.txt",
    "pairs.parquet",
    "mutual.parquet",
    "duplicates.parquet",
    "keep.parquet",
    "duplicate_groups.parquet",
    "remove.parquet",
    "components.parquet",
    "leaks.parquet",
    "bad_rows.parquet",
    "sample.parquet",
    "outliers.parquet",
    "negatives.parquet",
    "label_issues.parquet",
    NULL,
};

/* Other programs write a summary.json, too: this one's begins so, and has these keys. */
static int is_result(const char *folder) {
    enum { BYTES_MAX = 1 << 20 };
    static const char first[] = "{\"version\": ";
    static const char *const keys[] = {"\"embeddings\": ", "\"crc32c\": ", "\"rows\": ", "\"columns\": \"threshold "};
    char path[PATH_MAX];
    gf_error ignored;
    uint8_t *bytes = NULL;
    size_t capacity = 0, size = 0;
    if (gf_path_join(&ignored, path, folder, GF_DISCOVER_MARK) != GLOFND_OK) return 0;
    int yes = gf_file_read(&ignored, path, BYTES_MAX, &bytes, &capacity, &size) == GLOFND_OK &&
              strncmp((const char *)bytes, first, strlen(first)) == 0;
    for (size_t i = 0; yes && i < sizeof keys / sizeof *keys; i++) yes = strstr((const char *)bytes, keys[i]) != NULL;
    free(bytes);
    return yes;
}

const gf_output_kind gf_discover_kind = {own_files, is_result, GF_DISCOVER_MARK " of glofnd discover", "page"};

static glofnd_status write_all(gf_error *err, const gf_output_folder *to, const gf_discover_report *x) {
    TRY(write_pairs(err, to, x));
    TRY(write_duplicates(err, to, x));
    if (!x->query) TRY(write_components(err, to, x, "components", &x->r->parts));
    if (!x->query) TRY(write_components(err, to, x, "duplicate_groups", &x->r->groups));
    TRY(write_bad(err, to, x));
    TRY(write_anchors(err, to, x));
    TRY(write_neighbours(err, to, x));
    if (x->decisions) TRY(gf_decide_write(err, to, x));
    if (!x->query) TRY(gf_stored_rows_write(err, to, x));
    TRY(gf_stored_classes_write(err, to, x, x->d, "classes.txt"));
    if (x->query) TRY(gf_stored_classes_write(err, to, x, x->q, "query_classes.txt"));
    if (x->html && !x->query) TRY(write_page(err, to, x));
    TRY(write_summary(err, to, x));
    FAIL_IF(err, gf_job_stopped(&x->s->watch), GLOFND_E_ARGUMENT, "stopped");
    return GLOFND_OK;
}

glofnd_status gf_discover_write(gf_error *err, const char *folder, int force, const gf_discover_report *x) {
    gf_output_folder to = {0};
    glofnd_status status = gf_output_folder_open(err, &to, folder, force, &gf_discover_kind);
    if (status == GLOFND_OK) status = write_all(err, &to, x);
    if (status == GLOFND_OK) status = gf_output_folder_commit(err, &to);
    gf_output_folder_close(&to);
    return status;
}

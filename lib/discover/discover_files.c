/* discover_files.c - the files of a result, from pairs to the summary, and the folder they appear in; see discover_files.h.
 *
 * In this order: tables of pairs, duplicates, components and bad rows; arrays by row; decisions (keep and remove, splits, outliers,
 * labels, subset, negatives, graph); what `--from` reads; the folder.
 */
#include "discover/discover_files.h"

#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "discover/decide.h"
#include "discover/output_files.h"
#include "io/file.h"
#include "io/npy.h"
#include "util/array.h"
#include "util/text.h"

enum { TABLE_BLOCK = 4096 }; /* lines that are formatted at once */

/* "int32 anchor other, float similarity, flag exact": kinds, and names of columns. */
static gf_table_columns columns_of(const char *text) {
    static const char *const kinds[] = {[GF_COLUMN_INT32] = "int32",
                                        [GF_COLUMN_INT64] = "int64",
                                        [GF_COLUMN_FLOAT] = "float",
                                        [GF_COLUMN_FLAG] = "flag",
                                        [GF_COLUMN_TEXT] = "text"};
    gf_table_columns c = {0};
    while (*text) {
        char names[200];
        size_t kind = 0;
        const size_t word = strcspn(text, " "), part = strcspn(text, ",");
        while (strlen(kinds[kind]) != word || strncmp(text, kinds[kind], word) != 0) kind++;
        snprintf(names, sizeof names, "%.*s", (int)(part - word - 1), text + word + 1);
        gf_table_columns_add(&c, (gf_column_kind)kind, names);
        text += part;
        text += strspn(text, ", ");
    }
    return c;
}

static glofnd_status write_tables(gf_error *err, const gf_output_folder *to, const gf_discover_report *x, gf_table_files t) {
    t.block = t.block ? t.block : TABLE_BLOCK;
    t.format = x->format, t.threads = x->s->task.threads, t.watch = &x->s->task.watch;
    return gf_table_files_write(err, to, &t);
}

/* One file; c NULL: plain text. */
static glofnd_status write_table(gf_error *err, const gf_output_folder *to, const gf_discover_report *x, const char *name,
                                 const gf_table_columns *c, int64_t items,
                                 void (*fill)(const void *arg, int64_t from, int64_t end, gf_lines *out), const void *arg) {
    return write_tables(err, to, x, (gf_table_files){.name = {name}, .columns = {c}, .items = items, .fill = fill, .arg = arg});
}

/* name.npy: [rows of x->q][columns]. */
static glofnd_status write_array(gf_error *err, const gf_output_folder *to, const gf_discover_report *x, const char *name,
                                 gf_npy_type type, int64_t columns,
                                 void (*fill)(const void *arg, int64_t first, int64_t rows, void *out)) {
    char path[PATH_MAX];
    const gf_npy a = {.type = type, .rank = 2, .shape = {x->q->n, columns}};
    TRY(gf_output_folder_path(err, to, name, path));
    return gf_npy_write_rows(err, path, &a, fill, x);
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

/* ----- the last columns of tables about two rows: names of both, then labels of both, where the data have them ----- */

/* One row of a table: a row of d, called `word` in the heading ("anchor": anchor_name, anchor_label). */
typedef struct row_side {
    const gf_discover_data *d;
    const char *word;
} row_side;

static void add_side_column(gf_table_columns *c, gf_column_kind kind, const char *word, const char *what) {
    char name[GF_COLUMN_NAME];
    snprintf(name, sizeof name, "%.20s_%.10s", word, what);
    gf_table_columns_add(c, kind, name);
}

static void row_columns(gf_table_columns *c, row_side a, row_side b) {
    if (a.d->name) add_side_column(c, GF_COLUMN_TEXT, a.word, "name");
    if (b.d->name) add_side_column(c, GF_COLUMN_TEXT, b.word, "name");
    if (a.d->label) add_side_column(c, GF_COLUMN_INT32, a.word, "label");
    if (b.d->label) add_side_column(c, GF_COLUMN_INT32, b.word, "label");
}

static void put_name_cell(gf_lines *l, const gf_discover_data *d, int64_t row) {
    if (d->name) gf_cell_text(l, row < 0 ? "" : d->name[row]);
}

/* No row: an empty cell of a TSV, -1 in a Parquet file. */
static void put_label_cell(gf_lines *l, const gf_discover_data *d, int64_t row) {
    if (d->label && row < 0 && !l->cells) gf_cell_text(l, "");
    else if (d->label) gf_cell_integer(l, row < 0 ? -1 : d->label[row]);
}

/* Cells of rows a and b, -1: none; then the end of the line. */
static void row_cells(gf_lines *l, const gf_discover_data *d, int64_t a, const gf_discover_data *e, int64_t b) {
    put_name_cell(l, d, a);
    put_name_cell(l, e, b);
    put_label_cell(l, d, a);
    put_label_cell(l, e, b);
    gf_row_end(l);
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
    row_columns(c, (row_side){x->q, "anchor"}, (row_side){x->d, "other"});
}

static void put_rows_of(gf_lines *t, const pair *p) {
    gf_cell_integer(t, p->anchor);
    gf_cell_integer(t, p->other);
    gf_cell_real(t, p->similarity);
}

static void end_row(gf_lines *t, const gf_discover_report *x, const pair *p) { row_cells(t, x->q, p->anchor, x->d, p->other); }

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

/* Anchors of a block: a few thousand lines. */
static int64_t block_of(const gf_pairs_found *f) { return 1 + TABLE_BLOCK / (f->top + 1); }

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
            if (l->x->format == GF_TABLE_JSONL) {
                gf_lines *t = &out[JSON];
                const gf_discover_report *x = l->x;
                GF_LINES_PUT(t, "{\"anchor\": ");
                gf_lines_integer(t, p.anchor);
                GF_LINES_PUT(t, ", \"other\": ");
                gf_lines_integer(t, p.other);
                GF_LINES_PUT(t, ", \"similarity\": ");
                gf_lines_number(t, rounded(p.similarity));
                GF_LINES_PUT(t, ", \"threshold\": ");
                gf_lines_number(t, rounded(p.threshold));
                gf_lines_text(t, p.mutual ? ", \"mutual\": true" : ", \"mutual\": false");
                put_json_name(t, ", \"anchor_name\": ", x->q, p.anchor);
                put_json_name(t, ", \"other_name\": ", x->d, p.other);
                put_json_label(t, ", \"anchor_label\": ", x->q, p.anchor);
                put_json_label(t, ", \"other_label\": ", x->d, p.other);
                GF_LINES_PUT(t, "}\n");
            }
            if (l->x->query || !p.mutual || !gf_discover_canonical(f, i, k)) continue;
            put_rows_of(&out[MUTUAL], &p);
            end_row(&out[MUTUAL], l->x, &p);
        }
}

/* ----- duplicates ----- */

static void put_duplicate(gf_lines *t, const gf_discover_report *x, const pair *p) {
    const int exact = gf_discover_exact(x->d, x->r, p->i, p->j);
    gf_cell_integer(t, x->query ? -1 : x->r->groups.of[p->i]);
    put_rows_of(t, p);
    gf_cell_flag(t, exact);
    end_row(t, x, p);
}

/* Copies of the first row of their bytes, or of a stored row. */
static void fill_exact(const void *arg, int64_t from, int64_t to, gf_lines *out) {
    const gf_discover_report *x = arg;
    for (int64_t row = from; row < to; row++) {
        const int64_t first = x->query ? x->r->stored_copy[row] : x->d->copy_of[row];
        if (first < 0 || (first == row && !x->query)) continue;
        const int64_t i = x->query ? row : first, j = x->query ? first : row;
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
    const gf_table_columns c = columns_of("int64 number images pairs first");
    return write_table(err, to, x, name, &c, p->count, fill_components, &l);
}

static void fill_bad(const void *arg, int64_t from, int64_t to, gf_lines *out) {
    const gf_discover_data *d = arg;
    for (int64_t i = from; i < to; i++) {
        if (d->kind[i] == GF_ROW_GOOD) continue;
        gf_cell_integer(out, i);
        char text[sizeof(gf_error) + 16];
        const int why = d->unreadable && d->unreadable[i];
        snprintf(text, sizeof text, "%s%s%s", gf_discover_bad_kind(d, i), why ? ": " : "", why ? d->unreadable[i] : "");
        gf_cell_text(out, text);
        if (d->name) gf_cell_text(out, d->name[i]);
        gf_row_end(out);
    }
}

/* ----- arrays ----- */

enum { COLUMNS = 8 }; /* see docs/discover.md and "columns" of summary.json */

/* The row of a position, without a look at memory where all rows are usable. */
static int32_t row_of(const gf_discover_data *d, int32_t position) { return d->good_n == d->n ? position : d->good[position]; }

static void fill_anchors(const void *arg, int64_t first, int64_t rows, void *to) {
    const gf_discover_report *x = arg;
    const gf_discover_data *q = x->q;
    double *table = to;
    for (int64_t c = 0; c < rows * COLUMNS; c++) table[c] = NAN; /* bad rows */
    for (int64_t i = position_from(q, first); i < q->good_n && q->good[i] < first + rows; i++) {
        double *row = table + (q->good[i] - first) * COLUMNS;
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

/* ----- graph ----- */

/* graph.npz: the listed neighbours of every row as a sparse matrix in compressed rows, as scipy.sparse.save_npz() writes it.
 *
 * Cell (i, j) is the cosine distance 1 - similarity, at least 0, of neighbour j of row i. The nearest of a row comes first, as
 * programs that take a graph of neighbours expect. Bad rows have no cells.
 */

enum { GRAPH_CELLS = 8192 };

static int64_t listed_neighbours(const gf_pairs_found *f, int64_t i) {
    int64_t k = 0;
    while (k < f->top && f->other[i * f->top + k] >= 0) k++;
    return k;
}

typedef struct graph_cells { /* cells on their way to the file */
    gf_npz *z;
    int element;
    size_t used;
    uint8_t bytes[GRAPH_CELLS * 8];
} graph_cells;

static void flush_cells(graph_cells *p) {
    gf_npz_put(p->z, p->bytes, p->used);
    p->used = 0;
}

static void add_cell(graph_cells *p, uint64_t value) {
    if (p->used + 8 > sizeof p->bytes) flush_cells(p);
    for (int b = 0; b < p->element; b++) p->bytes[p->used++] = (uint8_t)(value >> 8 * b);
}

static glofnd_status write_graph(gf_error *err, const gf_output_folder *to, const gf_discover_report *x) {
    const gf_pairs_found *f = &x->r->f;
    char path[PATH_MAX];
    gf_npz z;
    int64_t cells = 0;
    for (int64_t i = 0; i < f->n; i++) cells += listed_neighbours(f, i);
    const int wide = cells > INT32_MAX ? 8 : 4;
    const char *integer = wide == 8 ? "<i8" : "<i4";
    const int64_t n = x->d->n, starts = n + 1, two = 2;
    TRY(gf_output_folder_path(err, to, "graph.npz", path));
    graph_cells *p = malloc(sizeof *p);
    FAIL_IF(err, !p, GLOFND_E_MEMORY, "no memory for the graph of neighbours");
    glofnd_status status = gf_npz_open(err, &z, path);
    if (status == GLOFND_OK) {
        p->z = &z, p->used = 0, p->element = wide;
        gf_npz_entry(&z, "indices", integer, 1, &cells, (size_t)wide);
        for (int64_t i = 0; i < f->n; i++)
            for (int64_t k = 0, end = listed_neighbours(f, i); k < end; k++)
                add_cell(p, (uint64_t)x->d->good[f->other[i * f->top + k]]);
        flush_cells(p);
        gf_npz_entry(&z, "indptr", integer, 1, &starts, (size_t)wide);
        add_cell(p, 0);
        for (int64_t row = 0, i = 0, before = 0; row < n; row++) {
            if (i < f->n && x->d->good[i] == row) before += listed_neighbours(f, i++);
            add_cell(p, (uint64_t)before);
        }
        flush_cells(p);
        gf_npz_entry(&z, "format", "|S3", 0, NULL, 3);
        gf_npz_put(&z, "csr", 3);
        gf_npz_entry(&z, "shape", "<i8", 1, &two, 8);
        p->element = 8;
        add_cell(p, (uint64_t)n), add_cell(p, (uint64_t)n);
        flush_cells(p);
        gf_npz_entry(&z, "data", "<f4", 1, &cells, 4);
        p->element = 4;
        for (int64_t i = 0; i < f->n; i++)
            for (int64_t k = 0, end = listed_neighbours(f, i); k < end; k++) {
                const float distance = 1.0f - f->similarity[i * f->top + k], cell = distance > 0.0f ? distance : 0.0f;
                uint32_t bits;
                memcpy(&bits, &cell, sizeof bits);
                add_cell(p, bits);
            }
        flush_cells(p);
        status = gf_npz_close(err, &z);
    }
    free(p);
    return status;
}

/* ----- keep and remove ----- */

enum { KEEP, REMOVE, WHY, KEPT }; /* KEPT only as Parquet: keep.txt with names and labels */

static void fill_decisions(const void *arg, int64_t from, int64_t to, gf_lines *out) {
    const gf_discover_report *x = arg;
    int64_t p = position_from(x->d, from);
    for (int64_t row = from; row < to; row++) {
        const int good = x->d->kind[row] == GF_ROW_GOOD;
        if (good && x->decisions->kept[p] == p) {
            gf_lines_integer(&out[KEEP], row);
            GF_LINES_PUT(&out[KEEP], "\n");
            if (x->format == GF_TABLE_PARQUET) {
                const int split = gf_split_of(x->decide, row);
                gf_cell_integer(&out[KEPT], row);
                if (x->decide->splits) gf_cell_text(&out[KEPT], split < 0 ? "" : x->decide->split[split].name);
                if (x->d->name) gf_cell_text(&out[KEPT], x->d->name[row]);
                if (x->d->label) gf_cell_integer(&out[KEPT], x->d->label[row]);
                gf_row_end(&out[KEPT]);
            }
        } else {
            const gf_discover_data *d = x->d;
            const int64_t kept = good ? x->decisions->kept[p] : -1, kept_row = good ? d->good[kept] : -1;
            gf_lines_integer(&out[REMOVE], row);
            GF_LINES_PUT(&out[REMOVE], "\n");
            gf_cell_integer(&out[WHY], row);
            gf_cell_integer(&out[WHY], kept_row);
            gf_cell_integer(&out[WHY], good ? x->r->groups.of[p] : -1);
            gf_cell_text(&out[WHY], !good                               ? gf_discover_bad_kind(d, row)
                                    : d->copy_of[p] == d->copy_of[kept] ? "exact"
                                                                        : "duplicate");
            gf_cell_real(&out[WHY], good ? (double)x->decisions->similarity[p] : (double)NAN);
            row_cells(&out[WHY], d, row, d, kept_row);
        }
        p += good;
    }
}

/* ----- splits ----- */

typedef struct split_part {
    const gf_discover_report *x;
    const gf_row_split *split;
} split_part;

/* Kept rows of a split, counted from its first row. */
static void fill_part(const void *arg, int64_t from, int64_t to, gf_lines *out) {
    const split_part *a = arg;
    const gf_discover_data *d = a->x->d;
    const int64_t first = a->split->first;
    for (int64_t p = position_from(d, first + from); p < d->good_n && d->good[p] < first + to; p++) {
        if (a->x->decisions->kept[p] != p) continue;
        gf_lines_integer(out, d->good[p] - first);
        GF_LINES_PUT(out, "\n");
    }
}

/* One line per split: its place, and rows of it with a duplicate in each split. */
static void fill_matrix(const void *arg, int64_t from, int64_t to, gf_lines *out) {
    const gf_discover_report *x = arg;
    const gf_decide_spec *c = x->decide;
    for (int64_t a = from; a < to; a++) {
        gf_cell_text(out, c->split[a].name);
        gf_cell_integer(out, c->split[a].first);
        gf_cell_integer(out, c->split[a].rows);
        for (int b = 0; b < c->splits; b++) gf_cell_integer(out, x->decisions->leak[a][b]);
        for (int b = 0; b < c->splits; b++) gf_cell_integer(out, x->decisions->exact[a][b]);
        gf_row_end(out);
    }
}

/* similarity NaN: not compared, they are connected by other rows of their group. */
static void put_leak(gf_lines *t, const gf_discover_report *x, int64_t i, int64_t j, double similarity) {
    const gf_discover_data *d = x->d;
    const gf_decide_spec *c = x->decide;
    const int64_t a = d->good[i], b = d->good[j];
    const int s = gf_split_of(c, a), u = gf_split_of(c, b);
    if (s < 0 || u < 0 || s == u) return;
    gf_cell_text(t, c->split[s].name);
    gf_cell_text(t, c->split[u].name);
    gf_cell_integer(t, a - c->split[s].first);
    gf_cell_integer(t, b - c->split[u].first);
    gf_cell_integer(t, a);
    gf_cell_integer(t, b);
    gf_cell_real(t, similarity);
    gf_cell_flag(t, gf_discover_exact(d, x->r, i, j));
    row_cells(t, d, a, d, b);
}

/* The pairs of duplicates.tsv whose rows are in two splits; then rows that leak without being in one of these. */
static void fill_leaks(const void *arg, int64_t from, int64_t to, gf_lines *out) {
    const gf_discover_report *x = arg;
    const gf_pairs_found *f = &x->r->f;
    const gf_discover_data *d = x->d;
    const float limit = gf_discover_dup(x->s, d->dim);
    const int exact = x->s->dup_exact;
    for (int64_t i = from; i < GF_MIN(to, f->n) && !exact; i++)
        for (int64_t k = 0; k < f->top && f->similarity[i * f->top + k] >= limit; k++)
            if (gf_discover_canonical(f, i, k))
                put_leak(out, x, i, f->other[i * f->top + k], (double)f->similarity[i * f->top + k]);
    for (int64_t i = from; i < GF_MIN(to, f->n) && exact; i++)
        if (d->copy_of[i] != i) put_leak(out, x, d->copy_of[i], i, 1.0);
    for (int64_t e = GF_MAX(from, f->n) - f->n; e < to - f->n; e++) {
        const gf_leak_pair *p = &x->decisions->unlisted[e];
        put_leak(out, x, p->a, p->b, d->copy_of[p->a] == d->copy_of[p->b] ? 1.0 : NAN);
    }
}

/* ----- outliers and labels ----- */

static void fill_outliers(const void *arg, int64_t from, int64_t to, gf_lines *out) {
    const gf_discover_report *x = arg;
    for (int64_t k = from; k < to; k++) {
        const gf_outlier *e = &x->decisions->outlier[k];
        const int64_t near = e->nearest < 0 ? -1 : x->d->good[e->nearest];
        gf_cell_integer(out, x->d->good[e->position]);
        gf_cell_integer(out, near);
        gf_cell_real(out, near < 0 ? (double)NAN : (double)e->similarity);
        gf_cell_real(out, (double)x->r->f.lambda[e->position]);
        gf_cell_real(out, (double)e->score);
        gf_cell_flag(out, (double)e->score < x->decisions->outlier_limit);
        row_cells(out, x->d, x->d->good[e->position], x->d, near);
    }
}

static void fill_issues(const void *arg, int64_t from, int64_t to, gf_lines *out) {
    const gf_discover_report *x = arg;
    for (int64_t k = from; k < to; k++) {
        const gf_label_issue *e = &x->decisions->issue[k];
        const int64_t row = x->d->good[e->position];
        gf_cell_integer(out, row);
        gf_cell_integer(out, x->d->label[row]);
        gf_cell_integer(out, e->suggested);
        gf_cell_real(out, e->score);
        gf_cell_real(out, e->probability);
        gf_cell_integer(out, e->votes);
        gf_cell_integer(out, e->best);
        gf_cell_integer(out, e->own);
        if (x->d->name) gf_cell_text(out, x->d->name[row]);
        if (x->d->classes.n) gf_cell_text(out, gf_string_list_get(&x->d->classes, x->d->label[row]));
        if (x->d->classes.n) gf_cell_text(out, gf_string_list_get(&x->d->classes, e->suggested));
        gf_row_end(out);
    }
}

/* ----- subset and negatives ----- */

static void fill_sample(const void *arg, int64_t from, int64_t to, gf_lines *out) {
    const gf_discover_report *x = arg;
    for (int64_t k = from; k < to; k++) {
        gf_lines_integer(out, x->d->good[x->decisions->sample[k]]);
        GF_LINES_PUT(out, "\n");
    }
}

static void fill_negative_rows(const void *arg, int64_t first, int64_t rows, void *to) {
    const gf_discover_report *x = arg;
    const int64_t k = x->decide->negatives, below = x->r->f.below;
    int32_t *table = to;
    for (int64_t c = 0; c < rows * k; c++) table[c] = -1;
    for (int64_t i = position_from(x->d, first); i < x->d->good_n && x->d->good[i] < first + rows; i++)
        for (int64_t e = 0; e < k && e < below && x->r->f.below_other[i * below + e] >= 0; e++)
            table[(x->d->good[i] - first) * k + e] = x->d->good[x->r->f.below_other[i * below + e]];
}

/* negatives.npy as a table of pairs. */
static void fill_negatives(const void *arg, int64_t from, int64_t to, gf_lines *out) {
    const gf_discover_report *x = arg;
    const gf_pairs_found *f = &x->r->f;
    for (int64_t i = from; i < to; i++)
        for (int64_t e = i * f->below; e < i * f->below + GF_MIN(x->decide->negatives, f->below) && f->below_other[e] >= 0; e++) {
            gf_cell_integer(out, x->d->good[i]);
            gf_cell_integer(out, x->d->good[f->below_other[e]]);
            gf_cell_real(out, (double)f->below_similarity[e]);
            gf_cell_real(out, (double)f->lambda[i]);
            row_cells(out, x->d, x->d->good[i], x->d, x->d->good[f->below_other[e]]);
        }
}

/* ----- all decisions ----- */

/* keep.txt, remove.txt, remove.tsv, outliers.tsv, label_issues.tsv, leaks.tsv, split_matrix.tsv, keep_N.txt, sample.txt,
 * negatives.npy, graph.npz: those that x->decide asks for. */
static glofnd_status write_decisions(gf_error *err, const gf_output_folder *to, const gf_discover_report *x) {
    gf_table_columns why = columns_of("int32 row kept group, text why, float similarity"), kept = columns_of("int32 row");
    row_columns(&why, (row_side){x->d, "row"}, (row_side){x->d, "kept"});
    if (x->decide->splits) gf_table_columns_add(&kept, GF_COLUMN_TEXT, "split");
    if (x->d->name) gf_table_columns_add(&kept, GF_COLUMN_TEXT, "name");
    if (x->d->label) gf_table_columns_add(&kept, GF_COLUMN_INT32, "label");
    const char *table = x->format == GF_TABLE_PARQUET ? "keep" : NULL;
    TRY(write_tables(err, to, x,
                     (gf_table_files){.name = {"keep.txt", "remove.txt", "remove", table},
                                      .columns = {[WHY] = &why, [KEPT] = &kept},
                                      .items = x->d->n,
                                      .fill = fill_decisions,
                                      .arg = x}));
    if (x->decide->splits) {
        gf_table_columns c = columns_of("text a_split b_split, int32 a_index b_index a b, float similarity, flag exact");
        row_columns(&c, (row_side){x->d, "a"}, (row_side){x->d, "b"});
        for (int k = 0; k < x->decide->splits; k++) {
            char name[32];
            const split_part a = {x, &x->decide->split[k]};
            snprintf(name, sizeof name, "keep_%d.txt", k + 1);
            TRY(write_table(err, to, x, name, NULL, a.split->rows, fill_part, &a));
        }
        /* Always a TSV: `--from` reads it. */
        gf_table_columns columns = columns_of("text split, int64 first rows");
        for (int exact = 0; exact < 2; exact++)
            for (int b = 0; b < x->decide->splits; b++) {
                char name[GF_COLUMN_NAME];
                snprintf(name, sizeof name, "%s_%.*s", exact ? "exact" : "in", GF_SPLIT_NAME, x->decide->split[b].name);
                gf_table_columns_add(&columns, GF_COLUMN_INT64, name);
            }
        const gf_table_files t = {.name = {"split_matrix"},
                                  .columns = {&columns},
                                  .items = x->decide->splits,
                                  .block = TABLE_BLOCK,
                                  .fill = fill_matrix,
                                  .arg = x,
                                  .threads = 1};
        TRY(gf_table_files_write(err, to, &t));
        TRY(write_tables(err, to, x,
                         (gf_table_files){.name = {"leaks"},
                                          .columns = {&c},
                                          .items = x->r->f.n + x->decisions->unlisted_count,
                                          .block = block_of(&x->r->f),
                                          .fill = fill_leaks,
                                          .arg = x}));
    }
    if (x->r->f.top > 0) {
        gf_table_columns c = columns_of("int32 row nearest, float similarity threshold score, flag outlier");
        row_columns(&c, (row_side){x->d, "row"}, (row_side){x->d, "nearest"});
        TRY(write_table(err, to, x, "outliers", &c, x->decisions->outliers, fill_outliers, x));
    }
    if (x->d->label) {
        gf_table_columns c =
            columns_of("int32 row label suggested, float score probability, int32 neighbours agree_suggested agree_label");
        if (x->d->name) gf_table_columns_add(&c, GF_COLUMN_TEXT, "name");
        if (x->d->classes.n) gf_table_columns_add(&c, GF_COLUMN_TEXT, "class suggested_class");
        TRY(write_table(err, to, x, "label_issues", &c, x->decisions->issues, fill_issues, x));
    }
    if (x->decide->sample) TRY(write_table(err, to, x, "sample.txt", NULL, x->decisions->samples, fill_sample, x));
    if (x->decide->negatives) TRY(write_array(err, to, x, "negatives.npy", GF_NPY_I4, x->decide->negatives, fill_negative_rows));
    if (x->decide->negatives && x->format == GF_TABLE_PARQUET) {
        gf_table_columns c = columns_of("int32 anchor other, float similarity threshold");
        row_columns(&c, (row_side){x->d, "anchor"}, (row_side){x->d, "other"});
        TRY(write_tables(err, to, x,
                         (gf_table_files){.name = {"negatives"},
                                          .columns = {&c},
                                          .items = x->r->f.n,
                                          .block = 1 + TABLE_BLOCK / (x->decide->negatives + 1),
                                          .fill = fill_negatives,
                                          .arg = x}));
    }
    return x->decide->graph ? write_graph(err, to, x) : GLOFND_OK;
}

/* ----- what a stored result needs to be decided again: rows.npy, names.txt, unreadable.txt, classes.txt ----- */

static void fill_stored_rows(const void *arg, int64_t first, int64_t rows, void *to) {
    const gf_discover_report *x = arg;
    const gf_discover_data *d = x->d;
    int32_t *table = to;
    int64_t good = position_from(d, first);
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

static void fill_classes(const void *arg, int64_t from, int64_t to, gf_lines *out) {
    const gf_discover_data *d = arg;
    for (int64_t i = from; i < to; i++) {
        gf_lines_text(out, gf_string_list_get(&d->classes, i));
        GF_LINES_PUT(out, "\n");
    }
}

/* ----- folder ----- */

/* Every file that write_all() may write, and the ones of earlier versions. */
static const char *const own_files[] = {GF_DISCOVER_MARK,
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
                                        NULL};

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
    gf_table_columns all = columns_of("int32 anchor other, float similarity threshold, flag mutual"),
                     mutual = columns_of("int32 a b, float similarity"),
                     duplicates = columns_of("int32 group a b, float similarity, flag exact");
    pair_lines l = {.x = x};
    add_row_columns(&all, x);
    add_row_columns(&mutual, x);
    add_row_columns(&duplicates, x);
    /* Counts the pairs equal to the cutoff before each block: only the first ones are listed. */
    const gf_pairs_found *f = &x->r->f;
    const int64_t block = block_of(f);
    int64_t ties = 0;
    l.ties = malloc((size_t)(f->n / block + 1) * sizeof *l.ties);
    FAIL_IF(err, !l.ties, GLOFND_E_MEMORY, "no memory for pairs");
    for (int64_t i = 0; i < f->n; i++) {
        if (i % block == 0) l.ties[i / block] = ties;
        for (int64_t k = 0; k < f->top && f->similarity[i * f->top + k] > f->lambda[i]; k++)
            gf_discover_listed(x->r, i, k, &ties);
    }
    const char *json = x->format == GF_TABLE_JSONL ? "pairs.jsonl" : NULL;
    const glofnd_status status =
        write_tables(err, to, x,
                     (gf_table_files){.name = {[ALL] = "pairs", [MUTUAL] = x->query ? NULL : "mutual", [JSON] = json},
                                      .columns = {[ALL] = &all, [MUTUAL] = &mutual},
                                      .items = f->n,
                                      .block = block,
                                      .fill = fill_pairs,
                                      .arg = &l});
    free(l.ties);
    TRY(status);
    TRY(write_tables(err, to, x,
                     (gf_table_files){.name = {"duplicates"},
                                      .columns = {&duplicates},
                                      .items = f->n,
                                      .block = block,
                                      .fill = x->s->dup_exact ? fill_exact : fill_near,
                                      .arg = x}));
    if (!x->query) TRY(write_components(err, to, x, "components", &x->r->parts));
    if (!x->query) TRY(write_components(err, to, x, "duplicate_groups", &x->r->groups));
    const gf_table_columns bad = columns_of(x->q->name ? "int32 row, text why name" : "int32 row, text why");
    TRY(write_table(err, to, x, "bad_rows", &bad, x->q->n, fill_bad, x->q));
    TRY(write_array(err, to, x, "anchors.npy", GF_NPY_F8, COLUMNS, fill_anchors));
    if (f->top > 0) { /* the most similar others of every row, also below the threshold */
        TRY(write_array(err, to, x, "neighbours.npy", GF_NPY_I4, f->top, fill_others));
        TRY(write_array(err, to, x, "similarities.npy", GF_NPY_F4, f->top, fill_similarities));
    }
    if (x->decisions) TRY(write_decisions(err, to, x));
    if (!x->query) {
        /* rows.npy: the first row of the same bytes, the number of duplicates, the label (-1: unknown) of each row. names.txt: a
         * name per line, if there are names; escaped if one of them is not a line. */
        const name_lines names = {x->d, gf_stored_names_escaped(x->d)};
        TRY(write_array(err, to, x, "rows.npy", GF_NPY_I4, GF_STORED_COLUMNS, fill_stored_rows));
        if (x->d->unreadable) TRY(write_table(err, to, x, "unreadable.txt", NULL, x->d->n, fill_unreadable, x->d));
        if (x->d->name) TRY(write_table(err, to, x, "names.txt", NULL, x->d->n, fill_names, &names));
    }
    /* The names of the classes, one per line, if the labels have names. */
    if (x->d->label && x->d->classes.n) TRY(write_table(err, to, x, "classes.txt", NULL, x->d->classes.n, fill_classes, x->d));
    if (x->query && x->q->label && x->q->classes.n)
        TRY(write_table(err, to, x, "query_classes.txt", NULL, x->q->classes.n, fill_classes, x->q));
    char path[PATH_MAX];
    if (x->html && !x->query) {
        TRY(gf_output_folder_path(err, to, "index.html", path));
        TRY(x->write_html(err, path, x));
    }
    gf_text text = {0};
    TRY(gf_output_folder_path(err, to, GF_DISCOVER_MARK, path));
    TRY(gf_discover_write_json(err, path, x));
    TRY(gf_output_folder_path(err, to, "summary.txt", path));
    gf_discover_summary(&text, x);
    FILE *file = text.failed ? NULL : gf_stream_open(path, "w");
    const int failed = !file || fputs(text.at ? text.at : "", file) < 0;
    const int closed = file ? fclose(file) : -1;
    gf_text_free(&text);
    FAIL_IF(err, failed || closed != 0, GLOFND_E_IO, "'%.300s' cannot be written", path);
    FAIL_IF(err, gf_job_stopped(&x->s->task.watch), GLOFND_E_CANCELLED, "cancelled");
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

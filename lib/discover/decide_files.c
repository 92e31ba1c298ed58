/* decide_files.c - see decide_files.h. */
#include "discover/decide_files.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "discover/decide.h"
#include "discover/row_cells.h"
#include "io/npy.h"
#include "util/array.h"

enum { BLOCK = 4096 }; /* lines that are formatted at once */

static glofnd_status write_lines(gf_error *err, const gf_output_folder *to, const gf_discover_report *x, gf_table_files t) {
    t.block = t.block ? t.block : BLOCK;
    t.format = x->format, t.threads = x->s->threads, t.watch = &x->s->watch;
    return gf_table_files_write(err, to, &t);
}

/* ----- keep and remove ----- */

/* The first position whose row is not below `row`. */
static int64_t position_from(const gf_discover_data *d, int64_t row) {
    int64_t low = 0, high = d->good_n;
    while (low < high) {
        const int64_t mid = low + (high - low) / 2;
        if (d->good[mid] < row) low = mid + 1;
        else high = mid;
    }
    return low;
}

enum { KEEP, REMOVE, WHY, KEPT }; /* KEPT only as Parquet: keep.txt with names and labels */

static void put_kept(gf_lines *out, const gf_discover_report *x, int64_t row) {
    gf_lines_integer(&out[KEEP], row);
    GF_LINES_PUT(&out[KEEP], "\n");
    if (x->format != GF_TABLE_PARQUET) return;
    const int split = gf_split_of(x->decide, row);
    gf_cell_integer(&out[KEPT], row);
    if (x->decide->splits) gf_cell_text(&out[KEPT], split < 0 ? "" : x->decide->split[split].name);
    if (x->d->name) gf_cell_text(&out[KEPT], x->d->name[row]);
    if (x->d->label) gf_cell_integer(&out[KEPT], x->d->label[row]);
    gf_row_end(&out[KEPT]);
}

static void put_removed(gf_lines *out, const gf_discover_report *x, int64_t row, int64_t position) {
    const gf_discover_data *d = x->d;
    const int good = d->kind[row] == GF_ROW_GOOD;
    const int64_t kept = good ? x->decisions->kept[position] : -1;
    gf_lines_integer(&out[REMOVE], row);
    GF_LINES_PUT(&out[REMOVE], "\n");
    gf_cell_integer(&out[WHY], row);
    gf_cell_integer(&out[WHY], good ? d->good[kept] : -1);
    gf_cell_integer(&out[WHY], good ? x->r->groups.of[position] : -1);
    gf_cell_text(&out[WHY], !good                                      ? gf_discover_bad_kind(d, row)
                            : d->copy_of[position] == d->copy_of[kept] ? "exact"
                                                                       : "duplicate");
    gf_row_cells(&out[WHY], d, row, d, good ? d->good[kept] : -1);
}

static void fill_decisions(const void *arg, int64_t from, int64_t to, gf_lines *out) {
    const gf_discover_report *x = arg;
    int64_t p = position_from(x->d, from);
    for (int64_t row = from; row < to; row++) {
        const int good = x->d->kind[row] == GF_ROW_GOOD;
        if (good && x->decisions->kept[p] == p) put_kept(out, x, row);
        else put_removed(out, x, row, p);
        p += good;
    }
}

static glofnd_status write_decisions(gf_error *err, const gf_output_folder *to, const gf_discover_report *x) {
    gf_table_columns why = {0}, kept = {0};
    gf_table_columns_add(&why, GF_COLUMN_INT32, "row kept group");
    gf_table_columns_add(&why, GF_COLUMN_TEXT, "why");
    gf_row_columns(&why, (gf_row_side){x->d, "row"}, (gf_row_side){x->d, "kept"});
    gf_table_columns_add(&kept, GF_COLUMN_INT32, "row");
    if (x->decide->splits) gf_table_columns_add(&kept, GF_COLUMN_TEXT, "split");
    if (x->d->name) gf_table_columns_add(&kept, GF_COLUMN_TEXT, "name");
    if (x->d->label) gf_table_columns_add(&kept, GF_COLUMN_INT32, "label");
    const char *table = x->format == GF_TABLE_PARQUET ? "keep" : NULL;
    return write_lines(err, to, x,
                       (gf_table_files){.name = {"keep.txt", "remove.txt", "remove", table},
                                        .columns = {[WHY] = &why, [KEPT] = &kept},
                                        .items = x->d->n,
                                        .fill = fill_decisions,
                                        .arg = x});
}

/* ----- splits ----- */

typedef struct part {
    const gf_discover_report *x;
    const gf_row_split *split;
} part;

/* Kept rows of a split, counted from its first row. */
static void fill_part(const void *arg, int64_t from, int64_t to, gf_lines *out) {
    const part *a = arg;
    const gf_discover_data *d = a->x->d;
    const int64_t first = a->split->first;
    for (int64_t p = position_from(d, first + from); p < d->good_n && d->good[p] < first + to; p++) {
        if (a->x->decisions->kept[p] != p) continue;
        gf_lines_integer(out, d->good[p] - first);
        GF_LINES_PUT(out, "\n");
    }
}

static glofnd_status write_parts(gf_error *err, const gf_output_folder *to, const gf_discover_report *x) {
    for (int k = 0; k < x->decide->splits; k++) {
        char name[32];
        const part a = {x, &x->decide->split[k]};
        snprintf(name, sizeof name, "keep_%d.txt", k + 1);
        TRY(write_lines(err, to, x, (gf_table_files){.name = {name}, .items = a.split->rows, .fill = fill_part, .arg = &a}));
    }
    return GLOFND_OK;
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

/* Always a TSV: `--from` reads it. */
static glofnd_status write_matrix(gf_error *err, const gf_output_folder *to, const gf_discover_report *x) {
    gf_table_columns c = {0};
    gf_table_columns_add(&c, GF_COLUMN_TEXT, "split");
    gf_table_columns_add(&c, GF_COLUMN_INT64, "first rows");
    for (int exact = 0; exact < 2; exact++)
        for (int b = 0; b < x->decide->splits; b++) {
            char name[GF_COLUMN_NAME];
            snprintf(name, sizeof name, "%s_%.*s", exact ? "exact" : "in", GF_SPLIT_NAME, x->decide->split[b].name);
            gf_table_columns_add(&c, GF_COLUMN_INT64, name);
        }
    const gf_table_files t = {.name = {"split_matrix"},
                              .columns = {&c},
                              .items = x->decide->splits,
                              .block = BLOCK,
                              .fill = fill_matrix,
                              .arg = x,
                              .threads = 1};
    return gf_table_files_write(err, to, &t);
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
    gf_row_cells(t, d, a, d, b);
}

/* The pairs of duplicates.tsv whose rows are in two splits; then rows that leak without being in one of these. */
static void fill_leaks(const void *arg, int64_t from, int64_t to, gf_lines *out) {
    const gf_discover_report *x = arg;
    const gf_pairs_found *f = &x->r->f;
    const gf_discover_data *d = x->d;
    const float limit = gf_discover_dup(x->s, d->dim);
    const int exact = x->s->dup == GF_DUP_EXACT;
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

static glofnd_status write_splits(gf_error *err, const gf_output_folder *to, const gf_discover_report *x) {
    gf_table_columns c = {0};
    gf_table_columns_add(&c, GF_COLUMN_TEXT, "a_split b_split");
    gf_table_columns_add(&c, GF_COLUMN_INT32, "a_index b_index a b");
    gf_table_columns_add(&c, GF_COLUMN_FLOAT, "similarity");
    gf_table_columns_add(&c, GF_COLUMN_FLAG, "exact");
    gf_row_columns(&c, (gf_row_side){x->d, "a"}, (gf_row_side){x->d, "b"});
    TRY(write_parts(err, to, x));
    TRY(write_matrix(err, to, x));
    return write_lines(err, to, x,
                       (gf_table_files){.name = {"leaks"},
                                        .columns = {&c},
                                        .items = x->r->f.n + x->decisions->unlisted_count,
                                        .block = 1 + BLOCK / (x->r->f.top + 1),
                                        .fill = fill_leaks,
                                        .arg = x});
}

/* ----- outliers and labels ----- */

static void fill_outliers(const void *arg, int64_t from, int64_t to, gf_lines *out) {
    const gf_discover_report *x = arg;
    const gf_pairs_found *f = &x->r->f;
    for (int64_t k = from; k < to; k++) {
        const int64_t i = x->decisions->outlier[k], near = f->other[i * f->top];
        const double v = (double)f->similarity[i * f->top];
        gf_cell_integer(out, x->d->good[i]);
        gf_cell_integer(out, x->d->good[near]);
        gf_cell_real(out, v);
        gf_cell_real(out, (double)f->lambda[i]);
        gf_cell_flag(out, v < x->decisions->outlier_limit);
        gf_row_cells(out, x->d, x->d->good[i], x->d, x->d->good[near]);
    }
}

static glofnd_status write_outliers(gf_error *err, const gf_output_folder *to, const gf_discover_report *x) {
    gf_table_columns c = {0};
    gf_table_columns_add(&c, GF_COLUMN_INT32, "row nearest");
    gf_table_columns_add(&c, GF_COLUMN_FLOAT, "similarity threshold");
    gf_table_columns_add(&c, GF_COLUMN_FLAG, "outlier");
    gf_row_columns(&c, (gf_row_side){x->d, "row"}, (gf_row_side){x->d, "nearest"});
    return write_lines(err, to, x,
                       (gf_table_files){.name = {"outliers"},
                                        .columns = {&c},
                                        .items = x->decisions->outliers,
                                        .fill = fill_outliers,
                                        .arg = x});
}

static void fill_issues(const void *arg, int64_t from, int64_t to, gf_lines *out) {
    const gf_discover_report *x = arg;
    for (int64_t k = from; k < to; k++) {
        const gf_label_issue *e = &x->decisions->issue[k];
        const int64_t row = x->d->good[e->position];
        gf_cell_integer(out, row);
        gf_cell_integer(out, x->d->label[row]);
        gf_cell_integer(out, e->suggested);
        gf_cell_real(out, gf_label_issue_score(e));
        gf_cell_integer(out, e->votes);
        gf_cell_integer(out, e->best);
        gf_cell_integer(out, e->own);
        if (x->d->name) gf_cell_text(out, x->d->name[row]);
        if (x->d->classes.n) gf_cell_text(out, gf_string_list_get(&x->d->classes, x->d->label[row]));
        if (x->d->classes.n) gf_cell_text(out, gf_string_list_get(&x->d->classes, e->suggested));
        gf_row_end(out);
    }
}

static glofnd_status write_issues(gf_error *err, const gf_output_folder *to, const gf_discover_report *x) {
    gf_table_columns c = {0};
    gf_table_columns_add(&c, GF_COLUMN_INT32, "row label suggested");
    gf_table_columns_add(&c, GF_COLUMN_FLOAT, "score");
    gf_table_columns_add(&c, GF_COLUMN_INT32, "neighbours agree_suggested agree_label");
    if (x->d->name) gf_table_columns_add(&c, GF_COLUMN_TEXT, "name");
    if (x->d->classes.n) gf_table_columns_add(&c, GF_COLUMN_TEXT, "class suggested_class");
    return write_lines(err, to, x,
                       (gf_table_files){.name = {"label_issues"},
                                        .columns = {&c},
                                        .items = x->decisions->issues,
                                        .fill = fill_issues,
                                        .arg = x});
}

/* ----- subset and negatives ----- */

static void fill_sample(const void *arg, int64_t from, int64_t to, gf_lines *out) {
    const gf_discover_report *x = arg;
    for (int64_t k = from; k < to; k++) {
        gf_lines_integer(out, x->d->good[x->decisions->sample[k]]);
        GF_LINES_PUT(out, "\n");
    }
}

static glofnd_status write_negatives(gf_error *err, const gf_output_folder *to, const gf_discover_report *x) {
    const int64_t n = x->d->n, k = x->decide->negatives, edge = x->r->f.edge;
    char path[PATH_MAX];
    TRY(gf_output_folder_path(err, to, "negatives.npy", path));
    int32_t *table = malloc((size_t)(n * k) * sizeof *table);
    FAIL_IF(err, !table, GLOFND_E_MEMORY, "no memory for %lld negatives of each row", (long long)k);
    for (int64_t c = 0; c < n * k; c++) table[c] = -1;
    for (int64_t i = 0; i < x->r->f.n; i++)
        for (int64_t e = 0; e < k && e < edge && x->r->f.edge_other[i * edge + e] >= 0; e++)
            table[(int64_t)x->d->good[i] * k + e] = x->d->good[x->r->f.edge_other[i * edge + e]];
    const gf_npy a = {.type = GF_NPY_I4, .rank = 2, .shape = {n, k}, .data = table};
    const glofnd_status status = gf_npy_write(err, path, &a);
    free(table);
    return status;
}

/* negatives.npy as a table of pairs. */
static void fill_negatives(const void *arg, int64_t from, int64_t to, gf_lines *out) {
    const gf_discover_report *x = arg;
    const gf_pairs_found *f = &x->r->f;
    for (int64_t i = from; i < to; i++)
        for (int64_t e = i * f->edge; e < i * f->edge + GF_MIN(x->decide->negatives, f->edge) && f->edge_other[e] >= 0; e++) {
            gf_cell_integer(out, x->d->good[i]);
            gf_cell_integer(out, x->d->good[f->edge_other[e]]);
            gf_cell_real(out, (double)f->edge_similarity[e]);
            gf_cell_real(out, (double)f->lambda[i]);
            gf_row_cells(out, x->d, x->d->good[i], x->d, x->d->good[f->edge_other[e]]);
        }
}

static glofnd_status write_negative_pairs(gf_error *err, const gf_output_folder *to, const gf_discover_report *x) {
    gf_table_columns c = {0};
    gf_table_columns_add(&c, GF_COLUMN_INT32, "anchor other");
    gf_table_columns_add(&c, GF_COLUMN_FLOAT, "similarity threshold");
    gf_row_columns(&c, (gf_row_side){x->d, "anchor"}, (gf_row_side){x->d, "other"});
    return write_lines(err, to, x,
                       (gf_table_files){.name = {"negatives"},
                                        .columns = {&c},
                                        .items = x->r->f.n,
                                        .block = 1 + BLOCK / (x->decide->negatives + 1),
                                        .fill = fill_negatives,
                                        .arg = x});
}

glofnd_status gf_decide_write(gf_error *err, const gf_output_folder *to, const gf_discover_report *x) {
    TRY(write_decisions(err, to, x));
    if (x->decide->splits) TRY(write_splits(err, to, x));
    if (x->r->f.top > 0) TRY(write_outliers(err, to, x));
    if (x->d->label) TRY(write_issues(err, to, x));
    if (x->decide->sample)
        TRY(write_lines(err, to, x,
                        (gf_table_files){.name = {"sample.txt"}, .items = x->decisions->samples, .fill = fill_sample, .arg = x}));
    if (x->decide->negatives) TRY(write_negatives(err, to, x));
    if (x->decide->negatives && x->format == GF_TABLE_PARQUET) TRY(write_negative_pairs(err, to, x));
    return x->decide->graph ? gf_decide_write_graph(err, to, x) : GLOFND_OK;
}

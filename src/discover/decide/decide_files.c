/* decide_files.c - see decide_files.h. */
#include "discover/decide/decide_files.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "discover/decide/decide.h"
#include "discover/table_files.h"
#include "io/npy.h"

enum { BLOCK = 4096 }; /* lines that are formatted at once */

/* Digits that float32 distinguishes. */
static double rounded(double x) { return round(x * 1e8) / 1e8; }

static void put_cell(gf_lines *t, int64_t x) {
    GF_LINES_PUT(t, "\t");
    gf_lines_integer(t, x);
}

static void put_fixed(gf_lines *t, double x) {
    GF_LINES_PUT(t, "\t");
    gf_lines_fixed(t, rounded(x));
}

static void put_name(gf_lines *t, const gf_discover_data *d, int64_t row) {
    if (!d->name) return;
    GF_LINES_PUT(t, "\t");
    if (row >= 0) gf_lines_text(t, d->name[row]);
}

static void put_label(gf_lines *t, const gf_discover_data *d, int64_t row) {
    if (!d->label) return;
    GF_LINES_PUT(t, "\t");
    if (row >= 0) gf_lines_integer(t, d->label[row]);
}

/* Two rows: names, then labels, as in the tables of pairs. */
static void end_row(gf_lines *t, const gf_discover_data *d, int64_t a, int64_t b) {
    put_name(t, d, a);
    put_name(t, d, b);
    put_label(t, d, a);
    put_label(t, d, b);
    GF_LINES_PUT(t, "\n");
}

/* columns, then the names of the two rows: "row", "kept" ... */
static void heading(const gf_discover_data *d, const char *columns, const char *a, const char *b, char out[200]) {
    int used = snprintf(out, 200, "%s", columns);
    if (d->name) used += snprintf(out + used, 200 - (size_t)used, "\t%.20s_name\t%.20s_name", a, b);
    if (d->label) snprintf(out + used, 200 - (size_t)used, "\t%.20s_label\t%.20s_label", a, b);
}

static glofnd_status write_lines(gf_error *err, const gf_output_folder *to, const gf_discover_report *x, gf_table_files t) {
    t.block = t.block ? t.block : BLOCK;
    t.threads = x->s->threads, t.watch = &x->s->watch;
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

enum { KEEP, REMOVE, WHY };

static void put_removed(gf_lines *out, const gf_discover_report *x, int64_t row, int64_t position) {
    const gf_discover_data *d = x->d;
    const int good = d->kind[row] == GF_ROW_GOOD;
    const int64_t kept = good ? x->decisions->kept[position] : -1;
    gf_lines_integer(&out[REMOVE], row);
    GF_LINES_PUT(&out[REMOVE], "\n");
    gf_lines_integer(&out[WHY], row);
    put_cell(&out[WHY], good ? d->good[kept] : -1);
    put_cell(&out[WHY], good ? x->r->groups.of[position] : -1);
    gf_lines_text(&out[WHY], !good                                      ? d->kind[row] == GF_ROW_ZERO ? "\tzero" : "\tnot finite"
                             : d->copy_of[position] == d->copy_of[kept] ? "\texact"
                                                                        : "\tduplicate");
    end_row(&out[WHY], d, row, good ? d->good[kept] : -1);
}

static void fill_decisions(const void *arg, int64_t from, int64_t to, gf_lines *out) {
    const gf_discover_report *x = arg;
    int64_t p = position_from(x->d, from);
    for (int64_t row = from; row < to; row++) {
        const int good = x->d->kind[row] == GF_ROW_GOOD;
        if (good && x->decisions->kept[p] == p) {
            gf_lines_integer(&out[KEEP], row);
            GF_LINES_PUT(&out[KEEP], "\n");
        } else put_removed(out, x, row, p);
        p += good;
    }
}

static glofnd_status write_decisions(gf_error *err, const gf_output_folder *to, const gf_discover_report *x) {
    char title[200];
    heading(x->d, "row\tkept\tgroup\twhy", "row", "kept", title);
    return write_lines(err, to, x,
                       (gf_table_files){.name = {"keep.txt", "remove.txt", "remove.tsv"},
                                        .heading = {[WHY] = title},
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
        gf_lines_text(out, c->split[a].name);
        put_cell(out, c->split[a].first);
        put_cell(out, c->split[a].rows);
        for (int b = 0; b < c->splits; b++) put_cell(out, x->decisions->leak[a][b]);
        for (int b = 0; b < c->splits; b++) put_cell(out, x->decisions->exact[a][b]);
        GF_LINES_PUT(out, "\n");
    }
}

static glofnd_status write_matrix(gf_error *err, const gf_output_folder *to, const gf_discover_report *x) {
    gf_text title = {0};
    gf_text_add(&title, "split\tfirst\trows");
    for (int exact = 0; exact < 2; exact++)
        for (int b = 0; b < x->decide->splits; b++)
            gf_text_add(&title, "\t%s_%s", exact ? "exact" : "in", x->decide->split[b].name);
    glofnd_status status = title.failed ? gf_fail(err, GLOFND_E_MEMORY, "no memory for a heading")
                                        : write_lines(err, to, x,
                                                      (gf_table_files){.name = {"split_matrix.tsv"},
                                                                       .heading = {title.at},
                                                                       .items = x->decide->splits,
                                                                       .fill = fill_matrix,
                                                                       .arg = x});
    gf_text_free(&title);
    return status;
}

static void put_leak(gf_lines *t, const gf_discover_report *x, int64_t i, int64_t j, double similarity) {
    const gf_discover_data *d = x->d;
    const gf_decide_spec *c = x->decide;
    const int64_t a = d->good[i], b = d->good[j];
    const int s = gf_split_of(c, a), u = gf_split_of(c, b);
    if (s < 0 || u < 0 || s == u) return;
    gf_lines_text(t, c->split[s].name);
    GF_LINES_PUT(t, "\t");
    gf_lines_text(t, c->split[u].name);
    put_cell(t, a - c->split[s].first);
    put_cell(t, b - c->split[u].first);
    put_cell(t, a);
    put_cell(t, b);
    put_fixed(t, similarity);
    put_cell(t, gf_discover_exact(d, x->r, i, j));
    end_row(t, d, a, b);
}

/* The pairs of duplicates.tsv whose rows are in two splits. */
static void fill_leaks(const void *arg, int64_t from, int64_t to, gf_lines *out) {
    const gf_discover_report *x = arg;
    const gf_pairs_found *f = &x->r->f;
    const float limit = gf_discover_dup(x->s, x->d->dim);
    for (int64_t i = from; i < to && x->s->dup != GF_DUP_EXACT; i++)
        for (int64_t k = 0; k < f->top && f->similarity[i * f->top + k] >= limit; k++)
            if (gf_discover_canonical(f, i, k))
                put_leak(out, x, i, f->other[i * f->top + k], (double)f->similarity[i * f->top + k]);
    for (int64_t i = from; i < to && x->s->dup == GF_DUP_EXACT; i++)
        if (x->d->copy_of[i] != i) put_leak(out, x, x->d->copy_of[i], i, 1.0);
}

static glofnd_status write_splits(gf_error *err, const gf_output_folder *to, const gf_discover_report *x) {
    char title[200];
    heading(x->d, "a_split\tb_split\ta_index\tb_index\ta\tb\tsimilarity\texact", "a", "b", title);
    TRY(write_parts(err, to, x));
    TRY(write_matrix(err, to, x));
    return write_lines(err, to, x,
                       (gf_table_files){.name = {"leaks.tsv"},
                                        .heading = {title},
                                        .items = x->r->f.n,
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
        gf_lines_integer(out, x->d->good[i]);
        put_cell(out, x->d->good[near]);
        put_fixed(out, v);
        put_fixed(out, (double)f->lambda[i]);
        put_cell(out, v < x->decisions->outlier_limit);
        end_row(out, x->d, x->d->good[i], x->d->good[near]);
    }
}

static glofnd_status write_outliers(gf_error *err, const gf_output_folder *to, const gf_discover_report *x) {
    char title[200];
    heading(x->d, "row\tnearest\tsimilarity\tthreshold\toutlier", "row", "nearest", title);
    return write_lines(err, to, x,
                       (gf_table_files){.name = {"outliers.tsv"},
                                        .heading = {title},
                                        .items = x->decisions->outliers,
                                        .fill = fill_outliers,
                                        .arg = x});
}

static void fill_issues(const void *arg, int64_t from, int64_t to, gf_lines *out) {
    const gf_discover_report *x = arg;
    for (int64_t k = from; k < to; k++) {
        const gf_label_issue *e = &x->decisions->issue[k];
        const int64_t row = x->d->good[e->position];
        gf_lines_integer(out, row);
        put_cell(out, x->d->label[row]);
        put_cell(out, e->suggested);
        put_fixed(out, gf_label_issue_score(e));
        put_cell(out, e->votes);
        put_cell(out, e->best);
        put_cell(out, e->own);
        put_name(out, x->d, row);
        GF_LINES_PUT(out, "\n");
    }
}

static glofnd_status write_issues(gf_error *err, const gf_output_folder *to, const gf_discover_report *x) {
    const char *title = x->d->name ? "row\tlabel\tsuggested\tscore\tneighbours\tagree_suggested\tagree_label\tname"
                                   : "row\tlabel\tsuggested\tscore\tneighbours\tagree_suggested\tagree_label";
    return write_lines(err, to, x,
                       (gf_table_files){.name = {"label_issues.tsv"},
                                        .heading = {title},
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

glofnd_status gf_decide_write(gf_error *err, const gf_output_folder *to, const gf_discover_report *x) {
    TRY(write_decisions(err, to, x));
    if (x->decide->splits) TRY(write_splits(err, to, x));
    if (x->r->f.top > 0) TRY(write_outliers(err, to, x));
    if (x->d->label) TRY(write_issues(err, to, x));
    if (x->decide->sample)
        TRY(write_lines(err, to, x,
                        (gf_table_files){.name = {"sample.txt"}, .items = x->decisions->samples, .fill = fill_sample, .arg = x}));
    if (x->decide->negatives) TRY(write_negatives(err, to, x));
    return x->decide->graph ? gf_decide_write_graph(err, to, x) : GLOFND_OK;
}

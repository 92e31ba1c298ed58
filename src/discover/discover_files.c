/* discover_files.c - see discover_files.h: tables of pairs, components and rows. */
#include "discover/discover_files.h"

#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "discover/decide/decide_files.h"
#include "discover/stored_rows.h"
#include "discover/table_files.h"
#include "io/calls.h"
#include "io/file.h"
#include "io/npy.h"
#include "util/path.h"

/* ----- TSV file ----- */

typedef struct tsv_file {
    FILE *f;
    char path[PATH_MAX];
} tsv_file;

static glofnd_status tsv_open(gf_error *err, tsv_file *t, const gf_output_folder *to, const char *name, const char *heading) {
    *t = (tsv_file){0};
    TRY(gf_output_folder_path(err, to, name, t->path));
    t->f = gf_stream_open(t->path, "w");
    FAIL_IF(err, !t->f, GLOFND_E_IO, "'%.300s' cannot be written: %s", t->path, strerror(errno));
    fprintf(t->f, "%s\n", heading);
    return GLOFND_OK;
}

static glofnd_status tsv_close(gf_error *err, tsv_file *t) {
    if (!t->f) return GLOFND_OK;
    const int failed = ferror(t->f) | fclose(t->f);
    t->f = NULL;
    FAIL_IF(err, failed, GLOFND_E_IO, "'%.300s' cannot be written: %s", t->path, strerror(errno));
    return GLOFND_OK;
}

/* ----- pairs ----- */

typedef struct pair {
    int64_t i, j;          /* positions: anchor, other */
    int64_t anchor, other; /* rows */
    double similarity, threshold;
    int mutual;
} pair;

/* Digits that float32 distinguishes. */
static double rounded(float x) { return round((double)x * 1e8) / 1e8; }

static pair pair_at(const gf_discover_report *x, int64_t i, int64_t k) {
    const gf_pairs_found *f = &x->r->f;
    pair p = {.i = i, .j = f->other[i * f->top + k]};
    const float v = f->similarity[i * f->top + k], back = x->lambda ? x->lambda[x->d->good[p.j]] : f->lambda[p.j];
    p.anchor = x->q->good[i], p.other = x->d->good[p.j];
    p.similarity = rounded(v), p.threshold = rounded(f->lambda[i]);
    p.mutual = v > f->lambda[i] && v > back;
    return p;
}

/* The two sides of a query may have names and labels independently. */
static void heading(const gf_discover_report *x, const char *columns, char *out, size_t bytes) {
    snprintf(out, bytes, "%s%s%s%s%s", columns, x->q->name ? "\tanchor_name" : "", x->d->name ? "\tother_name" : "",
             x->q->label ? "\tanchor_label" : "", x->d->label ? "\tother_label" : "");
}

static void put_name(gf_lines *t, const gf_discover_data *d, int64_t row) {
    if (!d->name) return;
    GF_LINES_PUT(t, "\t");
    gf_lines_text(t, d->name[row]);
}

static void put_label(gf_lines *t, const gf_discover_data *d, int64_t row) {
    if (!d->label) return;
    GF_LINES_PUT(t, "\t");
    gf_lines_integer(t, d->label[row]);
}

static void put_row(gf_lines *t, const gf_discover_report *x, const pair *p) {
    put_name(t, x->q, p->anchor);
    put_name(t, x->d, p->other);
    put_label(t, x->q, p->anchor);
    put_label(t, x->d, p->other);
    GF_LINES_PUT(t, "\n");
}

static void put_rows_of(gf_lines *t, const pair *p) {
    gf_lines_integer(t, p->anchor);
    GF_LINES_PUT(t, "\t");
    gf_lines_integer(t, p->other);
    GF_LINES_PUT(t, "\t");
    gf_lines_fixed(t, p->similarity);
}

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
    gf_lines_number(t, p->similarity);
    GF_LINES_PUT(t, ", \"threshold\": ");
    gf_lines_number(t, p->threshold);
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
            GF_LINES_PUT(&out[ALL], "\t");
            gf_lines_fixed(&out[ALL], p.threshold);
            gf_lines_text(&out[ALL], p.mutual ? "\t1" : "\t0");
            put_row(&out[ALL], l->x, &p);
            put_json(&out[JSON], l->x, &p);
            if (l->x->query || !p.mutual || !gf_discover_canonical(f, i, k)) continue;
            put_rows_of(&out[MUTUAL], &p);
            put_row(&out[MUTUAL], l->x, &p);
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
    char all[160], mutual[160];
    pair_lines l = {.x = x};
    heading(x, "anchor\tother\tsimilarity\tthreshold\tmutual", all, sizeof all);
    heading(x, "a\tb\tsimilarity", mutual, sizeof mutual);
    TRY(count_ties(err, &l));
    const gf_table_files t = {
        .name = {[ALL] = "pairs.tsv", [MUTUAL] = x->query ? NULL : "mutual.tsv", [JSON] = "pairs.jsonl"},
        .heading = {[ALL] = all, [MUTUAL] = mutual},
        .items = x->r->f.n,
        .block = block_of(&x->r->f),
        .fill = fill_pairs,
        .arg = &l,
        .threads = x->s->threads,
        .watch = &x->s->watch,
    };
    const glofnd_status status = gf_table_files_write(err, to, &t);
    free(l.ties);
    return status;
}

/* ----- duplicates ----- */

static void put_duplicate(gf_lines *t, const gf_discover_report *x, const pair *p) {
    const int exact = gf_discover_exact(x->d, x->r, p->i, p->j);
    gf_lines_integer(t, x->query ? -1 : x->r->groups.of[p->i]);
    GF_LINES_PUT(t, "\t");
    put_rows_of(t, p);
    gf_lines_text(t, exact ? "\t1" : "\t0");
    put_row(t, x, p);
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
    char title[160];
    heading(x, "group\ta\tb\tsimilarity\texact", title, sizeof title);
    const gf_table_files t = {
        .name = {"duplicates.tsv"},
        .heading = {title},
        .items = x->r->f.n,
        .block = block_of(&x->r->f),
        .arg = x,
        .fill = !exact     ? fill_near
                : x->query ? fill_stored
                           : fill_exact,
        .threads = x->s->threads,
        .watch = &x->s->watch,
    };
    return gf_table_files_write(err, to, &t);
}

/* ----- components and bad rows ----- */

static glofnd_status write_components(gf_error *err, const gf_output_folder *to, const char *name, const gf_discover_data *d,
                                      const gf_components *p) {
    tsv_file t;
    TRY(tsv_open(err, &t, to, name, "number\timages\tpairs\tfirst"));
    for (int64_t i = 0; i < p->count; i++)
        fprintf(t.f, "%lld\t%lld\t%lld\t%d\n", (long long)i, (long long)p->part[i].nodes, (long long)p->part[i].edges,
                (int)d->good[p->part[i].root]);
    return tsv_close(err, &t);
}

static glofnd_status write_bad(gf_error *err, const gf_output_folder *to, const gf_discover_data *d) {
    tsv_file t;
    TRY(tsv_open(err, &t, to, "bad_rows.tsv", d->name ? "row\twhy\tname" : "row\twhy"));
    for (int64_t i = 0; i < d->n; i++) {
        if (d->kind[i] == GF_ROW_GOOD) continue;
        fprintf(t.f, "%lld\t%s", (long long)i, d->kind[i] == GF_ROW_ZERO ? "zero" : "not finite");
        if (d->name) fprintf(t.f, "\t%s", d->name[i]);
        fputc('\n', t.f);
    }
    return tsv_close(err, &t);
}

/* ----- arrays ----- */

enum { COLUMNS = 8 }; /* see docs/discover.md and "columns" of summary.json */

static void fill_row(const gf_discover_report *x, int64_t i, double *row) {
    const gf_pairs_found *f = &x->r->f;
    const int near = f->top > 0 && f->other[i * f->top] >= 0;
    const double values[COLUMNS] = {
        (double)f->lambda[i],
        near ? (double)f->similarity[i * f->top] : NAN,
        near ? (double)x->d->good[f->other[i * f->top]] : -1.0,
        (double)f->above[i],
        (double)f->mutual[i],
        x->r->quality.anchors ? (double)f->hits[i] : -1.0,
        x->query ? -1.0 : (double)x->r->parts.of[i],
        x->query ? -1.0 : (double)x->r->groups.of[i],
    };
    memcpy(row, values, sizeof values);
}

static glofnd_status write_anchors(gf_error *err, const gf_output_folder *to, const gf_discover_report *x) {
    const int64_t n = x->q->n;
    char path[PATH_MAX];
    double *table = malloc((size_t)n * COLUMNS * sizeof *table);
    glofnd_status status = table ? gf_output_folder_path(err, to, "anchors.npy", path)
                                 : gf_fail(err, GLOFND_E_MEMORY, "no memory for the table of anchors");
    for (int64_t c = 0; table && c < n * COLUMNS; c++) table[c] = NAN; /* bad rows */
    for (int64_t i = 0; table && i < x->r->f.n; i++) fill_row(x, i, table + (int64_t)x->q->good[i] * COLUMNS);
    const gf_npy a = {.type = GF_NPY_F8, .rank = 2, .shape = {n, COLUMNS}, .data = table};
    if (status == GLOFND_OK) status = gf_npy_write(err, path, &a);
    free(table);
    return status;
}

/* Most similar others of every row, also below the threshold: int32 rows and float32 similarities, [n][top]. */
static glofnd_status write_neighbours(gf_error *err, const gf_output_folder *to, const gf_discover_report *x) {
    const gf_pairs_found *f = &x->r->f;
    const int64_t n = x->q->n, top = f->top;
    char path[PATH_MAX];
    if (top == 0) return GLOFND_OK;
    int32_t *other = malloc((size_t)(n * top) * sizeof *other);
    float *similarity = malloc((size_t)(n * top) * sizeof *similarity);
    glofnd_status status = other && similarity ? gf_output_folder_path(err, to, "neighbours.npy", path)
                                               : gf_fail(err, GLOFND_E_MEMORY, "no memory for the table of neighbours");
    for (int64_t c = 0; status == GLOFND_OK && c < n * top; c++) other[c] = -1, similarity[c] = NAN;
    for (int64_t i = 0; status == GLOFND_OK && i < f->n; i++)
        for (int64_t k = 0; k < top && f->other[i * top + k] >= 0; k++) {
            const int64_t cell = (int64_t)x->q->good[i] * top + k;
            other[cell] = x->d->good[f->other[i * top + k]], similarity[cell] = f->similarity[i * top + k];
        }
    gf_npy a = {.type = GF_NPY_I4, .rank = 2, .shape = {n, top}, .data = other};
    if (status == GLOFND_OK) status = gf_npy_write(err, path, &a);
    if (status == GLOFND_OK) status = gf_output_folder_path(err, to, "similarities.npy", path);
    a.type = GF_NPY_F4, a.data = similarity;
    if (status == GLOFND_OK) status = gf_npy_write(err, path, &a);
    free(other);
    free(similarity);
    return status;
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
    GF_DISCOVER_MARK,   "summary.txt",
    "index.html",       "pairs.tsv",
    "pairs.jsonl",      "mutual.tsv",
    "duplicates.tsv",   "duplicate_groups.tsv",
    "bad_rows.tsv",     "anchors.npy",
    "neighbours.npy",   "components.tsv",
    "similarities.npy", "keep.txt",
    "remove.txt",       "remove.tsv",
    "outliers.tsv",     "label_issues.tsv",
    "leaks.tsv",        "split_matrix.tsv",
    "sample.txt",       "negatives.npy",
    "graph.npz",        "rows.npy",
    "names.txt",        "keep_1.txt",
    "keep_2.txt",       "keep_3.txt",
    "keep_4.txt",       "keep_5.txt",
    "keep_6.txt",       "keep_7.txt",
    "keep_8.txt",       "keep_9.txt",
    "keep_10.txt",      "keep_11.txt",
    "keep_12.txt",      "keep_13.txt",
    "keep_14.txt",      "keep_15.txt",
    "keep_16.txt",      NULL,
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
    if (!x->query) TRY(write_components(err, to, "components.tsv", x->d, &x->r->parts));
    if (!x->query) TRY(write_components(err, to, "duplicate_groups.tsv", x->d, &x->r->groups));
    TRY(write_bad(err, to, x->q));
    TRY(write_anchors(err, to, x));
    TRY(write_neighbours(err, to, x));
    if (x->decisions) TRY(gf_decide_write(err, to, x));
    if (!x->query) TRY(gf_stored_rows_write(err, to, x));
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

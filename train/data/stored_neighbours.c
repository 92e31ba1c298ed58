/* stored_neighbours.c - reads the folder of a discovery back, to decide again from it; see stored_neighbours.h.
 *
 * The files may be anything: every number is checked before it is used as a place.
 */
#include "data/stored_neighbours.h"

#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "data/embedding_files.h"
#include "discover/stored_rows.h"
#include "io/calls.h"
#include "io/file.h"
#include "io/jsonl.h"
#include "io/npy.h"
#include "util/text.h"

enum { THRESHOLD, ABOVE = 3, MUTUAL, HITS, COMPONENT, GROUP, COLUMNS }; /* of anchors.npy */

typedef struct loading {
    const char *folder;
    gf_stored_result *x;
    int32_t *position; /* [n] of a row; -1: a bad one */
    int has_labels, names_escaped;
} loading;

/* ----- summary.json ----- */

static glofnd_status take_summary(gf_error *err, const char *path, const gf_jsonl_reader *r, loading *l) {
    gf_stored_result *x = l->x;
    int64_t crc = -1, n = 0, dim = 0;
    double labels = 0.0, learned = 0.0, alpha = NAN, dup = NAN;
    const char *source = gf_jsonl_get_text(r, "embeddings");
    const int found = source && gf_jsonl_get_integer(r, "crc32c", &crc) && gf_jsonl_get_integer(r, "rows", &n) &&
                      gf_jsonl_get_integer(r, "dim", &dim) && gf_jsonl_get_integer(r, "k", &x->s.k) &&
                      gf_jsonl_get_integer(r, "rank", &x->rank) && gf_jsonl_get_integer(r, "top", &x->s.top) &&
                      gf_jsonl_get_integer(r, "max_pairs", &x->s.max_pairs) && gf_jsonl_get(r, "alpha", &alpha) &&
                      gf_jsonl_get(r, "dup", &dup) && gf_jsonl_get(r, "learned", &learned);
    FAIL_IF(err,
            !found || x->s.k < 0 || n < 2 || n >= INT32_MAX || dim < 1 || dim > 1 << 20 || x->s.top < 0 || x->s.max_pairs < 1,
            GLOFND_E_FORMAT, "'%.300s' is not the summary of a discovery", path);
    FAIL_IF(err, gf_jsonl_get_text(r, "query") != NULL, GLOFND_E_ARGUMENT,
            "'%.300s' is the result of a --query; --from needs the result of EMB", l->folder);
    FAIL_IF(err, gf_jsonl_get(r, "duplicates_only", &labels), GLOFND_E_ARGUMENT,
            "'%.300s' has only duplicates (--duplicates); --from needs thresholds and neighbours", l->folder);
    FAIL_IF(err, gf_jsonl_get(r, "approx", &labels), GLOFND_E_ARGUMENT,
            "'%.300s' is approximate (--approx); --from needs exact neighbours", l->folder);
    FAIL_IF(err, learned != 0.0, GLOFND_E_ARGUMENT, "thresholds of '%.300s' are learned ones; --from needs exact ones",
            l->folder);
    FAIL_IF(err, !gf_jsonl_get(r, "labels", &labels), GLOFND_E_ARGUMENT,
            "'%.300s' is the result of an earlier version, without rows.npy: search again", l->folder);
    l->has_labels = labels != 0.0;
    l->names_escaped = gf_jsonl_get(r, "names_escaped", &labels) && labels != 0.0;
    x->s.alpha = x->s.k > 0 || isnan(alpha) ? 0.0 : alpha;
    x->s.dup = isnan(dup) ? GF_DUP_EXACT : dup;
    x->d.n = n, x->d.dim = dim, x->d.crc = (uint32_t)crc;
    x->source = strdup(source);
    FAIL_IF(err, !x->source, GLOFND_E_MEMORY, "no memory for a name");
    return GLOFND_OK;
}

static glofnd_status read_summary(gf_error *err, loading *l) {
    char path[PATH_MAX];
    gf_jsonl_reader r;
    TRY(gf_path_join(err, path, l->folder, GF_DISCOVER_MARK));
    TRY(gf_jsonl_read_open(err, &r, path));
    const int found = gf_jsonl_next(&r);
    glofnd_status status = r.status;
    if (status == GLOFND_OK)
        status = found ? take_summary(err, path, &r, l) : gf_fail(err, GLOFND_E_FORMAT, "'%.300s' is empty", path);
    gf_jsonl_read_close(&r);
    return status;
}

/* ----- arrays ----- */

static glofnd_status read_array(gf_error *err, const loading *l, const char *name, gf_npy_type type, int64_t columns, gf_npy *a) {
    char path[PATH_MAX];
    TRY(gf_path_join(err, path, l->folder, name));
    TRY(gf_npy_read(err, path, a));
    FAIL_IF(err, a->type != type || a->rank != 2 || a->shape[0] != l->x->d.n || (columns && a->shape[1] != columns),
            GLOFND_E_FORMAT, "'%.300s' is not a table of %lld rows as a discovery writes it", path, (long long)l->x->d.n);
    return GLOFND_OK;
}

static glofnd_status corrupt(gf_error *err, const loading *l, const char *name, int64_t row) {
    GF_FAIL(err, GLOFND_E_FORMAT, "'%.300s/%s': the numbers of row %lld are not those of a discovery", l->folder, name,
            (long long)row);
}

/* Usable rows, copies and labels. */
static glofnd_status take_rows(gf_error *err, loading *l, const int32_t *table) {
    gf_discover_data *d = &l->x->d;
    d->kind = malloc((size_t)d->n * sizeof *d->kind);
    d->good = malloc((size_t)d->n * sizeof *d->good);
    d->copy_of = malloc((size_t)d->n * sizeof *d->copy_of);
    l->position = malloc((size_t)d->n * sizeof *l->position);
    if (l->has_labels) d->label = malloc((size_t)d->n * sizeof *d->label);
    FAIL_IF(err, !d->kind || !d->good || !d->copy_of || !l->position || (l->has_labels && !d->label), GLOFND_E_MEMORY,
            "no memory for %lld rows", (long long)d->n);
    for (int64_t row = 0; row < d->n; row++) {
        const int32_t copy = table[row * GF_STORED_COLUMNS + GF_STORED_COPY],
                      y = table[row * GF_STORED_COLUMNS + GF_STORED_LABEL];
        if (copy < GF_STORED_ZERO || copy > row || (copy >= 0 && copy < row && table[copy * (int64_t)GF_STORED_COLUMNS] != copy))
            return corrupt(err, l, "rows.npy", row);
        if (table[row * GF_STORED_COLUMNS + GF_STORED_COPIES] < 0 || y < -1) return corrupt(err, l, "rows.npy", row);
        d->kind[row] = copy >= 0 ? GF_ROW_GOOD : copy == GF_STORED_ZERO ? GF_ROW_ZERO : GF_ROW_NOT_FINITE;
        l->position[row] = copy >= 0 ? (int32_t)d->good_n : -1;
        if (d->label) d->label[row] = y;
        if (copy < 0) continue;
        d->copy_of[d->good_n] = l->position[copy];
        d->distinct += copy == row;
        d->good[d->good_n++] = (int32_t)row;
    }
    FAIL_IF(err, d->good_n < 2, GLOFND_E_FORMAT, "'%.300s/rows.npy': fewer than two usable rows", l->folder);
    return GLOFND_OK;
}

/* One list: as many others as there can be, each usable and not the row itself, by falling similarity. */
static int take_list(const loading *l, int64_t i, const int32_t *other, const float *similarity) {
    gf_pairs_found *f = &l->x->f;
    for (int64_t k = 0; k < f->top; k++) {
        const int32_t row = other[k];
        if (row < 0 || row >= l->x->d.n || l->position[row] < 0 || l->position[row] == i || !isfinite(similarity[k])) return 0;
        if (k > 0 && similarity[k] > similarity[k - 1]) return 0;
        f->other[i * f->top + k] = l->position[row], f->similarity[i * f->top + k] = similarity[k];
    }
    return 1;
}

static glofnd_status take_lists(gf_error *err, loading *l, const gf_npy *other, const gf_npy *similarity) {
    const gf_discover_data *d = &l->x->d;
    const int64_t top = l->x->s.top < d->good_n ? l->x->s.top : d->good_n - 1;
    TRY(gf_pairs_found_alloc(err, &l->x->f, d->good_n, top));
    FAIL_IF(err, top > 0 && (other->shape[1] != top || similarity->shape[1] != top), GLOFND_E_FORMAT,
            "'%.300s/neighbours.npy' has not the %lld neighbours of each row that the summary promises", l->folder,
            (long long)top);
    for (int64_t i = 0; top > 0 && i < d->good_n; i++)
        if (!take_list(l, i, (const int32_t *)other->data + d->good[i] * top, (const float *)similarity->data + d->good[i] * top))
            return corrupt(err, l, "neighbours.npy", d->good[i]);
    return GLOFND_OK;
}

static glofnd_status read_lists(gf_error *err, loading *l) {
    gf_npy other = {0}, similarity = {0};
    glofnd_status status = GLOFND_OK;
    if (l->x->s.top > 0) status = read_array(err, l, "neighbours.npy", GF_NPY_I4, 0, &other);
    if (l->x->s.top > 0 && status == GLOFND_OK) status = read_array(err, l, "similarities.npy", GF_NPY_F4, 0, &similarity);
    if (status == GLOFND_OK) status = take_lists(err, l, &other, &similarity);
    gf_npy_free(&other);
    gf_npy_free(&similarity);
    return status;
}

static int count_in(double v, int64_t max, int64_t *out) {
    if (!(v >= 0.0 && v <= (double)max)) return 0;
    *out = (int64_t)v;
    return 1;
}

/* root [n]: the smallest position of the set with that number; first [n] is scratch. -1: alone. */
static int set_root(int64_t n, int64_t i, double number, int32_t *first, int32_t *root) {
    if (!(number >= -1.0 && number < (double)n)) return 0;
    const int64_t k = (int64_t)number;
    root[i] = (int32_t)i;
    if (k < 0) return 1;
    if (first[k] < 0) first[k] = (int32_t)i;
    root[i] = first[k];
    return 1;
}

static glofnd_status take_anchors(gf_error *err, loading *l, const double *table, const int32_t *rows, int32_t *first) {
    const gf_discover_data *d = &l->x->d;
    gf_pairs_found *f = &l->x->f;
    for (int64_t i = 0; i < 2 * f->n; i++) first[i] = -1;
    for (int64_t i = 0; i < f->n; i++) {
        const double *row = table + (int64_t)d->good[i] * COLUMNS;
        f->lambda[i] = (float)row[THRESHOLD];
        f->copies[i] = rows[(int64_t)d->good[i] * GF_STORED_COLUMNS + GF_STORED_COPIES];
        f->hits[i] = -1;
        const int good =
            isfinite(row[THRESHOLD]) && count_in(row[ABOVE], f->n, &f->above[i]) && count_in(row[MUTUAL], f->n, &f->mutual[i]) &&
            (row[HITS] == -1.0 || count_in(row[HITS], f->n, &f->hits[i])) &&
            set_root(f->n, i, row[COMPONENT], first, f->mutual_root) && set_root(f->n, i, row[GROUP], first + f->n, f->copy_root);
        if (!good) return corrupt(err, l, "anchors.npy", d->good[i]);
    }
    return GLOFND_OK;
}

static glofnd_status read_anchors(gf_error *err, loading *l, const gf_npy *rows) {
    gf_npy a = {0};
    glofnd_status status = read_array(err, l, "anchors.npy", GF_NPY_F8, COLUMNS, &a);
    int32_t *first = status == GLOFND_OK ? malloc((size_t)l->x->f.n * 2 * sizeof *first) : NULL;
    if (status == GLOFND_OK)
        status = first ? take_anchors(err, l, a.data, rows->data, first) : gf_fail(err, GLOFND_E_MEMORY, "no memory for anchors");
    free(first);
    gf_npy_free(&a);
    return status;
}

/* ----- names and splits ----- */

static glofnd_status read_names(gf_error *err, loading *l) {
    char path[PATH_MAX];
    int there;
    TRY(gf_path_join(err, path, l->folder, "names.txt"));
    TRY(gf_exists(err, path, &there));
    if (!there) return GLOFND_OK;
    gf_discover_data *d = &l->x->d;
    TRY(gf_discover_read_names(err, path, NULL, d));
    for (int64_t i = 0; l->names_escaped && i < d->n; i++)
        FAIL_IF(err, !gf_unescape(d->name_text + (d->name[i] - d->name_text)), GLOFND_E_FORMAT,
                "'%.300s', line %lld: a backslash begins no escape", path, (long long)i + 1);
    return GLOFND_OK;
}

/* Its path, and whether this result has it. */
static glofnd_status find_file(gf_error *err, const loading *l, const char *name, char path[PATH_MAX], int *there) {
    TRY(gf_path_join(err, path, l->folder, name));
    return gf_exists(err, path, there);
}

/* "row TAB why" */
static glofnd_status take_unreadable(gf_error *err, void *user, char *line, int number) {
    loading *l = user;
    int64_t row = -1;
    char *why = strchr(line, '\t');
    line[strcspn(line, "\n")] = 0;
    if (why) *why++ = 0;
    const int good =
        why && !gf_integer_read(line, &row) && row >= 0 && row < l->x->d.n && l->position[row] < 0 && gf_unescape(why);
    FAIL_IF(err, !good, GLOFND_E_FORMAT, "'%.300s/unreadable.txt': line %d is not that of an unreadable image", l->folder,
            number);
    return gf_discover_set_unreadable(err, &l->x->d, row, why);
}

static glofnd_status read_unreadable(gf_error *err, loading *l) {
    char path[PATH_MAX];
    int there;
    TRY(find_file(err, l, "unreadable.txt", path, &there));
    return there ? gf_each_line(err, path, take_unreadable, l) : GLOFND_OK;
}

static glofnd_status read_classes(gf_error *err, loading *l) {
    char path[PATH_MAX];
    int there;
    TRY(find_file(err, l, "classes.txt", path, &there));
    return there && l->has_labels ? gf_discover_read_classes(err, path, &l->x->d) : GLOFND_OK;
}

/* Tables of the format of this one. */
static glofnd_status find_format(gf_error *err, loading *l) {
    char path[PATH_MAX];
    int there;
    TRY(find_file(err, l, "pairs.parquet", path, &there));
    l->x->format = there ? GF_TABLE_PARQUET : GF_TABLE_TSV;
    return GLOFND_OK;
}

/* "name TAB first TAB rows TAB ..." */
static glofnd_status take_split(gf_error *err, void *user, char *line, int number) {
    loading *l = user;
    if (number == 1) return GLOFND_OK;
    gf_stored_result *x = l->x;
    char *first = strchr(line, '\t'), *rows = first ? strchr(first + 1, '\t') : NULL, *end = rows ? strchr(rows + 1, '\t') : NULL;
    gf_row_split *s = &x->split[x->splits];
    int good = end && x->splits < GF_SPLITS_MAX && first > line && first - line <= GF_SPLIT_NAME;
    if (good) {
        *first = *rows = *end = 0;
        memcpy(s->name, line, strlen(line) + 1);
        good = !gf_integer_read(first + 1, &s->first) && !gf_integer_read(rows + 1, &s->rows) && s->first >= 0 && s->rows > 0 &&
               s->first <= x->d.n && s->rows <= x->d.n - s->first;
        for (const char *c = line; *c; c++)
            good &= strchr("-._", *c) || (*c >= '0' && *c <= '9') || ((*c | 32) >= 'a' && (*c | 32) <= 'z');
    }
    FAIL_IF(err, !good, GLOFND_E_FORMAT, "'%.300s/split_matrix.tsv': line %d is not a split", l->folder, number);
    x->splits++;
    return GLOFND_OK;
}

static glofnd_status read_splits(gf_error *err, loading *l) {
    char path[PATH_MAX];
    int there;
    TRY(find_file(err, l, "split_matrix.tsv", path, &there));
    return there ? gf_each_line(err, path, take_split, l) : GLOFND_OK;
}

static glofnd_status read_all(gf_error *err, loading *l) {
    gf_npy rows = {0};
    TRY(read_summary(err, l));
    glofnd_status status = read_array(err, l, "rows.npy", GF_NPY_I4, GF_STORED_COLUMNS, &rows);
    if (status == GLOFND_OK) status = take_rows(err, l, rows.data);
    if (status == GLOFND_OK) status = read_lists(err, l);
    if (status == GLOFND_OK) status = read_anchors(err, l, &rows);
    gf_npy_free(&rows);
    TRY(status);
    TRY(read_names(err, l));
    TRY(read_unreadable(err, l));
    TRY(read_classes(err, l));
    TRY(find_format(err, l));
    return read_splits(err, l);
}

glofnd_status gf_stored_result_read(gf_error *err, const char *folder, gf_stored_result *x) {
    loading l = {.folder = folder, .x = x};
    *x = (gf_stored_result){0};
    const glofnd_status status = read_all(err, &l);
    free(l.position);
    if (status != GLOFND_OK) gf_stored_result_free(x);
    return status;
}

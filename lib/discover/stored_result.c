/* stored_result.c - see stored_result.h: other settings from stored neighbours; reading the folder of a discovery back.
 *
 * The files may be anything: every number is checked before it is used as a place.
 */
#include "discover/stored_result.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "discover/discover_files.h"
#include "embeddings/embedding_set.h"
#include "io/file.h"
#include "io/jsonl.h"
#include "io/npy.h"
#include "util/array.h"
#include "util/text.h"

/* ---------- other settings ---------- */

static float similarity_at(const gf_pairs_found *f, int64_t i, int64_t k) { return f->similarity[i * f->top + k]; }

/* Rows whose list is full of duplicates: there may be more. *needed: the similarity that duplicates must exceed. */
static int64_t full_lists(const gf_pairs_found *f, float limit, int64_t *first, float *needed) {
    int64_t full = 0;
    *needed = -INFINITY;
    if (f->top >= f->n - 1) return 0; /* all others are listed */
    for (int64_t i = 0; i < f->n; i++) {
        const float last = f->top ? similarity_at(f, i, f->top - 1) : INFINITY;
        if (last >= limit && full++ == 0) *first = i;
        *needed = fmaxf(*needed, last);
    }
    return full;
}

/* Sets copies and copy_root; exact duplicates come from the copies of rows, with the statistics. */
static glofnd_status find_duplicates(gf_error *err, const gf_stored_result *x, const gf_discover_spec *s,
                                     const gf_discover_data *d, gf_pairs_found *f) {
    const gf_pairs_found *old = &x->f;
    const int64_t n = old->n;
    if (s->dup_exact) return GLOFND_OK;
    const float limit = gf_discover_dup(s, d->dim);
    int64_t first = 0;
    float needed;
    const int64_t full = full_lists(old, limit, &first, &needed);
    FAIL_IF(err, full > 0 && limit != gf_discover_dup(&x->s, d->dim), GLOFND_E_ARGUMENT,
            "the %lld listed neighbours of %lld row%s, first row %d, are all of similarity %g or more: others may be, too; "
            "use dup=%.9g or more, or search again with top=%lld or more",
            (long long)old->top, (long long)full, full == 1 ? "" : "s", (int)d->good[first], s->dup,
            (double)nextafterf(needed, 2.0f), (long long)old->top + 1);
    if (full == 0) {
        gf_components_init(f->copy_root, n);
        for (int64_t i = 0; i < n; i++)
            for (int64_t k = 0; k < old->top && similarity_at(old, i, k) >= limit; k++) {
                f->copies[i]++;
                gf_components_join(f->copy_root, (int32_t)i, old->other[i * old->top + k]);
            }
        gf_components_flatten(f->copy_root, n);
    } else {
        memcpy(f->copies, old->copies, (size_t)n * sizeof *f->copies);
        memcpy(f->copy_root, old->copy_root, (size_t)n * sizeof *f->copy_root);
    }
    return GLOFND_OK;
}

/* Of a result that has only duplicates: r->f.top of those that are similar enough. */
static glofnd_status rethreshold_duplicates(gf_error *err, const gf_stored_result *x, const gf_discover_spec *s,
                                            const gf_discover_data *d, gf_discover_result *r) {
    const gf_pairs_found *old = &x->f;
    gf_pairs_found *f = &r->f;
    const float limit = gf_discover_dup(s, d->dim), stored = gf_discover_dup(&x->s, d->dim);
    FAIL_IF(err, limit < stored && x->s.dup_exact, GLOFND_E_ARGUMENT,
            "the stored result has only exact duplicates; dup=%g needs a new search", s->dup);
    FAIL_IF(err, limit < stored, GLOFND_E_ARGUMENT,
            "the stored result has only duplicates of similarity %.9g or more: use dup=%.9g or more, or dup=exact; dup=%g needs "
            "a new search",
            x->s.dup, x->s.dup, s->dup);
    gf_pairs_found_none(f);
    if (!s->dup_exact) f->cells = x->cells, f->compared = x->compared;
    TRY(find_duplicates(err, x, s, d, f));
    for (int64_t i = 0; i < f->n; i++)
        for (int64_t k = 0; k < f->top && similarity_at(old, i, k) >= limit; k++) {
            f->other[i * f->top + k] = old->other[i * old->top + k];
            f->similarity[i * f->top + k] = similarity_at(old, i, k);
        }
    return gf_discover_statistics(err, s, d, NULL, r);
}

/* label [n] by position; NULL: none known. */
static glofnd_status rethreshold_lists(gf_error *err, const gf_stored_result *x, const gf_discover_spec *s,
                                       const gf_discover_data *d, const int32_t *label, int new_labels, gf_discover_result *r) {
    const gf_pairs_found *old = &x->f;
    const int64_t n = old->n, top = GF_MIN(s->task.top, n - 1), below = s->task.below;
    gf_pairs_found *f = &r->f;
    TRY(gf_discover_rank(err, s, d->good_n, &r->rank));
    FAIL_IF(err, top > old->top, GLOFND_E_ARGUMENT,
            "the stored result lists %lld neighbours of each row; top=%lld needs a new search", (long long)old->top,
            (long long)s->task.top);
    TRY(gf_pairs_found_alloc(err, f, n, top));
    if (s->task.only_dup) return rethreshold_duplicates(err, x, s, d, r);
    for (int64_t i = 0; i < n && top > 0; i++) {
        memcpy(f->other + i * top, old->other + i * old->top, (size_t)top * sizeof *f->other);
        memcpy(f->similarity + i * top, old->similarity + i * old->top, (size_t)top * sizeof *f->similarity);
    }
    /* Thresholds, and pairs above them. */
    if (r->rank <= old->top) {
        for (int64_t i = 0; i < n; i++) f->lambda[i] = similarity_at(old, i, r->rank - 1);
        gf_components_init(f->mutual_root, n);
        for (int64_t i = 0; i < n; i++)
            for (int64_t k = 0; k < r->rank && similarity_at(old, i, k) > f->lambda[i]; k++) {
                const int32_t j = old->other[i * old->top + k];
                f->above[i]++;
                f->hits[i] += label && label[i] >= 0 && label[i] == label[j];
                if (!(similarity_at(old, i, k) > f->lambda[j])) continue;
                f->mutual[i]++;
                gf_components_join(f->mutual_root, (int32_t)i, j);
            }
        gf_components_flatten(f->mutual_root, n);
    } else { /* the lists are too short for this rank, but it may be that of the stored result */
        FAIL_IF(err, r->rank != x->rank, GLOFND_E_ARGUMENT,
                "the stored result lists %lld neighbours of each row; a threshold of rank %lld needs as many: use k=%lld or less "
                "(alpha=%.3g), or search again with top=%lld",
                (long long)old->top, (long long)r->rank, (long long)GF_MAX(old->top - 1, 0), (double)old->top / (double)(n - 1),
                (long long)r->rank);
        FAIL_IF(err, label && new_labels, GLOFND_E_ARGUMENT,
                "new labels need the pairs above thresholds of rank %lld; the stored result lists %lld neighbours of each row",
                (long long)r->rank, (long long)old->top);
        memcpy(f->lambda, old->lambda, (size_t)n * sizeof *f->lambda);
        memcpy(f->above, old->above, (size_t)n * sizeof *f->above);
        memcpy(f->mutual, old->mutual, (size_t)n * sizeof *f->mutual);
        memcpy(f->hits, old->hits, (size_t)n * sizeof *f->hits);
        memcpy(f->mutual_root, old->mutual_root, (size_t)n * sizeof *f->mutual_root);
    }
    TRY(find_duplicates(err, x, s, d, f));
    /* Neighbours just below the threshold. */
    if (below > 0) TRY(gf_pairs_found_below(err, f, below));
    for (int64_t i = 0; below > 0 && i < n; i++) {
        const int64_t above = f->above[i], wanted = GF_MIN(below, n - 1 - above);
        FAIL_IF(err, above + wanted > old->top, GLOFND_E_ARGUMENT,
                "the %lld others just below the threshold of row %d (negatives, html) are its neighbours up to number %lld; the "
                "stored result lists %lld: search again with top=%lld",
                (long long)wanted, (int)d->good[i], (long long)(above + wanted), (long long)old->top,
                (long long)(r->rank - 1 + below));
        for (int64_t e = 0; e < wanted; e++) {
            f->below_other[i * below + e] = old->other[i * old->top + above + e];
            f->below_similarity[i * below + e] = similarity_at(old, i, above + e);
        }
    }
    return gf_discover_statistics(err, s, d, label, r);
}

glofnd_status gf_rethreshold(gf_error *err, const gf_stored_result *x, const gf_discover_spec *s, const gf_discover_data *d,
                             int new_labels, gf_discover_result *r) {
    int32_t *label = NULL;
    *r = (gf_discover_result){0};
    TRY(gf_discover_labels(err, d, &label));
    const glofnd_status status = rethreshold_lists(err, x, s, d, label, new_labels, r);
    free(label);
    if (status != GLOFND_OK) gf_discover_result_free(r);
    return status;
}

void gf_stored_result_free(gf_stored_result *x) {
    gf_discover_data_free(&x->d);
    gf_pairs_found_free(&x->f);
    free(x->source);
    *x = (gf_stored_result){0};
}

/* ---------- reading a folder ---------- */

enum { A_THRESHOLD, A_ABOVE = 3, A_MUTUAL, A_HITS, A_COMPONENT, A_GROUP, A_COLUMNS }; /* of anchors.npy */

typedef struct stored_reading {
    const char *folder;
    gf_stored_result *x;
    int32_t *position; /* [n] of a row; -1: a bad one */
    int has_labels, names_escaped;
} stored_reading;

/* ----- summary.json ----- */

static glofnd_status take_summary(gf_error *err, const char *path, const gf_jsonl_reader *r, stored_reading *l) {
    gf_stored_result *x = l->x;
    int64_t crc = -1, n = 0, dim = 0;
    double labels = 0.0, learned = 0.0, alpha = NAN, dup = NAN;
    const char *source = gf_jsonl_get_text(r, "embeddings");
    const int found = source && gf_jsonl_get_integer(r, "crc32c", &crc) && gf_jsonl_get_integer(r, "rows", &n) &&
                      gf_jsonl_get_integer(r, "dim", &dim) && gf_jsonl_get_integer(r, "k", &x->s.k) &&
                      gf_jsonl_get_integer(r, "rank", &x->rank) && gf_jsonl_get_integer(r, "top", &x->s.task.top) &&
                      gf_jsonl_get_integer(r, "max_pairs", &x->s.max_pairs) && gf_jsonl_get(r, "alpha", &alpha) &&
                      gf_jsonl_get(r, "dup", &dup) && gf_jsonl_get(r, "learned", &learned);
    FAIL_IF(err,
            !found || x->s.k < 0 || n < 2 || n >= INT32_MAX || dim < 1 || dim > 1 << 20 || x->s.task.top < 0 ||
                x->s.max_pairs < 1,
            GLOFND_E_FORMAT, "'%.300s' is not the summary of a discovery", path);
    FAIL_IF(err, gf_jsonl_get_text(r, "query") != NULL, GLOFND_E_ARGUMENT,
            "'%.300s' is the result of a query, not of embeddings; only these can be decided again", l->folder);
    FAIL_IF(err, gf_jsonl_get(r, "approx", &labels), GLOFND_E_ARGUMENT,
            "'%.300s' is approximate: its lists answer no other settings. Search again: with approx; or for duplicates alone "
            "with only_duplicates (--duplicates), which is exact and whose result a larger dup can decide again",
            l->folder);
    x->s.task.only_dup = gf_jsonl_get(r, "duplicates_only", &labels) && labels != 0.0;
    x->cells = x->compared = 0;
    FAIL_IF(err,
            x->s.task.only_dup && (!gf_jsonl_get_integer(r, "cells", &x->cells) || x->cells < 0 ||
                                   !gf_jsonl_get_integer(r, "pairs_compared", &x->compared) || x->compared < 0),
            GLOFND_E_FORMAT, "'%.300s' is not the summary of a discovery", path);
    FAIL_IF(err, learned != 0.0, GLOFND_E_ARGUMENT,
            "thresholds of '%.300s' are learned ones; exact ones are needed to decide again", l->folder);
    FAIL_IF(err, !gf_jsonl_get(r, "labels", &labels), GLOFND_E_ARGUMENT,
            "'%.300s' is the result of an earlier version, without rows.npy: search again", l->folder);
    l->has_labels = labels != 0.0;
    l->names_escaped = gf_jsonl_get(r, "names_escaped", &labels) && labels != 0.0;
    x->s.alpha = x->s.k > 0 || isnan(alpha) ? 0.0 : alpha;
    x->s.dup_exact = isnan(dup), x->s.dup = dup;
    x->d.n = n, x->d.dim = dim, x->d.crc = (uint32_t)crc;
    x->source = strdup(source);
    FAIL_IF(err, !x->source, GLOFND_E_MEMORY, "no memory for a name");
    return GLOFND_OK;
}

/* ----- arrays ----- */

static glofnd_status read_array(gf_error *err, const stored_reading *l, const char *name, gf_npy_type type, int64_t columns,
                                gf_npy *a) {
    char path[PATH_MAX];
    TRY(gf_path_join(err, path, l->folder, name));
    TRY(gf_npy_read(err, path, a));
    FAIL_IF(err, a->type != type || a->rank != 2 || a->shape[0] != l->x->d.n || (columns && a->shape[1] != columns),
            GLOFND_E_FORMAT, "'%.300s' is not a table of %lld rows as a discovery writes it", path, (long long)l->x->d.n);
    return GLOFND_OK;
}

static glofnd_status corrupt(gf_error *err, const stored_reading *l, const char *name, int64_t row) {
    GF_FAIL(err, GLOFND_E_FORMAT, "'%.300s/%s': the numbers of row %lld are not those of a discovery", l->folder, name,
            (long long)row);
}

/* Usable rows, copies and labels. */
static glofnd_status take_rows(gf_error *err, stored_reading *l, const int32_t *table) {
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

/* A list has as many others as there can be (of duplicates alone perhaps fewer), each usable and not the row itself, by falling
 * similarity. */
static glofnd_status take_lists(gf_error *err, stored_reading *l, const gf_npy *other, const gf_npy *similarity) {
    const gf_discover_data *d = &l->x->d;
    gf_pairs_found *f = &l->x->f;
    const int64_t top = l->x->s.task.top < d->good_n ? l->x->s.task.top : d->good_n - 1;
    TRY(gf_pairs_found_alloc(err, f, d->good_n, top));
    FAIL_IF(err, top > 0 && (other->shape[1] != top || similarity->shape[1] != top), GLOFND_E_FORMAT,
            "'%.300s/neighbours.npy' has not the %lld neighbours of each row that the summary promises", l->folder,
            (long long)top);
    for (int64_t i = 0; top > 0 && i < d->good_n; i++) {
        const int32_t *row = (const int32_t *)other->data + d->good[i] * top;
        const float *value = (const float *)similarity->data + d->good[i] * top;
        for (int64_t k = 0; k < top; k++) {
            const int32_t position = row[k] >= 0 && row[k] < d->n ? l->position[row[k]] : -1;
            if (l->x->s.task.only_dup && row[k] == -1 && isnan(value[k])) { /* no more duplicates */
                f->other[i * top + k] = -1, f->similarity[i * top + k] = NAN;
                continue;
            }
            if (position < 0 || position == i || !isfinite(value[k]) || (k > 0 && !(value[k] <= value[k - 1])))
                return corrupt(err, l, "neighbours.npy", d->good[i]);
            f->other[i * top + k] = position, f->similarity[i * top + k] = value[k];
        }
    }
    return GLOFND_OK;
}

static int read_count(double v, int64_t max, int64_t *out) {
    if (!(v >= 0.0 && v <= (double)max)) return 0;
    *out = (int64_t)v;
    return 1;
}

/* root [n]: the smallest position of the set with that number; first [n] is scratch. -1: alone. */
static int read_root(int64_t n, int64_t i, double number, int32_t *first, int32_t *root) {
    if (!(number >= -1.0 && number < (double)n)) return 0;
    const int64_t k = (int64_t)number;
    root[i] = (int32_t)i;
    if (k < 0) return 1;
    if (first[k] < 0) first[k] = (int32_t)i;
    root[i] = first[k];
    return 1;
}

static glofnd_status take_anchors(gf_error *err, stored_reading *l, const double *table, const int32_t *rows, int32_t *first) {
    const gf_discover_data *d = &l->x->d;
    gf_pairs_found *f = &l->x->f;
    for (int64_t i = 0; i < 2 * f->n; i++) first[i] = -1;
    for (int64_t i = 0; i < f->n; i++) {
        const double *row = table + (int64_t)d->good[i] * A_COLUMNS;
        f->lambda[i] = (float)row[A_THRESHOLD];
        f->copies[i] = rows[(int64_t)d->good[i] * GF_STORED_COLUMNS + GF_STORED_COPIES];
        f->hits[i] = -1;
        const int good = (isfinite(row[A_THRESHOLD]) || (l->x->s.task.only_dup && row[A_THRESHOLD] > 0.0)) &&
                         read_count(row[A_ABOVE], f->n, &f->above[i]) && read_count(row[A_MUTUAL], f->n, &f->mutual[i]) &&
                         (row[A_HITS] == -1.0 || read_count(row[A_HITS], f->n, &f->hits[i])) &&
                         read_root(f->n, i, row[A_COMPONENT], first, f->mutual_root) &&
                         read_root(f->n, i, row[A_GROUP], first + f->n, f->copy_root);
        if (!good) return corrupt(err, l, "anchors.npy", d->good[i]);
    }
    return GLOFND_OK;
}

/* ----- names and splits ----- */

/* Its path, and whether this result has it. */
static glofnd_status find_file(gf_error *err, const stored_reading *l, const char *name, char path[PATH_MAX], int *there) {
    TRY(gf_path_join(err, path, l->folder, name));
    return gf_exists(err, path, there);
}

/* "row TAB why" */
static glofnd_status take_unreadable(gf_error *err, void *user, char *line, int number) {
    stored_reading *l = user;
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

/* "name TAB first TAB rows TAB ..." */
static glofnd_status take_split(gf_error *err, void *user, char *line, int number) {
    stored_reading *l = user;
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

static glofnd_status read_arrays(gf_error *err, stored_reading *l) {
    gf_npy rows = {0}, other = {0}, similarity = {0}, anchors = {0};
    const int64_t top = l->x->s.task.top;
    int32_t *first = NULL;
    glofnd_status status = read_array(err, l, "rows.npy", GF_NPY_I4, GF_STORED_COLUMNS, &rows);
    if (status == GLOFND_OK) status = take_rows(err, l, rows.data);
    if (status == GLOFND_OK && top > 0) status = read_array(err, l, "neighbours.npy", GF_NPY_I4, 0, &other);
    if (status == GLOFND_OK && top > 0) status = read_array(err, l, "similarities.npy", GF_NPY_F4, 0, &similarity);
    if (status == GLOFND_OK) status = take_lists(err, l, &other, &similarity);
    gf_npy_free(&other);
    gf_npy_free(&similarity);
    if (status == GLOFND_OK) status = read_array(err, l, "anchors.npy", GF_NPY_F8, A_COLUMNS, &anchors);
    if (status == GLOFND_OK) {
        first = malloc((size_t)l->x->f.n * 2 * sizeof *first);
        status =
            first ? take_anchors(err, l, anchors.data, rows.data, first) : gf_fail(err, GLOFND_E_MEMORY, "no memory for anchors");
    }
    free(first);
    gf_npy_free(&anchors);
    gf_npy_free(&rows);
    return status;
}

static glofnd_status read_folder(gf_error *err, stored_reading *l) {
    gf_discover_data *d = &l->x->d;
    char path[PATH_MAX];
    gf_jsonl_reader r;
    int there;
    TRY(gf_path_join(err, path, l->folder, GF_DISCOVER_MARK));
    TRY(gf_jsonl_read_open(err, &r, path));
    const int found = gf_jsonl_next(&r);
    glofnd_status status = r.status;
    if (status == GLOFND_OK)
        status = found ? take_summary(err, path, &r, l) : gf_fail(err, GLOFND_E_FORMAT, "'%.300s' is empty", path);
    gf_jsonl_read_close(&r);
    TRY(status);
    TRY(read_arrays(err, l));
    TRY(find_file(err, l, "names.txt", path, &there));
    if (there) TRY(gf_discover_read_names(err, path, NULL, d));
    for (int64_t i = 0; there && l->names_escaped && i < d->n; i++)
        FAIL_IF(err, !gf_unescape(d->name_text + (d->name[i] - d->name_text)), GLOFND_E_FORMAT,
                "'%.300s', line %lld: a backslash begins no escape", path, (long long)i + 1);
    TRY(find_file(err, l, "unreadable.txt", path, &there));
    if (there) TRY(gf_each_line(err, path, take_unreadable, l));
    TRY(find_file(err, l, "classes.txt", path, &there));
    if (there && l->has_labels) TRY(gf_row_classes_read(err, path, d->label, d->n, &d->classes));
    TRY(find_file(err, l, "pairs.parquet", path, &there));
    l->x->format = there ? GF_TABLE_PARQUET : GF_TABLE_TSV; /* new tables are as these are */
    TRY(find_file(err, l, "pairs.jsonl", path, &there));
    if (there) l->x->format = GF_TABLE_JSONL;
    TRY(find_file(err, l, "split_matrix.tsv", path, &there));
    return there ? gf_each_line(err, path, take_split, l) : GLOFND_OK;
}

glofnd_status gf_stored_result_read(gf_error *err, const char *folder, gf_stored_result *x) {
    stored_reading l = {.folder = folder, .x = x};
    *x = (gf_stored_result){0};
    const glofnd_status status = read_folder(err, &l);
    free(l.position);
    if (status != GLOFND_OK) gf_stored_result_free(x);
    return status;
}

/* ---------- thresholds for a query ---------- */

glofnd_status gf_discover_read_stored(gf_error *err, const char *folder, const gf_discover_data *d, gf_discover_spec *stored,
                                      float **lambda) {
    char path[PATH_MAX], summary[PATH_MAX];
    gf_npy a = {0};
    gf_jsonl_reader r;
    int64_t crc = -1, k = 0;
    double alpha = NAN, dup = NAN;
    TRY(gf_path_join(err, path, folder, "anchors.npy"));
    TRY(gf_path_join(err, summary, folder, GF_DISCOVER_MARK));
    TRY(gf_jsonl_read_open(err, &r, summary));
    const int found = gf_jsonl_next(&r) && gf_jsonl_get_integer(&r, "crc32c", &crc) && gf_jsonl_get_integer(&r, "k", &k) &&
                      gf_jsonl_get(&r, "alpha", &alpha) && gf_jsonl_get(&r, "dup", &dup);
    const glofnd_status status = r.status;
    const int of_query = found && gf_jsonl_get_text(&r, "query") != NULL;
    gf_jsonl_read_close(&r);
    TRY(status);
    FAIL_IF(err, !found || k < 0, GLOFND_E_FORMAT, "'%.300s' is not the summary of a discovery", summary);
    FAIL_IF(err, of_query, GLOFND_E_ARGUMENT,
            "'%.300s' is the result of a query, not of embeddings that a query can be compared with", folder);
    FAIL_IF(err, crc != (int64_t)d->crc, GLOFND_E_ARGUMENT, "'%.300s' is the result of different embeddings", folder);
    stored->alpha = alpha, stored->k = k;
    stored->dup_exact = isnan(dup), stored->dup = dup;
    TRY(gf_npy_read(err, path, &a));
    const int fits = a.type == GF_NPY_F8 && a.rank == 2 && a.shape[0] == d->n && a.shape[1] >= 1;
    *lambda = fits ? malloc((size_t)d->n * sizeof **lambda) : NULL;
    for (int64_t i = 0; *lambda && i < d->n; i++) (*lambda)[i] = (float)gf_npy_f64(&a, i * a.shape[1]);
    gf_npy_free(&a);
    FAIL_IF(err, !fits, GLOFND_E_FORMAT, "'%.300s' is not a table of %lld anchors", path, (long long)d->n);
    FAIL_IF(err, !*lambda, GLOFND_E_MEMORY, "no memory for %lld thresholds", (long long)d->n);
    return GLOFND_OK;
}

/* subset.c - a part of a dataset, whatever its format: ?rows=FILE, ?labels=LIST, ?imbalance=F, ?every=K, ?fraction=F,
 * ?first=N at the end of a SPEC, applied in this order.
 *
 * rows: a position or a name per line, in that order, as keep.txt of `glofnd discover` has them; labels: samples of these
 * classes, by name or as 7 or 0-49, in the test split too; imbalance: a long tail, of class c of C floor(n / F^(c / (C - 1)))
 * of its n samples, at least one; every: samples 0, K, 2K ...; fraction: that share of each class, at least one sample;
 * first: the first N. What a class keeps is spread evenly over it.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "data/dataset_format.h"
#include "io/file.h"
#include "util/array.h"
#include "util/string_list.h"
#include "util/text.h"

/* ----- ?rows=FILE ----- */

typedef struct named_row {
    const char *name;
    int64_t row;
} named_row;

typedef struct reading {
    const gf_dataset *d;
    const char *path;
    int64_t n; /* of the whole dataset */
    int64_t *row;
    int64_t count;
    size_t capacity;
    uint8_t *taken;       /* [n] */
    gf_string_list names; /* of all samples; empty: lines are positions */
    named_row *by_name;   /* [n] sorted */
} reading;

static int compare_names(const void *a, const void *b) {
    const named_row *x = a, *y = b;
    const int order = strcmp(x->name, y->name);
    return order ? order : (x->row > y->row) - (x->row < y->row);
}

/* The first place of the name among the sorted ones; -1: none has it. */
static int64_t place_of(const reading *r, const char *name) {
    int64_t low = 0, high = r->n;
    while (low < high) {
        const int64_t mid = low + (high - low) / 2;
        if (strcmp(r->by_name[mid].name, name) < 0) low = mid + 1;
        else high = mid;
    }
    return low < r->n && strcmp(r->by_name[low].name, name) == 0 ? low : -1;
}

/* The first line decides: an integer is a position, anything else a name. */
static glofnd_status take_line(gf_error *err, void *user, char *line, int number) {
    reading *r = user;
    int64_t row = -1;
    char *end = line + strlen(line);
    while (end > line && strchr(" \t\r\n", end[-1])) *--end = 0;
    if (r->count == 0 && gf_integer_read(line, &row) != NULL) {
        char name[4096];
        for (int64_t i = 0; i < r->n; i++) {
            name[0] = 0;
            r->d->format->name_of(r->d, i, name, sizeof name);
            TRY(gf_string_list_add(err, &r->names, name, strlen(name)));
        }
        r->by_name = malloc((size_t)r->n * sizeof *r->by_name + 1);
        FAIL_IF(err, !r->by_name, GLOFND_E_MEMORY, "no memory for the names of %lld samples", (long long)r->n);
        for (int64_t i = 0; i < r->n; i++) r->by_name[i] = (named_row){gf_string_list_get(&r->names, i), i};
        if (r->n) qsort(r->by_name, (size_t)r->n, sizeof *r->by_name, compare_names);
    }
    if (r->by_name) {
        /* Names of files also without the folder of the SPEC. */
        char inside[4096];
        int64_t at = place_of(r, line);
        const int fits = snprintf(inside, sizeof inside, "%s/%s", r->d->spec.place, line) < (int)sizeof inside;
        if (at < 0 && fits) at = place_of(r, inside);
        FAIL_IF(err, at < 0, GLOFND_E_FORMAT,
                "%.200s: line %d: \"%.100s\" is no sample; expected a position, 0 to %lld, or names as \"%.60s\", one per line",
                r->path, number, line, (long long)r->n - 1, r->n ? gf_string_list_get(&r->names, 0) : "");
        FAIL_IF(err, at + 1 < r->n && strcmp(r->by_name[at].name, r->by_name[at + 1].name) == 0, GLOFND_E_FORMAT,
                "%.300s: line %d: \"%.100s\" is the name of several samples; list positions instead", r->path, number, line);
        row = r->by_name[at].row;
    } else
        FAIL_IF(err, gf_integer_read(line, &row) != NULL || row < 0 || row >= r->n, GLOFND_E_FORMAT,
                "%.300s: line %d: \"%.40s\"; expected the position of a sample, 0 to %lld", r->path, number, line,
                (long long)r->n - 1);
    FAIL_IF(err, r->taken[row], GLOFND_E_FORMAT, "%.300s: line %d: sample %lld is there twice", r->path, number, (long long)row);
    FAIL_IF(err, !gf_grow(&r->row, &r->capacity, (size_t)r->count + 1, sizeof *r->row), GLOFND_E_MEMORY,
            "no memory for the rows of '%.300s'", r->path);
    r->taken[row] = 1;
    r->row[r->count++] = row;
    return GLOFND_OK;
}

/* ----- all options ----- */

const char *const gf_subset_options[] = {"rows", "labels", "imbalance", "every", "fraction", "first", NULL};

typedef struct class_count {
    int chosen;             /* 1: its samples may be taken */
    int64_t size, seen;     /* samples of the class among the listed ones, and of these before the present one */
    int64_t kept, in_share; /* of `size` by the imbalance; and how many of these the fraction has seen */
} class_count;

typedef struct subset {
    int64_t every, first, left; /* left: samples that labels and imbalance have left so far */
    double fraction, imbalance;
    class_count *of; /* [classes + 1]; the last: samples without a label */
} subset;

/* The labels that `word` of `bytes` names: a class, 7, or 0-49. 0: none. */
static int labels_of(const gf_dataset *d, const char *word, size_t bytes, int64_t *from, int64_t *to) {
    char text[256];
    if (bytes == 0 || bytes >= sizeof text) return 0;
    memcpy(text, word, bytes);
    text[bytes] = 0;
    for (int32_t c = 0; c < d->info.classes; c++) {
        const char *name = gf_string_list_get(&d->classes, c);
        *from = *to = c;
        if (name && strcmp(name, text) == 0) return 1;
    }
    char *dash = strchr(text, '-');
    if (dash) *dash = 0;
    if (gf_integer_read(text, from) || gf_integer_read(dash ? dash + 1 : text, to)) return 0;
    return 0 <= *from && *from <= *to && *to < d->info.classes;
}

static glofnd_status choose_labels(gf_error *err, const gf_dataset *d, subset *x) {
    const char *labels = gf_spec_value(&d->spec, "labels");
    FAIL_IF(err, d->info.classes == 0 && (labels || x->imbalance > 1.0), GLOFND_E_OPTION,
            "data '%.60s': the samples have no labels, which ?%s needs", d->spec.format, labels ? "labels" : "imbalance");
    for (int32_t c = 0; c <= d->info.classes; c++) x->of[c].chosen = !labels;
    for (const char *word = labels; word; word = strchr(word, ',') ? strchr(word, ',') + 1 : NULL) {
        int64_t from, to;
        const size_t bytes = strcspn(word, ",");
        FAIL_IF(err, !labels_of(d, word, bytes, &from, &to), GLOFND_E_OPTION,
                "data '%.60s': labels: '%.*s' is no class; expected names of classes, or labels from 0 to %d as 7 or 0-49, "
                "separated by commas",
                d->spec.format, bytes < 60 ? (int)bytes : 60, word, d->info.classes - 1);
        for (int64_t c = from; c <= to; c++) x->of[c].chosen = 1;
    }
    return GLOFND_OK;
}

static class_count *class_of(const subset *x, const gf_dataset *d, int64_t row) {
    const int32_t label = d->format->label(d, row);
    return &x->of[label >= 0 && label < d->info.classes ? label : d->info.classes];
}

/* 1: the next of the listed samples is taken, if `taken` were before it. The k-th of n of a class is, where k kept / n reaches an
 * integer, and of these where ceil(k F) grows: both spread what they take evenly over the class. */
static int is_taken(subset *x, const gf_dataset *d, int64_t row, int64_t taken) {
    class_count *c = class_of(x, d, row);
    const int64_t k = c->seen++;
    if (!c->chosen || (k + 1) * c->kept / c->size == k * c->kept / c->size) return 0;
    if (x->left++ % x->every != 0 || taken >= x->first) return 0;
    const double in_share = (double)c->in_share++;
    return ceil((in_share + 1.0) * x->fraction) > ceil(in_share * x->fraction);
}

glofnd_status gf_subset_take(gf_error *err, gf_dataset *d) {
    subset x = {.every = 1, .first = INT64_MAX, .fraction = 1.0, .imbalance = 1.0};
    int64_t taken = 0, *listed = NULL, count = d->info.n;
    const char *rows = gf_spec_value(&d->spec, "rows");
    d->all = d->info.n;
    const gf_spec *s = &d->spec;
    int asked = 0;
    for (int i = 0; gf_subset_options[i]; i++) asked |= gf_spec_value(s, gf_subset_options[i]) != NULL;
    if (!asked) return GLOFND_OK;
    const char *share = gf_spec_value(s, "fraction"), *imbalance = gf_spec_value(s, "imbalance");
    TRY(gf_spec_integer(err, s, "every", 1, INT64_MAX, &x.every));
    TRY(gf_spec_integer(err, s, "first", 1, INT64_MAX, &x.first));
    const int ok = !share || (!gf_number_read(share, &x.fraction) && x.fraction > 0.0 && x.fraction <= 1.0);
    FAIL_IF(err, !ok, GLOFND_E_OPTION, "data '%.60s': fraction is '%.60s'; expected a number in (0, 1]", s->format, share);
    const int even = !imbalance || (!gf_number_read(imbalance, &x.imbalance) && x.imbalance >= 1.0);
    FAIL_IF(err, !even, GLOFND_E_OPTION,
            "data '%.60s': imbalance is '%.60s'; expected a number of at least 1, the largest class over the smallest", s->format,
            imbalance);
    if (rows) {
        reading r = {.d = d, .path = rows, .n = d->all, .taken = calloc((size_t)d->all + 1, 1)};
        FAIL_IF(err, !r.taken, GLOFND_E_MEMORY, "no memory for %lld samples", (long long)d->all);
        glofnd_status status = gf_each_line(err, rows, take_line, &r);
        free(r.taken);
        free(r.by_name);
        gf_string_list_free(&r.names);
        if (status == GLOFND_OK && r.count == 0) status = gf_fail(err, GLOFND_E_FORMAT, "%.300s: no rows", rows);
        if (status != GLOFND_OK) free(r.row);
        TRY(status);
        listed = r.row, count = r.count;
    }
    /* A listed row is read before its place is written. */
    d->rows = listed ? listed : malloc((size_t)d->all * sizeof *d->rows + 1);
    x.of = calloc((size_t)d->info.classes + 1, sizeof *x.of);
    const glofnd_status status = d->rows && x.of
                                     ? choose_labels(err, d, &x)
                                     : gf_fail(err, GLOFND_E_MEMORY, "no memory to choose among %lld samples", (long long)d->all);
    if (status == GLOFND_OK) {
        /* Long tail: of class c floor(size / imbalance^(c / (classes - 1))) samples stay, at least one. */
        for (int64_t i = 0; i < count; i++) class_of(&x, d, listed ? listed[i] : i)->size++;
        for (int32_t c = 0; c <= d->info.classes; c++) {
            const double steps = d->info.classes > 1 && c < d->info.classes ? (double)c / (double)(d->info.classes - 1) : 0.0;
            const double kept = floor((double)x.of[c].size / pow(x.imbalance, steps));
            x.of[c].kept = kept > 1.0 ? (int64_t)kept : 1;
        }
    }
    for (int64_t i = 0; status == GLOFND_OK && i < count; i++) {
        const int64_t row = listed ? listed[i] : i;
        if (is_taken(&x, d, row, taken)) d->rows[taken++] = row;
    }
    free(x.of);
    d->info.n = taken;
    return status;
}

gf_spec gf_subset_without(const gf_spec *s) {
    gf_spec plain = *s;
    plain.options = 0;
    for (int i = 0; i < s->options; i++) {
        int own = 0;
        for (int k = 0; gf_subset_options[k]; k++) own |= strcmp(s->option[i].key, gf_subset_options[k]) == 0;
        if (!own) plain.option[plain.options++] = s->option[i];
    }
    return plain;
}

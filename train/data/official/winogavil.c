/* winogavil.c - WinoGAViL: a table with the columns cue, candidates and associations; the last two are JSON lists of names, of images
 * NAME.jpg. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "data/official/official.h"
#include "io/file.h"
#include "io/json.h"
#include "util/array.h"
#include "util/string_list.h"

enum { CANDIDATES_MAX = 64 };

typedef struct table_lists { /* candidates of all instances, as names, until all are known */
    gf_string_list name;
    size_t first_capacity, associated_capacity;
} table_lists;

static glofnd_status add_candidates(gf_error *err, gf_winogavil *w, table_lists *t, const char *path, const gf_json *candidates,
                                    const gf_json *associations) {
    int found = 0;
    for (int64_t k = candidates->node[0].first; k >= 0; k = candidates->node[k].next) {
        const char *name = gf_json_is(candidates, k, GF_JSON_TEXT) ? gf_json_text(candidates, candidates->node[k].text) : NULL;
        FAIL_IF(err, !name || strchr(name, '/'), GLOFND_E_FORMAT, "'%.300s': a candidate is no name of an image", path);
        FAIL_IF(err, !gf_grow(&w->associated, &t->associated_capacity, (size_t)t->name.n + 1, 1), GLOFND_E_MEMORY,
                "no memory for candidates");
        uint8_t *associated = &w->associated[t->name.n];
        *associated = 0;
        for (int64_t a = associations->node[0].first; a >= 0; a = associations->node[a].next)
            *associated |= gf_json_is(associations, a, GF_JSON_TEXT) &&
                           strcmp(gf_json_text(associations, associations->node[a].text), name) == 0;
        found |= *associated;
        TRY(gf_string_list_add(err, &t->name, name, strlen(name)));
    }
    FAIL_IF(err, !found, GLOFND_E_FORMAT, "'%.300s': no association of '%.60s' is among its candidates", path,
            gf_string_list_get(&w->cue, w->cue.n - 1));
    return GLOFND_OK;
}

/* A JSON list of at most CANDIDATES_MAX names. */
static glofnd_status read_list(gf_error *err, const char *path, int64_t line, const char *text, gf_json *out) {
    gf_error why = {""};
    const glofnd_status status = gf_json_read(&why, path, text, strlen(text), 1, 0, out);
    FAIL_IF(err, status == GLOFND_E_MEMORY, status, "%s", why.text);
    FAIL_IF(err, status != GLOFND_OK || !gf_json_is(out, 0, GF_JSON_ARRAY) || out->node[0].count > CANDIDATES_MAX,
            GLOFND_E_FORMAT, "'%.300s', line %lld: expected a cue and JSON lists of at most %d names", path, (long long)line,
            CANDIDATES_MAX);
    return GLOFND_OK;
}

static glofnd_status add_row(gf_error *err, gf_winogavil *w, table_lists *t, const char *path, int64_t line, const char *cue,
                             const char *candidate_text, const char *association_text) {
    gf_json candidates = {0}, associations = {0};
    glofnd_status status = read_list(err, path, line, candidate_text, &candidates);
    if (status == GLOFND_OK) status = read_list(err, path, line, association_text, &associations);
    if (status == GLOFND_OK && !cue[0])
        status = gf_fail(err, GLOFND_E_FORMAT, "'%.300s', line %lld has no cue", path, (long long)line);
    if (status == GLOFND_OK && !gf_grow(&w->first, &t->first_capacity, (size_t)w->cue.n + 2, sizeof *w->first))
        status = gf_fail(err, GLOFND_E_MEMORY, "no memory for the instances of '%.300s'", path);
    if (status == GLOFND_OK) {
        w->first[w->cue.n] = t->name.n;
        status = gf_string_list_add(err, &w->cue, cue, strlen(cue));
    }
    if (status == GLOFND_OK) status = add_candidates(err, w, t, path, &candidates, &associations);
    if (status == GLOFND_OK) w->first[w->cue.n] = t->name.n;
    gf_json_free(&candidates);
    gf_json_free(&associations);
    return status;
}

static glofnd_status read_rows(gf_error *err, const char *path, gf_csv *csv, gf_string_list *row, gf_winogavil *w,
                               table_lists *t) {
    TRY(gf_csv_next(err, csv, row));
    const int64_t cue = gf_string_list_first(row, "cue"), candidates = gf_string_list_first(row, "candidates"),
                  associations = gf_string_list_first(row, "associations");
    FAIL_IF(err, cue < 0 || candidates < 0 || associations < 0, GLOFND_E_FORMAT,
            "'%.300s' lacks one of the columns cue, candidates, associations", path);
    for (;;) {
        TRY(gf_csv_next(err, csv, row));
        if (row->n == 0) return GLOFND_OK;
        FAIL_IF(err, row->n <= cue || row->n <= candidates || row->n <= associations, GLOFND_E_FORMAT,
                "'%.300s', line %lld has too few fields", path, (long long)csv->line);
        TRY(add_row(err, w, t, path, csv->line, gf_string_list_get(row, cue), gf_string_list_get(row, candidates),
                    gf_string_list_get(row, associations)));
    }
}

/* Sorts the names, and replaces each candidate by its position among them. */
static glofnd_status number_images(gf_error *err, gf_winogavil *w, const table_lists *t) {
    for (int64_t i = 0; i < t->name.n; i++)
        TRY(gf_string_list_add(err, &w->image, gf_string_list_get(&t->name, i), strlen(gf_string_list_get(&t->name, i))));
    TRY(gf_string_list_sort(err, &w->image));
    gf_string_list_unique(&w->image);
    w->candidate = malloc(((size_t)t->name.n + 1) * sizeof *w->candidate);
    FAIL_IF(err, !w->candidate, GLOFND_E_MEMORY, "no memory for %lld candidates", (long long)t->name.n);
    for (int64_t i = 0; i < t->name.n; i++)
        w->candidate[i] = (int32_t)gf_string_list_find(&w->image, gf_string_list_get(&t->name, i));
    return GLOFND_OK;
}

glofnd_status gf_winogavil_read(gf_error *err, const char *root, gf_winogavil *out) {
    static const char *const names[] = {"winogavil_dataset.csv", "winogavil_test.csv", "test.csv", "assets/winogavil_test.csv"};
    char path[PATH_MAX];
    *out = (gf_winogavil){0};
    for (size_t k = 0; k < sizeof names / sizeof *names; k++) {
        TRY(gf_path_join(err, path, root, names[k]));
        if (access(path, F_OK) != 0) continue;
        uint8_t *bytes = NULL;
        size_t capacity = 0, size = 0;
        gf_string_list row = {0};
        table_lists t = {0};
        glofnd_status status = gf_file_read(err, path, (uint64_t)1 << 28, &bytes, &capacity, &size);
        if (status == GLOFND_OK) {
            gf_csv csv = gf_csv_begin(path, (char *)bytes, (char *)bytes + size);
            status = read_rows(err, path, &csv, &row, out, &t);
        }
        if (status == GLOFND_OK) status = number_images(err, out, &t);
        if (status == GLOFND_OK && out->cue.n == 0) status = gf_fail(err, GLOFND_E_FORMAT, "'%.300s' has no instance", path);
        gf_string_list_free(&row);
        gf_string_list_free(&t.name);
        free(bytes);
        if (status != GLOFND_OK) gf_winogavil_free(out);
        return status;
    }
    GF_FAIL(err, GLOFND_E_IO, "'%.300s' has no winogavil_dataset.csv, winogavil_test.csv or test.csv", root);
}

void gf_winogavil_free(gf_winogavil *w) {
    gf_string_list_free(&w->cue);
    gf_string_list_free(&w->image);
    free(w->first);
    free(w->candidate);
    free(w->associated);
    *w = (gf_winogavil){0};
}

glofnd_status gf_read_winogavil(gf_error *err, gf_official *o) {
    static const char *const folders[] = {"winogavil_images", "images", "assets/winogavil_images", "."};
    gf_winogavil w;
    char path[PATH_MAX];
    size_t k = 0;
    while (k + 1 < sizeof folders / sizeof *folders && !gf_official_has(o, folders[k])) k++;
    TRY(gf_winogavil_read(err, o->root, &w));
    glofnd_status status = GLOFND_OK;
    for (int64_t i = 0; i < w.image.n && status == GLOFND_OK; i++) {
        const char *name = gf_string_list_get(&w.image, i), *dot = strrchr(name, '.');
        const int has_end = dot && (strcmp(dot, ".jpg") == 0 || strcmp(dot, ".png") == 0);
        const int n = snprintf(path, sizeof path, "%s/%s%s", folders[k], name, has_end ? "" : ".jpg");
        status = n > 0 && n < (int)sizeof path ? gf_official_add(err, o, path, -1)
                                               : gf_fail(err, GLOFND_E_FORMAT, "a path below '%.300s' is too long", o->root);
    }
    gf_winogavil_free(&w);
    return status;
}

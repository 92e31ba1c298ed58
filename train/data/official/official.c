/* official.c - datasets as their authors publish them: finds the folder, has its layout read, checks the counts, and is the
 * dataset then. See official.h. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "data/official/official.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "data/official/mat5.h"
#include "io/file.h"
#include "util/array.h"
#include "util/text.h"

#define FILES_PROBED 16 /* spread over the list; all must exist */

/* ----- for readers ----- */

/* Not absolute, and without "..": what a list names lies below the root. */
static int stays_below(const char *path) {
    for (const char *p = path; p; p = strchr(p, '/') ? strchr(p, '/') + 1 : NULL)
        if (strncmp(p, "..", 2) == 0 && (p[2] == '/' || !p[2])) return 0;
    return path[0] && path[0] != '/';
}

glofnd_status gf_official_add(gf_error *err, gf_official *o, const char *path, int64_t label) {
    FAIL_IF(err, label < -1 || label >= GF_CLASSES_MAX, GLOFND_E_FORMAT, "'%.200s': '%.100s' has label %lld, out of range",
            o->root, path, (long long)label);
    FAIL_IF(err, !stays_below(path), GLOFND_E_FORMAT, "'%.200s': the path '%.150s' of a list leaves this folder", o->root, path);
    FAIL_IF(err, !gf_grow(&o->label, &o->label_capacity, (size_t)o->paths.n + 1, sizeof *o->label), GLOFND_E_MEMORY,
            "no memory for %lld labels", (long long)o->paths.n + 1);
    o->label[o->paths.n] = (int32_t)label;
    return gf_string_list_add(err, &o->paths, path, strlen(path));
}

static glofnd_status set_name(gf_error *err, const gf_official *o, gf_official_names *names, int64_t label, const char *name,
                              size_t length) {
    const size_t k = (size_t)label;
    FAIL_IF(err, label < 0 || label >= GF_CLASSES_MAX, GLOFND_E_FORMAT, "'%.200s': class %lld is out of range", o->root,
            (long long)label);
    if (k < names->n && names->at[k] && strlen(names->at[k]) == length && !memcmp(names->at[k], name, length)) return GLOFND_OK;
    char *copy = strndup(name, length);
    if (!copy || !gf_grow(&names->at, &names->capacity, k + 1, sizeof *names->at)) {
        free(copy);
        GF_FAIL(err, GLOFND_E_MEMORY, "no memory for the names of classes");
    }
    while (names->n <= k) names->at[names->n++] = NULL;
    free(names->at[k]);
    names->at[k] = copy;
    gf_utf8_clean(copy, '?');
    return GLOFND_OK;
}

glofnd_status gf_official_name_class(gf_error *err, gf_official *o, int64_t label, const char *name, size_t length) {
    return set_name(err, o, &o->names, label, name, length);
}

glofnd_status gf_official_title_class(gf_error *err, gf_official *o, int64_t label, const char *title, size_t length) {
    return set_name(err, o, &o->titles, label, title, length);
}

glofnd_status gf_official_path(gf_error *err, const gf_official *o, char out[PATH_MAX], const char *format, ...) {
    char name[PATH_MAX];
    va_list args;
    va_start(args, format);
    const int n = vsnprintf(name, sizeof name, format, args);
    va_end(args);
    FAIL_IF(err, n < 0 || n >= (int)sizeof name, GLOFND_E_FORMAT, "a path below '%.300s' is too long", o->root);
    return gf_path_join(err, out, o->root, name);
}

int gf_official_has(const gf_official *o, const char *name) {
    char path[PATH_MAX];
    return gf_path_join(NULL, path, o->root, name) == GLOFND_OK && access(path, F_OK) == 0;
}

glofnd_status gf_official_lines(gf_error *err, const gf_official *o, const char *name, gf_string_list *out) {
    char path[PATH_MAX];
    TRY(gf_path_join(err, path, o->root, name));
    return gf_read_lines(err, path, 0, out);
}

int gf_official_words(char *line, char **word, int most) {
    int n = 0;
    for (char *p = line; n < most;) {
        p += strspn(p, " \t");
        if (!*p) break;
        word[n++] = p;
        if (n == most) break;
        p += strcspn(p, " \t");
        if (*p) *p++ = 0;
    }
    return n;
}

/* ----- opening ----- */

static glofnd_status choose_split(gf_error *err, gf_official *o) {
    const gf_spec *spec = &o->data->spec;
    const gf_known_dataset *k = o->known;
    const char *counts = gf_spec_value(spec, "counts"), *split = gf_spec_value(spec, "split");
    char names[200] = "";
    FAIL_IF(err, counts && strcmp(counts, "any") != 0, GLOFND_E_OPTION, "data '%s': counts is '%.60s'; it can only be any",
            k->name, counts);
    o->any_counts = counts != NULL;
    o->split = split ? split : k->split[0].name;
    for (const gf_known_split *s = k->split; s->name; s++)
        snprintf(names + strlen(names), sizeof names - strlen(names), "%s%s", s == k->split ? "" : ", ", s->name);
    FAIL_IF(err, !gf_known_split_find(k, o->split), GLOFND_E_OPTION, "data '%s': split is '%.60s'; expected one of %s", k->name,
            o->split, names);
    o->partition = 1;
    return gf_spec_integer(err, spec, "partition", 1, k->partitions, &o->partition);
}

/* 1: this is the folder of the dataset; root [PATH_MAX] is its path. */
static int is_root(const gf_known_dataset *k, const char *place, const char *below, char *root) {
    char path[PATH_MAX];
    const int n = snprintf(root, PATH_MAX, "%s%s%s", place, below[0] ? "/" : "", below);
    int found = n > 0 && n < PATH_MAX && gf_is_folder(root) && !k->mark[0];
    for (int i = 0; k->mark[i] && n < PATH_MAX; i++)
        found |= gf_path_join(NULL, path, root, k->mark[i]) == GLOFND_OK && access(path, F_OK) == 0;
    return found;
}

/* The folder with a mark of the dataset; where it has none, a folder of the archive's name, else DIR. */
static int find_root(const gf_known_dataset *k, const char *place, char *root) {
    if (k->mark[0] && is_root(k, place, "", root)) return 1;
    for (int i = 0; k->folder[i]; i++)
        if (is_root(k, place, k->folder[i], root)) return 1;
    return is_root(k, place, "", root);
}

int gf_known_recognise(const gf_known_dataset *k, const char *place) {
    char root[PATH_MAX];
    return k->read && gf_is_folder(place) && find_root(k, place, root);
}

static glofnd_status open_root(gf_error *err, gf_official *o) {
    const char *place = o->data->spec.place;
    const gf_known_dataset *k = o->known;
    FAIL_IF(err, !gf_is_folder(place), GLOFND_E_IO, "'%.400s' is not a folder that can be read", place);
    FAIL_IF(err, !find_root(k, place, o->root), GLOFND_E_IO, "'%.200s' has no %s: it is not the folder of %s; %s:DIR needs %s",
            place, k->mark[0], k->full, k->name, k->wants);
    return GLOFND_OK;
}

/* Classes that have a sample. */
static glofnd_status count_classes(gf_error *err, gf_official *o) {
    int32_t max = (int32_t)o->names.n - 1;
    for (int64_t i = 0; i < o->paths.n; i++) max = o->label[i] > max ? o->label[i] : max;
    o->data->info.classes = max + 1;
    uint8_t *found = calloc((size_t)max + 2, 1);
    FAIL_IF(err, !found, GLOFND_E_MEMORY, "no memory for %d classes", (int)max + 1);
    for (int64_t i = 0; i < o->paths.n; i++) {
        if (o->label[i] >= 0) found[o->label[i]] = 1;
        for (int32_t c = 0; o->several && c <= max; c++) found[c] |= o->several[i * (max + 1) + c] == GF_LABEL_PRESENT;
    }
    for (int32_t c = 0; c <= max; c++) o->classes_found += found[c];
    free(found);
    return GLOFND_OK;
}

/* "37 classes and 3680 images"; captions have no classes. */
static void count_text(int64_t classes, int64_t images, int captions, char *out, size_t bytes) {
    char any[40] = "any number of";
    if (images) snprintf(any, sizeof any, "%lld", (long long)images);
    if (captions) snprintf(out, bytes, "%s images", any);
    else snprintf(out, bytes, "%lld classes and %s images", (long long)classes, any);
}

static glofnd_status check_counts(gf_error *err, gf_official *o) {
    const gf_known_dataset *k = o->known;
    const int64_t images = o->expected_images, n = o->paths.n;
    char found[120], expected[120];
    FAIL_IF(err, n == 0, GLOFND_E_FORMAT, "'%.300s' has no image of split %s; %s:DIR needs %.150s", o->root, o->split, k->name,
            k->wants);
    o->known_counts = o->classes_found == o->expected_classes && (!images || n == images);
    if (o->known_counts) return GLOFND_OK;
    count_text(o->classes_found, n, !k->classes, found, sizeof found);
    count_text(o->expected_classes, images, !k->classes, expected, sizeof expected);
    FAIL_IF(err, !o->any_counts, GLOFND_E_FORMAT,
            "'%.150s' has %s in split %s; %s has %s. Is it unpacked completely? To use it as it is, add ?counts=any to the SPEC",
            o->root, found, o->split, k->full, expected);
    gf_dataset_add_note(o->data, "%s in split %s, where %s has %s: results are not comparable", found, o->split, k->full,
                        expected);
    return GLOFND_OK;
}

/* Lists and images are separate downloads of many datasets. */
static glofnd_status check_files(gf_error *err, const gf_official *o) {
    const int64_t n = o->paths.n, some = n < FILES_PROBED ? n : FILES_PROBED;
    for (int64_t k = 0; k < some; k++) {
        const char *name = gf_string_list_get(&o->paths, n / some * k);
        FAIL_IF(err, !gf_official_has(o, name), GLOFND_E_IO, "'%.200s' lists '%.150s', which does not exist; %s:DIR needs %.100s",
                o->root, name, o->known->name, o->known->wants);
    }
    return GLOFND_OK;
}

static glofnd_status copy_names(gf_error *err, const gf_official_names *names, gf_string_list *out) {
    for (size_t k = 0; k < names->n; k++)
        TRY(gf_string_list_add(err, out, names->at[k] ? names->at[k] : "", names->at[k] ? strlen(names->at[k]) : 0));
    return GLOFND_OK;
}

static glofnd_status open_official(gf_error *err, gf_dataset *d) {
    gf_official *o = calloc(1, sizeof *o);
    FAIL_IF(err, !o, GLOFND_E_MEMORY, "no memory to open data");
    d->self = o;
    o->data = d;
    o->fd = -1;
    o->known = gf_known_find(d->spec.format);
    d->info.format = o->known->name;
    TRY(choose_split(err, o));
    o->expected_classes = o->known->classes;
    o->expected_images = gf_known_split_find(o->known, o->split)->images;
    TRY(open_root(err, o));
    TRY(o->known->read(err, o));
    TRY(count_classes(err, o));
    TRY(check_counts(err, o));
    if (!o->side) TRY(check_files(err, o));
    d->info.n = o->paths.n;
    d->info.width = d->info.height = o->side;
    d->info.has_text = o->texts.n > 0;
    TRY(copy_names(err, &o->names, &d->classes));
    return copy_names(err, &o->titles, &d->titles);
}

static void free_names(gf_official_names *names) {
    for (size_t k = 0; k < names->n; k++) free(names->at[k]);
    free(names->at);
}

static void close_official(void *self) {
    gf_official *o = self;
    if (!o) return;
    free_names(&o->names);
    free_names(&o->titles);
    if (o->mat) gf_mat_free(o->mat);
    free(o->mat);
    if (o->fd >= 0) close(o->fd);
    free(o->label);
    free(o->several);
    gf_string_list_free(&o->paths);
    gf_string_list_free(&o->texts);
    free(o);
}

/* ----- reading ----- */

static int32_t label_of(const gf_dataset *d, int64_t i) { return ((const gf_official *)d->self)->label[i]; }

static void name_of(const gf_dataset *d, int64_t i, char *out, size_t bytes) {
    const gf_official *o = d->self;
    snprintf(out, bytes, "%s/%s", o->root, gf_string_list_get(&o->paths, i));
}

static uint64_t key_of(const gf_dataset *d, int64_t i) {
    const char *path = gf_string_list_get(&((const gf_official *)d->self)->paths, i);
    return gf_key_hash(path, strlen(path));
}

static glofnd_status find(gf_error *err, const gf_dataset *d, int64_t i, char *path, size_t bytes, gf_span *out) {
    const gf_official *o = d->self;
    const char *name = gf_string_list_get(&o->paths, i);
    const int n = snprintf(path, bytes, "%s/%s", o->root, name);
    FAIL_IF(err, n < 0 || (size_t)n >= bytes, GLOFND_E_FORMAT, "the path '%.200s/%.200s' is too long", o->root, name);
    *out = (gf_span){0, UINT64_MAX};
    return GLOFND_OK;
}

static glofnd_status read_text(gf_error *err, const gf_dataset *d, int64_t i, gf_sample *out) {
    const char *text = gf_string_list_get(&((const gf_official *)d->self)->texts, i);
    return text ? gf_sample_set_text(err, out, text, strlen(text)) : GLOFND_OK;
}

static glofnd_status read_official(gf_error *err, const gf_dataset *d, int64_t i, const gf_decode_hint *hint, gf_sample *out) {
    const gf_official *o = d->self;
    char path[PATH_MAX];
    gf_span whole;
    if (o->side) return gf_official_pixels(err, o, i, out);
    TRY(find(err, d, i, path, sizeof path, &whole));
    TRY(read_text(err, d, i, out));
    return gf_sample_read_file(err, path, hint, out);
}

static int test_spec(const gf_dataset *d, char *out, size_t bytes) {
    const gf_official *o = d->self;
    return o->known->test && strcmp(o->split, o->known->test) != 0 && gf_spec_with(&d->spec, "split", o->known->test, out, bytes);
}

const gf_dataset_format gf_format_official = {
    .name = "official",
    .open = open_official,
    .close = close_official,
    .label = label_of,
    .name_of = name_of,
    .key = key_of,
    .read = read_official,
    .read_text = read_text,
    .test_spec = test_spec,
    .find = find,
};

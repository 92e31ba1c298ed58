/* official_lists.c - layouts with plain text lists: Oxford-IIIT Pet, FGVC Aircraft, DTD, Food-101, SUN397. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "data/official/official.h"

#define LINE 1024

typedef glofnd_status (*line_reader)(gf_error *err, gf_official *o, char *line, const gf_string_list *classes);

/* Has every line of a list below the root read. */
static glofnd_status read_list(gf_error *err, gf_official *o, const char *name, const gf_string_list *classes, line_reader read) {
    gf_string_list lines = {0};
    char line[LINE];
    glofnd_status status = gf_official_lines(err, o, name, &lines);
    for (int64_t i = 0; i < lines.n && status == GLOFND_OK; i++) {
        const int n = snprintf(line, sizeof line, "%s", gf_string_list_get(&lines, i));
        if (n < 0 || n >= LINE)
            status = gf_fail(err, GLOFND_E_FORMAT, "'%.200s/%s': line %lld is longer than %d bytes", o->root, name,
                             (long long)i + 1, LINE - 1);
        else status = read(err, o, line, classes);
    }
    gf_string_list_free(&lines);
    return status;
}

static glofnd_status bad_line(gf_error *err, const gf_official *o, const char *line, const char *expected) {
    GF_FAIL(err, GLOFND_E_FORMAT, "'%.200s': a line of the list of split %s is '%.100s'; expected %s", o->root, o->split, line,
            expected);
}

/* ----- Oxford-IIIT Pet: "Abyssinian_100 1 1 1", name and class from 1 ----- */

static glofnd_status pets_line(gf_error *err, gf_official *o, char *line, const gf_string_list *classes) {
    char *word[3], path[LINE + 32], *end;
    (void)classes;
    if (line[0] == '#') return GLOFND_OK;
    errno = 0;
    const int words = gf_official_words(line, word, 3);
    const long label = words == 3 ? strtol(word[1], &end, 10) : 0;
    if (words < 3 || errno || *end || label < 1) return bad_line(err, o, line, "NAME CLASS SPECIES BREED");
    const char *number = strrchr(word[0], '_');
    snprintf(path, sizeof path, "images/%s.jpg", word[0]);
    TRY(gf_official_name_class(err, o, label - 1, word[0], number ? (size_t)(number - word[0]) : strlen(word[0])));
    return gf_official_add(err, o, path, label - 1);
}

glofnd_status gf_read_pets(gf_error *err, gf_official *o) {
    char list[64];
    snprintf(list, sizeof list, "annotations/%.20s.txt", o->split);
    return read_list(err, o, list, NULL, pets_line);
}

/* ----- classes in a list of their own, in its order ----- */

static glofnd_status name_all(gf_error *err, gf_official *o, const gf_string_list *classes) {
    for (int64_t k = 0; k < classes->n; k++)
        TRY(gf_official_name_class(err, o, k, gf_string_list_get(classes, k), strlen(gf_string_list_get(classes, k))));
    return GLOFND_OK;
}

/* Position of a class, which may be named anywhere in the list; -1: not there. Lists are short. */
static int64_t class_of(const gf_string_list *classes, const char *name) {
    for (int64_t k = 0; k < classes->n; k++)
        if (strcmp(gf_string_list_get(classes, k), name) == 0) return k;
    return -1;
}

/* Names the classes that `list` has, then reads the list `items`. */
static glofnd_status read_with_classes(gf_error *err, gf_official *o, const char *list, const char *items, line_reader read) {
    gf_string_list classes = {0};
    glofnd_status status = gf_official_lines(err, o, list, &classes);
    if (status == GLOFND_OK) status = name_all(err, o, &classes);
    if (status == GLOFND_OK) status = read_list(err, o, items, &classes, read);
    gf_string_list_free(&classes);
    return status;
}

/* ----- FGVC Aircraft: "0034309 DC-3", image and variant; the variant may have spaces ----- */

static glofnd_status aircraft_line(gf_error *err, gf_official *o, char *line, const gf_string_list *classes) {
    char *word[2], path[LINE + 32];
    const int words = gf_official_words(line, word, 2);
    const int64_t label = words == 2 ? class_of(classes, word[1]) : -1;
    if (label < 0) return bad_line(err, o, words == 2 ? word[1] : line, "IMAGE VARIANT, the variant one of variants.txt");
    snprintf(path, sizeof path, "images/%s.jpg", word[0]);
    return gf_official_add(err, o, path, label);
}

glofnd_status gf_read_aircraft(gf_error *err, gf_official *o) {
    char list[64];
    snprintf(list, sizeof list, "images_variant_%.20s.txt", o->split);
    return read_with_classes(err, o, "variants.txt", list, aircraft_line);
}

/* ----- DTD, Food-101: "banded/banded_0004.jpg", "apple_pie/1005649": the class is the folder ----- */

static glofnd_status folder_line(gf_error *err, gf_official *o, char *line, const gf_string_list *classes) {
    char path[LINE + 32], name[LINE];
    const char *slash = strchr(line, '/');
    snprintf(name, sizeof name, "%.*s", slash ? (int)(slash - line) : 0, line);
    const int64_t label = slash ? gf_string_list_find(classes, name) : -1;
    if (label < 0) return bad_line(err, o, line, "CLASS/IMAGE, the class a folder of images/");
    const char *dot = strrchr(slash, '.');
    snprintf(path, sizeof path, "images/%s%s", line, dot ? "" : ".jpg");
    return gf_official_add(err, o, path, label);
}

static glofnd_status read_folder_lists(gf_error *err, gf_official *o, const char *const *lists) {
    gf_string_list classes = {0};
    glofnd_status status = gf_official_folders(err, o, "images", &classes);
    if (status == GLOFND_OK) status = name_all(err, o, &classes);
    for (; *lists && status == GLOFND_OK; lists++) status = read_list(err, o, *lists, &classes, folder_line);
    gf_string_list_free(&classes);
    return status;
}

glofnd_status gf_read_dtd(gf_error *err, gf_official *o) {
    const int both = strcmp(o->split, "trainval") == 0, k = (int)o->partition;
    char first[64], second[64];
    snprintf(first, sizeof first, "labels/%.20s%d.txt", both ? "train" : o->split, k);
    snprintf(second, sizeof second, "labels/val%d.txt", k);
    return read_folder_lists(err, o, (const char *const[]){first, both ? second : NULL, NULL});
}

glofnd_status gf_read_food101(gf_error *err, gf_official *o) {
    char list[64];
    snprintf(list, sizeof list, "meta/%.20s.txt", o->split);
    return read_folder_lists(err, o, (const char *const[]){list, NULL});
}

/* ----- SUN397: ClassName.txt has "/a/abbey"; partitions have "/a/abbey/sun_x.jpg" ----- */

static glofnd_status sun_line(gf_error *err, gf_official *o, char *line, const gf_string_list *classes) {
    const char *path = line + strspn(line, "/"), *last = strrchr(line, '/');
    char name[LINE];
    snprintf(name, sizeof name, "%.*s", last ? (int)(last - line) : 0, line);
    const int64_t label = class_of(classes, name);
    if (label < 0) return bad_line(err, o, line, "/LETTER/CLASS/IMAGE, the class one of ClassName.txt");
    return gf_official_add(err, o, path, label);
}

/* "/a/apse/indoor" is the class "apse/indoor". */
static glofnd_status sun_names(gf_error *err, gf_official *o, const gf_string_list *classes) {
    for (int64_t k = 0; k < classes->n; k++) {
        const char *name = gf_string_list_get(classes, k);
        FAIL_IF(err, name[0] != '/' || !name[1] || name[2] != '/' || !name[3], GLOFND_E_FORMAT,
                "'%.200s/ClassName.txt' has '%.100s'; expected /LETTER/CLASS", o->root, name);
        TRY(gf_official_name_class(err, o, k, name + 3, strlen(name + 3)));
        if (strcmp(o->split, "all") == 0) TRY(gf_official_add_folder(err, o, name + 1, k));
    }
    return GLOFND_OK;
}

/* Partitions.zip has its lists in no folder; many unpack it into one. */
static glofnd_status sun_list(gf_error *err, const gf_official *o, char *list, size_t bytes) {
    static const char *const folders[] = {"", "Partitions/", "../Partitions/", "../"};
    const char *name = strcmp(o->split, "test") == 0 ? "Testing" : "Training";
    for (size_t k = 0; k < sizeof folders / sizeof *folders; k++) {
        snprintf(list, bytes, "%s%s_%02d.txt", folders[k], name, (int)o->partition);
        if (gf_official_has(o, list)) return GLOFND_OK;
    }
    GF_FAIL(
        err, GLOFND_E_IO,
        "'%.200s' has no %s_%02d.txt; unpack Partitions.zip there, or take all images with ?split=all (they have no test split)",
        o->root, name, (int)o->partition);
}

glofnd_status gf_read_sun397(gf_error *err, gf_official *o) {
    gf_string_list classes = {0};
    char list[64];
    glofnd_status status = gf_official_lines(err, o, "ClassName.txt", &classes);
    if (status == GLOFND_OK) status = sun_names(err, o, &classes);
    if (status == GLOFND_OK && strcmp(o->split, "all") != 0) {
        status = sun_list(err, o, list, sizeof list);
        if (status == GLOFND_OK) status = read_list(err, o, list, &classes, sun_line);
    }
    gf_string_list_free(&classes);
    return status;
}

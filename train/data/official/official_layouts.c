/* official_layouts.c - the layouts of published datasets that are class folders or text lists. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "data/official/official.h"
#include "io/file.h"

/* ----- Caltech-101: a folder per class; BACKGROUND_Google is none ----- */

glofnd_status gf_read_caltech101(gf_error *err, gf_official *o) {
    gf_string_list *folders = &o->list[0];
    int64_t label = 0;
    TRY(gf_official_folders(err, o, ".", folders));
    for (int64_t k = 0; k < folders->n; k++) {
        const char *name = gf_string_list_get(folders, k);
        if (strcmp(name, "BACKGROUND_Google") == 0) continue;
        TRY(gf_official_name_class(err, o, label, name, strlen(name)));
        TRY(gf_official_add_folder(err, o, name, label++));
    }
    return GLOFND_OK;
}

/* ===== layouts with plain text lists: Oxford-IIIT Pet, DTD, Food-101, Flowers, Cars ===== */

#define LINE 1024

typedef glofnd_status (*line_reader)(gf_error *err, gf_official *o, char *line);

/* Has every line of a list below the root read; classes: o->list[0]. */
static glofnd_status read_list(gf_error *err, gf_official *o, const char *name, line_reader read) {
    gf_string_list *lines = &o->list[1];
    char line[LINE];
    gf_string_list_free(lines);
    TRY(gf_official_lines(err, o, name, lines));
    for (int64_t i = 0; i < lines->n; i++) {
        const int n = snprintf(line, sizeof line, "%s", gf_string_list_get(lines, i));
        FAIL_IF(err, n < 0 || n >= LINE, GLOFND_E_FORMAT, "'%.200s/%s': line %lld is longer than %d bytes", o->root, name,
                (long long)i + 1, LINE - 1);
        TRY(read(err, o, line));
    }
    return GLOFND_OK;
}

static glofnd_status bad_line(gf_error *err, const gf_official *o, const char *line, const char *expected) {
    GF_FAIL(err, GLOFND_E_FORMAT, "'%.200s': a line of the list of split %s is '%.100s'; expected %s", o->root, o->split, line,
            expected);
}

/* ----- Oxford-IIIT Pet: "Abyssinian_100 1 1 1", name and class from 1 ----- */

static glofnd_status pets_line(gf_error *err, gf_official *o, char *line) {
    char *word[3], path[LINE + 32], *end;
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
    return read_list(err, o, list, pets_line);
}

/* ----- DTD, Food-101: "banded/banded_0004.jpg", "apple_pie/1005649": the class is the folder ----- */

static glofnd_status folder_line(gf_error *err, gf_official *o, char *line) {
    char path[LINE + 32], name[LINE];
    const char *slash = strchr(line, '/');
    snprintf(name, sizeof name, "%.*s", slash ? (int)(slash - line) : 0, line);
    const int64_t label = slash ? gf_string_list_find(&o->list[0], name) : -1;
    if (label < 0) return bad_line(err, o, line, "CLASS/IMAGE, the class a folder of images/");
    const char *dot = strrchr(slash, '.');
    snprintf(path, sizeof path, "images/%s%s", line, dot ? "" : ".jpg");
    return gf_official_add(err, o, path, label);
}

glofnd_status gf_read_dtd(gf_error *err, gf_official *o) {
    const int both = strcmp(o->split, "trainval") == 0, k = (int)o->partition;
    char list[64];
    TRY(gf_official_folders(err, o, "images", &o->list[0]));
    TRY(gf_official_name_all(err, o, &o->list[0]));
    snprintf(list, sizeof list, "labels/%.20s%d.txt", both ? "train" : o->split, k);
    TRY(read_list(err, o, list, folder_line));
    snprintf(list, sizeof list, "labels/val%d.txt", k);
    return both ? read_list(err, o, list, folder_line) : GLOFND_OK;
}

glofnd_status gf_read_food101(gf_error *err, gf_official *o) {
    char list[64];
    snprintf(list, sizeof list, "meta/%.20s.txt", o->split);
    TRY(gf_official_folders(err, o, "images", &o->list[0]));
    TRY(gf_official_name_all(err, o, &o->list[0]));
    return read_list(err, o, list, folder_line);
}

/* ----- Flowers, Cars: "jpg/image_06765.jpg<TAB>0", image and class from 0, as `python -m glofnd convert` writes them ----- */

static glofnd_status listed_line(gf_error *err, gf_official *o, char *line) {
    char *tab = strrchr(line, '\t'), *end = line;
    errno = 0;
    const long label = tab ? strtol(tab + 1, &end, 10) : -1;
    if (!tab || errno || end == tab + 1 || *end || label < 0) return bad_line(err, o, line, "IMAGE, a tab and a class from 0");
    *tab = 0;
    return gf_official_add(err, o, line, label);
}

glofnd_status gf_read_listed(gf_error *err, gf_official *o) {
    char list[64];
    snprintf(list, sizeof list, "%.20s.tsv", o->split);
    FAIL_IF(err, !gf_official_has(o, list), GLOFND_E_IO,
            "'%.200s' has no %s; make it of the download's MATLAB files: python -m glofnd convert %.200s %.200s", o->root, list,
            o->root, o->root);
    if (gf_official_has(o, "classes.txt")) {
        TRY(gf_official_lines(err, o, "classes.txt", &o->list[0]));
        TRY(gf_official_name_all(err, o, &o->list[0]));
    }
    return read_list(err, o, list, listed_line);
}

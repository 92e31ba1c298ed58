/* official_imagenet.c - ImageNet and Tiny-ImageNet: classes are WordNet ids ("n01440764") in bytewise order, the same in every
 * split. A file ?classes=FILE takes some of them. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "data/official/official.h"

/* Below the root, or beside the folders that lead to it. */
static int find_file(const gf_official *o, const char *const *names, char *out, size_t bytes) {
    static const char *const above[] = {"", "../", "../../../"};
    for (; *names; names++)
        for (size_t k = 0; k < sizeof above / sizeof *above; k++) {
            snprintf(out, bytes, "%s%s", above[k], *names);
            if (gf_official_has(o, out)) return 1;
        }
    return 0;
}

/* ----- classes ----- */

static glofnd_status add_first_word(gf_error *err, const char *line, gf_string_list *out) {
    return gf_string_list_add(err, out, line, strcspn(line, " \t,"));
}

static glofnd_status sort_unique(gf_error *err, gf_string_list *s) {
    TRY(gf_string_list_sort(err, s));
    gf_string_list_unique(s);
    return GLOFND_OK;
}

/* Sorted, reduced to ?classes=, and named; counts follow. */
static glofnd_status settle_classes(gf_error *err, gf_official *o, gf_string_list *classes) {
    const char *list = gf_spec_value(&o->data->spec, "classes");
    TRY(sort_unique(err, classes));
    if (list) {
        /* Keeps the classes that a file lists, by the first word of its lines. */
        gf_string_list *lines = &o->list[1], *kept = &o->list[4];
        TRY(gf_read_lines(err, list, 0, lines));
        for (int64_t i = 0; i < lines->n; i++) TRY(add_first_word(err, gf_string_list_get(lines, i), kept));
        TRY(sort_unique(err, kept));
        for (int64_t i = 0; i < kept->n; i++)
            FAIL_IF(err, gf_string_list_find(classes, gf_string_list_get(kept, i)) < 0, GLOFND_E_FORMAT,
                    "'%.200s' lists the class '%.60s', which '%.150s' has not", list, gf_string_list_get(kept, i), o->root);
        FAIL_IF(err, kept->n == 0, GLOFND_E_FORMAT, "'%.300s' lists no class", list);
        gf_string_list_free(lines);
        gf_string_list_free(classes);
        *classes = *kept, *kept = (gf_string_list){0};
        o->expected_classes = (int32_t)classes->n;
        o->expected_images = strcmp(o->split, "train") == 0 ? 0 : o->expected_images / o->known->classes * classes->n;
    }
    return gf_official_name_all(err, o, classes);
}

/* ----- titles: "n01440764 tench, Tinca tinca" ----- */

/* Titles of these classes, which are WordNet ids, from ?names=FILE or a file of the download: the name behind an id, up to the
 * first comma. */
static glofnd_status add_titles(gf_error *err, gf_official *o, const gf_string_list *classes) {
    static const char *const files[] = {"LOC_synset_mapping.txt", "words.txt", "synset_words.txt", "README.txt", NULL};
    const char *given = gf_spec_value(&o->data->spec, "names");
    gf_string_list *lines = &o->list[1];
    char name[64], path[PATH_MAX];
    if (!given) {
        if (!find_file(o, files, name, sizeof name)) return GLOFND_OK;
        TRY(gf_path_join(err, path, o->root, name));
    }
    TRY(gf_read_lines(err, given ? given : path, 0, lines));
    for (int64_t i = 0; i < lines->n; i++) {
        const char *line = gf_string_list_get(lines, i);
        char id[32];
        const size_t n = strcspn(line, " \t,");
        if (n >= sizeof id) continue;
        snprintf(id, sizeof id, "%.*s", (int)n, line);
        const int64_t label = gf_string_list_find(classes, id);
        const char *title = line + n + strspn(line + n, " \t,");
        if (label >= 0 && *title) TRY(gf_official_title_class(err, o, label, title, strcspn(title, ",")));
    }
    gf_string_list_free(lines);
    return GLOFND_OK;
}

/* ----- class folders ----- */

/* Classes: o->list[0]. */
static glofnd_status read_class_folders(gf_error *err, gf_official *o, const char *where) {
    gf_string_list *classes = &o->list[0];
    TRY(settle_classes(err, o, classes));
    TRY(add_titles(err, o, classes));
    /* Images of each class in WHERE/ID, or in WHERE/ID/images (Tiny-ImageNet). */
    char folder[PATH_MAX], inner[PATH_MAX];
    for (int64_t k = 0; k < classes->n; k++) {
        TRY(gf_path_join(err, folder, where, gf_string_list_get(classes, k)));
        TRY(gf_path_join(err, inner, folder, "images"));
        TRY(gf_official_add_folder(err, o, gf_official_has(o, inner) ? inner : folder, k));
    }
    return GLOFND_OK;
}

/* ----- a flat folder of validation images, and which class each has ----- */

/* "ILSVRC2012_val_00048981,n03995372 85 1 499 272" or "val_0.JPEG n03444034 0 32 44 62": name, id, boxes. */
static glofnd_status add_table(gf_error *err, gf_official *o, const char *table, gf_string_list *file, gf_string_list *ids) {
    gf_string_list *lines = &o->list[0];
    TRY(gf_official_lines(err, o, table, lines));
    for (int64_t i = 0; i < lines->n; i++) {
        const char *line = gf_string_list_get(lines, i);
        const size_t n = strcspn(line, " \t,");
        if (i == 0 && strncmp(line, "ImageId", 7) == 0) continue;
        const char *dot = memchr(line, '.', n);
        TRY(gf_string_list_add(err, file, line, dot ? (size_t)(dot - line) : n));
        TRY(add_first_word(err, line + n + strspn(line + n, " \t,"), ids));
    }
    return GLOFND_OK;
}

static glofnd_status read_flat(gf_error *err, gf_official *o) {
    static const char *const tables[] = {"val/val_annotations.txt", "LOC_val_solution.csv", NULL};
    gf_string_list *classes = &o->list[0], *file = &o->list[2], *ids = &o->list[3];
    char table[120];
    FAIL_IF(
        err, !find_file(o, tables, table, sizeof table), GLOFND_E_IO,
        "'%.200s/val' has no class folders, and no file next to it says which class its images have; sort its images into class "
        "folders, or put LOC_val_solution.csv there",
        o->root);
    TRY(add_table(err, o, table, file, ids));
    gf_string_list_free(classes);
    for (int64_t i = 0; i < ids->n; i++)
        TRY(gf_string_list_add(err, classes, gf_string_list_get(ids, i), strlen(gf_string_list_get(ids, i))));
    TRY(settle_classes(err, o, classes));
    TRY(add_titles(err, o, classes));
    /* Images in val/ or val/images/; they are named as the labels, in any order of the folder. */
    const char *where = gf_official_has(o, "val/images") ? "val/images" : "val";
    char path[PATH_MAX];
    for (int64_t i = 0; i < file->n; i++) {
        const int64_t label = gf_string_list_find(classes, gf_string_list_get(ids, i));
        if (label < 0) continue; /* not one of ?classes= */
        const int n = snprintf(path, sizeof path, "%s/%s.JPEG", where, gf_string_list_get(file, i));
        FAIL_IF(err, n < 0 || n >= (int)sizeof path, GLOFND_E_FORMAT, "a path below '%.300s' is too long", o->root);
        TRY(gf_official_add(err, o, path, label));
    }
    return GLOFND_OK;
}

/* ----- the splits ----- */

glofnd_status gf_read_imagenet(gf_error *err, gf_official *o) {
    FAIL_IF(err, !gf_official_has(o, o->split), GLOFND_E_IO, "'%.200s' has no folder %s; %s:DIR needs %s", o->root, o->split,
            o->known->name, o->known->wants);
    TRY(gf_official_folders(err, o, o->split, &o->list[0]));
    if (o->list[0].n > 1 || strcmp(o->split, "train") == 0) return read_class_folders(err, o, o->split);
    gf_string_list_free(&o->list[0]); /* Tiny-ImageNet's val has the folder images alone */
    return read_flat(err, o);
}

/* official_imagenet.c - ImageNet and Tiny-ImageNet: classes are WordNet ids ("n01440764") in bytewise order, the same in every
 * split. A file ?classes=FILE takes some of them. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "data/official/mat5.h"
#include "data/official/official.h"

/* Below the root, or beside the folders that lead to it. */
static const char *find_file(const gf_official *o, const char *const *names, char *out, size_t bytes) {
    static const char *const above[] = {"", "../", "../../../"};
    for (; *names; names++)
        for (size_t k = 0; k < sizeof above / sizeof *above; k++) {
            snprintf(out, bytes, "%s%s", above[k], *names);
            if (gf_official_has(o, out)) return out;
        }
    return NULL;
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

/* Keeps the classes that a file lists, by the first word of its lines. */
static glofnd_status keep_listed(gf_error *err, gf_official *o, const char *path, gf_string_list *classes) {
    gf_string_list lines = {0}, kept = {0};
    glofnd_status status = gf_read_lines(err, path, 0, &lines);
    for (int64_t i = 0; i < lines.n && status == GLOFND_OK; i++)
        status = add_first_word(err, gf_string_list_get(&lines, i), &kept);
    if (status == GLOFND_OK) status = sort_unique(err, &kept);
    for (int64_t i = 0; i < kept.n && status == GLOFND_OK; i++)
        if (gf_string_list_find(classes, gf_string_list_get(&kept, i)) < 0)
            status = gf_fail(err, GLOFND_E_FORMAT, "'%.200s' lists the class '%.60s', which '%.150s' has not", path,
                             gf_string_list_get(&kept, i), o->root);
    if (status == GLOFND_OK && kept.n == 0) status = gf_fail(err, GLOFND_E_FORMAT, "'%.300s' lists no class", path);
    gf_string_list_free(&lines);
    if (status == GLOFND_OK) {
        gf_string_list_free(classes);
        *classes = kept;
        return GLOFND_OK;
    }
    gf_string_list_free(&kept);
    return status;
}

/* Sorted, reduced to ?classes=, and named; counts follow. */
static glofnd_status settle_classes(gf_error *err, gf_official *o, gf_string_list *classes) {
    const char *list = gf_spec_value(&o->data->spec, "classes");
    const int64_t all = o->known->classes;
    TRY(sort_unique(err, classes));
    if (list) TRY(keep_listed(err, o, list, classes));
    if (list) {
        o->expected_classes = (int32_t)classes->n;
        o->expected_images = strcmp(o->split, "train") == 0 ? 0 : o->expected_images / all * classes->n;
    }
    for (int64_t k = 0; k < classes->n; k++)
        TRY(gf_official_name_class(err, o, k, gf_string_list_get(classes, k), strlen(gf_string_list_get(classes, k))));
    return GLOFND_OK;
}

/* ----- titles: "n01440764 tench, Tinca tinca" ----- */

/* The name behind an id, up to the first comma, becomes the title of its class. */
static glofnd_status title_line(gf_error *err, gf_official *o, const gf_string_list *classes, const char *line) {
    char id[32];
    const size_t n = strcspn(line, " \t,");
    if (n >= sizeof id) return GLOFND_OK;
    snprintf(id, sizeof id, "%.*s", (int)n, line);
    const int64_t label = gf_string_list_find(classes, id);
    const char *name = line + n + strspn(line + n, " \t,");
    return label < 0 || !*name ? GLOFND_OK : gf_official_title_class(err, o, label, name, strcspn(name, ","));
}

static glofnd_status title_file(gf_error *err, gf_official *o, const gf_string_list *classes, const char *path) {
    gf_string_list lines = {0};
    glofnd_status status = gf_read_lines(err, path, 0, &lines);
    for (int64_t i = 0; i < lines.n && status == GLOFND_OK; i++)
        status = title_line(err, o, classes, gf_string_list_get(&lines, i));
    gf_string_list_free(&lines);
    return status;
}

/* Titles of these classes, which are WordNet ids, from ?names=FILE or a file of the download. */
static glofnd_status add_titles(gf_error *err, gf_official *o, const gf_string_list *classes) {
    static const char *const files[] = {"LOC_synset_mapping.txt", "words.txt", "synset_words.txt", "README.txt", NULL};
    const char *given = gf_spec_value(&o->data->spec, "names"), *found;
    char name[64], path[PATH_MAX];
    if (given) return title_file(err, o, classes, given);
    if (!(found = find_file(o, files, name, sizeof name))) return GLOFND_OK;
    TRY(gf_path_join(err, path, o->root, found));
    return title_file(err, o, classes, path);
}

/* ----- class folders ----- */

static glofnd_status read_class_folders(gf_error *err, gf_official *o, const char *where, gf_string_list *classes) {
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

typedef struct flat_labels { /* file names without extension, and ids, in the same order */
    gf_string_list file, id;
} flat_labels;

static void flat_free(flat_labels *f) {
    gf_string_list_free(&f->file);
    gf_string_list_free(&f->id);
}

/* "ILSVRC2012_val_00048981,n03995372 85 1 499 272" or "val_0.JPEG n03444034 0 32 44 62": name, id, boxes. */
static glofnd_status labels_by_lines(gf_error *err, const gf_official *o, const char *name, flat_labels *out) {
    gf_string_list lines = {0};
    glofnd_status status = gf_official_lines(err, o, name, &lines);
    for (int64_t i = 0; i < lines.n && status == GLOFND_OK; i++) {
        const char *line = gf_string_list_get(&lines, i);
        const size_t n = strcspn(line, " \t,");
        const char *id = line + n + strspn(line + n, " \t,");
        if (i == 0 && strncmp(line, "ImageId", 7) == 0) continue;
        const char *dot = memchr(line, '.', n);
        status = gf_string_list_add(err, &out->file, line, dot ? (size_t)(dot - line) : n);
        if (status == GLOFND_OK) status = add_first_word(err, id, &out->id);
    }
    gf_string_list_free(&lines);
    return status;
}

/* The devkit: a number from 1 per image, and meta.mat, whose structs say which id has which number. */
static glofnd_status add_ground_truth(gf_error *err, const gf_official *o, const gf_mat_array *synsets,
                                      const gf_string_list *lines, flat_labels *out) {
    for (int64_t i = 0; i < lines->n; i++) {
        char *end, file[64], id[32] = "";
        const long number = strtol(gf_string_list_get(lines, i), &end, 10);
        int64_t x = 0;
        int64_t k = number - 1; /* ids are in order; if not, they are looked for */
        if (!gf_mat_integer(gf_mat_field(synsets, k, "ILSVRC2012_ID"), 0, number, number, &x))
            for (k = 0; k < synsets->n && !gf_mat_integer(gf_mat_field(synsets, k, "ILSVRC2012_ID"), 0, number, number, &x);) k++;
        FAIL_IF(err, *end || number < 1 || !gf_mat_text(gf_mat_field(synsets, k, "WNID"), id, sizeof id), GLOFND_E_FORMAT,
                "'%.200s': class '%.30s' of validation image %lld is not in meta.mat", o->root, gf_string_list_get(lines, i),
                (long long)i + 1);
        snprintf(file, sizeof file, "ILSVRC2012_val_%08lld", (long long)i + 1);
        TRY(gf_string_list_add(err, &out->file, file, strlen(file)));
        TRY(gf_string_list_add(err, &out->id, id, strlen(id)));
    }
    return GLOFND_OK;
}

static glofnd_status labels_by_devkit(gf_error *err, const gf_official *o, const char *truth, const char *meta,
                                      flat_labels *out) {
    char path[PATH_MAX];
    gf_mat m = {0};
    gf_string_list lines = {0};
    TRY(gf_path_join(err, path, o->root, meta));
    glofnd_status status = gf_mat_read(err, path, &m);
    const gf_mat_array *synsets = status == GLOFND_OK ? gf_mat_find(&m, "synsets") : NULL;
    if (status == GLOFND_OK && (!synsets || synsets->kind != GF_MAT_STRUCTS))
        status = gf_fail(err, GLOFND_E_FORMAT, "'%.300s' has no struct array 'synsets'", path);
    if (status == GLOFND_OK) status = gf_official_lines(err, o, truth, &lines);
    if (status == GLOFND_OK) status = add_ground_truth(err, o, synsets, &lines, out);
    gf_string_list_free(&lines);
    gf_mat_free(&m);
    return status;
}

static glofnd_status read_flat(gf_error *err, gf_official *o, flat_labels *f, gf_string_list *classes) {
    static const char *const tables[] = {"val/val_annotations.txt", "LOC_val_solution.csv", NULL};
    static const char *const truths[] = {"ILSVRC2012_devkit_t12/data/ILSVRC2012_validation_ground_truth.txt",
                                         "ILSVRC2012_validation_ground_truth.txt", NULL};
    static const char *const metas[] = {"ILSVRC2012_devkit_t12/data/meta.mat", "meta.mat", NULL};
    char table[120], meta[120];
    if (find_file(o, tables, table, sizeof table)) TRY(labels_by_lines(err, o, table, f));
    else {
        FAIL_IF(err, !find_file(o, truths, table, sizeof table) || !find_file(o, metas, meta, sizeof meta), GLOFND_E_IO,
                "'%.200s/val' has no class folders, and nothing beside it says which class its images have; unpack "
                "ILSVRC2012_devkit_t12.tar.gz there, or LOC_val_solution.csv",
                o->root);
        TRY(labels_by_devkit(err, o, table, meta, f));
    }
    for (int64_t i = 0; i < f->id.n; i++)
        TRY(gf_string_list_add(err, classes, gf_string_list_get(&f->id, i), strlen(gf_string_list_get(&f->id, i))));
    TRY(settle_classes(err, o, classes));
    TRY(add_titles(err, o, classes));
    /* Images in val/ or val/images/; they are named as the labels, in any order of the folder. */
    const char *where = gf_official_has(o, "val/images") ? "val/images" : "val";
    char path[PATH_MAX];
    for (int64_t i = 0; i < f->file.n; i++) {
        const int64_t label = gf_string_list_find(classes, gf_string_list_get(&f->id, i));
        if (label < 0) continue; /* not one of ?classes= */
        const int n = snprintf(path, sizeof path, "%s/%s.JPEG", where, gf_string_list_get(&f->file, i));
        FAIL_IF(err, n < 0 || n >= (int)sizeof path, GLOFND_E_FORMAT, "a path below '%.300s' is too long", o->root);
        TRY(gf_official_add(err, o, path, label));
    }
    return GLOFND_OK;
}

/* ----- the splits ----- */

glofnd_status gf_read_imagenet(gf_error *err, gf_official *o) {
    gf_string_list classes = {0};
    flat_labels flat = {0};
    FAIL_IF(err, !gf_official_has(o, o->split), GLOFND_E_IO, "'%.200s' has no folder %s; %s:DIR needs %s", o->root, o->split,
            o->known->name, o->known->wants);
    glofnd_status status = gf_official_folders(err, o, o->split, &classes);
    if (status == GLOFND_OK && (classes.n > 1 || strcmp(o->split, "train") == 0))
        status = read_class_folders(err, o, o->split, &classes);
    else if (status == GLOFND_OK) {
        gf_string_list_free(&classes); /* Tiny-ImageNet's val has the folder images alone */
        status = read_flat(err, o, &flat, &classes);
    }
    gf_string_list_free(&classes);
    flat_free(&flat);
    return status;
}

/* ----- variants with one split: class folders by id, or by number (ImageNet-V2) ----- */

static glofnd_status read_numbers(gf_error *err, gf_official *o, const gf_string_list *folders) {
    for (int64_t k = 0; k < folders->n; k++) {
        char *end;
        const char *name = gf_string_list_get(folders, k);
        const long label = strtol(name, &end, 10);
        FAIL_IF(err, *end || label < 0 || label >= o->known->classes, GLOFND_E_FORMAT,
                "'%.200s' has the folder '%.60s'; expected class numbers from 0 to %d", o->root, name,
                (int)o->known->classes - 1);
        TRY(gf_official_add_folder(err, o, name, label));
    }
    return GLOFND_OK;
}

/* Names of numbered classes: ?names=FILE, a line each. */
static glofnd_status name_numbers(gf_error *err, gf_official *o) {
    const char *path = gf_spec_value(&o->data->spec, "names");
    gf_string_list lines = {0};
    glofnd_status status = path ? gf_read_lines(err, path, 0, &lines) : GLOFND_OK;
    if (status == GLOFND_OK && path && lines.n != o->known->classes)
        status = gf_fail(err, GLOFND_E_FORMAT, "'%.300s' has %lld lines; expected a name for each of %d classes", path,
                         (long long)lines.n, (int)o->known->classes);
    for (int64_t k = 0; k < lines.n && status == GLOFND_OK; k++)
        status = gf_official_name_class(err, o, k, gf_string_list_get(&lines, k), strlen(gf_string_list_get(&lines, k)));
    gf_string_list_free(&lines);
    return status;
}

glofnd_status gf_read_imagenet_v2(gf_error *err, gf_official *o) {
    gf_string_list folders = {0};
    glofnd_status status = gf_official_folders(err, o, ".", &folders);
    if (status == GLOFND_OK) status = read_numbers(err, o, &folders);
    if (status == GLOFND_OK) status = name_numbers(err, o);
    gf_string_list_free(&folders);
    return status;
}

glofnd_status gf_read_imagenet_variant(gf_error *err, gf_official *o) {
    gf_string_list classes = {0};
    glofnd_status status = gf_official_folders(err, o, ".", &classes);
    if (status == GLOFND_OK) status = read_class_folders(err, o, ".", &classes);
    gf_string_list_free(&classes);
    return status;
}

/* official_folders.c - what folders of a dataset hold; and the layouts that are class folders: Caltech-101. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <dirent.h>
#include <errno.h>
#include <string.h>
#include <strings.h>

#include "data/official/official.h"
#include "io/file.h"

static int is_image_name(const char *name) {
    static const char *const ends[] = {".jpg", ".jpeg", ".png", ".webp"};
    const char *dot = strrchr(name, '.');
    for (size_t k = 0; dot && k < sizeof ends / sizeof *ends; k++)
        if (strcasecmp(dot, ends[k]) == 0) return 1;
    return 0;
}

/* d_type is not known on every file system, and links count as what they lead to. */
static int is_folder(const char *path, const struct dirent *e) {
    char below[PATH_MAX];
    if (e->d_type != DT_LNK && e->d_type != DT_UNKNOWN) return e->d_type == DT_DIR;
    return gf_path_join(NULL, below, path, e->d_name) == GLOFND_OK && gf_is_folder(below);
}

static glofnd_status list(gf_error *err, const gf_official *o, const char *where, int folders, gf_string_list *out) {
    char path[PATH_MAX];
    TRY(gf_path_join(err, path, o->root, where));
    DIR *dir = opendir(path);
    FAIL_IF(err, !dir, GLOFND_E_IO, "the folder '%.400s' cannot be read: %s", path, strerror(errno));
    glofnd_status status = GLOFND_OK;
    const struct dirent *e;
    while (status == GLOFND_OK && (errno = 0, e = readdir(dir)) != NULL) {
        if (e->d_name[0] == '.' || (folders ? !is_folder(path, e) : !is_image_name(e->d_name))) continue;
        status = gf_string_list_add(err, out, e->d_name, strlen(e->d_name));
    }
    if (status == GLOFND_OK && errno)
        status = gf_fail(err, GLOFND_E_IO, "the folder '%.400s' cannot be read: %s", path, strerror(errno));
    closedir(dir);
    return status == GLOFND_OK ? gf_string_list_sort(err, out) : status;
}

glofnd_status gf_official_folders(gf_error *err, const gf_official *o, const char *where, gf_string_list *out) {
    return list(err, o, where, 1, out);
}

glofnd_status gf_official_images(gf_error *err, const gf_official *o, const char *where, gf_string_list *out) {
    return list(err, o, where, 0, out);
}

static glofnd_status add_images(gf_error *err, gf_official *o, const char *where, int64_t label, gf_string_list *images) {
    char path[PATH_MAX];
    TRY(gf_official_images(err, o, where, images));
    for (int64_t i = 0; i < images->n; i++) {
        TRY(gf_path_join(err, path, where, gf_string_list_get(images, i)));
        TRY(gf_official_add(err, o, path, label));
    }
    return GLOFND_OK;
}

glofnd_status gf_official_add_folder(gf_error *err, gf_official *o, const char *where, int64_t label) {
    gf_string_list images = {0};
    const glofnd_status status = add_images(err, o, where, label, &images);
    gf_string_list_free(&images);
    return status;
}

/* ----- Caltech-101: a folder per class; BACKGROUND_Google is none ----- */

static glofnd_status add_classes(gf_error *err, gf_official *o, gf_string_list *folders) {
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

glofnd_status gf_read_caltech101(gf_error *err, gf_official *o) {
    gf_string_list folders = {0};
    const glofnd_status status = add_classes(err, o, &folders);
    gf_string_list_free(&folders);
    return status;
}

/* output_folder.c - see output_folder.h. */
#include "discover/output_folder.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "util/path.h"

/* Entries of a folder other than . and ..; -1: it cannot be read. */
static int64_t entries(const char *path) {
    DIR *d = opendir(path);
    if (!d) return -1;
    int64_t n = 0;
    for (const struct dirent *e = readdir(d); e; e = readdir(d)) n += strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0;
    closedir(d);
    return n;
}

static int has_file(const char *folder, const char *name) {
    char path[PATH_MAX];
    struct stat st;
    const int n = snprintf(path, sizeof path, "%s/%s", folder, name);
    return n > 0 && (size_t)n < sizeof path && stat(path, &st) == 0 && S_ISREG(st.st_mode);
}

static glofnd_status check_target(gf_error *err, const char *target, int force, const char *mark) {
    struct stat st;
    FAIL_IF(err, strlen(target) == 0 || strlen(target) > PATH_MAX - 64, GLOFND_E_ARGUMENT,
            "the path of the output folder is empty or too long");
    if (lstat(target, &st) != 0) {
        FAIL_IF(err, errno != ENOENT, GLOFND_E_IO, "'%.300s': %s", target, strerror(errno));
        return GLOFND_OK;
    }
    FAIL_IF(err, !force, GLOFND_E_IO, "'%.300s' exists; use --force to replace it", target);
    FAIL_IF(err, !S_ISDIR(st.st_mode), GLOFND_E_IO, "'%.300s' is not a folder and is not replaced", target);
    FAIL_IF(err, entries(target) != 0 && !has_file(target, mark), GLOFND_E_IO,
            "'%.300s' is not a folder of results (no %s) and is not replaced", target, mark);
    return GLOFND_OK;
}

/* A new folder beside `target`. */
static char *make_beside(const char *target) {
    const size_t bytes = strlen(target) + 16;
    char *path = malloc(bytes);
    if (!path) return NULL;
    snprintf(path, bytes, "%s.tmp-XXXXXX", target);
    if (mkdtemp(path)) return path;
    free(path);
    return NULL;
}

glofnd_status gf_output_folder_check(gf_error *err, const char *target, int force, const char *mark) {
    gf_output_folder trial = {0};
    const glofnd_status status = gf_output_folder_open(err, &trial, target, force, mark);
    gf_output_folder_close(&trial);
    return status;
}

glofnd_status gf_output_folder_open(gf_error *err, gf_output_folder *f, const char *target, int force, const char *mark) {
    *f = (gf_output_folder){.force = force};
    TRY(check_target(err, target, force, mark));
    f->target = strdup(target);
    FAIL_IF(err, !f->target, GLOFND_E_MEMORY, "no memory for a path");
    for (size_t n = strlen(target); n > 1 && f->target[n - 1] == '/'; n--) f->target[n - 1] = 0;
    f->temp = make_beside(f->target);
    FAIL_IF(err, !f->temp, GLOFND_E_IO, "cannot create a folder beside '%.300s': %s", f->target, strerror(errno));
    FAIL_IF(err, chmod(f->temp, 0755) != 0, GLOFND_E_IO, "'%.300s': %s", f->temp, strerror(errno));
    return GLOFND_OK;
}

glofnd_status gf_output_folder_path(gf_error *err, const gf_output_folder *f, const char *name, char *path) {
    return gf_path_join(err, path, f->temp, name);
}

/* Removes a folder of files; with a subfolder in it, the folder stays. */
static int remove_folder(const char *path) {
    DIR *d = opendir(path);
    if (!d) return -1;
    for (const struct dirent *e = readdir(d); e; e = readdir(d))
        if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0) unlinkat(dirfd(d), e->d_name, 0);
    closedir(d);
    return rmdir(path);
}

/* Moves the old folder away: rename() does not replace a folder that is not empty. */
static glofnd_status move_away(gf_error *err, const char *target, char **old) {
    struct stat st;
    if (lstat(target, &st) != 0) return GLOFND_OK;
    *old = make_beside(target);
    FAIL_IF(err, !*old || rename(target, *old) != 0, GLOFND_E_IO, "'%.300s' cannot be replaced: %s", target, strerror(errno));
    return GLOFND_OK;
}

glofnd_status gf_output_folder_commit(gf_error *err, gf_output_folder *f) {
    char *old = NULL;
    struct stat st;
    FAIL_IF(err, !f->force && lstat(f->target, &st) == 0, GLOFND_E_IO, "'%.300s' was created meanwhile and is not replaced",
            f->target);
    glofnd_status status = f->force ? move_away(err, f->target, &old) : GLOFND_OK;
    if (status == GLOFND_OK && rename(f->temp, f->target) != 0) {
        status = gf_fail(err, GLOFND_E_IO, "'%.300s' cannot be renamed to its final name: %s", f->target, strerror(errno));
        if (old) rename(old, f->target);
    } else if (status == GLOFND_OK) {
        free(f->temp);
        f->temp = NULL;
        if (old && remove_folder(old) != 0)
            status = gf_fail(err, GLOFND_E_IO, "'%.200s' is written; its previous content is left in '%.200s'", f->target, old);
    }
    free(old);
    return status;
}

void gf_output_folder_close(gf_output_folder *f) {
    if (f->temp) remove_folder(f->temp);
    free(f->temp);
    free(f->target);
    *f = (gf_output_folder){0};
}

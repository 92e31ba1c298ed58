/* output_folder.c - see output_folder.h. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "discover/output_folder.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "io/blockfile.h"
#include "io/calls.h"
#include "util/text.h"

#define TEMP ".tmp-" /* TARGET.tmp-PID-K: a result in the making, or one that was replaced and is being removed */
#define OLD ".old-"  /* TARGET.old-PID-K: the previous result, where two folders cannot be exchanged */

/* musl has the system call, but no function for it. */
#ifndef RENAME_EXCHANGE
#define RENAME_EXCHANGE 2U
#define renameat2(from_fd, from, to_fd, to, flags) ((int)syscall(SYS_renameat2, from_fd, from, to_fd, to, flags))
#endif

static int is_dots(const char *name) { return strcmp(name, ".") == 0 || strcmp(name, "..") == 0; }

/* A file of the folder of a result: a letter, digits, an ending. */
static int is_numbered(const char *name) {
    const size_t digits = name[0] >= 'a' && name[0] <= 'z' ? strspn(name + 1, "0123456789") : 0;
    return digits && (strcmp(name + 1 + digits, ".js") == 0 || strcmp(name + 1 + digits, ".jpg") == 0);
}

/* 1: a folder with nothing but numbered files; a link is none. */
static int is_only_numbered(const char *folder, const char *name) {
    char path[PATH_MAX];
    struct stat st;
    int error = 0, only = 1;
    if (gf_path_join(NULL, path, folder, name) != GLOFND_OK || lstat(path, &st) != 0 || !S_ISDIR(st.st_mode)) return 0;
    DIR *d = gf_open_folder(path);
    for (const struct dirent *e; d && (e = gf_next_entry(d, &error));) only &= is_dots(e->d_name) || is_numbered(e->d_name);
    if (d) closedir(d);
    return d && !error && only;
}

/* A file of the result in `folder`, also one that a killed call was writing. */
static int is_own(const gf_output_kind *kind, const char *folder, const char *name) {
    if (kind->folder && strcmp(name, kind->folder) == 0) return is_only_numbered(folder, name);
    for (const char *const *own = kind->names; *own; own++) {
        const size_t n = strlen(*own);
        if (strncmp(*own, name, n) == 0 && (!name[n] || strncmp(name + n, GF_TEMP_MARK, strlen(GF_TEMP_MARK)) == 0)) return 1;
    }
    return 0;
}

/* 1: no entries, 0: some. */
static glofnd_status check_empty(gf_error *err, const char *path, int *empty) {
    int error = 0;
    DIR *d = gf_open_folder(path);
    *empty = 1;
    FAIL_IF(err, !d, GLOFND_E_IO, "'%.300s' cannot be read: %s", path, strerror(errno));
    for (const struct dirent *e; (e = gf_next_entry(d, &error));) *empty &= is_dots(e->d_name);
    closedir(d);
    FAIL_IF(err, error, GLOFND_E_IO, "'%.300s' cannot be read: %s", path, strerror(error));
    return GLOFND_OK;
}

static glofnd_status check_target(gf_error *err, const char *target, int force, const gf_output_kind *kind) {
    struct stat st;
    int empty;
    FAIL_IF(err, strlen(target) == 0 || strlen(target) > PATH_MAX - 64, GLOFND_E_ARGUMENT,
            "the path of the output folder is empty or too long");
    if (lstat(target, &st) != 0) {
        FAIL_IF(err, errno != ENOENT, GLOFND_E_IO, "'%.300s': %s", target, strerror(errno));
        return GLOFND_OK;
    }
    FAIL_IF(err, !force, GLOFND_E_IO, "'%.300s' exists; use --force to replace it", target);
    FAIL_IF(err, !S_ISDIR(st.st_mode), GLOFND_E_IO, "'%.300s' is not a folder and is not replaced", target);
    TRY(check_empty(err, target, &empty));
    FAIL_IF(err, !empty && !kind->is_result(target), GLOFND_E_IO,
            "'%.300s' is not a folder of results (no %s) and is not replaced", target, kind->mark);
    return GLOFND_OK;
}

/* ----- removing ----- */

/* 1: only files of a result are in it. */
static int is_only_own(const gf_output_kind *kind, const char *path) {
    int error = 0, only = 1;
    DIR *d = gf_open_folder(path);
    for (const struct dirent *e; d && (e = gf_next_entry(d, &error));)
        only &= is_dots(e->d_name) || is_own(kind, path, e->d_name);
    if (d) closedir(d);
    return d && !error && only;
}

/* A folder of numbered files. */
static void remove_numbered(const char *path) {
    char file[PATH_MAX];
    int error = 0;
    DIR *d = gf_open_folder(path);
    for (const struct dirent *e; d && (e = gf_next_entry(d, &error));)
        if (is_numbered(e->d_name) && gf_path_join(NULL, file, path, e->d_name) == GLOFND_OK) unlink(file);
    if (d) closedir(d);
    rmdir(path);
}

/* The files of a result, then the folder. One that holds another file stays whole: its mark tells the next call what it is. */
static int remove_result(const gf_output_kind *kind, const char *path) {
    char file[PATH_MAX];
    int error = 0;
    if (!is_only_own(kind, path)) {
        errno = ENOTEMPTY;
        return -1;
    }
    DIR *d = gf_open_folder(path);
    for (const struct dirent *e; d && (e = gf_next_entry(d, &error));)
        if (is_own(kind, path, e->d_name) && gf_path_join(NULL, file, path, e->d_name) == GLOFND_OK && unlink(file) != 0)
            remove_numbered(file);
    if (d) closedir(d);
    return rmdir(path);
}

/* Moves the files of the user from a replaced result to the new one; what cannot be moved stays. */
static void keep_files(const gf_output_kind *kind, const char *from, const char *to) {
    char old[PATH_MAX], new[PATH_MAX];
    int error = 0, there;
    DIR *d = gf_open_folder(from);
    for (const struct dirent *e; d && (e = gf_next_entry(d, &error));) {
        if (is_dots(e->d_name) || is_own(kind, from, e->d_name)) continue;
        if (gf_path_join(NULL, old, from, e->d_name) != GLOFND_OK || gf_path_join(NULL, new, to, e->d_name) != GLOFND_OK)
            continue;
        if (gf_exists(NULL, new, &there) == GLOFND_OK && !there && rename(old, new) != 0) continue;
    }
    if (d) closedir(d);
}

/* ----- temporary folders ----- */

/* A new folder beside `target`. */
static char *make_beside(const char *target, const char *mark) {
    const size_t bytes = strlen(target) + 64;
    char *path = malloc(bytes);
    for (int k = 0; path && k < 1000; k++) {
        snprintf(path, bytes, "%s%s%ld-%d", target, mark, (long)getpid(), k);
        if (mkdir(path, 0777) == 0) return path;
        if (errno != EEXIST) break;
    }
    const int why = errno;
    free(path);
    errno = why;
    return NULL;
}

/* 1: NAME is BASE, a mark, and PID-K, or the six characters of earlier versions: a temporary folder of this target. */
static int is_beside(const char *name, const char *base, const char *mark) {
    static const char digits[] = "0123456789";
    const size_t n = strlen(base), m = strlen(mark);
    if (strncmp(name, base, n) != 0 || strncmp(name + n, mark, m) != 0) return 0;
    const char *rest = name + n + m;
    const size_t pid = strspn(rest, digits), k = pid && rest[pid] == '-' ? strspn(rest + pid + 1, digits) : 0;
    return (k && !rest[pid + 1 + k]) || (strlen(rest) == 6 && !strpbrk(rest, "-._ "));
}

/* One that a killed call has left: no process holds its lock. Files of the user go to the target. */
static void remove_leftover(const gf_output_kind *kind, const char *path, const char *target, int is_old) {
    struct stat st;
    if (lstat(path, &st) != 0 || !S_ISDIR(st.st_mode) || !(is_only_own(kind, path) || kind->is_result(path))) return;
    const int fd = gf_open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
    if (fd < 0) return;
    if (gf_flock(fd, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK) {
        const int missing = lstat(target, &st) != 0 && errno == ENOENT;
        if (!(is_old && missing && rename(path, target) == 0)) { /* else: it is the result again */
            if (!missing) keep_files(kind, path, target);
            remove_result(kind, path);
        }
    }
    gf_close(fd);
}

static void remove_leftovers(const gf_output_kind *kind, const char *target) {
    char folder[PATH_MAX], path[PATH_MAX];
    const char *slash = strrchr(target, '/'), *base = slash ? slash + 1 : target;
    int error = 0;
    snprintf(folder, sizeof folder, "%.*s", slash ? (int)(slash - target) + (slash == target) : 1, slash ? target : ".");
    DIR *d = gf_open_folder(folder);
    for (const struct dirent *e; d && (e = gf_next_entry(d, &error));) {
        const int old = is_beside(e->d_name, base, OLD);
        if ((old || is_beside(e->d_name, base, TEMP)) && gf_path_join(NULL, path, folder, e->d_name) == GLOFND_OK)
            remove_leftover(kind, path, target, old);
    }
    if (d) closedir(d);
}

/* ----- opening ----- */

glofnd_status gf_output_folder_check(gf_error *err, const char *target, int force, const gf_output_kind *kind) {
    gf_output_folder trial = {0};
    const glofnd_status status = gf_output_folder_open(err, &trial, target, force, kind);
    gf_output_folder_close(&trial);
    return status;
}

glofnd_status gf_output_folder_open(gf_error *err, gf_output_folder *f, const char *target, int force,
                                    const gf_output_kind *kind) {
    *f = (gf_output_folder){.kind = kind, .force = force, .lock = -1};
    f->target = strdup(target);
    FAIL_IF(err, !f->target, GLOFND_E_MEMORY, "no memory for a path");
    for (size_t n = strlen(target); n > 1 && f->target[n - 1] == '/'; n--) f->target[n - 1] = 0;
    if (*f->target && strlen(f->target) < PATH_MAX - 64) remove_leftovers(kind, f->target);
    TRY(check_target(err, f->target, force, kind));
    f->temp = make_beside(f->target, TEMP);
    FAIL_IF(err, !f->temp, GLOFND_E_IO, "cannot create a folder beside '%.300s': %s", f->target, strerror(errno));
    f->lock = gf_open(f->temp, O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
    FAIL_IF(err, f->lock < 0, GLOFND_E_IO, "'%.300s': %s", f->temp, strerror(errno));
    gf_flock(f->lock, LOCK_EX | LOCK_NB);
    return GLOFND_OK;
}

glofnd_status gf_output_folder_path(gf_error *err, const gf_output_folder *f, const char *name, char *path) {
    return gf_path_join(err, path, f->temp, name);
}

/* ----- the result appears ----- */

/* A file that is not there is fine. */
static glofnd_status sync_file(gf_error *err, const char *folder, const char *name) {
    char path[PATH_MAX];
    TRY(gf_path_join(err, path, folder, name));
    const int fd = gf_open(path, O_RDONLY | O_CLOEXEC, 0);
    if (fd < 0 && errno == ENOENT) return GLOFND_OK;
    const int failed = fd < 0 || gf_sync(fd) != 0, why = errno;
    if (fd >= 0) gf_close(fd);
    FAIL_IF(err, failed, GLOFND_E_IO, "'%.300s' cannot be synced: %s", path, strerror(why));
    return GLOFND_OK;
}

static glofnd_status sync_numbered(gf_error *err, const char *path) {
    int error = 0;
    DIR *d = gf_open_folder(path);
    glofnd_status status = GLOFND_OK;
    if (!d && errno == ENOENT) return GLOFND_OK;
    FAIL_IF(err, !d, GLOFND_E_IO, "'%.300s' cannot be read: %s", path, strerror(errno));
    for (const struct dirent *e; status == GLOFND_OK && (e = gf_next_entry(d, &error));)
        if (is_numbered(e->d_name)) status = sync_file(err, path, e->d_name);
    closedir(d);
    FAIL_IF(err, status == GLOFND_OK && error, GLOFND_E_IO, "'%.300s' cannot be read: %s", path, strerror(error));
    return status;
}

/* Bytes reach the disk before the name does. */
static glofnd_status sync_files(gf_error *err, const gf_output_folder *f) {
    char path[PATH_MAX];
    for (const char *const *own = f->kind->names; *own; own++) TRY(sync_file(err, f->temp, *own));
    if (f->kind->folder) {
        TRY(gf_path_join(err, path, f->temp, f->kind->folder));
        TRY(sync_numbered(err, path));
    }
    FAIL_IF(err, gf_sync(f->lock) != 0 && errno != EINVAL && errno != ENOTSUP, GLOFND_E_IO, "'%.300s' cannot be synced: %s",
            f->temp, strerror(errno));
    return GLOFND_OK;
}

/* Some file systems cannot exchange two names: then the old one moves away first, and the next call would bring it back if this
 * one were killed in between. */
static int exchange(gf_output_folder *f) {
    if (renameat2(AT_FDCWD, f->temp, AT_FDCWD, f->target, RENAME_EXCHANGE) == 0) return 0;
    if (errno != EINVAL && errno != ENOSYS) return -1;
    char *old = make_beside(f->target, OLD);
    int done = old ? rename(f->target, old) : -1;
    if (done == 0 && (done = rename(f->temp, f->target)) != 0) {
        const int why = errno;
        if (rename(old, f->target) != 0) done = -1;
        errno = why;
    }
    if (done == 0) {
        free(f->temp);
        f->temp = old;
        return 0;
    }
    const int why = errno;
    if (old) rmdir(old);
    free(old);
    errno = why;
    return -1;
}

glofnd_status gf_output_folder_commit(gf_error *err, gf_output_folder *f) {
    struct stat st;
    const int there = lstat(f->target, &st) == 0;
    FAIL_IF(err, !f->force && there, GLOFND_E_IO, "'%.300s' was created meanwhile and is not replaced", f->target);
    if (there) TRY(check_target(err, f->target, f->force, f->kind));
    TRY(sync_files(err, f));
    const int done = there ? exchange(f) : rename(f->temp, f->target);
    FAIL_IF(err, done != 0, GLOFND_E_IO, "'%.300s' cannot be renamed to its final name: %s", f->target, strerror(errno));
    glofnd_status status = GLOFND_OK;
    if (there) {
        keep_files(f->kind, f->temp, f->target);
        if (remove_result(f->kind, f->temp) != 0)
            status = gf_fail(err, GLOFND_E_IO, "'%.200s' is written; files of the folder it replaces are left in '%.200s': %s",
                             f->target, f->temp, strerror(errno));
    }
    free(f->temp);
    f->temp = NULL;
    return status;
}

void gf_output_folder_close(gf_output_folder *f) {
    if (f->temp) remove_result(f->kind, f->temp);
    if (f->target && f->lock >= 0) gf_close(f->lock);
    free(f->temp);
    free(f->target);
    *f = (gf_output_folder){.lock = -1};
}

/* folders.c - see folders.h. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "io/folders.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "io/calls.h"

/* Cuts a path to the folder it lies in; 0 if it names none. */
static int cut_to_parent(char *path) {
    size_t n = strlen(path);
    while (n > 0 && path[n - 1] == '/') n--;
    while (n > 0 && path[n - 1] != '/') n--;
    while (n > 0 && path[n - 1] == '/') n--;
    path[n] = 0;
    return n > 0;
}

/* 0, or -1 with errno. A file of that name is noticed when it is opened as a folder. Missing parents are made from the top down,
 * in a loop: a path may have two thousand. */
static int make(const char *path, int *made) {
    char upto[PATH_MAX];
    int done = mkdir(path, 0777);
    if (done != 0 && errno == ENOENT && *path) {
        snprintf(upto, sizeof upto, "%s", path);
        for (char *p = upto; *p; *made += done == 0) {
            p += strspn(p, "/");
            p += strcspn(p, "/");
            const char end = *p;
            *p = 0;
            done = mkdir(upto, 0777);
            if (done != 0 && errno != EEXIST) return -1;
            *p = end;
        }
        return 0;
    }
    *made += done == 0;
    return done == 0 || errno == EEXIST ? 0 : -1;
}

glofnd_status gf_folder_make(gf_error *err, const char *path, int *made) {
    int count = 0;
    FAIL_IF(err, strlen(path) >= PATH_MAX, GLOFND_E_ARGUMENT, "the path %.100s... is too long", path);
    const int done = make(path, &count);
    FAIL_IF(err, done != 0, GLOFND_E_IO, "%s cannot be made: %s", path, strerror(errno));
    if (made) *made = count;
    return GLOFND_OK;
}

void gf_folder_unmake(const char *path, int made) {
    char at[PATH_MAX];
    snprintf(at, sizeof at, "%s", path);
    for (; made > 0 && rmdir(at) == 0 && cut_to_parent(at);) made--;
}

void gf_folder_sync(const char *path) {
    const int fd = gf_open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
    if (fd < 0) return;
    gf_sync(fd);
    gf_close(fd);
}

/* ----- one process at a time ----- */

glofnd_status gf_folder_lock(gf_error *err, const char *path, int *fd) {
    int busy = 1;
    *fd = gf_open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
    FAIL_IF(err, *fd < 0, GLOFND_E_IO, "%s cannot be opened as a folder: %s", path, strerror(errno));
    for (int tries = 0; busy && tries < 10; tries++) { /* a process that only tests the lock holds it for a moment */
        if (tries > 0) nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
        busy = gf_flock(*fd, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK; /* else: no locks on that file system */
    }
    if (!busy) return GLOFND_OK;
    gf_close(*fd);
    *fd = -1;
    GF_FAIL(err, GLOFND_E_IO, "%s is in use by another process", path);
}

int gf_folder_in_use(const char *path) {
    const int fd = gf_open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
    const int busy = fd >= 0 && gf_flock(fd, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK;
    if (fd >= 0) gf_close(fd);
    return busy;
}

/* ----- where paths lead ----- */

static int is_one(const char *a, const char *b) {
    struct stat x, y;
    return strcmp(a, b) == 0 || (stat(a, &x) == 0 && stat(b, &y) == 0 && x.st_dev == y.st_dev && x.st_ino == y.st_ino);
}

/* The name a path ends in; what is before it to `folder`. */
static const char *split(const char *path, char folder[PATH_MAX]) {
    const char *slash = strrchr(path, '/');
    snprintf(folder, PATH_MAX, "%.*s", slash ? (int)(slash + 1 - path) : 1, slash ? path : ".");
    return slash ? slash + 1 : path;
}

int gf_path_same(const char *a, const char *b) {
    char in[PATH_MAX], other[PATH_MAX];
    if (is_one(a, b)) return 1;
    return strcmp(split(a, in), split(b, other)) == 0 && is_one(in, other);
}

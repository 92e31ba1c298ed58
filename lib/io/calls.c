/* calls.c - see calls.h. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "io/calls.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define AGAIN(result, call) \
    do {                    \
        (result) = (call);  \
    } while ((result) < 0 && errno == EINTR)

int gf_open(const char *path, int flags, mode_t mode) {
    int fd;
    AGAIN(fd, open(path, flags, mode));
    return fd;
}

int gf_sync(int fd) {
    int done;
    AGAIN(done, fsync(fd));
    return done;
}

int gf_truncate(int fd, off_t size) {
    int done;
    AGAIN(done, ftruncate(fd, size));
    return done;
}

int gf_flock(int fd, int how) {
    int done;
    AGAIN(done, flock(fd, how));
    return done;
}

int gf_close(int fd) {
    const int done = close(fd);
    return done < 0 && errno == EINTR ? 0 : done;
}

DIR *gf_open_folder(const char *path) {
    DIR *d;
    do {
        d = opendir(path);
    } while (!d && errno == EINTR);
    return d;
}

struct dirent *gf_next_entry(DIR *d, int *error) {
    errno = 0;
    struct dirent *e = readdir(d);
    *error = e ? 0 : errno;
    return e;
}

/* ----- streams ----- */

static int descriptor(void *cookie) { return (int)(intptr_t)cookie; }

static ssize_t stream_read(void *cookie, char *bytes, size_t n) {
    ssize_t got;
    AGAIN(got, read(descriptor(cookie), bytes, n));
    return got;
}

/* A cookie reports an error by 0. */
static ssize_t stream_write(void *cookie, const char *bytes, size_t n) {
    size_t done = 0;
    while (done < n) {
        ssize_t part;
        AGAIN(part, write(descriptor(cookie), bytes + done, n - done));
        if (part <= 0) return 0;
        done += (size_t)part;
    }
    return (ssize_t)done;
}

static int stream_seek(void *cookie, off64_t *at, int whence) {
    const off_t to = lseek(descriptor(cookie), (off_t)*at, whence);
    if (to < 0) return -1;
    *at = to;
    return 0;
}

static int stream_close(void *cookie) { return gf_close(descriptor(cookie)); }

FILE *gf_stream_of(int fd, const char *mode) {
    const cookie_io_functions_t calls = {stream_read, stream_write, stream_seek, stream_close};
    return fopencookie((void *)(intptr_t)fd, mode, calls);
}

FILE *gf_stream_open(const char *path, const char *mode) {
    int flags = *mode == 'r' ? O_RDONLY : O_WRONLY | O_CREAT | (*mode == 'a' ? O_APPEND : O_TRUNC);
    if (strchr(mode, 'x')) flags |= O_EXCL;
    const int fd = gf_open(path, flags | O_CLOEXEC, 0666);
    FILE *f = fd < 0 ? NULL : gf_stream_of(fd, *mode == 'r' ? "r" : "w");
    const int why = errno;
    if (fd >= 0 && !f) close(fd);
    errno = why;
    return f;
}

/* ----- names ----- */

glofnd_status gf_exists(gf_error *err, const char *path, int *yes) {
    struct stat st;
    int done;
    AGAIN(done, lstat(path, &st));
    *yes = done == 0;
    FAIL_IF(err, done != 0 && errno != ENOENT && errno != ENOTDIR, GLOFND_E_IO, "%.400s cannot be inspected: %s", path,
            strerror(errno));
    return GLOFND_OK;
}

/* file.c - see file.h. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "io/file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* ----- system calls ----- */

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

/* ----- reading ----- */

glofnd_status gf_file_open(gf_error *err, const char *path, int *fd, gf_file_stamp *stamp) {
    *fd = gf_open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY, 0);
    FAIL_IF(err, *fd < 0, GLOFND_E_IO, "'%.400s' cannot be read: %s", path, strerror(errno));
    struct stat st;
    if (fstat(*fd, &st) != 0 || !S_ISREG(st.st_mode)) {
        close(*fd);
        *fd = -1;
        GF_FAIL(err, GLOFND_E_IO, "'%.400s' is not a regular file", path);
    }
    if (stamp) {
        stamp->size = (uint64_t)st.st_size;
        stamp->mtime_ns = (uint64_t)st.st_mtim.tv_sec * 1000000000u + (uint64_t)st.st_mtim.tv_nsec;
    }
    return GLOFND_OK;
}

glofnd_status gf_file_read_at(gf_error *err, int fd, const char *name, uint64_t offset, void *out, size_t n) {
    uint8_t *p = out;
    while (n > 0) {
        const ssize_t got = pread(fd, p, n, (off_t)offset);
        if (got < 0 && errno == EINTR) continue;
        FAIL_IF(err, got < 0, GLOFND_E_IO, "'%.400s' cannot be read: %s", name, strerror(errno));
        FAIL_IF(err, got == 0, GLOFND_E_FORMAT, "'%.400s' is cut short: no byte at %llu", name, (unsigned long long)offset);
        p += got;
        n -= (size_t)got;
        offset += (uint64_t)got;
    }
    return GLOFND_OK;
}

glofnd_status gf_file_reserve(gf_error *err, const char *name, size_t n, uint8_t **bytes, size_t *capacity) {
    if (n <= *capacity && *bytes) return GLOFND_OK;
    free(*bytes);
    *capacity = 0;
    *bytes = malloc(n > 0 ? n : 1);
    FAIL_IF(err, !*bytes, GLOFND_E_MEMORY, "no memory for the %llu bytes of '%.400s'", (unsigned long long)n, name);
    *capacity = n > 0 ? n : 1;
    return GLOFND_OK;
}

static glofnd_status read_open_file(gf_error *err, int fd, const char *path, uint64_t max, uint64_t stated, uint8_t **bytes,
                                    size_t *capacity) {
    FAIL_IF(err, stated > max, GLOFND_E_FORMAT, "'%.400s' has %llu bytes; at most %llu are accepted", path,
            (unsigned long long)stated, (unsigned long long)max);
    TRY(gf_file_reserve(err, path, (size_t)stated + 1, bytes, capacity));
    TRY(gf_file_read_at(err, fd, path, 0, *bytes, (size_t)stated));
    (*bytes)[stated] = 0;
    return GLOFND_OK;
}

glofnd_status gf_file_read(gf_error *err, const char *path, uint64_t max, uint8_t **bytes, size_t *capacity, size_t *size) {
    int fd;
    gf_file_stamp stamp = {0};
    TRY(gf_file_open(err, path, &fd, &stamp));
    const glofnd_status status = read_open_file(err, fd, path, max, stamp.size, bytes, capacity);
    close(fd);
    *size = status == GLOFND_OK ? (size_t)stamp.size : 0;
    return status;
}

/* That check, of bytes that were read otherwise. */
static glofnd_status check_is_text(gf_error *err, const char *path, const void *bytes, size_t size) {
    const uint8_t *b = bytes, *zero = size ? memchr(b, 0, size) : NULL;
    const int utf16 = size >= 2 && ((b[0] == 0xff && b[1] == 0xfe) || (b[0] == 0xfe && b[1] == 0xff));
    FAIL_IF(err, utf16, GLOFND_E_FORMAT, "'%.400s' is UTF-16; save it as UTF-8", path);
    if (!zero) return GLOFND_OK;
    long long line = 1;
    for (const uint8_t *p = b; p < zero; p++) line += *p == '\n';
    GF_FAIL(err, GLOFND_E_FORMAT, "'%.400s', line %lld: a zero byte; it is not a text, or not UTF-8", path, line);
}

glofnd_status gf_file_read_text(gf_error *err, const char *path, uint64_t max, uint8_t **bytes, size_t *capacity, size_t *size) {
    TRY(gf_file_read(err, path, max, bytes, capacity, size));
    return check_is_text(err, path, *bytes, *size);
}

static glofnd_status check_line(gf_error *err, const char *path, const FILE *f, const char *line, size_t n, int number) {
    if (number == 1) TRY(check_is_text(err, path, line, n));
    FAIL_IF(err, memchr(line, 0, n), GLOFND_E_FORMAT, "%s:%d: a zero byte; it is not a text, or not UTF-8", path, number);
    FAIL_IF(err, line[n - 1] != '\n' && !feof((FILE *)f), GLOFND_E_FORMAT, "%s:%d: the line is too long", path, number);
    return GLOFND_OK;
}

glofnd_status gf_each_line(gf_error *err, const char *path,
                           glofnd_status (*take)(gf_error *err, void *user, char *line, int number), void *user) {
    FILE *f = gf_stream_open(path, "r");
    char line[GF_LINE_MAX + 2];
    glofnd_status status = GLOFND_OK;
    FAIL_IF(err, !f, GLOFND_E_IO, "%s cannot be read: %s", path, strerror(errno));
    for (int number = 1; status == GLOFND_OK; number++) {
        /* A line with its end, as far as it fits, closed by 0; its bytes, zero ones included. */
        size_t n = 0;
        for (int c; n + 1 < sizeof line && (c = getc(f)) != EOF;) {
            line[n++] = (char)c;
            if (c == '\n') break;
        }
        line[n] = 0;
        if (n == 0 || ferror(f)) break;
        const int mark = number == 1 && strncmp(line, "\xef\xbb\xbf", 3) == 0 ? 3 : 0;
        status = check_line(err, path, f, line, n, number);
        if (status == GLOFND_OK) status = take(err, user, line + mark, number);
    }
    if (status == GLOFND_OK && ferror(f)) status = gf_fail(err, GLOFND_E_IO, "%s cannot be read: %s", path, strerror(errno));
    fclose(f);
    return status;
}

int gf_is_folder(const char *path) {
    struct stat st;
    return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

/* ----- folders ----- */

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
static int make_folders(const char *path, int *made) {
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
    const int done = make_folders(path, &count);
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

/* how: of flock */
static glofnd_status lock_folder(gf_error *err, const char *path, int how, int *fd) {
    int busy = 1;
    *fd = gf_open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
    FAIL_IF(err, *fd < 0, GLOFND_E_IO, "%s cannot be opened as a folder: %s", path, strerror(errno));
    for (int tries = 0; busy && tries < 10; tries++) { /* a process that only tests the lock holds it for a moment */
        if (tries > 0) nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
        busy = gf_flock(*fd, how | LOCK_NB) != 0 && errno == EWOULDBLOCK; /* else: no locks on that file system */
    }
    if (!busy) return GLOFND_OK;
    gf_close(*fd);
    *fd = -1;
    GF_FAIL(err, GLOFND_E_IO, "%s is in use by another process", path);
}

glofnd_status gf_folder_lock(gf_error *err, const char *path, int *fd) { return lock_folder(err, path, LOCK_EX, fd); }

glofnd_status gf_folder_share(gf_error *err, const char *path, int *fd) { return lock_folder(err, path, LOCK_SH, fd); }

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
static const char *split_path(const char *path, char folder[PATH_MAX]) {
    const char *slash = strrchr(path, '/');
    snprintf(folder, PATH_MAX, "%.*s", slash ? (int)(slash + 1 - path) : 1, slash ? path : ".");
    return slash ? slash + 1 : path;
}

int gf_path_same(const char *a, const char *b) {
    char in[PATH_MAX], other[PATH_MAX];
    if (is_one(a, b)) return 1;
    return strcmp(split_path(a, in), split_path(b, other)) == 0 && is_one(in, other);
}

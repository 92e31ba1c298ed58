/* file.c - see file.h. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "io/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "io/calls.h"

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

glofnd_status gf_check_text(gf_error *err, const char *path, const void *bytes, size_t size) {
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
    return gf_check_text(err, path, *bytes, *size);
}

/* A line with its end, as far as it fits, closed by 0; its bytes, zero ones included. */
static size_t get_line(FILE *f, char *line, size_t bytes) {
    size_t n = 0;
    for (int c; n + 1 < bytes && (c = getc(f)) != EOF;) {
        line[n++] = (char)c;
        if (c == '\n') break;
    }
    line[n] = 0;
    return n;
}

static glofnd_status check_line(gf_error *err, const char *path, const FILE *f, const char *line, size_t n, int number) {
    if (number == 1) TRY(gf_check_text(err, path, line, n));
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
        const size_t n = get_line(f, line, sizeof line);
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

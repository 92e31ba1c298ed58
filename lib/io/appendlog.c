/* appendlog.c - see appendlog.h. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "io/appendlog.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "io/blockfile.h"
#include "io/file.h"
#include "util/array.h"

#define FLUSH_BYTES ((size_t)1 << 16)

static glofnd_status log_fail(gf_log *f, const char *what) {
    if (f->status == GLOFND_OK)
        f->status = gf_fail(f->err, GLOFND_E_IO, "'%.300s' cannot be %s: %s", f->path, what, strerror(errno));
    return f->status;
}

static void release_log(gf_log *f) {
    if (f->fd >= 0) close(f->fd);
    free(f->path);
    free(f->buffer);
    f->fd = -1;
    f->path = NULL;
    f->buffer = NULL;
}

static glofnd_status open_log(gf_error *err, gf_log *f, const char *path, int flags) {
    *f = (gf_log){.err = err, .fd = -1};
    f->fd = gf_open(path, O_RDWR | O_CLOEXEC | O_NONBLOCK | flags, 0666); /* nonblocking: no pipe may hang */
    FAIL_IF(err, f->fd < 0, GLOFND_E_IO, "'%.300s' cannot be opened for writing: %s", path, strerror(errno));
    struct stat st;
    if (fstat(f->fd, &st) != 0 || !S_ISREG(st.st_mode)) {
        release_log(f);
        GF_FAIL(err, GLOFND_E_IO, "'%.300s' is not a regular file", path);
    }
    f->written = (uint64_t)st.st_size;
    f->capacity = 2 * FLUSH_BYTES;
    f->buffer = malloc(f->capacity);
    f->path = strdup(path);
    if (!f->buffer || !f->path) {
        release_log(f);
        GF_FAIL(err, GLOFND_E_MEMORY, "no memory to write '%.300s'", path);
    }
    return GLOFND_OK;
}

glofnd_status gf_log_open(gf_error *err, gf_log *f, const char *path, int create) {
    return open_log(err, f, path, create ? O_CREAT : 0);
}

glofnd_status gf_log_open_shared(gf_error *err, gf_log *f, const char *path) {
    TRY(open_log(err, f, path, O_CREAT | O_APPEND));
    f->shared = 1;
    return GLOFND_OK;
}

uint64_t gf_log_size(const gf_log *f) { return f->written; }

glofnd_status gf_log_read(gf_log *f, uint64_t at, void *to, size_t n) {
    unsigned char *p = to;
    TRY(f->status);
    while (n > 0) {
        const ssize_t got = pread(f->fd, p, n, (off_t)at);
        if (got < 0 && errno == EINTR) continue;
        if (got == 0) errno = ENODATA;
        if (got <= 0) return log_fail(f, "read");
        p += got;
        at += (uint64_t)got;
        n -= (size_t)got;
    }
    return GLOFND_OK;
}

glofnd_status gf_log_cut(gf_log *f, uint64_t size) {
    TRY(f->status);
    if (size > f->written) {
        f->status = gf_fail(f->err, GLOFND_E_FORMAT, "'%.300s' has %llu bytes; %llu were to be kept", f->path,
                            (unsigned long long)f->written, (unsigned long long)size);
        return f->status;
    }
    if (size < f->written && gf_truncate(f->fd, (off_t)size) != 0) return log_fail(f, "cut");
    f->written = size;
    return GLOFND_OK;
}

/* ----- what must not be lost ----- */

/* Bytes `at` to `end` of f to w. */
static glofnd_status copy_bytes(gf_log *f, uint64_t at, uint64_t end, gf_writer *w) {
    unsigned char part[1 << 14];
    while (at < end && w->status == GLOFND_OK) {
        const size_t n = end - at < sizeof part ? (size_t)(end - at) : sizeof part;
        TRY(gf_log_read(f, at, part, n));
        gf_put(w, part, n);
        at += n;
    }
    return w->status;
}

/* To `path`, which appears only when complete. */
static glofnd_status copy_to(gf_error *err, gf_log *f, uint64_t at, uint64_t end, const char *path) {
    gf_writer w;
    TRY(gf_writer_open(err, &w, path));
    glofnd_status status = copy_bytes(f, at, end, &w);
    if (status == GLOFND_OK) status = gf_writer_commit(&w);
    gf_writer_close(&w);
    return status;
}

static glofnd_status side_path(gf_error *err, const char *path, char side[PATH_MAX]) {
    const int n = snprintf(side, PATH_MAX, "%s" GF_LOG_CUT, path);
    FAIL_IF(err, n < 0 || n >= PATH_MAX, GLOFND_E_ARGUMENT, "the path %.100s... is too long", path);
    return GLOFND_OK;
}

static glofnd_status save_tail(gf_error *err, gf_log *f, uint64_t keep) {
    char side[PATH_MAX];
    struct stat st;
    if (f->written <= keep) return GLOFND_OK;
    TRY(side_path(err, f->path, side));
    if (stat(side, &st) == 0 && (uint64_t)st.st_size >= f->written - keep) return GLOFND_OK;
    return copy_to(err, f, keep, f->written, side);
}

glofnd_status gf_log_save_tail(gf_error *err, const char *path, uint64_t keep) {
    gf_log f;
    int there;
    TRY(gf_exists(err, path, &there));
    if (!there) return GLOFND_OK;
    TRY(gf_log_open(err, &f, path, 0));
    const glofnd_status status = save_tail(err, &f, keep);
    gf_log_close(&f);
    return status;
}

void gf_log_forget_tail(const char *path) {
    char side[PATH_MAX];
    if (side_path(NULL, path, side) == GLOFND_OK) unlink(side);
}

glofnd_status gf_log_restore(gf_log *f, int *restored) {
    struct stat own, named;
    *restored = 0;
    TRY(gf_log_flush(f));
    if (fstat(f->fd, &own) != 0) return log_fail(f, "inspected");
    const int found = stat(f->path, &named) == 0;
    if (!found && errno != ENOENT) return log_fail(f, "inspected");
    if (found && own.st_dev == named.st_dev && own.st_ino == named.st_ino) return GLOFND_OK;
    f->status = copy_to(f->err, f, 0, f->written, f->path);
    TRY(f->status);
    const int fd = gf_open(f->path, O_RDWR | O_CLOEXEC | O_NONBLOCK, 0);
    if (fd < 0) return log_fail(f, "opened");
    gf_close(f->fd);
    f->fd = fd;
    *restored = 1;
    return GLOFND_OK;
}

/* ----- records ----- */

void gf_log_put(gf_log *f, const void *data, size_t n) {
    if (f->status != GLOFND_OK || n == 0) return;
    if (!gf_grow(&f->buffer, &f->capacity, f->used + n, 1)) {
        f->status = gf_fail(f->err, GLOFND_E_MEMORY, "no memory for a record of '%.300s'", f->path);
        return;
    }
    memcpy(f->buffer + f->used, data, n);
    f->used += n;
}

glofnd_status gf_log_end(gf_log *f) {
    TRY(f->status);
    f->ended = f->used;
    return f->ended >= FLUSH_BYTES ? gf_log_flush(f) : GLOFND_OK;
}

void gf_log_drop(gf_log *f) { f->used = f->ended; }

/* f->written becomes the end of the last whole line; a line of a killed process behind it goes. */
static glofnd_status find_end(gf_log *f) {
    struct stat st;
    char last = '\n';
    if (fstat(f->fd, &st) != 0) return log_fail(f, "inspected");
    f->written = (uint64_t)st.st_size;
    while (f->written > 0) {
        TRY(gf_log_read(f, f->written - 1, &last, 1));
        if (last == '\n') break;
        f->written--;
    }
    if (f->written < (uint64_t)st.st_size && gf_truncate(f->fd, (off_t)f->written) != 0) return log_fail(f, "cut");
    return GLOFND_OK;
}

static glofnd_status write_records(gf_log *f) {
    size_t done = 0;
    while (done < f->ended) {
        const ssize_t n = pwrite(f->fd, f->buffer + done, f->ended - done, (off_t)(f->written + done));
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) {
            log_fail(f, "written");
            if (gf_truncate(f->fd, (off_t)f->written) != 0) errno = 0; /* half a record is no record; nothing more can be done */
            return f->status;
        }
        done += (size_t)n;
    }
    f->written += f->ended;
    memmove(f->buffer, f->buffer + f->ended, f->used - f->ended);
    f->used -= f->ended;
    f->ended = 0;
    return GLOFND_OK;
}

glofnd_status gf_log_flush(gf_log *f) {
    TRY(f->status);
    if (f->ended == 0) return GLOFND_OK;
    if (!f->shared) return write_records(f);
    const int locked = gf_flock(f->fd, LOCK_EX) == 0; /* else: no locks on that file system; O_APPEND keeps lines apart */
    glofnd_status status = find_end(f);
    if (status == GLOFND_OK) status = write_records(f);
    if (locked) gf_flock(f->fd, LOCK_UN);
    return status;
}

glofnd_status gf_log_sync(gf_log *f) {
    TRY(gf_log_flush(f));
    return gf_sync(f->fd) == 0 ? GLOFND_OK : log_fail(f, "synced");
}

uint64_t gf_log_offset(const gf_log *f) { return f->written + f->ended; }

glofnd_status gf_log_close(gf_log *f) {
    if (!f || !f->path) return GLOFND_OK;
    gf_log_flush(f);
    if (gf_close(f->fd) != 0) log_fail(f, "closed");
    f->fd = -1;
    release_log(f);
    return f->status;
}

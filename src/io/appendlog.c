/* appendlog.c - see appendlog.h. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "io/appendlog.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "util/grow.h"

#define FLUSH_BYTES ((size_t)1 << 16)

static glofnd_status log_fail(gf_log *f, const char *what) {
    if (f->status == GLOFND_OK)
        f->status = gf_fail(f->err, GLOFND_E_IO, "'%.300s' cannot be %s: %s", f->path, what, strerror(errno));
    return f->status;
}

static void release(gf_log *f) {
    if (f->fd >= 0) close(f->fd);
    free(f->path);
    free(f->buffer);
    f->fd = -1;
    f->path = NULL;
    f->buffer = NULL;
}

glofnd_status gf_log_open(gf_error *err, gf_log *f, const char *path, int create) {
    *f = (gf_log){.err = err, .fd = -1};
    f->fd = open(path, O_RDWR | O_CLOEXEC | O_NONBLOCK | (create ? O_CREAT : 0), 0666); /* nonblocking: no pipe may hang */
    FAIL_IF(err, f->fd < 0, GLOFND_E_IO, "'%.300s' cannot be opened for writing: %s", path, strerror(errno));
    struct stat st;
    if (fstat(f->fd, &st) != 0 || !S_ISREG(st.st_mode)) {
        release(f);
        GF_FAIL(err, GLOFND_E_IO, "'%.300s' is not a regular file", path);
    }
    f->written = (uint64_t)st.st_size;
    f->capacity = 2 * FLUSH_BYTES;
    f->buffer = malloc(f->capacity);
    f->path = strdup(path);
    if (!f->buffer || !f->path) {
        release(f);
        GF_FAIL(err, GLOFND_E_MEMORY, "no memory to write '%.300s'", path);
    }
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
    if (size < f->written && ftruncate(f->fd, (off_t)size) != 0) return log_fail(f, "cut");
    f->written = size;
    return GLOFND_OK;
}

/* Space for n more bytes. */
static int reserve(gf_log *f, size_t n) {
    if (gf_grow(&f->buffer, &f->capacity, f->used + n, 1)) return 1;
    f->status = gf_fail(f->err, GLOFND_E_MEMORY, "no memory for a record of '%.300s'", f->path);
    return 0;
}

void gf_log_put(gf_log *f, const void *data, size_t n) {
    if (f->status != GLOFND_OK || n == 0 || !reserve(f, n)) return;
    memcpy(f->buffer + f->used, data, n);
    f->used += n;
}

glofnd_status gf_log_end(gf_log *f) {
    TRY(f->status);
    f->ended = f->used;
    return f->ended >= FLUSH_BYTES ? gf_log_flush(f) : GLOFND_OK;
}

void gf_log_drop(gf_log *f) { f->used = f->ended; }

glofnd_status gf_log_flush(gf_log *f) {
    size_t done = 0;
    TRY(f->status);
    while (done < f->ended) {
        const ssize_t n = pwrite(f->fd, f->buffer + done, f->ended - done, (off_t)(f->written + done));
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) {
            log_fail(f, "written");
            if (ftruncate(f->fd, (off_t)f->written) != 0) errno = 0; /* half a record is no record; nothing more can be done */
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

glofnd_status gf_log_sync(gf_log *f) {
    TRY(gf_log_flush(f));
    return fsync(f->fd) == 0 ? GLOFND_OK : log_fail(f, "synced");
}

uint64_t gf_log_offset(const gf_log *f) { return f->written + f->ended; }

glofnd_status gf_log_close(gf_log *f) {
    if (!f || !f->path) return GLOFND_OK;
    gf_log_flush(f);
    if (close(f->fd) != 0) log_fail(f, "closed");
    f->fd = -1;
    release(f);
    return f->status;
}

/* blockfile.c - see blockfile.h. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "io/blockfile.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "io/file.h"

#define BUFFER_BYTES ((size_t)1 << 16)

/* ----- little endian ----- */

void gf_le32_put(unsigned char *p, uint32_t x) {
    for (int i = 0; i < 4; i++) p[i] = (unsigned char)(x >> 8 * i);
}

void gf_le64_put(unsigned char *p, uint64_t x) {
    for (int i = 0; i < 8; i++) p[i] = (unsigned char)(x >> 8 * i);
}

uint32_t gf_le32(const unsigned char *p) {
    uint32_t x = 0;
    for (int i = 0; i < 4; i++) x |= (uint32_t)p[i] << 8 * i;
    return x;
}

uint64_t gf_le64(const unsigned char *p) { return gf_le32(p) | (uint64_t)gf_le32(p + 4) << 32; }

static int host_is_little(void) {
    const uint16_t one = 1;
    unsigned char first;
    memcpy(&first, &one, 1);
    return first;
}

/* Between host order and little endian, in place: its own inverse, and nothing to do on most hosts. */
static void swap_words(unsigned char *p, size_t count, size_t width) {
    if (host_is_little()) return;
    for (; count > 0; count--, p += width) {
        for (size_t i = 0; i < width / 2; i++) {
            const unsigned char keep = p[i];
            p[i] = p[width - 1 - i];
            p[width - 1 - i] = keep;
        }
    }
}

/* ----- CRC-32C, eight bytes at a time -----
 *
 * table[k][b] is the CRC of byte b followed by k zero bytes; eight lookups xored together then advance the CRC by eight bytes.
 * CRCs are linear over xor, so a table of 256 follows from its eight single-bit entries: those are written down below and the
 * preprocessor makes the rest, which keeps the tables constant (no initialisation, no state shared between threads). */

#define BIT(b, i, x) ((b) >> (i)&1 ? (x) : 0u)
#define ENTRY(b, x0, x1, x2, x3, x4, x5, x6, x7) \
    BIT(b, 0, x0) ^ BIT(b, 1, x1) ^ BIT(b, 2, x2) ^ BIT(b, 3, x3) ^ BIT(b, 4, x4) ^ BIT(b, 5, x5) ^ BIT(b, 6, x6) ^ BIT(b, 7, x7)
#define FOUR(b, ...) ENTRY(b, __VA_ARGS__), ENTRY(b + 1, __VA_ARGS__), ENTRY(b + 2, __VA_ARGS__), ENTRY(b + 3, __VA_ARGS__)
#define SIXTEEN(b, ...) FOUR(b, __VA_ARGS__), FOUR(b + 4, __VA_ARGS__), FOUR(b + 8, __VA_ARGS__), FOUR(b + 12, __VA_ARGS__)
#define SIXTYFOUR(b, ...) \
    SIXTEEN(b, __VA_ARGS__), SIXTEEN(b + 16, __VA_ARGS__), SIXTEEN(b + 32, __VA_ARGS__), SIXTEEN(b + 48, __VA_ARGS__)
#define TABLE(...) \
    { SIXTYFOUR(0, __VA_ARGS__), SIXTYFOUR(64, __VA_ARGS__), SIXTYFOUR(128, __VA_ARGS__), SIXTYFOUR(192, __VA_ARGS__) }

static const uint32_t table[8][256] = {
    TABLE(0xf26b8303, 0xe13b70f7, 0xc79a971f, 0x8ad958cf, 0x105ec76f, 0x20bd8ede, 0x417b1dbc, 0x82f63b78),
    TABLE(0x13a29877, 0x274530ee, 0x4e8a61dc, 0x9d14c3b8, 0x3fc5f181, 0x7f8be302, 0xff17c604, 0xfbc3faf9),
    TABLE(0xa541927e, 0x4f6f520d, 0x9edea41a, 0x38513ec5, 0x70a27d8a, 0xe144fb14, 0xc76580d9, 0x8b277743),
    TABLE(0xdd45aab8, 0xbf672381, 0x7b2231f3, 0xf64463e6, 0xe964b13d, 0xd725148b, 0xaba65fe7, 0x52a0c93f),
    TABLE(0x38116fac, 0x7022df58, 0xe045beb0, 0xc5670b91, 0x8f2261d3, 0x1ba8b557, 0x37516aae, 0x6ea2d55c),
    TABLE(0xef306b19, 0xdb8ca0c3, 0xb2f53777, 0x6006181f, 0xc00c303e, 0x85f4168d, 0x0e045beb, 0x1c08b7d6),
    TABLE(0x68032cc8, 0xd0065990, 0xa5e0c5d1, 0x4e2dfd53, 0x9c5bfaa6, 0x3d5b83bd, 0x7ab7077a, 0xf56e0ef4),
    TABLE(0x493c7d27, 0x9278fa4e, 0x211d826d, 0x423b04da, 0x847609b4, 0x0d006599, 0x1a00cb32, 0x34019664),
};

uint32_t gf_crc32c(uint32_t crc, const void *data, size_t n) {
    const unsigned char *p = data;
    crc = ~crc;
    for (; n >= 8; n -= 8, p += 8) {
        const uint32_t lo = crc ^ gf_le32(p), hi = gf_le32(p + 4);
        crc = table[7][lo & 255] ^ table[6][lo >> 8 & 255] ^ table[5][lo >> 16 & 255] ^ table[4][lo >> 24] ^ table[3][hi & 255] ^
              table[2][hi >> 8 & 255] ^ table[1][hi >> 16 & 255] ^ table[0][hi >> 24];
    }
    for (; n > 0; n--, p++) crc = crc >> 8 ^ table[0][(crc ^ *p) & 255];
    return ~crc;
}

/* ----- a checksum of 64 bits ----- */

static uint64_t word_of(const unsigned char *p, size_t n) {
    uint64_t word = 0;
    for (size_t i = 0; i < n; i++) word |= (uint64_t)p[i] << 8 * i;
    return word;
}

/* A bijection of h, so that different values stay different; and not linear, so that no field of a file can cancel the bytes
 * before it, as a CRC does. */
static uint64_t stir(uint64_t h, uint64_t word) {
    h = (h ^ word) * 0x9e3779b97f4a7c15u;
    return h ^ h >> 32;
}

uint64_t gf_checksum(uint64_t h, const void *bytes, size_t n) {
    const unsigned char *p = bytes;
    for (; n >= 8; n -= 8, p += 8) h = stir(h, word_of(p, 8));
    return n > 0 ? stir(h, word_of(p, n)) : h;
}

/* ----- writer ----- */

int gf_open_temp(const char *path, int flags, char **name) {
    const size_t bytes = strlen(path) + 64;
    *name = malloc(bytes);
    if (!*name) {
        errno = ENOMEM;
        return -1;
    }
    int fd = -1;
    for (int k = 0; k < 1000; k++) {
        snprintf(*name, bytes, "%s" GF_TEMP_MARK "%ld-%d", path, (long)getpid(), k);
        fd = gf_open(*name, flags | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (fd >= 0 || errno != EEXIST) break;
    }
    if (fd < 0) {
        const int why = errno;
        free(*name);
        *name = NULL;
        errno = why;
    }
    return fd;
}

/* The directory that holds the file, to sync the rename; -1 if that cannot be had. `name` is cut at its slash meanwhile. */
static int open_directory(char *name) {
    const int flags = O_RDONLY | O_DIRECTORY | O_CLOEXEC;
    char *slash = strrchr(name, '/');
    if (!slash) return gf_open(".", flags, 0);
    if (slash == name) return gf_open("/", flags, 0);
    *slash = 0;
    const int fd = gf_open(name, flags, 0);
    *slash = '/';
    return fd;
}

glofnd_status gf_writer_open(gf_error *err, gf_writer *w, const char *path) {
    *w = (gf_writer){.err = err, .fd = -1, .dir_fd = -1, .path = path};
    struct stat st;
    const int exists = stat(path, &st) == 0;
    FAIL_IF(err, exists && !S_ISREG(st.st_mode), GLOFND_E_IO, "'%.300s' is not a regular file; it is not replaced", path);
    w->buffer = malloc(BUFFER_BYTES);
    FAIL_IF(err, !w->buffer, GLOFND_E_MEMORY, "no memory to write '%.300s'", path);
    w->fd = gf_open_temp(path, O_WRONLY, &w->temp);
    if (w->fd < 0) {
        const int why = errno;
        gf_writer_close(w);
        GF_FAIL(err, why == ENOMEM ? GLOFND_E_MEMORY : GLOFND_E_IO, "'%.300s' cannot be written: %s", path, strerror(why));
    }
    gf_flock(w->fd, LOCK_EX | LOCK_NB); /* for gf_writer_clean; a file system without locks has none */
    w->dir_fd = open_directory(w->temp);
    return GLOFND_OK;
}

static void writer_fail(gf_writer *w, const char *what) {
    if (w->status == GLOFND_OK) {
        w->status =
            gf_fail(w->err, GLOFND_E_IO, "'%.300s' cannot be %s: %s; it is left as it was", w->path, what, strerror(errno));
    }
}

static void write_all(gf_writer *w, const unsigned char *p, size_t n) {
    while (n > 0 && w->status == GLOFND_OK) {
        const ssize_t done = write(w->fd, p, n);
        if (done < 0 && errno == EINTR) continue;
        if (done < 0) {
            writer_fail(w, "written");
            return;
        }
        p += done;
        n -= (size_t)done;
    }
}

static void flush_buffer(gf_writer *w) {
    write_all(w, w->buffer, w->used);
    w->used = 0;
}

void gf_put(gf_writer *w, const void *data, size_t n) {
    if (w->status != GLOFND_OK || n == 0) return;
    w->crc = gf_crc32c(w->crc, data, n);
    w->bytes += n;
    if (n > BUFFER_BYTES - w->used) flush_buffer(w);
    if (n >= BUFFER_BYTES) {
        write_all(w, data, n);
        return;
    }
    memcpy(w->buffer + w->used, data, n);
    w->used += n;
}

void gf_put_u16(gf_writer *w, uint16_t x) {
    const unsigned char p[2] = {(unsigned char)x, (unsigned char)(x >> 8)};
    gf_put(w, p, sizeof p);
}

void gf_put_u32(gf_writer *w, uint32_t x) {
    unsigned char p[4];
    gf_le32_put(p, x);
    gf_put(w, p, sizeof p);
}

void gf_put_u64(gf_writer *w, uint64_t x) {
    unsigned char p[8];
    gf_le64_put(p, x);
    gf_put(w, p, sizeof p);
}

static void put_words(gf_writer *w, const void *words, size_t count, size_t width) {
    if (host_is_little()) {
        gf_put(w, words, count * width);
        return;
    }
    const unsigned char *p = words;
    for (; count > 0; count--, p += width) {
        unsigned char word[8];
        memcpy(word, p, width);
        swap_words(word, 1, width);
        gf_put(w, word, width);
    }
}

void gf_put_words4(gf_writer *w, const void *words, size_t count) { put_words(w, words, count, 4); }
void gf_put_words8(gf_writer *w, const void *words, size_t count) { put_words(w, words, count, 8); }

void gf_put_crc(gf_writer *w) {
    unsigned char p[4];
    gf_le32_put(p, w->crc);
    w->chain = gf_crc32c(w->chain, p, sizeof p);
    gf_put(w, p, sizeof p);
    w->crc = 0;
}

glofnd_status gf_writer_commit(gf_writer *w) {
    flush_buffer(w);
    if (w->status == GLOFND_OK && gf_sync(w->fd) != 0) writer_fail(w, "synced");
    if (w->fd >= 0 && gf_close(w->fd) != 0) writer_fail(w, "closed");
    w->fd = -1;
    if (w->status == GLOFND_OK && rename(w->temp, w->path) != 0) writer_fail(w, "replaced");
    if (w->status != GLOFND_OK) return w->status;
    free(w->temp);
    w->temp = NULL;
    if (w->dir_fd >= 0 && gf_sync(w->dir_fd) != 0 && errno != EINVAL && errno != ENOTSUP) {
        w->status = gf_fail(w->err, GLOFND_E_IO, "'%.300s' is complete, but its directory cannot be synced: %s", w->path,
                            strerror(errno));
    }
    return w->status;
}

void gf_writer_close(gf_writer *w) {
    if (w->fd >= 0) close(w->fd);
    if (w->dir_fd >= 0) close(w->dir_fd);
    if (w->temp) unlink(w->temp);
    free(w->temp);
    free(w->buffer);
    w->temp = NULL;
    w->buffer = NULL;
    w->fd = w->dir_fd = -1;
}

glofnd_status gf_writer_finish(gf_writer *w) {
    const glofnd_status status = gf_writer_commit(w);
    gf_writer_close(w);
    return status;
}

glofnd_status gf_writer_check(gf_error *err, const char *path) {
    gf_writer w;
    const glofnd_status status = gf_writer_open(err, &w, path);
    gf_writer_close(&w);
    return status;
}

/* PID of "PID-K"; 0: it is no such text. */
static long process_of(const char *text) {
    char *end;
    if (*text < '1' || *text > '9') return 0;
    errno = 0;
    const long pid = strtol(text, &end, 10);
    if (errno || pid > INT_MAX || *end != '-' || end[1] < '0' || end[1] > '9') return 0;
    return end[1 + strspn(end + 1, "0123456789")] == 0 ? pid : 0;
}

void gf_writer_clean(const char *path) {
    char *copy = strdup(path);
    const int folder = copy ? open_directory(copy) : -1;
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    const size_t n = strlen(name), mark = strlen(GF_TEMP_MARK);
    const int again = folder < 0 ? -1 : dup(folder);
    DIR *d = again < 0 ? NULL : fdopendir(again);
    int error = 0;
    if (!d && again >= 0) close(again);
    for (struct dirent *e; d && (e = gf_next_entry(d, &error));) {
        if (strncmp(e->d_name, name, n) != 0 || strncmp(e->d_name + n, GF_TEMP_MARK, mark) != 0) continue;
        const long pid = process_of(e->d_name + n + mark);
        if (pid) {
            const char *abandoned_name = e->d_name;
            if (kill((pid_t)pid, 0) != 0 && errno == ESRCH) {
                const int fd = openat(folder, abandoned_name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
                struct stat st;
                if (fd >= 0 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && gf_flock(fd, LOCK_EX | LOCK_NB) == 0)
                    unlinkat(folder, abandoned_name, 0);
                if (fd >= 0) close(fd);
            }
        }
    }
    if (d) closedir(d);
    if (folder >= 0) close(folder);
    free(copy);
}

glofnd_status gf_file_write(gf_error *err, const char *path, const void *bytes, size_t n) {
    gf_writer w;
    TRY(gf_writer_open(err, &w, path));
    gf_put(&w, bytes, n);
    return gf_writer_finish(&w);
}

/* ----- reader ----- */

glofnd_status gf_reader_open(gf_error *err, gf_reader *r, const char *path) {
    *r = (gf_reader){.err = err, .fd = -1, .path = path};
    r->fd = gf_open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK, 0); /* nonblocking: a pipe without writer must not hang */
    FAIL_IF(err, r->fd < 0, GLOFND_E_IO, "'%.300s' cannot be opened: %s", path, strerror(errno));
    struct stat st;
    if (fstat(r->fd, &st) != 0 || !S_ISREG(st.st_mode)) {
        gf_reader_close(r);
        GF_FAIL(err, GLOFND_E_IO, "'%.300s' is not a regular file", path);
    }
    r->size = (uint64_t)st.st_size;
    r->buffer = malloc(BUFFER_BYTES);
    if (!r->buffer) {
        gf_reader_close(r);
        GF_FAIL(err, GLOFND_E_MEMORY, "no memory to read '%.300s'", path);
    }
    return GLOFND_OK;
}

uint64_t gf_reader_left(const gf_reader *r) { return r->size - r->offset; }

/* Up to n bytes from the file; 0 after a failure has been noted. */
static size_t read_some(gf_reader *r, unsigned char *p, size_t n) {
    ssize_t got;
    do {
        got = read(r->fd, p, n);
    } while (got < 0 && errno == EINTR);
    if (got < 0) r->status = gf_fail(r->err, GLOFND_E_IO, "'%.300s' cannot be read: %s", r->path, strerror(errno));
    if (got == 0) r->status = gf_fail(r->err, GLOFND_E_FORMAT, "'%.300s' was cut while it was read", r->path);
    return got > 0 ? (size_t)got : 0;
}

void gf_get(gf_reader *r, void *data, size_t n) {
    if (n == 0) return;
    if (r->status == GLOFND_OK && n > gf_reader_left(r)) {
        r->status = gf_fail(r->err, GLOFND_E_FORMAT, "'%.300s' is cut: %llu bytes, and more are needed at byte %llu", r->path,
                            (unsigned long long)r->size, (unsigned long long)r->offset);
    }
    if (r->status == GLOFND_OK) {
        /* Large requests go straight to the caller's memory, small ones through the buffer. */
        unsigned char *p = data;
        size_t read_count = n;
        while (read_count > 0 && r->status == GLOFND_OK) {
            size_t step;
            if (r->at == r->fill && read_count >= BUFFER_BYTES) {
                step = read_some(r, p, read_count);
            } else {
                if (r->at == r->fill) {
                    r->fill = read_some(r, r->buffer, BUFFER_BYTES);
                    r->at = 0;
                }
                step = r->fill - r->at < read_count ? r->fill - r->at : read_count;
                memcpy(p, r->buffer + r->at, step);
                r->at += step;
            }
            p += step;
            read_count -= step;
        }
    }
    if (r->status != GLOFND_OK) {
        memset(data, 0, n);
        return;
    }
    r->offset += n;
    r->crc = gf_crc32c(r->crc, data, n);
}

uint16_t gf_get_u16(gf_reader *r) {
    unsigned char p[2];
    gf_get(r, p, sizeof p);
    return (uint16_t)(p[0] | p[1] << 8);
}

uint32_t gf_get_u32(gf_reader *r) {
    unsigned char p[4];
    gf_get(r, p, sizeof p);
    return gf_le32(p);
}

uint64_t gf_get_u64(gf_reader *r) {
    unsigned char p[8];
    gf_get(r, p, sizeof p);
    return gf_le64(p);
}

void gf_get_words4(gf_reader *r, void *words, size_t count) {
    gf_get(r, words, count * 4);
    swap_words(words, count, 4);
}

void gf_get_words8(gf_reader *r, void *words, size_t count) {
    gf_get(r, words, count * 8);
    swap_words(words, count, 8);
}

glofnd_status gf_check_crc(gf_reader *r, const char *what, int64_t index) {
    const uint32_t expected = r->crc;
    unsigned char p[4];
    gf_get(r, p, sizeof p);
    TRY(r->status);
    if (gf_le32(p) != expected) {
        char number[32] = "";
        if (index >= 0) snprintf(number, sizeof number, " %lld", (long long)index);
        r->status = gf_fail(r->err, GLOFND_E_FORMAT, "'%.300s' is corrupt: wrong checksum of the %s%s", r->path, what, number);
    }
    r->chain = gf_crc32c(r->chain, p, sizeof p);
    r->crc = 0;
    return r->status;
}

glofnd_status gf_reader_end(gf_reader *r) {
    TRY(r->status);
    const uint64_t left = gf_reader_left(r);
    if (left > 0) {
        r->status = gf_fail(r->err, GLOFND_E_FORMAT, "'%.300s' has %llu bytes after its end", r->path, (unsigned long long)left);
    }
    return r->status;
}

void gf_reader_close(gf_reader *r) {
    if (r->fd >= 0) close(r->fd);
    free(r->buffer);
    r->buffer = NULL;
    r->fd = -1;
}

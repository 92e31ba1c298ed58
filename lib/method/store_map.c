/* store_map.c - the working file behind a mapped store: a header page, then the records as they lie in memory.
 *
 * The file is sparse. Disk space is taken page by page (not block by block: random anchors of a billion would otherwise take
 * 80 KB each), and before a page is first written through the mapping: a write to a hole of a full disk is a SIGBUS, which no
 * library can turn into a status, whereas fallocate returns "no space". `pages` marks the pages that exist, so that after the
 * first visit of an anchor this costs two bit tests. The layout is in docs/formats.md.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "io/blockfile.h"
#include "io/file.h"
#include "method/store.h"

#define HEADER_BYTES GF_STORE_PAGE
#define FIELD_BYTES 40 /* of the header's checked fields, with their CRC */
#define SHARED_AT 64   /* the shared rows, in host order like the records; not under the CRC */
#define VERSION 1
static const char magic[] = "GLOFNDWK";

static uint64_t file_bytes(const glofnd_store *s) { return HEADER_BYTES + (uint64_t)s->spec.n * s->record_bytes; }

/* ----- header ----- */

static void make_fields(const glofnd_store *s, unsigned char *p) {
    const uint32_t host_order = 0x01020304; /* records are mapped, so their byte order is the host's */
    memcpy(p, magic, 8);
    gf_le32_put(p + 8, VERSION);
    memcpy(p + 12, &host_order, 4);
    gf_le64_put(p + 16, (uint64_t)s->spec.n);
    gf_le32_put(p + 24, (uint32_t)s->spec.modalities);
    gf_le32_put(p + 28, (uint32_t)s->spec.temperatures);
    gf_le32_put(p + 32, (uint32_t)s->record_bytes);
    gf_le32_put(p + 36, gf_crc32c(0, p, 36));
}

static glofnd_status differs(gf_error *err, const char *path, const char *what, uint64_t have, uint64_t want) {
    GF_FAIL(err, GLOFND_E_FORMAT,
            "working file '%.200s' has %s %llu, and this store needs %llu; remove it or give a different path", path, what,
            (unsigned long long)have, (unsigned long long)want);
}

/* Compares the fields `have` of an existing file with those this store needs. */
static glofnd_status check_fields(gf_error *err, const char *path, const unsigned char *have, const unsigned char *want) {
    FAIL_IF(err, memcmp(have, magic, 8) != 0, GLOFND_E_FORMAT, "'%.300s' exists and is not a GloFND working file", path);
    FAIL_IF(err, gf_le32(have + 8) > VERSION, GLOFND_E_FORMAT, "working file '%.300s' was made by a newer version", path);
    FAIL_IF(err, gf_le32(have + 36) != gf_crc32c(0, have, 36), GLOFND_E_FORMAT,
            "working file '%.300s' has a corrupt header; remove it or give a different path", path);
    FAIL_IF(err, memcmp(have + 12, want + 12, 4) != 0, GLOFND_E_FORMAT,
            "working file '%.300s' was made on a machine with a different byte order", path);
    if (memcmp(have + 16, want + 16, 8) != 0) return differs(err, path, "n", gf_le64(have + 16), gf_le64(want + 16));
    static const struct {
        const char *name;
        int at;
    } field[] = {{"version", 8}, {"modalities", 24}, {"temperatures", 28}, {"record bytes", 32}};
    for (size_t i = 0; i < sizeof field / sizeof *field; i++) {
        const uint32_t a = gf_le32(have + field[i].at), b = gf_le32(want + field[i].at);
        if (a != b) return differs(err, path, field[i].name, a, b);
    }
    return GLOFND_OK;
}

static int write_at(int fd, const void *data, size_t n, off_t at) {
    const unsigned char *p = data;
    while (n > 0) {
        const ssize_t done = pwrite(fd, p, n, at);
        if (done < 0 && errno == EINTR) continue;
        if (done < 0) return -1;
        p += done;
        n -= (size_t)done;
        at += done;
    }
    return 0;
}

static glofnd_status fill_new(gf_error *err, const glofnd_store *s, const char *path) {
    unsigned char header[HEADER_BYTES] = {0};
    make_fields(s, header);
    if (write_at(s->fd, header, sizeof header, 0) != 0 || gf_truncate(s->fd, (off_t)file_bytes(s)) != 0) {
        GF_FAIL(err, GLOFND_E_IO, "working file '%.200s' of %llu bytes (sparse) cannot be made: %s", path,
                (unsigned long long)file_bytes(s), strerror(errno));
    }
    return GLOFND_OK;
}

/* ----- reopening ----- */

/* Marks bytes [begin, end) of the file as possibly written. */
static void mark_data(glofnd_store *s, uint64_t begin, uint64_t end) {
    if (begin < HEADER_BYTES) begin = HEADER_BYTES;
    if (end > file_bytes(s)) end = file_bytes(s);
    if (begin >= end) return;
    const uint64_t first = begin - HEADER_BYTES, last = end - HEADER_BYTES - 1;
    for (uint64_t p = first / GF_STORE_PAGE; p <= last / GF_STORE_PAGE; p++) gf_bit_set(s->pages, (int64_t)p);
    const uint64_t block = (uint64_t)GF_STORE_BLOCK * s->record_bytes;
    for (uint64_t b = first / block; b <= last / block; b++) gf_bit_set(s->touched, (int64_t)b);
}

/* Finds the written parts of a sparse file. Where the file system does not know them, everything counts as written. */
static void find_data(glofnd_store *s) {
    off_t at = HEADER_BYTES;
    for (;;) {
        const off_t data = lseek(s->fd, at, SEEK_DATA);
        if (data < 0 && errno == ENXIO) return; /* nothing but a hole up to the end */
        const off_t hole = data < 0 ? -1 : lseek(s->fd, data, SEEK_HOLE);
        if (hole <= data) {
            mark_data(s, 0, file_bytes(s));
            return;
        }
        mark_data(s, (uint64_t)data, (uint64_t)hole);
        at = hole;
    }
}

static glofnd_status reopen(gf_error *err, glofnd_store *s, const char *path, uint64_t bytes) {
    unsigned char have[SHARED_AT + sizeof s->shared] = {0}, want[FIELD_BYTES];
    const ssize_t got = pread(s->fd, have, sizeof have, 0);
    FAIL_IF(err, got < 0, GLOFND_E_IO, "working file '%.300s' cannot be read: %s", path, strerror(errno));
    make_fields(s, want);
    TRY(check_fields(err, path, have, want));
    if (bytes != file_bytes(s)) return differs(err, path, "bytes", bytes, file_bytes(s));
    memcpy(s->shared, have + SHARED_AT, sizeof s->shared);
    find_data(s);
    return GLOFND_OK;
}

/* ----- opening ----- */

static glofnd_status open_file(gf_error *err, glofnd_store *s, const char *path, int *made) {
    s->fd = gf_open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    *made = s->fd >= 0;
    if (!*made && errno == EEXIST) s->fd = gf_open(path, O_RDWR | O_CLOEXEC | O_NONBLOCK, 0);
    FAIL_IF(err, s->fd < 0, GLOFND_E_IO, "working file '%.300s' cannot be opened: %s", path, strerror(errno));
    return GLOFND_OK;
}

/* Two stores on one file would corrupt each other's bit maps, so the second one is refused (where the file system has locks). */
static glofnd_status lock_file(gf_error *err, const glofnd_store *s, const char *path) {
    FAIL_IF(err, gf_flock(s->fd, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK, GLOFND_E_IO,
            "working file '%.300s' is in use by a different store", path);
    return GLOFND_OK;
}

int gf_store_map_in_use(const char *path) {
    const int fd = gf_open(path, O_RDONLY | O_CLOEXEC, 0);
    if (fd < 0) return 0;
    const int busy = gf_flock(fd, LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK;
    close(fd);
    return busy;
}

static glofnd_status map_file(gf_error *err, glofnd_store *s, const char *path) {
    const size_t bytes = (size_t)file_bytes(s);
    void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, s->fd, 0);
    FAIL_IF(err, p == MAP_FAILED, errno == ENOMEM ? GLOFND_E_MEMORY : GLOFND_E_IO, "working file '%.300s' cannot be mapped: %s",
            path, strerror(errno));
    madvise(p, bytes, MADV_RANDOM); /* anchors come in random order: reading ahead would be wasted */
    s->mapping = p;
    s->mapped_bytes = bytes;
    s->records = s->mapping;
    s->records += HEADER_BYTES;
    return GLOFND_OK;
}

static glofnd_status open_and_map(gf_error *err, glofnd_store *s, const char *path) {
    struct stat st;
    TRY(lock_file(err, s, path));
    FAIL_IF(err, fstat(s->fd, &st) != 0 || !S_ISREG(st.st_mode), GLOFND_E_IO, "working file '%.300s' is not a regular file",
            path);
    if (st.st_size > 0) {
        TRY(reopen(err, s, path, (uint64_t)st.st_size));
        return map_file(err, s, path);
    }
    glofnd_status status = fill_new(err, s, path);
    if (status == GLOFND_OK) status = map_file(err, s, path);
    if (status != GLOFND_OK && gf_truncate(s->fd, 0) != 0) return status; /* nothing more can be done for an empty file */
    return status;
}

glofnd_status gf_store_map(gf_error *err, glofnd_store *s, const char *path) {
    int made = 0;
    TRY(open_file(err, s, path, &made));
    const glofnd_status status = open_and_map(err, s, path);
    if (status != GLOFND_OK) {
        gf_store_unmap(s);
        if (made) unlink(path);
    }
    return status;
}

void gf_store_unmap(glofnd_store *s) {
    if (s->mapping) munmap(s->mapping, s->mapped_bytes);
    if (s->fd >= 0) close(s->fd);
    s->mapping = NULL;
    s->mapped_bytes = 0;
    s->records = NULL;
    s->fd = -1;
}

void gf_store_map_shared(glofnd_store *s) {
    unsigned char *header = s->mapping;
    memcpy(header + SHARED_AT, s->shared, sizeof s->shared);
}

/* ----- disk space ----- */

/* For file systems without fallocate: one byte of each page, written back as it is, takes the space as well. */
static int take_space_by_writing(int fd, off_t at, off_t bytes) {
    for (const off_t end = at + bytes; at < end; at += GF_STORE_PAGE) {
        unsigned char byte = 0;
        if (pread(fd, &byte, 1, at) < 0 || write_at(fd, &byte, 1, at) != 0) return -1;
    }
    return 0;
}

static int take_space(int fd, off_t at, off_t bytes) {
    int failed;
    do {
        failed = fallocate(fd, FALLOC_FL_KEEP_SIZE, at, bytes);
    } while (failed && errno == EINTR);
    if (failed && (errno == EOPNOTSUPP || errno == ENOSYS)) return take_space_by_writing(fd, at, bytes);
    return failed;
}

glofnd_status gf_store_prepare_range(gf_error *err, glofnd_store *s, int64_t first, int64_t count) {
    if (s->fd < 0 || count <= 0) return GLOFND_OK;
    const size_t begin = (size_t)first * s->record_bytes, end = begin + (size_t)count * s->record_bytes;
    const int64_t stop = (int64_t)((end - 1) / GF_STORE_PAGE) + 1;
    for (int64_t page = (int64_t)(begin / GF_STORE_PAGE); page < stop; page++) {
        if (gf_bit(s->pages, page)) continue;
        int64_t next = page + 1;
        while (next < stop && !gf_bit(s->pages, next)) next++;
        if (take_space(s->fd, HEADER_BYTES + page * GF_STORE_PAGE, (next - page) * GF_STORE_PAGE) != 0) {
            GF_FAIL(err, GLOFND_E_IO, "no space on disk for the working file of the anchors: %s", strerror(errno));
        }
        for (; page < next; page++) gf_bit_set(s->pages, page);
    }
    return GLOFND_OK;
}

glofnd_status gf_store_prepare(gf_error *err, glofnd_store *s, const int64_t *id, int64_t n) {
    if (s->fd < 0) return GLOFND_OK;
    for (int64_t i = 0; i < n; i++) {
        if (id[i] >= 0) TRY(gf_store_prepare_range(err, s, id[i], 1));
    }
    return GLOFND_OK;
}

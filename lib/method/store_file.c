/* store_file.c - saving and loading the anchor store. The format, byte by byte, is in FORMATS.md.
 *
 *     header | block of records ... | block of ring rows ... | end          each closed by its CRC
 *
 * Only records that are not all zero are written, as runs of consecutive rows within a block: a block costs 20 bytes, a run 4,
 * beyond the rows themselves. Equal stores give equal files. Loading uses no number before it has been checked against the limits
 * of the format and the bytes that are left, and returns no store before every CRC was right. Memory follows the bytes read, as
 * the tables are lazy. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "io/blockfile.h"
#include "io/file.h"
#include "method/context.h"
#include "method/store.h"
#include "util/array.h"

/* ----- map ----- */

/* The working file behind a mapped store: a header page, then the records as they lie in memory.
 *
 * The file is sparse. Disk space is taken page by page (not block by block: random anchors of a billion would otherwise take
 * 80 KB each), and before a page is first written through the mapping: a write to a hole of a full disk is a SIGBUS, which no
 * library can turn into a status, whereas fallocate returns "no space". `pages` marks the pages that exist, so that after the
 * first visit of an anchor this costs two bit tests. The layout is in FORMATS.md.
 */

#define MAP_HEADER_BYTES GF_STORE_PAGE
#define FIELD_BYTES 40 /* of the header's checked fields, with their CRC */
#define SHARED_AT 64   /* the shared rows, in host order like the records; not under the CRC */
#define USED_AT 104    /* of a store of keys: rows that have one, in host order; not under the CRC */
#define MAP_VERSION 2  /* of a store of keys; 1: of positions */
static const char map_magic[] = "GLOFNDWK";

static uint64_t file_bytes(const glofnd_store *s) { return MAP_HEADER_BYTES + (uint64_t)s->spec.n * s->record_bytes; }

/* ----- header ----- */

static void make_fields(const glofnd_store *s, unsigned char *p) {
    const uint32_t host_order = 0x01020304; /* records are mapped, so their byte order is the host's */
    memcpy(p, map_magic, 8);
    gf_le32_put(p + 8, s->spec.keyed ? 2 : 1);
    memcpy(p + 12, &host_order, 4);
    gf_le64_put(p + 16, s->spec.keyed ? 0 : (uint64_t)s->spec.n); /* keys: as many rows as the file has */
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
    FAIL_IF(err, memcmp(have, map_magic, 8) != 0, GLOFND_E_FORMAT, "'%.300s' exists and is not a GloFND working file", path);
    FAIL_IF(err, gf_le32(have + 8) > MAP_VERSION, GLOFND_E_FORMAT, "working file '%.300s' was made by a newer version", path);
    FAIL_IF(err, gf_le32(have + 36) != gf_crc32c(0, have, 36), GLOFND_E_FORMAT,
            "working file '%.300s' has a corrupt header; remove it or give a different path", path);
    FAIL_IF(err, memcmp(have + 12, want + 12, 4) != 0, GLOFND_E_FORMAT,
            "working file '%.300s' was made on a machine with a different byte order", path);
    FAIL_IF(err, gf_le32(have + 8) != gf_le32(want + 8), GLOFND_E_FORMAT,
            "working file '%.200s' is of a store %s, and this store has %s; remove it or give a different path", path,
            gf_le32(have + 8) == 2 ? "of keys" : "of positions", gf_le32(want + 8) == 2 ? "keys" : "positions");
    if (memcmp(have + 16, want + 16, 8) != 0) return differs(err, path, "n", gf_le64(have + 16), gf_le64(want + 16));
    static const struct {
        const char *name;
        int at;
    } field[] = {{"modalities", 24}, {"temperatures", 28}, {"record bytes", 32}};
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
    unsigned char header[MAP_HEADER_BYTES] = {0};
    make_fields(s, header);
    if (write_at(s->fd, header, sizeof header, 0) != 0 || gf_truncate(s->fd, (off_t)file_bytes(s)) != 0) {
        GF_FAIL(err, GLOFND_E_IO, "working file '%.200s' of %llu bytes (sparse) cannot be made: %s", path,
                (unsigned long long)file_bytes(s), strerror(errno));
    }
    return GLOFND_OK;
}

/* ----- reopening ----- */

/* 1: every page under the rows may be read, as one array. */
static int all_live(const glofnd_store *s, int64_t first, int64_t count) {
    const size_t begin = (size_t)first * s->record_bytes, end = begin + (size_t)count * s->record_bytes;
    for (size_t page = begin / GF_STORE_PAGE; page <= (end - 1) / GF_STORE_PAGE; page++) {
        if (!gf_bit(s->pages, (int64_t)page)) return 0;
    }
    return 1;
}

/* Marks bytes [begin, end) of the file as possibly written. */
static void mark_data(glofnd_store *s, uint64_t begin, uint64_t end) {
    if (begin < MAP_HEADER_BYTES) begin = MAP_HEADER_BYTES;
    if (end > file_bytes(s)) end = file_bytes(s);
    if (begin >= end) return;
    const uint64_t first = begin - MAP_HEADER_BYTES, last = end - MAP_HEADER_BYTES - 1;
    for (uint64_t p = first / GF_STORE_PAGE; p <= last / GF_STORE_PAGE; p++) gf_bit_set(s->pages, (int64_t)p);
    const uint64_t block = (uint64_t)GF_STORE_BLOCK * s->record_bytes;
    for (uint64_t b = first / block; b <= last / block; b++) gf_bit_set(s->touched, (int64_t)b);
}

/* Finds the written parts of a sparse file. Where the file system does not know them, everything counts as written. */
static void find_data(glofnd_store *s) {
    off_t at = MAP_HEADER_BYTES;
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

/* A store of keys has the rows of its working file, whose bit maps replace those of the rows that it was made for. */
static glofnd_status take_rows_of_file(gf_error *err, glofnd_store *s, const char *path, uint64_t bytes,
                                       const unsigned char *header) {
    const uint64_t rows = bytes < MAP_HEADER_BYTES ? 0 : (bytes - MAP_HEADER_BYTES) / s->record_bytes;
    const uint64_t keys_max = GF_KEYS_MAX;
    glofnd_store larger = *s;
    int64_t used;
    memcpy(&used, header + USED_AT, sizeof used);
    const int fits = rows >= 1 && rows <= keys_max && MAP_HEADER_BYTES + rows * s->record_bytes == bytes;
    FAIL_IF(err, !fits || gf_store_room((int64_t)rows) != (int64_t)rows || used < 0 || (uint64_t)used > rows, GLOFND_E_FORMAT,
            "working file '%.200s' is corrupt: %llu bytes, and %lld keys; remove it or give a different path", path,
            (unsigned long long)bytes, (long long)used);
    larger.spec.n = (int64_t)rows;
    uint64_t *touched = gf_lazy_alloc(gf_store_touched_bytes(&larger)), *pages = gf_lazy_alloc(gf_store_pages_bytes(&larger));
    if (!touched || !pages) {
        gf_lazy_free(touched, gf_store_touched_bytes(&larger));
        gf_lazy_free(pages, gf_store_pages_bytes(&larger));
        GF_FAIL(err, GLOFND_E_MEMORY, "no memory for the tables of a store of %llu keys", (unsigned long long)rows);
    }
    gf_lazy_free(s->touched, gf_store_touched_bytes(s));
    gf_lazy_free(s->pages, gf_store_pages_bytes(s));
    s->spec.n = larger.spec.n, s->touched = touched, s->pages = pages, s->used = used;
    return GLOFND_OK;
}

/* Every key is read, so all of them must lie in pages that may be. */
static glofnd_status index_reopened(gf_error *err, glofnd_store *s, const char *path) {
    gf_error why = {""};
    FAIL_IF(err, s->used > 0 && !all_live(s, 0, s->used), GLOFND_E_FORMAT,
            "working file '%.200s' is corrupt: keys are missing; remove it or give a different path", path);
    const glofnd_status status = gf_store_index(&why, s);
    FAIL_IF(err, status == GLOFND_E_FORMAT, status, "working file '%.200s' is corrupt: %.200s", path, why.text);
    FAIL_IF(err, status != GLOFND_OK, status, "%s", why.text);
    return GLOFND_OK;
}

static glofnd_status reopen(gf_error *err, glofnd_store *s, const char *path, uint64_t bytes) {
    unsigned char have[USED_AT + sizeof s->used] = {0}, want[FIELD_BYTES];
    const ssize_t got = pread(s->fd, have, sizeof have, 0);
    FAIL_IF(err, got < 0, GLOFND_E_IO, "working file '%.300s' cannot be read: %s", path, strerror(errno));
    make_fields(s, want);
    TRY(check_fields(err, path, have, want));
    if (s->spec.keyed) TRY(take_rows_of_file(err, s, path, bytes, have));
    if (bytes != file_bytes(s)) return differs(err, path, "bytes", bytes, file_bytes(s));
    memcpy(s->shared, have + SHARED_AT, sizeof s->shared);
    find_data(s);
    return GLOFND_OK;
}

/* ----- opening ----- */

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
    s->records += MAP_HEADER_BYTES;
    return GLOFND_OK;
}

static glofnd_status open_and_map(gf_error *err, glofnd_store *s, const char *path) {
    struct stat st;
    /* Two stores on one file would corrupt each other's bit maps, so the second one is refused (where the file system has locks). */
    FAIL_IF(err, gf_flock(s->fd, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK, GLOFND_E_IO,
            "working file '%.300s' is in use by a different store", path);
    FAIL_IF(err, fstat(s->fd, &st) != 0 || !S_ISREG(st.st_mode), GLOFND_E_IO, "working file '%.300s' is not a regular file",
            path);
    if (st.st_size > 0) {
        TRY(reopen(err, s, path, (uint64_t)st.st_size));
        TRY(map_file(err, s, path));
        return s->spec.keyed ? index_reopened(err, s, path) : GLOFND_OK;
    }
    glofnd_status status = fill_new(err, s, path);
    if (status == GLOFND_OK) status = map_file(err, s, path);
    if (status != GLOFND_OK && gf_truncate(s->fd, 0) != 0) return status; /* nothing more can be done for an empty file */
    return status;
}

glofnd_status gf_store_map(gf_error *err, glofnd_store *s, const char *path) {
    int made = 0;
    s->path = s->spec.keyed ? strdup(path) : NULL;
    FAIL_IF(err, s->spec.keyed && !s->path, GLOFND_E_MEMORY, "no memory for a path");
    s->fd = gf_open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    made = s->fd >= 0;
    if (!made && errno == EEXIST) s->fd = gf_open(path, O_RDWR | O_CLOEXEC | O_NONBLOCK, 0);
    FAIL_IF(err, s->fd < 0, GLOFND_E_IO, "working file '%.300s' cannot be opened: %s", path, strerror(errno));
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
    if (s->spec.keyed) memcpy(header + USED_AT, &s->used, sizeof s->used);
}

glofnd_status gf_store_map_grow(gf_error *err, glofnd_store *s, int64_t n) {
    glofnd_store larger = *s;
    larger.spec.n = n;
    const off_t before = (off_t)file_bytes(s);
    const size_t bytes = (size_t)file_bytes(&larger);
    FAIL_IF(err, gf_truncate(s->fd, (off_t)bytes) != 0, GLOFND_E_IO, "the working file of %lld keys cannot grow to %zu bytes: %s",
            (long long)n, bytes, strerror(errno));
    void *p = mremap(s->mapping, s->mapped_bytes, bytes, MREMAP_MAYMOVE);
    if (p == MAP_FAILED) {
        const int why = errno;
        const int cut = gf_truncate(s->fd, before); /* if that fails, too, the file is refused when it is opened again */
        GF_FAIL(err, why == ENOMEM ? GLOFND_E_MEMORY : GLOFND_E_IO, "the working file of %lld keys cannot be mapped: %s%s",
                (long long)n, strerror(why), cut == 0 ? "" : "; it is now too long");
    }
    s->mapping = p;
    s->mapped_bytes = bytes;
    s->records = (unsigned char *)p + MAP_HEADER_BYTES;
    return GLOFND_OK;
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
        if (take_space(s->fd, MAP_HEADER_BYTES + page * GF_STORE_PAGE, (next - page) * GF_STORE_PAGE) != 0) {
            GF_FAIL(err, GLOFND_E_IO, "no space on disk for the working file of the anchors: %s", strerror(errno));
        }
        for (; page < next; page++) gf_bit_set(s->pages, page);
    }
    return GLOFND_OK;
}

glofnd_status gf_store_map_table(gf_error *err, const glofnd_store *s, int64_t slots, struct gf_key_table *out) {
    const size_t bytes = (size_t)slots * sizeof *out->slot;
    char *temp = NULL;
    const int fd = gf_open_temp(s->path, O_RDWR, &temp);
    FAIL_IF(err, fd < 0, errno == ENOMEM ? GLOFND_E_MEMORY : GLOFND_E_IO, "cannot create a key table next to '%.300s': %s",
            s->path, strerror(errno));
    unlink(temp);
    free(temp);
    const int failed = gf_truncate(fd, (off_t)bytes) != 0 || take_space(fd, 0, (off_t)bytes) != 0;
    void *p = failed ? MAP_FAILED : mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (p == MAP_FAILED) {
        const int why = errno;
        close(fd);
        GF_FAIL(err, why == ENOMEM ? GLOFND_E_MEMORY : GLOFND_E_IO, "cannot create a key table of %zu bytes next to '%.300s': %s",
                bytes, s->path, strerror(why));
    }
    *out = (struct gf_key_table){.slot = p, .slots = slots, .fd = fd};
    return GLOFND_OK;
}

glofnd_status gf_store_prepare(gf_error *err, glofnd_store *s, const int64_t *id, int64_t n) {
    if (s->fd < 0) return GLOFND_OK;
    for (int64_t i = 0; i < n; i++) {
        if (id[i] >= 0) TRY(gf_store_prepare_range(err, s, id[i], 1));
    }
    return GLOFND_OK;
}

/* ----- store file ----- */

#define VERSION \
    3 /* that this program reads; 1: without bank_dim, 2: without keys. Each store is written as the lowest it can be */
#define HEADER_BYTES 140    /* with its CRC */
#define HEADER_BANK_BYTES 8 /* more, with a bank */
#define HEADER_KEY_BYTES 16 /* more, with keys: bank_dim, which may be 0; 1; 0 */
#define BLOCK_BYTES 20      /* of a block of records without runs and rows, with its CRC */
#define RUN_BYTES 4
#define RING_BLOCK 1024     /* ring rows per block */
#define RING_BLOCK_BYTES 20 /* of a block of ring rows without ids and rows, with its CRC */
#define END_BYTES 24
#define MAX_RUNS (GF_STORE_BLOCK / 2)
static const char magic[] = "GLOFNDST", end_magic[] = "GLOFNDEN";

typedef struct file_head {
    gf_store_spec spec;
    uint32_t record_bytes, block_records;
    int64_t ring_head, ring_count;
    uint64_t blocks, ring_blocks; /* blocks of records; of ring rows, all sides */
    uint64_t file_bytes;
    gf_record shared[2];
} file_head;

typedef struct run { /* consecutive rows of a block */
    uint16_t first, count;
} run;

typedef struct block_runs {
    int runs, rows; /* rows: of all runs together */
    run run[MAX_RUNS];
} block_runs;

/* ----- contents ----- */

static int is_zero(const unsigned char *record, size_t bytes) {
    uint32_t any = 0;
    for (size_t i = 0; i < bytes; i += 4) {
        uint32_t word;
        memcpy(&word, record + i, sizeof word);
        any |= word;
    }
    return any == 0;
}

/* Reads the record in place, unless it lies across two pages of which only one may be read. */
static int is_empty(const glofnd_store *s, int64_t id) {
    const size_t begin = (size_t)id * s->record_bytes, last = begin + s->record_bytes - 1;
    unsigned char record[GF_STORE_MAX_RECORD];
    if (begin / GF_STORE_PAGE == last / GF_STORE_PAGE && gf_bit(s->pages, (int64_t)(begin / GF_STORE_PAGE))) {
        return is_zero(s->records + begin, gf_store_state_bytes(s));
    }
    gf_store_read_record(s, id, record);
    return is_zero(record, gf_store_state_bytes(s));
}

/* First row from `id` on that shares a byte with a page that was written. */
static int64_t next_live(const glofnd_store *s, int64_t id, int64_t stop) {
    while (id < stop) {
        const size_t begin = (size_t)id * s->record_bytes, last = begin + s->record_bytes - 1;
        const size_t page = last / GF_STORE_PAGE;
        if (gf_bit(s->pages, (int64_t)page) || gf_bit(s->pages, (int64_t)(begin / GF_STORE_PAGE))) return id;
        const int64_t reaches = (int64_t)((page + 1) * GF_STORE_PAGE / s->record_bytes); /* holds the next page's first byte */
        id = reaches > id ? reaches : id + 1;
    }
    return stop;
}

/* The rows of a block that are not all zero. */
static void find_runs(const glofnd_store *s, int64_t block, block_runs *out) {
    const int64_t first = block * GF_STORE_BLOCK, stop = first + gf_store_block_rows(s, block);
    out->runs = out->rows = 0;
    for (int64_t id = next_live(s, first, stop); id < stop; id = next_live(s, id + 1, stop)) {
        if (is_empty(s, id)) continue;
        const int row = (int)(id - first);
        run *last = out->runs > 0 ? &out->run[out->runs - 1] : NULL;
        if (last && last->first + last->count == row) last->count++;
        else out->run[out->runs++] = (run){(uint16_t)row, 1};
        out->rows++;
    }
}

/* Next touched block from `block` on; the number of blocks if there is none. */
static int64_t next_touched(const glofnd_store *s, int64_t block) {
    const int64_t blocks = gf_store_blocks(s);
    while (block < blocks && !gf_bit(s->touched, block)) {
        if ((block & 63) == 0 && s->touched[block >> 6] == 0) block += 64;
        else block++;
    }
    return block < blocks ? block : blocks;
}

int64_t gf_store_next_seen(const glofnd_store *s, int64_t row) {
    while (row < s->spec.n) {
        const int64_t block = next_touched(s, row / GF_STORE_BLOCK), first = block * GF_STORE_BLOCK;
        if (block == gf_store_blocks(s)) break;
        const int64_t stop = first + gf_store_block_rows(s, block);
        for (row = next_live(s, row > first ? row : first, stop); row < stop; row = next_live(s, row + 1, stop))
            if (!is_empty(s, row)) return row;
    }
    return s->spec.n;
}

static uint64_t ring_blocks(const gf_store_spec *spec, int64_t count) {
    return (uint64_t)spec->modalities * (uint64_t)((count + RING_BLOCK - 1) / RING_BLOCK);
}

static uint64_t ring_bytes(const gf_store_spec *spec, int64_t count) {
    const uint64_t row = (uint64_t)spec->ring_dim * 4 + 8;
    return ring_blocks(spec, count) * RING_BLOCK_BYTES + (uint64_t)spec->modalities * (uint64_t)count * row;
}

static uint64_t blocks_of(int64_t rows) { return ((uint64_t)rows + GF_STORE_BLOCK - 1) / GF_STORE_BLOCK; }

static uint32_t header_bytes(const gf_store_spec *spec) {
    return HEADER_BYTES + (spec->keyed ? HEADER_KEY_BYTES : spec->bank_dim ? HEADER_BANK_BYTES : 0);
}

/* `keys`: rows that are written, of a store of keys. */
static file_head describe(const glofnd_store *s, int64_t keys) {
    file_head h = {.spec = s->spec,
                   .record_bytes = (uint32_t)s->record_bytes,
                   .block_records = GF_STORE_BLOCK,
                   .ring_head = s->ring_head,
                   .ring_count = s->ring_count};
    memcpy(h.shared, s->shared, sizeof h.shared);
    h.ring_blocks = ring_blocks(&s->spec, s->ring_count);
    h.file_bytes = header_bytes(&s->spec) + ring_bytes(&s->spec, s->ring_count) + END_BYTES;
    if (s->spec.keyed) {
        h.spec.n = keys;
        h.blocks = blocks_of(keys);
        h.file_bytes += h.blocks * (BLOCK_BYTES + RUN_BYTES) + (uint64_t)keys * s->record_bytes;
        return h;
    }
    const int64_t blocks = gf_store_blocks(s);
    block_runs found;
    for (int64_t b = next_touched(s, 0); b < blocks; b = next_touched(s, b + 1)) {
        find_runs(s, b, &found);
        if (found.rows == 0) continue;
        h.blocks++;
        h.file_bytes += BLOCK_BYTES + (uint64_t)found.runs * RUN_BYTES + (uint64_t)found.rows * s->record_bytes;
    }
    return h;
}

/* ----- saving ----- */

static void put_head(gf_writer *w, const file_head *h) {
    gf_put(w, magic, 8);
    gf_put_u32(w, h->spec.keyed ? 3 : h->spec.bank_dim ? 2 : 1);
    gf_put_u32(w, header_bytes(&h->spec));
    gf_put_u64(w, (uint64_t)h->spec.n);
    gf_put_u32(w, (uint32_t)h->spec.modalities);
    gf_put_u32(w, (uint32_t)h->spec.temperatures);
    gf_put_u32(w, h->record_bytes);
    gf_put_u32(w, h->block_records);
    gf_put_u64(w, (uint64_t)h->spec.ring_rows);
    gf_put_u64(w, (uint64_t)h->spec.ring_dim);
    gf_put_u64(w, (uint64_t)h->ring_head);
    gf_put_u64(w, (uint64_t)h->ring_count);
    gf_put_u64(w, h->blocks);
    gf_put_u64(w, h->ring_blocks);
    gf_put_u64(w, h->file_bytes);
    for (int side = 0; side < 2; side++) {
        gf_put_words4(w, &h->shared[side].lambda, 1);
        gf_put_words4(w, &h->shared[side].m, 1);
        gf_put_words4(w, &h->shared[side].v, 1);
        gf_put_words4(w, &h->shared[side].log_u, 1);
        gf_put_u32(w, h->shared[side].clock);
    }
    if (h->spec.bank_dim || h->spec.keyed) gf_put_u64(w, (uint64_t)h->spec.bank_dim);
    if (h->spec.keyed) {
        gf_put_u32(w, 1);
        gf_put_u32(w, 0);
    }
    gf_put_crc(w);
}

static void put_rows(gf_writer *w, const glofnd_store *s, int64_t first, int64_t count) {
    const size_t words = s->record_bytes / 4;
    if (all_live(s, first, count)) {
        gf_put_words4(w, s->records + (size_t)first * s->record_bytes, (size_t)count * words);
        return;
    }
    for (int64_t id = first; id < first + count; id++) {
        unsigned char record[GF_STORE_MAX_RECORD];
        gf_store_read_record(s, id, record);
        gf_put_words4(w, record, words);
    }
}

static void put_block(gf_writer *w, const glofnd_store *s, int64_t block, const block_runs *found) {
    gf_put_u64(w, (uint64_t)block);
    gf_put_u32(w, (uint32_t)found->rows);
    gf_put_u32(w, (uint32_t)found->runs);
    for (int i = 0; i < found->runs; i++) {
        gf_put_u16(w, found->run[i].first);
        gf_put_u16(w, found->run[i].count);
    }
    for (int i = 0; i < found->runs; i++) put_rows(w, s, block * GF_STORE_BLOCK + found->run[i].first, found->run[i].count);
    gf_put_crc(w);
}

/* Rows [keys] by ascending keys: all blocks but the last are full. */
static void put_keyed_blocks(gf_writer *w, const glofnd_store *s, const gf_keyed_row *rows, int64_t keys) {
    for (int64_t first = 0; first < keys; first += GF_STORE_BLOCK) {
        const int64_t count = GF_MIN(keys - first, GF_STORE_BLOCK);
        gf_put_u64(w, (uint64_t)(first / GF_STORE_BLOCK));
        gf_put_u32(w, (uint32_t)count);
        gf_put_u32(w, 1);
        gf_put_u16(w, 0);
        gf_put_u16(w, (uint16_t)count);
        for (int64_t i = first; i < first + count; i++) put_rows(w, s, rows[i].row, 1);
        gf_put_crc(w);
    }
}

static void put_ring(gf_writer *w, const glofnd_store *s, int side) {
    const int64_t dim = s->spec.ring_dim;
    for (int64_t first = 0; first < s->ring_count; first += RING_BLOCK) {
        const int64_t left = s->ring_count - first, rows = left < RING_BLOCK ? left : RING_BLOCK;
        gf_put_u64(w, (uint64_t)first);
        gf_put_u32(w, (uint32_t)side);
        gf_put_u32(w, (uint32_t)rows);
        gf_put_words8(w, s->ring[side].id + first, (size_t)rows);
        gf_put_words4(w, s->ring[side].rows + first * dim, (size_t)(rows * dim));
        gf_put_crc(w);
    }
}

static glofnd_status write_store(gf_writer *w, const glofnd_store *s, const gf_keyed_row *rows, int64_t keys) {
    const file_head h = describe(s, keys);
    const int64_t blocks = gf_store_blocks(s);
    block_runs found;
    put_head(w, &h);
    if (s->spec.keyed) put_keyed_blocks(w, s, rows, keys);
    for (int64_t b = next_touched(s, 0); !s->spec.keyed && b < blocks && w->status == GLOFND_OK; b = next_touched(s, b + 1)) {
        find_runs(s, b, &found);
        if (found.rows > 0) put_block(w, s, b, &found);
    }
    for (int side = 0; side < s->spec.modalities; side++) put_ring(w, s, side);
    const uint32_t chain = w->chain;
    gf_put(w, end_magic, 8);
    gf_put_u64(w, h.blocks + h.ring_blocks);
    gf_put_u32(w, chain);
    gf_put_crc(w);
    FAIL_IF(w->err, w->status == GLOFND_OK && w->bytes != h.file_bytes, GLOFND_E_ARGUMENT,
            "the store was written to while it was saved; '%.300s' is left as it was", w->path);
    return gf_writer_commit(w);
}

static int same_file(const struct stat *a, const struct stat *b) { return a->st_dev == b->st_dev && a->st_ino == b->st_ino; }

static glofnd_status save(gf_error *err, const glofnd_store *s, const char *path) {
    gf_writer w;
    gf_keyed_row *rows = NULL;
    int64_t keys = 0;
    if (s->device) TRY(gf_store_pull(err, s));
    if (s->spec.keyed) TRY(gf_store_order(err, s, &rows, &keys));
    glofnd_status status = gf_writer_open(err, &w, path);
    if (status == GLOFND_OK) {
        status = write_store(&w, s, rows, keys);
        gf_writer_close(&w);
    }
    free(rows);
    return status;
}

glofnd_status glofnd_store_save(glofnd_ctx *c, const glofnd_store *s, const char *path) {
    if (!c) return GLOFND_E_ARGUMENT;
    FAIL_IF(&c->err, !s || !path, GLOFND_E_ARGUMENT, "%s is NULL", s ? "path" : "the store");
    struct stat own, target;
    const int mapped_here = s->fd >= 0 && stat(path, &target) == 0 && fstat(s->fd, &own) == 0 && same_file(&own, &target);
    FAIL_IF(&c->err, mapped_here, GLOFND_E_ARGUMENT, "'%.300s' is the store's working file; save to a different path", path);
    gf_store_lock(s);
    const glofnd_status status = save(&c->err, s, path);
    gf_store_unlock(s);
    return status;
}

/* ----- loading ----- */

#define BAD(r, ...) ((r)->status = gf_fail((r)->err, GLOFND_E_FORMAT, __VA_ARGS__))

static glofnd_status get_start(gf_reader *r, uint32_t *version_out) {
    char found[8] = {0};
    if (gf_reader_left(r) >= sizeof found) gf_get(r, found, sizeof found);
    if (memcmp(found, magic, sizeof found) != 0) return BAD(r, "'%.300s' is not an anchor store of GloFND", r->path);
    const uint32_t version = *version_out = gf_get_u32(r);
    TRY(r->status);
    if (version > VERSION) {
        return BAD(r, "'%.300s' was made by a newer version: format %u, this one reads up to %d", r->path, (unsigned)version,
                   VERSION);
    }
    if (version < 1) return BAD(r, "'%.300s' is corrupt: format %u does not exist", r->path, (unsigned)version);
    return GLOFND_OK;
}

static int64_t get_size(gf_reader *r) {
    const uint64_t x = gf_get_u64(r);
    return x > INT64_MAX ? -1 : (int64_t)x; /* -1 is refused by every check that follows */
}

static glofnd_status get_head(gf_reader *r, file_head *h) {
    uint32_t version = 0;
    *h = (file_head){0};
    TRY(get_start(r, &version));
    const uint32_t bytes = gf_get_u32(r);
    h->spec.n = get_size(r);
    h->spec.modalities = (int32_t)gf_get_u32(r);
    h->spec.temperatures = (int32_t)gf_get_u32(r);
    h->record_bytes = gf_get_u32(r);
    h->block_records = gf_get_u32(r);
    h->spec.ring_rows = get_size(r);
    h->spec.ring_dim = get_size(r);
    h->ring_head = get_size(r);
    h->ring_count = get_size(r);
    h->blocks = gf_get_u64(r);
    h->ring_blocks = gf_get_u64(r);
    h->file_bytes = gf_get_u64(r);
    for (int side = 0; side < 2; side++) {
        gf_get_words4(r, &h->shared[side].lambda, 1);
        gf_get_words4(r, &h->shared[side].m, 1);
        gf_get_words4(r, &h->shared[side].v, 1);
        gf_get_words4(r, &h->shared[side].log_u, 1);
        h->shared[side].clock = gf_get_u32(r);
    }
    uint32_t zero = 0;
    if (version > 1) h->spec.bank_dim = get_size(r);
    if (version > 2) h->spec.keyed = (int32_t)gf_get_u32(r), zero = gf_get_u32(r);
    TRY(gf_check_crc(r, "header", -1));
    if ((version > 2 && h->spec.keyed != 1) || zero != 0)
        return BAD(r, "'%.300s' is corrupt: its anchors are of kind %u, %u", r->path, (unsigned)h->spec.keyed, (unsigned)zero);
    if (bytes != header_bytes(&h->spec) || (version == 2 && h->spec.bank_dim == 0))
        return BAD(r, "'%.300s' has a header of %u bytes", r->path, (unsigned)bytes);
    return GLOFND_OK;
}

/* 1: the ring's numbers fit each other and the bytes that follow. No product overflows: count * dim <= 2^44. */
static int ring_fits(const file_head *h, uint64_t left) {
    const int64_t capacity = h->spec.ring_rows, count = h->ring_count, head = h->ring_head;
    if (count < 0 || count > capacity || head < 0) return 0;
    if (count < capacity ? head != count : head >= capacity && capacity > 0) return 0;
    if (capacity == 0 && head != 0) return 0;
    return h->ring_blocks == ring_blocks(&h->spec, count) && ring_bytes(&h->spec, count) <= left;
}

static glofnd_status check_head(gf_reader *r, const file_head *h) {
    const uint64_t left = gf_reader_left(r);
    gf_error why = {""};
    if (gf_store_check_spec(&why, &h->spec) != GLOFND_OK) return BAD(r, "'%.200s' is corrupt: %.250s", r->path, why.text);
    if (h->record_bytes != gf_record_bytes(&h->spec) || h->block_records != GF_STORE_BLOCK) {
        return BAD(r, "'%.300s' is corrupt: records of %u bytes in blocks of %u", r->path, (unsigned)h->record_bytes,
                   (unsigned)h->block_records);
    }
    if (h->file_bytes != r->size) {
        return BAD(r, "'%.300s' is truncated or has grown: %llu bytes, %llu when it was saved", r->path,
                   (unsigned long long)r->size, (unsigned long long)h->file_bytes);
    }
    const uint64_t all = blocks_of(h->spec.n);
    if (h->blocks > all || (h->spec.keyed && h->blocks != all) || h->blocks > left / BLOCK_BYTES || !ring_fits(h, left)) {
        return BAD(r, "'%.300s' is corrupt: %llu blocks and %lld ring rows do not fit into it", r->path,
                   (unsigned long long)h->blocks, (long long)h->ring_count);
    }
    return GLOFND_OK;
}

/* Runs must be ascending, disjoint, inside the block, and add up: the writer makes no others. */
static glofnd_status get_runs(gf_reader *r, int64_t block, int64_t rows_in_block, block_runs *out) {
    const uint32_t rows = gf_get_u32(r), runs = gf_get_u32(r);
    out->runs = out->rows = 0;
    TRY(r->status);
    int ok = rows >= 1 && (int64_t)rows <= rows_in_block && runs >= 1 && runs <= rows && runs <= MAX_RUNS;
    int64_t from = 0, sum = 0; /* first row that the next run may begin with */
    for (uint32_t i = 0; ok && i < runs; i++) {
        run one;
        one.first = gf_get_u16(r);
        one.count = gf_get_u16(r);
        ok = one.first >= from && one.count >= 1 && one.first + one.count <= rows_in_block;
        from = one.first + one.count + 1;
        sum += one.count;
        out->run[i] = one;
    }
    TRY(r->status);
    if (!ok || sum != rows) return BAD(r, "'%.300s' is corrupt: the rows of block %lld do not fit", r->path, (long long)block);
    out->runs = (int)runs;
    out->rows = (int)rows;
    return GLOFND_OK;
}

static glofnd_status get_rows(gf_reader *r, glofnd_store *s, int64_t first, int64_t count) {
    const size_t bytes = (size_t)count * s->record_bytes;
    if (bytes > gf_reader_left(r)) return BAD(r, "'%.300s' is truncated", r->path);
    TRY(gf_store_prepare_range(r->err, s, first, count));
    gf_store_mark(s, first, count);
    unsigned char *records = s->records + (size_t)first * s->record_bytes;
    gf_get_words4(r, records, bytes / 4);
    TRY(r->status);
    for (int64_t i = 0; i < count; i++) {
        if (is_zero(records + (size_t)i * s->record_bytes, gf_store_state_bytes(s))) {
            return BAD(r, "'%.300s' is corrupt: anchor %lld is saved without state", r->path, (long long)(first + i));
        }
    }
    return GLOFND_OK;
}

static glofnd_status get_block(gf_reader *r, const file_head *h, glofnd_store *s, int64_t *previous) {
    const int64_t block = get_size(r);
    TRY(r->status);
    if (block <= *previous || block >= gf_store_blocks(s)) {
        return BAD(r, "'%.300s' is corrupt: block %lld after block %lld, of %lld", r->path, (long long)block,
                   (long long)*previous, (long long)gf_store_blocks(s));
    }
    block_runs found;
    TRY(get_runs(r, block, gf_store_block_rows(s, block), &found));
    if (h->spec.keyed && (block != *previous + 1 || found.runs != 1 || found.run[0].first != 0 ||
                          found.rows != GF_MIN(h->spec.n - block * GF_STORE_BLOCK, GF_STORE_BLOCK))) {
        return BAD(r, "'%.300s' is corrupt: block %lld of the keys has %d rows", r->path, (long long)block, found.rows);
    }
    for (int i = 0; i < found.runs; i++) TRY(get_rows(r, s, block * GF_STORE_BLOCK + found.run[i].first, found.run[i].count));
    *previous = block;
    return gf_check_crc(r, "block", block);
}

static glofnd_status get_ring(gf_reader *r, glofnd_store *s, int side) {
    const int64_t dim = s->spec.ring_dim;
    for (int64_t first = 0; first < s->ring_count; first += RING_BLOCK) {
        const int64_t left = s->ring_count - first, rows = left < RING_BLOCK ? left : RING_BLOCK;
        const int64_t has_first = get_size(r), has_side = gf_get_u32(r), has_rows = gf_get_u32(r);
        TRY(r->status);
        if (has_first != first || has_side != side || has_rows != rows) {
            return BAD(r, "'%.300s' is corrupt: ring rows %lld of side %d are missing", r->path, (long long)first, side);
        }
        gf_get_words8(r, s->ring[side].id + first, (size_t)rows);
        gf_get_words4(r, s->ring[side].rows + first * dim, (size_t)(rows * dim));
        TRY(gf_check_crc(r, "ring from row", first));
        for (int64_t i = first; i < first + rows; i++) {
            if (s->ring[side].id[i] >= -1 || s->spec.keyed) continue; /* with batch.slot, ids may exceed the store */
            return BAD(r, "'%.300s' is corrupt: ring row %lld has no anchor", r->path, (long long)i);
        }
    }
    return GLOFND_OK;
}

static glofnd_status get_end(gf_reader *r, const file_head *h) {
    const uint32_t chain = r->chain;
    char found[8];
    gf_get(r, found, sizeof found);
    const uint64_t blocks = gf_get_u64(r);
    const uint32_t has_chain = gf_get_u32(r);
    TRY(gf_check_crc(r, "end", -1));
    if (memcmp(found, end_magic, sizeof found) != 0 || blocks != h->blocks + h->ring_blocks || has_chain != chain) {
        return BAD(r, "'%.300s' is corrupt: its blocks belong to different files", r->path);
    }
    return gf_reader_end(r);
}

/* Keys ascend: none is there twice. */
static glofnd_status index_loaded(gf_reader *r, const file_head *h, glofnd_store *s) {
    for (int64_t i = 1; i < h->spec.n; i++) {
        const int64_t before = gf_store_key_of(s, i - 1), key = gf_store_key_of(s, i);
        if (before >= key)
            return BAD(r, "'%.300s' is corrupt: key %lld follows key %lld", r->path, (long long)key, (long long)before);
    }
    s->used = h->spec.n;
    return gf_store_index(r->err, s);
}

static glofnd_status get_body(gf_reader *r, const file_head *h, glofnd_store *s) {
    int64_t previous = -1;
    s->ring_head = h->ring_head;
    s->ring_count = h->ring_count;
    for (uint64_t i = 0; i < h->blocks; i++) TRY(get_block(r, h, s, &previous));
    for (int side = 0; side < s->spec.modalities; side++) TRY(get_ring(r, s, side));
    TRY(get_end(r, h));
    if (s->spec.keyed) TRY(index_loaded(r, h, s));
    memcpy(s->shared, h->shared, sizeof s->shared);
    if (s->fd >= 0) gf_store_map_shared(s);
    gf_store_note_adam(s);
    return GLOFND_OK;
}

static glofnd_status read_store(gf_reader *r, const char *working_file, glofnd_store **out) {
    file_head h;
    TRY(get_head(r, &h));
    TRY(check_head(r, &h));
    glofnd_store *s = NULL;
    TRY(gf_store_new(r->err, &h.spec, working_file, &s));
    const glofnd_status status = get_body(r, &h, s);
    if (status == GLOFND_OK) *out = s;
    else glofnd_store_free(s);
    return status;
}

/* The working file is filled under a temporary name, so that only a complete load replaces the old content of `map_path`. */
static glofnd_status read_mapped(gf_reader *r, const char *map_path, glofnd_store **out) {
    struct stat source, target;
    const int exists = stat(map_path, &target) == 0;
    FAIL_IF(r->err, exists && !S_ISREG(target.st_mode), GLOFND_E_IO, "working file '%.300s' is not a regular file", map_path);
    FAIL_IF(r->err, exists && fstat(r->fd, &source) == 0 && same_file(&source, &target), GLOFND_E_ARGUMENT,
            "'%.300s' cannot be loaded and be the working file at once", map_path);
    FAIL_IF(r->err, exists && gf_store_map_in_use(map_path), GLOFND_E_IO, "working file '%.300s' is in use by a different store",
            map_path);
    char *temp = NULL;
    const int fd = gf_open_temp(map_path, O_RDWR, &temp);
    FAIL_IF(r->err, fd < 0, errno == ENOMEM ? GLOFND_E_MEMORY : GLOFND_E_IO, "working file '%.300s' cannot be made: %s", map_path,
            strerror(errno));
    close(fd);
    glofnd_store *s = NULL;
    glofnd_status status = read_store(r, temp, &s);
    if (status == GLOFND_OK && rename(temp, map_path) != 0) {
        status = gf_fail(r->err, GLOFND_E_IO, "working file '%.300s' cannot be replaced: %s", map_path, strerror(errno));
    }
    if (status != GLOFND_OK) {
        glofnd_store_free(s);
        unlink(temp);
    } else {
        *out = s;
    }
    free(temp);
    return status;
}

glofnd_status glofnd_store_load(glofnd_ctx *c, const char *path, const char *map_path, glofnd_store **out) {
    if (out) *out = NULL;
    if (!c) return GLOFND_E_ARGUMENT;
    FAIL_IF(&c->err, !path || !out, GLOFND_E_ARGUMENT, "%s is NULL", path ? "out" : "path");
    FAIL_IF(&c->err, c->device && map_path, GLOFND_E_UNSUPPORTED, "map_path: a store on a device has no working file; give NULL");
    gf_reader r;
    TRY(gf_reader_open(&c->err, &r, path));
    glofnd_status status = map_path ? read_mapped(&r, map_path, out) : read_store(&r, NULL, out);
    gf_reader_close(&r);
    if (status == GLOFND_OK && c->device) status = gf_store_to_device(&c->err, *out, c->device, c->on);
    if (status != GLOFND_OK) glofnd_store_free(*out), *out = NULL;
    return status;
}

/* zip_entries.c - see zip_entries.h. At the end of the file lies a record with the place of the table; where a number does not
 * fit, the zip64 record before it has it. An entry of the table gives name, sizes and the place of the entry's own header. */
#include "torch/zip_entries.h"

#include <stdlib.h>
#include <string.h>

#include "io/blockfile.h"
#include "io/file.h"

enum { END = 22, LOCATOR = 20, END64 = 56, RECORD = 46, LOCAL = 30, COMMENT_MAX = 65535 };
#define TABLE_MAX ((uint64_t)1 << 28) /* bytes; some million entries */
#define ALL_ONES 0xffffffffu          /* the number is in the zip64 part */

static uint32_t le16(const uint8_t *p) { return (uint32_t)p[0] | (uint32_t)p[1] << 8; }

static glofnd_status corrupt(gf_error *err, const gf_zip *z, const char *what) {
    GF_FAIL(err, GLOFND_E_FORMAT, "%.300s: corrupt or cut archive: %s", z->path, what);
}

/* ----- the end ----- */

typedef struct table {
    uint64_t at, bytes, count;
} table;

static glofnd_status read_end64(gf_error *err, const gf_zip *z, uint64_t end_at, table *t) {
    uint8_t locator[LOCATOR], end[END64];
    if (end_at < LOCATOR) return corrupt(err, z, "no zip64 record");
    TRY(gf_file_read_at(err, z->fd, z->path, end_at - LOCATOR, locator, sizeof locator));
    const uint64_t at = gf_le64(locator + 8);
    if (memcmp(locator, "PK\6\7", 4) != 0 || at > end_at || end_at - at < END64) return corrupt(err, z, "no zip64 record");
    TRY(gf_file_read_at(err, z->fd, z->path, at, end, sizeof end));
    if (memcmp(end, "PK\6\6", 4) != 0) return corrupt(err, z, "no zip64 record");
    *t = (table){.at = gf_le64(end + 48), .bytes = gf_le64(end + 40), .count = gf_le64(end + 32)};
    return GLOFND_OK;
}

/* The record at the end has a comment behind it, whose length must reach to the end of the file. */
static const uint8_t *search_end(const uint8_t *tail, size_t n) {
    for (size_t k = n - END + 1; k-- > 0;)
        if (memcmp(tail + k, "PK\5\6", 4) == 0 && k + END + le16(tail + k + 20) == n) return tail + k;
    return NULL;
}

static glofnd_status parse_end(gf_error *err, const gf_zip *z, const uint8_t *tail, size_t n, table *t) {
    const uint8_t *end = search_end(tail, n);
    if (!end) return corrupt(err, z, "no table of entries at its end");
    *t = (table){.at = gf_le32(end + 16), .bytes = gf_le32(end + 12), .count = le16(end + 10)};
    const uint64_t end_at = z->file_bytes - (uint64_t)(tail + n - end);
    if (t->at == ALL_ONES || t->bytes == ALL_ONES || t->count == 0xffff) TRY(read_end64(err, z, end_at, t));
    if (t->at > end_at || t->bytes > end_at - t->at) return corrupt(err, z, "its table lies outside of the file");
    if (t->bytes > TABLE_MAX || t->count > t->bytes / RECORD) return corrupt(err, z, "its table has an impossible size");
    return GLOFND_OK;
}

static glofnd_status find_table(gf_error *err, const gf_zip *z, table *t) {
    const size_t n = z->file_bytes < END + COMMENT_MAX ? (size_t)z->file_bytes : END + COMMENT_MAX;
    if (n < END) return corrupt(err, z, "it is too short");
    uint8_t *tail = malloc(n);
    FAIL_IF(err, !tail, GLOFND_E_MEMORY, "%.300s: no memory to read it", z->path);
    glofnd_status status = gf_file_read_at(err, z->fd, z->path, z->file_bytes - n, tail, n);
    if (status == GLOFND_OK) status = parse_end(err, z, tail, n, t);
    free(tail);
    return status;
}

/* ----- entries ----- */

/* The zip64 part of a record's extra bytes: the numbers that did not fit, in this order. */
static int read_extra(const uint8_t *extra, size_t n, uint64_t *number[3]) {
    int missing = 0;
    for (int k = 0; k < 3; k++) missing += *number[k] == ALL_ONES;
    for (size_t at = 0; missing && n - at >= 4;) {
        const size_t length = le16(extra + at + 2);
        if (length > n - at - 4) return 0;
        if (le16(extra + at) == 1) {
            const uint8_t *p = extra + at + 4;
            if (length < 8 * (size_t)missing) return 0;
            for (int k = 0; k < 3; k++)
                if (*number[k] == ALL_ONES) *number[k] = gf_le64(p), p += 8;
            return 1;
        }
        at += 4 + length;
    }
    return missing == 0;
}

/* One record at p; its bytes, 0 if it is corrupt. Names are copied to *name, which moves behind them. */
static size_t read_record(const uint8_t *p, size_t left, uint64_t file_bytes, gf_zip_entry *e, char **name) {
    if (left < RECORD || memcmp(p, "PK\1\2", 4) != 0) return 0;
    const size_t name_n = le16(p + 28), extra_n = le16(p + 30), all = RECORD + name_n + extra_n + le16(p + 32);
    if (all > left || memchr(p + RECORD, 0, name_n)) return 0;
    uint64_t size = gf_le32(p + 24), packed = gf_le32(p + 20), at = gf_le32(p + 42);
    if (!read_extra(p + RECORD + name_n, extra_n, (uint64_t *[3]){&size, &packed, &at})) return 0;
    if (at > file_bytes || file_bytes - at < LOCAL) return 0;
    memcpy(*name, p + RECORD, name_n);
    (*name)[name_n] = 0;
    *e = (gf_zip_entry){.name = *name, .header_at = at, .size = size};
    e->stored = le16(p + 10) == 0 && !(le16(p + 8) & 1) && size == packed;
    *name += name_n + 1;
    return all;
}

static int by_name(const void *x, const void *y) {
    return strcmp(((const gf_zip_entry *)x)->name, ((const gf_zip_entry *)y)->name);
}

static glofnd_status parse_table(gf_error *err, gf_zip *z, const uint8_t *bytes, const table *t) {
    char *name = z->names;
    size_t at = 0;
    for (uint64_t k = 0; k < t->count; k++) {
        const size_t n = read_record(bytes + at, (size_t)t->bytes - at, z->file_bytes, &z->entry[k], &name);
        if (n == 0) return corrupt(err, z, "an entry of its table cannot be");
        at += n;
        z->count++;
    }
    if (z->count > 1) qsort(z->entry, z->count, sizeof *z->entry, by_name);
    for (size_t k = 1; k < z->count; k++)
        if (strcmp(z->entry[k - 1].name, z->entry[k].name) == 0) return corrupt(err, z, "two entries of one name");
    return GLOFND_OK;
}

static glofnd_status read_table(gf_error *err, gf_zip *z) {
    table t = {0};
    TRY(find_table(err, z, &t));
    uint8_t *bytes = malloc((size_t)t.bytes + 1);
    z->entry = calloc((size_t)t.count + 1, sizeof *z->entry);
    z->names = malloc((size_t)t.bytes + 1); /* a name and its end are shorter than a record */
    glofnd_status status = bytes && z->entry && z->names
                               ? gf_file_read_at(err, z->fd, z->path, t.at, bytes, (size_t)t.bytes)
                               : gf_fail(err, GLOFND_E_MEMORY, "%.300s: no memory for its table", z->path);
    if (status == GLOFND_OK) status = parse_table(err, z, bytes, &t);
    free(bytes);
    return status;
}

glofnd_status gf_zip_read_table(gf_error *err, int fd, const char *path, uint64_t file_bytes, gf_zip *out) {
    *out = (gf_zip){.fd = fd, .path = path, .file_bytes = file_bytes};
    const glofnd_status status = read_table(err, out);
    if (status != GLOFND_OK) gf_zip_free(out);
    return status;
}

void gf_zip_free(gf_zip *z) {
    free(z->entry);
    free(z->names);
    *z = (gf_zip){.fd = -1};
}

const gf_zip_entry *gf_zip_find(const gf_zip *z, const char *name) {
    const gf_zip_entry key = {.name = name};
    return z->count ? bsearch(&key, z->entry, z->count, sizeof *z->entry, by_name) : NULL;
}

glofnd_status gf_zip_place(gf_error *err, const gf_zip *z, const gf_zip_entry *e, uint64_t *at) {
    uint8_t local[LOCAL];
    FAIL_IF(err, !e->stored, GLOFND_E_FORMAT,
            "%.200s: the entry '%.100s' is compressed or encrypted; torch.save stores entries as they are", z->path, e->name);
    TRY(gf_file_read_at(err, z->fd, z->path, e->header_at, local, sizeof local));
    if (memcmp(local, "PK\3\4", 4) != 0) return corrupt(err, z, "an entry is not where its table says");
    const uint64_t start = e->header_at + LOCAL + le16(local + 26) + le16(local + 28);
    if (start > z->file_bytes || e->size > z->file_bytes - start) return corrupt(err, z, "an entry reaches beyond its end");
    *at = start;
    return GLOFND_OK;
}

/* npz_file.c - see npz_file.h. The checksum of an entry is known when its bytes are written; its place is filled in then. */
#include "discover/npz_file.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

#include "io/calls.h"

enum { LOCAL = 30, LOCAL_ZIP64 = 20, CENTRAL = 46, CENTRAL_ZIP64 = 28, HEADER = 128, CRC_PLACE = 14 };

/* CRC-32 of zip (polynomial 0x04c11db7, reflected), eight bits at a time. */
static uint32_t crc32_of(uint32_t crc, const uint8_t *bytes, size_t n) {
    static const uint32_t nibble[16] = {0x00000000, 0x1db71064, 0x3b6e20c8, 0x26d930ac, 0x76dc4190, 0x6b6b51f4,
                                        0x4db26158, 0x5005713c, 0xedb88320, 0xf00f9344, 0xd6d6a3e8, 0xcb61b38c,
                                        0x9b64c2b0, 0x86d3d2d4, 0xa00ae278, 0xbdbdf21c};
    crc = ~crc;
    for (size_t i = 0; i < n; i++) {
        crc ^= bytes[i];
        crc = crc >> 4 ^ nibble[crc & 15];
        crc = crc >> 4 ^ nibble[crc & 15];
    }
    return ~crc;
}

/* ----- bytes ----- */

static void write_bytes(gf_npz *z, const void *bytes, size_t n) {
    if (z->failed) return;
    if (fwrite(bytes, 1, n, z->f) != n) z->failed = errno ? errno : EIO;
    z->at += n;
}

static uint8_t *le(uint8_t *to, uint64_t value, int bytes) {
    for (int b = 0; b < bytes; b++) *to++ = (uint8_t)(value >> 8 * b);
    return to;
}

static uint32_t low(const gf_npz *z, uint64_t value) { return value >= z->limit ? UINT32_MAX : (uint32_t)value; }

static int is_large(const gf_npz *z, const gf_npz_item *e) { return e->size >= z->limit || e->at >= z->limit; }

/* Fields that both headers share: version needed .. length of the name. 1 January 1980: equal arrays give equal bytes. */
static uint8_t *shared_fields(const gf_npz *z, const gf_npz_item *e, uint8_t *p) {
    p = le(p, is_large(z, e) ? 45 : 20, 2);
    p = le(p, 0, 2);    /* flags */
    p = le(p, 0, 2);    /* stored */
    p = le(p, 0, 2);    /* time */
    p = le(p, 0x21, 2); /* date */
    p = le(p, e->crc, 4);
    p = le(p, is_large(z, e) ? UINT32_MAX : e->size, 4);
    p = le(p, is_large(z, e) ? UINT32_MAX : e->size, 4);
    return le(p, strlen(e->name), 2);
}

static void write_local(gf_npz *z, const gf_npz_item *e) {
    uint8_t head[LOCAL + LOCAL_ZIP64], *p = le(head, 0x04034b50, 4);
    p = shared_fields(z, e, p);
    p = le(p, is_large(z, e) ? LOCAL_ZIP64 : 0, 2);
    write_bytes(z, head, LOCAL);
    write_bytes(z, e->name, strlen(e->name));
    if (!is_large(z, e)) return;
    p = le(head, 1, 2);
    p = le(p, LOCAL_ZIP64 - 4, 2);
    p = le(p, e->size, 8);
    le(p, e->size, 8);
    write_bytes(z, head, LOCAL_ZIP64);
}

/* ----- entries ----- */

static void finish_entry(gf_npz *z) {
    uint8_t crc[4];
    if (!z->items || z->failed) return;
    assert(z->left == 0);
    le(crc, z->item[z->items - 1].crc, 4);
    if (fseeko(z->f, (off_t)(z->item[z->items - 1].at + CRC_PLACE), SEEK_SET) != 0 || fwrite(crc, 1, 4, z->f) != 4 ||
        fseeko(z->f, 0, SEEK_END) != 0)
        z->failed = errno ? errno : EIO;
}

static void put(gf_npz *z, const void *bytes, size_t n) {
    gf_npz_item *e = &z->item[z->items - 1];
    e->crc = crc32_of(e->crc, bytes, n);
    write_bytes(z, bytes, n);
}

void gf_npz_entry(gf_npz *z, const char *name, const char *descr, int rank, const int64_t *shape, size_t element) {
    char head[HEADER], tuple[80] = "";
    uint64_t bytes = element;
    assert(z->items < GF_NPZ_ENTRIES && strlen(name) <= GF_NPZ_NAME && rank >= 0 && rank <= 2);
    finish_entry(z);
    for (int k = 0; k < rank; k++) {
        snprintf(tuple + strlen(tuple), sizeof tuple - strlen(tuple),
                 rank == 1 ? "%lld,"
                 : k       ? ", %lld"
                           : "%lld",
                 (long long)shape[k]);
        bytes *= (uint64_t)shape[k];
    }
    memset(head, ' ', sizeof head);
    memcpy(head, "\x93NUMPY\x01\x00", 8);
    le((uint8_t *)head + 8, HEADER - 10, 2);
    char text[HEADER];
    const int used = snprintf(text, sizeof text, "{'descr': '%s', 'fortran_order': False, 'shape': (%s), }", descr, tuple);
    assert(used > 0 && used < HEADER - 11);
    memcpy(head + 10, text, (size_t)used);
    head[HEADER - 1] = '\n';
    gf_npz_item *e = &z->item[z->items++];
    *e = (gf_npz_item){.at = z->at, .size = bytes + HEADER};
    snprintf(e->name, sizeof e->name, "%.*s.npy", GF_NPZ_NAME, name);
    write_local(z, e);
    z->left = bytes;
    put(z, head, sizeof head);
}

void gf_npz_put(gf_npz *z, const void *bytes, size_t n) {
    assert(n <= z->left);
    z->left -= n;
    put(z, bytes, n);
}

/* ----- the end of the archive ----- */

static void write_central(gf_npz *z, const gf_npz_item *e) {
    uint8_t head[CENTRAL], *p = le(head, 0x02014b50, 4);
    const int large = is_large(z, e);
    p = le(p, 3 << 8 | 45, 2); /* made on Unix */
    p = shared_fields(z, e, p);
    p = le(p, large ? CENTRAL_ZIP64 : 0, 2);
    p = le(p, 0, 2);                       /* comment */
    p = le(p, 0, 2);                       /* disk */
    p = le(p, 0, 2);                       /* kind of data */
    p = le(p, (uint64_t)0100644 << 16, 4); /* an ordinary file */
    le(p, large ? UINT32_MAX : e->at, 4);
    write_bytes(z, head, CENTRAL);
    write_bytes(z, e->name, strlen(e->name));
    if (!large) return;
    p = le(head, 1, 2);
    p = le(p, CENTRAL_ZIP64 - 4, 2);
    p = le(p, e->size, 8);
    p = le(p, e->size, 8);
    le(p, e->at, 8);
    write_bytes(z, head, CENTRAL_ZIP64);
}

static void write_end(gf_npz *z, uint64_t from, uint64_t size) {
    uint8_t head[76], *p;
    const uint64_t here = z->at;
    if (from >= z->limit || size >= z->limit) {
        p = le(head, 0x06064b50, 4);
        p = le(p, 44, 8);
        p = le(p, 3 << 8 | 45, 2);
        p = le(p, 45, 2);
        p = le(p, 0, 8);
        p = le(p, (uint64_t)z->items, 8);
        p = le(p, (uint64_t)z->items, 8);
        p = le(p, size, 8);
        p = le(p, from, 8);
        p = le(p, 0x07064b50, 4);
        p = le(p, 0, 4);
        p = le(p, here, 8);
        p = le(p, 1, 4);
        write_bytes(z, head, (size_t)(p - head));
    }
    p = le(head, 0x06054b50, 4);
    p = le(p, 0, 4);
    p = le(p, (uint64_t)z->items, 2);
    p = le(p, (uint64_t)z->items, 2);
    p = le(p, low(z, size), 4);
    p = le(p, low(z, from), 4);
    p = le(p, 0, 2);
    write_bytes(z, head, (size_t)(p - head));
}

glofnd_status gf_npz_open(gf_error *err, gf_npz *z, const char *path) {
    *z = (gf_npz){.limit = UINT32_MAX};
    FAIL_IF(err, strlen(path) >= sizeof z->path, GLOFND_E_ARGUMENT, "the path '%.100s...' is too long", path);
    memcpy(z->path, path, strlen(path) + 1);
    z->f = gf_stream_open(path, "w");
    FAIL_IF(err, !z->f, GLOFND_E_IO, "'%.300s' cannot be written: %s", path, strerror(errno));
    return GLOFND_OK;
}

glofnd_status gf_npz_close(gf_error *err, gf_npz *z) {
    if (!z->f) return GLOFND_OK;
    finish_entry(z);
    const uint64_t from = z->at;
    for (int k = 0; k < z->items; k++) write_central(z, &z->item[k]);
    write_end(z, from, z->at - from);
    if (fclose(z->f) != 0 && !z->failed) z->failed = errno;
    z->f = NULL;
    FAIL_IF(err, z->failed, GLOFND_E_IO, "'%.300s' cannot be written: %s", z->path, strerror(z->failed));
    return GLOFND_OK;
}

/* tar.c - see tar.h.
 *
 * An archive is a row of members: a header block of 512 bytes, then the data, padded to whole blocks. Members of type L (GNU)
 * and x (pax) carry the long name or size of the member that follows them. Two zero blocks are its end mark; after them come only
 * zeros, up to a whole record of the program that wrote it. A file that ends where a header would begin is accepted, as by
 * GNU tar, with a flag; one that ends anywhere else was cut short.
 */
#include "data/tar.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "io/file.h"

#define BLOCK GF_TAR_BLOCK
#define EXTRA_MAX 65536   /* bytes of a long name or pax header */
#define END_MAX (1 << 20) /* bytes of zeros at the end; more are space reserved for data that never arrived */

enum { NAME_AT = 0, MODE_AT = 100, SIZE_AT = 124, TIME_AT = 136, SUM_AT = 148, TYPE_AT = 156, MAGIC_AT = 257, PREFIX_AT = 345 };

typedef struct overrides { /* fields of the next member, from extra headers */
    char *name;
    uint64_t size;
    int has_size, pending; /* pending: that member has to come */
} overrides;

gf_tar gf_tar_begin(const char *path, int fd, uint64_t size) { return (gf_tar){.path = path, .fd = fd, .size = size}; }

void gf_tar_end(gf_tar *t) {
    free(t->name);
    t->name = NULL;
}

static glofnd_status corrupt_tar(gf_error *err, const gf_tar *t, uint64_t at, const char *why) {
    return gf_fail(err, GLOFND_E_FORMAT, "'%.350s' is not a valid tar: %s at byte %llu", t->path, why, (unsigned long long)at);
}

/* Octal digits, or big-endian binary if the first bit is set (a negative one is too large). 0: neither, or too large. */
static int read_number(const uint8_t *p, int width, uint64_t *out) {
    uint64_t x = 0;
    int i = 0, digits = 0;
    if (p[0] & 0x80) {
        for (x = p[0] & 0x7f, i = 1; i < width; i++) {
            if (x >> 56) return 0;
            x = x << 8 | p[i];
        }
        *out = x;
        return 1;
    }
    while (i < width && p[i] == ' ') i++;
    for (; i < width && p[i] >= '0' && p[i] <= '7'; i++, digits++) x = x << 3 | (uint64_t)(p[i] - '0');
    for (; i < width; i++)
        if (p[i] != ' ' && p[i] != 0) return 0;
    *out = x;
    return digits > 0;
}

static unsigned checksum(const uint8_t *block) {
    unsigned sum = 0;
    for (int i = 0; i < BLOCK; i++) sum += i >= SUM_AT && i < SUM_AT + 8 ? ' ' : block[i];
    return sum;
}

static int is_zero(const uint8_t *block) {
    for (int i = 0; i < BLOCK; i++)
        if (block[i]) return 0;
    return 1;
}

static char *header_name(const uint8_t *block) {
    const char *name = (const char *)block + NAME_AT, *prefix = (const char *)block + PREFIX_AT;
    const int name_bytes = (int)strnlen(name, 100);
    const int is_posix = memcmp(block + MAGIC_AT, "ustar", 6) == 0; /* GNU has a space for the zero, and no prefix */
    const int prefix_bytes = is_posix ? (int)strnlen(prefix, 155) : 0;
    char *out = malloc((size_t)name_bytes + (size_t)prefix_bytes + 2);
    if (out) sprintf(out, "%.*s%s%.*s", prefix_bytes, prefix, prefix_bytes ? "/" : "", name_bytes, name);
    return out;
}

/* A record's text is not a string: it ends by its length, or at a zero byte before that. */
static int set_name(overrides *o, const char *text, size_t n) {
    const char *end = memchr(text, 0, n);
    const size_t length = end ? (size_t)(end - text) : n;
    free(o->name);
    o->name = malloc(length + 1);
    if (!o->name) return 0;
    memcpy(o->name, text, length);
    o->name[length] = 0;
    return 1;
}

static int read_decimal(const char *text, size_t n, uint64_t *out) {
    uint64_t x = 0;
    for (size_t i = 0; i < n; i++) {
        if (text[i] < '0' || text[i] > '9' || x > (UINT64_MAX - 9) / 10) return 0;
        x = 10 * x + (uint64_t)(text[i] - '0');
    }
    *out = x;
    return n > 0;
}

/* One record "LENGTH key=value\n" at *text; 0 if it is none. */
static int pax_record(const char **text, const char *end, overrides *o) {
    const char *space = memchr(*text, ' ', (size_t)(end - *text));
    uint64_t length;
    if (!space || !read_decimal(*text, (size_t)(space - *text), &length)) return 0;
    if (length > (uint64_t)(end - *text) || length < (uint64_t)(space - *text) + 3) return 0;
    const char *last = *text + length - 1, *key = space + 1, *equals = memchr(key, '=', (size_t)(last - key));
    if (*last != '\n' || !equals) return 0;
    const size_t key_bytes = (size_t)(equals - key), value_bytes = (size_t)(last - equals - 1);
    if (key_bytes == 4 && memcmp(key, "path", 4) == 0 && !set_name(o, equals + 1, value_bytes)) return 0;
    if (key_bytes == 4 && memcmp(key, "size", 4) == 0) {
        o->has_size = 1;
        if (!read_decimal(equals + 1, value_bytes, &o->size)) return 0;
    }
    if (key_bytes > 10 && memcmp(key, "GNU.sparse", 10) == 0) return 0;
    *text = last + 1;
    return 1;
}

static glofnd_status read_extra(gf_error *err, const gf_tar *t, char type, uint64_t at, uint64_t size, overrides *o) {
    if (size > EXTRA_MAX) return corrupt_tar(err, t, at, "an extra header of implausible size");
    char *text = malloc((size_t)size + 1);
    FAIL_IF(err, !text, GLOFND_E_MEMORY, "no memory to read '%.350s'", t->path);
    glofnd_status status = gf_file_read_at(err, t->fd, t->path, at, text, (size_t)size);
    if (status == GLOFND_OK && type == 'L' && !set_name(o, text, (size_t)size))
        status = corrupt_tar(err, t, at, "a name without memory for it");
    const char *p = text;
    while (status == GLOFND_OK && type == 'x' && p < text + size)
        if (!pax_record(&p, text + size, o)) status = corrupt_tar(err, t, at, "a corrupt or unsupported pax header");
    free(text);
    return status;
}

static glofnd_status cut_short(gf_error *err, const gf_tar *t, const char *where) {
    return gf_fail(err, GLOFND_E_FORMAT,
                   "'%.300s' is cut short: it ends at byte %llu, %s; copy or download it again, or leave it "
                   "out of the pattern",
                   t->path, (unsigned long long)t->size, where);
}

/* ----- members ----- */

typedef struct header {
    char type;
    uint64_t at, size;
    int end;
} header;

static uint64_t whole_blocks(uint64_t size) { return size / BLOCK * BLOCK + (size % BLOCK ? BLOCK : 0); }

/* Type and size of a block that is not zero. */
static glofnd_status parse_header(gf_error *err, const gf_tar *t, const overrides *o, const uint8_t block[BLOCK], header *h) {
    FAIL_IF(err, block[0] == 0x1f && block[1] == 0x8b && t->next == 0, GLOFND_E_UNSUPPORTED,
            "'%.350s' is compressed by gzip; unpack it with gunzip: samples are read out of order", t->path);
    uint64_t sum;
    if (!read_number(block + SUM_AT, 8, &sum) || sum != checksum(block))
        return corrupt_tar(err, t, t->next, "a wrong header checksum");
    if (!read_number(block + SIZE_AT, 12, &h->size)) return corrupt_tar(err, t, t->next, "a wrong size field");
    h->type = (char)block[TYPE_AT];
    if (o->has_size && h->type != 'x' && h->type != 'g' && h->type != 'L' && h->type != 'K') h->size = o->size;
    h->at = t->next + BLOCK;
    if (h->type == 'S') return corrupt_tar(err, t, t->next, "a sparse member, which is not supported,");
    return GLOFND_OK;
}

static glofnd_status read_header(gf_error *err, gf_tar *t, const overrides *o, uint8_t block[BLOCK], header *h) {
    char where[80];
    *h = (header){.end = t->next == t->size};
    if (h->end) {
        /* The file ends where a header would begin. */
        FAIL_IF(err, t->size == 0, GLOFND_E_FORMAT,
                "'%.350s' is empty, 0 bytes; copy or download it again, or leave it out of the pattern", t->path);
        t->no_end_mark = 1;
        return GLOFND_OK;
    }
    const int whole = t->size - t->next >= BLOCK;
    memset(block, 0, BLOCK);
    TRY(gf_file_read_at(err, t->fd, t->path, t->next, block, whole ? BLOCK : (size_t)(t->size - t->next)));
    h->end = is_zero(block);
    if (h->end) {
        /* A zero block is at t->next: the rest must be zeros, too. */
        FAIL_IF(err, t->size - t->next > END_MAX, GLOFND_E_FORMAT,
                "'%.300s' is not complete: from byte %llu on it is zeros, for %llu "
                "bytes; copy or download it again, or leave it out of the pattern",
                t->path, (unsigned long long)t->next, (unsigned long long)(t->size - t->next));
        for (uint64_t at = t->next; at < t->size; at += BLOCK) {
            const size_t n = t->size - at < BLOCK ? (size_t)(t->size - at) : BLOCK;
            memset(block, 0, BLOCK);
            TRY(gf_file_read_at(err, t->fd, t->path, at, block, n));
            FAIL_IF(err, !is_zero(block), GLOFND_E_FORMAT,
                    "'%.350s' continues after its end mark, at byte %llu: two tars in one file? "
                    "Give each its own",
                    t->path, (unsigned long long)at);
        }
        return GLOFND_OK;
    }
    if (!whole) return cut_short(err, t, "inside a header");
    TRY(parse_header(err, t, o, block, h));
    snprintf(where, sizeof where, "inside the member that begins at byte %llu", (unsigned long long)t->next);
    if (h->size > t->size - h->at || whole_blocks(h->size) > t->size - h->at) return cut_short(err, t, where);
    return GLOFND_OK;
}

static glofnd_status next_member(gf_error *err, gf_tar *t, overrides *o, gf_tar_member *m) {
    uint8_t block[BLOCK];
    for (;;) {
        header h;
        TRY(read_header(err, t, o, block, &h));
        if (h.end) return o->pending ? cut_short(err, t, "where a header announces one more member") : GLOFND_OK;
        t->next = h.at + whole_blocks(h.size);
        if (h.type == 'L' || h.type == 'x') {
            TRY(read_extra(err, t, h.type, h.at, h.size, o));
            o->pending = 1;
            continue;
        }
        if (h.type == 'K' || h.type == 'g') continue;
        if (h.type == '0' || h.type == 0 || h.type == '7') { /* a regular file */
            gf_tar_end(t);
            t->name = o->name ? o->name : header_name(block);
            o->name = NULL;
            FAIL_IF(err, !t->name, GLOFND_E_MEMORY, "no memory to read '%.350s'", t->path);
            *m = (gf_tar_member){t->name, h.at, h.size};
            return GLOFND_OK;
        }
        free(o->name);
        *o = (overrides){0};
    }
}

glofnd_status gf_tar_next(gf_error *err, gf_tar *t, gf_tar_member *m) {
    overrides o = {0};
    *m = (gf_tar_member){0};
    const glofnd_status status = next_member(err, t, &o, m);
    free(o.name);
    return status;
}

void gf_tar_header(uint8_t block[BLOCK], const char *name, uint64_t size) {
    memset(block, 0, BLOCK);
    snprintf((char *)block + NAME_AT, 100, "%s", name);
    strcpy((char *)block + MODE_AT, "0000644");
    strcpy((char *)block + MODE_AT + 8, "0000000");
    strcpy((char *)block + MODE_AT + 16, "0000000");
    snprintf((char *)block + SIZE_AT, 12, "%011llo", (unsigned long long)size & 077777777777u);
    strcpy((char *)block + TIME_AT, "00000000000");
    block[TYPE_AT] = '0';
    memcpy(block + MAGIC_AT, "ustar\00000", 8);
    snprintf((char *)block + SUM_AT, 8, "%06o", checksum(block));
    block[SUM_AT + 7] = ' ';
}

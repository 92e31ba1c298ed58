/* jpeg_plain.c - see jpeg_plain.h. Markers and tables are those of ITU-T T.81. */
#include "image/jpeg_plain.h"

#include <string.h>

enum { SOI = 0xd8, EOI = 0xd9, SOS = 0xda, DQT = 0xdb, DRI = 0xdd, DHT = 0xc4, SOF0 = 0xc0, RST0 = 0xd0, RST7 = 0xd7 };
enum { APP0 = 0xe0, APP14 = 0xee, APP15 = 0xef, COM = 0xfe };
enum { COMPONENTS = 3, TABLES = 2, QUANTIZERS = 4, SYMBOLS_MAX = 256, CODE_BITS = 16, DC_MAX = 11, AC_MAX = 10 };

/* APP0 of JFIF 1.1: the components are Y, Cb, Cr. */
static const uint8_t jfif[] = {0xff, APP0, 0, 16, 'J', 'F', 'I', 'F', 0, 1, 1, 0, 0, 1, 0, 1, 0, 0};

typedef struct parse {
    const uint8_t *bytes;
    size_t size, at;
    gf_plain_jpeg *out;
    int is_jfif, has_adobe, adobe_transform;
    int has_frame;
    uint8_t id[COMPONENTS], quantizer[COMPONENTS];
    int across, down;            /* sampling of Y; those of the colours are 1 */
    unsigned quantizers, dc, ac; /* bits: tables that are defined */
    unsigned interval;           /* MCUs between restart markers; 0: none */
} parse;

static unsigned big16(const uint8_t *p) { return (unsigned)p[0] << 8 | p[1]; }

/* ----- tables ----- */

static int read_quantizers(parse *p, const uint8_t *body, size_t n) {
    for (; n > 0; body += 65, n -= 65) {
        if (n < 65 || body[0] >= QUANTIZERS) return 0; /* its high half: 16-bit values, not of baseline */
        for (int i = 1; i <= 64; i++)
            if (body[i] == 0) return 0;
        p->quantizers |= 1u << body[0];
    }
    return 1;
}

/* Symbols are sizes of numbers: of 8-bit images DC has at most 11 bits, AC 10. */
static int is_symbol(int ac, uint8_t s) { return ac ? (s & 15) <= AC_MAX : s <= DC_MAX; }

/* One table; bytes of it, 0: it is wrong. Codes are counted up as T.81 makes them: they must fit in their bits. */
static size_t read_codes(const uint8_t *body, size_t n) {
    unsigned code = 0, symbols = 0;
    if (n < 1 + CODE_BITS) return 0;
    for (int bits = 1; bits <= CODE_BITS; bits++) {
        code += body[bits];
        symbols += body[bits];
        if (code > 1u << bits) return 0;
        code <<= 1;
    }
    if (symbols < 1 || symbols > SYMBOLS_MAX || n - 1 - CODE_BITS < symbols) return 0;
    for (unsigned i = 0; i < symbols; i++)
        if (!is_symbol(body[0] >> 4, body[1 + CODE_BITS + i])) return 0;
    return 1 + CODE_BITS + symbols;
}

static int read_huffman(parse *p, const uint8_t *body, size_t n) {
    while (n > 0) {
        const int ac = body[0] >> 4, table = body[0] & 15;
        const size_t used = ac < 2 && table < TABLES ? read_codes(body, n) : 0;
        if (used == 0) return 0;
        *(ac ? &p->ac : &p->dc) |= 1u << table;
        body += used;
        n -= used;
    }
    return 1;
}

/* ----- frame and scan ----- */

static int read_frame(parse *p, const uint8_t *body, size_t n) {
    if (p->has_frame || n != 6 + 3 * COMPONENTS || body[0] != 8 || body[5] != COMPONENTS) return 0;
    p->out->height = (int)big16(body + 1);
    p->out->width = (int)big16(body + 3);
    p->across = body[7] >> 4;
    p->down = body[7] & 15;
    if (p->out->width < 1 || p->out->height < 1 || p->across < 1 || p->across > 2 || p->down < 1 || p->down > 2) return 0;
    for (int k = 0; k < COMPONENTS; k++) {
        p->id[k] = body[6 + 3 * k];
        p->quantizer[k] = body[8 + 3 * k];
        if ((k > 0 && body[7 + 3 * k] != 0x11) || p->quantizer[k] >= QUANTIZERS) return 0;
    }
    p->has_frame = 1;
    return p->id[0] != p->id[1] && p->id[0] != p->id[2] && p->id[1] != p->id[2];
}

static int read_scan(const parse *p, const uint8_t *body, size_t n) {
    if (!p->has_frame || n != 4 + 2 * COMPONENTS || body[0] != COMPONENTS) return 0;
    for (int k = 0; k < COMPONENTS; k++) {
        const uint8_t id = body[1 + 2 * k], tables = body[2 + 2 * k];
        const int known = (tables >> 4) < TABLES && (tables & 15) < TABLES && p->dc >> (tables >> 4) & 1 &&
                          p->ac >> (tables & 15) & 1 && p->quantizers >> p->quantizer[k] & 1;
        if (id != p->id[k] || !known) return 0;
    }
    return body[7] == 0 && body[8] == 63 && body[9] == 0;
}

/* As libjpeg decides. */
static int is_ycc(const parse *p) {
    if (p->has_adobe && p->adobe_transform != 1) return 0;
    return p->is_jfif || p->has_adobe || (p->id[0] == 1 && p->id[1] == 2 && p->id[2] == 3);
}

/* ----- entropy-coded data ----- */

static uint64_t mcus_of(const parse *p) {
    const unsigned wide = 8u * (unsigned)p->across, tall = 8u * (unsigned)p->down;
    return (uint64_t)(((unsigned)p->out->width + wide - 1) / wide) * (((unsigned)p->out->height + tall - 1) / tall);
}

/* Data from p->at up to EOI, which it includes; 0: there is none, or another marker comes first. A block has two codes, so two
 * bits, at least. */
static size_t scan_size(const parse *p) {
    const uint8_t *begin = p->bytes + p->at, *end = p->bytes + p->size, *c = begin;
    const uint64_t mcus = mcus_of(p), blocks = mcus * (uint64_t)(p->across * p->down + 2);
    const uint64_t restarts = p->interval ? (mcus - 1) / p->interval : 0;
    uint64_t seen = 0;
    while ((c = memchr(c, 0xff, (size_t)(end - c))) && end - c >= 2) {
        if (c[1] == EOI) break;
        if (c[1] >= RST0 && c[1] <= RST7) {
            if (c[1] != RST0 + (int)(seen % 8)) return 0;
            seen++;
        } else if (c[1] != 0) return 0;
        c += 2;
    }
    if (!c || end - c < 2 || seen != restarts || 8 * (uint64_t)(c - begin) < 2 * blocks) return 0;
    return (size_t)(c - begin) + 2;
}

/* ----- segments ----- */

static int keep(parse *p, size_t at, size_t size) {
    if (p->out->segments == GF_PLAIN_SEGMENTS) return 0;
    p->out->segment[p->out->segments++] = (gf_jpeg_segment){at, size};
    p->out->size += size;
    return 1;
}

static void read_application(parse *p, uint8_t marker, const uint8_t *body, size_t n) {
    if (marker == APP0 && n >= 14 && memcmp(body, "JFIF", 5) == 0) p->is_jfif = 1;
    if (marker == APP14 && n >= 12 && memcmp(body, "Adobe", 5) == 0) {
        p->has_adobe = 1;
        p->adobe_transform = body[11];
    }
}

/* 1: the segment is sound, and kept if it is needed. */
static int read_segment(parse *p, uint8_t marker, size_t at, const uint8_t *body, size_t n) {
    switch (marker) {
    case DQT: return read_quantizers(p, body, n) && keep(p, at, n + 4);
    case DHT: return read_huffman(p, body, n) && keep(p, at, n + 4);
    case SOF0: return read_frame(p, body, n) && keep(p, at, n + 4);
    case DRI:
        if (n != 2) return 0;
        p->interval = big16(body);
        return keep(p, at, n + 4);
    default: read_application(p, marker, body, n); return (marker >= APP0 && marker <= APP15) || marker == COM;
    }
}

static int read_file(parse *p) {
    if (p->size < 4 || p->bytes[0] != 0xff || p->bytes[1] != SOI) return 0;
    for (p->at = 2; p->size - p->at >= 4;) {
        const uint8_t *s = p->bytes + p->at;
        const size_t length = big16(s + 2);
        if (s[0] == 0xff && s[1] == 0xff) { /* a fill byte */
            p->at++;
            continue;
        }
        if (s[0] != 0xff || length < 2 || p->size - p->at - 2 < length) return 0;
        const size_t at = p->at;
        p->at += 2 + length;
        if (s[1] == SOS) {
            if (!read_scan(p, s + 4, length - 2) || !is_ycc(p)) return 0;
            const size_t data = scan_size(p);
            return data > 0 && keep(p, at, 2 + length + data);
        }
        if (!read_segment(p, s[1], at, s + 4, length - 2)) return 0;
    }
    return 0;
}

int gf_jpeg_is_plain(const uint8_t *bytes, size_t size, gf_plain_jpeg *out) {
    parse p = {.bytes = bytes, .size = size, .out = out};
    *out = (gf_plain_jpeg){.size = 2 + sizeof jfif};
    return read_file(&p);
}

void gf_jpeg_write_plain(const gf_plain_jpeg *p, const uint8_t *bytes, uint8_t *to) {
    *to++ = 0xff;
    *to++ = SOI;
    memcpy(to, jfif, sizeof jfif);
    to += sizeof jfif;
    for (int i = 0; i < p->segments; i++) {
        memcpy(to, bytes + p->segment[i].at, p->segment[i].size);
        to += p->segment[i].size;
    }
}

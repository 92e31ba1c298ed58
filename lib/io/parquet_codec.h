/* parquet_codec.h - what Parquet files are packed with: structs of Thrift, compressed pages, delta encodings. Bytes are
 * hostile. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "util/status.h"

/* ----- Thrift's compact protocol, as far as Parquet needs it -----
 *
 *     for (gf_thrift_struct s = gf_thrift_begin(&t); gf_thrift_field(&t, &s);)
 *         if (s.id == 3) rows = gf_thrift_integer(&t, &s);
 *         else gf_thrift_skip(&t, &s);
 * A failure sticks: from then on numbers are 0, structs and lists have no more members. Every field must be read or skipped. */

typedef struct gf_thrift {
    const uint8_t *start, *at, *end;
    int failed;
} gf_thrift;

enum { GF_THRIFT_TRUE = 1, GF_THRIFT_FALSE, GF_THRIFT_BYTE, GF_THRIFT_I16, GF_THRIFT_I32, GF_THRIFT_I64, GF_THRIFT_DOUBLE };
enum { GF_THRIFT_BINARY = 8, GF_THRIFT_LIST, GF_THRIFT_SET, GF_THRIFT_MAP, GF_THRIFT_STRUCT };

typedef struct gf_thrift_struct { /* the current field of a struct */
    int id, type;
} gf_thrift_struct;

static inline gf_thrift gf_thrift_of(const uint8_t *bytes, size_t n) {
    return (gf_thrift){.start = bytes, .at = bytes, .end = bytes + n};
}

static inline gf_thrift_struct gf_thrift_begin(const gf_thrift *t) {
    (void)t;
    return (gf_thrift_struct){0, 0};
}

/* The next field; 0 at the end of the struct. */
int gf_thrift_field(gf_thrift *t, gf_thrift_struct *s);
/* Any integer or boolean field. */
int64_t gf_thrift_integer(gf_thrift *t, const gf_thrift_struct *s);
/* Bytes of a text or binary field, inside the input. */
const uint8_t *gf_thrift_binary(gf_thrift *t, const gf_thrift_struct *s, size_t *n);
/* Number of elements of a list field, all of type `type`; each takes at least one byte of what is left. */
int64_t gf_thrift_list(gf_thrift *t, const gf_thrift_struct *s, int type);
/* 1 if the field is a struct, whose fields follow. */
int gf_thrift_enter(gf_thrift *t, const gf_thrift_struct *s);
void gf_thrift_skip(gf_thrift *t, const gf_thrift_struct *s);

/* A number in groups of seven bits, the lowest first; moves *at behind it. 0: it ends too late, or has more than `bits`. */
int gf_varint_take(const uint8_t **at, const uint8_t *end, int bits, uint64_t *x);

/* ----- Snappy's raw format: the size, then literals and copies of what is already there ----- */

/* Fills out [n]. 1: done; 0: the bytes are corrupt, or hold another number than n. Reads and writes nothing outside. */
int gf_snappy_decode(const uint8_t *in, size_t bytes, uint8_t *out, size_t n);

/* ----- LZ4's block format: literals and copies of what is already there, in turn ----- */

/* Fills out [n]. 1: done; 0: the bytes are corrupt, or hold another number than n. Reads and writes nothing outside. */
int gf_lz4_decode(const uint8_t *in, size_t bytes, uint8_t *out, size_t n);

/* ----- delta encodings -----
 *
 * Parquet's delta encodings, value after value: integers as differences in packed bits (DELTA_BINARY_PACKED); texts
 * with such lengths (DELTA_LENGTH_BYTE_ARRAY), and with a common beginning left out (DELTA_BYTE_ARRAY). Reads nothing outside
 * the page. */

typedef struct gf_delta {
    const uint8_t *at, *end;   /* not yet taken */
    uint64_t mini, minis;      /* integers of a miniblock; miniblocks of a block */
    uint64_t left;             /* integers not yet taken */
    uint64_t value, min_delta; /* the next integer if `first`, else the last one; smallest difference of the block */
    const uint8_t *width;      /* [minis] bits of a difference in each miniblock */
    uint64_t next_mini;        /* of the block */
    const uint8_t *bits;       /* the miniblock */
    uint64_t in_mini, bit;     /* differences left in it, where the next one begins */
    int first;
} gf_delta;

/* 0: the head is corrupt. */
int gf_delta_begin(gf_delta *d, const uint8_t *bytes, size_t n);
/* 0: there is none left, or the bytes are corrupt. */
int gf_delta_next(gf_delta *d, int64_t *out);
/* Start of the bytes behind all integers; NULL: corrupt. */
const uint8_t *gf_delta_end(const gf_delta *d);

typedef struct gf_delta_texts {
    gf_delta prefix, length;
    int with_prefix;
    const uint8_t *at, *end; /* bytes of the texts */
    uint8_t *last;           /* [end - at] at first: the last text, with a prefix; borrowed */
    size_t last_n;
} gf_delta_texts;

/* 0: corrupt. Bytes that `last` must have: *last_bytes; set it before the first text is taken. */
int gf_delta_texts_begin(gf_delta_texts *t, const uint8_t *bytes, size_t n, int with_prefix, size_t *last_bytes);
/* *text is valid until the next call. */
int gf_delta_texts_next(gf_delta_texts *t, const uint8_t **text, size_t *n);

/* ----- unpacking of pages: none, Snappy, LZ4, gzip, Zstandard ----- */

enum {
    GF_CODEC_NONE,
    GF_CODEC_SNAPPY,
    GF_CODEC_GZIP,
    GF_CODEC_LZO,
    GF_CODEC_BROTLI,
    GF_CODEC_LZ4,
    GF_CODEC_ZSTD,
    GF_CODEC_LZ4_RAW
};

/* E_UNSUPPORTED: this build, or this reader, cannot unpack the codec; the text says what to do. `where` names file and column. */
glofnd_status gf_page_codec_check(gf_error *err, const char *where, int64_t codec);
/* E_FORMAT if `packed` bytes cannot become n: before memory is taken for them. */
glofnd_status gf_page_codec_bound(gf_error *err, const char *where, int codec, size_t packed, size_t n);
/* Fills out [n] from in [packed]: E_FORMAT if they do not unpack to exactly n bytes. */
glofnd_status gf_page_unpack(gf_error *err, const char *where, int codec, const uint8_t *in, size_t packed, uint8_t *out,
                             size_t n);
/* The CRC-32 that a page may state. */
uint32_t gf_page_crc(const uint8_t *in, size_t n);

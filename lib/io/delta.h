/* delta.h - Parquet's delta encodings, value after value: integers as differences in packed bits (DELTA_BINARY_PACKED); texts
 * with such lengths (DELTA_LENGTH_BYTE_ARRAY), and with a common beginning left out (DELTA_BYTE_ARRAY). Reads nothing outside
 * the page. */
#pragma once

#include <stddef.h>
#include <stdint.h>

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

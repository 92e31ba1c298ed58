/* parquet_values.h - values of a Parquet page: the hybrid of repeated and bit-packed integers, which holds levels and places in a
 * dictionary; plain values; dictionaries; bytes split by their place; differences (delta.h). Reads nothing outside the page. */
#pragma once

#include "io/delta.h"
#include "util/status.h"

enum {
    GF_PARQUET_BOOLEAN,
    GF_PARQUET_INT32,
    GF_PARQUET_INT64,
    GF_PARQUET_INT96,
    GF_PARQUET_FLOAT,
    GF_PARQUET_DOUBLE,
    GF_PARQUET_BYTES,
    GF_PARQUET_FIXED_BYTES
};

enum { GF_ENCODING_PLAIN = 0, GF_ENCODING_PLAIN_DICTIONARY = 2, GF_ENCODING_RLE = 3, GF_ENCODING_DICTIONARY = 8 };
enum { GF_ENCODING_DELTA = 5, GF_ENCODING_DELTA_LENGTH = 6, GF_ENCODING_DELTA_TEXT = 7, GF_ENCODING_SPLIT = 9 };

typedef struct gf_hybrid {
    const uint8_t *at, *end;
    int width;               /* bits of an integer, at most 32 */
    uint64_t repeat, packed; /* integers left of a run: of one value; packed ones */
    uint32_t value;
    uint64_t bit; /* of the packed ones, where the next begins, from `at` */
} gf_hybrid;

gf_hybrid gf_hybrid_of(const uint8_t *bytes, size_t n, int width);
/* out [n]. 0: the bytes end before, or are corrupt. */
int gf_hybrid_take(gf_hybrid *h, uint32_t *out, size_t n);

typedef struct gf_dictionary { /* plain values */
    const uint8_t *bytes;
    uint32_t *at; /* [count + 1] where each begins, of texts; NULL: all have one width */
    size_t count;
} gf_dictionary;

/* Of n bytes with `count` values of the type; `width` bytes each, 0: texts. 1: done; 0: corrupt; -1: no memory. */
int gf_dictionary_init(gf_dictionary *d, const uint8_t *bytes, size_t n, size_t count, int width);
void gf_dictionary_free(gf_dictionary *d); /* a zeroed one is fine */

typedef struct gf_page_values {
    int encoding, type, width, half;
    const uint8_t *at, *end; /* not yet taken */
    size_t count, next;      /* values of a split page */
    gf_delta delta;          /* integers */
    gf_delta_texts texts;    /* of both delta encodings */
    gf_hybrid place;         /* in the dictionary */
    const gf_dictionary *dict;
} gf_page_values;

/* Numbers of any type but INT96. 0: the page does not have so many values, or is corrupt. */
int gf_page_floats(gf_page_values *v, float *out, size_t n);
/* Integers, of INT32 and INT64. */
int gf_page_integer(gf_page_values *v, int64_t *out);
/* Texts; *text points into the page or the dictionary. */
int gf_page_text(gf_page_values *v, const uint8_t **text, size_t *n);

/* parquet.h - Parquet files. The reader takes the subset that holds embeddings: columns of numbers, of lists of numbers and of
 * texts, as pyarrow, Spark and img2dataset write them; the writer, at the end of this file, writes flat tables.
 * Bytes are hostile: sizes are checked before memory is taken, and messages name the file, the row group, the column and the row.
 *
 *     gf_parquet_open(err, path, &f);                        reads and checks the footer
 *     gf_parquet_find(err, &f, "emb", &leaf);
 *     gf_parquet_list_length(err, &f, leaf, &dim);
 *     gf_parquet_cursor_init(&c, &f, leaf);
 *     gf_parquet_seek(err, &c, row);                         any row of lists; going on from the last one costs nothing
 *     gf_parquet_floats(err, &c, rows, dim, out);            the next rows
 *     gf_parquet_cursor_free(&c);   gf_parquet_close(&f);
 *
 * Read: data pages of version 1 and 2; PLAIN, dictionary, delta and BYTE_STREAM_SPLIT values; no compression, Snappy, LZ4_RAW,
 * gzip (with zlib) and Zstandard (with libzstd). A list that is null or empty, and a null in a list, are NaN. Refused, with text:
 * encrypted files, nested lists, lists of different lengths, Brotli.
 * Several cursors of one file may be used by several threads.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "io/parquet_codec.h"
#include "util/status.h"
#include "util/string_list.h"

/* ----- values of a page -----
 *
 * The hybrid of repeated and bit-packed integers, which holds levels and places in a
 * dictionary; plain values; dictionaries; bytes split by their place; differences. Reads nothing outside the page. */

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

typedef struct gf_dictionary { /* plain values */
    const uint8_t *bytes;
    uint32_t *at; /* [count + 1] where each begins, of texts; NULL: all have one width */
    size_t count;
} gf_dictionary;

typedef struct gf_page_values {
    int encoding, type, width, half;
    const uint8_t *at, *end; /* not yet taken */
    size_t count, next;      /* values of a split page */
    gf_delta delta;          /* integers */
    gf_delta_texts texts;    /* of both delta encodings */
    gf_hybrid place;         /* in the dictionary */
    const gf_dictionary *dict;
} gf_page_values;

/* ----- files and columns ----- */

typedef struct gf_parquet_leaf { /* a column that has values */
    char *path;                  /* names from the top, with points between: "emb.list.element" */
    size_t top;                  /* bytes of the first name */
    int type;                    /* GF_PARQUET_* */
    int width;                   /* bytes of a value; 0: any number */
    int half;                    /* 1: two bytes are a float16 */
    int scaled;                  /* 1: an integer is a decimal, date, time or timestamp */
    int max_def, max_rep;        /* levels of a value that is there; of lists around it */
    int map;                     /* 1: keys or values of a map */
    int list_def;                /* definition level of an element of the innermost list, which may be null; 0: in no list */
} gf_parquet_leaf;

typedef struct gf_parquet_chunk { /* a column in a row group */
    int64_t codec, type;
    int64_t values; /* with those that are null */
    uint64_t start, bytes;
} gf_parquet_chunk;

typedef struct gf_parquet {
    char *path;
    int fd;                  /* -1: `bytes` is the file */
    const uint8_t *bytes;    /* borrowed */
    uint64_t size, data;     /* of the file; of it without the footer */
    int64_t rows;            /* in all row groups */
    gf_parquet_leaf *leaf;   /* [leaves] */
    gf_parquet_chunk *chunk; /* [groups][leaves] */
    int64_t *first;          /* [groups + 1] row where a group begins; the last: rows */
    int64_t leaves, groups;
} gf_parquet;

/* E_IO: it cannot be read or is not a regular file. E_FORMAT: it is not as above. On failure *out is unchanged. */
glofnd_status gf_parquet_open(gf_error *err, const char *path, gf_parquet *out);
/* The same of bytes [n], which must stay. */
glofnd_status gf_parquet_open_bytes(gf_error *err, const char *name, const uint8_t *bytes, size_t n, gf_parquet *out);
void gf_parquet_close(gf_parquet *f); /* a zeroed one is fine */

int gf_parquet_is_real(const gf_parquet_leaf *l); /* FLOAT, DOUBLE or float16 */
int gf_parquet_is_integer(const gf_parquet_leaf *l);
/* The column by the name of its field, or by its whole path. NULL: the only list of floating-point numbers; where
 * there is none, of integers. */
glofnd_status gf_parquet_find(gf_error *err, const gf_parquet *f, const char *name, int64_t *leaf);
#define GF_PARQUET_LIST_MAX (1 << 20) /* numbers of a row */
/* Numbers in the list of the first row that has one. Its column must be a list of FLOAT, DOUBLE, float16, INT32 or INT64. */
glofnd_status gf_parquet_list_length(gf_error *err, const gf_parquet *f, int64_t leaf, int64_t *length);

enum { GF_PARQUET_BATCH = 1024 }; /* levels at a time */

typedef struct gf_parquet_cursor {
    const gf_parquet *f;
    int64_t leaf, group;   /* group -1: none is entered */
    int64_t row;           /* next one to take */
    int64_t place;         /* numbers of it that were taken */
    uint64_t at, end;      /* bytes of the chunk that were not read */
    int64_t left;          /* levels of the chunk that are on later pages */
    int64_t page_left;     /* of the page, that were not read */
    int64_t level, levels; /* lists: next one of those that were read, and their number */
    uint32_t rep_level[GF_PARQUET_BATCH], def_level[GF_PARQUET_BATCH];
    uint8_t *packed, *page, *dictionary, *last_text;
    size_t packed_capacity, page_capacity, dictionary_capacity, last_text_capacity;
    int null_is_empty; /* texts: a null is an empty one instead of an error */
    gf_dictionary dict;
    gf_hybrid rep, def;
    gf_page_values values;
    char where[360]; /* file, row group and column, for messages */
} gf_parquet_cursor;

void gf_parquet_cursor_init(gf_parquet_cursor *c, const gf_parquet *f, int64_t leaf);
void gf_parquet_cursor_free(gf_parquet_cursor *c); /* a zeroed one is fine */
glofnd_status gf_parquet_seek(gf_error *err, gf_parquet_cursor *c, int64_t row);
/* out [rows][dim]: lists of exactly dim numbers; a row without a list is NaN. Of a column without lists: dim is 1. */
glofnd_status gf_parquet_floats(gf_error *err, gf_parquet_cursor *c, int64_t rows, int64_t dim, float *out);
/* Appends a text per row: of a column of texts or integers. */
glofnd_status gf_parquet_texts(gf_error *err, gf_parquet_cursor *c, int64_t rows, gf_string_list *out);

/* ----- writing -----
 *
 * Parquet files of flat tables: every column is there in every row, values are plain and not compressed, data
 * pages are of version 1. So any reader of Parquet opens them, and nothing but libc is needed.
 *
 *     gf_parquet_out_begin(&w, columns, count, put, user);
 *     gf_parquet_out_add(&w, rows, values);           a page of each column; row groups are closed by their size
 *     gf_parquet_out_end(&w);                         the footer
 *     gf_parquet_out_free(&w);
 * Bytes go to put(), in order. The same calls give the same bytes.
 */

typedef struct gf_byte_buffer { /* growing bytes; out of memory sets `failed` */
    uint8_t *at;
    size_t used, capacity;
    int failed;
} gf_byte_buffer;

void gf_byte_buffer_add(gf_byte_buffer *b, const void *bytes, size_t n);
void gf_byte_buffer_free(gf_byte_buffer *b);

typedef enum gf_column_kind {
    GF_COLUMN_INT32,
    GF_COLUMN_INT64,
    GF_COLUMN_FLOAT,
    GF_COLUMN_FLAG, /* BOOLEAN; a byte per value in what is added */
    GF_COLUMN_TEXT  /* UTF-8; the length in 4 bytes, then the bytes */
} gf_column_kind;

enum { GF_COLUMN_NAME = 64 };

typedef struct gf_table_column {
    char name[GF_COLUMN_NAME];
    gf_column_kind kind;
} gf_table_column;

typedef struct gf_parquet_out {
    const gf_table_column *column; /* [columns] borrowed */
    int columns;
    void (*put)(void *user, const void *bytes, size_t n);
    void *user;
    gf_byte_buffer *chunk; /* [columns] pages of the row group */
    gf_byte_buffer groups; /* finished row groups, as the footer states them */
    gf_byte_buffer flags;  /* scratch: packed bits */
    int64_t rows, group_rows, group_count;
    uint64_t offset;    /* bytes that were put */
    const char *failed; /* NULL, or why; nothing is put from then on */
} gf_parquet_out;

void gf_parquet_out_begin(gf_parquet_out *w, const gf_table_column *column, int columns,
                          void (*put)(void *user, const void *bytes, size_t n), void *user);
/* value [columns]: `rows` values of each, little endian. */
void gf_parquet_out_add(gf_parquet_out *w, int64_t rows, const gf_byte_buffer *value);
void gf_parquet_out_end(gf_parquet_out *w);
void gf_parquet_out_free(gf_parquet_out *w); /* a zeroed one is fine */

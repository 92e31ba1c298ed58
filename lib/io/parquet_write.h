/* parquet_write.h - Parquet files of flat tables: every column is there in every row, values are plain and not compressed, data
 * pages are of version 1. So any reader of Parquet opens them, and nothing but libc is needed. io/parquet/ is the reader.
 *
 *     gf_parquet_out_begin(&w, columns, count, put, user);
 *     gf_parquet_out_add(&w, rows, values);           a page of each column; row groups are closed by their size
 *     gf_parquet_out_end(&w);                         the footer
 *     gf_parquet_out_free(&w);
 * Bytes go to put(), in order. The same calls give the same bytes.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

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

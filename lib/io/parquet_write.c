/* parquet_write.c - see parquet.h. Structs of the footer and of pages are Thrift's compact protocol: a field is a byte
 * (distance from the field before, type), then its value; integers are varints with the sign in the lowest bit. */
#include "io/parquet.h"

#include <stdlib.h>
#include <string.h>

#include "util/array.h"

enum { GROUP_BYTES = 64 << 20 }; /* a row group is closed beyond this */
enum { T_I32 = 5, T_I64 = 6, T_BINARY = 8, T_LIST = 9, T_STRUCT = 12 };
enum { PLAIN = 0, RLE = 3, NOT_COMPRESSED = 0, REQUIRED = 0, UTF8 = 0 };

static const int physical_type[] = {1, 2, 4, 0, 6}; /* by gf_column_kind: INT32, INT64, FLOAT, BOOLEAN, BYTE_ARRAY */

void gf_byte_buffer_add(gf_byte_buffer *b, const void *bytes, size_t n) {
    if (!b->failed && b->capacity - b->used < n) b->failed = !gf_grow(&b->at, &b->capacity, b->used + n, 1);
    if (b->failed || n == 0) return;
    memcpy(b->at + b->used, bytes, n);
    b->used += n;
}

void gf_byte_buffer_free(gf_byte_buffer *b) {
    free(b->at);
    *b = (gf_byte_buffer){0};
}

/* ----- Thrift ----- */

static void put_byte(gf_byte_buffer *b, int x) {
    const uint8_t byte = (uint8_t)x;
    gf_byte_buffer_add(b, &byte, 1);
}

static void put_varint(gf_byte_buffer *b, uint64_t x) {
    for (; x > 127; x >>= 7) put_byte(b, (int)(x & 127) | 128);
    put_byte(b, (int)x);
}

static void put_integer(gf_byte_buffer *b, int64_t x) { put_varint(b, (uint64_t)x << 1 ^ (x < 0 ? UINT64_MAX : 0)); }

/* `step`: distance from the id of the field before. */
static void put_field(gf_byte_buffer *b, int step, int type) { put_byte(b, step << 4 | type); }

static void put_number(gf_byte_buffer *b, int step, int type, int64_t x) {
    put_field(b, step, type);
    put_integer(b, x);
}

static void put_text(gf_byte_buffer *b, const char *text) {
    put_varint(b, strlen(text));
    gf_byte_buffer_add(b, text, strlen(text));
}

static void put_list(gf_byte_buffer *b, int type, int64_t n) {
    if (n < 15) put_byte(b, (int)n << 4 | type);
    else {
        put_byte(b, 15 << 4 | type);
        put_varint(b, (uint64_t)n);
    }
}

/* ----- pages ----- */

static const gf_byte_buffer *pack_flags(gf_byte_buffer *to, const gf_byte_buffer *flags) {
    to->used = 0;
    for (size_t i = 0; i < flags->used; i += 8) {
        int byte = 0;
        for (size_t k = 0; k < 8 && i + k < flags->used; k++) byte |= (flags->at[i + k] != 0) << k;
        put_byte(to, byte);
    }
    return to;
}

/* ----- row groups ----- */

static void put_out(gf_parquet_out *w, const void *bytes, size_t n) {
    if (w->failed) return;
    w->put(w->user, bytes, n);
    w->offset += n;
}

static void close_group(gf_parquet_out *w) {
    gf_byte_buffer *b = &w->groups;
    int64_t bytes = 0;
    if (w->group_rows == 0 || w->failed) return;
    put_field(b, 1, T_LIST);
    put_list(b, T_STRUCT, w->columns);
    for (int c = 0; c < w->columns; c++) {
        const uint64_t at = w->offset;
        const gf_byte_buffer *chunk = &w->chunk[c];
        put_number(b, 2, T_I64, (int64_t)at);
        put_field(b, 1, T_STRUCT);
        put_number(b, 1, T_I32, physical_type[w->column[c].kind]);
        put_field(b, 1, T_LIST);
        put_list(b, T_I32, 2);
        put_integer(b, PLAIN);
        put_integer(b, RLE);
        put_field(b, 1, T_LIST);
        put_list(b, T_BINARY, 1);
        put_text(b, w->column[c].name);
        put_number(b, 1, T_I32, NOT_COMPRESSED);
        put_number(b, 1, T_I64, w->group_rows);
        put_number(b, 1, T_I64, (int64_t)chunk->used);
        put_number(b, 1, T_I64, (int64_t)chunk->used);
        put_number(b, 2, T_I64, (int64_t)at);
        put_byte(b, 0);
        put_byte(b, 0);
        put_out(w, w->chunk[c].at, w->chunk[c].used);
        bytes += (int64_t)w->chunk[c].used;
        w->chunk[c].used = 0;
    }
    put_number(b, 1, T_I64, bytes);
    put_number(b, 1, T_I64, w->group_rows);
    put_byte(b, 0);
    if (b->failed) w->failed = "no memory for the footer";
    w->rows += w->group_rows, w->group_count++;
    w->group_rows = 0;
}

/* ----- the file ----- */

void gf_parquet_out_begin(gf_parquet_out *w, const gf_table_column *column, int columns,
                          void (*put)(void *user, const void *bytes, size_t n), void *user) {
    *w = (gf_parquet_out){.column = column, .columns = columns, .put = put, .user = user};
    w->chunk = calloc((size_t)columns, sizeof *w->chunk);
    if (!w->chunk) w->failed = "no memory for columns";
    put_out(w, "PAR1", 4);
}

void gf_parquet_out_add(gf_parquet_out *w, int64_t rows, const gf_byte_buffer *value) {
    size_t bytes = 0;
    if (rows == 0) return;
    for (int c = 0; c < w->columns && !w->failed; c++) {
        const gf_byte_buffer *page_value = &value[c];
        const gf_byte_buffer *v = w->column[c].kind == GF_COLUMN_FLAG ? pack_flags(&w->flags, page_value) : page_value;
        if (v->used > INT32_MAX || rows > INT32_MAX) {
            w->failed = "a page of more than 2^31 bytes: some names are too long";
        } else {
            gf_byte_buffer *b = &w->chunk[c];
            const size_t page_bytes = v->used;
            put_number(b, 1, T_I32, 0); /* a data page */
            put_number(b, 1, T_I32, (int64_t)page_bytes);
            put_number(b, 1, T_I32, (int64_t)page_bytes); /* compressed */
            put_field(b, 2, T_STRUCT);
            put_number(b, 1, T_I32, rows);
            put_number(b, 1, T_I32, PLAIN);
            put_number(b, 1, T_I32, RLE); /* levels: there are none */
            put_number(b, 1, T_I32, RLE);
            put_byte(b, 0);
            put_byte(b, 0);
            gf_byte_buffer_add(&w->chunk[c], v->at, v->used);
            if (page_value->failed || v->failed || w->chunk[c].failed) w->failed = "no memory for a row group";
        }
        bytes += w->chunk[c].used;
    }
    w->group_rows += rows;
    if (bytes >= GROUP_BYTES) close_group(w);
}

void gf_parquet_out_end(gf_parquet_out *w) {
    gf_byte_buffer b = {0};
    close_group(w);
    put_number(&b, 1, T_I32, 1); /* version of the format */
    put_field(&b, 1, T_LIST);
    put_list(&b, T_STRUCT, w->columns + 1);
    put_field(&b, 4, T_BINARY);
    put_text(&b, "schema");
    put_number(&b, 1, T_I32, w->columns);
    put_byte(&b, 0);
    for (int c = 0; c < w->columns; c++) {
        put_number(&b, 1, T_I32, physical_type[w->column[c].kind]);
        put_number(&b, 2, T_I32, REQUIRED);
        put_field(&b, 1, T_BINARY);
        put_text(&b, w->column[c].name);
        if (w->column[c].kind == GF_COLUMN_TEXT) {
            put_number(&b, 2, T_I32, UTF8);
            put_field(&b, 4, T_STRUCT); /* logical type: STRING, a struct without fields */
            put_field(&b, 1, T_STRUCT);
            put_byte(&b, 0);
            put_byte(&b, 0);
        }
        put_byte(&b, 0);
    }
    put_number(&b, 1, T_I64, w->rows);
    put_field(&b, 1, T_LIST);
    put_list(&b, T_STRUCT, w->group_count);
    gf_byte_buffer_add(&b, w->groups.at, w->groups.used);
    put_field(&b, 2, T_BINARY);
    put_text(&b, "glofnd");
    put_byte(&b, 0);
    const uint32_t n = (uint32_t)b.used;
    const uint8_t size[4] = {(uint8_t)n, (uint8_t)(n >> 8), (uint8_t)(n >> 16), (uint8_t)(n >> 24)};
    gf_byte_buffer_add(&b, size, sizeof size);
    gf_byte_buffer_add(&b, "PAR1", 4);
    if (b.failed && !w->failed) w->failed = "no memory for the footer";
    put_out(w, b.at, b.used);
    gf_byte_buffer_free(&b);
}

void gf_parquet_out_free(gf_parquet_out *w) {
    for (int c = 0; w->chunk && c < w->columns; c++) gf_byte_buffer_free(&w->chunk[c]);
    free(w->chunk);
    gf_byte_buffer_free(&w->groups);
    gf_byte_buffer_free(&w->flags);
    *w = (gf_parquet_out){0};
}

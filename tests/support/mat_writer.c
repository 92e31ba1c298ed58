/* mat_writer.c - see mat_writer.h. */
#include "support/mat_writer.h"

#include <stdlib.h>
#include <string.h>
#ifdef GF_HAVE_ZLIB
#include <zlib.h>
#endif

enum { INT8 = 1, UINT8 = 2, UINT16 = 4, INT32 = 5, UINT32 = 6, DOUBLE = 9, MATRIX = 14, COMPRESSED = 15 };
enum { CELL = 1, STRUCT = 2, CHAR = 4, CLASS_DOUBLE = 6, CLASS_UINT8 = 9 };

void mat_free(mat_bytes *b) {
    free(b->at);
    *b = (mat_bytes){0};
}

static void put(mat_bytes *b, const void *bytes, size_t n) {
    if (b->n + n > b->capacity) {
        b->capacity = 2 * (b->n + n);
        b->at = realloc(b->at, b->capacity);
        if (!b->at) abort();
    }
    if (n) memcpy(b->at + b->n, bytes, n);
    b->n += n;
}

static void put_u32(mat_bytes *b, uint32_t x) { put(b, (const uint8_t[]){x & 255, x >> 8 & 255, x >> 16 & 255, x >> 24}, 4); }

static void element(mat_bytes *b, uint32_t kind, const void *bytes, size_t n) {
    static const uint8_t zeros[8] = {0};
    put_u32(b, kind);
    put_u32(b, (uint32_t)n);
    put(b, bytes, n);
    if (kind != COMPRESSED && n % 8) put(b, zeros, 8 - n % 8);
}

void mat_header(mat_bytes *b) {
    char text[124];
    memset(text, ' ', sizeof text);
    memcpy(text, "MATLAB 5.0 MAT-file", 19);
    put(b, text, sizeof text);
    put(b, "\x00\x01IM", 4);
}

static mat_bytes begin(uint32_t class, const int32_t *dims, int rank, const char *name) {
    mat_bytes m = {0}, flags = {0};
    put_u32(&flags, class);
    put_u32(&flags, 0);
    element(&m, UINT32, flags.at, flags.n);
    mat_free(&flags);
    for (int i = 0; i < rank; i++) put_u32(&flags, (uint32_t)dims[i]);
    element(&m, INT32, flags.at, flags.n);
    mat_free(&flags);
    element(&m, INT8, name, strlen(name));
    return m;
}

static void end(mat_bytes *b, mat_bytes *m) {
    element(b, MATRIX, m->at, m->n);
    mat_free(m);
}

void mat_array(mat_bytes *b, const char *name, const int32_t *dims, int rank, const uint8_t *x, size_t n) {
    mat_bytes m = begin(CLASS_UINT8, dims, rank, name);
    element(&m, UINT8, x, n);
    end(b, &m);
}

void mat_numbers(mat_bytes *b, const char *name, const double *x, int64_t n, int bytes) {
    mat_bytes m = begin(bytes ? CLASS_UINT8 : CLASS_DOUBLE, (const int32_t[]){1, (int32_t)n}, 2, name), data = {0};
    for (int64_t i = 0; i < n; i++) {
        const uint8_t small = (uint8_t)x[i];
        if (bytes) put(&data, &small, 1);
        else put(&data, &x[i], sizeof x[i]);
    }
    if (bytes && data.n <= 4) { /* inside the tag, as MATLAB writes few bytes */
        put_u32(&m, (uint32_t)UINT8 | (uint32_t)data.n << 16);
        while (data.n < 4) put(&data, "", 1);
        put(&m, data.at, 4);
    } else element(&m, bytes ? UINT8 : DOUBLE, data.at, data.n);
    mat_free(&data);
    end(b, &m);
}

void mat_text(mat_bytes *b, const char *name, const char *text) {
    mat_bytes m = begin(CHAR, (const int32_t[]){1, (int32_t)strlen(text)}, 2, name), data = {0};
    for (const char *p = text; *p; p++) put(&data, (const char[]){*p, 0}, 2);
    element(&m, UINT16, data.at, data.n);
    mat_free(&data);
    end(b, &m);
}

void mat_cells(mat_bytes *b, const char *name, int64_t n, const mat_bytes *children) {
    mat_bytes m = begin(CELL, (const int32_t[]){1, (int32_t)n}, 2, name);
    put(&m, children->at, children->n);
    end(b, &m);
}

void mat_structs(mat_bytes *b, const char *name, int64_t n, const char *const *fields, int field_count,
                 const mat_bytes *children) {
    enum { WIDTH = 32 };
    mat_bytes m = begin(STRUCT, (const int32_t[]){1, (int32_t)n}, 2, name), names = {0};
    put_u32(&m, (uint32_t)INT32 | 4u << 16);
    put_u32(&m, WIDTH);
    for (int k = 0; k < field_count; k++) {
        char padded[WIDTH] = {0};
        memcpy(padded, fields[k], strlen(fields[k]));
        put(&names, padded, WIDTH);
    }
    element(&m, INT8, names.at, names.n);
    mat_free(&names);
    put(&m, children->at, children->n);
    end(b, &m);
}

void mat_pack(mat_bytes *b, const mat_bytes *from) {
#ifdef GF_HAVE_ZLIB
    uLongf n = compressBound((uLong)from->n);
    uint8_t *packed = malloc(n);
    if (!packed || compress(packed, &n, from->at, (uLong)from->n) != Z_OK) abort();
    element(b, COMPRESSED, packed, n);
    free(packed);
#else
    put(b, from->at, from->n);
#endif
}

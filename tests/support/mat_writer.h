/* mat_writer.h - MATLAB files of version 5, made byte by byte for tests: numbers, text, cells and structs, plain or packed. */
#pragma once

#include <stddef.h>
#include <stdint.h>

typedef struct mat_bytes { /* all zero: empty */
    uint8_t *at;
    size_t n, capacity;
} mat_bytes;

void mat_free(mat_bytes *b);
void mat_header(mat_bytes *b); /* the first 128 bytes of a file */
/* Elements of kind "matrix". Shapes are [1][n]; numbers are stored as doubles, or with `bytes` as uint8. */
void mat_numbers(mat_bytes *b, const char *name, const double *x, int64_t n, int bytes);
void mat_text(mat_bytes *b, const char *name, const char *text);
/* An array of `rank` dimensions of bytes. */
void mat_array(mat_bytes *b, const char *name, const int32_t *dims, int rank, const uint8_t *x, size_t n);
/* Cells or structs: children [n] or [n][fields] of elements, one behind the other. */
void mat_cells(mat_bytes *b, const char *name, int64_t n, const mat_bytes *children);
void mat_structs(mat_bytes *b, const char *name, int64_t n, const char *const *fields, int field_count,
                 const mat_bytes *children);
/* Appends `from` as a packed element; as it is in builds without zlib. */
void mat_pack(mat_bytes *b, const mat_bytes *from);

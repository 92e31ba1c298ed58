/* npy.h - NumPy .npy files: a strict reader for hostile input and an atomic writer.
 *
 * Read: format versions 1, 2 and 3, rank 0 to 8, the element types below, either order of axes and of bytes: data in memory is
 * always in C order and little endian. Sizes are checked against the bytes that are really there before anything is allocated;
 * bytes after the data are an error. Write: version 1.
 * Messages name the file, what was found and what is expected.
 */
#pragma once

#include "util/status.h"

#define GF_NPY_MAX_RANK 8

/* X(enumerator, descr in the file, bytes of an element, plain name) */
#define GF_NPY_TYPE_LIST(X)    \
    X(F4, "<f4", 4, "float32") \
    X(F8, "<f8", 8, "float64") \
    X(F2, "<f2", 2, "float16") \
    X(I8, "<i8", 8, "int64")   \
    X(I4, "<i4", 4, "int32")   \
    X(U1, "|u1", 1, "uint8")

typedef enum gf_npy_type {
#define GF_NPY_X(name, descr, bytes, plain) GF_NPY_##name,
    GF_NPY_TYPE_LIST(GF_NPY_X)
#undef GF_NPY_X
} gf_npy_type;

typedef struct gf_npy {
    gf_npy_type type;
    int rank;
    int64_t shape[GF_NPY_MAX_RANK];
    int64_t count; /* product of shape; 1 for rank 0 */
    void *data;    /* [count] elements, row-major; never NULL after a successful read */
    /* of a header that was read alone: */
    int swapped, fortran; /* bytes are big endian; the first axis varies fastest. 0 once the data is in memory */
    uint64_t at;          /* byte where the data begins */
} gf_npy;

/* Reads a regular file. On failure *out is unchanged. */
glofnd_status gf_npy_read(gf_error *err, const char *path, gf_npy *out);
/* Only type, shape, count and where the data is, with the sizes checked; data is NULL. To know what a read will take. */
glofnd_status gf_npy_read_header(gf_error *err, const char *path, gf_npy *out);
/* The same as gf_npy_read from memory; `name` is what messages call it. */
glofnd_status gf_npy_decode(gf_error *err, const char *name, const void *bytes, size_t size, gf_npy *out);
/* Texts of an array with one axis ('<U5', '|S5'), as UTF-8, appended to *out; zeros at their end do not count. *texts: 0: the
 * array has numbers, and nothing was read. */
struct gf_string_list;
glofnd_status gf_npy_read_texts(gf_error *err, const char *path, struct gf_string_list *out, int *texts);
/* Frees the data and zeroes *a; NULL and a zeroed array are fine. */
void gf_npy_free(gf_npy *a);

/* Writes a->data (borrowed) to a temporary file beside `path` that replaces it only when complete. `count` is recomputed from
 * the shape; F2 cannot be written. */
glofnd_status gf_npy_write(gf_error *err, const char *path, const gf_npy *a);
/* The same of an array that is made while it is written, some rows at a time; a->data is not used. fill: puts rows
 * [first, first + rows) to `to`. */
typedef void gf_npy_fill(const void *arg, int64_t first, int64_t rows, void *to);
glofnd_status gf_npy_write_rows(gf_error *err, const char *path, const gf_npy *a, gf_npy_fill *fill, const void *arg);

size_t gf_npy_type_bytes(gf_npy_type type);
const char *gf_npy_type_name(gf_npy_type type); /* "float32", ... */
/* Element i in row-major order, converted. gf_npy_i64 truncates floats and gives 0 for what int64 cannot hold. */
double gf_npy_f64(const gf_npy *a, int64_t i);
int64_t gf_npy_i64(const gf_npy *a, int64_t i);
/* Reverses the bytes of each of `count` elements. */
void gf_npy_swap(void *data, int64_t count, size_t bytes);

/* ----- a value for every row or sample, from a file: a .npy array, or a text with a value per line ----- */

typedef struct gf_row_values {
    const char *path;
    /* The array, of any type and shape. */
    glofnd_status (*array)(gf_error *err, void *user, const gf_npy *a);
    /* Or a line without blanks around it; row: counted from 0. */
    glofnd_status (*line)(gf_error *err, void *user, const char *text, int64_t row);
    void *user;
} gf_row_values;

/* *rows: lines, or numbers of the array. */
glofnd_status gf_row_values_read(gf_error *err, const gf_row_values *v, int64_t *rows);

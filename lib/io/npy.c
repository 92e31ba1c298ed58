/* npy.c - reading and writing .npy files; the header's text is parsed in npy_header.c. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "io/npy.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "io/blockfile.h"
#include "io/calls.h"
#include "io/npy_header.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "elements are copied as they lie in the file: little endian");

static const struct {
    const char *descr;
    size_t bytes;
    const char *plain;
} types[] = {
#define GF_NPY_X(name, descr, bytes, plain) {descr, bytes, plain},
    GF_NPY_TYPE_LIST(GF_NPY_X)
#undef GF_NPY_X
};

size_t gf_npy_type_bytes(gf_npy_type type) { return types[type].bytes; }

const char *gf_npy_type_name(gf_npy_type type) { return types[type].plain; }

void gf_npy_free(gf_npy *a) {
    if (!a) return;
    free(a->data);
    memset(a, 0, sizeof *a);
}

/* ----- elements ------------------------------------------------------------------------------------------------- */

/* IEEE half: 1 sign, 5 exponent (bias 15), 10 fraction bits. Built from the value, so no float16 support is needed. */
static double half_to_double(uint16_t h) {
    const int exponent = h >> 10 & 31;
    const double fraction = (double)(h & 1023), sign = h >> 15 ? -1.0 : 1.0;
    if (exponent == 31) return fraction != 0.0 ? __builtin_nan("") : sign * __builtin_inf();
    if (exponent == 0) return sign * fraction * 0x1p-24;
    return sign * (1024.0 + fraction) * (double)(1ull << exponent) * 0x1p-25;
}

double gf_npy_f64(const gf_npy *a, int64_t i) {
    switch (a->type) {
    case GF_NPY_F4: return ((const float *)a->data)[i];
    case GF_NPY_F8: return ((const double *)a->data)[i];
    case GF_NPY_F2: return half_to_double(((const uint16_t *)a->data)[i]);
    case GF_NPY_I8: return (double)((const int64_t *)a->data)[i];
    case GF_NPY_I4: return ((const int32_t *)a->data)[i];
    case GF_NPY_U1: return ((const uint8_t *)a->data)[i];
    }
    return 0.0;
}

int64_t gf_npy_i64(const gf_npy *a, int64_t i) {
    if (a->type == GF_NPY_I8) return ((const int64_t *)a->data)[i];
    const double x = gf_npy_f64(a, i);
    return x >= -0x1p63 && x < 0x1p63 ? (int64_t)x : 0; /* NaN fails both tests */
}

/* ----- read ----------------------------------------------------------------------------------------------------- */

/* `have` data bytes must be exactly what type and shape say. */
static glofnd_status check_size(gf_error *err, const char *name, uint64_t have, const gf_npy *a) {
    const uint64_t need = (uint64_t)a->count * gf_npy_type_bytes(a->type);
    FAIL_IF(err, need > have, GLOFND_E_FORMAT, "%.300s: cut: the header promises %llu bytes of data, the file has %llu", name,
            (unsigned long long)need, (unsigned long long)have);
    FAIL_IF(err, need < have, GLOFND_E_FORMAT, "%.300s: %llu bytes after the data; the header promises %llu", name,
            (unsigned long long)(have - need), (unsigned long long)need);
    FAIL_IF(err, need > SIZE_MAX, GLOFND_E_MEMORY, "%.300s: too large for this machine", name);
    return GLOFND_OK;
}

/* Only after that is memory taken. */
static glofnd_status allocate_data(gf_error *err, const char *name, uint64_t have, gf_npy *a) {
    TRY(check_size(err, name, have, a));
    const size_t need = (size_t)have;
    a->data = malloc(need ? need : 1);
    FAIL_IF(err, !a->data, GLOFND_E_MEMORY, "%.300s: no memory for %zu bytes", name, need);
    return GLOFND_OK;
}

glofnd_status gf_npy_decode(gf_error *err, const char *name, const void *bytes, size_t size, gf_npy *out) {
    const unsigned char *raw = bytes;
    size_t start = 0, length = 0;
    gf_npy a = {0};
    TRY(gf_npy_parse_prefix(err, name, raw, size, &start, &length));
    FAIL_IF(err, size - start < length, GLOFND_E_FORMAT, "%.300s: cut within the .npy header", name);
    TRY(gf_npy_parse_text(err, name, (const char *)raw + start, length, &a));
    TRY(allocate_data(err, name, size - start - length, &a));
    memcpy(a.data, raw + start + length, size - start - length);
    const glofnd_status status = gf_npy_normalize(err, name, &a);
    if (status == GLOFND_OK) *out = a;
    else gf_npy_free(&a);
    return status;
}

/* Exactly n bytes; a file that shrinks while it is read is an error like any other. */
static glofnd_status read_exactly(gf_error *err, FILE *f, const char *path, void *to, size_t n) {
    FAIL_IF(err, fread(to, 1, n, f) != n, GLOFND_E_IO, "%.300s: cannot be read: %s", path,
            ferror(f) ? strerror(errno) : "it ends early");
    return GLOFND_OK;
}

static glofnd_status read_header(gf_error *err, FILE *f, const char *path, uint64_t size, gf_npy *a, uint64_t *data_bytes) {
    unsigned char prefix[GF_NPY_PREFIX];
    const size_t n = size < sizeof prefix ? (size_t)size : sizeof prefix;
    size_t start = 0, length = 0;
    TRY(read_exactly(err, f, path, prefix, n));
    TRY(gf_npy_parse_prefix(err, path, prefix, n, &start, &length));
    FAIL_IF(err, size - start < length, GLOFND_E_FORMAT, "%.300s: cut within the .npy header", path);
    FAIL_IF(err, fseek(f, (long)start, SEEK_SET) != 0, GLOFND_E_IO, "%.300s: cannot be read: %s", path, strerror(errno));
    char *text = malloc(length ? length : 1);
    FAIL_IF(err, !text, GLOFND_E_MEMORY, "%.300s: no memory for the .npy header", path);
    glofnd_status status = read_exactly(err, f, path, text, length);
    if (status == GLOFND_OK) status = gf_npy_parse_text(err, path, text, length, a);
    free(text);
    a->at = (uint64_t)start + length;
    *data_bytes = size - start - length;
    return status;
}

static glofnd_status read_stream(gf_error *err, FILE *f, int fd, const char *path, int header_only, gf_npy *a) {
    struct stat st;
    uint64_t data_bytes = 0;
    FAIL_IF(err, fstat(fd, &st) != 0, GLOFND_E_IO, "%.300s: cannot be read: %s", path, strerror(errno));
    FAIL_IF(err, !S_ISREG(st.st_mode), GLOFND_E_IO, "%.300s: not a regular file", path);
    TRY(read_header(err, f, path, (uint64_t)st.st_size, a, &data_bytes));
    if (header_only) return check_size(err, path, data_bytes, a);
    TRY(allocate_data(err, path, data_bytes, a));
    TRY(read_exactly(err, f, path, a->data, (size_t)data_bytes));
    return gf_npy_normalize(err, path, a);
}

static glofnd_status read_file(gf_error *err, const char *path, int header_only, gf_npy *out) {
    gf_npy a = {0};
    FAIL_IF(err, !path || !out, GLOFND_E_ARGUMENT, "gf_npy_read: path and output must not be NULL");
    const int fd = gf_open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK, 0); /* a FIFO must not hang before the type is known */
    FILE *f = fd >= 0 ? gf_stream_of(fd, "r") : NULL;
    if (!f) {
        const int why = errno;
        if (fd >= 0) close(fd);
        GF_FAIL(err, GLOFND_E_IO, "%.300s: cannot be opened: %s", path, strerror(why));
    }
    const glofnd_status status = read_stream(err, f, fd, path, header_only, &a);
    fclose(f);
    if (status == GLOFND_OK) *out = a;
    else gf_npy_free(&a);
    return status;
}

glofnd_status gf_npy_read(gf_error *err, const char *path, gf_npy *out) { return read_file(err, path, 0, out); }

glofnd_status gf_npy_read_header(gf_error *err, const char *path, gf_npy *out) { return read_file(err, path, 1, out); }

/* ----- write ---------------------------------------------------------------------------------------------------- */

/* Version 1 header in `text` [256], padded so that data starts at a multiple of 64; returns its length. The longest is rank 8
 * with 19-digit extents: 56 + 8 * 21 bytes. */
static size_t format_header(char text[256], const gf_npy *a) {
    memcpy(text, "\x93NUMPY\x01\x00", 8);
    size_t n = 10 + (size_t)snprintf(text + 10, 246, "{'descr': '%s', 'fortran_order': False, 'shape': (", types[a->type].descr);
    for (int k = 0; k < a->rank; k++)
        n += (size_t)snprintf(text + n, 256 - n, "%lld%s", (long long)a->shape[k],
                              k + 1 < a->rank ? ", "
                              : a->rank == 1  ? ","
                                              : "");
    n += (size_t)snprintf(text + n, 256 - n, "), }");
    while ((n + 1) % 64) text[n++] = ' ';
    text[n++] = '\n';
    text[8] = (char)((n - 10) & 255);
    text[9] = (char)((n - 10) >> 8);
    return n;
}

static glofnd_status check_array(gf_error *err, const char *path, gf_npy *a) {
    FAIL_IF(err, a->rank < 0 || a->rank > GF_NPY_MAX_RANK, GLOFND_E_ARGUMENT, "%.300s: rank %d; expected 0 to %d", path, a->rank,
            GF_NPY_MAX_RANK);
    FAIL_IF(err, (unsigned)a->type >= sizeof types / sizeof types[0] || a->type == GF_NPY_F2, GLOFND_E_ARGUMENT,
            "%.300s: elements must be float32, float64, int64, int32 or uint8 to be written", path);
    FAIL_IF(err, gf_npy_set_count(err, path, a) != GLOFND_OK, GLOFND_E_ARGUMENT, "%.300s: shape is negative or too large", path);
    return GLOFND_OK;
}

glofnd_status gf_npy_write(gf_error *err, const char *path, const gf_npy *array) {
    char header[256];
    gf_writer w;
    FAIL_IF(err, !path || !array, GLOFND_E_ARGUMENT, "gf_npy_write: path and array must not be NULL");
    gf_npy a = *array;
    TRY(check_array(err, path, &a));
    FAIL_IF(err, !a.data && a.count > 0, GLOFND_E_ARGUMENT, "%.300s: an array of %lld elements without data", path,
            (long long)a.count);
    TRY(gf_writer_open(err, &w, path));
    gf_put(&w, header, format_header(header, &a));
    gf_put(&w, a.data, (size_t)a.count * gf_npy_type_bytes(a.type));
    return gf_writer_finish(&w);
}

glofnd_status gf_npy_write_rows(gf_error *err, const char *path, const gf_npy *array, gf_npy_fill *fill, const void *arg) {
    enum { BYTES = 1 << 22 };
    char header[256];
    gf_writer w;
    gf_npy a = *array;
    TRY(check_array(err, path, &a));
    FAIL_IF(err, a.rank < 1, GLOFND_E_ARGUMENT, "%.300s: a number has no rows", path);
    const size_t row = a.shape[0] ? (size_t)(a.count / a.shape[0]) * gf_npy_type_bytes(a.type) : 0;
    const int64_t each = row && row < BYTES ? (int64_t)(BYTES / row) : 1;
    void *some = malloc((size_t)each * row + 1);
    FAIL_IF(err, !some, GLOFND_E_MEMORY, "no memory to write '%.300s'", path);
    glofnd_status status = gf_writer_open(err, &w, path);
    if (status == GLOFND_OK) {
        gf_put(&w, header, format_header(header, &a));
        for (int64_t first = 0; row && first < a.shape[0] && w.status == GLOFND_OK; first += each) {
            const int64_t rows = a.shape[0] - first < each ? a.shape[0] - first : each;
            fill(arg, first, rows, some);
            gf_put(&w, some, (size_t)rows * row);
        }
        status = gf_writer_finish(&w);
    }
    free(some);
    return status;
}

/* safetensors.h - the weight files of the PyTorch world: a strict reader for hostile input and an atomic writer.
 *
 * Format: u64 length of a JSON header, the header, the data. The header names each tensor's type, shape and byte range; the
 * ranges must fill the data without hole or overlap, and the file ends with them. "__metadata__" holds texts.
 *
 *     gf_st_open(&err, path, &f);                              reads and checks the header; nothing else stays in memory
 *     const gf_st_tensor *t = gf_st_find(&f, "conv1.weight");
 *     gf_st_read_f32(&err, &f, t, weights, count);             any type, converted
 *     gf_st_close(&f);
 *
 * Messages name the file and the tensor, what was found and what is expected.
 */
#pragma once

#include "util/status.h"

#define GF_ST_MAX_RANK 8
#define GF_ST_MAX_HEADER ((uint64_t)1 << 24) /* bytes; some 100,000 tensors */

/* X(name in the file and enumerator, bytes of an element) */
#define GF_ST_TYPE_LIST(X) X(F32, 4) X(F16, 2) X(BF16, 2) X(F64, 8) X(I64, 8) X(I32, 4) X(I8, 1) X(U8, 1) X(BOOL, 1)

typedef enum gf_st_type {
#define GF_ST_X(name, bytes) GF_ST_##name,
    GF_ST_TYPE_LIST(GF_ST_X)
#undef GF_ST_X
} gf_st_type;

typedef struct gf_st_tensor {
    const char *name;
    gf_st_type type;
    int rank; /* 0: a scalar */
    int64_t shape[GF_ST_MAX_RANK];
    int64_t count;    /* product of shape; the writer works it out itself */
    const void *data; /* to write: [count] elements, borrowed, row-major. After gf_st_open: NULL */
    uint64_t at;      /* after gf_st_open: where its bytes start in the file */
} gf_st_tensor;

typedef struct gf_st_text {
    const char *key, *text;
} gf_st_text;

typedef struct gf_st_file {
    int fd;
    char *path;
    int64_t count, text_count;
    gf_st_tensor *tensors; /* [count] in the order of their data */
    gf_st_text *texts;     /* [text_count] of __metadata__ */
    char *names;           /* owns all names and texts */
} gf_st_file;

/* E_IO: it cannot be read or is not a regular file. E_FORMAT: something in it is not as above. On failure *out is unchanged. */
glofnd_status gf_st_open(gf_error *err, const char *path, gf_st_file *out);
void gf_st_close(gf_st_file *f);                                       /* NULL, a zeroed and a closed one are fine */
const gf_st_tensor *gf_st_find(const gf_st_file *f, const char *name); /* NULL: not there */
const char *gf_st_find_text(const gf_st_file *f, const char *key);     /* NULL: not there */

/* The tensor's elements as they are; `bytes` must be what they take. */
glofnd_status gf_st_read(gf_error *err, const gf_st_file *f, const gf_st_tensor *t, void *out, size_t bytes);
/* Converted to float32, rounded to nearest where it must be; BOOL gives 0 and 1. `count` must be the tensor's. */
glofnd_status gf_st_read_f32(gf_error *err, const gf_st_file *f, const gf_st_tensor *t, float *out, int64_t count);

#define GF_ST_CHECKSUM "glofnd_checksum" /* key of a text */
/* Compares every byte of the file with the checksum in its texts. *has: there is one. E_FORMAT: it differs. */
glofnd_status gf_st_check(gf_error *err, const gf_st_file *f, int *has);

/* Writes name, type, rank, shape and data of tensors [count], in this order, to a temporary file beside `path` that replaces it
 * only when complete. Equal arguments give equal bytes. The header is filled with blanks so that the data starts at a multiple
 * of 8; to have each tensor aligned in a mapped file, give the wide types first. texts may be NULL with text_count 0. A text
 * GF_ST_CHECKSUM, whatever it says, becomes the checksum of the file, with zeros in its place. */
glofnd_status gf_st_write(gf_error *err, const char *path, const gf_st_tensor *tensors, int64_t count, const gf_st_text *texts,
                          int64_t text_count);

size_t gf_st_type_bytes(gf_st_type type);
const char *gf_st_type_name(gf_st_type type); /* "F32", ... */

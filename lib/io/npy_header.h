/* npy_header.h - the text header of a .npy file; inside view of npy.c. */
#pragma once

#include "io/npy.h"

#define GF_NPY_PREFIX 12        /* longest fixed part: magic 6, version 2, header length 2 (v1) or 4 (v2, v3) */
#define GF_NPY_MAX_HEADER 65535 /* longest text header taken, in any version */

/* Fixed part: `bytes` holds the first `size` bytes of the file (up to GF_NPY_PREFIX are read). Gives start and length of the text
 * header. */
glofnd_status gf_npy_parse_prefix(gf_error *err, const char *name, const unsigned char *bytes, size_t size, size_t *start,
                                  size_t *length);
/* Text header: fills type, rank, shape, count, swapped and fortran of *out, and leaves data alone. */
glofnd_status gf_npy_parse_text(gf_error *err, const char *name, const char *text, size_t length, gf_npy *out);
/* count from shape, with every product checked so that count * element size fits int64_t. */
glofnd_status gf_npy_set_count(gf_error *err, const char *name, gf_npy *a);
/* Puts data that was read as it lies in the file in C order and little endian. */
glofnd_status gf_npy_normalize(gf_error *err, const char *name, gf_npy *a);

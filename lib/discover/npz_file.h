/* npz_file.h - writes .npz files as numpy.savez() does: a zip archive of .npy files, stored without compression.
 *
 *     gf_npz z;  TRY(gf_npz_open(err, &z, path));
 *     gf_npz_entry(&z, "data", "<f4", 1, (int64_t[]){n}, 4);
 *     gf_npz_put(&z, bytes, count);          as often as needed, all bytes of the array in total
 *     TRY(gf_npz_close(err, &z));            failures of all calls are reported here
 * Arrays of any size are written piece by piece (Zip64 where 32 bits do not hold a size or place). Elements are little endian.
 */
#pragma once

#include <limits.h>
#include <stdio.h>

#include "util/status.h"

enum { GF_NPZ_ENTRIES = 8, GF_NPZ_NAME = 16 };

typedef struct gf_npz_item {
    char name[GF_NPZ_NAME + 8]; /* with .npy */
    uint64_t at, size;
    uint32_t crc;
} gf_npz_item;

typedef struct gf_npz {
    FILE *f;
    char path[PATH_MAX];
    gf_npz_item item[GF_NPZ_ENTRIES];
    int items;
    uint64_t at, left; /* bytes written; bytes that the current array still needs */
    uint64_t limit;    /* sizes and places from here on take Zip64; 2^32 - 1, smaller in tests */
    int failed;        /* errno of the first failed write */
} gf_npz;

glofnd_status gf_npz_open(gf_error *err, gf_npz *z, const char *path);
/* The next array: at most GF_NPZ_ENTRIES of them, names of at most GF_NPZ_NAME characters. descr as of NumPy, without quotes. */
void gf_npz_entry(gf_npz *z, const char *name, const char *descr, int rank, const int64_t *shape, size_t element);
void gf_npz_put(gf_npz *z, const void *bytes, size_t n);
glofnd_status gf_npz_close(gf_error *err, gf_npz *z);

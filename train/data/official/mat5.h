/* mat5.h - variables of a MATLAB file of version 5 to 7, as Flowers-102, Stanford Cars, SVHN and ImageNet's devkit publish lists.
 *
 *     gf_mat m;  TRY(gf_mat_read(err, path, &m));
 *     const gf_mat_array *labels = gf_mat_find(&m, "labels");   NULL: missing
 *     ...  gf_mat_free(&m);
 *
 * Numeric, char, cell and struct arrays are read; of others only size and kind. Little endian only. Files are hostile: sizes are
 * checked against the bytes that are there before memory is taken.
 */
#pragma once

#include "util/status.h"

#define GF_MAT_FILE_MAX ((uint64_t)1 << 32)     /* bytes of the file */
#define GF_MAT_VARIABLE_MAX ((uint64_t)1 << 31) /* bytes of a variable, unpacked */
#define GF_MAT_NESTING_MAX 8
#define GF_MAT_RANK_MAX 8

typedef enum gf_mat_kind { GF_MAT_NUMBERS, GF_MAT_TEXT, GF_MAT_CELLS, GF_MAT_STRUCTS, GF_MAT_OTHER } gf_mat_kind;

typedef struct gf_mat_array {
    gf_mat_kind kind;
    char name[64]; /* of a variable; "" inside of others */
    int rank;
    int64_t dim[GF_MAT_RANK_MAX];
    int64_t n;           /* product of the dimensions; column-major order */
    int element;         /* kind of the numbers in `data`, private */
    const uint8_t *data; /* [n] numbers or characters, inside gf_mat's blocks; NULL: none */
    int element_bytes;
    int fields;                 /* structs: fields of each */
    const char *field_names;    /* [fields][field_bytes], inside gf_mat's blocks */
    int field_bytes;            /* of a name, padded by zeros */
    struct gf_mat_array *child; /* cells: [n]; structs: [n][fields] */
} gf_mat_array;

typedef struct gf_mat {
    gf_mat_array *variable; /* [variables] */
    size_t variables, capacity;
    uint8_t **block; /* [blocks] memory behind the variables */
    size_t blocks, block_capacity;
} gf_mat;

/* E_FORMAT: corrupt, or a version that is not read (7.3 is HDF5); E_UNSUPPORTED: packed, and this build is without zlib. */
glofnd_status gf_mat_read(gf_error *err, const char *path, gf_mat *out);
/* The same from memory; takes `bytes`, which are malloc'ed, also on failure. */
glofnd_status gf_mat_parse(gf_error *err, const char *name, uint8_t *bytes, size_t size, gf_mat *out);
void gf_mat_free(gf_mat *m);

const gf_mat_array *gf_mat_find(const gf_mat *m, const char *name);                    /* NULL: missing */
const gf_mat_array *gf_mat_field(const gf_mat_array *a, int64_t i, const char *field); /* of struct i; NULL: missing */
const gf_mat_array *gf_mat_cell(const gf_mat_array *a, int64_t i);                     /* NULL: no cells, or out of range */
/* Number i as an integer. 0: there is none, or it is no integer in [lo, hi]. */
int gf_mat_integer(const gf_mat_array *a, int64_t i, int64_t lo, int64_t hi, int64_t *out);
/* Characters as UTF-8, cut at `bytes`. 0: not text, or longer. */
int gf_mat_text(const gf_mat_array *a, char *out, size_t bytes);

/* row_values.h - a value for every row or sample, from a file: a .npy array, or a text with a value per line. */
#pragma once

#include "io/npy.h"

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

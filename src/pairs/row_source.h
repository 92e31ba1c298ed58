/* row_source.h - embeddings that are read when they are needed, as many as fit into memory. */
#pragma once

#include "util/status.h"

typedef struct gf_row_source {
    /* x [rows][dim], rows `first` and following ones. By one thread at a time; mostly with rising `first`. */
    glofnd_status (*read)(gf_error *err, void *user, int64_t first, int64_t rows, float *x);
    void *user;
    int64_t n, dim;
} gf_row_source;

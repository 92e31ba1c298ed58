/* row_source.h - embeddings that are read when they are needed, as many as fit into memory. */
#pragma once

#include "pairs/pairs_sweep.h"

typedef struct gf_row_source {
    /* x [rows][dim], rows `first` and following ones. By one thread at a time; mostly with rising `first`. */
    glofnd_status (*read)(gf_error *err, void *user, int64_t first, int64_t rows, float *x);
    void *user;
    int64_t n, dim;
} gf_row_source;

#define GF_ROW_PIECE 4096 /* rows that are read at once */

/* x [count][dim]: the rows row[0 .. count) of the source, in any order; they are read by rising number, neighbours together. */
glofnd_status gf_row_source_gather(gf_error *err, const gf_row_source *s, const int32_t *row, int64_t count, float *x);
/* Their unit vectors. piece: rows that are read at once, a multiple of GF_PANEL. */
glofnd_status gf_row_source_pack(gf_error *err, const gf_row_source *s, const int32_t *row, int64_t count, int64_t piece,
                                 int threads, gf_panels *out);

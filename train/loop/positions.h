/* positions.h - positional embeddings made for a different number of patches or tokens, resized as open_clip does. */
#pragma once

#include <stdint.h>

#include "util/status.h"

typedef enum gf_positions_kind {
    GF_POSITIONS_NONE, /* no positional embedding, or none that can be resized */
    GF_POSITIONS_GRID, /* of an image: the class token's, then those of a square grid: bicubic, antialiased */
    GF_POSITIONS_LINE  /* of a text: linear */
} gf_positions_kind;

/* The kind of the tensor `name`, which has `from` rows and should have `to`. */
gf_positions_kind gf_positions_of(const char *name, int64_t from, int64_t to);
/* old [from][width] to new [to][width]. */
glofnd_status gf_positions_resize(gf_error *err, gf_positions_kind kind, const float *old, int64_t from, float *new, int64_t to,
                                  int64_t width);
/* "7x7 to 10x10", "77 to 32" */
void gf_positions_text(gf_positions_kind kind, int64_t from, int64_t to, char *text, size_t bytes);

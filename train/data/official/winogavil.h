/* winogavil.h - WinoGAViL's table: a cue, images to choose from, and those that people associate with the cue. */
#pragma once

#include "util/string_list.h"

typedef struct gf_winogavil {
    gf_string_list cue;   /* [n] */
    gf_string_list image; /* names of all candidates, sorted: positions of the dataset winogavil:DIR */
    int64_t *first;       /* [n + 1] where the candidates of an instance begin */
    int32_t *candidate;   /* [first[n]] positions of images */
    uint8_t *associated;  /* [first[n]] */
} gf_winogavil;

/* The table in a folder; E_FORMAT names what is wrong. */
glofnd_status gf_winogavil_read(gf_error *err, const char *root, gf_winogavil *out);
void gf_winogavil_free(gf_winogavil *w);

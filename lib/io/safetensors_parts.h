/* safetensors_parts.h - what reading and writing of safetensors files share. */
#pragma once

#include "io/safetensors.h"

#define GF_ST_METADATA "__metadata__"

enum {
#define GF_ST_X(name, bytes) +1
    GF_ST_TYPES = 0 GF_ST_TYPE_LIST(GF_ST_X)
#undef GF_ST_X
};

/* A name of the file as messages may show it: short, and without what could steer a terminal. */
typedef struct gf_st_shown {
    char text[100];
} gf_st_shown;

gf_st_shown gf_st_show(const char *name);
/* count from shape; 0 if an extent is negative or the bytes do not fit int64_t. Extents after a zero must fit as well. */
int gf_st_set_count(gf_st_tensor *t);

/* visited.h - the folders that a walk has entered, by device and inode: links that lead to one of them are not followed again. */
#pragma once

#include "util/status.h"

typedef struct gf_folder_id {
    uint64_t device, inode; /* inode 0: an empty place */
} gf_folder_id;

typedef struct gf_visited { /* all zero: empty */
    gf_folder_id *place;    /* [capacity] a hash table; capacity is a power of two, or 0 */
    size_t used, capacity;
} gf_visited;

/* *is_new: 0 if this folder, under whatever name, was added before. E_IO: it cannot be read. */
glofnd_status gf_visited_add(gf_error *err, gf_visited *v, const char *path, int *is_new);
void gf_visited_free(gf_visited *v);

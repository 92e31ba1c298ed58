/* output_folder.h - a folder of results that is complete or absent: written under a temporary name beside its target and
 * renamed at the end; a replaced folder is removed after that. */
#pragma once

#include "util/status.h"

typedef struct gf_output_folder {
    char *target, *temp; /* temp NULL: nothing to remove */
    int force;
} gf_output_folder;

/* Checks whether gf_output_folder_open() would succeed, before a long computation. E_IO: the folder cannot be made, or `target`
 * exists and force is 0, or with force it is neither empty nor a folder of results (with a file `mark`). */
glofnd_status gf_output_folder_check(gf_error *err, const char *target, int force, const char *mark);
glofnd_status gf_output_folder_open(gf_error *err, gf_output_folder *f, const char *target, int force, const char *mark);
/* Path of a file of the unfinished folder, in `path` [PATH_MAX]. */
glofnd_status gf_output_folder_path(gf_error *err, const gf_output_folder *f, const char *name, char *path);
glofnd_status gf_output_folder_commit(gf_error *err, gf_output_folder *f);
/* Removes an uncommitted folder, and frees. Accepts a zeroed struct. */
void gf_output_folder_close(gf_output_folder *f);

/* output_folder.h - a folder of results that is complete or absent: written under a temporary name beside its target, then given
 * the target's name; a result that it replaces is removed after that.
 *
 * With `force` only a folder that is empty or holds a recognised result is replaced, and of it only the files that results have;
 * files of the user in it stay. Temporary folders that a killed call has left are removed by the next call.
 */
#pragma once

#include "util/status.h"

typedef struct gf_output_kind { /* how results look */
    const char *const *names;   /* files that a result may have, NULL at the end */
    int (*is_result)(const char *folder);
    const char *mark;   /* what tells, for messages */
    const char *folder; /* name of a folder of numbered files that a result may have, "x12.js" or "x12.jpg"; NULL: none */
} gf_output_kind;

typedef struct gf_output_folder {
    const gf_output_kind *kind;
    char *target, *temp; /* temp NULL: nothing to remove */
    int lock;            /* of temp: another call does not take it for a leftover; -1: none */
    int force;
} gf_output_folder;

/* Checks whether gf_output_folder_open() would succeed, before a long computation. E_IO: the folder cannot be made, or `target`
 * exists and force is 0, or with force it is neither empty nor a folder of results. */
glofnd_status gf_output_folder_check(gf_error *err, const char *target, int force, const gf_output_kind *kind);
glofnd_status gf_output_folder_open(gf_error *err, gf_output_folder *f, const char *target, int force,
                                    const gf_output_kind *kind);
/* Path of a file of the unfinished folder, in `path` [PATH_MAX]. */
glofnd_status gf_output_folder_path(gf_error *err, const gf_output_folder *f, const char *name, char *path);
/* There is a result under the target's name at any time: the old one, then the new one. */
glofnd_status gf_output_folder_commit(gf_error *err, gf_output_folder *f);
/* Removes an uncommitted folder, and frees. Accepts a zeroed struct. */
void gf_output_folder_close(gf_output_folder *f);

/* discover_folder.h - a folder of results that is complete or not there: written under a temporary name beside its place, and
 * renamed at the end. What is replaced is removed only after that.
 */
#ifndef GF_DISCOVER_DISCOVER_FOLDER_H
#define GF_DISCOVER_DISCOVER_FOLDER_H

#include "util/status.h"

typedef struct gf_folder {
    char *target, *temp; /* temp NULL: nothing to drop */
    int force;
} gf_folder;

/* Whether gf_folder_begin() would succeed: to know before there is something to write. E_IO where no folder can be made, and
 * where `target` exists: without force, always; with it, unless it is a folder of results (with a file `mark`) or empty. */
glofnd_status gf_folder_check(gf_error *err, const char *target, int force, const char *mark);
glofnd_status gf_folder_begin(gf_error *err, gf_folder *f, const char *target, int force, const char *mark);
/* Path of a file in the making, in `path` [PATH_MAX]. */
glofnd_status gf_folder_file(gf_error *err, const gf_folder *f, const char *name, char *path);
glofnd_status gf_folder_commit(gf_error *err, gf_folder *f);
/* Removes what was not committed, and frees. A zeroed one is fine. */
void gf_folder_close(gf_folder *f);

#endif

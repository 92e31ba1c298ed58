/* path.c - see path.h. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* PATH_MAX */
#endif
#include "util/path.h"

#include <stdio.h>

glofnd_status gf_path_join(gf_error *err, char out[PATH_MAX], const char *folder, const char *name) {
    const int n = snprintf(out, PATH_MAX, "%s/%s", folder, name);
    FAIL_IF(err, n < 0 || n >= PATH_MAX, GLOFND_E_ARGUMENT, "the path of %.60s in %.100s... is too long", name, folder);
    return GLOFND_OK;
}

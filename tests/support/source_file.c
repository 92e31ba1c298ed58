#include "support/source_file.h"

#include <stdio.h>
#include <stdlib.h>

const char *source_file(const char *name) {
    static char path[4096];
    const char *root = getenv("GLOFND_SOURCE");
    snprintf(path, sizeof path, "%s/%s", root ? root : GF_SOURCE_DIR, name);
    return path;
}

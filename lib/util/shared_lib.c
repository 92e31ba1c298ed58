/* shared_lib.c - see shared_lib.h. */
#include "util/shared_lib.h"

#include <dlfcn.h>
#include <string.h>

void *gf_shared_lib_open(const char *const *names, int global) {
    for (; *names; names++) {
        void *lib = dlopen(*names, RTLD_NOW | (global ? RTLD_GLOBAL : RTLD_LOCAL));
        if (lib) return lib;
    }
    return NULL;
}

const char *gf_shared_lib_error(void) {
    const char *text = dlerror();
    return text ? text : "it cannot be opened";
}

int gf_shared_lib_find(void *lib, const char *name, void *out) {
    void *at = dlsym(lib, name);
    memcpy(out, &at, sizeof at);
    return at != NULL;
}

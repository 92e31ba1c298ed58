/* shared_lib.c - see shared_lib.h. */
#include "cuda/pairs/shared_lib.h"

#include <dlfcn.h>
#include <string.h>

void *gf_shared_lib_open(const char *const *names) {
    for (; *names; names++) {
        void *lib = dlopen(*names, RTLD_NOW | RTLD_LOCAL);
        if (lib) return lib;
    }
    return NULL;
}

int gf_shared_lib_find(void *lib, const char *name, void *out) {
    void *at = dlsym(lib, name);
    memcpy(out, &at, sizeof at);
    return at != NULL;
}

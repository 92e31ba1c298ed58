/* version.c - version of the library, and one line on how it was built. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>

#include "cpu/kernels/cpu_kernels.h"
#include "glofnd.h"
#include "method/build_commit.h" /* written by the build: GF_BUILD_COMMIT */

#define TEXT_(x) #x
#define TEXT(x) TEXT_(x)
#if defined(__clang__)
#define COMPILER "clang " TEXT(__clang_major__) "." TEXT(__clang_minor__) "." TEXT(__clang_patchlevel__)
#elif defined(__GNUC__)
#define COMPILER "gcc " __VERSION__
#else
#define COMPILER "unknown compiler"
#endif

static char info[256];
static pthread_once_t info_once = PTHREAD_ONCE_INIT;

static void info_write(void) {
    snprintf(info, sizeof info, "glofnd %d.%d.%d, commit %s, %s %s, backends %s, cpu tiles %s", GLOFND_VERSION_MAJOR,
             GLOFND_VERSION_MINOR, GLOFND_VERSION_PATCH, GF_BUILD_COMMIT, COMPILER, GF_BUILD_TYPE, GF_BACKENDS,
             gf_cpu_kernels_get()->isa);
}

int glofnd_version_number(void) { return GLOFND_VERSION_NUMBER; }

const char *glofnd_build_info(void) {
    pthread_once(&info_once, info_write);
    return info;
}

/* machine.c - see machine.h. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "util/machine.h"

#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

/* ----- the time ----- */

static double read_clock(clockid_t which) {
    struct timespec t;
    clock_gettime(which, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

double gf_clock(void) { return read_clock(CLOCK_MONOTONIC); }

double gf_cpu_clock(void) { return read_clock(CLOCK_PROCESS_CPUTIME_ID); }

double gf_wall_clock(void) { return read_clock(CLOCK_REALTIME); }

/* ----- memory ----- */

static int64_t of_file(const char *path) {
    long long bytes = 0;
    FILE *f = fopen(path, "r");
    if (!f) return 0;
    if (fscanf(f, "%18lld", &bytes) != 1 || bytes < 0) bytes = 0; /* "max" */
    fclose(f);
    return bytes;
}

static int64_t of_process(void) {
    struct rlimit limit;
    if (getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY || limit.rlim_cur > INT64_MAX) return 0;
    return (int64_t)limit.rlim_cur;
}

int64_t gf_address_space_left(void) {
    const int64_t limit = of_process(), page = sysconf(_SC_PAGESIZE);
    const int64_t used = limit > 0 ? of_file("/proc/self/statm") : 0; /* its first number: pages of address space */
    return used > 0 && page > 0 ? limit - used * page : INT64_MAX;
}

int64_t gf_memory_limit(const char **what) {
    static const char *const names[] = {"this machine", "this container", "this process (ulimit -v)"};
    const long pages = sysconf(_SC_PHYS_PAGES), bytes = sysconf(_SC_PAGESIZE);
    const int64_t machine = pages > 0 && bytes > 0 && pages < INT64_MAX / bytes ? (int64_t)pages * bytes : 0,
                  group = of_file("/sys/fs/cgroup/memory.max");
    const int64_t limits[] = {machine, group > 0 ? group : of_file("/sys/fs/cgroup/memory/memory.limit_in_bytes"), of_process()};
    int best = 0;
    for (int i = 1; i < 3; i++)
        if (limits[i] > 0 && (limits[best] == 0 || limits[i] < limits[best])) best = i;
    if (what) *what = names[best];
    return limits[best];
}

#define HUGE_PAGE ((uintptr_t)2 << 20)

void gf_prefer_huge_pages(void *p, size_t bytes) {
#ifdef MADV_HUGEPAGE
    const uintptr_t from = ((uintptr_t)p + HUGE_PAGE - 1) / HUGE_PAGE * HUGE_PAGE,
                    to = ((uintptr_t)p + bytes) / HUGE_PAGE * HUGE_PAGE;
    if (bytes >= 2 * HUGE_PAGE && from < to) madvise((char *)p + (from - (uintptr_t)p), to - from, MADV_HUGEPAGE); /* a hint */
#else
    (void)p, (void)bytes;
#endif
}

/* ----- libraries ----- */

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

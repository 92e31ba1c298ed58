/* memory_limit.c - see memory_limit.h. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "util/memory_limit.h"

#include <stdio.h>
#include <sys/resource.h>
#include <unistd.h>

static int64_t of_machine(void) {
    const long pages = sysconf(_SC_PHYS_PAGES), bytes = sysconf(_SC_PAGESIZE);
    return pages > 0 && bytes > 0 && pages < INT64_MAX / bytes ? (int64_t)pages * bytes : 0;
}

static int64_t of_file(const char *path) {
    long long bytes = 0;
    FILE *f = fopen(path, "r");
    if (!f) return 0;
    if (fscanf(f, "%18lld", &bytes) != 1 || bytes < 0) bytes = 0; /* "max" */
    fclose(f);
    return bytes;
}

static int64_t of_container(void) {
    const int64_t now = of_file("/sys/fs/cgroup/memory.max");
    return now > 0 ? now : of_file("/sys/fs/cgroup/memory/memory.limit_in_bytes");
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
    const int64_t limits[] = {of_machine(), of_container(), of_process()};
    int best = 0;
    for (int i = 1; i < 3; i++)
        if (limits[i] > 0 && (limits[best] == 0 || limits[i] < limits[best])) best = i;
    if (what) *what = names[best];
    return limits[best];
}

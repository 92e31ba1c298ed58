/* machine.h - what the machine gives: time, memory, and libraries that are opened at run time. */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* ----- the time, in seconds ----- */

double gf_clock(void);      /* monotonic, from an arbitrary start: for durations */
double gf_cpu_clock(void);  /* that the processor has spent on this process, all threads together */
double gf_wall_clock(void); /* since 1970, as the machine's calendar has it */

/* ----- memory ----- */

/* The least of the machine's memory, the limit of its container (cgroup) and that of the process (ulimit -v), in bytes; 0:
 * unknown. *what (may be NULL): which of them, for messages: "this machine", "this container", "this process (ulimit -v)". */
int64_t gf_memory_limit(const char **what);
/* Address space that is left under ulimit -v; INT64_MAX without such a limit. */
int64_t gf_address_space_left(void);

/* Asks for large pages, for memory that was not written yet and is read again and again: fewer misses of the processor's table of
 * pages. Below 4 MB, and on systems without them, nothing happens. */
void gf_prefer_huge_pages(void *p, size_t bytes);

/* ----- libraries that are opened at run time: the program starts even if they are missing ----- */

/* The first of these names (NULL-terminated) that can be opened; NULL: none of them. Close it with dlclose. A library whose
 * plugins look for its symbols is opened with `global`. */
void *gf_shared_lib_open(const char *const *names, int global);
/* Why the last one failed on this thread: "libx.so.2: cannot open shared object file: ...". For messages, at once. */
const char *gf_shared_lib_error(void);
/* Address of `name` into *out, a pointer to a function or object; 0: the library lacks it. */
int gf_shared_lib_find(void *lib, const char *name, void *out);

/* Advice of messages about a library that was left out of this build. The static program, which is downloaded, is not
 * built again: a complete program is needed. */
#ifdef GF_STATIC_PROGRAM
#define GF_LEFT_OUT(library, package)    \
    "the static program has no " library \
    "; use the complete one, of the Debian packages, the container image or a build from source (docs/install.md)"
#else
#define GF_LEFT_OUT(library, package) \
    "this program was built without " library "; install it (Debian: " package ") and build again"
#endif

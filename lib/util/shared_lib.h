/* shared_lib.h - libraries that are opened at run time: the program starts where they are missing. */
#pragma once

/* The first of these names (NULL-terminated) that can be opened; NULL: none of them. Close it with dlclose. A library whose
 * plugins look for its symbols is opened with `global`. */
void *gf_shared_lib_open(const char *const *names, int global);
/* Why the last one failed on this thread: "libx.so.2: cannot open shared object file: ...". For messages, at once. */
const char *gf_shared_lib_error(void);
/* Address of `name` into *out, a pointer to a function or object; 0: the library lacks it. */
int gf_shared_lib_find(void *lib, const char *name, void *out);

/* shared_lib.h - libraries that are opened at run time: the program starts where they are missing. */
#pragma once

/* The first of these names (NULL-terminated) that can be opened; NULL: none of them. Close it with dlclose. */
void *gf_shared_lib_open(const char *const *names);
/* *out: the address of a function, without a cast that ISO C forbids. 0: the library has none of this name. */
int gf_shared_lib_find(void *lib, const char *name, void *out);

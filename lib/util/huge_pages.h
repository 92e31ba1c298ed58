/* huge_pages.h - large arrays that are read again and again: fewer misses of the processor's table of pages. */
#pragma once

#include <stddef.h>

/* Asks for large pages, for memory that was not written yet. Below 4 MB, and on systems without them, nothing happens. */
void gf_prefer_huge_pages(void *p, size_t bytes);

/* huge_pages.c - see huge_pages.h. */
#define _GNU_SOURCE
#include "util/huge_pages.h"

#include <stdint.h>
#include <sys/mman.h>

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

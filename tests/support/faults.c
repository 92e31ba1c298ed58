/* faults.c - see faults.h. */
#include "faults.h"

#include <errno.h>
#include <stdatomic.h>
#include <stddef.h>

static atomic_int counting; /* from the first faults_at on */
static atomic_long allocations;
static atomic_long fail_at = -1;
static atomic_int happened;

void faults_at(long k) {
    atomic_store(&allocations, 0);
    atomic_store(&happened, 0);
    atomic_store(&fail_at, k);
    atomic_store(&counting, 1);
}

int faults_end(void) {
    atomic_store(&fail_at, -1);
    return atomic_load(&happened);
}

long faults_count(void) { return atomic_load(&allocations); }

static int must_fail(void) {
    if (!atomic_load_explicit(&counting, memory_order_relaxed)) return 0;
    if (atomic_fetch_add(&allocations, 1) != atomic_load(&fail_at)) return 0;
    atomic_store(&happened, 1);
    return 1;
}

void *__real_malloc(size_t size);
void *__real_calloc(size_t n, size_t size);
void *__real_realloc(void *p, size_t size);
void *__real_aligned_alloc(size_t align, size_t size);
int __real_posix_memalign(void **out, size_t align, size_t size);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_realloc(void *p, size_t size);
void *__wrap_aligned_alloc(size_t align, size_t size);
int __wrap_posix_memalign(void **out, size_t align, size_t size);

void *__wrap_malloc(size_t size) { return must_fail() ? NULL : __real_malloc(size); }
void *__wrap_calloc(size_t n, size_t size) { return must_fail() ? NULL : __real_calloc(n, size); }
void *__wrap_realloc(void *p, size_t size) { return must_fail() ? NULL : __real_realloc(p, size); }
void *__wrap_aligned_alloc(size_t align, size_t size) { return must_fail() ? NULL : __real_aligned_alloc(align, size); }
int __wrap_posix_memalign(void **out, size_t align, size_t size) {
    return must_fail() ? ENOMEM : __real_posix_memalign(out, align, size);
}

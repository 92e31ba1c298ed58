/* pool.c - see pool.h. A short list is enough: a step has a few dozen blocks of a few sizes. */
#include "support/pool.h"

#include <stdlib.h>
#include <sys/mman.h>

#include "support/die.h"

#define BLOCKS_MAX 256
#define HUGE_PAGE ((size_t)2 << 20)

typedef struct entry {
    void *at;
    size_t bytes;
    int out; /* handed out, or waiting for the next one of its size */
} entry;

struct memory_pool {
    entry list[BLOCKS_MAX];
    int count;
    size_t live, peak;
};

memory_pool *pool_create(void) {
    memory_pool *p = calloc(1, sizeof *p);
    if (!p) die("no memory");
    return p;
}

void pool_free(memory_pool *p) {
    if (!p) return;
    for (int i = 0; i < p->count; i++) free(p->list[i].at);
    free(p);
}

/* Large blocks ask for huge pages: the passes over them are then limited by memory, not by address translation. */
static void *allocate(size_t bytes) {
    const size_t unit = bytes >= HUGE_PAGE ? HUGE_PAGE : 64, rounded = (bytes + unit - 1) / unit * unit;
    void *at = aligned_alloc(unit, rounded ? rounded : unit);
    if (!at) die("no memory for a block of %zu bytes; leave the large sizes out with --sizes, or use --no-naive", bytes);
#ifdef MADV_HUGEPAGE
    if (unit == HUGE_PAGE) madvise(at, rounded, MADV_HUGEPAGE);
#endif
    return at;
}

static entry *waiting(memory_pool *p, size_t bytes) {
    for (int i = 0; i < p->count; i++)
        if (!p->list[i].out && p->list[i].bytes == bytes) return &p->list[i];
    if (p->count == BLOCKS_MAX) die("a pool holds at most %d blocks", BLOCKS_MAX);
    entry *e = &p->list[p->count++];
    *e = (entry){allocate(bytes), bytes, 0};
    return e;
}

void *pool_take(memory_pool *p, size_t bytes) {
    entry *e = waiting(p, bytes);
    e->out = 1;
    p->live += bytes;
    if (p->live > p->peak) p->peak = p->live;
    return e->at;
}

void pool_give(memory_pool *p, void *block) {
    if (!block) return;
    for (int i = 0; i < p->count; i++) {
        if (p->list[i].at != block) continue;
        p->list[i].out = 0;
        p->live -= p->list[i].bytes;
        return;
    }
    die("a block came back to a pool it is not from");
}

size_t pool_peak(const memory_pool *p) { return p->peak; }

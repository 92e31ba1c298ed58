/* pool.h - memory as an eager framework has it: every intermediate is a block of its own, and what is given back is kept for the
 * next block of that size. After one step nothing is taken from the system any more. Live and peak bytes are those handed out,
 * not those kept.
 */
#pragma once

#include <stddef.h>

typedef struct memory_pool memory_pool;

memory_pool *pool_create(void);
void pool_free(memory_pool *p);                /* blocks still out are freed too; NULL is fine */
void *pool_take(memory_pool *p, size_t bytes); /* aligned to 64, content undefined; dies without memory. One thread at a time. */
void pool_give(memory_pool *p, void *block);   /* NULL is fine */
size_t pool_peak(const memory_pool *p);

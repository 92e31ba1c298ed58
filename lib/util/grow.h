/* grow.h - arrays that grow. */
#pragma once

#include <stddef.h>

/* Makes the array at *pointer hold at least `count` items of `bytes` bytes each. *capacity is the number of items it holds; at
 * first it is 0, and *pointer NULL. Grows to twice the count, so that adding one by one takes linear time. 1: done; 0: no memory,
 * and nothing has changed.
 *
 *     if (!gf_grow(&list->item, &list->capacity, list->count + 1, sizeof *list->item)) return 0;
 *     list->item[list->count++] = x; */
int gf_grow(void *pointer, size_t *capacity, size_t count, size_t bytes);
